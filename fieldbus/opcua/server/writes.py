"""What may be written into a variable: its very type and rank, finite, good, and of today.

asyncua 2.1 takes arrays into scalars, NaN, Inf, a null, a whole array for an index range, and any timestamp.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from asyncua import ua

from fieldbus.opcua.server.limits import Limits

_FLOATS = frozenset({ua.VariantType.Float, ua.VariantType.Double})


def refusal(item: Any, aspace: Any, limits: Limits, *, now: dt.datetime | None = None) -> int | None:
    """The status code that refuses this WriteValue, or None. Access is not judged here."""
    if item.AttributeId != ua.AttributeIds.Value:
        return int(ua.StatusCodes.BadUserAccessDenied)
    if item.IndexRange:
        return int(ua.StatusCodes.BadIndexRangeInvalid)
    data = item.Value
    if data is None or data.Value is None or data.Value.Value is None:
        return int(ua.StatusCodes.BadTypeMismatch)
    if data.StatusCode is not None and data.StatusCode.value != ua.StatusCodes.Good:
        return int(ua.StatusCodes.BadWriteNotSupported)
    moment = now if now is not None else dt.datetime.now(dt.UTC)
    if not all(_near(stamp, moment, limits) for stamp in (data.SourceTimestamp, data.ServerTimestamp)):
        return int(ua.StatusCodes.BadInvalidTimestamp)
    return _value_refusal(data.Value, item.NodeId, aspace)


def _near(stamp: dt.datetime | None, now: dt.datetime, limits: Limits) -> bool:
    if stamp is None:
        return True
    aware = stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=dt.UTC)
    return -limits.clock_behind_s <= (aware - now).total_seconds() <= limits.clock_ahead_s


def _value_refusal(variant: Any, node_id: Any, aspace: Any) -> int | None:
    is_array = bool(variant.is_array) or isinstance(variant.Value, list)
    rank = _attribute(aspace, node_id, ua.AttributeIds.ValueRank)
    if not _rank_fits(int(ua.ValueRank.Scalar) if rank is None else int(rank), variant, is_array):
        return int(ua.StatusCodes.BadTypeMismatch)
    if not _type_fits(variant, node_id, aspace):
        return int(ua.StatusCodes.BadTypeMismatch)
    if variant.VariantType in _FLOATS:
        values = ua.flatten(variant.Value) if is_array else [variant.Value]
        if not all(isinstance(value, float) and math.isfinite(value) for value in values):
            return int(ua.StatusCodes.BadOutOfRange)
    return None


def _attribute(aspace: Any, node_id: Any, attribute: Any) -> Any:
    data = aspace.read_attribute_value(node_id, attribute)
    return None if data.Value is None else data.Value.Value


def _rank_fits(rank: int, variant: Any, is_array: bool) -> bool:
    """OPC 10000-3, 5.6.2: −3 scalar or one dimension, −2 any, −1 scalar, 0 any array, n > 0 that many dimensions."""
    dimensions = 0 if not is_array else len(variant.Dimensions) if variant.Dimensions else 1
    return {-3: dimensions <= 1, -2: True, -1: dimensions == 0, 0: dimensions >= 1}.get(rank, dimensions == rank)


def _type_fits(variant: Any, node_id: Any, aspace: Any) -> bool:
    """The type of the value there is; where there is none, the built-in type the variable declares."""
    current = aspace.read_attribute_value(node_id, ua.AttributeIds.Value).Value
    if current is not None and current.VariantType is not ua.VariantType.Null:
        if variant.VariantType is not current.VariantType:
            return False
        is_structure = variant.VariantType is ua.VariantType.ExtensionObject
        return not is_structure or isinstance(current.Value, type(variant.Value))
    declared = _attribute(aspace, node_id, ua.AttributeIds.DataType)
    if not isinstance(declared, ua.NodeId) or declared.NamespaceIndex != 0 or not isinstance(declared.Identifier, int):
        return False
    return bool(1 <= declared.Identifier <= 23 and variant.VariantType.value == declared.Identifier)
