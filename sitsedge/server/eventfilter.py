"""Event filters of clients (OPC 10000-4, 7.7.3 and 7.22.3), evaluated strictly on the fields of one event.

asyncua's own evaluation compares event types for equality, so that a filter for a supertype finds nothing, and raises
what it does not know into the code that reports the event. Here types know their supertypes, logic has three values as
the standard orders, and any filter gives a result in bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from asyncua import ua

ELEMENTS_MAX: Final = 64
OPERANDS_MAX: Final = 128
DEPTH_MAX: Final = 16
EVALUATIONS_MAX: Final = 256  # elements that name another twice would double the work with each of them
SELECT_MAX: Final = 256

_Logic = bool | None


class FilterUnclear(Exception):
    """A filter this server does not understand."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its type with all supertypes, the condition it is about, and its fields by browse path.

    A path is the browse names joined by ``/``, as ``ActiveState/Id``; values are variants.
    """

    types: tuple[ua.NodeId, ...]
    condition: ua.NodeId | None
    fields: Mapping[str, ua.Variant]

    def select(self, clauses: list[Any]) -> list[ua.Variant]:
        """The values of the select clauses, Null for what this event does not have (7.22.3, selectClauses)."""
        return [self._value(clause) or ua.Variant(None) for clause in clauses[:SELECT_MAX]]

    def passes(self, where: Any) -> bool:
        """Whether the event fits; Raises :class:`FilterUnclear`."""
        elements = list(getattr(where, "Elements", None) or ())
        if not elements:
            return True
        if len(elements) > ELEMENTS_MAX:
            raise FilterUnclear(f"{len(elements)} elements")
        return _Evaluation(self, elements).element(0, 0) is True

    def _value(self, operand: Any) -> ua.Variant | None:
        path = getattr(operand, "BrowsePath", None) or []
        attribute = getattr(operand, "AttributeId", ua.AttributeIds.Value)
        if not path:
            # The NodeId attribute of a condition type stands for the ConditionId (OPC 10000-9, 5.5.2.13).
            wanted = attribute == ua.AttributeIds.NodeId and self.condition is not None
            return ua.Variant(self.condition, ua.VariantType.NodeId) if wanted else None
        if attribute != ua.AttributeIds.Value:
            return None
        return self.fields.get("/".join(str(name.Name) for name in path))


class _Evaluation:
    """One filter on one event. Elements may only point forward, so that no filter runs in circles."""

    def __init__(self, event: Event, elements: list[Any]) -> None:
        self._event = event
        self._elements = elements
        self._left = EVALUATIONS_MAX

    def element(self, index: int, depth: int) -> _Logic:
        self._left -= 1
        if depth > DEPTH_MAX or self._left < 0:
            raise FilterUnclear("nesting")
        element = self._elements[index]
        operands = list(element.FilterOperands or ())
        if len(operands) > OPERANDS_MAX:
            raise FilterUnclear(f"{len(operands)} operands")
        operator = element.FilterOperator

        def value(place: int) -> Any:
            if place >= len(operands):
                raise FilterUnclear("an operand missing")
            return self._operand(operands[place], index, depth)

        if operator == ua.FilterOperator.OfType:
            return value(0) in self._event.types
        if operator == ua.FilterOperator.And:
            return _and(_logic(value(0)), _logic(value(1)))
        if operator == ua.FilterOperator.Or:
            return _or(_logic(value(0)), _logic(value(1)))
        if operator == ua.FilterOperator.Not:
            known = _logic(value(0))
            return None if known is None else not known
        if operator == ua.FilterOperator.IsNull:
            return value(0) is None
        if operator == ua.FilterOperator.InList:
            first = value(0)
            return None if first is None else any(value(place) == first for place in range(1, len(operands)))
        if operator == ua.FilterOperator.Between:
            return _and(
                _compare(lambda a, b: a >= b, value(0), value(1)), _compare(lambda a, b: a <= b, value(0), value(2))
            )
        compare = _COMPARISONS.get(operator)
        if compare is None:
            raise FilterUnclear(f"operator {operator}")
        return _compare(compare, value(0), value(1))

    def _operand(self, operand: Any, index: int, depth: int) -> Any:
        if isinstance(operand, ua.ElementOperand):
            if not index < operand.Index < len(self._elements):
                raise FilterUnclear(f"element {operand.Index}")
            return self.element(operand.Index, depth + 1)
        if isinstance(operand, ua.LiteralOperand):
            return _plain(operand.Value)
        if isinstance(operand, ua.SimpleAttributeOperand):
            return _plain(self._event._value(operand))
        raise FilterUnclear(type(operand).__name__)


def _plain(variant: Any) -> Any:
    value = None if variant is None else getattr(variant, "Value", variant)
    return value.Text if isinstance(value, ua.LocalizedText) else value


def _logic(value: Any) -> _Logic:
    if value is None or isinstance(value, bool):
        return value
    raise FilterUnclear("a value that is no truth value")


def _and(left: _Logic, right: _Logic) -> _Logic:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: _Logic, right: _Logic) -> _Logic:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _compare(how: Callable[[Any, Any], bool], left: Any, right: Any) -> _Logic:
    if left is None or right is None:
        return None
    try:
        return bool(how(left, right))
    except TypeError:
        return None  # values of types that do not convert compare to Null (table 121)


_COMPARISONS: Final[dict[Any, Callable[[Any, Any], bool]]] = {
    ua.FilterOperator.Equals: lambda a, b: bool(a == b),
    ua.FilterOperator.GreaterThan: lambda a, b: bool(a > b),
    ua.FilterOperator.GreaterThanOrEqual: lambda a, b: bool(a >= b),
    ua.FilterOperator.LessThan: lambda a, b: bool(a < b),
    ua.FilterOperator.LessThanOrEqual: lambda a, b: bool(a <= b),
}
