"""Control networks of four sizes for measurements: the same integers on every machine.

A network is written as its layer widths, ``8-16-16-2``. Inputs are int8 over their whole range. Weights of a layer are
normal, scaled so that the largest of the layer is ±127 (how a per-layer int8 quantiser leaves them); biases are a few
hundred counts. A hidden layer is ReLU with the least shift for which interval analysis keeps every activation inside
0 … 127, so that no saturation is needed; the last layer has neither shift nor bound, as a setpoint's counts are fine
enough. Nothing is tuned per network: one seed for all four. They come to 562, 889, 1832 and 3850 constraints; figures
published for such networks (562, 880, 1838, 3851) fill the same domains, so times can be compared.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

import numpy as np

from sitsedge.compiler.intervals import layer_bounds, prove
from sitsedge.compiler.reference import SHIFT_MAX, WEIGHT_MAX, IntegerLayer, IntegerModel, Ints
from sitsedge.errors import SitsError

NETWORKS: Final = ("8-16-16-2", "16-32-16-4", "32-64-32-4", "64-128-64-8")
INT8_MIN: Final = -128
INT8_MAX: Final = 127
SEED: Final = 3
BIAS_MAX: Final = 500
WIDTH_MAX: Final = 256
"""An int8 layer of more inputs than 2^16 could leave int32; circuits of wider layers take minutes to set up."""
LAYERS_MAX: Final = 8


def parse_widths(name: str) -> tuple[int, ...]:
    """``8-16-16-2`` as integers. Raises :class:`SitsError` ``bench-network``."""
    widths = tuple(int(part) for part in name.split("-")) if re.fullmatch(r"\d{1,4}(-\d{1,4})+", name) else ()
    if not 2 <= len(widths) <= LAYERS_MAX + 1 or not all(1 <= width <= WIDTH_MAX for width in widths):
        raise SitsError(
            "bench-network",
            found=f"network {name!r}",
            expected=f"2 to {LAYERS_MAX + 1} layer widths from 1 to {WIDTH_MAX}, as in {NETWORKS[0]}",
        )
    return widths


def bench_model(name: str, *, seed: int = SEED) -> IntegerModel:
    """The integer model of ``name``. Raises :class:`SitsError` ``bench-network``."""
    widths = parse_widths(name)
    rng = np.random.default_rng(seed)
    box_low, box_high = np.full(widths[0], INT8_MIN), np.full(widths[0], INT8_MAX)
    low: Ints = box_low.astype(np.int64)
    high: Ints = box_high.astype(np.int64)
    layers = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        drawn = rng.normal(0, 1, (outputs, inputs))
        weights = np.rint(drawn * WEIGHT_MAX / np.abs(drawn).max()).astype(np.int64)
        bias = rng.integers(-BIAS_MAX, BIAS_MAX, outputs)
        layer = _layer(weights, bias, low, high, hidden=index < len(widths) - 2)
        bounds = layer_bounds(layer, low, high)
        low, high = bounds.out_low, bounds.out_high
        layers.append(layer)
    model = IntegerModel.make(tuple(layers), box_low, box_high)
    prove(model)
    return model


def _layer(weights: Ints, bias: Ints, low: Ints, high: Ints, *, hidden: bool) -> IntegerLayer:
    """A plain last layer, or a ReLU layer with the least shift that keeps its activations inside int8."""
    if not hidden:
        return IntegerLayer.make(weights=weights, bias=bias, shift=0)
    for shift in range(SHIFT_MAX + 1):
        layer = IntegerLayer.make(weights=weights, bias=bias, shift=shift, activation="relu")
        if layer_bounds(layer, low, high).out_high.max() <= INT8_MAX:
            return layer
    raise SitsError("bench-network", found="sums that no shift brings into int8", expected=f"sums below 2^{SHIFT_MAX}")


def bench_inputs(model: IntegerModel, count: int, *, seed: int = SEED) -> list[list[int]]:
    """``count`` seeded input rows inside the box."""
    rng = np.random.default_rng((seed, count))
    return [[int(v) for v in row] for row in rng.integers(model.box_low, model.box_high + 1, (count, model.n_inputs))]
