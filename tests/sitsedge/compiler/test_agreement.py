"""Reference = integer ONNX on ONNX Runtime = WASM on both engines = circuit, on random models and inputs."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.proof import bn254
from attest.proof.prover import Groth16Prover, development_setup, first_unsatisfied
from sitsedge.compiler.circuit_plan import count_constraints, plan_model
from sitsedge.compiler.errors import InputRangeError
from sitsedge.compiler.intervals import model_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from sitsedge.sandbox import Sandbox, SandboxInputError
from tests.sitsedge.compiler.nets import emit_circuit, emit_onnx, emit_wasm, interesting_rows, models, random_model

CONTEXT = bytes(31)


def run_onnx(model: IntegerModel, rows: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(emit_onnx(model), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": rows.astype(np.int16)})[0]


def run_wasm(model: IntegerModel, rows: np.ndarray, engine: str) -> list[tuple[int, ...]]:
    with Sandbox(emit_wasm(model), engine=engine) as sandbox:
        return [sandbox.infer(row) for row in rows.tolist()]


def run_circuit(model: IntegerModel, rows: np.ndarray) -> list[tuple[int, ...]]:
    circuit = emit_circuit(model)
    prover = Groth16Prover(circuit, development_setup(circuit)[0])
    assert prover.n_constraints == sum(count_constraints(model))
    results = []
    for row in rows.tolist():
        wires = prover.witness(row, CONTEXT)
        assert first_unsatisfied(circuit, wires) is None
        outputs = wires[1 + model.n_inputs : 1 + model.n_inputs + model.n_outputs]
        results.append(tuple(v if v < bn254.R // 2 else v - bn254.R for v in outputs))
    return results


@settings(max_examples=60, deadline=None)
@given(models, st.integers(0, 2**32 - 1))
def test_graph_and_wasm_equal_the_reference(model: IntegerModel, seed: int) -> None:
    rows = interesting_rows(model, seed)
    expected = model.run(rows)
    assert run_onnx(model, rows).tolist() == expected.tolist()
    assert run_wasm(model, rows, "jit") == [tuple(row) for row in expected.tolist()]


@settings(max_examples=10, deadline=None)
@given(models, st.integers(0, 2**32 - 1))
def test_interpreter_equals_the_reference(model: IntegerModel, seed: int) -> None:
    rows = interesting_rows(model, seed, 15)
    assert run_wasm(model, rows, "pulley") == [tuple(row) for row in model.run(rows).tolist()]


@settings(max_examples=30, deadline=None)
@given(models, st.integers(0, 2**32 - 1))
def test_circuit_equals_the_reference(model: IntegerModel, seed: int) -> None:
    rows = interesting_rows(model, seed, 8)
    assert run_circuit(model, rows) == [tuple(row) for row in model.run(rows).tolist()]


@settings(max_examples=60, deadline=None)
@given(models, st.integers(0, 2**32 - 1))
def test_intervals_hold_on_every_layer(model: IntegerModel, seed: int) -> None:
    value = interesting_rows(model, seed)
    for layer, bounds in zip(model.layers, model_bounds(model), strict=True):
        acc = layer.accumulate(value)
        assert (acc >= bounds.acc_low).all()
        assert (acc <= bounds.acc_high).all()
        partial = layer.bias + np.cumsum(value[:, None, :] * layer.columns()[None], axis=2).transpose(2, 0, 1)
        assert (partial >= bounds.partial_low).all()
        assert (partial <= bounds.partial_high).all()
        value = layer.run(value)
        assert (value >= bounds.out_low).all()
        assert (value <= bounds.out_high).all()


def tiny_model(activation: str) -> IntegerModel:
    hidden = IntegerLayer.make(
        weights=[[3, -5], [-7, 2], [4, 4]], bias=[1, -2, 0], shift=[1, 2, 0],
        activation=activation, low=-3, high=[9, 12, 20],
    )  # fmt: skip
    last = IntegerLayer.make(weights=[[5, -3, 2], [-1, 1, 1]], bias=[-4, 3], shift=[3, 0])
    return IntegerModel.make((hidden, last), [-6, -4], [5, 7])


@pytest.mark.parametrize("activation", ["relu", "clamp"])
def test_all_four_agree_on_every_input_of_a_tiny_model(activation: str) -> None:
    model = tiny_model(activation)
    rows = np.array(list(itertools.product(range(-6, 6), range(-4, 8))))
    expected = [tuple(row) for row in model.run(rows).tolist()]
    assert [tuple(row) for row in run_onnx(model, rows).tolist()] == expected
    assert run_wasm(model, rows, "jit") == expected
    assert run_wasm(model, rows, "pulley") == expected
    assert run_circuit(model, rows) == expected


def test_reference_is_the_formula_of_evidence_2() -> None:
    """acc = bias + Σ w·x, q = (acc + 2^(s-1)) >> s with floor, then ReLU; by hand."""
    layer = IntegerLayer.make(weights=[[2, -3]], bias=[5], shift=[2])
    model = IntegerModel.make((layer,), [-100, -100], [100, 100])
    # acc = 5 + 2·1 - 3·4 = -5; (-5 + 2) >> 2 = floor(-0.75) = -1
    assert model.run(np.array([1, 4])).tolist() == [-1]
    relu = IntegerLayer.make(weights=[[2, -3]], bias=[5], shift=[2], activation="relu")
    assert IntegerModel.make((relu,), [-100, -100], [100, 100]).run(np.array([1, 4])).tolist() == [0]


@settings(max_examples=20, deadline=None)
@given(models)
def test_inputs_outside_the_box_are_refused_by_reference_and_wasm(model: IntegerModel) -> None:
    with Sandbox(emit_wasm(model)) as sandbox:
        for j in range(model.n_inputs):
            for edge in (model.box_low[j] - 1, model.box_high[j] + 1):
                row = model.box_low.copy()
                row[j] = edge
                with pytest.raises(InputRangeError) as refused:
                    model.run(row)
                assert refused.value.code == "input-range"
                with pytest.raises(SandboxInputError):
                    sandbox.infer(row.tolist())
            assert len(sandbox.infer(model.box_low.tolist())) == model.n_outputs


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equal_models_give_equal_bytes(seed: int) -> None:
    first, second = random_model(seed), random_model(seed)
    assert emit_wasm(first) == emit_wasm(second)
    assert emit_circuit(first) == emit_circuit(second)
    assert emit_onnx(first) == emit_onnx(second)


def test_every_wire_of_a_witness_is_bound() -> None:
    """Changing any single wire but ctx leaves some constraint unsatisfied."""
    for seed in range(6):
        model = random_model(seed, widths=[3, 4, 3, 2])
        circuit = emit_circuit(model)
        prover = Groth16Prover(circuit, development_setup(circuit)[0])
        rng = np.random.default_rng(seed)
        row = rng.integers(model.box_low, model.box_high + 1).tolist()
        wires = prover.witness(row, CONTEXT)
        plans = [plan for plans in plan_model(model) for plan in plans]
        inputs_matter = all(plan.kind != "constant" for plan in plans)
        for index in range(1, len(wires)):
            public_input = index <= model.n_inputs
            context = index == 1 + model.n_inputs + model.n_outputs
            if context or (public_input and not inputs_matter) or (public_input and not _used(model, index - 1)):
                continue
            changed = [*wires]
            changed[index] = (changed[index] + 1) % bn254.R
            assert first_unsatisfied(circuit, changed) is not None, f"wire {index} of model {seed} is free"


def _used(model: IntegerModel, j: int) -> bool:
    return bool(model.layers[0].weights[:, j].any())


@pytest.mark.parametrize("activation", ["relu", "clamp", "none"])
@pytest.mark.parametrize("inputs", [1, 3, 9])
@pytest.mark.parametrize("outputs", [1, 4, 5, 9])
def test_every_padding_of_simd_lanes(inputs: int, outputs: int, activation: str) -> None:
    rng = np.random.default_rng(inputs * 100 + outputs)
    hidden = IntegerLayer.make(
        weights=rng.integers(-127, 128, (outputs, inputs)), bias=rng.integers(-9, 9, outputs),
        shift=rng.integers(3, 7, outputs), activation="relu",
    )  # fmt: skip
    last = IntegerLayer.make(
        weights=rng.integers(-127, 128, (outputs, outputs)), bias=rng.integers(-9, 9, outputs),
        shift=rng.integers(0, 5, outputs), activation=activation, low=5, high=900,
    )  # fmt: skip
    model = IntegerModel.make((hidden, last), np.full(inputs, -200), np.full(inputs, 300))
    rows = interesting_rows(model, 7, 10)
    assert run_wasm(model, rows, "jit") == [tuple(row) for row in model.run(rows).tolist()]
