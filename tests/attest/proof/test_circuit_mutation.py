"""No row of a circuit can be removed or changed unnoticed, and what a missing row lets through is shown.

Two independent arguments: the analysis of ``attest.proof.uniqueness`` refuses every mutated circuit, and for each
mutation there is a concrete witness: a false one that passes, or an honest one that no longer does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from attest.proof import Circuit, CircuitBuilder, CircuitError, Constraint, Curve, Interval, LinearCombination
from attest.proof.circuit import BitsOp, MulOp, Op, OutOp
from attest.proof.uniqueness import FINDINGS_MAX, analyse, require_unique
from tests.attest.proof.forge import ORDERS, binds, broken, execute, false_witness, without_row
from tests.attest.proof.mutations import SIDES, changed_rows, removed_rows
from tests.attest.proof.support import BOX, toy_circuit

SIDE = Interval(-6, 5)
CURVES = pytest.mark.parametrize("curve", list(Curve), ids=lambda curve: curve.name)


def _one(gadget: Callable[[CircuitBuilder, LinearCombination, Interval], LinearCombination]) -> Circuit:
    """y = gadget(5·x_0 - 3·x_1) over the box; the sum takes -45 … 43, so that no bit of a gadget is idle."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    x, z = builder.inputs()
    builder.add_out(0, gadget(builder, 5 * x - 3 * z, Interval(5 * -6 - 3 * 5, 5 * 5 + 3 * 6)))
    return builder.finish()


CIRCUITS: dict[str, tuple[Circuit, Interval]] = {
    "relu": (_one(lambda b, v, i: b.relu_shift(v, i)), SIDE),
    "relu-shift": (_one(lambda b, v, i: b.relu_shift(v, i, shift=2)), SIDE),
    "round-shift": (_one(lambda b, v, i: b.round_shift(v, i, shift=2)), SIDE),
    "at-most": (_one(lambda b, v, i: b.at_most(v, i, 11)), SIDE),
    "at-least": (_one(lambda b, v, i: b.at_least(v, i, -13)), SIDE),
    "clamp": (_one(lambda b, v, i: b.clamp(v, i, floor=-13, ceiling=11)), SIDE),
    "linear": (_one(lambda b, v, i: v), SIDE),
    "network": (toy_circuit(), BOX),
}
NAMED = pytest.mark.parametrize("name", CIRCUITS)


def case(name: str, curve: Curve = Curve.BN254) -> tuple[Circuit, list[Interval]]:
    circuit, side = CIRCUITS[name]
    return replace(circuit, curve=curve), [side] * circuit.n_inputs


def points(box: list[Interval]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(side.lo, side.hi + 1) for side in box)))


@NAMED
@CURVES
def test_the_analysis_shows_every_circuit_of_the_builder(name: str, curve: Curve) -> None:
    circuit, box = case(name, curve)
    result = analyse(circuit, box)
    assert result.findings == ()
    assert (result.rows, result.wires) == (len(circuit.constraints), circuit.n_wires)
    assert require_unique(circuit, box) == result


@NAMED
@CURVES
def test_the_program_satisfies_every_row_over_the_whole_box(name: str, curve: Curve) -> None:
    circuit, box = case(name, curve)
    for inputs in points(box):
        assert broken(circuit, execute(circuit, inputs, 7, {}, ORDERS[curve]), ORDERS[curve]) == []


@NAMED
def test_the_analysis_refuses_a_circuit_without_any_one_row(name: str) -> None:
    circuit, box = case(name)
    for what, mutated in removed_rows(circuit):
        assert not analyse(mutated, box).shown, what
        with pytest.raises(CircuitError) as refused:
            require_unique(mutated, box)
        assert refused.value.code == "circuit-unique"


@NAMED
def test_the_analysis_refuses_every_changed_coefficient_constant_and_weight(name: str) -> None:
    circuit, box = case(name)
    for index in range(len(circuit.constraints)):
        for what, mutated in changed_rows(circuit, index):
            assert not analyse(mutated, box).shown, what


@NAMED
@CURVES
def test_without_any_one_row_a_false_witness_passes(name: str, curve: Curve) -> None:
    """A false output where one exists; rows s·0 = 0 stop nothing alone, they keep IC points from vanishing."""
    circuit, box = case(name, curve)
    order = ORDERS[curve]
    for index, row in enumerate(circuit.constraints):
        if binds(row):
            continue
        found = false_witness(circuit, index, points(box)[::5], order)
        assert found is not None, f"nothing passes without row {index}"
        assert broken(circuit, found.wires, order) == [index]
        assert broken(without_row(circuit, index), found.wires, order) == []
        assert found.output, f"row {index} only fixes private wires"


@NAMED
def test_every_changed_row_stops_an_honest_witness_or_lets_a_false_one_pass(name: str) -> None:
    """So no coefficient is idle. Rows s·0 = 0 are true whatever their numbers; they were looked at above."""
    circuit, box = case(name)
    order = ORDERS[circuit.curve]
    honest = [execute(circuit, inputs, 7, {}, order) for inputs in points(box)]
    for index, row in enumerate(circuit.constraints):
        if binds(row):
            continue
        false = false_witness(circuit, index, points(box)[::5], order)
        assert false is not None
        for what, mutated in changed_rows(circuit, index):
            changed = mutated.constraints[index]
            if means_the_same(row, changed, order):
                continue
            lone = replace(circuit, constraints=(changed,))
            stops = any(broken(lone, wires, order) for wires in honest)
            assert stops or not broken(mutated, false.wires, order), what


def means_the_same(row: Constraint, other: Constraint, r: int) -> bool:
    """Whether the second row is the first with its sides scaled (1·b = 0 and 2·b = 0)."""
    factors = [scale(getattr(row, side), getattr(other, side), r) for side in SIDES]
    a, b, c = factors
    return a is not None and b is not None and c is not None and (not row.c.terms or a * b % r == c)


def scale(lc: LinearCombination, other: LinearCombination, r: int) -> int | None:
    """λ ≠ 0 with other = λ·lc."""
    if [wire for wire, _ in lc.terms] != [wire for wire, _ in other.terms]:
        return None
    factors = {c2 * pow(c1, -1, r) % r for (_, c1), (_, c2) in zip(lc.terms, other.terms, strict=True)} or {1}
    return factors.pop() if len(factors) == 1 else None


def changed_operations(op: Op) -> Iterator[Op]:
    match op:
        case BitsOp(value, k, first):
            yield from (BitsOp(value + 1, k, first), BitsOp(value * 2, k, first), BitsOp(value, k + 1, first))
            if k > 1:
                yield BitsOp(value, k - 1, first)
        case MulOp(a, b, shift, wire):
            yield from (MulOp(a + 1, b, shift, wire), MulOp(a, b + 1, shift, wire), MulOp(a, b, shift + 1, wire))
            yield from (MulOp(b, a, shift, wire), MulOp(a, b, shift - 1, wire) if shift else MulOp(a, a, shift, wire))
        case OutOp(value, index):
            yield from (OutOp(value + 1, index), OutOp(value * 2, index), OutOp(-value, index))


@NAMED
def test_the_analysis_refuses_rows_that_force_something_else_than_the_program(name: str) -> None:
    """Unique but different from what the prover computes would be a model that nobody approved."""
    circuit, box = case(name)
    for index, op in enumerate(circuit.ops):
        for changed in changed_operations(op):
            ops = (*circuit.ops[:index], changed, *circuit.ops[index + 1 :])
            assert not analyse(replace(circuit, ops=ops), box).shown, f"{op} became {changed}"


# --- what the analysis must not be talked into ------------------------------------------------------------------------


def findings(circuit: Circuit, box: list[Interval]) -> set[str]:
    return {finding.code for finding in analyse(circuit, box).findings}


def test_a_box_wider_than_the_bits_is_a_range_finding() -> None:
    circuit, _ = case("relu")
    assert "range" in findings(circuit, [Interval(-600, 500)] * 2)


@pytest.mark.parametrize("edge", [-1, 1])
def test_the_widest_box_is_shown_and_one_step_wider_is_not(edge: int) -> None:
    """v = acc + 2^k must stay in 0 … 2^(k+1) - 1: acc = -2^k and 2^k - 1 are the last values that may occur."""
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    builder.add_out(0, builder.relu_shift(builder.input(0), Interval(-16, 15)))
    circuit = builder.finish()
    assert analyse(circuit, [Interval(-16, 15)]).shown
    wider = Interval(-17, 15) if edge < 0 else Interval(-16, 16)
    assert findings(circuit, [wider]) >= {"range"}


def test_a_box_that_could_wrap_around_the_field_is_a_range_finding() -> None:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    square = builder.input(0)
    for _ in range(4):
        square = builder.add_mul(square, square)
    builder.add_out(0, square)
    circuit = builder.finish()
    assert analyse(circuit, [Interval(-15, 15)]).shown
    assert findings(circuit, [Interval(-(1 << 17), 1 << 17)]) >= {"range"}


def test_an_output_over_64_bits_is_a_range_finding() -> None:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    builder.add_out(0, builder.add_mul(builder.input(0), builder.input(0)))
    circuit = builder.finish()
    assert analyse(circuit, [Interval(-(1 << 31), 1 << 31)]).shown
    assert findings(circuit, [Interval(-(1 << 32), 1 << 32)]) == {"range", "wire-free"}


def test_a_division_by_multiplication_with_an_inverse_is_not_taken_for_exact() -> None:
    """w = a·b / 2^shift in the field is forced, but an integer only where 2^shift divides: ark-r1cs-std's trap."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    x, z = builder.inputs()
    builder.add_out(0, builder.add_mul(x, z, shift=1))
    assert "range" in findings(builder.finish(), [Interval(0, 3)] * 2)


def test_a_row_that_serves_nothing_is_reported() -> None:
    circuit, box = case("relu")
    twice = replace(circuit, constraints=(*circuit.constraints, circuit.constraints[0]))
    assert findings(twice, box) == {"row-unused"}


def test_an_input_used_by_no_weight_is_bound_by_its_own_row_only() -> None:
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    builder.add_out(0, builder.input(0))
    circuit = builder.finish()
    box = [Interval(-5, 5)] * 2
    assert analyse(circuit, box).shown
    (idle,) = [i for i, row in enumerate(circuit.constraints) if row.a.terms == ((2, 1),)]
    assert findings(without_row(circuit, idle), box) == {"signal-unbound"}


def test_a_wire_no_operation_writes_is_reported() -> None:
    circuit, box = case("linear")
    assert findings(replace(circuit, n_witness=1), box) == {"wire-free"}


def test_a_wire_written_twice_is_reported() -> None:
    circuit, box = case("relu")
    product = next(op for op in circuit.ops if isinstance(op, MulOp))
    row = next(row for row in circuit.constraints if row.a == product.a and row.b == product.b)
    twice = replace(circuit, ops=(*circuit.ops, product), constraints=(*circuit.constraints, row))
    assert "wire-free" in findings(twice, box)


def test_findings_are_bounded() -> None:
    circuit, box = case("clamp")
    assert len(analyse(replace(circuit, constraints=circuit.constraints[:1]), box).findings) <= FINDINGS_MAX


@pytest.mark.parametrize("box", [[], [SIDE], [SIDE] * 3, [SIDE, Interval(0, 1 << 63)]])
def test_a_box_that_does_not_fit_is_refused(box: list[Interval]) -> None:
    circuit, _ = case("relu")
    with pytest.raises(CircuitError) as refused:
        analyse(circuit, box)
    assert refused.value.code == "circuit-bounds"
