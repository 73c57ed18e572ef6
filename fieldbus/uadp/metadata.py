"""DataSetMetaData (OPC 10000-14, 6.2.3.2): what is in a DataSet, and the data types its fields need."""

from __future__ import annotations

from uuid import UUID

from fieldbus.uadp.structures import ArrayOf, structure
from fieldbus.uadp.types import BuiltinType as B
from fieldbus.uadp.types import LocalizedText, NodeId, QualifiedName, Variant

NO_GUID = UUID(int=0)
NULL_VARIANT = Variant(B.NULL, None)

SCALAR, ONE_DIMENSION = -1, 1
"""ValueRank of a single value and of an array; a matrix has its number of dimensions."""

STRUCTURE, OPTIONAL_FIELDS, UNION = 0, 1, 2
"""StructureType (OPC 10000-3, 8.49); those with subtyped values (3, 4) have no RawData form."""


@structure(B.QUALIFIEDNAME, B.VARIANT)
class KeyValuePair:
    """OPC 10000-5, 12.2.23."""

    key: QualifiedName
    value: Variant = NULL_VARIANT


@structure(B.UINT32, B.UINT32)
class ConfigurationVersion:
    """6.2.3.2.6: seconds since 2000; a new major version means another layout."""

    major: int = 0
    minor: int = 0


@structure(B.STRING, B.LOCALIZEDTEXT, B.NODEID, B.INT32, ArrayOf(B.UINT32), B.UINT32, B.BOOLEAN)
class StructureField:
    """OPC 10000-3, 8.51. ``max_string_length`` in bytes, 0 unknown."""

    name: str | None
    description: LocalizedText = LocalizedText()
    data_type: NodeId = NodeId()
    value_rank: int = SCALAR
    array_dimensions: tuple[int, ...] = ()
    max_string_length: int = 0
    is_optional: bool = False


@structure(B.NODEID, B.NODEID, B.INT32, ArrayOf(StructureField))
class StructureDefinition:
    """OPC 10000-3, 8.48."""

    default_encoding_id: NodeId = NodeId()
    base_data_type: NodeId = NodeId()
    structure_type: int = STRUCTURE
    fields: tuple[StructureField, ...] = ()


@structure(B.NODEID, B.QUALIFIEDNAME, StructureDefinition)
class StructureDescription:
    """OPC 10000-5, 12.34: a structure type by its DataType NodeId."""

    data_type_id: NodeId
    name: QualifiedName = QualifiedName()
    definition: StructureDefinition = StructureDefinition()


@structure(B.INT64, B.LOCALIZEDTEXT, B.LOCALIZEDTEXT, B.STRING)
class EnumField:
    """OPC 10000-3, 8.52."""

    value: int
    display_name: LocalizedText = LocalizedText()
    description: LocalizedText = LocalizedText()
    name: str | None = None


@structure(ArrayOf(EnumField))
class EnumDefinition:
    """OPC 10000-3, 8.50."""

    fields: tuple[EnumField, ...] = ()


@structure(B.NODEID, B.QUALIFIEDNAME, EnumDefinition, B.BYTE)
class EnumDescription:
    """OPC 10000-5, 12.35."""

    data_type_id: NodeId
    name: QualifiedName = QualifiedName()
    definition: EnumDefinition = EnumDefinition()
    builtin_type: int = B.INT32


@structure(B.NODEID, B.QUALIFIEDNAME, B.NODEID, B.BYTE)
class SimpleTypeDescription:
    """OPC 10000-5, 12.36: another name for a built-in type."""

    data_type_id: NodeId
    name: QualifiedName = QualifiedName()
    base_data_type: NodeId = NodeId()
    builtin_type: int = B.NULL


@structure(
    B.STRING,
    B.LOCALIZEDTEXT,
    B.UINT16,
    B.BYTE,
    B.NODEID,
    B.INT32,
    ArrayOf(B.UINT32),
    B.UINT32,
    B.GUID,
    ArrayOf(KeyValuePair),
)
class FieldMetaData:
    """6.2.3.2.4. ``flags`` bit 0: promoted. ``max_string_length`` in bytes, 0 unknown."""

    name: str | None
    description: LocalizedText = LocalizedText()
    flags: int = 0
    builtin_type: int = B.NULL
    data_type: NodeId = NodeId()
    value_rank: int = SCALAR
    array_dimensions: tuple[int, ...] = ()
    max_string_length: int = 0
    field_id: UUID = NO_GUID
    properties: tuple[KeyValuePair, ...] = ()


@structure(
    ArrayOf(B.STRING),
    ArrayOf(StructureDescription),
    ArrayOf(EnumDescription),
    ArrayOf(SimpleTypeDescription),
    B.STRING,
    B.LOCALIZEDTEXT,
    ArrayOf(FieldMetaData),
    B.GUID,
    ConfigurationVersion,
    encoding=124,
)
class DataSetMetaData:
    """6.2.3.2.3. ``namespaces``: URIs of the namespace indices 1 … that its NodeIds use."""

    namespaces: tuple[str | None, ...] = ()
    structures: tuple[StructureDescription, ...] = ()
    enums: tuple[EnumDescription, ...] = ()
    simple_types: tuple[SimpleTypeDescription, ...] = ()
    name: str | None = None
    description: LocalizedText = LocalizedText()
    fields: tuple[FieldMetaData, ...] = ()
    class_id: UUID = NO_GUID
    version: ConfigurationVersion = ConfigurationVersion()
