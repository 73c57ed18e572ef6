"""Strict, total decoder of UADP NetworkMessages (OPC 10000-14, 7.2.4).

Any bytes give a NetworkMessage or one UadpError; work and memory are linear in the length. A signed or encrypted
message is opened first (``SecureReader.open``); this decoder refuses it as ``secured``. Actions are not read.
"""

from __future__ import annotations

from fieldbus.uadp import flags
from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.discovery import Announcement, Probe, decode_announcement, decode_probe
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.header import Header, read_header, read_picoseconds
from fieldbus.uadp.limits import FIELDS_MAX, PAYLOAD_BYTES_MAX
from fieldbus.uadp.model import Chunk, DataSetMessage, FieldEncoding, MessageKind, NetworkMessage
from fieldbus.uadp.types import Field, Variant
from fieldbus.uadp.values import decode_data_value, decode_variant


def decode(data: bytes) -> NetworkMessage:
    """The NetworkMessage in ``data`` (a whole datagram or Ethernet payload).

    Raises UadpError; its ``code`` names the rule. Re-encoding a message gives the same bytes when the sender
    used the shortest form everywhere (no optional flag byte that is all zero, no long form of a NodeId).
    """
    header = read_header(data)
    security = header.security
    if security is not None and (security.signed or security.encrypted):
        raise UadpError(
            "secured",
            found=f"a message protected with key {security.token_id}",
            expected="one without protection",
            hint="open it with the keys of its security group first",
            offset=header.security_at,
        )
    promoted = _promoted_fields(data, header.promoted) if header.promoted is not None else None
    cursor = Cursor(data, header.payload_at, len(data))
    messages: tuple[DataSetMessage, ...] = ()
    chunk: Chunk | None = None
    discovery: Announcement | Probe | None = None
    writer_ids = header.writer_ids
    if header.chunked:
        chunk, writer_ids = _chunk(cursor, header), None
    elif header.message_type == flags.TYPE_PROBE:
        discovery = decode_probe(cursor)
    elif header.message_type == flags.TYPE_ANNOUNCEMENT:
        discovery = decode_announcement(cursor)
    else:
        messages = _payload(cursor, writer_ids)
    return NetworkMessage(
        header.publisher,
        header.class_id,
        header.group,
        writer_ids,
        header.timestamp,
        header.picoseconds,
        promoted,
        messages,
        security,
        chunk,
        discovery,
    )


def decode_data_set_message(data: bytes) -> DataSetMessage:
    """One DataSetMessage alone, as a payload put together from chunks is (up to PAYLOAD_BYTES_MAX)."""
    return _data_set_message(Cursor(data, 0, len(data)))


def _chunk(cursor: Cursor, header: Header) -> Chunk:
    at = cursor.pos
    sequence = cursor.u16("MessageSequenceNumber")
    offset, total = cursor.u32("ChunkOffset"), cursor.u32("TotalSize")
    if total > PAYLOAD_BYTES_MAX:
        raise UadpError("chunk-total", found=f"{total} bytes", expected=f"at most {PAYLOAD_BYTES_MAX}", offset=at)
    data = cursor.byte_string(len(cursor.data), "ChunkData")
    if not data or offset + len(data) > total:
        raise UadpError(
            "chunk-range",
            found=f"{len(data or b'')} bytes at {offset} of {total}",
            expected="one byte or more, inside the payload",
            offset=at,
        )
    if cursor.pos != cursor.end:
        raise UadpError("trailing-bytes", found="bytes after the chunk", expected="the end", offset=cursor.pos)
    writer_id = header.writer_ids[0] if header.writer_ids is not None else None
    return Chunk(writer_id, sequence, offset, total, data, header.message_type == flags.TYPE_ANNOUNCEMENT)


def _promoted_fields(data: bytes, bounds: tuple[int, int]) -> tuple[Variant, ...]:
    inner = Cursor(data, *bounds)
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
    if kind is MessageKind.EVENT and encoding_bits != FieldEncoding.VARIANT:
        raise UadpError("event-encoding", found=FieldEncoding(encoding_bits).name, expected="Variants", offset=at)
    sequence = cursor.u16("sequence number") if flags1 & flags.DSM_SEQUENCE else None
    timestamp = cursor.i64("timestamp") if flags2 & flags.DSM_TIMESTAMP else None
    picoseconds = read_picoseconds(cursor) if flags2 & flags.DSM_PICOSECONDS else None
    status = cursor.u16("status") if flags1 & flags.DSM_STATUS else None
    major = cursor.u32("configuration major version") if flags1 & flags.DSM_MAJOR else None
    minor = cursor.u32("configuration minor version") if flags1 & flags.DSM_MINOR else None
    encoding = FieldEncoding(encoding_bits)
    fields, indices, raw = _body(cursor, kind, encoding)
    padding = cursor.end - cursor.pos
    if padding and cursor.rest().strip(b"\x00"):
        raise UadpError(
            "trailing-bytes",
            found=f"{padding} bytes after the last field",
            expected="the end of the DataSetMessage or zeros up to its ConfiguredSize",
            offset=cursor.pos - padding,
        )
    return DataSetMessage(
        kind, encoding, fields, indices, raw, sequence, timestamp, picoseconds, status, major, minor, True, padding
    )


def _message_kind(flags2: int, at: int) -> MessageKind:
    if flags2 & flags.DSM_FLAGS_2_RESERVED:
        raise UadpError("reserved-bits", found=f"{flags2:#04x}", expected="DataSetFlags2 bits 6, 7 zero", offset=at)
    kind = flags2 & flags.DSM_KIND_MASK
    if kind > MessageKind.KEEP_ALIVE:
        raise UadpError("data-set-message-type", found=str(kind), expected="0, 1, 2 or 3", offset=at)
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
    if kind is not MessageKind.DELTA_FRAME:
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
