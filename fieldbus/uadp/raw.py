"""RawData fields by their DataSetMetaData (OPC 10000-14, 7.2.4.5.11), and structures inside Variants by the same."""

from __future__ import annotations

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import FIELDS_MAX
from fieldbus.uadp.metadata import DataSetMetaData
from fieldbus.uadp.model import DataSetMessage, FieldEncoding, MessageKind
from fieldbus.uadp.packing import pack_header
from fieldbus.uadp.typecodec import Compiler, RawValue, open_layout
from fieldbus.uadp.types import ExtensionObject, NodeId


class RawLayout:
    """The RawData form of one DataSet."""

    __slots__ = ("_codecs", "names", "size")

    def __init__(self, metadata: DataSetMetaData) -> None:
        """Raises UadpError ``raw-layout`` where the metadata does not say how a field is encoded, or too many do."""
        compiler = Compiler(metadata, padded=True)
        if not 1 <= len(metadata.fields) <= FIELDS_MAX:
            raise open_layout(f"{len(metadata.fields)} fields", f"1 to {FIELDS_MAX}")
        self.names = tuple([item.name or "" for item in metadata.fields])
        self._codecs = tuple(
            [
                compiler.field(
                    compiler.builtin_or_type(item.builtin_type, item.data_type),
                    item.value_rank,
                    item.array_dimensions,
                    item.max_string_length,
                    0,
                )
                for item in metadata.fields
            ]
        )
        sizes = [codec.size for codec in self._codecs]
        self.size = None if None in sizes else sum([size for size in sizes if size is not None])
        """Bytes of a key frame, or None where it varies."""

    def decode(self, raw: bytes) -> tuple[RawValue, ...]:
        """Values in field order. Raises UadpError: a read error, ``raw-padding``, ``trailing-bytes`` (not zero)."""
        cursor = Cursor(raw, 0, len(raw))
        values = tuple([codec.read(cursor) for codec in self._codecs])
        _only_padding(cursor)
        return values

    def encode(self, values: tuple[RawValue, ...]) -> bytes:
        """Raises UadpError ``field-count``, ``value-type``, ``value-range``, ``too-long``, ``array-dimensions``."""
        if len(values) != len(self._codecs):
            raise UadpError("field-count", found=str(len(values)), expected=str(len(self._codecs)))
        out = bytearray()
        for codec, value in zip(self._codecs, values, strict=True):
            codec.write(out, value)
        return bytes(out)

    def decode_delta(self, raw: bytes) -> dict[int, RawValue]:
        """Values by field index of a delta frame. Raises also ``field-index``, ``delta-duplicate-index``."""
        cursor = Cursor(raw, 0, len(raw))
        values: dict[int, RawValue] = {}
        for _ in range(cursor.u16("field count")):
            at = cursor.pos
            index = cursor.u16("field index")
            if index >= len(self._codecs):
                raise UadpError("field-index", found=str(index), expected=f"below {len(self._codecs)}", offset=at)
            if index in values:
                raise UadpError("delta-duplicate-index", found=f"index {index} twice", expected="once", offset=at)
            values[index] = self._codecs[index].read(cursor)
        _only_padding(cursor)
        return values

    def encode_delta(self, values: dict[int, RawValue]) -> bytes:
        """Raises as ``encode``, and ``field-index``."""
        out = bytearray(pack_header("H", len(values), FIELDS_MAX))
        for index, value in values.items():
            if not 0 <= index < len(self._codecs):
                raise UadpError("field-index", found=str(index), expected=f"below {len(self._codecs)}")
            out += pack_header("H", index, 0xFFFF)
            self._codecs[index].write(out, value)
        return bytes(out)

    def read(self, message: DataSetMessage) -> dict[int, RawValue]:
        """Values by field index of a RawData key or delta frame. Raises UadpError, ``raw-message`` for any other."""
        if not message.valid or message.encoding is not FieldEncoding.RAW or message.raw is None:
            raise UadpError("raw-message", found=message.encoding.name, expected="a valid message of RawData")
        if message.kind is MessageKind.DELTA_FRAME:
            return self.decode_delta(message.raw)
        return dict(enumerate(self.decode(message.raw)))


class StructureTypes:
    """Opens and makes the ExtensionObjects of the structures that metadata describes, by their DefaultBinary NodeId."""

    __slots__ = ("_codecs",)

    def __init__(self, metadata: DataSetMetaData) -> None:
        """Raises UadpError ``raw-layout`` where the metadata does not say how a structure is encoded."""
        compiler = Compiler(metadata, padded=False)
        self._codecs = {
            item.definition.default_encoding_id: compiler.structure(item.data_type_id) for item in metadata.structures
        }

    def open(self, value: ExtensionObject) -> RawValue:
        """The fields by name. Raises UadpError ``structure-unknown``, ``structure-size``, or a read error."""
        codec = self._codecs.get(value.type_id)
        if codec is None or value.body is None or value.xml:
            raise UadpError("structure-unknown", found=str(value.type_id), expected="a described structure, as binary")
        cursor = Cursor(value.body, 0, len(value.body))
        found = codec.read(cursor)
        if cursor.pos != cursor.end:
            raise UadpError("structure-size", found=f"{cursor.end - cursor.pos} bytes more", expected="the structure")
        return found

    def make(self, encoding_id: NodeId, value: RawValue) -> ExtensionObject:
        """The ExtensionObject with these fields. Raises ``structure-unknown``, and as ``RawLayout.encode``."""
        codec = self._codecs.get(encoding_id)
        if codec is None:
            raise UadpError("structure-unknown", found=str(encoding_id), expected="a described structure")
        out = bytearray()
        codec.write(out, value)
        return ExtensionObject(encoding_id, bytes(out))


def _only_padding(cursor: Cursor) -> None:
    at = cursor.pos
    if cursor.rest().strip(b"\x00"):
        raise UadpError("trailing-bytes", found="bytes after the last field", expected="zeros or the end", offset=at)
