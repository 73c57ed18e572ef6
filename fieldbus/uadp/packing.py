"""Bytes of numbers, text and header integers, with the type and range checks every encoder shares."""

from __future__ import annotations

import struct

from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.types import STRUCT_CODES, BuiltinType

_FIXED = {code: struct.Struct("<" + letter) for code, letter in STRUCT_CODES.items()}
_INTEGERS = frozenset("bBhHiIqQ")


def pack_fixed(kind: BuiltinType, letter: str, value: object) -> bytes:
    """Bytes of one number or Boolean; a Boolean is never taken for an integer, nor a float for one."""
    if letter == "?":
        fits = isinstance(value, bool)
    elif letter in _INTEGERS:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits:
        raise value_type_error(kind, value)
    try:
        return _FIXED[kind].pack(value)
    except (struct.error, OverflowError) as error:
        raise UadpError("value-range", found=repr(value), expected=f"a value of {kind.name}") from error


def pack_string(kind: BuiltinType, value: object, maximum: int) -> bytes:
    """Int32 length and bytes of a String or ByteString; ``None`` gives length -1."""
    if value is None:
        return struct.pack("<i", -1)
    if kind is BuiltinType.STRING and isinstance(value, str):
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UadpError("value-range", found="a lone surrogate", expected="Unicode text") from error
    elif kind is BuiltinType.BYTESTRING and isinstance(value, bytes):
        data = value
    else:
        raise value_type_error(kind, value)
    if len(data) > maximum:
        raise UadpError("too-long", found=f"{len(data)} bytes", expected=f"at most {maximum}")
    return struct.pack("<i", len(data)) + data


def value_type_error(kind: int, value: object) -> UadpError:
    name = kind.name if isinstance(kind, BuiltinType) else str(kind)
    return UadpError("value-type", found=type(value).__name__, expected=f"a value of built-in type {name}")


def pack_header(letter: str, value: int, maximum: int) -> bytes:
    """Bytes of one header integer; raises ``value-range`` outside the type or above ``maximum``."""
    try:
        if value <= maximum:
            return struct.pack("<" + letter, value)
    except struct.error:
        pass  # falls to the one report below
    raise UadpError("value-range", found=repr(value), expected=f"an integer up to {maximum}")
