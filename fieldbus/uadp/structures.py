"""Structures of OPC 10000-6, 5.2.6 as frozen dataclasses: one table says how each field is on the wire.

A null array is read as the empty one and an empty one is written as null (length -1), as other stacks do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, dataclass_transform

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import ARRAY_ELEMENTS_MAX
from fieldbus.uadp.packing import pack_header
from fieldbus.uadp.types import BuiltinType, ExtensionObject, NodeId
from fieldbus.uadp.values import decode_value, encode_scalar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array of values of a built-in type or of a structure."""

    item: BuiltinType | type


class Settings:
    """Marks a field that is an ExtensionObject of one of several structures (``allow subtypes``)."""


Wire: TypeAlias = BuiltinType | ArrayOf | type
WIRE: dict[type, tuple[Wire, ...]] = {}
"""How each field of a structure is on the wire, in order of its fields."""
_BY_ENCODING: dict[NodeId, type] = {}
_ENCODING: dict[type, NodeId] = {}


@dataclass_transform(frozen_default=True)
def structure(*wire: Wire, encoding: int | None = None) -> Callable[[type[T]], type[T]]:
    """Class decorator: a frozen dataclass, its fields on the wire as ``wire``; ``encoding``: DefaultBinary NodeId."""

    def register(cls: type[T]) -> type[T]:
        made = dataclasses.dataclass(frozen=True, slots=True)(cls)
        assert len(dataclasses.fields(made)) == len(wire), made  # type: ignore[arg-type]
        WIRE[made] = wire
        if encoding is not None:
            _BY_ENCODING[NodeId(0, encoding)] = made
            _ENCODING[made] = NodeId(0, encoding)
        return made

    return register


def read_structure(cursor: Cursor, cls: type[T]) -> T:
    """One ``cls``. Raises UadpError; memory is linear in the bytes read (no structure is without bytes)."""
    return cls(*[_read(cursor, wire) for wire in WIRE[cls]])


def read_array(cursor: Cursor, cls: type[T]) -> tuple[T, ...]:
    """Int32 length and structures. Raises ``length-negative``, ``array-too-long`` or a read error."""
    return tuple([read_structure(cursor, cls) for _ in range(read_count(cursor))])


def read_count(cursor: Cursor) -> int:
    """Length of an array, 0 where it is null."""
    at = cursor.pos
    count = cursor.i32("array length")
    if count < -1:
        raise UadpError("length-negative", found=str(count), expected="-1 or more", offset=at)
    if count > ARRAY_ELEMENTS_MAX:
        raise UadpError(
            "array-too-long", found=f"{count} elements", expected=f"at most {ARRAY_ELEMENTS_MAX}", offset=at
        )
    return max(count, 0)


def _read(cursor: Cursor, wire: Wire) -> Any:
    if isinstance(wire, BuiltinType):
        return decode_value(cursor, wire)
    if isinstance(wire, ArrayOf):
        return tuple([_read(cursor, wire.item) for _ in range(read_count(cursor))])
    if wire is Settings:
        return _read_settings(cursor)
    return read_structure(cursor, wire)


def _read_settings(cursor: Cursor) -> Any:
    """A structure that is known by its encoding, else the ExtensionObject as it is; None for the null one."""
    found = decode_value(cursor, BuiltinType.EXTENSIONOBJECT)
    assert isinstance(found, ExtensionObject)
    return open_object(found)


def open_object(found: ExtensionObject) -> Any:
    """The known structure in ``found``, None for a null object, else ``found`` itself.

    Raises UadpError where a known structure's body does not decode or does not fill it.
    """
    if found == ExtensionObject(NodeId()):
        return None
    cls = _BY_ENCODING.get(found.type_id)
    if cls is None or found.body is None or found.xml:
        return found
    inner = Cursor(found.body, 0, len(found.body))
    value: Any = read_structure(inner, cls)
    if inner.pos != inner.end:
        raise UadpError(
            "structure-size",
            found=f"{inner.end - inner.pos} bytes after a {cls.__name__}",
            expected="a body that is the structure",
        )
    return value


def write_structure(out: bytearray, value: Any) -> None:
    """Append one structure. Raises UadpError ``value-type`` or ``value-range`` for what has no encoding."""
    wires = WIRE.get(type(value))
    if wires is None:
        raise UadpError("value-type", found=type(value).__name__, expected="a structure of PubSub")
    for field, wire in zip(dataclasses.fields(value), wires, strict=True):
        _write(out, wire, getattr(value, field.name))


def write_array(out: bytearray, values: tuple[Any, ...]) -> None:
    """Append Int32 length and structures."""
    write_count(out, len(values))
    for value in values:
        write_structure(out, value)


def write_count(out: bytearray, count: int) -> None:
    out += pack_header("i", count or -1, ARRAY_ELEMENTS_MAX)


def _write(out: bytearray, wire: Wire, value: Any) -> None:
    if isinstance(wire, BuiltinType):
        encode_scalar(out, wire, value)
    elif isinstance(wire, ArrayOf):
        if not isinstance(value, tuple):
            raise UadpError("value-type", found=type(value).__name__, expected="a tuple")
        write_count(out, len(value))
        for item in value:
            _write(out, wire.item, item)
    elif wire is Settings:
        encode_scalar(out, BuiltinType.EXTENSIONOBJECT, wrap_object(value))
    elif type(value) is wire:
        write_structure(out, value)
    else:
        raise UadpError("value-type", found=type(value).__name__, expected=wire.__name__)


def wrap_object(value: Any) -> ExtensionObject:
    """The ExtensionObject that carries ``value``: a known structure, an ExtensionObject or None."""
    if value is None:
        return ExtensionObject(NodeId())
    if isinstance(value, ExtensionObject):
        return value
    encoding = _ENCODING.get(type(value))
    if encoding is None:
        raise UadpError("value-type", found=type(value).__name__, expected="a structure with a binary encoding")
    body = bytearray()
    write_structure(body, value)
    return ExtensionObject(encoding, bytes(body))
