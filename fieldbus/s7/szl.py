"""System state lists: CPU state (0x0424), identification (0x0011, 0x001C), diagnostic buffer (0x00A0).

Sources: Siemens, "System Software for S7-300/400: System and Standard Functions", chapters on SSL and events.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from fieldbus.cursor import Cursor
from fieldbus.s7.errors import S7Error
from fieldbus.s7.events import event_text
from fieldbus.s7.limits import SZL_BYTES_MAX, SZL_PARTS_MAX
from fieldbus.s7.times import date_and_time

MODULE_ID, COMPONENT_ID, CPU_STATE, DIAGNOSTIC_BUFFER = 0x0011, 0x001C, 0x0424, 0x00A0
_STATE_BYTES = _EVENT_BYTES = 20
_EXTRACT_MASK = 0x00FF  # without module type and number of the extract


@dataclass(frozen=True, slots=True)
class Szl:
    """A whole list: records of equal length."""

    szl_id: int
    index: int
    records: tuple[bytes, ...]


class CpuMode(StrEnum):
    """What a CPU does."""

    STOP = "stop"
    STARTUP = "startup"
    RUN = "run"
    HOLD = "hold"
    DEFECTIVE = "defective"
    NO_POWER = "no-power"
    OTHER = "other"


_MODES = {
    1: CpuMode.STOP,
    2: CpuMode.STOP,
    3: CpuMode.STOP,
    4: CpuMode.STOP,
    5: CpuMode.STARTUP,
    6: CpuMode.STARTUP,
    7: CpuMode.STARTUP,
    8: CpuMode.RUN,
    9: CpuMode.RUN,
    10: CpuMode.HOLD,
    13: CpuMode.DEFECTIVE,
    15: CpuMode.NO_POWER,
}


@dataclass(frozen=True, slots=True)
class CpuState:
    """The CPU's mode, the one before, the event that changed it, and when (Unix ns, None where the time is not
    one: a CPU whose clock was never set sends zeros)."""

    mode: CpuMode
    previous: CpuMode
    event_id: int
    event: str
    t_ns: int | None


@dataclass(frozen=True, slots=True)
class DiagnosticEntry:
    """One entry of the diagnostic buffer, newest first. ``coming``: the event begins (else it ends); ``info``: its
    ten bytes of additional information; ``t_ns`` as in CpuState."""

    event_id: int
    event: str
    coming: bool
    info: bytes
    t_ns: int | None


def assemble(parts: tuple[bytes, ...]) -> Szl:
    """The list of its parts in order. Raises S7Error ``szl-size``, ``szl-length`` (records do not fill it)."""
    if len(parts) > SZL_PARTS_MAX or sum(map(len, parts)) > SZL_BYTES_MAX:
        raise S7Error("szl-size", found=f"{len(parts)} parts", expected=f"at most {SZL_BYTES_MAX} bytes in all")
    cursor = Cursor(b"".join(parts), S7Error, "big")
    szl_id, index = cursor.u16("list id"), cursor.u16("list index")
    size, count = cursor.u16("record length"), cursor.u16("record count")
    if size * count != cursor.left or (size == 0 and count):
        found = f"{count} records of {size} bytes in {cursor.left}"
        raise S7Error("szl-length", found=found, expected="records that fill the list", offset=4)
    return Szl(szl_id, index, tuple(cursor.raw(size, "record") for _ in range(count)))


def _same(szl: Szl, wanted: int, size: int) -> None:
    if szl.szl_id & _EXTRACT_MASK != wanted & _EXTRACT_MASK:
        raise S7Error("szl-id", found=f"{szl.szl_id:#06x}", expected=f"{wanted:#06x}")
    if any(len(record) != size for record in szl.records):
        raise S7Error("szl-record", found=f"{len(szl.records[0])} bytes", expected=f"records of {size}")


def cpu_state(szl: Szl, clock: dt.tzinfo) -> CpuState:
    """The state of list 0x0424. Raises S7Error ``szl-id``, ``szl-record``."""
    _same(szl, CPU_STATE, _STATE_BYTES)
    if len(szl.records) != 1:
        raise S7Error("szl-record", found=f"{len(szl.records)} records", expected="1")
    record = szl.records[0]
    event_id, modes = int.from_bytes(record[:2], "big"), record[3]
    current, previous = (_MODES.get(code, CpuMode.OTHER) for code in (modes & 15, modes >> 4))
    return CpuState(current, previous, event_id, event_text(event_id), _time(record[12:], clock))


def diagnostic_buffer(szl: Szl, clock: dt.tzinfo) -> tuple[DiagnosticEntry, ...]:
    """The entries of list 0x00A0, newest first. Raises S7Error ``szl-id``, ``szl-record``."""
    _same(szl, DIAGNOSTIC_BUFFER, _EVENT_BYTES)
    return tuple(_entry(record, clock) for record in szl.records)


def _entry(record: bytes, clock: dt.tzinfo) -> DiagnosticEntry:
    event_id = int.from_bytes(record[:2], "big")
    text = event_text(event_id)
    return DiagnosticEntry(event_id, text, bool(event_id & 0x0100), record[2:12], _time(record[12:], clock))


def _time(data: bytes, clock: dt.tzinfo) -> int | None:
    try:
        return date_and_time(data, clock)
    except S7Error:
        return None


def order_number(szl: Szl) -> str:
    """The module's order number of list 0x0011, index 1. Raises S7Error ``szl-id``, ``szl-record``, ``szl-text``."""
    _same(szl, MODULE_ID, 28)
    return _text(szl, 1)


def names(szl: Szl) -> dict[int, str]:
    """Names of list 0x001C by index: 1 system, 2 module, 5 serial number, 7 module type … Raises S7Error."""
    _same(szl, COMPONENT_ID, 34)
    return {int.from_bytes(record[:2], "big"): _printable(record[2:]) for record in szl.records}


def _text(szl: Szl, index: int) -> str:
    for record in szl.records:
        if int.from_bytes(record[:2], "big") == index:
            return _printable(record[2:22])
    raise S7Error("szl-record", found="no such record", expected=f"index {index}")


def _printable(data: bytes) -> str:
    text = data.rstrip(b"\0 ").decode("latin-1")
    if not text.isprintable():
        raise S7Error("szl-text", found=data.hex(), expected="printable text")
    return text


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A list that is not as its id says, by the rule it breaks; its bytes are in the telegram."""

    code: str


def interpret(parts: tuple[bytes, ...], clock: dt.tzinfo) -> object:
    """The list of its parts in the form its id has: CpuState, entries, names, or the plain records."""
    try:
        szl = assemble(parts)
        if szl.szl_id == CPU_STATE:
            return cpu_state(szl, clock)
        if szl.szl_id & _EXTRACT_MASK == DIAGNOSTIC_BUFFER:
            return diagnostic_buffer(szl, clock)
        if szl.szl_id == COMPONENT_ID:
            return names(szl)
        return szl
    except S7Error as error:
        return Unreadable(error.code)


def clock_ns(data: bytes, clock: dt.tzinfo) -> int:
    """Unix ns of the clock service's ten bytes: reserved, century, DATE_AND_TIME. Raises S7Error."""
    if len(data) != 10:
        raise S7Error("clock-length", found=f"{len(data)} bytes", expected="10")
    return date_and_time(data[2:], clock)
