"""LayoutReader: datagram → DataSetSample of the one DataSet a deployment declares; refusals name the difference."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from uuid import UUID

from fieldbus.uadp.cursor import Cursor
from fieldbus.uadp.decoder import decode
from fieldbus.uadp.errors import KeepAlive, LayoutError, UadpError
from fieldbus.uadp.layout import DataSetLayout, DataSetSample
from fieldbus.uadp.model import DataSetMessage, FieldEncoding, MessageKind, NetworkMessage
from fieldbus.uadp.plan import Plan, build_plan
from fieldbus.uadp.security import SecureReader
from fieldbus.uadp.sequence import MODULUS
from fieldbus.uadp.times import ticks_to_ns
from fieldbus.uadp.types import BuiltinType, DataValue, Field, Scalar, Variant
from fieldbus.uadp.values import decode_value

_SCALARS = bool | int | float | str | bytes | UUID | None
_BAD = 2  # severity bits of a StatusCode (OPC 10000-4, 7.39): 00 good, 01 uncertain, 10 bad


class LayoutReader:
    """Reads one DataSet. Keeps the last accepted values, onto which delta frames are laid.

    A delta frame counts only directly after the message it changes (by sequence number): after a loss the
    reader waits for the next key frame rather than mix old and new values.
    """

    __slots__ = ("_layout", "_plan", "_raw", "_security", "_sequence", "_status", "_values")

    def __init__(self, layout: DataSetLayout, *, security: SecureReader | None = None) -> None:
        """``security``: opens the messages first, and nothing that is not protected as it demands gets in."""
        self._layout = layout
        self._security = security
        self._plan: Plan | None = None
        codes = layout.struct_codes
        self._raw = Struct("<" + codes) if layout.encoding is FieldEncoding.RAW and codes else None
        self._sequence: int | None = None  # of the last accepted message
        self._values: tuple[Scalar, ...] = ()
        self._status: tuple[int, ...] = ()

    @property
    def layout(self) -> DataSetLayout:
        """The layout this reader accepts."""
        return self._layout

    def read(self, data: bytes, *, t_rx_ns: int = 0) -> DataSetSample:
        """The sample in one datagram. ``t_rx_ns``: when it was received (Unix ns), for a layout with ``receive_time``.

        Raises UadpError for bytes that are no acceptable NetworkMessage, SecurityError for one that its keys do not
        let in, KeepAlive, and LayoutError for another DataSet's message or one without usable values: ``publisher``,
        ``writer-group``, ``writer``, ``writer-repeated``, ``data-set-invalid``, ``data-set-event``,
        ``field-encoding-mismatch``, ``config-version``, ``field-count``, ``field-type``, ``field-index``,
        ``field-missing``, ``raw-size``, ``delta-without-key``, ``sequence-missing``, ``timestamp-missing``,
        ``timestamp-range``.
        """
        if self._security is not None:
            data = self._security.open(data).data
        sample = self._plan.read(data, t_rx_ns) if self._plan is not None else None
        if sample is None:
            message = decode(data)
            sample = self._general(message, t_rx_ns)
            self._plan = build_plan(self._layout, message, data) or self._plan
        else:
            self._sequence, self._values, self._status = sample.sequence, sample.values, sample.field_status
        return sample

    def _general(self, message: NetworkMessage, t_rx_ns: int) -> DataSetSample:
        body = self._select(message)
        sequence = _sequence(message, body)
        t_source_ns = t_rx_ns if self._layout.receive_time else _source_time(message, body)
        values, statuses = self._fields(body, sequence)
        self._sequence, self._values, self._status = sequence, values, statuses
        own = (body.status or 0) << 16
        if own >> 30 >= _BAD:  # what a message of bad quality ships is not the value; a later delta may build on it
            values, statuses = (None,) * len(values), tuple([max(own, status) for status in statuses])
        return DataSetSample(sequence, t_source_ns, values, _worst((own, *statuses)), statuses)

    def _select(self, message: NetworkMessage) -> DataSetMessage:
        """The deployment's DataSetMessage in ``message``, after all identity checks."""
        layout = self._layout
        _same("publisher", message.publisher, layout.publisher)
        group = message.group.writer_group_id if message.group is not None else None
        _same("writer-group", group, layout.writer_group_id)
        if layout.group_version is not None:
            version = message.group.group_version if message.group is not None else None
            _same("group-version", version, layout.group_version)
        body = self._of_writer(message)
        if not body.valid:
            raise LayoutError("data-set-invalid", found="a cleared valid bit", expected="a valid message")
        if body.kind is MessageKind.KEEP_ALIVE:
            raise KeepAlive(_sequence_or_none(message, body))
        if body.kind is MessageKind.EVENT:
            raise LayoutError("data-set-event", found="an event message", expected="a data message")
        _same("field-encoding-mismatch", body.encoding.name, layout.encoding.name)
        if layout.config_version is not None:
            _same("config-version", (body.config_major, body.config_minor), layout.config_version)
        return body

    def _of_writer(self, message: NetworkMessage) -> DataSetMessage:
        writer, writers = self._layout.data_set_writer_id, message.writer_ids
        if self._layout.fixed:
            if writers is not None or len(message.messages) != 1:
                raise LayoutError("writer", found="a payload header", expected="one DataSetMessage without one")
            return message.messages[0]
        if writers is None or writer not in writers:
            raise LayoutError("writer", found=str(list(writers or ())), expected=str(writer))
        if writers.count(writer) > 1:
            raise LayoutError("writer-repeated", found="the writer twice", expected="once per message")
        return message.messages[writers.index(writer)]

    def _fields(self, body: DataSetMessage, sequence: int) -> tuple[tuple[Scalar, ...], tuple[int, ...]]:
        """Values and StatusCodes in layout order."""
        if body.kind is MessageKind.DELTA_FRAME:
            return self._delta(body, sequence)
        expected = len(self._layout.fields)
        if self._raw is not None:
            return self._unpack_raw(body.raw or b""), (0,) * expected
        if len(body.fields) != expected:
            raise LayoutError("field-count", found=str(len(body.fields)), expected=str(expected))
        pairs = [self._field(index, field) for index, field in enumerate(body.fields)]
        return tuple([value for value, _ in pairs]), tuple([status for _, status in pairs])

    def _unpack_raw(self, raw: bytes) -> tuple[Scalar, ...]:
        assert self._raw is not None
        try:
            return self._raw.unpack(raw)
        except struct_error as error:
            raise LayoutError("raw-size", found=f"{len(raw)} bytes", expected=f"{self._raw.size} bytes") from error

    def _delta(self, body: DataSetMessage, sequence: int) -> tuple[tuple[Scalar, ...], tuple[int, ...]]:
        if self._sequence is None or sequence != (self._sequence + 1) % MODULUS:
            self._sequence = None
            raise LayoutError(
                "delta-without-key",
                found=f"delta {sequence} not directly after an accepted message",
                expected="a key frame first",
            )
        values, statuses = list(self._values), list(self._status)
        pairs = self._raw_delta(body.raw) if body.raw is not None else zip(body.indices or (), body.fields, strict=True)
        for index, field in pairs:
            if index >= len(values):
                raise LayoutError("field-index", found=str(index), expected=f"below {len(values)}")
            values[index], statuses[index] = self._field(index, field)
        return tuple(values), tuple(statuses)

    def _raw_delta(self, raw: bytes) -> list[tuple[int, Variant]]:
        """Index and value of each field of a RawData delta frame (OPC 10000-14, 7.2.4.5.6)."""
        cursor = Cursor(raw, 0, len(raw))
        found: dict[int, Variant] = {}
        for _ in range(cursor.u16("field count")):
            index = cursor.u16("field index")
            if index >= len(self._layout.fields):
                raise LayoutError("field-index", found=str(index), expected=f"below {len(self._layout.fields)}")
            if index in found:
                raise UadpError("delta-duplicate-index", found=f"index {index} twice", expected="each index once")
            kind = self._layout.fields[index][1]
            found[index] = Variant(kind, decode_value(cursor, kind))
        if cursor.rest().strip(b"\x00"):
            raise LayoutError("raw-size", found="bytes after the last field", expected="the end or zeros")
        return list(found.items())

    def _field(self, index: int, field: Field) -> tuple[Scalar, int]:
        """Value and StatusCode of one field, whose type must be the declared one."""
        name, kind = self._layout.fields[index]
        status = 0
        if isinstance(field, DataValue):
            status = field.status or 0
            if status >> 30 >= _BAD:
                return None, status  # servers ship the last good value along; it is no measurement of this time
            if field.value is None:
                raise LayoutError("field-missing", found=f"field {name} good without a value", expected="a value")
            field = field.value
        elif field.type is BuiltinType.STATUSCODE and kind is not BuiltinType.STATUSCODE:
            # A Variant-encoded field of bad quality carries its StatusCode in place of the value.
            if not isinstance(field.value, int) or field.array or field.value >> 30 < _BAD:
                raise LayoutError("field-type", found=f"StatusCode for {name}", expected=kind.name)
            return None, field.value
        value = field.value
        if field.type is not kind or field.array or not isinstance(value, _SCALARS):
            found = field.type.name + (" array" if field.array else "")
            raise LayoutError("field-type", found=f"{found} for field {name}", expected=kind.name)
        return value, status


def _same(code: str, found: object, expected: object) -> None:
    if found != expected:
        raise LayoutError(code, found=str(found), expected=str(expected))


def _sequence_or_none(message: NetworkMessage, body: DataSetMessage) -> int | None:
    if body.sequence is not None or message.group is None:
        return body.sequence
    return message.group.sequence


def _sequence(message: NetworkMessage, body: DataSetMessage) -> int:
    sequence = _sequence_or_none(message, body)
    if sequence is not None:
        return sequence
    raise LayoutError(
        "sequence-missing",
        found="no sequence number",
        expected="one in the DataSetMessage or group header",
        hint="enable SequenceNumber in the writer's message content mask",
    )


def _source_time(message: NetworkMessage, body: DataSetMessage) -> int:
    """Unix ns of the message's own timestamp, else the network message's; 0 on the wire means none."""
    ticks, picoseconds = body.timestamp, body.picoseconds
    if not ticks:
        ticks, picoseconds = message.timestamp, message.picoseconds
    if not ticks:
        raise LayoutError(
            "timestamp-missing",
            found="no timestamp or 0",
            expected="the time the values were sampled",
            hint="enable Timestamp in the writer's message content mask",
        )
    if ticks < 0:
        raise LayoutError("timestamp-range", found=f"{ticks} ticks", expected="a time after 1601")
    return ticks_to_ns(ticks, picoseconds or 0)


def _worst(statuses: tuple[int, ...]) -> int:
    return max(statuses, key=lambda status: status >> 30)
