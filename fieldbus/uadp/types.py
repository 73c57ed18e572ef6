"""Built-in types, Variant and DataValue of OPC 10000-6 as far as DataSet fields use them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

Scalar: TypeAlias = bool | int | float | str | bytes | UUID | None
"""One value: String and ByteString may be null (``None``); DateTime is an ``int`` of 100 ns ticks since 1601."""


class BuiltinType(IntEnum):
    """Built-in type numbers of OPC 10000-6, table 1: the supported ones."""

    NULL = 0
    BOOLEAN = 1
    SBYTE = 2
    BYTE = 3
    INT16 = 4
    UINT16 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    UINT64 = 9
    FLOAT = 10
    DOUBLE = 11
    STRING = 12
    DATETIME = 13
    GUID = 14
    BYTESTRING = 15
    STATUSCODE = 19


STRUCT_CODES: dict[int, str] = {
    BuiltinType.BOOLEAN: "?",
    BuiltinType.SBYTE: "b",
    BuiltinType.BYTE: "B",
    BuiltinType.INT16: "h",
    BuiltinType.UINT16: "H",
    BuiltinType.INT32: "i",
    BuiltinType.UINT32: "I",
    BuiltinType.INT64: "q",
    BuiltinType.UINT64: "Q",
    BuiltinType.FLOAT: "f",
    BuiltinType.DOUBLE: "d",
    BuiltinType.DATETIME: "q",
    BuiltinType.STATUSCODE: "I",
}
"""``struct`` codes of the types of fixed size (Guid is fixed too, but not a number)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A typed value. ``value`` is a scalar, or for ``array`` a tuple of scalars or ``None`` (null array)."""

    type: BuiltinType
    value: Scalar | tuple[Scalar, ...]
    array: bool = False


@dataclass(frozen=True, slots=True)
class DataValue:
    """A value with quality and times (OPC 10000-6, 5.2.2.17); ``None`` means absent on the wire.

    Ticks are 100 ns since 1601-01-01; picoseconds count 10 ps steps. An absent status means Good.
    """

    value: Variant | None = None
    status: int | None = None
    source_ticks: int | None = None
    source_picoseconds: int | None = None
    server_ticks: int | None = None
    server_picoseconds: int | None = None


Field: TypeAlias = Variant | DataValue
