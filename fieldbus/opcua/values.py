"""Values between Python and OPC UA Variants: exact types only, no silent conversion on the way to a PLC."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import GOOD

TagValue: TypeAlias = bool | int | float | str | bytes | dt.datetime | None

VALUE_LENGTH_MAX = 65_536
"""Characters or bytes of one value."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)

_INTEGERS: dict[Any, tuple[int, int]] = {
    ua.VariantType.SByte: (-(2**7), 2**7 - 1),
    ua.VariantType.Byte: (0, 2**8 - 1),
    ua.VariantType.Int16: (-(2**15), 2**15 - 1),
    ua.VariantType.UInt16: (0, 2**16 - 1),
    ua.VariantType.Int32: (-(2**31), 2**31 - 1),
    ua.VariantType.UInt32: (0, 2**32 - 1),
    ua.VariantType.Int64: (-(2**63), 2**63 - 1),
    ua.VariantType.UInt64: (0, 2**64 - 1),
}
_OTHERS: dict[Any, type] = {
    ua.VariantType.Boolean: bool,
    ua.VariantType.String: str,
    ua.VariantType.ByteString: bytes,
    ua.VariantType.DateTime: dt.datetime,
}
_FLOATS = frozenset({ua.VariantType.Float, ua.VariantType.Double})
_FLOAT32_MAX = 3.4028234663852886e38

_SUBTYPES: dict[int, Any] = {
    290: ua.VariantType.Double,  # Duration
    294: ua.VariantType.DateTime,  # UtcTime
}


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One value with its quality. ``status``: StatusCode (0 Good). Times: Unix ns, None where not given.

    A bad status keeps ``value`` None, whatever the server sent along with it.
    """

    tag: str
    value: TagValue
    status: int
    t_source_ns: int | None
    t_server_ns: int | None

    @property
    def good(self) -> bool:
        """True where the severity is Good."""
        return self.status >> 30 == 0


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The server's StatusCode for one written tag."""

    tag: str
    status: int

    @property
    def good(self) -> bool:
        """True where the severity is Good."""
        return self.status >> 30 == 0


def variant_type_of(data_type: Any) -> Any | None:
    """The VariantType to write for a node's DataType attribute, or None for one that is not a plain scalar."""
    if not isinstance(data_type, ua.NodeId) or data_type.NamespaceIndex != 0:
        return None
    if data_type.Identifier in _SUBTYPES:
        return _SUBTYPES[data_type.Identifier]
    for kind in (*_INTEGERS, *_OTHERS, *_FLOATS):
        if kind.value == data_type.Identifier:
            return kind
    return None


def to_variant(tag: str, value: TagValue, kind: Any) -> Any:
    """A Variant of exactly ``kind``; raises OpcUaError ``value-type`` or ``value-range`` (NaN, infinity too)."""
    if kind in _FLOATS:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _wrong_type(tag, value, kind)
        number = float(value)
        if not math.isfinite(number) or (kind == ua.VariantType.Float and abs(number) > _FLOAT32_MAX):
            raise OpcUaError("value-range", found=f"{value!r} for {tag}", expected=f"a finite {kind.name}")
        return ua.Variant(number, kind)
    limits = _INTEGERS.get(kind)
    if limits is not None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong_type(tag, value, kind)
        if not limits[0] <= value <= limits[1]:
            raise OpcUaError("value-range", found=f"{value} for {tag}", expected=f"{limits[0]} … {limits[1]}")
        return ua.Variant(value, kind)
    if type(value) is not _OTHERS.get(kind):
        raise _wrong_type(tag, value, kind)
    return ua.Variant(value, kind)


def _wrong_type(tag: str, value: TagValue, kind: Any) -> OpcUaError:
    name = kind.name if kind is not None else "a scalar of a known data type"
    return OpcUaError("value-type", found=f"{type(value).__name__} for {tag}", expected=name)


def from_data_value(tag: str, data_value: Any) -> ReadResult:
    """The ReadResult of an ``ua.DataValue``; picoseconds are left out, being below what any clock here can tell.

    An array or structure is refused with Bad_TypeMismatch, NaN and the infinities with Bad_OutOfRange, a longer text
    than a process value has with Bad_EncodingLimitsExceeded: a hand-over of a thousand of them must fit into memory.
    """
    status = data_value.StatusCode.value if data_value.StatusCode is not None else GOOD
    value = data_value.Value.Value if data_value.Value is not None else None
    if status >> 30 >= 2:
        value = None
    elif not isinstance(value, (bool, int, float, str, bytes, dt.datetime)):
        status, value = int(ua.StatusCodes.BadTypeMismatch), None
    elif isinstance(value, float) and not math.isfinite(value):
        status, value = int(ua.StatusCodes.BadOutOfRange), None  # as fieldbus.sample.good: no measurement
    elif isinstance(value, (str, bytes)) and len(value) > VALUE_LENGTH_MAX:
        status, value = int(ua.StatusCodes.BadEncodingLimitsExceeded), None
    return ReadResult(
        tag, value, int(status), _unix_ns(data_value.SourceTimestamp), _unix_ns(data_value.ServerTimestamp)
    )


def _unix_ns(moment: dt.datetime | None) -> int | None:
    if moment is None:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return (aware - _EPOCH) // _MICROSECOND * 1_000
