"""Precomputed reading and writing of one header shape: one ``struct`` call instead of a walk.

A plan is an optimisation only. It answers for a message whose every constant byte equals the one it was
built from, and otherwise says nothing (None), so that the general decoder gives the answer or the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from fieldbus.uadp import flags
from fieldbus.uadp.encoder import encode, header_size
from fieldbus.uadp.layout import DataSetLayout, DataSetSample
from fieldbus.uadp.limits import PICOSECONDS_MAX
from fieldbus.uadp.model import FieldEncoding, MessageKind, NetworkMessage
from fieldbus.uadp.times import ticks_to_ns
from fieldbus.uadp.types import Variant

_ABSENT = -1
_BAD = 0x8000_0000  # lowest StatusCode of severity bad


@dataclass(frozen=True, slots=True)
class Plan:
    """Positions in the tuple that ``shape`` unpacks; ``_ABSENT`` where the message has no such field."""

    shape: Struct
    constants: tuple[tuple[int, bytes], ...]
    picoseconds: tuple[int, ...]
    sequence: int
    ticks: int
    ticks_picoseconds: int
    status: int
    values: slice
    types: slice
    type_bytes: tuple[int, ...] | None  # Variant only: the type byte before each value
    all_good: tuple[int, ...]

    def read(self, data: bytes, t_rx_ns: int) -> DataSetSample | None:
        """The sample in ``data`` (received at ``t_rx_ns``), or None where the general decoder must judge."""
        if len(data) != self.shape.size:
            return None
        items = self.shape.unpack(data)
        for index, constant in self.constants:
            if items[index] != constant:
                return None
        for index in self.picoseconds:
            if items[index] > PICOSECONDS_MAX:
                return None
        if self.ticks == _ABSENT:
            t_source_ns = t_rx_ns
        else:
            ticks = items[self.ticks]
            if ticks <= 0:
                return None
            picoseconds = items[self.ticks_picoseconds] if self.ticks_picoseconds != _ABSENT else 0
            t_source_ns = ticks_to_ns(ticks, picoseconds)
        if self.type_bytes is not None and items[self.types] != self.type_bytes:
            return None
        values = items[self.values]
        status = items[self.status] << 16 if self.status != _ABSENT else 0
        if status >= _BAD:
            return None
        return DataSetSample(items[self.sequence], t_source_ns, values, status, self.all_good)


class _Shape:
    """Collects the pieces of a message in wire order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.start = 0  # of the constant run being collected
        self.codes: list[str] = []
        self.constants: list[tuple[int, bytes]] = []

    def constant(self, size: int) -> None:
        self.pos += size

    def flush(self) -> None:
        if self.pos > self.start:
            self.constants.append((len(self.codes), self.data[self.start : self.pos]))
            self.codes.append(f"{self.pos - self.start}s")
            self.start = self.pos

    def variable(self, code: str, *, present: bool = True) -> int:
        """Index of a variable item in the unpacked tuple."""
        if not present:
            return _ABSENT
        self.flush()
        self.codes.append(code)
        self.pos += Struct("<" + code).size
        self.start = self.pos
        return len(self.codes) - 1


def build_plan(layout: DataSetLayout, message: NetworkMessage, data: bytes) -> Plan | None:
    """A plan for messages shaped like ``message`` (just decoded from ``data`` and accepted for ``layout``).

    None where the shape has no plan: types of variable size, DataValues, several messages, promoted fields,
    a security header, bad-quality fields, no sequence number or timestamp, or a header longer than it need be.
    """
    codes = layout.struct_codes
    if codes is None or len(message.messages) != 1 or message.promoted is not None or message.security:
        return None
    body = message.messages[0]
    group_sequence = message.group.sequence if message.group is not None else None
    if (
        not body.valid
        or body.kind is not MessageKind.KEY_FRAME
        or body.encoding is FieldEncoding.DATA_VALUE
        or (body.sequence is None and group_sequence is None)
        or (body.timestamp is None and message.timestamp is None and not layout.receive_time)
        or encode(message) != data
    ):
        return None
    if body.encoding is FieldEncoding.VARIANT and not _types_match(layout, body.fields):
        return None
    shape = _Shape(data)
    shape.constant(_constant_header_size(data, message))
    if message.group is not None:
        shape.variable("H", present=message.group.network_message_number is not None)
    from_group = shape.variable("H", present=group_sequence is not None)
    if message.writer_ids is not None:
        shape.constant(1 + 2 * len(message.writer_ids))
    network_ticks = shape.variable("q", present=message.timestamp is not None)
    network_ps = shape.variable("H", present=message.picoseconds is not None)
    shape.constant(2 if data[shape.pos] & flags.DSM_FLAGS_2 else 1)
    sequence = shape.variable("H", present=body.sequence is not None)
    ticks = shape.variable("q", present=body.timestamp is not None)
    body_ps = shape.variable("H", present=body.picoseconds is not None)
    status = shape.variable("H", present=body.status is not None)
    shape.constant(4 * ((body.config_major is not None) + (body.config_minor is not None)))
    variant = body.encoding is FieldEncoding.VARIANT
    shape.constant(2 if variant else 0)
    shape.flush()
    for code in codes:
        if variant:
            shape.variable("B")
        shape.variable(code)
    step = 2 if variant else 1
    first_value = len(shape.codes) - len(codes) * step + step - 1
    end_value = len(shape.codes)
    shape.constant(body.padding)
    shape.flush()
    own_ticks = ticks != _ABSENT
    return Plan(
        shape=Struct("<" + "".join(shape.codes)),
        constants=tuple(shape.constants),
        picoseconds=tuple(index for index in (network_ps, body_ps) if index != _ABSENT),
        sequence=sequence if sequence != _ABSENT else from_group,
        ticks=_ABSENT if layout.receive_time else ticks if own_ticks else network_ticks,
        ticks_picoseconds=body_ps if own_ticks else network_ps,
        status=status,
        values=slice(first_value, end_value, step),
        types=slice(first_value - 1, end_value, 2),
        type_bytes=tuple(int(kind) for _, kind in layout.fields) if variant else None,
        all_good=(0,) * len(codes),
    )


def _types_match(layout: DataSetLayout, fields: tuple[object, ...]) -> bool:
    return len(fields) == len(layout.fields) and all(
        isinstance(field, Variant) and not field.array and field.type is kind
        for field, (_, kind) in zip(fields, layout.fields, strict=True)
    )


def _constant_header_size(data: bytes, message: NetworkMessage) -> int:
    """Bytes up to and including GroupVersion: flags, PublisherId, DataSetClassId, group identifiers."""
    stop = NetworkMessage(
        publisher=message.publisher,
        class_id=message.class_id,
        timestamp=message.timestamp,
        picoseconds=message.picoseconds,
    )
    # Header bytes do not depend on what follows, so the encoder itself says how long they are.
    size = header_size(stop)
    if message.group is not None:
        size += 1
        size += 2 if message.group.writer_group_id is not None else 0
        size += 4 if message.group.group_version is not None else 0
    assert size <= len(data)
    return size
