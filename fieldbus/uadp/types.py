"""Built-in types, Variant and DataValue of OPC 10000-6 as far as PubSub uses them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias, Union
from uuid import UUID

Scalar: TypeAlias = bool | int | float | str | bytes | UUID | None
"""One plain value: String and ByteString may be null (``None``); DateTime is an ``int`` of 100 ns ticks since 1601."""


class BuiltinType(IntEnum):
    """Built-in type numbers of OPC 10000-6, table 1."""

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
    XMLELEMENT = 16
    NODEID = 17
    EXPANDEDNODEID = 18
    STATUSCODE = 19
    QUALIFIEDNAME = 20
    LOCALIZEDTEXT = 21
    EXTENSIONOBJECT = 22
    DATAVALUE = 23
    VARIANT = 24
    DIAGNOSTICINFO = 25


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

SCALAR_TYPES = frozenset(
    {*STRUCT_CODES, BuiltinType.STRING, BuiltinType.GUID, BuiltinType.BYTESTRING}  # what ``Scalar`` can hold
)


@dataclass(frozen=True, slots=True)
class NodeId:
    """Identifier of a node: numeric (int), String (str or null), Guid (UUID) or opaque (bytes)."""

    namespace: int = 0
    identifier: int | str | UUID | bytes | None = 0


@dataclass(frozen=True, slots=True)
class ExpandedNodeId:
    """A NodeId with an optional namespace URI and server index."""

    node: NodeId
    namespace_uri: str | None = None
    server_index: int | None = None


@dataclass(frozen=True, slots=True)
class QualifiedName:
    """A name with its namespace index."""

    namespace: int = 0
    name: str | None = None


@dataclass(frozen=True, slots=True)
class LocalizedText:
    """Text for people with its locale; either may be absent."""

    text: str | None = None
    locale: str | None = None


@dataclass(frozen=True, slots=True)
class ExtensionObject:
    """A structure of any type, kept as bytes: ``body`` None = no body; ``xml`` says which encoding the bytes are."""

    type_id: NodeId
    body: bytes | None = None
    xml: bool = False


@dataclass(frozen=True, slots=True)
class DiagnosticInfo:
    """What a server knows about an error (OPC 10000-6, 5.2.2.12); None = absent.

    The first four are indices into a string table that a message of a service has and a DataSet has not.
    """

    symbolic_id: int | None = None
    namespace_uri: int | None = None
    locale: int | None = None
    localized_text: int | None = None
    additional_info: str | None = None
    inner_status: int | None = None
    inner: DiagnosticInfo | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """A typed value: one value, or for ``array`` a tuple of them or ``None`` (null array).

    ``dimensions`` of a matrix, whose values are then in row-major order; ``None`` for a scalar or a plain array.
    """

    type: BuiltinType
    value: Builtin | tuple[Builtin, ...]
    array: bool = False
    dimensions: tuple[int, ...] | None = None


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
Builtin: TypeAlias = Union[
    Scalar,
    NodeId,
    ExpandedNodeId,
    QualifiedName,
    LocalizedText,
    ExtensionObject,
    DataValue,
    DiagnosticInfo,
    "Variant",
]
"""One value of any built-in type."""
