"""3E and 4E frames in binary and ASCII (SH-080956ENG, chapter 4). Strict and total."""

from __future__ import annotations

from fieldbus.slmp.commands import read_request, write_request
from fieldbus.slmp.devices import Series
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.limits import FRAME_BYTES_MAX
from fieldbus.slmp.model import ErrorInfo, Frame, Reply, Request, Route
from fieldbus.slmp.wire import DataCode, Reader, Writer

_SUBHEADERS = {0x50: (False, False), 0xD0: (True, False), 0x54: (False, True), 0xD4: (True, True)}
_ROUTE_BYTES = 5
_LENGTH_BYTES = 2


def _subheader(buffer: bytes) -> tuple[DataCode, bool, bool] | None:
    """Data code, reply?, 4E?; None if ``buffer`` is too short to say."""
    if not buffer:
        return None
    code = DataCode.BINARY if buffer[0] in _SUBHEADERS else DataCode.ASCII
    size = 2 if code is DataCode.BINARY else 4
    head = buffer[:size]
    for first, kind in _SUBHEADERS.items():
        expected = bytes((first, 0)) if code is DataCode.BINARY else f"{first:02X}00".encode("ascii")
        if head == expected:
            return code, *kind
        if len(head) < size and expected.startswith(head):
            return None
    raise SlmpError("subheader", found=head.hex(), expected="5000, D000, 5400 or D400", offset=0)


def telegram_length(buffer: bytes) -> int | None:
    """Whole length of the frame that ``buffer`` begins with, None if that needs more bytes.

    Raises SlmpError ``subheader``, ``frame-length``, ``not-hexadecimal``.
    """
    kind = _subheader(buffer)
    if kind is None:
        return None
    code, _, with_serial = kind
    before = (6 if with_serial else 2) + _ROUTE_BYTES
    unit = 1 if code is DataCode.BINARY else 2
    head = (before + _LENGTH_BYTES) * unit
    if len(buffer) < head:
        return None
    length = Reader(buffer[before * unit : head], code).uint(_LENGTH_BYTES, "length")
    if not 2 * unit <= length <= FRAME_BYTES_MAX - head:
        raise SlmpError("frame-length", found=str(length), expected=f"{2 * unit} … {FRAME_BYTES_MAX - head}")
    return head + length


def decode(data: bytes, series: Series = Series.Q) -> Frame:
    """The frame in ``data``. Raises SlmpError; ``series`` decides only what ASCII device numbers mean."""
    length = telegram_length(data)
    if length != len(data):
        raise SlmpError("frame-length", found=f"{len(data)} bytes", expected=f"{length or 'a whole frame'}")
    kind = _subheader(data)
    assert kind is not None
    code, reply, with_serial = kind
    reader = Reader(data, code)
    reader.uint(2, "subheader")
    serial = None
    if with_serial:
        serial = reader.uint(2, "serial number")
        if reader.uint(2, "reserved"):
            raise SlmpError("reserved", found="a number", expected="0 behind the serial number")
    route = _read_route(reader)
    reader.uint(_LENGTH_BYTES, "length")
    if not reply:
        timer = reader.uint(2, "monitoring timer")
        return Request(read_request(reader, code, series), serial, route, timer, code)
    end_code = reader.uint(2, "end code")
    if end_code == 0 or not reader.left:
        return Reply(end_code, reader.rest(), serial, route, code)
    error = ErrorInfo(_read_route(reader), reader.uint(2, "command"), reader.uint(2, "subcommand"))
    reader.done("error information")
    return Reply(end_code, b"", serial, route, code, error)


def _read_route(reader: Reader) -> Route:
    return Route(
        reader.uint(1, "network"), reader.uint(1, "station"), reader.uint(2, "module I/O"), reader.uint(1, "multidrop")
    )


def encode(frame: Frame, series: Series = Series.Q) -> bytes:
    """Bytes of a frame. Raises SlmpError ``value-range``, ``frame-length`` and those of devices."""
    code = frame.data_code
    body = Writer(code)
    if isinstance(frame, Request):
        body.uint(frame.timer, 2)
        write_request(body, frame.body, code, series)
    else:
        body.uint(frame.end_code, 2)
        body.raw(frame.data)
        if frame.error is not None:
            _write_route(body, frame.error.route)
            body.uint(frame.error.command, 2)
            body.uint(frame.error.subcommand, 2)
    head = Writer(code)
    first = (0xD0 if isinstance(frame, Reply) else 0x50) | (0 if frame.serial is None else 4)
    head.raw(bytes((first, 0)) if code is DataCode.BINARY else f"{first:02X}00".encode("ascii"))
    if frame.serial is not None:
        head.uint(frame.serial, 2)
        head.uint(0, 2)
    _write_route(head, frame.route)
    if len(head.out) + len(body.out) + 4 > FRAME_BYTES_MAX:
        raise SlmpError("frame-length", found=str(len(body.out)), expected=f"at most {FRAME_BYTES_MAX} in all")
    head.uint(len(body.out), 2)
    return bytes(head.out + body.out)


def _write_route(writer: Writer, route: Route) -> None:
    writer.uint(route.network, 1)
    writer.uint(route.station, 1)
    writer.uint(route.module_io, 2)
    writer.uint(route.multidrop, 1)
