"""The sealed circuit on the reference witness: exact at every edge, and no row or wire too many."""

from __future__ import annotations

import itertools

import pytest

from attest.proof import CircuitError, Curve, Interval
from attest.proof.circuit import LinearCombination
from attest.proof.sealed import LinearRelation, Salt, SealedError, commit, seal
from attest.proof.sealed.circuit import COMMITMENT_WIRE
from attest.proof.sealed.witness import failing_rows, reference_witness
from tests.attest.proof.sealed.cases import (
    BALANCE,
    BOX,
    CTX,
    LIMITS,
    RELATIONS,
    SALT,
    TRIM,
    X,
    model,
    open_circuit,
    sealed,
)
from tests.attest.proof.sealed.forging import assigned, forged_without, integer_part, satisfying

CURVES = tuple(Curve)
HASH_ROWS = 241
"""One permutation and the row that ties its result to the public commitment."""


@pytest.mark.parametrize("curve", CURVES)
def test_public_signals_are_commitment_outputs_ctx(curve: Curve) -> None:
    circuit = sealed(curve)
    wires = reference_witness(circuit, X, SALT, CTX)
    assert not failing_rows(circuit, wires)
    assert wires[1 : 1 + circuit.n_public] == [commit(X, Salt(SALT), curve), model(X), int.from_bytes(CTX, "big")]


def test_rows() -> None:
    """Box: 5 + 1 bits twice and tied, 4 once, one row for the fixed input. Relations: 2^5, 2^5 and 2^7."""
    model_rows = len(open_circuit().constraints) - 3
    box = 2 * (5 + 1) + (4 + 1) + 1
    relations = 2 * (5 + 1) + (7 + 1)
    assert len(sealed().constraints) == model_rows + box + relations
    assert len(sealed().field_constraints) == HASH_ROWS


def test_statement_over_the_whole_neighbourhood_of_the_box() -> None:
    """Every x in the box and one count around it: satisfiable exactly where the statement holds, with the model's y."""
    circuit = integer_part(sealed())
    ranges = [range(b.lo - 1, b.hi + 2) for b in BOX]
    for x in itertools.product(*ranges):
        inside = all(b.lo <= v <= b.hi for v, b in zip(x, BOX, strict=True))
        related = -9 <= x[0] + x[1] <= 17 and 3 * model(x) - 2 * x[0] <= 40
        assert (not failing_rows(circuit, assigned(circuit, x, {}))) == (inside and related), x


@pytest.mark.parametrize(("index", "edge"), [(i, side) for i in range(3) for side in ("low", "high")])
def test_input_outside_its_box_by_one(index: int, edge: str) -> None:
    """Inside at the edge, outside one further, whatever the bits are: no assignment of this input's bits satisfies."""
    circuit = seal(open_circuit(), box=BOX)
    value, step = (BOX[index].lo, -1) if edge == "low" else (BOX[index].hi, 1)
    at_edge = (*X[:index], value, *X[index + 1 :])
    beyond = (*X[:index], value + step, *X[index + 1 :])
    assert satisfying(circuit, at_edge)
    assert not satisfying(circuit, beyond)


@pytest.mark.parametrize("relation", [BALANCE, LinearRelation("low", BALANCE.inputs, (), low=-9), TRIM])
def test_relation_violated_by_one(relation: LinearRelation) -> None:
    """The bound itself is allowed, one beyond it is not, however its bits are chosen."""
    circuit = seal(open_circuit(), box=BOX, output_limits=LIMITS, relations=[relation])
    points = list(itertools.product(*(range(b.lo, b.hi + 1) for b in BOX)))
    seen = set()
    for x in points:
        value = relation.value(x, (model(x),))
        if relation.high is not None and value in (relation.high, relation.high + 1) and value not in seen:
            seen.add(value)
            assert satisfying(circuit, x) == (value == relation.high)
        if relation.low is not None and value in (relation.low, relation.low - 1) and value not in seen:
            seen.add(value)
            assert satisfying(circuit, x) == (value == relation.low)
    assert len(seen) == 2 * ((relation.low is not None) + (relation.high is not None))


@pytest.mark.parametrize("row", range(len(sealed().constraints) + HASH_ROWS))
def test_every_row_is_needed(row: int) -> None:
    """Without it there is a false witness: another y, x outside, a broken relation, or another commitment."""
    circuit = sealed()
    if row < len(circuit.constraints) and circuit.constraints[row].a == LinearCombination(((circuit.ctx_wire, 1),)):
        used = {w for r in circuit.constraints for lc in (r.a, r.b, r.c) for w, _ in lc.terms}
        assert sum(r.a.terms == ((circuit.ctx_wire, 1),) for r in circuit.constraints) == 1
        assert circuit.ctx_wire in used  # set-up refuses the circuit without this row (test_prover.py)
        return
    forged = forged_without(circuit, row)
    assert failing_rows(circuit, forged) == [row]
    assert forged[circuit.ctx_wire] == int.from_bytes(CTX, "big")


@pytest.mark.parametrize(
    ("x", "salt", "ctx", "code"),
    [
        (X[:2], SALT, CTX, "input-count"),
        (X, SALT[1:], CTX, "salt-length"),
        (X, SALT, CTX[1:], "ctx-length"),
        ((-40, -3, 3), SALT, CTX, "witness-range"),
    ],
)
def test_reference_witness_refuses(x: tuple[int, ...], salt: bytes, ctx: bytes, code: str) -> None:
    with pytest.raises(SealedError) as caught:
        reference_witness(sealed(), x, salt, ctx)
    assert caught.value.code == code


def test_flipped_witness_wire_is_unsatisfiable() -> None:
    circuit = sealed()
    wires = reference_witness(circuit, X, SALT, CTX)
    for wire in range(1, circuit.n_wires):
        if wire == circuit.ctx_wire:
            continue  # any ctx has a proof of its own; a proof fixes one (test_prover.py)
        forged = list(wires)
        forged[wire] = (1 - wires[wire]) % circuit.modulus
        assert failing_rows(circuit, forged), wire


def test_commitment_altered_is_unsatisfiable() -> None:
    circuit = sealed()
    wires = reference_witness(circuit, X, SALT, CTX)
    wires[COMMITMENT_WIRE] = (wires[COMMITMENT_WIRE] + 1) % circuit.modulus
    assert failing_rows(circuit, wires) == [circuit.n_rows - 1]


def test_relation_that_the_box_implies_costs_nothing() -> None:
    idle = LinearRelation("idle", ((0, 1),), (), low=-5, high=14)
    assert seal(open_circuit(), box=BOX, relations=[idle]) == seal(open_circuit(), box=BOX)


def test_same_statement_same_bytes_and_other_statement_other_bytes() -> None:
    again = seal(open_circuit(), box=BOX, output_limits=LIMITS, relations=RELATIONS)
    assert again == sealed()
    assert seal(open_circuit(), box=BOX, output_limits=LIMITS, relations=RELATIONS[:1]) != sealed()


@pytest.mark.parametrize(
    ("box", "found"),
    [
        (BOX[:2], "2 intervals"),
        ((*BOX[:2], Interval(3, 1 << 15)), "input 2"),
        ((Interval(-32769, 0), *BOX[1:]), "input 0"),
    ],
)
def test_sealed_box(box: tuple[Interval, ...], found: str) -> None:
    with pytest.raises(SealedError) as caught:
        seal(open_circuit(), box=box)
    assert (caught.value.code, found in caught.value.found) == ("sealed-box", True)


def test_box_beyond_the_one_the_circuit_is_right_for() -> None:
    """-64 + 2·(-8) - 3 does not fit the neuron's bits: over this box the rows would not force the outputs."""
    with pytest.raises(CircuitError) as caught:
        seal(open_circuit(), box=(Interval(-64, 14), *BOX[1:]))
    assert caught.value.code == "circuit-unique"


@pytest.mark.parametrize(
    ("relation", "found"),
    [
        (LinearRelation("r", ((3, 1),), (), high=0), "input 3"),
        (LinearRelation("r", (), ((1, 1),), high=0), "output 1"),
        (LinearRelation("r", ((0, 1),), (), high=-6), "between None and -6"),
        (LinearRelation("r", ((0, 1),), (), low=15), "between 15 and None"),
        (LinearRelation("r", ((0, 1 << 62),), (), high=0), "bits"),
    ],
)
def test_sealed_relation(relation: LinearRelation, found: str) -> None:
    with pytest.raises(SealedError) as caught:
        seal(open_circuit(), box=BOX, output_limits=LIMITS, relations=[relation])
    assert (caught.value.code, found in caught.value.found) == ("sealed-relation", True)
