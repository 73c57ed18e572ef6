"""The anomaly network (8-16-16-1, clipped ReLU) and how it learns from healthy rows alone.

It tells healthy samples from displaced ones, and both are made of the same recorded rows: a healthy sample is
a row moved inside the tolerances of ``signals.py`` (what drifts from day to day), a displaced one is moved by 2 to
40 tolerances in one or two of the watched sensors. No recorded fault is used. The output is the log-odds of
"displaced". (Learning a density by telling data from made noise: Hastie, Tibshirani, Friedman, *The Elements of
Statistical Learning*, 14.2.4; Gutmann and Hyvärinen, AISTATS 2010.)

Activations are clipped to [0, 1], so a neuron that looks closely at one pump speed stays still at the others;
noise of one part in 127 is added to them while training, about what the integer model's rounding will do.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from examples.pump.dataset import Floats
from examples.pump.signals import SCORE_LIMIT, SIGNALS

SEED: Final = 20_260
HIDDEN: Final = (16, 16)
STEPS: Final = 24_000
BATCH: Final = 256
LEARNING_RATE: Final = 3e-3
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam (Kingma and Ba, ICLR 2015)
DISPLACEMENT: Final = (2.0, 40.0)  # in tolerances, log-uniform: just beyond healthy up to gross faults
SECOND_CHANCE: Final = 0.5  # share of displaced samples that have two sensors displaced
ROUNDING: Final = 1 / 127
SCORE_TENSOR: Final = "score"
LOGIT_MAX: Final = 30.0  # keeps exp() finite

TOLERANCE_REL: Final = np.array([s.tolerance_rel for s in SIGNALS])
TOLERANCE: Final = np.array([s.tolerance for s in SIGNALS])
WATCHED: Final = np.flatnonzero([s.watched for s in SIGNALS])
LOW: Final = np.array([s.low for s in SIGNALS])
HIGH: Final = np.array([s.high for s in SIGNALS])


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """``centre`` and ``half`` (8,) normalise the inputs; weights (outputs, inputs) and biases per layer."""

    centre: Floats
    half: Floats
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]

    def score(self, x: Floats) -> Floats:
        """Scores (rows,) of physical rows (rows, 8), clamped as the exported network clamps them."""
        a = (x - self.centre) / self.half
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            a = np.clip(a @ w.T + b, 0.0, 1.0)
        logit: Floats = (a @ self.weights[-1].T + self.biases[-1])[:, 0]
        return np.clip(logit, -SCORE_LIMIT, SCORE_LIMIT)


def moved_healthy(rows: Floats, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """``count`` rows moved inside their tolerances, and those tolerances."""
    x = rows[rng.integers(len(rows), size=count)]
    tolerance = np.sqrt((TOLERANCE_REL * x) ** 2 + TOLERANCE**2)
    return x + rng.uniform(-1.0, 1.0, x.shape) * tolerance, tolerance


def displaced(rows: Floats, rng: np.random.Generator, count: int) -> Floats:
    """``count`` rows moved inside their tolerances, then displaced in one or two watched sensors."""
    x, tolerance = moved_healthy(rows, rng, count)
    which = np.zeros(x.shape, dtype=np.bool_)
    row = np.arange(count)
    which[row, rng.choice(WATCHED, size=count)] = True
    which[row, rng.choice(WATCHED, size=count)] |= rng.random(count) < SECOND_CHANCE
    least, most = DISPLACEMENT
    size = least * (most / least) ** rng.random(x.shape)
    moved: Floats = x + which * size * tolerance * rng.choice([-1.0, 1.0], size=x.shape)
    return moved


class _Adam:
    """Adam with a learning rate that falls to zero over ``steps``."""

    def __init__(self, parameters: list[Floats], steps: int) -> None:
        self.parameters = parameters
        self._steps = steps
        self._first = [np.zeros_like(p) for p in parameters]
        self._second = [np.zeros_like(p) for p in parameters]
        self._t = 0

    def step(self, gradients: list[Floats]) -> None:
        rate = LEARNING_RATE * (1 - self._t / self._steps)
        self._t += 1
        of_first, of_second = 1 - BETA_1**self._t, 1 - BETA_2**self._t
        for k, gradient in enumerate(gradients):
            self._first[k] += (1 - BETA_1) * (gradient - self._first[k])
            self._second[k] += (1 - BETA_2) * (gradient**2 - self._second[k])
            self.parameters[k] -= rate * (self._first[k] / of_first) / (np.sqrt(self._second[k] / of_second) + EPSILON)


def train(rows: Floats, *, seed: int = SEED, steps: int = STEPS) -> Network:
    """Train on healthy ``rows`` (rows, 8). The same rows, seed and steps give the same network."""
    rng = np.random.default_rng(seed)
    reach_low = np.maximum(rows.min(axis=0) - 2 * TOLERANCE, LOW)
    reach_high = np.minimum(rows.max(axis=0) + 2 * TOLERANCE, HIGH)
    centre, half = (reach_low + reach_high) / 2, (reach_high - reach_low) / 2
    weights, biases = _start((rows - centre) / half, rng)
    adam = _Adam([*weights, *biases], steps)
    label = np.repeat([0.0, 1.0], BATCH)
    for _ in range(steps):
        batch = np.concatenate([moved_healthy(rows, rng, BATCH)[0], displaced(rows, rng, BATCH)])
        a = (np.clip(batch, LOW, HIGH) - centre) / half
        adam.step(_gradients(a, label, weights, biases, rng))
    single: list[Floats] = [_single(p).astype(np.float64) for p in (centre, half, *weights, *biases)]
    n = len(weights)
    return Network(single[0], single[1], tuple(single[2 : 2 + n]), tuple(single[2 + n :]))


def _single(values: Floats) -> NDArray[np.float32]:
    return np.asarray(values, dtype=np.float32)


def _start(rows: Floats, rng: np.random.Generator) -> tuple[list[Floats], list[Floats]]:
    """He's initial weights; each first neuron starts half open at one healthy row, where there is most to learn."""
    sizes = (rows.shape[1], *HIDDEN, 1)
    weights = [rng.normal(0.0, np.sqrt(2 / n), (m, n)) for n, m in itertools.pairwise(sizes)]
    weights[0] *= 3.0
    biases = [np.zeros(m) for m in sizes[1:]]
    places = rows[rng.integers(len(rows), size=sizes[1])]
    biases[0] = 0.5 - (weights[0] * places).sum(axis=1)
    return weights, biases


def _gradients(
    x: Floats, label: Floats, weights: list[Floats], biases: list[Floats], rng: np.random.Generator
) -> list[Floats]:
    """Gradients of the mean logistic loss: of all weights, then of all biases."""
    inputs, sums = [x], []
    for w, b in zip(weights, biases, strict=True):
        z = inputs[-1] @ w.T + b
        sums.append(z)
        inputs.append(np.clip(z, 0.0, 1.0) + rng.uniform(-0.5, 0.5, z.shape) * ROUNDING)
    logit = np.clip(sums[-1][:, 0], -LOGIT_MAX, LOGIT_MAX)
    error: Floats = ((1 / (1 + np.exp(-logit)) - label) / len(label))[:, None]
    of_weights: list[Floats] = []
    of_biases: list[Floats] = []
    for layer in range(len(weights) - 1, -1, -1):
        of_weights.insert(0, error.T @ inputs[layer])
        of_biases.insert(0, error.sum(axis=0))
        if layer:
            open_ = (sums[layer - 1] > 0.0) & (sums[layer - 1] < 1.0)
            error = (error @ weights[layer]) * open_
    return [*of_weights, *of_biases]


def export(network: Network, path: Path) -> None:
    """ONNX, float32, [1, 8] → [1, 1]: normalise, three Gemm with Clip."""
    constants: dict[str, NDArray[np.float32]] = {
        "centre": _single(network.centre),
        "per_half": _single(1.0 / network.half),
        "zero": np.array(0.0, dtype=np.float32),
        "one": np.array(1.0, dtype=np.float32),
        "lowest": np.array(-SCORE_LIMIT, dtype=np.float32),
        "highest": np.array(SCORE_LIMIT, dtype=np.float32),
    }
    nodes = [
        helper.make_node("Sub", ["x", "centre"], ["d"], name="centre_inputs"),
        helper.make_node("Mul", ["d", "per_half"], ["a0"], name="scale_inputs"),
    ]
    last = len(network.weights)
    for k, (w, b) in enumerate(zip(network.weights, network.biases, strict=True), start=1):
        constants |= {f"W{k}": _single(w), f"b{k}": _single(b)}
        bounds = ["lowest", "highest"] if k == last else ["zero", "one"]
        result = SCORE_TENSOR if k == last else f"a{k}"
        nodes += [
            helper.make_node("Gemm", [f"a{k - 1}", f"W{k}", f"b{k}"], [f"z{k}"], name=f"dense_{k}", transB=1),
            helper.make_node("Clip", [f"z{k}", *bounds], [result], name=f"clip_{k}"),
        ]
    graph = helper.make_graph(
        nodes,
        "pump-anomaly",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, len(SIGNALS)])],
        [helper.make_tensor_value_info(SCORE_TENSOR, TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, producer_name="sitsedge-pump", opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))
