"""Every small change of a circuit's rows: one removed, one coefficient or constant changed, two weights swapped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attest.proof import Circuit, Constraint, LinearCombination
from attest.proof.circuit import COEFFICIENT_MAX, COEFFICIENT_MIN
from tests.attest.proof.forge import without_row

SIDES = ("a", "b", "c")


def with_row(circuit: Circuit, index: int, row: Constraint) -> Circuit:
    return replace(circuit, constraints=(*circuit.constraints[:index], row, *circuit.constraints[index + 1 :]))


def removed_rows(circuit: Circuit) -> Iterator[tuple[str, Circuit]]:
    for index in range(len(circuit.constraints)):
        yield f"row {index} removed", without_row(circuit, index)


def changed_rows(circuit: Circuit, index: int) -> Iterator[tuple[str, Circuit]]:
    """Every change of row ``index`` with another meaning; its name says what was done."""
    row = circuit.constraints[index]
    for side in SIDES:
        lc: LinearCombination = getattr(row, side)
        for name, terms in _changed(lc.terms):
            changed = LinearCombination.of(terms)
            in_range = all(COEFFICIENT_MIN <= c <= COEFFICIENT_MAX for _, c in changed.terms)
            if changed != lc and in_range:
                yield f"row {index}, {side}: {name}", with_row(circuit, index, replace(row, **{side: changed}))


def _changed(terms: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    yield "constant + 1", [*terms, (0, 1)]
    for at, (wire, c) in enumerate(terms):
        rest = [term for term in terms if term[0] != wire]
        yield f"wire {wire} removed", rest
        for name, other in (("+ 1", c + 1), ("- 1", c - 1), ("negated", -c), ("doubled", 2 * c)):
            yield f"coefficient of wire {wire} {name}", [*rest, (wire, other)]
        if at:
            before, weight = terms[at - 1]
            others = [term for term in terms if term[0] not in (wire, before)]
            yield f"weights of wires {before} and {wire} swapped", [*others, (before, c), (wire, weight)]
