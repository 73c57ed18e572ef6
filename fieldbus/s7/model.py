"""S7 telegrams as frozen values. Field names follow the protocol's own parameter and data blocks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from fieldbus.s7.cotp import Connect, Disconnect


class Area(IntEnum):
    """Memory areas of the S7-Any pointer."""

    SYSTEM_INFO = 0x03
    SYSTEM_FLAGS = 0x05
    ANALOG_INPUTS = 0x06
    ANALOG_OUTPUTS = 0x07
    COUNTERS = 0x1C
    TIMERS = 0x1D
    PERIPHERY = 0x80
    INPUTS = 0x81
    OUTPUTS = 0x82
    FLAGS = 0x83
    DATA_BLOCK = 0x84
    INSTANCE_BLOCK = 0x85
    LOCAL = 0x86


class ItemType(IntEnum):
    """Element types of the S7-Any pointer."""

    BIT = 0x01
    BYTE = 0x02
    CHAR = 0x03
    WORD = 0x04
    INT = 0x05
    DWORD = 0x06
    DINT = 0x07
    REAL = 0x08
    DATE = 0x09
    TIME_OF_DAY = 0x0A
    TIME = 0x0B
    S5TIME = 0x0C
    DATE_AND_TIME = 0x0F
    COUNTER = 0x1C
    TIMER = 0x1D


class Transport(IntEnum):
    """How the data of one item are counted: 3 to 5 in bits, the others in bytes."""

    NULL = 0x00
    BIT = 0x03
    BYTE = 0x04
    INTEGER = 0x05
    DINTEGER = 0x06
    REAL = 0x07
    OCTETS = 0x09


@dataclass(frozen=True, slots=True)
class Item:
    """An S7-Any pointer: ``count`` elements of ``type`` from byte ``start``, bit ``bit`` of an area.

    Counters and timers are numbered, so ``start`` is their number and ``bit`` 0. ``block``: number of the data
    block, 0 in other areas.
    """

    area: Area
    start: int
    count: int
    type: ItemType = ItemType.BYTE
    block: int = 0
    bit: int = 0


@dataclass(frozen=True, slots=True)
class DataItem:
    """Data of one item. ``code`` is 0xFF in an answer that has them, 0 in a write; ``bits`` keeps a length that
    is no whole number of bytes."""

    code: int
    transport: Transport
    data: bytes
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """Setup communication: jobs in flight each way and the PDU's size in bytes."""

    jobs_calling: int
    jobs_called: int
    pdu_bytes: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Read var. Without items it is a bare function code, with which some clients probe a connection."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class ReadReply:
    """Data or return code of each item, in the request's order."""

    items: tuple[DataItem, ...]


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Write var: pointers and data of the same number."""

    items: tuple[Item, ...]
    data: tuple[DataItem, ...]


@dataclass(frozen=True, slots=True)
class WriteReply:
    """A return code for each item."""

    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlcStop:
    """PLC stop (0x29) with the service's name, ``P_PROGRAM``; its answer has no name."""

    service: str


@dataclass(frozen=True, slots=True)
class PlcControl:
    """PLC control (0x28): parameter block and service name (``P_PROGRAM`` starts); its answer has neither."""

    argument: bytes
    service: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """Upload or download of a block (functions 0x1A to 0x1F): parameters and data as sent, not interpreted."""

    function: int
    parameter: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """List or describe blocks (user data group 3): data as sent, not interpreted."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SzlRequest:
    """Read one system state list."""

    szl_id: int
    index: int


@dataclass(frozen=True, slots=True)
class SzlPart:
    """A part of a system state list as sent; ``szl.assemble`` puts parts together and reads the records."""

    data: bytes


@dataclass(frozen=True, slots=True)
class NextPart:
    """Asks for the next part of an answer."""


@dataclass(frozen=True, slots=True)
class ClockRequest:
    """Read the CPU's clock."""


@dataclass(frozen=True, slots=True)
class ClockReply:
    """The clock's ten bytes: reserved, century, DATE_AND_TIME."""

    data: bytes


@dataclass(frozen=True, slots=True)
class NoData:
    """An answer that consists of its error."""

    code: int
    transport: Transport


Body: TypeAlias = Setup | ReadRequest | ReadReply | WriteRequest | WriteReply | PlcStop | PlcControl | Transfer | None
UserBody: TypeAlias = SzlRequest | SzlPart | NextPart | ClockRequest | ClockReply | BlockInfo | NoData


@dataclass(frozen=True, slots=True)
class Job:
    """A request (ROSCTR 1)."""

    reference: int
    body: Body


@dataclass(frozen=True, slots=True)
class Ack:
    """An answer (ROSCTR 3; 2 where ``short``: without data) with the error of the whole job, 0 for none."""

    reference: int
    error: int
    body: Body
    short: bool = False


@dataclass(frozen=True, slots=True)
class UserData:
    """A service beside reading and writing (ROSCTR 7). ``unit``: number of the part; ``more`` where others follow."""

    reference: int
    reply: bool
    group: int
    function: int
    sequence: int
    body: UserBody
    unit: int = 0
    more: bool = False
    error: int = 0


Telegram: TypeAlias = Connect | Disconnect | Job | Ack | UserData
