"""Every row of the toy circuit is needed; no bit, product, output or context can be changed."""

from __future__ import annotations

import pytest

from attest.proof import Curve, Groth16Prover, ProverError, development_setup
from attest.proof.bn254 import R
from attest.proof.circuit import BitsOp, MulOp, OutOp
from attest.proof.prover import first_unsatisfied
from tests.attest.proof.support import CTX, Toy, failing_rows, run, toy_circuit, value, without_row

CIRCUIT = toy_circuit()
X = (3, -5)
ROWS = range(len(CIRCUIT.constraints))
PRIVATE = range(CIRCUIT.ctx_wire + 1, CIRCUIT.n_wires)


@pytest.fixture(scope="module")
def toy() -> Toy:
    """On BN254 alone: the rows are the same integers on both curves, but the forgeries below compute in one field.

    Not the session's ``toy`` with another ``curve``: that one may still be there from the tests before.
    """
    circuit = toy_circuit(Curve.BN254)
    data = circuit.encode()
    return Toy(circuit, data, *development_setup(data))


@pytest.fixture(scope="module")
def prover(toy: Toy) -> Groth16Prover:
    return Groth16Prover(toy.data, toy.proving_key)


def forged_candidates() -> list[list[int]]:
    """Witnesses with one wire changed."""
    honest = [v % R for v in run(CIRCUIT, X)]
    out = []
    for wire in range(1, CIRCUIT.n_wires):
        for delta in (1, -1, 2, R // 2):
            forged = list(honest)
            forged[wire] = (forged[wire] + delta) % R
            out.append(forged)
    return out


def gadget_rows() -> list[tuple[BitsOp, MulOp, int]]:
    """The two neurons: their operations and the index of their first row (k boolean rows, top bit, product)."""
    bits = [op for op in CIRCUIT.ops if isinstance(op, BitsOp)]
    products = [op for op in CIRCUIT.ops if isinstance(op, MulOp)]
    starts = [0, bits[0].k + 2]
    return list(zip(bits, products, starts, strict=True))


OUT_ROW = sum(bits.k + 2 for bits, _, _ in gadget_rows())


def cheat(index: int) -> list[int]:
    """A false witness for the circuit without row ``index``: what that row alone prevents."""
    wires = [v % R for v in run(CIRCUIT, X)]
    if index == OUT_ROW:
        wires[3] += 1
        return wires
    bits, product, start = next(g for g in reversed(gadget_rows()) if g[2] <= index)
    top = value(product.a, wires) % R
    role = index - start
    if role < bits.k:
        # A bit that is no bit lets the sign turn around.
        flipped = (1 << bits.k) - top
        wires[bits.first + role] += (top - flipped) * pow(1 << role, -1, R)
    elif role == bits.k:
        # A top bit of any value scales the result.
        wires[bits.first] = 1 - wires[bits.first]
    else:
        wires[product.wire] += 1
    if role <= bits.k:
        wires[product.wire] = value(product.a, wires) * value(product.b, wires) * pow(1 << product.shift, -1, R)
    out = next(op for op in CIRCUIT.ops if isinstance(op, OutOp))
    wires[3] = value(out.value, wires)
    return [v % R for v in wires]


@pytest.mark.parametrize("wire", PRIVATE)
def test_flipped_witness_wire_is_unsatisfiable(toy: Toy, wire: int) -> None:
    wires = [v % R for v in run(CIRCUIT, X)]
    wires[wire] = (1 - wires[wire]) % R
    assert first_unsatisfied(toy.data, wires) is not None


@pytest.mark.parametrize("delta", [1, -1, 2, R // 2])
def test_changed_output_is_unsatisfiable(toy: Toy, delta: int) -> None:
    wires = [v % R for v in run(CIRCUIT, X)]
    wires[3] = (wires[3] + delta) % R
    assert first_unsatisfied(toy.data, wires) == failing_rows(CIRCUIT, wires)[0]


def test_native_and_reference_name_the_same_row(toy: Toy) -> None:
    for forged in forged_candidates():
        broken = failing_rows(CIRCUIT, forged)
        assert first_unsatisfied(toy.data, forged) == (broken[0] if broken else None)


@pytest.mark.parametrize("index", ROWS)
def test_every_row_is_needed(index: int) -> None:
    """Without row ``index`` a false witness passes, or a public signal comes loose and set-up refuses the circuit."""
    weakened = without_row(CIRCUIT, index)
    if CIRCUIT.constraints[index].b.terms == ():
        touched = {w for r in weakened.constraints for lc in (r.a, r.b, r.c) for w, _ in lc.terms}
        (signal, _), *_ = CIRCUIT.constraints[index].a.terms
        if signal == CIRCUIT.ctx_wire:
            with pytest.raises(ProverError) as caught:
                development_setup(weakened.encode())
            assert caught.value.code == "circuit-unbound"
        else:
            # An input is bound by its own row even where no weight uses it.
            assert signal in touched
            assert binding_rows() >= set(range(1, 1 + CIRCUIT.n_inputs))
        return
    forged = cheat(index)
    assert failing_rows(CIRCUIT, forged) == [index]
    assert failing_rows(weakened, forged) == []


def binding_rows() -> set[int]:
    """Signals bound by a row s·0 = 0."""
    return {r.a.terms[0][0] for r in CIRCUIT.constraints if not r.b.terms and not r.c.terms and len(r.a.terms) == 1}


def test_every_input_and_ctx_has_its_binding_row() -> None:
    assert binding_rows() == {*range(1, 1 + CIRCUIT.n_inputs), CIRCUIT.ctx_wire}


@pytest.mark.parametrize("x", [(100, 0), (0, 1000), (-100, 100)])
def test_input_outside_the_box_has_no_witness(prover: Groth16Prover, x: tuple[int, int]) -> None:
    with pytest.raises(ProverError) as caught:
        prover.prove(x, CTX)
    assert caught.value.code == "witness-range"
