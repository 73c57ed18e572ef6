"""CROWN: linear bounds of an integer model over a box, rounding and clamps included.

Source: Zhang et al., Efficient Neural Network Robustness Certification with General Activation Functions, NeurIPS 2018.
A neuron's activation lies between two lines over its accumulator v, and so do its roundings:

    (v + 2^(s-1) - 2^s + 1) / 2^s  ≤  q = (v + 2^(s-1)) >> s  ≤  (v + 2^(s-1)) / 2^s,        a = clip(q, low, high)

Lines put through the network backwards give each accumulator as at most a linear function of the inputs, whose largest
value over a box is at a corner. Everything is computed in float64 with a running bound of its own rounding error
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, §3.1: a sum of n products in any order is off by at most
γ_n times the sum of magnitudes); the bound is added, and the result is taken outward to integers. So a bound holds
in exact arithmetic, whatever order BLAS adds in. It is cut with the interval bound, never worse than that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.intervals import layer_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel, Ints

Floats = NDArray[np.float64]

UNIT = 2.0**-52
"""Twice the unit round-off of float64: the second half covers the rounding of the error bound itself."""

TINY = 2.0**-1000
"""Covers products that underflow; nothing else comes near it."""


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """Proven integer bounds of one layer, each (outputs,): accumulator and activation."""

    acc_low: Ints
    acc_high: Ints
    out_low: Ints
    out_high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines over the accumulator's range, each (outputs,): a ≤ upper_slope·v + upper_offset, and the same below."""

    upper_slope: Floats
    upper_offset: Floats
    lower_slope: Floats
    lower_offset: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Crown:
    """Bounds of every layer over one box, and the lines of every layer but the last."""

    model: IntegerModel
    low: Ints
    high: Ints
    ranges: tuple[Range, ...]
    lines: tuple[Lines, ...]


def crown(model: IntegerModel, low: Ints | None = None, high: Ints | None = None) -> Crown:
    """Bounds over ``low … high`` (inputs,), the model's whole box by default, inside which they have to lie."""
    low = model.box_low if low is None else low
    high = model.box_high if high is None else high
    ranges: list[Range] = []
    lines: list[Lines] = []
    for index, layer in enumerate(model.layers):
        known = Crown(model, low, high, tuple(ranges), tuple(lines))
        ranges.append(_range(layer, known))
        if index + 1 < len(model.layers):
            lines.append(relax(layer, ranges[-1]))
    return Crown(model, low, high, tuple(ranges), tuple(lines))


def _range(layer: IntegerLayer, known: Crown) -> Range:
    """Bounds of the layer that follows what is known: interval and, behind the first layer, linear."""
    before = known.ranges[-1] if known.ranges else None
    plain = layer_bounds(layer, *((known.low, known.high) if before is None else (before.out_low, before.out_high)))
    acc_low, acc_high = plain.acc_low, plain.acc_high
    if before is not None:
        columns, bias = layer.columns().astype(np.float64), layer.bias.astype(np.float64)
        upper, _ = upper_bounds(known, np.concatenate([columns, -columns]), np.concatenate([bias, -bias]))
        acc_high = np.minimum(acc_high, np.floor(upper[: len(bias)]).astype(np.int64))
        acc_low = np.maximum(acc_low, -np.floor(upper[len(bias) :]).astype(np.int64))
    return Range(acc_low, acc_high, activation(layer, acc_low), activation(layer, acc_high))


def activation(layer: IntegerLayer, acc: Ints) -> Ints:
    """The layer's activations for accumulators (…, outputs); it never falls when one rises."""
    q = (acc + layer.rounding) >> layer.shift
    return q if layer.activation == "none" else np.clip(q, layer.low, layer.high)


def relax(layer: IntegerLayer, bound: Range) -> Lines:
    """Lines above and below every activation over its accumulator's range."""
    step = np.exp2(layer.shift.astype(np.float64))
    low, high = layer.low.astype(np.float64), layer.high.astype(np.float64)
    upper_shift = layer.rounding.astype(np.float64)
    lower_shift = upper_shift - step + 1
    ends = bound.acc_low.astype(np.float64), bound.acc_high.astype(np.float64)
    upper = line_above(*ends, upper_shift, step, low, high)
    # clip(p, low, high) = -clip(-p, -high, -low): a line above the mirror image is one below.
    slope, offset = line_above(-ends[1], -ends[0], -lower_shift, step, -high, -low)
    return Lines(*upper, slope, -offset)


def line_above(
    v_low: Floats, v_high: Floats, shift: Floats, step: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Slope and offset of a line above clip((v + shift) / step, low, high) for v in ``v_low … v_high``.

    Any slope is sound: the offset is the largest difference, which lies at an end or where the clamp bends.
    """
    p_low, p_high = (v_low + shift) / step, (v_high + shift) / step
    bend = np.minimum(p_high, high)
    rise = np.clip(bend, low, high) - np.clip(p_low, low, high)
    chord = np.where(bend > p_low, rise / np.maximum(bend - p_low, 2.0**-31), 0.0)
    at_middle = np.clip(p_low, low, high) + chord * (p_high - p_low) / 2
    slope = np.where((p_high > high) & (at_middle >= high), 0.0, chord)
    points = np.stack([p_low, p_high, np.clip(low, p_low, p_high), np.clip(high, p_low, p_high)])
    value, product = np.clip(points, low, high), slope * points
    excess = value - product + 4 * UNIT * (np.abs(value) + np.abs(product))
    offset = excess.max(axis=0) + slope * shift / step
    return slope / step, offset + 4 * UNIT * (np.abs(offset) + np.abs(slope * shift / step))


def upper_bounds(known: Crown, rows: Floats, constant: Floats) -> tuple[Floats, Floats]:
    """Upper bounds of ``rows @ a + constant`` for the activations a of the last layer in ``known.lines``.

    ``rows`` (m, outputs), ``constant`` (m,). Returns the bounds (m,), which hold in exact arithmetic, and the linear
    function's coefficients (m, inputs), which only guide a search.
    """
    layers = known.model.layers[: len(known.lines)]
    magnitude = np.abs(constant)
    for index in range(len(layers) - 1, -1, -1):
        layer, lines, bound = layers[index], known.lines[index], known.ranges[index]
        up, down = np.maximum(rows, 0), np.minimum(rows, 0)
        scaled = up * lines.upper_slope + down * lines.lower_slope
        constant = constant + up @ lines.upper_offset + down @ lines.lower_offset + scaled @ layer.bias
        before = known.ranges[index - 1] if index else None
        inputs = _largest(known.low, known.high) if before is None else _largest(before.out_low, before.out_high)
        columns = layer.columns().astype(np.float64)
        offsets = np.maximum(np.abs(lines.upper_offset), np.abs(lines.lower_offset))
        magnitude = magnitude + np.abs(rows) @ offsets
        magnitude += np.abs(scaled) @ (
            _largest(bound.acc_low, bound.acc_high) + np.abs(layer.bias) + np.abs(columns) @ inputs
        )
        rows = scaled @ columns
    value = constant + np.maximum(rows, 0) @ known.high + np.minimum(rows, 0) @ known.low
    magnitude = magnitude + np.abs(rows) @ _largest(known.low, known.high)
    widest = max(known.low.size, *(layer.weights.shape[0] for layer in layers), 1)
    return value + (widest + 8 * len(layers) + 16) * UNIT * magnitude + TINY, rows


def _largest(low: Ints, high: Ints) -> Floats:
    return np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
