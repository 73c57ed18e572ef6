"""Every constraint is needed: for each row there is a cheating witness that breaks that row alone.

Delete the row, and the cheat would pass; so no row of the emitter's output is decoration, and none is missing
among those a cheat of these kinds would need.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from attest.proof import bn254
from attest.proof.circuit import BitsOp, Circuit, LinearCombination, MulOp, OutOp, decode
from sitsedge.compiler.circuit_plan import plan_model
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from tests.sitsedge.compiler.nets import emit_circuit


def relu_model() -> IntegerModel:
    """Two ReLU neurons whose sums take both signs, then a linear output: nothing behind a cheat checks ranges."""
    hidden = IntegerLayer.make(weights=[[3, -5], [-7, 2]], bias=[1, -2], shift=[2, 0], activation="relu")
    last = IntegerLayer.make(weights=[[2, 3]], bias=[-4], shift=[0])
    return IntegerModel.make((hidden, last), [-6, -4], [5, 7])


def shift_model() -> IntegerModel:
    """One output that is only requantised."""
    return IntegerModel.make((IntegerLayer.make(weights=[[9, -4]], bias=[3], shift=[3]),), [-6, -4], [5, 7])


def clamp_model() -> IntegerModel:
    """An upper bound that is reached: the second stage of a clamp."""
    layer = IntegerLayer.make(weights=[[1]], bias=[0], shift=[0], activation="clamp", low=[-100], high=[3])
    return IntegerModel.make((layer,), [-6], [9])


def evaluate(lc: LinearCombination, wires: list[int]) -> int:
    return sum(coefficient * wires[wire] for wire, coefficient in lc.terms) % bn254.R


def power(exponent: int) -> int:
    """2^exponent in the field, for either sign."""
    return pow(2, exponent, bn254.R)


def witness(circuit: Circuit, row: list[int], overrides: dict[int, int]) -> list[int]:
    """Run the program over the field; ``overrides`` replaces what it writes to single wires."""
    wires = [1, *row, *([0] * (circuit.n_wires - 1 - len(row)))]
    for op in circuit.ops:
        match op:
            case BitsOp(value, k, first):
                number = evaluate(value, wires)
                for i in range(k):
                    wires[first + i] = overrides.get(first + i, (number >> i) & 1)
            case MulOp(a, b, shift, wire):
                wires[wire] = overrides.get(wire, evaluate(a, wires) * evaluate(b, wires) * power(-shift) % bn254.R)
            case OutOp(value, index):
                wire = 1 + circuit.n_inputs + index
                wires[wire] = overrides.get(wire, evaluate(value, wires))
    return wires


def broken(circuit: Circuit, wires: list[int]) -> list[int]:
    return [
        index
        for index, row in enumerate(circuit.constraints)
        if (evaluate(row.a, wires) * evaluate(row.b, wires) - evaluate(row.c, wires)) % bn254.R
    ]


def cheats(circuit: Circuit, honest: list[int]) -> Iterator[dict[int, int]]:
    """One wire off by one; a bit that toggles the top bit; two bits that cancel in the sum."""
    for wire in set(range(1 + circuit.n_inputs, circuit.n_wires)) - {circuit.ctx_wire}:
        yield {wire: honest[wire] + 1}
        yield {wire: honest[wire] - 1}
    for op in circuit.ops:
        if not isinstance(op, BitsOp):
            continue
        for i in range(op.k):
            for sign in (1, -1):
                yield {op.first + i: honest[op.first + i] + sign * (1 << (op.k - i))}
            for j in set(range(op.k)) - {i}:
                flipped = 1 - 2 * honest[op.first + j]
                yield {
                    op.first + j: honest[op.first + j] + flipped,
                    op.first + i: honest[op.first + i] - flipped * power(j - i),
                }


@pytest.mark.parametrize("model", [relu_model(), shift_model(), clamp_model()], ids=["relu", "shift", "clamp"])
def test_every_row_stops_a_cheat_that_no_other_row_stops(model: IntegerModel) -> None:
    circuit = decode(emit_circuit(model))
    binding = {index for index, row in enumerate(circuit.constraints) if not row.b.terms and not row.c.terms}
    assert len(binding) == model.n_inputs + 1, "one row per input and for ctx keeps public signals bound"
    needed: set[int] = set()
    rng = np.random.default_rng(0)
    for row in rng.integers(model.box_low, model.box_high + 1, (12, model.n_inputs)).tolist():
        honest = witness(circuit, row, {})
        assert broken(circuit, honest) == []
        first = 1 + circuit.n_inputs
        assert honest[first : first + model.n_outputs] == [
            value % bn254.R for value in model.run(np.array(row)).tolist()
        ]
        for cheat in cheats(circuit, honest):
            found = broken(circuit, witness(circuit, row, cheat))
            assert found, f"a cheat passes: {cheat} for {row}"
            if len(found) == 1:
                needed.add(found[0])
    assert needed == set(range(len(circuit.constraints))) - binding


def test_the_models_above_show_each_kind_of_neuron() -> None:
    kinds = {plan.kind for model in (relu_model(), shift_model()) for plans in plan_model(model) for plan in plans}
    assert kinds == {"relu", "linear", "shift"}
    assert plan_model(clamp_model())[0][0].excess_bits > 0
