"""Commands of SLMP and their replies (SH-080956ENG, chapter 5).

A reply does not say what it answers: ``read_reply`` needs the request. A command, or a subcommand of one, that is
not known here is refused (``command``).
"""

from __future__ import annotations

from fieldbus.slmp.devices import Device, Series, read_device, write_device
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.limits import BITS_MAX, ECHO_BYTES_MAX, NAME_BYTES, RANDOM_MAX, WORDS_MAX
from fieldbus.slmp.model import (
    Bits,
    ClearError,
    CpuModel,
    Done,
    Echo,
    RandomWords,
    ReadBatch,
    ReadModel,
    ReadRandom,
    RemoteControl,
    RemoteRun,
    Reply,
    ReplyBody,
    RequestBody,
    SelfTest,
    Words,
    WriteBits,
    WriteRandom,
    WriteRandomBits,
    WriteWords,
)
from fieldbus.slmp.wire import DataCode, Reader, Writer

READ, WRITE, READ_RANDOM, WRITE_RANDOM = 0x0401, 0x1401, 0x0403, 0x1402
MODEL, SELF_TEST, RUN, CLEAR_ERROR = 0x0101, 0x0619, 0x1001, 0x1617
STOP, PAUSE, LATCH_CLEAR, RESET = 0x1002, 0x1003, 0x1005, 0x1006
_BIT_UNITS, _LONG = 1, 2


class _Devices:
    """Reads device specifications of one request."""

    def __init__(self, reader: Reader, code: DataCode, series: Series, *, long: bool) -> None:
        self._reader, self._code, self._series, self._long = reader, code, series, long

    def one(self) -> Device:
        return read_device(self._reader, self._code, long=self._long, series=self._series)

    def many(self, count: int) -> tuple[Device, ...]:
        return tuple(self.one() for _ in range(count))

    def with_values(self, count: int, size: int) -> tuple[tuple[Device, int], ...]:
        return tuple((self.one(), self._reader.uint(size, "value")) for _ in range(count))


def read_request(reader: Reader, code: DataCode, series: Series) -> RequestBody:
    """The request behind the monitoring timer, to the end of the frame."""
    command, subcommand = reader.uint(2, "command"), reader.uint(2, "subcommand")
    body: RequestBody
    if command in (READ, WRITE, READ_RANDOM, WRITE_RANDOM):
        body = _devices(reader, code, series, command, subcommand)
    elif subcommand:
        raise _unknown(command, subcommand)
    elif command == MODEL:
        body = ReadModel()
    elif command == CLEAR_ERROR:
        body = ClearError()
    elif command == SELF_TEST:
        body = SelfTest(_echo(reader))
    elif command == RUN:
        body = RemoteRun(reader.uint(2, "mode"), reader.uint(1, "clear mode"))
        if reader.uint(1, "fixed value"):
            raise SlmpError("reserved", found="a number", expected="0 behind the clear mode")
    elif command in (STOP, PAUSE, LATCH_CLEAR, RESET):
        body = RemoteControl(command, reader.uint(2, "mode"))
    else:
        raise _unknown(command, subcommand)
    reader.done("request")
    return body


def _unknown(command: int, subcommand: int) -> SlmpError:
    return SlmpError("command", found=f"{command:04X}/{subcommand:04X}", expected="a command that is known here")


def _devices(reader: Reader, code: DataCode, series: Series, command: int, subcommand: int) -> RequestBody:
    if subcommand & ~(_BIT_UNITS | _LONG) or (command == READ_RANDOM and subcommand & _BIT_UNITS):
        raise _unknown(command, subcommand)
    bits, long = bool(subcommand & _BIT_UNITS), bool(subcommand & _LONG)
    devices = _Devices(reader, code, series, long=long)
    if command in (READ, WRITE):
        device = devices.one()
        count = _within(reader.uint(2, "points"), bits=bits)
        _check_unit(device, bits=bits)
        if command == READ:
            return ReadBatch(device, count, bits, long)
        if bits:
            return WriteBits(device, reader.bits(count, "points"), long)
        return WriteWords(device, reader.words(count, "words"), long)
    if command == WRITE_RANDOM and bits:
        pairs = devices.with_values(_random(reader.uint(1, "points")), 2 if long else 1)
        for device, value in pairs:
            _check_unit(device, bits=True)
            if value > 1:
                raise SlmpError("bit-value", found=str(value), expected="0 or 1")
        return WriteRandomBits(tuple((device, value == 1) for device, value in pairs), long)
    words, double_words = reader.uint(1, "word points"), reader.uint(1, "double word points")
    _random(words + double_words)
    if command == READ_RANDOM:
        return ReadRandom(devices.many(words), devices.many(double_words), long)
    return WriteRandom(devices.with_values(words, 2), devices.with_values(double_words, 4), long)


def _within(count: int, *, bits: bool) -> int:
    high = BITS_MAX if bits else WORDS_MAX
    if not 1 <= count <= high:
        raise SlmpError("points", found=str(count), expected=f"1 … {high}")
    return count


def _random(count: int) -> int:
    if not 1 <= count <= RANDOM_MAX:
        raise SlmpError("points", found=str(count), expected=f"1 … {RANDOM_MAX}")
    return count


def _check_unit(device: Device, *, bits: bool) -> None:
    if bits and not device.bit:
        raise SlmpError("bit-device", found=f"bits of {device.kind}", expected="a bit device")


def _echo(reader: Reader) -> bytes:
    size = reader.uint(2, "length of the test data")
    if not 1 <= size <= ECHO_BYTES_MAX:
        raise SlmpError("echo-length", found=str(size), expected=f"1 … {ECHO_BYTES_MAX}")
    data = reader.raw(size, "test data")
    if not data.isalnum():
        raise SlmpError("echo-data", found=data[:16].hex(), expected="letters and digits")
    return data


def write_request(writer: Writer, body: RequestBody, code: DataCode, series: Series) -> None:
    """Command, subcommand and data of a request."""
    match body:
        case ReadModel():
            _command(writer, MODEL, 0)
        case ClearError():
            _command(writer, CLEAR_ERROR, 0)
        case SelfTest():
            _command(writer, SELF_TEST, 0)
            writer.uint(len(body.data), 2)
            writer.raw(body.data)
        case RemoteRun():
            _command(writer, RUN, 0)
            writer.uint(body.mode, 2)
            writer.uint(body.clear, 1)
            writer.uint(0, 1)
        case RemoteControl():
            _command(writer, body.command, 0)
            writer.uint(body.mode, 2)
        case ReadBatch() | WriteWords() | WriteBits():
            _write_batch(writer, body, code, series)
        case ReadRandom() | WriteRandom() | WriteRandomBits():
            _write_random(writer, body, code, series)


def _command(writer: Writer, command: int, subcommand: int) -> None:
    writer.uint(command, 2)
    writer.uint(subcommand, 2)


def _write_batch(writer: Writer, body: ReadBatch | WriteWords | WriteBits, code: DataCode, series: Series) -> None:
    bits = isinstance(body, WriteBits) or (isinstance(body, ReadBatch) and body.bits)
    count = _within(body.count if isinstance(body, ReadBatch) else len(body.values), bits=bits)
    _check_unit(body.device, bits=bits)
    _command(writer, READ if isinstance(body, ReadBatch) else WRITE, bits * _BIT_UNITS | body.long * _LONG)
    write_device(writer, body.device, code, long=body.long, series=series)
    writer.uint(count, 2)
    if isinstance(body, WriteBits):
        writer.bits(body.values)
    elif isinstance(body, WriteWords):
        for value in body.values:
            writer.uint(value, 2)


def _write_random(
    writer: Writer, body: ReadRandom | WriteRandom | WriteRandomBits, code: DataCode, series: Series
) -> None:
    if isinstance(body, WriteRandomBits):
        _command(writer, WRITE_RANDOM, _BIT_UNITS | body.long * _LONG)
        writer.uint(_random(len(body.bits)), 1)
        for device, bit in body.bits:
            write_device(writer, device, code, long=body.long, series=series)
            writer.uint(int(bit), 2 if body.long else 1)
        return
    _random(len(body.words) + len(body.double_words))
    _command(writer, READ_RANDOM if isinstance(body, ReadRandom) else WRITE_RANDOM, body.long * _LONG)
    writer.uint(len(body.words), 1)
    writer.uint(len(body.double_words), 1)
    if isinstance(body, ReadRandom):
        for device in (*body.words, *body.double_words):
            write_device(writer, device, code, long=body.long, series=series)
        return
    for size, pairs in ((2, body.words), (4, body.double_words)):
        for device, value in pairs:
            write_device(writer, device, code, long=body.long, series=series)
            writer.uint(value, size)


def read_reply(request: RequestBody, reply: Reply) -> ReplyBody:
    """What a reply with end code 0 says to ``request``. Raises SlmpError ``truncated``, ``trailing-bytes``, …"""
    reader = Reader(reply.data, reply.data_code)
    body: ReplyBody
    match request:
        case ReadBatch(bits=True):
            body = Bits(reader.bits(request.count, "points"))
        case ReadBatch():
            body = Words(reader.words(request.count, "words"))
        case ReadRandom():
            words = reader.words(len(request.words), "words")
            body = RandomWords(words, reader.words(len(request.double_words), "double words", size=4))
        case ReadModel():
            body = _model(reader)
        case SelfTest():
            body = Echo(_echo(reader))
        case _:
            body = Done()
    reader.done("reply")
    return body


def _model(reader: Reader) -> CpuModel:
    name = reader.raw(NAME_BYTES, "CPU model")
    text = name.decode("latin-1").rstrip(" \0")
    if not text.isascii() or not text.isprintable():
        raise SlmpError("model-name", found=name.hex(), expected="printable ASCII")
    return CpuModel(text, reader.uint(2, "model code"))
