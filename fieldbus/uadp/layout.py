"""The DataSet a deployment declares, and one sample of it."""

from __future__ import annotations

from dataclasses import dataclass

from fieldbus.uadp.limits import FIELDS_MAX
from fieldbus.uadp.model import FieldEncoding, PublisherId
from fieldbus.uadp.types import SCALAR_TYPES, STRUCT_CODES, BuiltinType, Scalar


@dataclass(frozen=True, slots=True)
class DataSetLayout:
    """Who sends the DataSet and what is in it, in field order; a message that differs is refused.

    ``fields`` are (name, built-in type) of scalars. ``config_version`` (major, minor) and ``group_version``, where
    declared, must be in the message and equal. ``fixed``: the message has no payload header (OPC 10000-14, A.2.2,
    UADP-Periodic-Fixed), so what says whose it is, is the group, and it has one DataSetMessage. ``receive_time``: the
    publisher sends no times, or none to go by; the moment of reception stands for them.
    Raises ValueError for a layout that no message can have.
    """

    publisher: PublisherId
    writer_group_id: int
    data_set_writer_id: int
    fields: tuple[tuple[str, BuiltinType], ...]
    encoding: FieldEncoding = FieldEncoding.VARIANT
    config_version: tuple[int, int] | None = None
    group_version: int | None = None
    fixed: bool = False
    receive_time: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.fields) <= FIELDS_MAX:
            raise ValueError(f"{len(self.fields)} fields; a DataSet has 1 to {FIELDS_MAX}")
        names = [name for name, _ in self.fields]
        if len(set(names)) != len(names):
            raise ValueError("two fields have the same name")
        if any(kind not in SCALAR_TYPES for _, kind in self.fields):
            raise ValueError("a field is a number, Boolean, text, bytes, Guid, DateTime or StatusCode")
        if self.encoding is FieldEncoding.RAW and any(kind not in STRUCT_CODES for _, kind in self.fields):
            raise ValueError("RawData needs types of fixed size: numbers, Boolean, DateTime, StatusCode")
        for number in (self.writer_group_id, self.data_set_writer_id):
            if not 0 <= number <= 0xFFFF:
                raise ValueError(f"identifier {number} is outside UInt16")

    @property
    def names(self) -> tuple[str, ...]:
        """Field names in order."""
        return tuple(name for name, _ in self.fields)

    @property
    def struct_codes(self) -> str | None:
        """``struct`` letters of the fields in order, or None where a field has no fixed size."""
        codes = [STRUCT_CODES.get(kind) for _, kind in self.fields]
        return None if None in codes else "".join(code for code in codes if code is not None)


@dataclass(frozen=True, slots=True)
class DataSetSample:
    """One set of values.

    ``sequence``: 0 … 65,535 as sent (see SequenceTracker). ``t_source_ns``: Unix ns by the publisher's clock.
    ``values``: in layout order; ``None`` where the field's quality, or the whole message's, is bad, whatever was
    sent along. ``status``: the worst StatusCode of the message and its fields (0 is Good); ``field_status``: one
    StatusCode per field.
    """

    sequence: int
    t_source_ns: int
    values: tuple[Scalar, ...]
    status: int
    field_status: tuple[int, ...]

    @property
    def good(self) -> bool:
        """True where every quality is Good (severity bits 00)."""
        return self.status >> 30 == 0
