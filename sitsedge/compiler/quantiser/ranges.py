"""How far a value reaches: the largest magnitude its counts must show, from what it was on the calibration rows.

Three rules. ``min-max`` covers every row, with a margin where the value saturates, because other rows reach further.
``percentile`` leaves out one element in a thousand. ``mse`` takes the reach at which rounding and saturation together
lose least (Banner et al., "Post-training 4-bit quantization", 2019, searches the same trade-off). The last two only
make sense for values that saturate, at few bits.
"""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.float_graph import Floats

RULES = ("min-max", "percentile", "mse")
PERCENTILE = 99.9

MARGIN = 1.15
"""A value that saturates at few bits keeps this much more than the calibration rows showed: a fifth of a bit."""

WIDE_MARGIN = 2.0
"""With more bits than ``FEW_COUNTS_MAX``, one of them: a single row that saturates costs more than the bit does."""

FEW_COUNTS_MAX = 255

MSE_STEPS = np.linspace(0.3, 1.0, 15)
"""Shares of the largest magnitude that the search tries; below a third, saturation always loses."""

SAMPLES_MAX = 1 << 16
"""Elements looked at per channel group; more do not move a percentile."""


def reach(values: Floats, *, rule: str, largest_count: int, saturates: bool) -> Floats:
    """Reach per column of ``values`` (elements, columns), for counts up to ``largest_count``; 0 where all are 0."""
    magnitudes = np.abs(values)
    if magnitudes.size > SAMPLES_MAX:
        step = -(-magnitudes.size // SAMPLES_MAX)
        # The largest always stays in the sample: min-max must be exact.
        magnitudes = np.concatenate([magnitudes[::step], magnitudes.max(axis=0, keepdims=True)])
    top: Floats = magnitudes.max(axis=0)
    if rule == "percentile":
        cut: Floats = np.percentile(magnitudes, PERCENTILE, axis=0)
        return np.where(cut > 0, cut, top)
    if rule == "mse":
        return _least_squares(magnitudes, top, largest_count)
    margin = MARGIN if largest_count <= FEW_COUNTS_MAX else WIDE_MARGIN
    return top * margin if saturates else top


def _least_squares(magnitudes: Floats, top: Floats, largest_count: int) -> Floats:
    losses = []
    for share in MSE_STEPS:
        step = np.where(top > 0, top * share, 1.0) / largest_count
        shown = np.minimum(np.rint(magnitudes / step), largest_count) * step
        losses.append(((shown - magnitudes) ** 2).mean(axis=0))
    best = MSE_STEPS[np.argmin(np.stack(losses), axis=0)]
    return np.asarray(top * best)
