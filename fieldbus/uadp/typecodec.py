"""Values of described data types on the wire: arrays, text, structures, unions, with or without RawData's padding.

Data types are compiled once into a tree of codecs; an encoding that the metadata leaves open is refused then
(``raw-layout``), never guessed. Every value takes at least one byte, so work is linear in the bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import (
    ARRAY_ELEMENTS_MAX,
    DIMENSIONS_MAX,
    FIELDS_MAX,
    MESSAGE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    RAW_DEPTH_MAX,
)
from fieldbus.uadp.metadata import (
    OPTIONAL_FIELDS,
    SCALAR,
    STRUCTURE,
    UNION,
    DataSetMetaData,
    StructureDefinition,
    StructureField,
)
from fieldbus.uadp.packing import pack_header
from fieldbus.uadp.types import STRUCT_CODES, Builtin, BuiltinType, NodeId
from fieldbus.uadp.values import decode_value, encode_scalar

RawValue: TypeAlias = "Builtin | tuple[RawValue, ...] | RawMatrix | dict[str, RawValue]"
"""One field: a value, an array (tuple), a matrix, or a structure by field name (an absent optional field is None)."""

_GUID_BYTES = 16
_TEXT = (BuiltinType.STRING, BuiltinType.BYTESTRING)
_SUBTYPES = {
    29: BuiltinType.INT32,  # Enumeration
    288: BuiltinType.UINT32,  # IntegerId
    289: BuiltinType.UINT32,  # Counter
    290: BuiltinType.DOUBLE,  # Duration
    291: BuiltinType.STRING,  # NumericRange
    294: BuiltinType.DATETIME,  # UtcTime
    295: BuiltinType.STRING,  # LocaleId
    20998: BuiltinType.UINT32,  # VersionTime
}
"""Data types of namespace 0 that are another name for a built-in one, as fields of structures use them."""


@dataclass(frozen=True, slots=True)
class RawMatrix:
    """A matrix in row-major order."""

    dimensions: tuple[int, ...]
    values: tuple[RawValue, ...]


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads and writes one kind of value; ``size`` in bytes where every value takes the same, else None."""

    size: int | None
    read: Callable[[Cursor], RawValue]
    write: Callable[[bytearray, RawValue], None]
    height: int = 0  # structures inside one another


def _bounded(codec: Codec) -> Codec:
    if (codec.size or 0) > PAYLOAD_BYTES_MAX or codec.height > RAW_DEPTH_MAX:
        raise open_layout(
            f"a value of {codec.size} bytes, {codec.height} structures deep",
            f"at most {PAYLOAD_BYTES_MAX} bytes and {RAW_DEPTH_MAX} levels",
        )
    return codec


def open_layout(found: str, expected: str) -> UadpError:
    return UadpError("raw-layout", found=found, expected=expected, hint="RawData needs complete DataSetMetaData")


class Compiler:
    """Codecs of the data types that the metadata describes; each structure is compiled once.

    ``padded``: as RawData has them, every field at its fixed place; else as a structure is anywhere else.
    """

    def __init__(self, metadata: DataSetMetaData, *, padded: bool) -> None:
        self._padded = padded
        self._structures = {item.data_type_id: item.definition for item in metadata.structures}
        self._simple = {item.data_type_id: item.builtin_type for item in metadata.simple_types}
        self._simple |= {item.data_type_id: item.builtin_type for item in metadata.enums}
        self._done: dict[NodeId, Codec] = {}
        self._open: set[NodeId] = set()

    def builtin_or_type(self, builtin: int, data_type: NodeId) -> NodeId:
        """The type that decides the encoding: a described structure, else the built-in type the field names."""
        if data_type in self._structures:
            return data_type
        return NodeId(0, builtin)

    def field(
        self, data_type: NodeId, rank: int, dimensions: tuple[int, ...], max_string_length: int, depth: int
    ) -> Codec:
        """The codec of a field by its type, ValueRank, ArrayDimensions and MaxStringLength. Raises ``raw-layout``."""
        item = self._item(data_type, max_string_length, depth)
        if rank == SCALAR:
            return _bounded(item)
        if not self._padded:
            dimensions = ()
        if not 1 <= rank <= DIMENSIONS_MAX or (dimensions and len(dimensions) != rank):
            raise open_layout(f"value rank {rank} with dimensions {list(dimensions)}", "a scalar or a known rank")
        return _bounded(_array(item, dimensions) if rank == 1 else _matrix(item, rank, dimensions))

    def _item(self, data_type: NodeId, max_string_length: int, depth: int) -> Codec:
        definition = self._structures.get(data_type)
        if definition is not None:
            return self._structure(data_type, definition, depth)
        number = self._simple.get(data_type)
        if number is None and data_type.namespace == 0 and isinstance(data_type.identifier, int):
            number = _SUBTYPES.get(data_type.identifier, data_type.identifier)
        excluded = {BuiltinType.NULL}
        if self._padded:
            excluded |= {BuiltinType.EXTENSIONOBJECT, BuiltinType.DIAGNOSTICINFO}
        if number not in set(BuiltinType) - excluded:
            raise open_layout(f"data type {data_type}", "a built-in type or one that the metadata describes")
        kind = BuiltinType(number)
        return _text(kind, max_string_length) if self._padded and kind in _TEXT and max_string_length else _plain(kind)

    def _structure(self, data_type: NodeId, definition: StructureDefinition, depth: int) -> Codec:
        done = self._done.get(data_type)
        if done is not None:
            return done
        if data_type in self._open or depth >= RAW_DEPTH_MAX:
            raise open_layout(f"structure {data_type} inside itself or too deep", f"at most {RAW_DEPTH_MAX} levels")
        names = [item.name or "" for item in definition.fields]
        if not names or len(set(names)) != len(names) or len(names) > FIELDS_MAX:
            raise open_layout(f"structure {data_type} with fields {names[:3]}", "fields with distinct names")
        self._open.add(data_type)
        members = tuple([self._member(item, depth) for item in definition.fields])
        self._open.discard(data_type)
        made = _combine(definition, names, members, padded=self._padded)
        codec = _bounded(replace(made, height=1 + max([member.height for member in members])))
        self._done[data_type] = codec
        return codec

    def _member(self, item: StructureField, depth: int) -> Codec:
        return self.field(item.data_type, item.value_rank, item.array_dimensions, item.max_string_length, depth + 1)

    def structure(self, data_type: NodeId) -> Codec:
        """The codec of a described structure."""
        return self._structure(data_type, self._structures[data_type], 0)


def _combine(definition: StructureDefinition, names: list[str], members: tuple[Codec, ...], *, padded: bool) -> Codec:
    kind = definition.structure_type
    if kind == STRUCTURE:
        return _plain_structure(names, members)
    sizes = [codec.size for codec in members]
    optional = [item.is_optional for item in definition.fields]
    if kind == OPTIONAL_FIELDS and sum(optional) <= 32:
        if padded and any(may and size is None for may, size in zip(optional, sizes, strict=True)):
            raise open_layout("an optional field of variable size", "a fixed size, so that its absence can be padded")
        return _optional_structure(names, members, optional, padded=padded)
    if kind == UNION:
        if not padded:
            return _union(names, members, None)
        if None in sizes:
            raise open_layout("a union with a field of variable size", "fields of fixed size")
        return _union(names, members, max([size for size in sizes if size is not None]))
    raise open_layout(f"structure type {kind}", "a structure, one with optional fields, or a union")


def _plain(kind: BuiltinType) -> Codec:
    letter = STRUCT_CODES.get(kind)
    size = struct.calcsize("<" + letter) if letter else (_GUID_BYTES if kind is BuiltinType.GUID else None)

    def write(out: bytearray, value: RawValue) -> None:
        if isinstance(value, tuple | dict | RawMatrix):
            raise UadpError("value-type", found=type(value).__name__, expected=kind.name)
        encode_scalar(out, kind, value)

    return Codec(size, lambda cursor: decode_value(cursor, kind), write)


def _text(kind: BuiltinType, length: int) -> Codec:
    """String or ByteString that always takes its maximum size: a shorter one is padded with zeros."""
    if length > MESSAGE_BYTES_MAX:
        raise open_layout(f"MaxStringLength {length}", f"at most {MESSAGE_BYTES_MAX}")
    size = 4 + length
    plain = _plain(kind)

    def read(cursor: Cursor) -> RawValue:
        at = cursor.take(size, kind.name)
        inner = Cursor(cursor.data, at, at + size)
        value = plain.read(inner)
        only_zeros(inner)
        return value

    def write(out: bytearray, value: RawValue) -> None:
        start = len(out)
        plain.write(out, value)
        if len(out) - start > size:
            raise UadpError("too-long", found=f"{len(out) - start - 4} bytes", expected=f"at most {length}")
        out += bytes(size - (len(out) - start))

    return Codec(size, read, write)


def only_zeros(inner: Cursor) -> None:
    at = inner.pos
    if inner.rest().strip(b"\x00"):
        raise UadpError("raw-padding", found="other bytes", expected="zeros up to the declared size", offset=at)


def _array(item: Codec, dimensions: tuple[int, ...]) -> Codec:
    """Int32 length and elements; with a known maximum, padded to it (elements must have a fixed size then)."""
    maximum = dimensions[0] if dimensions and dimensions[0] else None
    if maximum is not None and (maximum > ARRAY_ELEMENTS_MAX or item.size is None):
        raise open_layout(f"an array of {maximum} elements of variable size or too many", "elements of fixed size")
    limit = maximum or ARRAY_ELEMENTS_MAX
    size = None if maximum is None or item.size is None else 4 + maximum * item.size

    def read(cursor: Cursor) -> RawValue:
        if size is not None:
            at = cursor.take(size, "array")
            inner = Cursor(cursor.data, at, at + size)
        else:
            inner = cursor
        start = inner.pos
        count = inner.i32("array length")
        if not -1 <= count <= limit:
            raise UadpError("array-too-long", found=f"{count} elements", expected=f"-1 … {limit}", offset=start)
        values = tuple([item.read(inner) for _ in range(max(count, 0))])
        if size is not None:
            only_zeros(inner)
        return values if count >= 0 else None

    def write(out: bytearray, value: RawValue) -> None:
        start = len(out)
        if value is not None and not isinstance(value, tuple):
            raise UadpError("value-type", found=type(value).__name__, expected="an array")
        out += pack_header("i", -1 if value is None else len(value), limit)
        for element in value or ():
            item.write(out, element)
        if size is not None:
            out += bytes(size - (len(out) - start))

    return Codec(size, read, write, item.height)


def _matrix(item: Codec, rank: int, dimensions: tuple[int, ...]) -> Codec:
    """Inline matrix of a structure field (OPC 10000-6, 5.2.5): dimensions as an array, then the elements.

    Where its padding would go is not said for each dimension: with maxima, only the full size is taken.
    """
    fixed = dimensions if dimensions and all(dimensions) else None
    if fixed is not None and (math.prod(fixed) > ARRAY_ELEMENTS_MAX or item.size is None):
        raise open_layout(f"a matrix {list(fixed)}", f"at most {ARRAY_ELEMENTS_MAX} elements of fixed size")
    size = None if fixed is None or item.size is None else 4 + 4 * rank + math.prod(fixed) * item.size

    def check(found: tuple[int, ...], offset: int | None) -> int:
        elements = math.prod(found) if min(found, default=-1) >= 0 else -1
        if len(found) != rank or not 0 <= elements <= ARRAY_ELEMENTS_MAX or (fixed is not None and found != fixed):
            raise UadpError(
                "array-dimensions",
                found=str(list(found)),
                expected=str(list(fixed)) if fixed is not None else f"{rank} dimensions",
                offset=offset,
            )
        return elements

    def read(cursor: Cursor) -> RawValue:
        at = cursor.pos
        if cursor.i32("number of dimensions") != rank:
            raise UadpError("array-dimensions", found="another number", expected=f"{rank} dimensions", offset=at)
        found = struct.unpack_from(f"<{rank}i", cursor.data, cursor.take(4 * rank, "dimensions"))
        return RawMatrix(found, tuple([item.read(cursor) for _ in range(check(found, at))]))

    def write(out: bytearray, value: RawValue) -> None:
        if not isinstance(value, RawMatrix) or len(value.values) != check(value.dimensions, None):
            raise UadpError("value-type", found=type(value).__name__, expected="a matrix with all its elements")
        out += struct.pack(f"<i{rank}i", rank, *value.dimensions)
        for element in value.values:
            item.write(out, element)

    return Codec(size, read, write, item.height)


def _members(value: RawValue, names: list[str]) -> dict[str, RawValue]:
    if not isinstance(value, dict) or set(value) != set(names):
        raise UadpError("value-type", found=type(value).__name__, expected=f"a structure of {names[:3]} …")
    return value


def _plain_structure(names: list[str], members: tuple[Codec, ...]) -> Codec:
    sizes = [codec.size for codec in members]

    def write(out: bytearray, value: RawValue) -> None:
        found = _members(value, names)
        for name, codec in zip(names, members, strict=True):
            codec.write(out, found[name])

    return Codec(
        None if None in sizes else sum([size for size in sizes if size is not None]),
        lambda cursor: {name: codec.read(cursor) for name, codec in zip(names, members, strict=True)},
        write,
    )


def _optional_structure(names: list[str], members: tuple[Codec, ...], optional: list[bool], *, padded: bool) -> Codec:
    """EncodingMask, then the fields; an absent one, where ``padded``, as zeros of its size."""
    gaps = [(codec.size or 0) if padded else 0 for codec in members]
    sizes = [codec.size for codec in members]
    bits = [sum(optional[:index]) if may else None for index, may in enumerate(optional)]
    rows = list(zip(names, members, bits, gaps, strict=True))

    def read(cursor: Cursor) -> RawValue:
        at = cursor.pos
        mask = cursor.u32("EncodingMask")
        if mask >> sum(optional):
            raise UadpError("encoding-mask", found=f"{mask:#x}", expected=f"{sum(optional)} bits", offset=at)
        value: dict[str, RawValue] = {}
        for name, codec, bit, gap in rows:
            if bit is None or mask >> bit & 1:
                value[name] = codec.read(cursor)
            else:
                start = cursor.take(gap, "an absent field")
                only_zeros(Cursor(cursor.data, start, cursor.pos))
                value[name] = None
        return value

    def write(out: bytearray, value: RawValue) -> None:
        found = _members(value, names)
        out += struct.pack(
            "<I", sum([1 << bit for name, _, bit, _ in rows if bit is not None and found[name] is not None])
        )
        for name, codec, bit, gap in rows:
            if bit is not None and found[name] is None:
                out += bytes(gap)
            else:
                codec.write(out, found[name])

    fixed = padded and None not in sizes
    return Codec(4 + sum([size for size in sizes if size is not None]) if fixed else None, read, write)


def _union(names: list[str], members: tuple[Codec, ...], largest: int | None) -> Codec:
    """SwitchField (0 none, else the number of the field), then the field, padded to the ``largest`` where known."""

    def read(cursor: Cursor) -> RawValue:
        at = cursor.pos
        if largest is not None:
            cursor.take(4 + largest, "union")
        inner = Cursor(cursor.data, at, at + 4 + largest) if largest is not None else cursor
        switch = inner.u32("SwitchField")
        if switch > len(members):
            raise UadpError("union-switch", found=str(switch), expected=f"at most {len(members)}", offset=at)
        value: RawValue = {names[switch - 1]: members[switch - 1].read(inner)} if switch else {}
        if largest is not None:
            only_zeros(inner)
        return value

    def write(out: bytearray, value: RawValue) -> None:
        if not isinstance(value, dict) or len(value) > 1 or not set(value) <= set(names):
            raise UadpError("value-type", found=type(value).__name__, expected=f"at most one of {names[:3]} …")
        start = len(out)
        chosen = [(names.index(name) + 1, field) for name, field in value.items()]
        out += struct.pack("<I", chosen[0][0] if chosen else 0)
        for number, field in chosen:
            members[number - 1].write(out, field)
        if largest is not None:
            out += bytes(4 + largest - (len(out) - start))

    return Codec(4 + largest if largest is not None else None, read, write)
