"""The rows of a sealed circuit are shown to hold box, model and commitment; none can be removed or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from attest.proof import CircuitError, Constraint, Curve, Interval, LinearCombination
from attest.proof.sealed.circuit import COMMITMENT_WIRE, CommitOp, FieldCombination, FieldConstraint, SealedCircuit
from attest.proof.sealed.uniqueness import analyse_sealed
from tests.attest.proof.mutations import changed_rows
from tests.attest.proof.sealed.cases import BOX, sealed

CURVES = pytest.mark.parametrize("curve", list(Curve), ids=lambda curve: curve.text)


def codes(circuit: SealedCircuit, box: tuple[Interval, ...] = BOX) -> set[str]:
    return {finding.code for finding in analyse_sealed(circuit, box).findings}


def without(rows: tuple[object, ...], index: int) -> tuple[object, ...]:
    return rows[:index] + rows[index + 1 :]


@CURVES
def test_the_sealed_circuit_is_shown(curve: Curve) -> None:
    circuit = sealed(curve)
    result = analyse_sealed(circuit, BOX)
    assert result.findings == ()
    assert (result.rows, result.wires) == (circuit.n_rows, circuit.n_wires)


@CURVES
def test_no_row_can_be_removed(curve: Curve) -> None:
    circuit = sealed(curve)
    for index in range(len(circuit.constraints)):
        changed = replace(circuit, constraints=without(circuit.constraints, index))
        assert codes(changed), f"row {index}"
    for index in range(len(circuit.field_constraints)):
        changed = replace(circuit, field_constraints=without(circuit.field_constraints, index))
        assert codes(changed), f"field row {index}"


def test_no_coefficient_of_sampled_integer_rows_can_be_changed() -> None:
    circuit = sealed()
    for index in range(0, len(circuit.constraints), 3):
        for what, mutated in changed_rows(circuit, index):  # type: ignore[arg-type]
            assert codes(mutated), what  # type: ignore[arg-type]


def changed_field_rows(row: FieldConstraint, r: int) -> Iterator[FieldConstraint]:
    for side in ("a", "b", "c"):
        terms = getattr(row, side).terms
        for wire, c in terms[:1]:
            rest = [term for term in terms if term[0] != wire]
            for other in (0, c + 1, -c, 2 * c):
                yield replace(row, **{side: FieldCombination.of((*rest, (wire, other)), r)})
        yield replace(row, **{side: FieldCombination.of((*terms, (0, 1)), r)})


def test_no_coefficient_of_sampled_field_rows_can_be_changed() -> None:
    circuit = sealed()
    for index in (*range(0, len(circuit.field_constraints), 9), len(circuit.field_constraints) - 1):
        row = circuit.field_constraints[index]
        for changed in changed_field_rows(row, circuit.modulus):
            rows = (*circuit.field_constraints[:index], changed, *circuit.field_constraints[index + 1 :])
            assert changed == row or codes(replace(circuit, field_constraints=rows)), f"field row {index}"


@pytest.mark.parametrize("index", range(3))
def test_a_box_that_the_rows_do_not_hold_is_found(index: int) -> None:
    for side in (Interval(BOX[index].lo - 1, BOX[index].hi), Interval(BOX[index].lo, BOX[index].hi + 1)):
        assert "range" in codes(sealed(), (*BOX[:index], side, *BOX[index + 1 :]))


def test_rows_that_mix_the_two_kinds_of_wires_are_found() -> None:
    circuit = sealed()
    row = Constraint(LinearCombination(((COMMITMENT_WIRE, 1),)), LinearCombination(), LinearCombination())
    assert "row-unused" in codes(replace(circuit, constraints=(*circuit.constraints, row)))


def test_the_commitment_needs_its_operation() -> None:
    circuit = sealed()
    ops = tuple(op for op in circuit.ops if not isinstance(op, CommitOp))
    assert "signal-unbound" in codes(replace(circuit, ops=ops))


def test_a_box_of_another_size_is_refused() -> None:
    with pytest.raises(CircuitError) as refused:
        analyse_sealed(sealed(), BOX[:-1])
    assert refused.value.code == "circuit-bounds"
