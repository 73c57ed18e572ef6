"""UADP NetworkMessage and DataSetMessage (OPC 10000-14, 7.2.4) as frozen values. ``None`` = not on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from fieldbus.uadp.discovery import Announcement, Probe
from fieldbus.uadp.types import Field, Variant


class PublisherIdType(IntEnum):
    """ExtendedFlags1 bits 0-2."""

    BYTE = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    STRING = 4


class FieldEncoding(IntEnum):
    """DataSetFlags1 bits 1-2."""

    VARIANT = 0
    RAW = 1
    DATA_VALUE = 2


class MessageKind(IntEnum):
    """DataSetFlags2 bits 0-3."""

    KEY_FRAME = 0
    DELTA_FRAME = 1
    EVENT = 2
    KEEP_ALIVE = 3


@dataclass(frozen=True, slots=True)
class PublisherId:
    """A PublisherId with its wire type: UInt16 7 and UInt32 7 are two different publishers."""

    type: PublisherIdType
    value: int | str

    def __str__(self) -> str:
        return f"{self.type.name.lower()}:{self.value}"


@dataclass(frozen=True, slots=True)
class GroupHeader:
    """GroupHeader of a NetworkMessage."""

    writer_group_id: int | None = None
    group_version: int | None = None
    network_message_number: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class DataSetMessage:
    """One DataSetMessage.

    ``fields`` holds Variants or DataValues by ``encoding``; for a delta frame ``indices`` gives the field
    index of each. With RawData (layout known only to the subscriber) ``raw`` holds the bytes after the
    header and ``fields`` is empty; a message whose valid bit is off keeps all its bytes there.
    ``timestamp`` is in ticks, ``picoseconds`` in 10 ps steps, ``status`` the upper half of a StatusCode.
    ``padding``: zero bytes after the fields, up to a ConfiguredSize (RawData keeps its padding in ``raw``).
    """

    kind: MessageKind = MessageKind.KEY_FRAME
    encoding: FieldEncoding = FieldEncoding.VARIANT
    fields: tuple[Field, ...] = ()
    indices: tuple[int, ...] | None = None
    raw: bytes | None = None
    sequence: int | None = None
    timestamp: int | None = None
    picoseconds: int | None = None
    status: int | None = None
    config_major: int | None = None
    config_minor: int | None = None
    valid: bool = True
    padding: int = 0


@dataclass(frozen=True, slots=True)
class SecurityHeader:
    """SecurityHeader (7.2.4.4.2): what protects the message, under which key, with which nonce."""

    token_id: int = 0
    nonce: bytes = b""
    signed: bool = False
    encrypted: bool = False
    force_key_reset: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one DataSetMessage, or of one announcement (7.2.4.4.4).

    ``writer_id`` None: no payload header. ``sequence``: that of the whole payload; ``offset``, ``total``: bytes.
    """

    writer_id: int | None
    sequence: int
    offset: int
    total: int
    data: bytes
    announcement: bool = False


@dataclass(frozen=True, slots=True)
class NetworkMessage:
    """One NetworkMessage, which carries DataSetMessages or one chunk or one discovery message.

    Without a payload header (``writer_ids`` None) ``messages`` is exactly one. ``security`` is a header that
    protects nothing (discovery messages have one by rule): protected messages are opened before they are decoded.
    """

    publisher: PublisherId | None = None
    class_id: UUID | None = None
    group: GroupHeader | None = None
    writer_ids: tuple[int, ...] | None = None
    timestamp: int | None = None
    picoseconds: int | None = None
    promoted: tuple[Variant, ...] | None = None
    messages: tuple[DataSetMessage, ...] = ()
    security: SecurityHeader | None = None
    chunk: Chunk | None = None
    discovery: Announcement | Probe | None = None
