"""Variant and DataValue on the wire (OPC 10000-6, 5.2.2.16 and 5.2.2.17), scalars and one-dimensional arrays."""

from __future__ import annotations

import struct
from uuid import UUID

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import ARRAY_ELEMENTS_MAX, PICOSECONDS_MAX, STRING_BYTES_MAX
from fieldbus.uadp.types import STRUCT_CODES, BuiltinType, DataValue, Scalar, Variant

_ARRAY = 0x80
_DIMENSIONS = 0x40
_TYPE_MASK = 0x3F
_FIXED = {code: struct.Struct("<" + letter) for code, letter in STRUCT_CODES.items()}
_TYPES = {int(member): member for member in BuiltinType}
_INTEGERS = frozenset("bBhHiIqQ")
_NULL = Variant(BuiltinType.NULL, None)


def decode_variant(cursor: Cursor) -> Variant:
    """One Variant. Raises ``unsupported-type``, ``unsupported-matrix``, ``variant-null-array`` or a read error."""
    at = cursor.pos
    mask = cursor.u8("Variant encoding byte")
    fixed = _FIXED.get(mask)
    if fixed is not None:  # scalar of fixed size: the common case, kept short
        start = cursor.take(fixed.size, "Variant value")
        return Variant(_TYPES[mask], fixed.unpack_from(cursor.data, start)[0])
    if mask == 0:
        return _NULL
    kind = _TYPES.get(mask & _TYPE_MASK)
    if kind is None:
        raise UadpError(
            "unsupported-type",
            found=f"built-in type {mask & _TYPE_MASK}",
            expected="Boolean … ByteString or StatusCode",
            offset=at,
        )
    if mask & _DIMENSIONS:
        raise UadpError("unsupported-matrix", found="array dimensions", expected="a scalar or 1-D array", offset=at)
    if not mask & _ARRAY:
        return Variant(kind, _decode_scalar(cursor, kind))
    if kind is BuiltinType.NULL:
        raise UadpError("variant-null-array", found="array of Null", expected="a typed array", offset=at)
    return Variant(kind, _decode_array(cursor, kind), array=True)


def _decode_scalar(cursor: Cursor, kind: BuiltinType) -> Scalar:
    if kind is BuiltinType.STRING:
        return cursor.string(STRING_BYTES_MAX, "String")
    if kind is BuiltinType.BYTESTRING:
        return cursor.byte_string(STRING_BYTES_MAX, "ByteString")
    assert kind is BuiltinType.GUID, kind
    return cursor.guid("Guid")


def _decode_array(cursor: Cursor, kind: BuiltinType) -> tuple[Scalar, ...] | None:
    at = cursor.pos
    count = cursor.i32("array length")
    if count == -1:
        return None
    if count < 0:
        raise UadpError("length-negative", found=str(count), expected="-1 or more", offset=at)
    if count > ARRAY_ELEMENTS_MAX:
        raise UadpError(
            "array-too-long",
            found=f"{count} elements",
            expected=f"at most {ARRAY_ELEMENTS_MAX}",
            offset=at,
        )
    letter = STRUCT_CODES.get(kind)
    if letter is None:
        return tuple(_decode_scalar(cursor, kind) for _ in range(count))
    start = cursor.take(count * _FIXED[kind].size, "array elements")
    return struct.unpack_from(f"<{count}{letter}", cursor.data, start)


def encode_variant(out: bytearray, variant: Variant) -> None:
    """Append one Variant. Raises UadpError ``value-type`` or ``value-range`` for what has no encoding."""
    kind = _TYPES.get(variant.type)
    if kind is None or (kind is BuiltinType.NULL and (variant.array or variant.value is not None)):
        raise _bad_value(variant.type, variant.value)
    if not variant.array:
        out.append(kind)
        if kind is not BuiltinType.NULL:
            encode_scalar(out, kind, variant.value)
        return
    out.append(kind | _ARRAY)
    values = variant.value
    if values is None:
        out += struct.pack("<i", -1)
        return
    if not isinstance(values, tuple) or len(values) > ARRAY_ELEMENTS_MAX:
        raise _bad_value(kind, values)
    out += struct.pack("<i", len(values))
    for value in values:
        encode_scalar(out, kind, value)


def encode_scalar(out: bytearray, kind: BuiltinType, value: Scalar | tuple[Scalar, ...]) -> None:
    """Append the body of one scalar of ``kind``, without a type byte (as RawData has it)."""
    letter = STRUCT_CODES.get(kind)
    if letter is not None:
        out += pack_fixed(kind, letter, value)
    elif kind is BuiltinType.GUID and isinstance(value, UUID):
        out += value.bytes_le
    elif kind in (BuiltinType.STRING, BuiltinType.BYTESTRING):
        out += pack_string(kind, value, STRING_BYTES_MAX)
    else:
        raise _bad_value(kind, value)


def pack_fixed(kind: BuiltinType, letter: str, value: Scalar | tuple[Scalar, ...]) -> bytes:
    """Bytes of one number or Boolean; a Boolean is never taken for an integer, nor a float for one."""
    if letter == "?":
        fits = isinstance(value, bool)
    elif letter in _INTEGERS:
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits:
        raise _bad_value(kind, value)
    try:
        return _FIXED[kind].pack(value)
    except (struct.error, OverflowError) as error:
        raise UadpError("value-range", found=repr(value), expected=f"a value of {kind.name}") from error


def pack_string(kind: BuiltinType, value: Scalar | tuple[Scalar, ...], maximum: int) -> bytes:
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
        raise _bad_value(kind, value)
    if len(data) > maximum:
        raise UadpError("too-long", found=f"{len(data)} bytes", expected=f"at most {maximum}")
    return struct.pack("<i", len(data)) + data


def _bad_value(kind: int, value: object) -> UadpError:
    name = kind.name if isinstance(kind, BuiltinType) else str(kind)
    return UadpError("value-type", found=type(value).__name__, expected=f"a value of built-in type {name}")


_HAS_VALUE, _HAS_STATUS, _HAS_SOURCE, _HAS_SERVER, _HAS_SOURCE_PS, _HAS_SERVER_PS = 1, 2, 4, 8, 16, 32
_RESERVED = 0xC0


def decode_data_value(cursor: Cursor) -> DataValue:
    """One DataValue. Raises ``datavalue-reserved-bits``, ``picoseconds-alone`` or an error of its Variant.

    A picosecond count of 10,000 or more is read as 9,999, as the standard orders.
    """
    at = cursor.pos
    mask = cursor.u8("DataValue encoding byte")
    if mask & _RESERVED:
        raise UadpError("datavalue-reserved-bits", found=f"{mask:#04x}", expected="bits 6, 7 zero", offset=at)
    if (mask & _HAS_SOURCE_PS and not mask & _HAS_SOURCE) or (mask & _HAS_SERVER_PS and not mask & _HAS_SERVER):
        raise UadpError(
            "picoseconds-alone", found=f"{mask:#04x}", expected="picoseconds only with their timestamp", offset=at
        )
    value = decode_variant(cursor) if mask & _HAS_VALUE else None
    status = cursor.u32("status") if mask & _HAS_STATUS else None
    source = cursor.i64("source timestamp") if mask & _HAS_SOURCE else None
    source_ps = min(cursor.u16("source picoseconds"), PICOSECONDS_MAX) if mask & _HAS_SOURCE_PS else None
    server = cursor.i64("server timestamp") if mask & _HAS_SERVER else None
    server_ps = min(cursor.u16("server picoseconds"), PICOSECONDS_MAX) if mask & _HAS_SERVER_PS else None
    return DataValue(value, status, source, source_ps, server, server_ps)


def encode_data_value(out: bytearray, value: DataValue) -> None:
    """Append one DataValue. Raises UadpError as ``encode_variant``, and ``picoseconds-alone``."""
    present = (
        value.value,
        value.status,
        value.source_ticks,
        value.server_ticks,
        value.source_picoseconds,
        value.server_picoseconds,
    )
    mask = sum(1 << bit for bit, item in enumerate(present) if item is not None)
    if (mask & _HAS_SOURCE_PS and not mask & _HAS_SOURCE) or (mask & _HAS_SERVER_PS and not mask & _HAS_SERVER):
        raise UadpError("picoseconds-alone", found=f"{mask:#04x}", expected="picoseconds with their timestamp")
    out.append(mask)
    if value.value is not None:
        encode_variant(out, value.value)
    for item, letter, maximum in (
        (value.status, "I", 0xFFFF_FFFF),
        (value.source_ticks, "q", 2**63 - 1),
        (value.source_picoseconds, "H", PICOSECONDS_MAX),
        (value.server_ticks, "q", 2**63 - 1),
        (value.server_picoseconds, "H", PICOSECONDS_MAX),
    ):
        if item is not None:
            out += pack_header(letter, item, maximum)


def pack_header(letter: str, value: int, maximum: int) -> bytes:
    """Bytes of one header integer; raises ``value-range`` outside the type or above ``maximum``."""
    try:
        if value <= maximum:
            return struct.pack("<" + letter, value)
    except struct.error:
        pass  # falls to the one report below
    raise UadpError("value-range", found=repr(value), expected=f"an integer up to {maximum}")
