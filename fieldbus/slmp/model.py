"""SLMP requests and replies as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.slmp.devices import Device
from fieldbus.slmp.wire import DataCode


@dataclass(frozen=True, slots=True)
class Route:
    """Where a frame goes: network, station (PC number), module I/O, multidrop station. The default is the CPU
    that the connection is to."""

    network: int = 0
    station: int = 0xFF
    module_io: int = 0x03FF
    multidrop: int = 0


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Read ``count`` points in a row: bits one by one if ``bits``, else words (16 points of a bit device each)."""

    device: Device
    count: int
    bits: bool = False
    long: bool = False


@dataclass(frozen=True, slots=True)
class WriteWords:
    """Write words in a row."""

    device: Device
    values: tuple[int, ...]
    long: bool = False


@dataclass(frozen=True, slots=True)
class WriteBits:
    """Write bits in a row."""

    device: Device
    values: tuple[bool, ...]
    long: bool = False


@dataclass(frozen=True, slots=True)
class ReadRandom:
    """Read words and double words that are not in a row."""

    words: tuple[Device, ...]
    double_words: tuple[Device, ...] = ()
    long: bool = False


@dataclass(frozen=True, slots=True)
class WriteRandom:
    """Write words and double words that are not in a row."""

    words: tuple[tuple[Device, int], ...]
    double_words: tuple[tuple[Device, int], ...] = ()
    long: bool = False


@dataclass(frozen=True, slots=True)
class WriteRandomBits:
    """Write bits that are not in a row."""

    bits: tuple[tuple[Device, bool], ...]
    long: bool = False


@dataclass(frozen=True, slots=True)
class ReadModel:
    """Ask for the CPU model."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Ask for the same bytes back (letters and digits)."""

    data: bytes


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """Remote RUN: ``mode`` 1 or 3 (forced), ``clear`` 0 none, 1 outside the latch range, 2 all devices."""

    mode: int
    clear: int


@dataclass(frozen=True, slots=True)
class RemoteControl:
    """Remote STOP (0x1002), PAUSE (0x1003), latch clear (0x1005) or RESET (0x1006) with its mode."""

    command: int
    mode: int


@dataclass(frozen=True, slots=True)
class ClearError:
    """Turn the module's error lamp off."""


RequestBody: TypeAlias = (
    ReadBatch
    | WriteWords
    | WriteBits
    | ReadRandom
    | WriteRandom
    | WriteRandomBits
    | ReadModel
    | SelfTest
    | RemoteRun
    | RemoteControl
    | ClearError
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request frame. ``serial``: None in a 3E frame, else the number of the 4E frame. ``timer``: how long the CPU
    may take, in steps of 250 ms, 0 for ever."""

    body: RequestBody
    serial: int | None = None
    route: Route = Route()
    timer: int = 16
    data_code: DataCode = DataCode.BINARY


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What a module adds to an end code: who refused which command."""

    route: Route
    command: int
    subcommand: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply frame. ``data`` is read by ``commands.read_reply`` against its request; an end code other than 0 is
    the refusal of it, with ``error`` where the module says more."""

    end_code: int
    data: bytes = b""
    serial: int | None = None
    route: Route = Route()
    data_code: DataCode = DataCode.BINARY
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a batch read, without sign."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits of a batch read."""

    values: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class RandomWords:
    """Words and double words of a random read, without sign."""

    words: tuple[int, ...]
    double_words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CpuModel:
    """Name and code of the CPU model."""

    name: str
    code: int


@dataclass(frozen=True, slots=True)
class Echo:
    """The bytes of a self test."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Done:
    """A reply without data."""


ReplyBody: TypeAlias = Words | Bits | RandomWords | CpuModel | Echo | Done
Frame: TypeAlias = Request | Reply
