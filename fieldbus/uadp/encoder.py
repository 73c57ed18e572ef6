"""Encoder of UADP NetworkMessages: the shortest header that carries what the message has."""

from __future__ import annotations

import struct

from fieldbus.uadp import flags
from fieldbus.uadp.discovery import Probe, encode_discovery
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import (
    FIELDS_MAX,
    MESSAGE_BYTES_MAX,
    NONCE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    PICOSECONDS_MAX,
    PUBLISHER_ID_BYTES_MAX,
)
from fieldbus.uadp.model import (
    Chunk,
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    SecurityHeader,
)
from fieldbus.uadp.packing import pack_header, pack_string
from fieldbus.uadp.types import BuiltinType, DataValue, Field, Variant
from fieldbus.uadp.values import encode_data_value, encode_variant

_U8, _U16, _U32, _U64 = 0xFF, 0xFFFF, 0xFFFF_FFFF, 2**64 - 1
_I64 = 2**63 - 1
_PUBLISHER_LETTERS = {
    PublisherIdType.BYTE: ("B", _U8),
    PublisherIdType.UINT16: ("H", _U16),
    PublisherIdType.UINT32: ("I", _U32),
    PublisherIdType.UINT64: ("Q", _U64),
}


def encode(message: NetworkMessage) -> bytes:
    """The bytes of ``message``; ``decode`` gives the same message back (NaN payloads of Float aside).

    Raises UadpError (``value-type``, ``value-range``, ``message-shape``, ``message-too-long``, …) for a
    message that has no encoding.
    """
    out = bytearray()
    _header(out, message)
    if message.timestamp is not None:
        out += pack_header("q", message.timestamp, _I64)
    _picoseconds(out, message.timestamp, message.picoseconds)
    if message.promoted is not None:
        _promoted(out, message.promoted)
    if message.security is not None:
        _security(out, message.security)
    out += encode_payload(message)
    if len(out) > MESSAGE_BYTES_MAX:
        raise UadpError("message-too-long", found=f"{len(out)} bytes", expected=f"at most {MESSAGE_BYTES_MAX}")
    return bytes(out)


def encode_payload(message: NetworkMessage) -> bytes:
    """The payload alone, of any size: what is cut into chunks where it does not fit."""
    out = bytearray()
    if message.chunk is not None:
        _chunk(out, message.chunk)
    elif message.discovery is not None:
        encode_discovery(out, message.discovery)
    else:
        _payload(out, message)
    return bytes(out)


def header_size(message: NetworkMessage) -> int:
    """Bytes of flags, PublisherId, DataSetClassId, group and payload header of ``message``."""
    out = bytearray()
    _header(out, message)
    return len(out)


def _header(out: bytearray, message: NetworkMessage) -> None:
    _check_parts(message)
    publisher, group, chunk = message.publisher, message.group, message.chunk
    writer_ids = message.writer_ids
    announcement = chunk.announcement if chunk is not None else message.discovery is not None
    kind = flags.TYPE_PROBE if isinstance(message.discovery, Probe) else flags.TYPE_ANNOUNCEMENT
    ext2 = (
        (flags.PROMOTED if message.promoted is not None else 0)
        | (flags.CHUNK if chunk is not None else 0)
        | (kind << flags.MESSAGE_TYPE_SHIFT if announcement else 0)
    )
    ext1 = (
        (publisher.type if publisher is not None else 0)
        | (flags.CLASS_ID if message.class_id is not None else 0)
        | (flags.TIMESTAMP if message.timestamp is not None else 0)
        | (flags.PICOSECONDS if message.picoseconds is not None else 0)
        | (flags.SECURITY if message.security is not None else 0)
        | (flags.EXTENDED_2 if ext2 else 0)
    )
    payload_header = writer_ids is not None or (chunk is not None and chunk.writer_id is not None)
    out.append(
        flags.VERSION
        | (flags.PUBLISHER_ID if publisher is not None else 0)
        | (flags.GROUP_HEADER if group is not None else 0)
        | (flags.PAYLOAD_HEADER if payload_header else 0)
        | (flags.EXTENDED_1 if ext1 else 0)
    )
    if ext1:
        out.append(ext1)
    if ext2:
        out.append(ext2)
    if publisher is not None:
        _publisher_id(out, publisher)
    if message.class_id is not None:
        out += message.class_id.bytes_le
    if group is not None:
        _group_header(out, group)
    if writer_ids is not None:
        if not 1 <= len(writer_ids) <= _U8:
            raise UadpError("message-shape", found=f"{len(writer_ids)} writers", expected="1 to 255")
        out.append(len(writer_ids))
        for writer_id in writer_ids:
            out += pack_header("H", writer_id, _U16)
    if chunk is not None and chunk.writer_id is not None:
        out += pack_header("H", chunk.writer_id, _U16)


def _check_parts(message: NetworkMessage) -> None:
    """Refuse a message with two kinds of payload, or a discovery message with the headers of data."""
    chunk, discovery = message.chunk, message.discovery
    special = chunk is not None or discovery is not None
    found = discovery is not None or (chunk is not None and chunk.announcement)
    wrong = (
        (special and (bool(message.messages) or message.writer_ids is not None))
        or (chunk is not None and discovery is not None)
        or (chunk is not None and chunk.announcement and chunk.writer_id is not None)
        or (
            found
            and (
                message.publisher is None
                or message.group is not None
                or message.class_id is not None
                or message.timestamp is not None
                or message.promoted is not None
            )
        )
    )
    if wrong:
        raise UadpError(
            "message-shape",
            found="parts that exclude each other",
            expected="DataSetMessages or one chunk or, without data headers, one discovery message",
        )


def _security(out: bytearray, header: SecurityHeader) -> None:
    if header.signed or header.encrypted:
        raise UadpError("secured", found="a protected message", expected="one without protection; seal it afterwards")
    if len(header.nonce) > NONCE_BYTES_MAX:
        raise UadpError("nonce-length", found=f"{len(header.nonce)} bytes", expected=f"at most {NONCE_BYTES_MAX}")
    out.append(flags.FORCE_KEY_RESET if header.force_key_reset else 0)
    out += pack_header("I", header.token_id, _U32)
    out.append(len(header.nonce))
    out += header.nonce


def _chunk(out: bytearray, chunk: Chunk) -> None:
    if not chunk.data or chunk.offset < 0 or chunk.offset + len(chunk.data) > chunk.total:
        raise UadpError("chunk-range", found=f"{len(chunk.data)} bytes", expected="one or more, inside the payload")
    if chunk.total > PAYLOAD_BYTES_MAX:
        raise UadpError("chunk-total", found=f"{chunk.total} bytes", expected=f"at most {PAYLOAD_BYTES_MAX}")
    out += pack_header("H", chunk.sequence, _U16)
    out += struct.pack("<IIi", chunk.offset, chunk.total, len(chunk.data))
    out += chunk.data


def _publisher_id(out: bytearray, publisher: PublisherId) -> None:
    if publisher.type is PublisherIdType.STRING:
        if not publisher.value:
            raise UadpError("publisher-id-empty", found="no text", expected="a String PublisherId")
        out += pack_string(BuiltinType.STRING, publisher.value, PUBLISHER_ID_BYTES_MAX)
        return
    if not isinstance(publisher.value, int):
        raise UadpError("value-type", found="text", expected=f"a {publisher.type.name} PublisherId")
    letter, maximum = _PUBLISHER_LETTERS[publisher.type]
    out += pack_header(letter, publisher.value, maximum)


def _group_header(out: bytearray, group: GroupHeader) -> None:
    items = (
        (group.writer_group_id, "H", _U16, flags.GROUP_WRITER_ID),
        (group.group_version, "I", _U32, flags.GROUP_VERSION),
        (group.network_message_number, "H", _U16, flags.GROUP_NUMBER),
        (group.sequence, "H", _U16, flags.GROUP_SEQUENCE),
    )
    out.append(sum(bit for item, _, _, bit in items if item is not None))
    for item, letter, maximum, _ in items:
        if item is not None:
            out += pack_header(letter, item, maximum)


def _picoseconds(out: bytearray, timestamp: int | None, picoseconds: int | None) -> None:
    if picoseconds is None:
        return
    if timestamp is None:
        raise UadpError("picoseconds-alone", found="no timestamp", expected="a timestamp with picoseconds")
    out += pack_header("H", picoseconds, PICOSECONDS_MAX)


def _promoted(out: bytearray, promoted: tuple[Variant, ...]) -> None:
    body = bytearray()
    for variant in promoted:
        encode_variant(body, variant)
    out += pack_header("H", len(body), _U16)
    out += body


def _payload(out: bytearray, message: NetworkMessage) -> None:
    expected = 1 if message.writer_ids is None else len(message.writer_ids)
    if len(message.messages) != expected:
        raise UadpError("message-shape", found=f"{len(message.messages)} DataSetMessages", expected=str(expected))
    bodies = [_data_set_message(item) for item in message.messages]
    if len(bodies) > 1:
        for body in bodies:
            out += pack_header("H", len(body), _U16)
    for body in bodies:
        out += body


def _data_set_message(message: DataSetMessage) -> bytes:
    if not message.valid:
        if not message.raw or message.raw[0] & flags.DSM_VALID:
            raise UadpError(
                "message-shape", found="no bytes or a set valid bit", expected="the bytes of an invalid message"
            )
        return message.raw
    out = bytearray()
    flags2 = (
        message.kind
        | (flags.DSM_TIMESTAMP if message.timestamp is not None else 0)
        | (flags.DSM_PICOSECONDS if message.picoseconds is not None else 0)
    )
    out.append(
        flags.DSM_VALID
        | message.encoding << flags.DSM_ENCODING_SHIFT
        | (flags.DSM_SEQUENCE if message.sequence is not None else 0)
        | (flags.DSM_STATUS if message.status is not None else 0)
        | (flags.DSM_MAJOR if message.config_major is not None else 0)
        | (flags.DSM_MINOR if message.config_minor is not None else 0)
        | (flags.DSM_FLAGS_2 if flags2 else 0)
    )
    if flags2:
        out.append(flags2)
    if message.sequence is not None:
        out += pack_header("H", message.sequence, _U16)
    if message.timestamp is not None:
        out += pack_header("q", message.timestamp, _I64)
    _picoseconds(out, message.timestamp, message.picoseconds)
    for item, letter, maximum in (
        (message.status, "H", _U16),
        (message.config_major, "I", _U32),
        (message.config_minor, "I", _U32),
    ):
        if item is not None:
            out += pack_header(letter, item, maximum)
    _body(out, message)
    return bytes(out) + bytes(message.padding)


def _body(out: bytearray, message: DataSetMessage) -> None:
    _check_shape(message)
    if message.kind is MessageKind.KEEP_ALIVE:
        return
    if message.encoding is FieldEncoding.RAW:
        out += message.raw or b""
        return
    out += struct.pack("<H", len(message.fields))
    for position, field in enumerate(message.fields):
        if message.indices is not None:
            out += pack_header("H", message.indices[position], _U16)
        _field(out, message.encoding, field)


def _check_shape(message: DataSetMessage) -> None:
    """Refuse a message whose parts contradict its kind or encoding: it would decode as another one."""
    raw = message.encoding is FieldEncoding.RAW and message.kind is not MessageKind.KEEP_ALIVE
    delta = message.kind is MessageKind.DELTA_FRAME and not raw
    wrong = (
        (message.kind is MessageKind.EVENT and message.encoding is not FieldEncoding.VARIANT)
        or (raw and message.padding != 0)
        or message.padding < 0
        or (message.raw is not None) is not raw
        or (message.indices is not None) is not delta
        or (message.fields and (raw or message.kind is MessageKind.KEEP_ALIVE))
        or (message.indices is not None and len(message.indices) != len(message.fields))
        or (message.indices is not None and len(set(message.indices)) != len(message.indices))
        or len(message.fields) > FIELDS_MAX
    )
    if wrong:
        raise UadpError(
            "message-shape",
            found=f"{message.kind.name} / {message.encoding.name} with other parts",
            expected="raw only with RawData, distinct indices only in a delta frame, events of Variants",
        )


def _field(out: bytearray, encoding: FieldEncoding, field: Field) -> None:
    if encoding is FieldEncoding.VARIANT and isinstance(field, Variant):
        encode_variant(out, field)
    elif encoding is FieldEncoding.DATA_VALUE and isinstance(field, DataValue):
        encode_data_value(out, field)
    else:
        raise UadpError("value-type", found=type(field).__name__, expected=f"a field of {encoding.name}")
