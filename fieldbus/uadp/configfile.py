"""The standard PubSub configuration file (``.uabinary``, ``.bin``; OPC 10000-14, 9.1.3.7): UABinaryFileDataType.

As files are found, the structure stands there alone or inside an ExtensionObject; both are read, the latter is
written. What it holds becomes layouts for ``LayoutReader`` and ``RawLayout``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.uadp.configuration import (
    DataSetReader,
    PublishedDataSet,
    PubSubConfiguration,
    PubSubConfiguration2,
    PubSubConnection,
    UadpDataSetReaderMessage,
)
from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import LayoutError, UadpError
from fieldbus.uadp.layout import DataSetLayout
from fieldbus.uadp.limits import FILE_BYTES_MAX
from fieldbus.uadp.metadata import (
    NULL_VARIANT,
    SCALAR,
    DataSetMetaData,
    EnumDescription,
    KeyValuePair,
    SimpleTypeDescription,
    StructureDescription,
)
from fieldbus.uadp.model import FieldEncoding, PublisherId, PublisherIdType
from fieldbus.uadp.structures import ArrayOf, open_object, read_structure, structure, wrap_object
from fieldbus.uadp.types import SCALAR_TYPES, BuiltinType, ExtensionObject, Variant
from fieldbus.uadp.types import BuiltinType as B
from fieldbus.uadp.values import decode_value, encode_scalar

_RAW_DATA_MASK, _DATA_VALUE_MASK = 0x20, 0x1F  # DataSetFieldContentMask (6.2.4.2)
_MAJOR, _MINOR = 0x08, 0x10  # UadpDataSetMessageContentMask (6.3.1.3.2)
_OBJECT_START = bytes.fromhex("01003e3c")  # NodeId i=15422 in its four-byte form; no array has that many elements
_PUBLISHER_TYPES = {
    B.BYTE: PublisherIdType.BYTE,
    B.UINT16: PublisherIdType.UINT16,
    B.UINT32: PublisherIdType.UINT32,
    B.UINT64: PublisherIdType.UINT64,
    B.STRING: PublisherIdType.STRING,
}

Configuration: TypeAlias = PubSubConfiguration | PubSubConfiguration2


@structure(
    ArrayOf(B.STRING),
    ArrayOf(StructureDescription),
    ArrayOf(EnumDescription),
    ArrayOf(SimpleTypeDescription),
    B.STRING,
    ArrayOf(KeyValuePair),
    B.VARIANT,
    encoding=15422,
)
class UaBinaryFile:
    """OPC 10000-5, 12.2.12.5: any value with the types and namespaces it needs."""

    namespaces: tuple[str | None, ...] = ()
    structures: tuple[StructureDescription, ...] = ()
    enums: tuple[EnumDescription, ...] = ()
    simple_types: tuple[SimpleTypeDescription, ...] = ()
    schema_location: str | None = None
    header: tuple[KeyValuePair, ...] = ()
    body: Variant = NULL_VARIANT


@dataclass(frozen=True, slots=True)
class ReaderLayout:
    """One DataSetReader of a configuration: where it is, what it may read, and the metadata of its DataSet."""

    connection: PubSubConnection
    reader: DataSetReader
    publisher: PublisherId
    encoding: FieldEncoding

    @property
    def metadata(self) -> DataSetMetaData:
        return self.reader.metadata

    def layout(self) -> DataSetLayout:
        """The DataSet of scalars for a LayoutReader.

        Raises LayoutError ``configuration-layout`` where a LayoutReader cannot read it (arrays, structures, text in
        RawData: those are for ``RawLayout(metadata)``).
        """
        fields = self.metadata.fields
        version = self.metadata.version
        simple = all(item.value_rank == SCALAR and item.builtin_type in SCALAR_TYPES for item in fields)
        if not simple:
            raise LayoutError("configuration-layout", found="fields that are no scalars", expected="scalars only")
        content = self.reader.message_settings
        mask = content.data_set_message_content_mask if isinstance(content, UadpDataSetReaderMessage) else 0
        with_version = mask & _MAJOR and mask & _MINOR
        try:
            return DataSetLayout(
                self.publisher,
                self.reader.writer_group_id,
                self.reader.data_set_writer_id,
                tuple([(item.name or "", BuiltinType(item.builtin_type)) for item in fields]),
                self.encoding,
                (version.major, version.minor) if with_version else None,
            )
        except ValueError as error:
            raise LayoutError("configuration-layout", found=str(error), expected="a DataSet of scalars") from error


def read_configuration(data: bytes) -> Configuration:
    """The PubSub configuration in a file's bytes.

    Raises UadpError: ``file-too-long``, ``file-body`` (no PubSub configuration in it), ``trailing-bytes`` or what the
    structures raise. Never more than FILE_BYTES_MAX is looked at.
    """
    if len(data) > FILE_BYTES_MAX:
        raise UadpError("file-too-long", found=f"{len(data)} bytes", expected=f"at most {FILE_BYTES_MAX}")
    cursor = Cursor(data, 0, len(data))
    if data.startswith(_OBJECT_START):
        holder = decode_value(cursor, B.EXTENSIONOBJECT)
        file = open_object(holder) if isinstance(holder, ExtensionObject) else None
    else:
        file = read_structure(cursor, UaBinaryFile)
    if cursor.pos != cursor.end:
        raise UadpError("trailing-bytes", found="bytes after the file", expected="the end", offset=cursor.pos)
    body = file.body.value if isinstance(file, UaBinaryFile) else None
    if isinstance(body, tuple) and len(body) == 1:  # some tools write an array of one
        body = body[0]
    found = open_object(body) if isinstance(body, ExtensionObject) else None
    if not isinstance(found, PubSubConfiguration | PubSubConfiguration2):
        raise UadpError("file-body", found=type(found).__name__, expected="a PubSub configuration")
    return found


def write_configuration(configuration: Configuration, *, namespaces: tuple[str, ...] = ()) -> bytes:
    """The bytes of a configuration file. Raises UadpError for values that have no encoding, ``file-too-long``."""
    body = Variant(B.EXTENSIONOBJECT, wrap_object(configuration))
    out = bytearray()
    encode_scalar(out, B.EXTENSIONOBJECT, wrap_object(UaBinaryFile(namespaces, body=body)))
    if len(out) > FILE_BYTES_MAX:
        raise UadpError("file-too-long", found=f"{len(out)} bytes", expected=f"at most {FILE_BYTES_MAX}")
    return bytes(out)


def readers(configuration: Configuration) -> tuple[ReaderLayout, ...]:
    """Every DataSetReader that names one writer. Raises LayoutError ``configuration-publisher`` where one does not."""
    return tuple(
        [
            ReaderLayout(connection, reader, _publisher(reader.publisher_id), _encoding(reader.field_content_mask))
            for connection in configuration.connections
            for group in connection.reader_groups
            for reader in group.readers
        ]
    )


def published(configuration: Configuration, name: str) -> PublishedDataSet:
    """The published DataSet called ``name``. Raises LayoutError ``configuration-data-set``."""
    for item in configuration.published_data_sets:
        if item.name == name:
            return item
    names = [item.name for item in configuration.published_data_sets]
    raise LayoutError("configuration-data-set", found=f"{names[:5]}", expected=name)


def _publisher(value: Variant) -> PublisherId:
    kind = _PUBLISHER_TYPES.get(value.type)
    if kind is None or value.array or not isinstance(value.value, int | str) or value.value == "":
        raise LayoutError("configuration-publisher", found=f"{value.type.name}", expected="one PublisherId")
    return PublisherId(kind, value.value)


def _encoding(mask: int) -> FieldEncoding:
    if mask & _RAW_DATA_MASK:
        return FieldEncoding.RAW
    return FieldEncoding.DATA_VALUE if mask & _DATA_VALUE_MASK else FieldEncoding.VARIANT
