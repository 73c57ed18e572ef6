"""Strict, total decoder of UADP NetworkMessages (OPC 10000-14, 7.2.4).

Any bytes give a NetworkMessage or one UadpError; work and memory are linear in the length. What a later
version will read (security, chunks, discovery) is refused by name (``unsupported-…``), never half-decoded.
"""

from __future__ import annotations

from fieldbus.uadp import flags
from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import FIELDS_MAX, MESSAGE_BYTES_MAX, PICOSECONDS_MAX, PUBLISHER_ID_BYTES_MAX
from fieldbus.uadp.model import (
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
)
from fieldbus.uadp.types import Field, Variant
from fieldbus.uadp.values import decode_data_value, decode_variant


def decode(data: bytes) -> NetworkMessage:
    """The NetworkMessage in ``data`` (a whole datagram or Ethernet payload).

    Raises UadpError; its ``code`` names the rule. Re-encoding a message gives the same bytes when the sender
    used the shortest header (no optional flag byte that is all zero).
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise UadpError("message-too-long", found=f"{len(data)} bytes", expected=f"at most {MESSAGE_BYTES_MAX}")
    cursor = Cursor(data, 0, len(data))
    first = cursor.u8("UADP flags")
    if first & flags.VERSION_MASK != flags.VERSION:
        raise UadpError("version", found=str(first & flags.VERSION_MASK), expected="UADP version 1", offset=0)
    ext1, ext2 = _extended_flags(cursor, first)
    publisher = _publisher_id(cursor, ext1) if first & flags.PUBLISHER_ID else None
    class_id = cursor.guid("DataSetClassId") if ext1 & flags.CLASS_ID else None
    group = _group_header(cursor) if first & flags.GROUP_HEADER else None
    writer_ids = _payload_header(cursor) if first & flags.PAYLOAD_HEADER else None
    timestamp = cursor.i64("NetworkMessage timestamp") if ext1 & flags.TIMESTAMP else None
    picoseconds = _picoseconds(cursor) if ext1 & flags.PICOSECONDS else None
    promoted = _promoted_fields(cursor) if ext2 & flags.PROMOTED else None
    messages = _payload(cursor, writer_ids)
    return NetworkMessage(publisher, class_id, group, writer_ids, timestamp, picoseconds, promoted, messages)


def _extended_flags(cursor: Cursor, first: int) -> tuple[int, int]:
    if not first & flags.EXTENDED_1:
        return 0, 0
    at = cursor.pos
    ext1 = cursor.u8("ExtendedFlags1")
    ext2 = cursor.u8("ExtendedFlags2") if ext1 & flags.EXTENDED_2 else 0
    if ext1 & flags.PUBLISHER_TYPE_MASK > PublisherIdType.STRING:
        raise UadpError(
            "publisher-id-type",
            found=str(ext1 & flags.PUBLISHER_TYPE_MASK),
            expected="0 (Byte) … 4 (String)",
            offset=at,
        )
    if ext2 & flags.EXTENDED_2_RESERVED:
        raise UadpError("reserved-bits", found=f"{ext2:#04x}", expected="ExtendedFlags2 bits 5-7 zero", offset=at)
    kind = (ext2 & flags.MESSAGE_TYPE_MASK) >> flags.MESSAGE_TYPE_SHIFT
    if kind in (flags.TYPE_PROBE, flags.TYPE_ANNOUNCEMENT):
        raise UadpError(
            "unsupported-discovery", found=f"NetworkMessage type {kind}", expected="a DataSetMessage payload"
        )
    if kind:
        raise UadpError("message-type", found=str(kind), expected="0, 1 or 2", offset=at)
    if ext2 & flags.CHUNK:
        raise UadpError("unsupported-chunk", found="a chunked NetworkMessage", expected="a whole one", offset=at)
    if ext1 & flags.SECURITY:
        raise UadpError(
            "unsupported-secured", found="a security header", expected="a message without security", offset=at
        )
    if ext1 & flags.PICOSECONDS and not ext1 & flags.TIMESTAMP:
        raise UadpError("picoseconds-alone", found=f"{ext1:#04x}", expected="a timestamp as well", offset=at)
    return ext1, ext2


def _publisher_id(cursor: Cursor, ext1: int) -> PublisherId:
    kind = PublisherIdType(ext1 & flags.PUBLISHER_TYPE_MASK)
    what = "PublisherId"
    if kind is PublisherIdType.STRING:
        at = cursor.pos
        text = cursor.string(PUBLISHER_ID_BYTES_MAX, what)
        if not text:
            raise UadpError("publisher-id-empty", found="no text", expected="a String PublisherId", offset=at)
        return PublisherId(kind, text)
    read = (cursor.u8, cursor.u16, cursor.u32, cursor.u64)[kind]
    return PublisherId(kind, read(what))


def _group_header(cursor: Cursor) -> GroupHeader:
    at = cursor.pos
    present = cursor.u8("GroupFlags")
    if present & flags.GROUP_RESERVED:
        raise UadpError("reserved-bits", found=f"{present:#04x}", expected="GroupFlags bits 4-7 zero", offset=at)
    return GroupHeader(
        cursor.u16("WriterGroupId") if present & flags.GROUP_WRITER_ID else None,
        cursor.u32("GroupVersion") if present & flags.GROUP_VERSION else None,
        cursor.u16("NetworkMessageNumber") if present & flags.GROUP_NUMBER else None,
        cursor.u16("SequenceNumber") if present & flags.GROUP_SEQUENCE else None,
    )


def _payload_header(cursor: Cursor) -> tuple[int, ...]:
    at = cursor.pos
    count = cursor.u8("message count")
    if count == 0:
        raise UadpError("payload-empty", found="0 DataSetMessages", expected="1 or more", offset=at)
    return tuple([cursor.u16("DataSetWriterId") for _ in range(count)])


def _picoseconds(cursor: Cursor) -> int:
    at = cursor.pos
    value = cursor.u16("PicoSeconds")
    if value > PICOSECONDS_MAX:
        raise UadpError("picoseconds-range", found=str(value), expected=f"at most {PICOSECONDS_MAX}", offset=at)
    return value


def _promoted_fields(cursor: Cursor) -> tuple[Variant, ...]:
    size = cursor.u16("promoted fields size")
    start = cursor.take(size, "promoted fields")
    inner = Cursor(cursor.data, start, start + size)
    promoted: list[Variant] = []
    while inner.pos < inner.end:
        if len(promoted) == FIELDS_MAX:
            raise UadpError(
                "too-many-fields",
                found="more promoted fields",
                expected=f"at most {FIELDS_MAX}",
                offset=inner.pos,
            )
        promoted.append(decode_variant(inner))
    return tuple(promoted)


def _payload(cursor: Cursor, writer_ids: tuple[int, ...] | None) -> tuple[DataSetMessage, ...]:
    count = 1 if writer_ids is None else len(writer_ids)
    if count == 1:
        return (_data_set_message(cursor),)
    at = cursor.pos
    sizes = [cursor.u16("DataSetMessage size") for _ in range(count)]
    if sum(sizes) != cursor.end - cursor.pos:
        raise UadpError(
            "payload-sizes",
            found=f"sizes add up to {sum(sizes)}",
            expected=f"{cursor.end - cursor.pos} bytes of payload",
            offset=at,
        )
    messages: list[DataSetMessage] = []
    for size in sizes:
        start = cursor.take(size, "DataSetMessage")
        messages.append(_data_set_message(Cursor(cursor.data, start, start + size)))
    return tuple(messages)


def _data_set_message(cursor: Cursor) -> DataSetMessage:
    """The DataSetMessage that fills the cursor's slice exactly."""
    at = cursor.pos
    flags1 = cursor.u8("DataSetFlags1")
    if not flags1 & flags.DSM_VALID:
        # The standard: nothing behind a cleared valid bit may be interpreted, so it is kept as bytes.
        return DataSetMessage(raw=bytes([flags1]) + cursor.rest(), valid=False)
    encoding_bits = (flags1 & flags.DSM_ENCODING_MASK) >> flags.DSM_ENCODING_SHIFT
    if encoding_bits == flags.ENCODING_RESERVED:
        raise UadpError("field-encoding", found="3 (reserved)", expected="Variant, RawData, DataValue", offset=at)
    flags2 = cursor.u8("DataSetFlags2") if flags1 & flags.DSM_FLAGS_2 else 0
    kind = _message_kind(flags2, at + 1)
    sequence = cursor.u16("sequence number") if flags1 & flags.DSM_SEQUENCE else None
    timestamp = cursor.i64("timestamp") if flags2 & flags.DSM_TIMESTAMP else None
    picoseconds = _picoseconds(cursor) if flags2 & flags.DSM_PICOSECONDS else None
    status = cursor.u16("status") if flags1 & flags.DSM_STATUS else None
    major = cursor.u32("configuration major version") if flags1 & flags.DSM_MAJOR else None
    minor = cursor.u32("configuration minor version") if flags1 & flags.DSM_MINOR else None
    encoding = FieldEncoding(encoding_bits)
    fields, indices, raw = _body(cursor, kind, encoding)
    if cursor.pos != cursor.end:
        raise UadpError(
            "trailing-bytes",
            found=f"{cursor.end - cursor.pos} bytes after the last field",
            expected="the end of the DataSetMessage",
            offset=cursor.pos,
        )
    return DataSetMessage(kind, encoding, fields, indices, raw, sequence, timestamp, picoseconds, status, major, minor)


def _message_kind(flags2: int, at: int) -> MessageKind:
    if flags2 & flags.DSM_FLAGS_2_RESERVED:
        raise UadpError("reserved-bits", found=f"{flags2:#04x}", expected="DataSetFlags2 bits 6, 7 zero", offset=at)
    kind = flags2 & flags.DSM_KIND_MASK
    if kind == MessageKind.EVENT:
        raise UadpError("unsupported-event", found="an event message", expected="a data message", offset=at)
    if kind > MessageKind.KEEP_ALIVE:
        raise UadpError("data-set-message-type", found=str(kind), expected="0, 1 or 3", offset=at)
    if flags2 & flags.DSM_PICOSECONDS and not flags2 & flags.DSM_TIMESTAMP:
        raise UadpError("picoseconds-alone", found=f"{flags2:#04x}", expected="a timestamp as well", offset=at)
    return MessageKind(kind)


def _body(
    cursor: Cursor, kind: MessageKind, encoding: FieldEncoding
) -> tuple[tuple[Field, ...], tuple[int, ...] | None, bytes | None]:
    """Fields, delta indices and raw bytes of one message."""
    if kind is MessageKind.KEEP_ALIVE:
        return (), None, None
    if encoding is FieldEncoding.RAW:
        return (), None, cursor.rest()
    at = cursor.pos
    count = cursor.u16("field count")
    if count > FIELDS_MAX:
        raise UadpError("too-many-fields", found=str(count), expected=f"at most {FIELDS_MAX}", offset=at)
    decode_field = decode_variant if encoding is FieldEncoding.VARIANT else decode_data_value
    if kind is MessageKind.KEY_FRAME:
        return tuple([decode_field(cursor) for _ in range(count)]), None, None
    fields: list[Field] = []
    indices: dict[int, None] = {}
    for _ in range(count):
        at = cursor.pos
        index = cursor.u16("field index")
        if index in indices:
            # open62541 sends N fields that are all (index 0, Null) when nothing changed.
            raise UadpError(
                "delta-duplicate-index", found=f"index {index} twice", expected="each index once", offset=at
            )
        indices[index] = None
        fields.append(decode_field(cursor))
    return tuple(fields), tuple(indices), None
