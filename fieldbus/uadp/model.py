"""UADP NetworkMessage and DataSetMessage (OPC 10000-14, 7.2.4) as frozen values. ``None`` = not on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

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


@dataclass(frozen=True, slots=True)
class NetworkMessage:
    """One NetworkMessage. Without a payload header (``writer_ids`` None) it carries exactly one message."""

    publisher: PublisherId | None = None
    class_id: UUID | None = None
    group: GroupHeader | None = None
    writer_ids: tuple[int, ...] | None = None
    timestamp: int | None = None
    picoseconds: int | None = None
    promoted: tuple[Variant, ...] | None = None
    messages: tuple[DataSetMessage, ...] = ()
