"""Discovery messages (OPC 10000-14, 7.2.4.6): announcements of a publisher and probes for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.uadp.configuration import (
    ActionMethod,
    ActionTarget,
    ApplicationDescription,
    EndpointDescription,
    PubSubConnection,
    WriterGroup,
)
from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.metadata import DataSetMetaData
from fieldbus.uadp.packing import pack_fixed, pack_header
from fieldbus.uadp.structures import read_array, read_structure, write_array, write_structure
from fieldbus.uadp.types import STRUCT_CODES, Builtin, BuiltinType
from fieldbus.uadp.values import decode_array, encode_array, encode_scalar

_ENDPOINTS, _METADATA, _WRITERS, _CONNECTIONS, _APPLICATION, _RESPONDERS, _ACTIONS = range(1, 8)
_DESCRIPTION, _STATUS = 1, 2
_PROBE_PUBLISHER, _PROBE_APPLICATIONS = 1, 2
_INFO_ENDPOINTS, _INFO_METADATA, _INFO_WRITERS = 1, 2, 3
_U8, _U16 = 0xFF, 0xFFFF


@dataclass(frozen=True, slots=True)
class PublisherEndpoints:
    """7.2.4.6.6: the server endpoints of the publisher; ``status`` a StatusCode."""

    endpoints: tuple[EndpointDescription, ...]
    status: int = 0


@dataclass(frozen=True, slots=True)
class MetaDataAnnouncement:
    """7.2.4.6.4: what the DataSetMessages of one writer contain."""

    writer_id: int
    metadata: DataSetMetaData
    status: int = 0


@dataclass(frozen=True, slots=True)
class WriterConfiguration:
    """7.2.4.6.9: a writer group with the writers asked for; one StatusCode for each of ``writer_ids``."""

    writer_ids: tuple[int, ...]
    group: WriterGroup
    statuses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConnectionsAnnouncement:
    """7.2.4.6.8."""

    connections: tuple[PubSubConnection, ...]


@dataclass(frozen=True, slots=True)
class ApplicationAnnouncement:
    """7.2.4.6.5."""

    description: ApplicationDescription
    capabilities: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusAnnouncement:
    """7.2.4.6.7. ``state`` is a PubSubState; the times, in ticks, are those of a cyclic report, else None."""

    state: int
    next_report_ticks: int | None = None
    ticks: int | None = None


@dataclass(frozen=True, slots=True)
class ResponderAnnouncement:
    """7.2.4.6.10: the connections whose writers are used for Actions."""

    connections: tuple[PubSubConnection, ...]


@dataclass(frozen=True, slots=True)
class ActionAnnouncement:
    """7.2.4.6.11: what the Actions of one writer take and give, their targets, and the Methods behind them (none, or
    one for each target)."""

    writer_id: int
    targets: tuple[ActionTarget, ...]
    request: DataSetMetaData
    response: DataSetMetaData
    methods: tuple[ActionMethod, ...] = ()


AnnouncementBody: TypeAlias = (
    PublisherEndpoints
    | MetaDataAnnouncement
    | WriterConfiguration
    | ConnectionsAnnouncement
    | ApplicationAnnouncement
    | StatusAnnouncement
    | ResponderAnnouncement
    | ActionAnnouncement
)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A discovery announcement; ``sequence`` counts the announcements of one publisher."""

    sequence: int
    body: AnnouncementBody


@dataclass(frozen=True, slots=True)
class Probe:
    """A discovery probe: ``information`` 1 endpoints, 2 metadata, 3 writer configuration; None: FindApplications."""

    information: int | None
    writer_ids: tuple[int, ...] = ()


def decode_announcement(cursor: Cursor) -> Announcement:
    """The announcement that fills the cursor. Raises UadpError (``unsupported-announcement``, a read error)."""
    at = cursor.pos
    kind = cursor.u8("AnnouncementType")
    sequence = cursor.u16("SequenceNumber")
    body: AnnouncementBody
    if kind == _ENDPOINTS:
        body = PublisherEndpoints(read_array(cursor, EndpointDescription), cursor.u32("status"))
    elif kind == _METADATA:
        writer_id = cursor.u16("DataSetWriterId")
        body = MetaDataAnnouncement(writer_id, read_structure(cursor, DataSetMetaData), cursor.u32("status"))
    elif kind == _WRITERS:
        body = _writer_configuration(cursor)
    elif kind == _CONNECTIONS:
        body = ConnectionsAnnouncement(read_array(cursor, PubSubConnection))
    elif kind == _APPLICATION:
        body = _application(cursor)
    elif kind == _RESPONDERS:
        body = ResponderAnnouncement(read_array(cursor, PubSubConnection))
    elif kind == _ACTIONS:
        body = _actions(cursor)
    else:
        raise UadpError("unsupported-announcement", found=f"type {kind}", expected="1 … 7", offset=at)
    _at_end(cursor)
    return Announcement(sequence, body)


def decode_probe(cursor: Cursor) -> Probe:
    """The probe that fills the cursor. Raises UadpError (``unsupported-probe``, a read error)."""
    at = cursor.pos
    kind = cursor.u8("ProbeType")
    if kind == _PROBE_APPLICATIONS:
        _at_end(cursor)
        return Probe(None)
    information = cursor.u8("InformationType") if kind == _PROBE_PUBLISHER else 0
    if not _INFO_ENDPOINTS <= information <= _INFO_WRITERS:
        raise UadpError(
            "unsupported-probe",
            found=f"type {kind}, information {information}",
            expected="endpoints, metadata, writer configuration or FindApplications",
            offset=at,
        )
    ids = _numbers(cursor, BuiltinType.UINT16) if information != _INFO_ENDPOINTS else ()
    _at_end(cursor)
    return Probe(information, ids)


def _writer_configuration(cursor: Cursor) -> WriterConfiguration:
    ids = _numbers(cursor, BuiltinType.UINT16)
    group = read_structure(cursor, WriterGroup)
    at = cursor.pos
    statuses = _numbers(cursor, BuiltinType.STATUSCODE)
    if len(statuses) != len(ids):
        raise UadpError(
            "announcement-statuses", found=f"{len(statuses)} for {len(ids)} writers", expected="one each", offset=at
        )
    return WriterConfiguration(ids, group, statuses)


def _actions(cursor: Cursor) -> ActionAnnouncement:
    writer_id = cursor.u16("DataSetWriterId")
    targets = read_array(cursor, ActionTarget)
    metadata = read_structure(cursor, DataSetMetaData), read_structure(cursor, DataSetMetaData)
    at = cursor.pos
    methods = read_array(cursor, ActionMethod)
    if methods and len(methods) != len(targets):
        raise UadpError(
            "announcement-methods",
            found=f"{len(methods)} for {len(targets)} targets",
            expected="none, or one each",
            offset=at,
        )
    return ActionAnnouncement(writer_id, targets, *metadata, methods)


def _application(cursor: Cursor) -> ApplicationAnnouncement | StatusAnnouncement:
    at = cursor.pos
    kind = cursor.u16("ApplicationInformationType")
    if kind == _DESCRIPTION:
        description = read_structure(cursor, ApplicationDescription)
        texts = decode_array(cursor, BuiltinType.STRING) or ()
        return ApplicationAnnouncement(description, tuple([text for text in texts if isinstance(text, str | None)]))
    if kind != _STATUS:
        raise UadpError(
            "unsupported-announcement", found=f"application information {kind}", expected="1 or 2", offset=at
        )
    cyclic, state = cursor.u8("IsCyclic"), cursor.i32("PubSubState")
    return StatusAnnouncement(state, cursor.i64("time"), cursor.i64("time")) if cyclic else StatusAnnouncement(state)


def _numbers(cursor: Cursor, kind: BuiltinType) -> tuple[int, ...]:
    values: tuple[Builtin, ...] = decode_array(cursor, kind) or ()
    return tuple([value for value in values if isinstance(value, int)])


def _at_end(cursor: Cursor) -> None:
    if cursor.pos != cursor.end:
        raise UadpError(
            "trailing-bytes", found="bytes after the discovery message", expected="the end", offset=cursor.pos
        )


def encode_discovery(out: bytearray, message: Announcement | Probe) -> None:
    """Append a discovery payload. Raises UadpError for values that have no encoding."""
    if isinstance(message, Probe):
        _encode_probe(out, message)
        return
    body = message.body
    out.append(_KINDS[type(body)])
    out += pack_header("H", message.sequence, _U16)
    if isinstance(body, PublisherEndpoints):
        write_array(out, body.endpoints)
        out += _status(body.status)
    elif isinstance(body, MetaDataAnnouncement):
        out += pack_header("H", body.writer_id, _U16)
        write_structure(out, body.metadata)
        out += _status(body.status)
    elif isinstance(body, WriterConfiguration):
        if len(body.writer_ids) != len(body.statuses):
            raise UadpError("announcement-statuses", found=str(len(body.statuses)), expected=str(len(body.writer_ids)))
        encode_array(out, BuiltinType.UINT16, body.writer_ids)
        write_structure(out, body.group)
        encode_array(out, BuiltinType.STATUSCODE, body.statuses)
    elif isinstance(body, ConnectionsAnnouncement | ResponderAnnouncement):
        write_array(out, body.connections)
    elif isinstance(body, ActionAnnouncement):
        _encode_actions(out, body)
    else:
        _encode_application(out, body)


def _encode_actions(out: bytearray, body: ActionAnnouncement) -> None:
    if body.methods and len(body.methods) != len(body.targets):
        raise UadpError("announcement-methods", found=str(len(body.methods)), expected=f"0 or {len(body.targets)}")
    out += pack_header("H", body.writer_id, _U16)
    write_array(out, body.targets)
    write_structure(out, body.request)
    write_structure(out, body.response)
    write_array(out, body.methods)


def _encode_application(out: bytearray, body: ApplicationAnnouncement | StatusAnnouncement) -> None:
    if isinstance(body, ApplicationAnnouncement):
        out += pack_header("H", _DESCRIPTION, _U16)
        write_structure(out, body.description)
        encode_array(out, BuiltinType.STRING, body.capabilities)
        return
    if (body.ticks is None) is not (body.next_report_ticks is None):
        raise UadpError("message-shape", found="one time", expected="both times of a cyclic report or none")
    out += pack_header("H", _STATUS, _U16)
    out.append(body.ticks is not None)
    encode_scalar(out, BuiltinType.INT32, body.state)
    for ticks in (body.next_report_ticks, body.ticks):
        if ticks is not None:
            encode_scalar(out, BuiltinType.DATETIME, ticks)


def _encode_probe(out: bytearray, probe: Probe) -> None:
    if probe.information is None:
        out.append(_PROBE_APPLICATIONS)
        return
    with_ids = probe.information in (_INFO_METADATA, _INFO_WRITERS)
    if not (with_ids or probe.information == _INFO_ENDPOINTS) or (probe.writer_ids and not with_ids):
        raise UadpError("unsupported-probe", found=str(probe.information), expected="1 (no writers), 2 or 3")
    out += bytes((_PROBE_PUBLISHER, probe.information))
    if with_ids:
        encode_array(out, BuiltinType.UINT16, probe.writer_ids)


def _status(value: int) -> bytes:
    return pack_fixed(BuiltinType.STATUSCODE, STRUCT_CODES[BuiltinType.STATUSCODE], value)


_KINDS: dict[type, int] = {
    PublisherEndpoints: _ENDPOINTS,
    MetaDataAnnouncement: _METADATA,
    WriterConfiguration: _WRITERS,
    ConnectionsAnnouncement: _CONNECTIONS,
    ApplicationAnnouncement: _APPLICATION,
    StatusAnnouncement: _APPLICATION,
    ResponderAnnouncement: _RESPONDERS,
    ActionAnnouncement: _ACTIONS,
}
