"""Which filters of monitored items are taken (OPC 10000-4, 7.22).

asyncua 2.1 keeps any filter and fails on it when a value comes; it evaluates a where clause by following operands, so
that one element naming another twice, and that one a third twice, costs twice as much with each; and it looks up field
names as attributes of a Python object.
"""

from __future__ import annotations

import math
from typing import Any

from asyncua import ua
from asyncua.ua import uaprotocol_auto

from fieldbus.opcua.server.subscriptions import is_number

WHERE_ELEMENTS_MAX = 32
OPERANDS_MAX = 128
"""One list may name every type of event: asyncua's clients send the 107 below BaseEventType so."""

SELECT_MAX = 256
PATH_MAX = 8
NAME_CHARS_MAX = 512
"""Of a browse name (OPC 10000-3, 8.3)."""

_ARITY = {
    ua.FilterOperator.Equals: 2,
    ua.FilterOperator.IsNull: 1,
    ua.FilterOperator.GreaterThan: 2,
    ua.FilterOperator.LessThan: 2,
    ua.FilterOperator.GreaterThanOrEqual: 2,
    ua.FilterOperator.LessThanOrEqual: 2,
    ua.FilterOperator.Not: 1,
    ua.FilterOperator.Between: 3,
    ua.FilterOperator.InList: None,
    ua.FilterOperator.And: 2,
    ua.FilterOperator.Or: 2,
    ua.FilterOperator.OfType: 1,
}
"""Operators that are evaluated, with their operands; None: two or more."""


def refusal(filter_: Any, read_value: Any, aspace: Any) -> int | None:
    """The status code that refuses this filter on the item that ``read_value`` names, or None."""
    if read_value.AttributeId == ua.AttributeIds.EventNotifier:
        return _event_refusal(filter_)
    if filter_ is None or (isinstance(filter_, ua.ExtensionObject) and filter_.TypeId.is_null()):
        return None
    if not isinstance(filter_, uaprotocol_auto.DataChangeFilter):  # what is decoded; ua has a subclass of it
        return int(ua.StatusCodes.BadFilterNotAllowed)
    if filter_.DeadbandType == ua.DeadbandType.None_:
        return None
    if filter_.DeadbandType != ua.DeadbandType.Absolute:
        return int(ua.StatusCodes.BadMonitoredItemFilterUnsupported)
    if not (math.isfinite(filter_.DeadbandValue) and filter_.DeadbandValue >= 0.0):
        return int(ua.StatusCodes.BadDeadbandFilterInvalid)
    value = aspace.read_attribute_value(read_value.NodeId, read_value.AttributeId).Value
    if value is not None and value.Value is not None and not is_number(value.Value):
        return int(ua.StatusCodes.BadFilterNotAllowed)
    return None


def _event_refusal(filter_: Any) -> int | None:
    if not isinstance(filter_, ua.EventFilter):
        return int(ua.StatusCodes.BadEventFilterInvalid)
    if not 1 <= len(filter_.SelectClauses) <= SELECT_MAX or not all(_field(clause) for clause in filter_.SelectClauses):
        return int(ua.StatusCodes.BadEventFilterInvalid)
    elements = filter_.WhereClause.Elements
    if len(elements) > WHERE_ELEMENTS_MAX:
        return int(ua.StatusCodes.BadEventFilterInvalid)
    named: set[int] = set()
    for position, element in enumerate(elements):
        if element.FilterOperator not in _ARITY:
            return int(ua.StatusCodes.BadFilterOperatorUnsupported)
        arity, count = _ARITY[element.FilterOperator], len(element.FilterOperands)
        if count > OPERANDS_MAX or (count != arity if arity is not None else count < 2):
            return int(ua.StatusCodes.BadFilterOperandCountMismatch)
        if not all(_operand(operand, position, len(elements), named) for operand in element.FilterOperands):
            return int(ua.StatusCodes.BadFilterOperandInvalid)
    return None


def _operand(operand: Any, position: int, count: int, named: set[int]) -> bool:
    """Element operands form a tree: each names a later element that no other names."""
    if isinstance(operand, ua.ElementOperand):
        if not position < operand.Index < count or operand.Index in named:
            return False
        named.add(operand.Index)
        return True
    if isinstance(operand, ua.SimpleAttributeOperand):
        return _field(operand)
    return isinstance(operand, ua.LiteralOperand)


def _field(clause: Any) -> bool:
    """A path of names; none begins with an underscore, as what asyncua looks up as an attribute may."""
    if clause.IndexRange or not isinstance(clause.AttributeId, int) or not 1 <= clause.AttributeId <= 27:
        return False
    names = [element.Name or "" for element in clause.BrowsePath]
    return len(names) <= PATH_MAX and all(0 < len(name) <= NAME_CHARS_MAX and name[0] != "_" for name in names)
