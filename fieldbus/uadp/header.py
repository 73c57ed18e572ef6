"""Headers of a NetworkMessage, from its first byte to its payload (OPC 10000-14, 7.2.4.4).

Needed by the decoder and by message security alike, which must find the SecurityHeader before anything is trusted.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from fieldbus.uadp import flags
from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.limits import MESSAGE_BYTES_MAX, NONCE_BYTES_MAX, PICOSECONDS_MAX, PUBLISHER_ID_BYTES_MAX
from fieldbus.uadp.model import GroupHeader, PublisherId, PublisherIdType, SecurityHeader


class Header(NamedTuple):
    """What stands before the payload. Offsets are bytes from the start of the message.

    ``writer_ids`` of a chunk is its one DataSetWriterId; ``promoted``: start and end of the promoted fields, which
    are not looked into; ``security_at``: where the SecurityHeader begins (or would); ``payload_at``: where it ends.
    """

    message_type: int
    chunked: bool
    publisher: PublisherId | None
    class_id: UUID | None
    group: GroupHeader | None
    writer_ids: tuple[int, ...] | None
    timestamp: int | None
    picoseconds: int | None
    promoted: tuple[int, int] | None
    security: SecurityHeader | None
    security_at: int
    payload_at: int


def read_header(data: bytes) -> Header:
    """The headers of ``data``. Raises UadpError; its ``code`` names the rule."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise UadpError("message-too-long", found=f"{len(data)} bytes", expected=f"at most {MESSAGE_BYTES_MAX}")
    cursor = Cursor(data, 0, len(data))
    first = cursor.u8("UADP flags")
    if first & flags.VERSION_MASK != flags.VERSION:
        raise UadpError("version", found=str(first & flags.VERSION_MASK), expected="UADP version 1", offset=0)
    ext1, ext2 = _extended_flags(cursor, first)
    kind, chunked = (ext2 & flags.MESSAGE_TYPE_MASK) >> flags.MESSAGE_TYPE_SHIFT, bool(ext2 & flags.CHUNK)
    if kind:
        _check_discovery_flags(first, ext1, ext2)
    publisher = _publisher_id(cursor, ext1) if first & flags.PUBLISHER_ID else None
    class_id = cursor.guid("DataSetClassId") if ext1 & flags.CLASS_ID else None
    group = _group_header(cursor) if first & flags.GROUP_HEADER else None
    writer_ids = None
    if first & flags.PAYLOAD_HEADER:
        writer_ids = (cursor.u16("DataSetWriterId"),) if chunked else _payload_header(cursor)
    timestamp = cursor.i64("NetworkMessage timestamp") if ext1 & flags.TIMESTAMP else None
    picoseconds = read_picoseconds(cursor) if ext1 & flags.PICOSECONDS else None
    promoted = None
    if ext2 & flags.PROMOTED:
        size = cursor.u16("promoted fields size")
        start = cursor.take(size, "promoted fields")
        promoted = (start, start + size)
    security_at = cursor.pos
    security = _security_header(cursor) if ext1 & flags.SECURITY else None
    return Header(
        kind,
        chunked,
        publisher,
        class_id,
        group,
        writer_ids,
        timestamp,
        picoseconds,
        promoted,
        security,
        security_at,
        cursor.pos,
    )


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
        raise UadpError("reserved-bits", found=f"{ext2:#04x}", expected="ExtendedFlags2 bits 6, 7 zero", offset=at)
    if ext2 & flags.ACTION:
        # Its header is between SecurityHeader and payload. Where the standard puts the DataSetMessage header of an
        # Action is not what its first implementations send, so nothing that is received would be certain.
        raise UadpError("action", found="a request or response of an Action", expected="data or discovery", offset=at)
    kind = (ext2 & flags.MESSAGE_TYPE_MASK) >> flags.MESSAGE_TYPE_SHIFT
    if kind > flags.TYPE_ANNOUNCEMENT:
        raise UadpError("message-type", found=str(kind), expected="0, 1 or 2", offset=at)
    if ext1 & flags.PICOSECONDS and not ext1 & flags.TIMESTAMP:
        raise UadpError("picoseconds-alone", found=f"{ext1:#04x}", expected="a timestamp as well", offset=at)
    return ext1, ext2


def _check_discovery_flags(first: int, ext1: int, ext2: int) -> None:
    """7.2.4.6.3 and 7.2.4.6.12: a PublisherId and none of the data headers; a probe is never chunked."""
    probe = (ext2 & flags.MESSAGE_TYPE_MASK) >> flags.MESSAGE_TYPE_SHIFT == flags.TYPE_PROBE
    if (
        not first & flags.PUBLISHER_ID
        or first & (flags.GROUP_HEADER | flags.PAYLOAD_HEADER)
        or ext1 & (flags.CLASS_ID | flags.TIMESTAMP | flags.PICOSECONDS)
        or ext2 & flags.PROMOTED
        or (probe and ext2 & flags.CHUNK)
    ):
        raise UadpError(
            "discovery-flags",
            found=f"flags {first:#04x} {ext1:#04x} {ext2:#04x}",
            expected="a PublisherId and no group, payload or extended data header",
            offset=0,
        )


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


def read_picoseconds(cursor: Cursor) -> int:
    """PicoSeconds of a header. Raises ``picoseconds-range``."""
    at = cursor.pos
    value = cursor.u16("PicoSeconds")
    if value > PICOSECONDS_MAX:
        raise UadpError("picoseconds-range", found=str(value), expected=f"at most {PICOSECONDS_MAX}", offset=at)
    return value


def _security_header(cursor: Cursor) -> SecurityHeader:
    at = cursor.pos
    bits = cursor.u8("SecurityFlags")
    if bits & flags.SECURITY_RESERVED:
        raise UadpError("reserved-bits", found=f"{bits:#04x}", expected="SecurityFlags bits 4-7 zero", offset=at)
    if bits & flags.FOOTER:
        raise UadpError(
            "security-footer", found="a security footer", expected="none: the AES-CTR policies have no use for one"
        )
    token_id = cursor.u32("SecurityTokenId")
    length = cursor.u8("NonceLength")
    if length > NONCE_BYTES_MAX:
        raise UadpError("nonce-length", found=f"{length} bytes", expected=f"at most {NONCE_BYTES_MAX}", offset=at)
    return SecurityHeader(
        token_id,
        cursor.raw(length, "MessageNonce"),
        bool(bits & flags.SIGNED),
        bool(bits & flags.ENCRYPTED),
        bool(bits & flags.FORCE_KEY_RESET),
    )
