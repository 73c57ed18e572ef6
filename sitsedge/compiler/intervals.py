"""Interval analysis over the input box: exact integer bounds of every accumulator and activation.

Two bounds per accumulator. ``acc`` holds for the finished sum. ``partial`` holds for every partial sum in
any order of addition, bias and rounding constant included, so a back end may add in the order it likes and
still never leaves int32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.reference import (
    INT16_MAX,
    INT16_MIN,
    INT32_MAX,
    INT32_MIN,
    IntegerLayer,
    IntegerModel,
    Ints,
)


@dataclass(frozen=True, slots=True, eq=False)
class LayerBounds:
    """Bounds, each of shape (outputs,): finished accumulator, any partial sum, activation."""

    acc_low: Ints
    acc_high: Ints
    partial_low: Ints
    partial_high: Ints
    out_low: Ints
    out_high: Ints


def layer_bounds(layer: IntegerLayer, low: Ints, high: Ints) -> LayerBounds:
    """Bounds of one layer for inputs in ``low … high`` (each of shape (inputs,))."""
    columns = layer.columns()
    at_low, at_high = columns * low, columns * high
    term_low, term_high = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
    acc_low = layer.bias + term_low.sum(axis=1)
    acc_high = layer.bias + term_high.sum(axis=1)
    out_low = (acc_low + layer.rounding) >> layer.shift
    out_high = (acc_high + layer.rounding) >> layer.shift
    if layer.activation != "none":
        out_low = np.clip(out_low, layer.low, layer.high)
        out_high = np.clip(out_high, layer.low, layer.high)
    return LayerBounds(
        acc_low=acc_low,
        acc_high=acc_high,
        partial_low=np.minimum(layer.bias, 0) + np.minimum(term_low, 0).sum(axis=1),
        partial_high=np.maximum(layer.bias, 0) + np.maximum(term_high, 0).sum(axis=1) + layer.rounding,
        out_low=out_low,
        out_high=out_high,
    )


def model_bounds(model: IntegerModel) -> tuple[LayerBounds, ...]:
    """Bounds of every layer over the model's box."""
    low, high = model.box_low, model.box_high
    bounds = []
    for layer in model.layers:
        current = layer_bounds(layer, low, high)
        bounds.append(current)
        low, high = current.out_low, current.out_high
    return tuple(bounds)


def prove(model: IntegerModel) -> tuple[LayerBounds, ...]:
    """Prove that accumulators fit int32 and hidden activations int16; raises ``QuantiseError`` otherwise."""
    bounds = model_bounds(model)
    for index, bound in enumerate(bounds):
        if bound.partial_low.min() < INT32_MIN or bound.partial_high.max() > INT32_MAX:
            raise QuantiseError(
                "accumulator-width",
                found=f"layer {index} sums in {bound.partial_low.min()} … {bound.partial_high.max()}",
                expected="sums inside int32",
                hint="narrow the input ranges or choose coarser input scales in the limits file",
            )
        hidden = index < len(bounds) - 1
        if hidden and (bound.out_low.min() < INT16_MIN or bound.out_high.max() > INT16_MAX):
            raise QuantiseError(
                "activation-width",
                found=f"layer {index} activations in {bound.out_low.min()} … {bound.out_high.max()}",
                expected="activations inside int16",
            )
    return bounds
