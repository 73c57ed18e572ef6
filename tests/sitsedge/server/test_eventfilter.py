"""Event filters against OPC 10000-4, 7.7.3: three-valued logic, types with supertypes, bounded work on any filter."""

from __future__ import annotations

from typing import Any

import pytest
from asyncua import ua

from sitsedge.server.eventfilter import EVALUATIONS_MAX, Event, FilterUnclear

Op = ua.FilterOperator
ALARM, CONDITION, BASE = (ua.NodeId(number) for number in (2915, 2782, 2041))
EVENT = Event(
    (ALARM, CONDITION, BASE),
    ua.NodeId("Condition.X", 1),
    {
        "Severity": ua.Variant(700, ua.VariantType.UInt16),
        "Message": ua.Variant(ua.LocalizedText("gone"), ua.VariantType.LocalizedText),
        "ActiveState/Id": ua.Variant(True, ua.VariantType.Boolean),
    },
)


def field(path: str, attribute: int = 13) -> Any:
    names = [ua.QualifiedName(part) for part in path.split("/")] if path else []
    return ua.SimpleAttributeOperand(TypeDefinitionId=BASE, BrowsePath=names, AttributeId=attribute)


def value(plain: Any) -> Any:
    return ua.LiteralOperand(Value=ua.Variant(plain))


def where(*elements: tuple[Any, list[Any]]) -> Any:
    return ua.ContentFilter(
        Elements=[
            ua.ContentFilterElement(FilterOperator=operator, FilterOperands=operands) for operator, operands in elements
        ]
    )


def ref(index: int) -> Any:
    return ua.ElementOperand(Index=index)


SEVERE = (Op.GreaterThan, [field("Severity"), value(500)])
MISSING = (Op.Equals, [field("Nothing"), value(1)])
PASSES = {
    "no filter": where(),
    "a supertype": where((Op.OfType, [value(CONDITION)])),
    "greater": where(SEVERE),
    "a text": where((Op.Equals, [field("Message"), value("gone")])),
    "deep path": where((Op.Equals, [field("ActiveState/Id"), value(True)])),
    "list": where((Op.InList, [field("Severity"), value(1), value(700)])),
    "between": where((Op.Between, [field("Severity"), value(700), value(701)])),
    "null": where((Op.IsNull, [field("Nothing")])),
    "and": where((Op.And, [ref(1), ref(2)]), SEVERE, (Op.OfType, [value(BASE)])),
    "or with unknown": where((Op.Or, [ref(1), ref(2)]), MISSING, SEVERE),
    "not": where((Op.Not, [ref(1)]), (Op.LessThan, [field("Severity"), value(1)])),
    "condition": where((Op.Equals, [field("", 1), value(ua.NodeId("Condition.X", 1))])),
}
FAILS = {
    "another type": where((Op.OfType, [value(ua.NodeId(2130))])),
    "less": where((Op.LessThanOrEqual, [field("Severity"), value(699)])),
    "unknown is not true": where(MISSING),
    "not unknown is unknown": where((Op.Not, [ref(1)]), MISSING),
    "and with unknown": where((Op.And, [ref(1), ref(2)]), MISSING, SEVERE),
    "types that do not compare": where((Op.GreaterThan, [field("Message"), value(5)])),
    "list of unknown": where((Op.InList, [field("Nothing"), value(1)])),
    "another attribute": where((Op.Equals, [field("Severity", 4), value(700)])),
}
LOOP = where((Op.Or, [ref(1), ref(1)]), *[(Op.Or, [ref(i + 1), ref(i + 1)]) for i in range(1, 12)], MISSING)
UNCLEAR = {
    "itself": where((Op.Not, [ref(0)])),
    "backwards": where((Op.Not, [ref(1)]), (Op.Not, [ref(0)])),
    "beyond": where((Op.Not, [ref(7)])),
    "an operand missing": where((Op.And, [ref(1)]), SEVERE),
    "no truth value": where((Op.Not, [field("Severity")])),
    "an operator": where((Op.Like, [field("Message"), value("g%")])),
    "attribute operand": where((Op.IsNull, [ua.AttributeOperand()])),
    "too many elements": where(*[SEVERE] * 65),
    "twice as much with each": LOOP,
}


@pytest.mark.parametrize("name", PASSES)
def test_passes(name: str) -> None:
    assert EVENT.passes(PASSES[name])


@pytest.mark.parametrize("name", FAILS)
def test_does_not_pass(name: str) -> None:
    assert not EVENT.passes(FAILS[name])


@pytest.mark.parametrize("name", UNCLEAR)
def test_unclear_filters_are_named_so(name: str) -> None:
    with pytest.raises(FilterUnclear):
        EVENT.passes(UNCLEAR[name])


def test_selected_fields() -> None:
    values = EVENT.select([field("Severity"), field("ActiveState/Id"), field("Nothing"), field("", 1), field("", 4)])
    assert [item.Value for item in values] == [700, True, None, ua.NodeId("Condition.X", 1), None]
    assert len(EVENT.select([field("Severity")] * 1000)) < 1000
    assert EVALUATIONS_MAX < 2**12  # what the last unclear filter would take
