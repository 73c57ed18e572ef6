"""Variant and DataValue on the wire (OPC 10000-6, 5.2.2.16 and 5.2.2.17): scalars, arrays, matrices, nested values."""

from __future__ import annotations

import math
import struct
from uuid import UUID

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.identifiers import DECODERS, ENCODERS
from fieldbus.uadp.limits import ARRAY_ELEMENTS_MAX, DEPTH_MAX, DIMENSIONS_MAX, PICOSECONDS_MAX, STRING_BYTES_MAX
from fieldbus.uadp.packing import pack_fixed, pack_header, pack_string, value_type_error
from fieldbus.uadp.types import STRUCT_CODES, Builtin, BuiltinType, DataValue, Variant

_ARRAY = 0x80
_DIMENSIONS = 0x40
_TYPE_MASK = 0x3F
_FIXED = {code: struct.Struct("<" + letter) for code, letter in STRUCT_CODES.items()}
_TYPES = {int(member): member for member in BuiltinType}
_NULL = Variant(BuiltinType.NULL, None)


def decode_variant(cursor: Cursor, depth: int = 0) -> Variant:
    """One Variant, ``depth`` levels inside others.

    Raises ``unsupported-type``, ``variant-null-array``, ``variant-in-variant``, ``array-dimensions``,
    ``nested-too-deep`` or a read error.
    """
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
            expected="Boolean … DiagnosticInfo",
            offset=at,
        )
    if not mask & _ARRAY:
        if mask & _DIMENSIONS:
            raise UadpError("array-dimensions", found="dimensions of a scalar", expected="an array", offset=at)
        if kind is BuiltinType.VARIANT:
            raise UadpError("variant-in-variant", found="a Variant as scalar", expected="an array of them", offset=at)
        return Variant(kind, decode_value(cursor, kind, depth))
    if kind is BuiltinType.NULL:
        raise UadpError("variant-null-array", found="array of Null", expected="a typed array", offset=at)
    values = decode_array(cursor, kind, depth)
    dimensions = _decode_dimensions(cursor, values) if mask & _DIMENSIONS else None
    return Variant(kind, values, True, dimensions)


def decode_value(cursor: Cursor, kind: BuiltinType, depth: int = 0) -> Builtin:
    """One value of ``kind`` without a type byte, as arrays, structures and RawData have it."""
    fixed = _FIXED.get(kind)
    if fixed is not None:
        value: Builtin = fixed.unpack_from(cursor.data, cursor.take(fixed.size, kind.name))[0]
        return value
    if kind is BuiltinType.STRING:
        return cursor.string(STRING_BYTES_MAX, "String")
    if kind is BuiltinType.BYTESTRING:
        return cursor.byte_string(STRING_BYTES_MAX, "ByteString")
    if kind is BuiltinType.GUID:
        return cursor.guid("Guid")
    if kind is BuiltinType.VARIANT or kind is BuiltinType.DATAVALUE:
        if depth >= DEPTH_MAX:
            raise UadpError(
                "nested-too-deep", found=f"{depth + 1} levels", expected=f"at most {DEPTH_MAX}", offset=cursor.pos
            )
        return (decode_variant if kind is BuiltinType.VARIANT else decode_data_value)(cursor, depth + 1)
    return DECODERS[kind](cursor)


def decode_array(cursor: Cursor, kind: BuiltinType, depth: int = 0) -> tuple[Builtin, ...] | None:
    """Int32 length and elements; -1 is null. Raises ``length-negative``, ``array-too-long``, ``truncated``."""
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
        return tuple([decode_value(cursor, kind, depth) for _ in range(count)])
    start = cursor.take(count * _FIXED[kind].size, "array elements")
    return struct.unpack_from(f"<{count}{letter}", cursor.data, start)


def _decode_dimensions(cursor: Cursor, values: tuple[Builtin, ...] | None) -> tuple[int, ...]:
    at = cursor.pos
    count = cursor.i32("number of dimensions")
    if not 2 <= count <= DIMENSIONS_MAX:
        raise UadpError("array-dimensions", found=f"{count} dimensions", expected=f"2 to {DIMENSIONS_MAX}", offset=at)
    start = cursor.take(4 * count, "array dimensions")
    dimensions: tuple[int, ...] = struct.unpack_from(f"<{count}i", cursor.data, start)
    _check_dimensions(dimensions, values, at)
    return dimensions


def _check_dimensions(
    dimensions: tuple[int, ...], values: tuple[Builtin, ...] | None, offset: int | None = None
) -> None:
    elements = len(values or ())
    if not 2 <= len(dimensions) <= DIMENSIONS_MAX or min(dimensions) < 0 or math.prod(dimensions) != elements:
        raise UadpError(
            "array-dimensions",
            found=f"{list(dimensions)} for {elements} elements",
            expected="dimensions whose product is the number of elements",
            offset=offset,
        )


def encode_variant(out: bytearray, variant: Variant) -> None:
    """Append one Variant. Raises UadpError ``value-type`` or ``value-range`` for what has no encoding."""
    kind = _TYPES.get(variant.type)
    if kind is None or (kind is BuiltinType.NULL and (variant.array or variant.value is not None)):
        raise value_type_error(variant.type, variant.value)
    if not variant.array:
        if kind is BuiltinType.VARIANT or variant.dimensions is not None:
            raise value_type_error(kind, variant.value)
        out.append(kind)
        if kind is not BuiltinType.NULL:
            encode_scalar(out, kind, variant.value)
        return
    out.append(kind | _ARRAY | (_DIMENSIONS if variant.dimensions is not None else 0))
    values = variant.value
    if values is not None and not isinstance(values, tuple):
        raise value_type_error(kind, values)
    encode_array(out, kind, values)
    if variant.dimensions is not None:
        _check_dimensions(variant.dimensions, values)
        out += struct.pack(f"<i{len(variant.dimensions)}i", len(variant.dimensions), *variant.dimensions)


def encode_array(out: bytearray, kind: BuiltinType, values: tuple[Builtin, ...] | None) -> None:
    """Append Int32 length and elements; ``None`` gives length -1."""
    if values is None:
        out += struct.pack("<i", -1)
        return
    if len(values) > ARRAY_ELEMENTS_MAX:
        raise UadpError("array-too-long", found=f"{len(values)} elements", expected=f"at most {ARRAY_ELEMENTS_MAX}")
    out += struct.pack("<i", len(values))
    for value in values:
        encode_scalar(out, kind, value)


def encode_scalar(out: bytearray, kind: BuiltinType, value: Builtin | tuple[Builtin, ...]) -> None:
    """Append the body of one value of ``kind``, without a type byte (as RawData has it)."""
    letter = STRUCT_CODES.get(kind)
    if letter is not None:
        out += pack_fixed(kind, letter, value)
    elif kind is BuiltinType.GUID and isinstance(value, UUID):
        out += value.bytes_le
    elif kind in (BuiltinType.STRING, BuiltinType.BYTESTRING):
        out += pack_string(kind, value, STRING_BYTES_MAX)
    elif kind is BuiltinType.VARIANT and isinstance(value, Variant):
        encode_variant(out, value)
    elif kind is BuiltinType.DATAVALUE and isinstance(value, DataValue):
        encode_data_value(out, value)
    elif kind in ENCODERS:
        ENCODERS[kind](out, value)
    else:
        raise value_type_error(kind, value)


_HAS_VALUE, _HAS_STATUS, _HAS_SOURCE, _HAS_SERVER, _HAS_SOURCE_PS, _HAS_SERVER_PS = 1, 2, 4, 8, 16, 32
_RESERVED = 0xC0


def decode_data_value(cursor: Cursor, depth: int = 0) -> DataValue:
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
    value = decode_variant(cursor, depth) if mask & _HAS_VALUE else None
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
