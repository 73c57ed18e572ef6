"""A capture file to one result per frame: JSON lines as recorded by tests and tools, pcap, pcapng.

A JSON line is an object with the frame as hexadecimal text under ``uadp`` or ``hex`` (one whole telegram), and may
have ``conn`` (number of its connection), ``dir`` and ``t`` or ``rx_ns`` (Unix ns). In pcap files TCP streams are put
together and cut into telegrams; a frame of another protocol on another port is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fieldbus.capture.dialogues import CipDialogue, Decoded, Dialogue, S7Dialogue, SlmpDialogue, UadpDialogue
from fieldbus.capture.errors import CaptureError
from fieldbus.capture.limits import BUFFER_BYTES_MAX, FILE_BYTES_MAX, FLOWS_MAX, LINE_BYTES_MAX
from fieldbus.capture.packets import ETHERTYPE_UADP, Datagram, EthernetPayload, Segment, payload
from fieldbus.capture.pcap import is_capture, packets
from fieldbus.capture.protocols import Protocol
from fieldbus.capture.streams import Direction, Streams
from fieldbus.cip import encapsulation
from fieldbus.errors import FieldbusError
from fieldbus.s7 import cotp
from fieldbus.s7.times import zone
from fieldbus.slmp import frame as slmp_frame
from fieldbus.slmp.devices import Series
from fieldbus.uadp import KeyRing

_DEFAULT_PORTS = {Protocol.UADP: 4840, Protocol.S7: 102, Protocol.CIP: 44_818}
_SLMP_STARTS = (b"\x50\x00", b"\xd0\x00", b"\x54\x00", b"\xd4\x00", b"5000", b"D000", b"5400", b"D400")
_LENGTH: dict[Protocol, Callable[[bytes], int | None]] = {
    Protocol.S7: cotp.telegram_length,
    Protocol.CIP: encapsulation.telegram_length,
    Protocol.SLMP: slmp_frame.telegram_length,
}


@dataclass(frozen=True, slots=True)
class Options:
    """What the frames do not say themselves. ``port``: the server's port in pcap files (default: the protocol's own,
    for SLMP any that speaks it); ``series`` of the MELSEC CPU; ``zone``: time zone of the S7 CPU's clock; ``rings``:
    keys of protected UADP messages."""

    protocol: Protocol
    port: int | None = None
    series: Series = Series.Q
    zone: str = "UTC"
    rings: tuple[KeyRing, ...] = ()


@dataclass(frozen=True, slots=True)
class FrameResult:
    """One frame: its place, and what it is or why it is refused. ``number`` counts from 1 (JSON: the line)."""

    number: int
    conn: int
    t_ns: int | None
    direction: str | None
    decoded: Decoded | FieldbusError


@dataclass(slots=True)
class _State:
    options: Options
    number: int = 0
    dialogues: dict[int, Dialogue] = field(default_factory=dict)

    def result(self, data: bytes, conn: int, t_ns: int | None, direction: str | None) -> FrameResult:
        self.number += 1
        return self.refused_or(lambda: self._dialogue(conn).read(data, t_ns), conn, t_ns, direction)

    def refused_or(
        self, read: Callable[[], Decoded], conn: int, t_ns: int | None, direction: str | None
    ) -> FrameResult:
        outcome: Decoded | FieldbusError
        try:
            outcome = read()
        except FieldbusError as error:
            outcome = error
        return FrameResult(self.number, conn, t_ns, direction, outcome)

    def failure(self, error: FieldbusError, conn: int, t_ns: int | None) -> FrameResult:
        self.number += 1
        return FrameResult(self.number, conn, t_ns, None, error)

    def _dialogue(self, conn: int) -> Dialogue:
        known = self.dialogues.get(conn)
        if known is None:
            while len(self.dialogues) >= FLOWS_MAX:
                del self.dialogues[next(iter(self.dialogues))]
            known = self.dialogues[conn] = _new_dialogue(self.options)
        return known


def _new_dialogue(options: Options) -> Dialogue:
    match options.protocol:
        case Protocol.S7:
            return S7Dialogue(zone(options.zone))
        case Protocol.CIP:
            return CipDialogue()
        case Protocol.SLMP:
            return SlmpDialogue(options.series)
        case Protocol.UADP:
            return UadpDialogue(options.rings)


def decode_file(path: Path, options: Options) -> Iterator[FrameResult]:
    """The frames of a file, in order, one at a time: memory does not grow with the file.

    Raises OSError where it cannot be read and CaptureError where it is no capture (``capture-…``, ``line-…``); what
    is wrong with a frame is its result.
    """
    _new_dialogue(options)
    if path.stat().st_size > FILE_BYTES_MAX:
        raise CaptureError("capture-size", found=f"{path.stat().st_size} bytes", expected=f"at most {FILE_BYTES_MAX}")
    with path.open("rb") as stream:
        head = stream.read(4)
        stream.seek(0)
        state = _State(options)
        yield from _from_packets(stream, state) if is_capture(head) else _from_lines(stream, state)


def _from_lines(stream: BinaryIO, state: _State) -> Iterator[FrameResult]:
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise CaptureError("line-length", found=f"line {number}", expected=f"at most {LINE_BYTES_MAX} bytes")
        if not line.strip():
            continue
        state.number = number - 1
        yield _from_line(line, number, state)


def _from_line(line: bytes, number: int, state: _State) -> FrameResult:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise CaptureError("line-format", found=f"line {number}", expected="pcap, pcapng or JSON lines") from None
    if not isinstance(entry, dict):
        raise CaptureError("line-format", found=f"line {number}", expected="a JSON object")
    text = entry.get("uadp") if state.options.protocol is Protocol.UADP and "uadp" in entry else entry.get("hex")
    conn, t_ns, direction = entry.get("conn", 0), entry.get("t", entry.get("rx_ns")), entry.get("dir")
    if not isinstance(text, str) or not _whole(conn) or not (t_ns is None or _whole(t_ns)):
        raise CaptureError("line-fields", found=f"line {number}", expected="hex, and numbers under conn and t")
    try:
        data = bytes.fromhex(text)
    except ValueError:
        raise CaptureError("line-hex", found=f"line {number}", expected="hexadecimal digits in pairs") from None
    return state.result(data, conn, t_ns, direction if isinstance(direction, str) else None)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _from_packets(stream: BinaryIO, state: _State) -> Iterator[FrameResult]:
    streams = Streams()
    for packet in packets(stream):
        carried = payload(packet.link_type, packet.data)
        if state.options.protocol is Protocol.UADP:
            data = _uadp(carried, state.options)
            if data is not None:
                yield state.result(data, 0, packet.t_ns, None)
        elif isinstance(carried, Segment) and _to_or_from(carried, state.options):
            yield from _from_segment(carried, packet.t_ns, streams, state)
        elif isinstance(carried, Datagram) and _datagram(carried, state.options):
            yield state.result(carried.data, 0, packet.t_ns, _direction(carried, state.options))


def _uadp(carried: Segment | Datagram | EthernetPayload | None, options: Options) -> bytes | None:
    if isinstance(carried, EthernetPayload) and carried.ethertype == ETHERTYPE_UADP:
        return carried.data
    port = options.port or _DEFAULT_PORTS[Protocol.UADP]
    return carried.data if isinstance(carried, Datagram) and carried.target[1] == port else None


def _port(options: Options) -> int | None:
    return options.port or _DEFAULT_PORTS.get(options.protocol)


def _to_or_from(segment: Segment, options: Options) -> bool:
    port = _port(options)
    return port is None or port in (segment.source[1], segment.target[1])


def _datagram(datagram: Datagram, options: Options) -> bool:
    if options.protocol is Protocol.S7:
        return False
    port = _port(options)
    if port is None:
        return datagram.data.startswith(_SLMP_STARTS)
    return port in (datagram.source[1], datagram.target[1])


def _direction(carried: Segment | Datagram, options: Options) -> str | None:
    port = _port(options)
    if port is None:
        return None
    return "c2s" if carried.target[1] == port else "s2c"


def _from_segment(segment: Segment, t_ns: int, streams: Streams, state: _State) -> Iterator[FrameResult]:
    side = streams.direction(segment)
    conn = side.conn
    try:
        data = streams.add(side, segment)
        if not data:
            return
        if _port(state.options) is None and not side.buffer and not data.startswith(_SLMP_STARTS):
            side.lost = True  # a connection of another protocol: nobody said which port is ours
            return
        side.buffer += data
        for telegram in _telegrams(side, _LENGTH[state.options.protocol]):
            yield state.result(telegram, conn, t_ns, _direction(segment, state.options))
    except FieldbusError as error:
        yield state.failure(error, conn, t_ns)


def _telegrams(side: Direction, length_of: Callable[[bytes], int | None]) -> Iterator[bytes]:
    """Whole telegrams at the front of the buffer. A stream that is out of step is lost from there on."""
    while side.buffer:
        try:
            length = length_of(bytes(side.buffer[:64]))
            if length is not None and length > BUFFER_BYTES_MAX:
                raise CaptureError("telegram-size", found=str(length), expected=f"at most {BUFFER_BYTES_MAX}")
        except FieldbusError:
            side.lost = True
            side.buffer.clear()
            raise
        if length is None or length > len(side.buffer):
            return
        telegram = bytes(side.buffer[:length])
        del side.buffer[:length]
        yield telegram
