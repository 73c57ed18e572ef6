"""Weights of twelve bits in formats of eight: w = 16·h + l, on a source whose channels stand twice.

The first copy of a channel is shifted up by four bits and multiplied with h, the second with l. Back ends see an
ordinary layer. In the circuit the two meet in one coefficient of one wire, so it grows only by what the longer sum's
bits cost; the module multiplies twice as often and not on the fast kernel.
"""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.intervals import ValueBounds
from sitsedge.compiler.quantiser.weights import Layer
from sitsedge.compiler.reference import IN_SHIFT_MAX, WEIGHT_MAX, Ints

FINE_SHIFT = 4
"""16 times finer brings the rounding of weights below that of ten-bit activations."""

FINE_WEIGHT_MAX = (WEIGHT_MAX << FINE_SHIFT) + (1 << (FINE_SHIFT - 1)) - 1
"""Largest w: h up to 127, l from -8 to 7."""

FINE_IN_SHIFT_MAX = IN_SHIFT_MAX - FINE_SHIFT
"""What is left of a channel's own exponent."""


def twice(channels: int, groups: int) -> Ints:
    """Which channel of the source every channel of the doubled one is: each group's channels, then again."""
    each = np.arange(channels, dtype=np.int64).reshape(groups, -1)
    return np.concatenate([each, each], axis=1).reshape(-1)


def doubled_bounds(layer: Layer, bounds: ValueBounds) -> ValueBounds:
    """Bounds of the source with its channels twice."""
    order = twice(layer.source[0], layer.groups)
    return ValueBounds(bounds.low[order], bounds.high[order])


def split(layer: Layer, weights: Ints, in_shift: Ints) -> tuple[Ints, Ints]:
    """Weights (out, in / groups, kh, kw) and exponents (in,) for the doubled source, the same sums for every input."""
    high = (weights + (1 << (FINE_SHIFT - 1))) >> FINE_SHIFT
    low = weights - (high << FINE_SHIFT)
    shifts = in_shift.reshape(layer.groups, -1)
    both = np.concatenate([shifts + FINE_SHIFT, shifts], axis=1)
    return np.concatenate([high, low], axis=1), both.reshape(-1)
