"""Quantisation: accuracy against the float network, exact output scale, number formats, circuit size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attest.proof.circuit import decode
from sitsedge.compiler.circuit_plan import count_constraints
from sitsedge.compiler.errors import InputRangeError, QuantiseError
from sitsedge.compiler.intervals import prove
from sitsedge.compiler.network import FloatLayer, FloatNetwork
from sitsedge.compiler.quantise import Goal, Quantised, Scales, quantise
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from sitsedge.compiler.rounding import HIDDEN_WEIGHT, fit_rows, importance, moment
from tests.sitsedge.compiler.nets import emit_circuit, random_model, random_onnx, read_chain

MEAN = np.array([30, 2.5, 950, 12000, 5, 0.1, 20, 100.0])
DEVIATION = np.array([2, 0.3, 20, 1500, 1, 0.05, 5, 20.0])
INPUT_SCALES = np.array([0.01, 0.001, 0.1, 10, 0.01, 0.001, 0.05, 0.5])
OUTPUT_SCALES = np.array([0.001, 0.002])


def plant_like(seed: int) -> tuple[FloatNetwork, Scales, np.ndarray]:
    """8-16-16-2 on correlated inputs with units as far apart as a mill's; rows inside the box."""
    network = read_chain(random_onnx(seed, (8, 16, 16, 2), mean=MEAN, deviation=DEVIATION).SerializeToString())
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(8, 8)) * 0.2 + np.eye(8) * 0.8
    raw = MEAN + np.clip(rng.normal(size=(1500, 8)) @ mixing, -4, 4) * DEVIATION
    low = np.floor((MEAN - 4 * DEVIATION) / INPUT_SCALES).astype(np.int64)
    high = np.ceil((MEAN + 4 * DEVIATION) / INPUT_SCALES).astype(np.int64)
    return network, Scales(INPUT_SCALES, OUTPUT_SCALES, low, high), raw


def fit(network: FloatNetwork, scales: Scales, raw: np.ndarray, goal: Goal | None = None) -> Quantised:
    counts = np.rint(raw / scales.inputs).astype(np.int64)
    return quantise(network, scales, counts, raw, goal=goal or Goal())


@pytest.mark.parametrize("seed", range(3))
def test_control_network_is_accurate_and_small(seed: int) -> None:
    network, scales, raw = plant_like(seed)
    found = fit(network, scales, raw[:1000])
    assert found.meets_goal
    assert found.constraints <= 800
    unseen = raw[1000:]
    integer = found.model.run(np.rint(unseen / scales.inputs).astype(np.int64)) * scales.outputs
    wanted = network.run(unseen)
    span = np.ptp(wanted, axis=0)
    assert (np.abs(integer - wanted).max(axis=0) / span).max() < 0.02
    assert (np.sqrt(((integer - wanted) ** 2).mean(axis=0)) / span).max() < 0.005
    assert (
        found.constraints == sum(count_constraints(found.model)) == len(decode(emit_circuit(found.model)).constraints)
    )


def test_a_stricter_goal_gives_a_more_accurate_model() -> None:
    network, scales, raw = plant_like(5)
    loose = fit(network, scales, raw, Goal(rms=0.02, peak=0.1))
    strict = fit(network, scales, raw, Goal(rms=0.0015, peak=0.01))
    assert strict.rms < loose.rms
    assert loose.constraints < strict.constraints


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
@example(23660)  # every neuron of the last hidden layer is dead
def test_any_small_network_stays_in_its_formats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(2, 5))))
    network = read_chain(random_onnx(seed, sizes).SerializeToString())
    scale = 10.0 ** rng.integers(-3, 2, sizes[0])
    raw = rng.normal(size=(200, sizes[0])) * scale * 1000
    low, high = (np.rint(end(raw, axis=0) / scale).astype(np.int64) for end in (np.min, np.max))
    spread = np.ptp(network.run(raw), axis=0)
    # An output that never moves has no scale of its own; one part in 10^11 of a unit would rightly be refused.
    outputs = np.where(spread > 1e-6, spread, 1.0) / float(rng.choice([50, 1000, 20000]))
    found = fit(network, Scales(scale, outputs, low, high), raw)
    prove(found.model)
    for layer in found.model.layers:
        assert np.abs(layer.weights).max() <= 127


def test_output_counts_times_scale_are_physical_units_exactly() -> None:
    """y = 3·a - 2·b with scales that make the integer model exact: no gain may leak into the output."""
    network = FloatNetwork((FloatLayer(np.array([[3.0, -2.0]]), np.array([0.5])),))
    scales = Scales(np.array([0.25, 0.25]), np.array([0.25]), np.array([-400, -400]), np.array([400, 400]))
    counts = np.random.default_rng(0).integers(-400, 401, (300, 2))
    found = quantise(network, scales, counts, counts * 0.25, goal=Goal())
    np.testing.assert_array_equal(found.model.run(counts)[:, 0] * 0.25, network.run(counts * 0.25)[:, 0])


def test_fine_output_scale_shifts_inputs_up() -> None:
    """Outputs with more counts per unit than int8 weights can reach still have the right scale."""
    network = FloatNetwork((FloatLayer(np.array([[1.0]]), np.array([0.0])),))
    scales = Scales(np.array([1.0]), np.array([0.002]), np.array([-100]), np.array([100]))
    counts = np.arange(-100, 101)[:, None]
    found = quantise(network, scales, counts, counts * 1.0, goal=Goal())
    assert found.model.layers[0].in_shift[0] > 0
    np.testing.assert_allclose(found.model.run(counts) * 0.002, counts, atol=0.5)


@pytest.mark.parametrize("left", [1e-6, 1e-20, 0.0])
def test_a_neuron_that_weight_decay_emptied_keeps_its_bias_and_costs_nobody_else(left: float) -> None:
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(6, 4))
    bias = rng.normal(size=6) * 0.1
    weights[2], bias[2] = weights[2] * left, 0.7
    hidden = FloatLayer(weights, bias, low=0.0)
    network = FloatNetwork((hidden, FloatLayer(rng.normal(size=(1, 6)), np.zeros(1))))
    scales = Scales(np.full(4, 0.001), np.array([0.001]), np.full(4, -1000), np.full(4, 1000))
    counts = rng.integers(-1000, 1001, (600, 4))
    found = quantise(network, scales, counts, counts * 0.001, goal=Goal())
    assert found.meets_goal
    error = found.model.run(counts) * 0.001 - network.run(counts * 0.001)
    assert np.abs(error).max() < 0.01 * np.ptp(network.run(counts * 0.001))


def test_an_output_that_is_a_constant_keeps_its_value() -> None:
    network = FloatNetwork((FloatLayer(np.array([[1.0], [1e-12]]), np.array([0.0, 3.2])),))
    scales = Scales(np.array([0.001]), np.array([0.001, 0.001]), np.array([-1000]), np.array([1000]))
    counts = np.arange(-1000, 1001)[:, None]
    found = quantise(network, scales, counts, counts * 0.001, goal=Goal())
    assert set(found.model.run(counts)[:, 1].tolist()) == {3200}


def test_output_scale_finer_than_the_formats_is_refused() -> None:
    network = FloatNetwork((FloatLayer(np.array([[1.0]]), np.array([0.0])),))
    scales = Scales(np.array([1.0]), np.array([1e-6]), np.array([-100]), np.array([100]))
    counts = np.arange(-100, 101)[:, None]
    with pytest.raises(QuantiseError) as refused:
        quantise(network, scales, counts, counts * 1.0, goal=Goal())
    assert refused.value.code == "output-scale"


def test_clip_bounds_follow_the_neurons_gain() -> None:
    network = FloatNetwork(
        (
            FloatLayer(np.array([[1.0], [-1.0]]), np.zeros(2), low=-1.0, high=2.0),
            FloatLayer(np.array([[1.0, 1.0]]), np.zeros(1)),
        )
    )
    scales = Scales(np.array([0.001]), np.array([0.001]), np.array([-5000]), np.array([5000]))
    counts = np.linspace(-5000, 5000, 801).astype(np.int64)[:, None]
    found = quantise(network, scales, counts, counts * 0.001, goal=Goal())
    error = found.model.run(counts) * 0.001 - network.run(counts * 0.001)
    assert np.abs(error).max() < 0.03


def test_fitted_rounding_is_never_worse_than_plain_rounding_on_its_measure() -> None:
    rng = np.random.default_rng(2)
    features = rng.integers(-50, 300, (400, 6)).astype(float)
    wanted = rng.normal(size=(5, 7)) * 20
    target = np.column_stack([features, np.ones(400)]) @ wanted.T
    fitted = fit_rows(features, (features.mean(axis=0), features.var(axis=0)), target, wanted, weight_max=127)
    box = moment(features.mean(axis=0), features.var(axis=0))
    full = np.column_stack([features, np.ones(400)])

    def cost(rows: np.ndarray) -> np.ndarray:
        data = ((full @ rows.T - target) ** 2).mean(axis=0)
        return data + 0.02 * np.einsum("ij,jk,ik->i", rows - wanted, box, rows - wanted)

    assert (cost(fitted) <= cost(np.rint(wanted)) + 1e-9).all()
    assert cost(fitted).sum() < 0.5 * cost(np.rint(wanted)).sum()


def test_inputs_far_from_zero_lose_no_accuracy() -> None:
    """A temperature around 900 °C that moves by 2: the mean must not eat the weights' bits."""
    rng = np.random.default_rng(3)
    counts = np.column_stack([rng.integers(17900, 18100, 600), rng.integers(-2000, 2000, 600)])
    network = FloatNetwork(
        (
            FloatLayer(np.array([[0.5, 0.3], [-0.7, 0.2]]), np.array([-450.0, 630.0]), low=0.0),
            FloatLayer(np.array([[1.0, -1.5]]), np.zeros(1)),
        )
    )
    scales = Scales(np.array([0.05, 0.001]), np.array([0.002]), np.array([16000, -2000]), np.array([20000, 2000]))
    found = fit(network, scales, counts * scales.inputs)
    assert found.meets_goal
    assert found.rms < 0.002


def test_rows_hidden_by_a_clamp_count_less() -> None:
    sums = np.array([[-5.0], [-0.1], [0.5], [1.1], [5.0]])
    assert importance(sums, 0.0, 1.0)[:, 0].tolist() == [HIDDEN_WEIGHT, 1.0, 1.0, 1.0, HIDDEN_WEIGHT]
    assert importance(sums, -np.inf, np.inf).min() == 1.0


def valid() -> dict[str, object]:
    return {"weights": [[1, 2]], "bias": [0], "shift": [0]}


BAD_FORMATS: dict[str, Callable[[], object]] = {
    "weight-128": lambda: IntegerLayer.make(**valid() | {"weights": [[128, 0]]}),
    "weight-minus-128": lambda: IntegerLayer.make(**valid() | {"weights": [[-128, 0]]}),
    "bias-wider-than-int32": lambda: IntegerLayer.make(**valid() | {"bias": [1 << 31]}),
    "negative-shift": lambda: IntegerLayer.make(**valid() | {"shift": [-1]}),
    "shift-31": lambda: IntegerLayer.make(**valid() | {"shift": [31]}),
    "column-shift-9": lambda: IntegerLayer.make(**valid() | {"in_shift": [9, 0]}),
    "unknown-activation": lambda: IntegerLayer.make(**valid() | {"activation": "tanh"}),
    "low-above-high": lambda: IntegerLayer.make(**valid() | {"activation": "clamp", "low": [2], "high": [1]}),
    "not-a-matrix": lambda: IntegerLayer.make(**valid() | {"weights": [1, 2]}),
    "no-layer": lambda: IntegerModel.make((), [0], [1]),
    "box-outside-int16": lambda: IntegerModel.make((IntegerLayer.make(**valid()),), [0, 0], [1, 32768]),
    "box-upside-down": lambda: IntegerModel.make((IntegerLayer.make(**valid()),), [0, 2], [1, 1]),
    "width-mismatch": lambda: IntegerModel.make((IntegerLayer.make(**valid()),), [0], [1]),
}


@pytest.mark.parametrize("rule", BAD_FORMATS)
def test_integer_formats_refuse(rule: str) -> None:
    with pytest.raises(QuantiseError) as refused:
        BAD_FORMATS[rule]()
    assert refused.value.code == "integer-format"


def test_accumulators_wider_than_int32_are_not_proven() -> None:
    wide = IntegerLayer.make(weights=[[127] * 8], bias=[0], shift=[0], in_shift=[8] * 8)
    with pytest.raises(QuantiseError) as refused:
        prove(IntegerModel.make((wide,), [-32768] * 8, [32767] * 8))
    assert refused.value.code == "accumulator-width"


def test_partial_sums_count_not_only_the_final_one() -> None:
    """+2^31 and -2^31 cancel in the end, but an intermediate sum would have wrapped."""
    half = [[127, 127, 127, -127, -127, -127]]
    layer = IntegerLayer.make(weights=half, bias=[0], shift=[0], in_shift=[8] * 6)
    with pytest.raises(QuantiseError):
        prove(IntegerModel.make((layer,), [32000] * 6, [32001] * 6))


def test_hidden_activations_wider_than_int16_are_not_proven() -> None:
    hidden = IntegerLayer.make(weights=[[127]], bias=[0], shift=[0], activation="relu")
    last = IntegerLayer.make(weights=[[1]], bias=[0], shift=[0])
    with pytest.raises(QuantiseError) as refused:
        prove(IntegerModel.make((hidden, last), [0], [32767]))
    assert refused.value.code == "activation-width"


@pytest.mark.parametrize("x", [np.zeros(3, np.int64), np.zeros((2, 2, 2), np.int64), np.zeros(2)])
def test_reference_refuses_other_shapes_and_floats(x: np.ndarray) -> None:
    model = random_model(0, widths=[2, 2])
    with pytest.raises(InputRangeError) as refused:
        model.run(x)
    assert refused.value.code == "input-shape"
