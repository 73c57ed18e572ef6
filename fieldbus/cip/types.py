"""Elementary types of Logix tags (Rockwell 1756-PM020, "CIP data types") and values between bytes and Python."""

from __future__ import annotations

import math
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from fieldbus.cip.errors import CipError

Value: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Elementary:
    """A type: code, ``struct`` letter, bytes of one element. A DWORD element is 32 packed BOOLs."""

    name: str
    code: int
    letter: str
    size: int


_ALL = (
    Elementary("BOOL", 0xC1, "B", 1),
    Elementary("SINT", 0xC2, "b", 1),
    Elementary("INT", 0xC3, "h", 2),
    Elementary("DINT", 0xC4, "i", 4),
    Elementary("LINT", 0xC5, "q", 8),
    Elementary("USINT", 0xC6, "B", 1),
    Elementary("UINT", 0xC7, "H", 2),
    Elementary("UDINT", 0xC8, "I", 4),
    Elementary("ULINT", 0xC9, "Q", 8),
    Elementary("REAL", 0xCA, "f", 4),
    Elementary("LREAL", 0xCB, "d", 8),
    Elementary("BYTE", 0xD1, "B", 1),
    Elementary("WORD", 0xD2, "H", 2),
    Elementary("DWORD", 0xD3, "I", 4),
    Elementary("LWORD", 0xD4, "Q", 8),
)
BY_CODE = {kind.code: kind for kind in _ALL}
BY_NAME = {kind.name: kind for kind in _ALL}
STRUCTURE = 0x02A0
"""Type code of a structure in read and write services; its handle follows."""

_FLOAT32_MAX = 3.4028234663852886e38


def elementary(code: int) -> Elementary:
    """The type of ``code``; raises CipError ``type-unknown``."""
    kind = BY_CODE.get(code)
    if kind is None:
        raise CipError("type-unknown", found=f"type {code:#06x}", expected="an elementary type of Logix tags")
    return kind


def decode_values(kind: Elementary, data: bytes) -> tuple[Value, ...]:
    """Elements in a row. Raises CipError ``data-length``, ``bool-value`` (a BOOL is 0, 1 or 0xFF)."""
    if len(data) % kind.size:
        raise CipError("data-length", found=f"{len(data)} bytes", expected=f"whole elements of {kind.size}")
    values: tuple[Value, ...] = Struct(f"<{len(data) // kind.size}{kind.letter}").unpack(data)
    if kind.name == "BOOL":
        if not set(data) <= {0, 1, 0xFF}:
            raise CipError("bool-value", found=data[:16].hex(), expected="00, 01 or ff")
        return tuple(bool(value) for value in values)
    return values


def packed_bools(data: bytes) -> tuple[bool, ...]:
    """The BOOLs of DWORD elements, lowest bit first. Raises CipError ``data-length``."""
    if len(data) % 4:
        raise CipError("data-length", found=f"{len(data)} bytes", expected="whole DWORDs")
    return tuple(bool(byte >> bit & 1) for byte in data for bit in range(8))


def encode_value(kind: Elementary, value: Value) -> bytes:
    """One element; exact types only. Raises CipError ``value-type``, ``value-range`` (NaN, infinity too)."""
    if kind.name == "BOOL":
        if not isinstance(value, bool):
            raise _wrong(kind, value)
        return b"\x01" if value else b"\x00"
    if kind.letter in "fd":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(kind, value)
        number = float(value)
        if not math.isfinite(number) or (kind.letter == "f" and abs(number) > _FLOAT32_MAX):
            raise CipError("value-range", found=repr(value), expected=f"a finite {kind.name}")
        return Struct("<" + kind.letter).pack(number)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(kind, value)
    signed = kind.letter.islower()
    low, high = (-(1 << 8 * kind.size - 1), (1 << 8 * kind.size - 1) - 1) if signed else (0, (1 << 8 * kind.size) - 1)
    if not low <= value <= high:
        raise CipError("value-range", found=str(value), expected=f"{low} … {high} for {kind.name}")
    return value.to_bytes(kind.size, "little", signed=signed)


def _wrong(kind: Elementary, value: object) -> CipError:
    return CipError("value-type", found=type(value).__name__, expected=kind.name)
