"""Circuit, reference, ONNX graph and WASM are equal on every input of a tiny network's box, edges included."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnxruntime
import pytest

from attest.proof import Curve, Groth16Prover, NativeVerifier, ProverError, development_setup, failed_check, key_hash
from attest.proof.circuit import decode
from attest.proof.prover import first_unsatisfied
from sitsedge.compiler.errors import InputRangeError
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from sitsedge.sandbox import Sandbox, SandboxInputError
from tests.attest.proof.forge import ORDERS, broken, execute
from tests.sitsedge.compiler.nets import emit_circuit, emit_onnx, emit_wasm

LOW, HIGH = -32, 31
"""Six bits an input: 4,096 inputs."""
CONTEXT = bytes(range(31))
CURVES = pytest.mark.parametrize("curve", list(Curve), ids=lambda curve: curve.text)
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "clamp"])


@dataclass(frozen=True)
class Tiny:
    model: IntegerModel
    rows: np.ndarray
    expected: list[tuple[int, ...]]


@cache
def tiny(activation: str) -> Tiny:
    """2-3-2: sums of both signs, shifts from none to three, a bound on both sides that is reached."""
    hidden = IntegerLayer.make(
        weights=[[3, -5], [-7, 2], [4, 4]], bias=[1, -2, 0], shift=[2, 3, 0],
        activation=activation, low=-3, high=[9, 12, 20],
    )  # fmt: skip
    last = IntegerLayer.make(weights=[[5, -3, 2], [-1, 1, 1]], bias=[-4, 3], shift=[3, 0])
    model = IntegerModel.make((hidden, last), [LOW, LOW], [HIGH, HIGH])
    rows = np.array(list(itertools.product(range(LOW, HIGH + 1), repeat=2)))
    return Tiny(model, rows, [tuple(row) for row in model.run(rows).tolist()])


def formula(model: IntegerModel, x: tuple[int, ...]) -> tuple[int, ...]:
    """Evidence §2 in plain integers: the reference is held to it, not to itself."""
    for layer in model.layers:
        sums = [
            int(bias) + sum(int(w) * v for w, v in zip(row, x, strict=True))
            for row, bias in zip(layer.weights, layer.bias, strict=True)
        ]
        rounded = [(acc + ((1 << int(s)) >> 1)) >> int(s) for acc, s in zip(sums, layer.shift, strict=True)]
        limits = zip(rounded, layer.low, layer.high, strict=True)
        x = tuple(min(max(q, int(low)), int(high)) for q, low, high in limits)
    return x


@ACTIVATIONS
def test_reference_equals_the_formula_on_every_input(activation: str) -> None:
    it = tiny(activation)
    assert it.expected == [formula(it.model, tuple(row)) for row in it.rows.tolist()]
    assert len(set(it.expected)) > 100, "the network says something"


@ACTIVATIONS
def test_onnx_and_wasm_equal_the_reference_on_every_input(activation: str) -> None:
    it = tiny(activation)
    session = onnxruntime.InferenceSession(emit_onnx(it.model), providers=["CPUExecutionProvider"])
    assert [tuple(row) for row in session.run(None, {"x": it.rows.astype(np.int16)})[0].tolist()] == it.expected
    for engine in ("jit", "pulley"):
        with Sandbox(emit_wasm(it.model), engine=engine) as sandbox:
            assert [sandbox.infer(row) for row in it.rows.tolist()] == it.expected


@ACTIVATIONS
@CURVES
def test_circuit_equals_the_reference_on_every_input(activation: str, curve: Curve) -> None:
    """The core's witness is the program's, and it satisfies every row; all rows on one input in sixteen natively."""
    it = tiny(activation)
    data = emit_circuit(it.model, curve=curve)
    circuit, r = decode(data), ORDERS[curve]
    prover = Groth16Prover(data, development_setup(data)[0])
    context = int.from_bytes(CONTEXT, "big")
    for number, (row, expected) in enumerate(zip(it.rows.tolist(), it.expected, strict=True)):
        wires = prover.witness(row, CONTEXT)
        outputs = [wire if wire < r // 2 else wire - r for wire in wires[3:5]]
        assert tuple(outputs) == expected
        assert first_unsatisfied(data, wires) is None
        if number % 16 == 0:
            assert wires == execute(circuit, row, context, {}, r)
            assert broken(circuit, wires, r) == []


@ACTIVATIONS
@CURVES
def test_proofs_on_corners_edges_and_a_sample(activation: str, curve: Curve) -> None:
    it = tiny(activation)
    data = emit_circuit(it.model, curve=curve)
    proving, key = development_setup(data)
    prover, verifier = Groth16Prover(data, proving), NativeVerifier(key, vk_sha256=key_hash(key))
    picked = [*itertools.product((LOW, LOW + 1, -1, 0, HIGH - 1, HIGH), repeat=2)]
    picked += [tuple(row) for row in np.random.default_rng(4).integers(LOW, HIGH + 1, (24, 2)).tolist()]
    for x in picked:
        expected = formula(it.model, x)
        proven = prover.prove(x, CONTEXT)
        assert proven.outputs == expected
        assert failed_check(verifier, x, expected, CONTEXT, proven.proof) is None
        for wrong in ((expected[0] + 1, expected[1]), (expected[0], expected[1] - 1)):
            assert failed_check(verifier, x, wrong, CONTEXT, proven.proof) == "proof-pairing"


@ACTIVATIONS
def test_one_step_outside_the_box(activation: str) -> None:
    """Reference and WASM refuse; a proof, where the bits still hold one, is of the true output."""
    it = tiny(activation)
    data = emit_circuit(it.model)
    prover = Groth16Prover(data, development_setup(data)[0])
    with Sandbox(emit_wasm(it.model)) as sandbox:
        for x in ((LOW - 1, 0), (0, LOW - 1), (HIGH + 1, 0), (0, HIGH + 1), (LOW - 1, HIGH + 1)):
            with pytest.raises(InputRangeError):
                it.model.run(np.array(x))
            with pytest.raises(SandboxInputError):
                sandbox.infer(x)
            assert proven_or_refused(prover, x) in (formula(it.model, x), "witness-range")


def proven_or_refused(prover: Groth16Prover, x: tuple[int, int]) -> tuple[int, ...] | str:
    try:
        return prover.prove(x, CONTEXT).outputs
    except ProverError as error:
        return error.code
