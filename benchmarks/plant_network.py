"""A network trained in numpy on a made-up smooth plant, and quantised as a module is: for the benchmark of properties.

The plant has a few hidden states; every sensor is a noisy mixture of them and every output a smooth function of them.
So sensors are correlated, as they are in a plant, and a box around an operating point holds inputs that never occur.
Adam with decoupled weight decay (Loshchilov and Hutter, ICLR 2019); the decay is the one of ``DECAYS`` with the
smallest error on rows held out, which is what anyone would take, properties or not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.network import FloatLayer, FloatNetwork
from sitsedge.compiler.quantise import Goal, Scales, quantise
from sitsedge.compiler.reference import IntegerModel, Ints

STATES = 6
NOISE = 0.05

RANGE = 1000
"""Counts on either side of zero for every input."""

BATCH = 128
RATE = 2e-3
DECAYS = (0.04, 0.4, 1.0)
"""Pull towards zero a step and unit of the learning rate."""


@dataclass(frozen=True, slots=True, eq=False)
class Plant:
    """Sensors (rows, inputs) in -1 … 1, and outputs (rows, outputs)."""

    sensors: np.ndarray
    outputs: np.ndarray

    @classmethod
    def made(cls, seed: int, *, inputs: int, outputs: int, rows: int = 6000) -> Plant:
        """Rows of a random plant."""
        rng = np.random.default_rng(seed)
        state = rng.normal(size=(rows, STATES))
        sensors = state @ rng.normal(size=(STATES, inputs)) / STATES + rng.normal(0, NOISE, (rows, inputs))
        wanted = np.tanh(state @ rng.normal(size=(STATES, outputs)) / 2)
        return cls(np.clip(sensors, -1, 1).astype(np.float32), wanted.astype(np.float32))


Layers = list[tuple[np.ndarray, np.ndarray]]


def untrained(seed: int, widths: tuple[int, ...]) -> Layers:
    """He's random weights: what training starts from, and the hard case for proofs."""
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(0, (2 / n) ** 0.5, (m, n)).astype(np.float32), np.zeros(m, np.float32))
        for n, m in itertools.pairwise(widths)
    ]


def activations(layers: Layers, rows: np.ndarray) -> list[np.ndarray]:
    """Rows, every hidden layer's activations, and the outputs."""
    values = [rows]
    for index, (weights, bias) in enumerate(layers):
        sums = values[-1] @ weights.T + bias
        values.append(np.maximum(sums, 0) if index < len(layers) - 1 else sums)
    return values


def trained(
    plant: Plant, widths: tuple[int, ...], *, seed: int, epochs: int = 60, decays: tuple[float, ...] = DECAYS
) -> Layers:
    """The best of one training for each decay, by the last sixth of the rows."""
    held = len(plant.sensors) * 5 // 6
    found = []
    for decay in decays:
        layers = _fitted(plant, untrained(seed, widths), held, epochs=epochs, decay=decay, seed=seed)
        missed = activations(layers, plant.sensors[held:])[-1] - plant.outputs[held:]
        found.append((float((missed**2).mean()), layers))
    return min(found, key=lambda each: each[0])[1]


def _fitted(plant: Plant, layers: Layers, rows: int, *, epochs: int, decay: float, seed: int) -> Layers:
    rng = np.random.default_rng(seed)
    moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in layer] for layer in layers]
    steps = epochs * (rows // BATCH)
    for step in range(1, steps + 1):
        picked = rng.integers(0, rows, BATCH)
        values = activations(layers, plant.sensors[picked])
        slope = (values[-1] - plant.outputs[picked]) * np.float32(2 / BATCH)
        rate = RATE * (1 - step / (steps + 1))
        for index in range(len(layers) - 1, -1, -1):
            weights = layers[index][0]
            gradients = (slope.T @ values[index], slope.sum(axis=0))
            slope = (slope @ weights) * (values[index] > 0)
            for i, pull in ((0, decay), (1, 0.0)):
                _adam(layers[index][i], gradients[i], moments[index][i], step, rate, pull)
    return layers


def _adam(
    p: np.ndarray, g: np.ndarray, moments: tuple[np.ndarray, np.ndarray], step: int, rate: float, pull: float
) -> None:
    mean, square = moments
    mean += np.float32(0.1) * (g - mean)
    square += np.float32(0.001) * (g * g - square)
    move = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    p -= (rate * (move + pull * p)).astype(np.float32)


def quantised(layers: Layers, plant: Plant, *, rows: int = 2000) -> tuple[IntegerModel, Ints]:
    """The integer model by the compiler's search, and all of the plant's rows in counts."""
    counts = np.rint(plant.sensors * RANGE).astype(np.int64)
    inputs, outputs = plant.sensors.shape[1], plant.outputs.shape[1]
    network = FloatNetwork(
        tuple(
            FloatLayer(w.astype(np.float64), b.astype(np.float64), low=0.0 if i < len(layers) - 1 else -np.inf)
            for i, (w, b) in enumerate(layers)
        )
    )
    scales = Scales(
        inputs=np.full(inputs, 1 / RANGE),
        outputs=np.full(outputs, 1e-3),
        box_low=np.full(inputs, -RANGE),
        box_high=np.full(inputs, RANGE),
    )
    raw = counts[:rows] / RANGE
    return quantise(network, scales, counts[:rows], raw, goal=Goal()).model, counts
