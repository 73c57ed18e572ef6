"""LayoutWriter: values → key-frame datagram of one declared DataSet, the counterpart of LayoutReader."""

from __future__ import annotations

from collections.abc import Sequence

from fieldbus.uadp.encoder import encode
from fieldbus.uadp.errors import UadpError
from fieldbus.uadp.layout import DataSetLayout
from fieldbus.uadp.model import DataSetMessage, FieldEncoding, GroupHeader, NetworkMessage
from fieldbus.uadp.security import SecureWriter
from fieldbus.uadp.sequence import MODULUS
from fieldbus.uadp.times import ns_to_ticks
from fieldbus.uadp.types import BuiltinType, DataValue, Field, Scalar, Variant
from fieldbus.uadp.values import encode_scalar

_BAD = 2


class LayoutWriter:
    """Writes key frames with sequence number, timestamp and status; counts the sequence itself."""

    __slots__ = ("_layout", "_security", "_sequence")

    def __init__(self, layout: DataSetLayout, *, first_sequence: int = 0, security: SecureWriter | None = None) -> None:
        """``security`` seals every message; the sequence goes on over a change of its key."""
        if not 0 <= first_sequence < MODULUS:
            raise ValueError(f"sequence number {first_sequence} is outside 0 … 65535")
        self._layout = layout
        self._security = security
        self._sequence = first_sequence

    @property
    def next_sequence(self) -> int:
        """Sequence number the next message will carry."""
        return self._sequence

    def write(
        self,
        *,
        t_source_ns: int,
        values: Sequence[Scalar],
        status: int = 0,
        field_status: Sequence[int] | None = None,
    ) -> bytes:
        """One datagram.

        ``t_source_ns`` Unix ns (kept to 100 ns); ``status`` StatusCode of the whole message, of which the wire
        carries the upper half; ``field_status`` one StatusCode per field. A bad field's value may be ``None``.
        Raises UadpError ``field-count``, ``field-status`` (RawData cannot carry one) or an encoder's code;
        the sequence number is used up only on success.
        """
        layout = self._layout
        if len(values) != len(layout.fields):
            raise UadpError("field-count", found=str(len(values)), expected=str(len(layout.fields)))
        statuses = field_status if field_status is not None else (0,) * len(values)
        if len(statuses) != len(values):
            raise UadpError("field-count", found=f"{len(statuses)} statuses", expected=str(len(values)))
        fields, raw = self._body(values, statuses)
        major, minor = layout.config_version or (None, None)
        data = encode(
            NetworkMessage(
                publisher=layout.publisher,
                group=GroupHeader(writer_group_id=layout.writer_group_id, group_version=layout.group_version),
                writer_ids=None if layout.fixed else (layout.data_set_writer_id,),
                messages=(
                    DataSetMessage(
                        encoding=layout.encoding,
                        fields=fields,
                        raw=raw,
                        sequence=self._sequence,
                        timestamp=None if layout.receive_time else ns_to_ticks(t_source_ns),
                        status=status >> 16,
                        config_major=major,
                        config_minor=minor,
                    ),
                ),
            )
        )
        if self._security is not None:
            data = self._security.seal(data)
        self._sequence = (self._sequence + 1) % MODULUS
        return data

    def _body(self, values: Sequence[Scalar], statuses: Sequence[int]) -> tuple[tuple[Field, ...], bytes | None]:
        rows = list(zip(self._layout.fields, values, statuses, strict=True))
        if self._layout.encoding is FieldEncoding.RAW:
            if any(statuses):
                raise UadpError("field-status", found="a field status", expected="none with RawData")
            out = bytearray()
            for (_, kind), value, _ in rows:
                encode_scalar(out, kind, value)
            return (), bytes(out)
        if self._layout.encoding is FieldEncoding.DATA_VALUE:
            return tuple([_data_value(kind, value, code) for (_, kind), value, code in rows]), None
        return tuple([_variant(kind, value, code) for (_, kind), value, code in rows]), None


def _data_value(kind: BuiltinType, value: Scalar, status: int) -> DataValue:
    if value is None and status >> 30 >= _BAD:
        return DataValue(None, status)
    return DataValue(Variant(kind, value), status or None)


def _variant(kind: BuiltinType, value: Scalar, status: int) -> Variant:
    """A bad field sends its StatusCode in place of the value; an uncertain one cannot say so in a Variant."""
    if status >> 30 >= _BAD:
        return Variant(BuiltinType.STATUSCODE, status)
    if status:
        raise UadpError("field-status", found=f"{status:#010x}", expected="good or bad, or DataValue encoding")
    return Variant(kind, value)
