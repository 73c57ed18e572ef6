"""Nodes with weights: dense layers and convolutions. Their meaning is ``graph.reference``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.graph.integer_values import (
    KERNEL_MAX,
    Pads,
    Pair,
    Shape,
    check_window,
    frozen,
    inside,
    refuse,
    rounding,
    window_counts,
)
from sitsedge.compiler.reference import IN_SHIFT_MAX, INT32_MAX, INT32_MIN, SHIFT_MAX, WEIGHT_MAX, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """What Dense and Conv share. ``in_shift`` is per input channel, ``bias`` … ``high`` per output channel."""

    name: str
    source: str
    weights: Ints
    in_shift: Ints
    bias: Ints
    shift: Ints
    low: Ints
    high: Ints

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def rounding(self) -> Ints:
        """2^(s-1) per output channel, 0 where s = 0."""
        return rounding(self.shift)

    @property
    def channels(self) -> int:
        return int(self.weights.shape[0])

    def _check(self) -> None:
        for what, values, low, high in (
            ("weights", self.weights, -WEIGHT_MAX, WEIGHT_MAX),
            ("input shifts", self.in_shift, 0, IN_SHIFT_MAX),
            ("biases", self.bias, INT32_MIN, INT32_MAX),
            ("shifts", self.shift, 0, SHIFT_MAX),
            ("lows", self.low, INT32_MIN, INT32_MAX),
            ("highs", self.high, INT32_MIN, INT32_MAX),
        ):
            inside(self.name, what, values, low, high)
        if np.any(self.low > self.high):
            raise refuse(self.name, "low above high", "low ≤ high")


def _per_channel(name: str, what: str, values: object, channels: int) -> Ints:
    array = frozen(values)
    if array.shape not in ((), (1,), (channels,)):
        raise refuse(name, f"{what} of shape {array.shape}", f"one, or one for each of {channels} channels")
    return frozen(np.broadcast_to(array, (channels,)))


@dataclass(frozen=True, slots=True, eq=False)
class Dense(Weighted):
    """acc_i = bias_i + Σ_j w_ij · (x_j << in_shift_j); weights (out, in), source and result of shape (in,), (out,)."""

    @classmethod
    def make(
        cls,
        name: str,
        source: str,
        *,
        weights: object,
        bias: object = 0,
        shift: object = 0,
        in_shift: object = 0,
        low: object = INT32_MIN,
        high: object = INT32_MAX,
    ) -> Dense:
        """Per-channel values may be single numbers; raises ``QuantiseError`` for anything outside its format."""
        matrix = frozen(weights)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise refuse(name, f"weights of shape {matrix.shape}", "(outputs, inputs)")
        outputs, inputs = matrix.shape
        node = cls(
            name=name,
            source=source,
            weights=matrix,
            in_shift=_per_channel(name, "in_shift", in_shift, inputs),
            bias=_per_channel(name, "bias", bias, outputs),
            shift=_per_channel(name, "shift", shift, outputs),
            low=_per_channel(name, "low", low, outputs),
            high=_per_channel(name, "high", high, outputs),
        )
        node._check()
        return node

    def columns(self) -> Ints:
        """Weights with the column exponents multiplied in: int16 values."""
        return self.weights << self.in_shift

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if source != (self.weights.shape[1],):
            raise refuse(self.name, f"a source of shape {source}", f"({self.weights.shape[1]},)")
        return (self.channels,)


@dataclass(frozen=True, slots=True, eq=False)
class Conv(Weighted):
    """Cross-correlation as ONNX defines Conv; weights (out, in / groups, kh, kw), one-dimensional with kh = 1.

    ``pads`` are (top, left, bottom, right) and add the integer 0. For a source of shape (C, L) every row figure is
    that of a single row: kh = 1, stride 1, no padding, dilation 1.
    """

    strides: Pair
    pads: Pads
    dilations: Pair
    groups: int

    @classmethod
    def make(
        cls,
        name: str,
        source: str,
        *,
        weights: object,
        bias: object = 0,
        shift: object = 0,
        in_shift: object = 0,
        low: object = INT32_MIN,
        high: object = INT32_MAX,
        strides: Pair = (1, 1),
        pads: Pads = (0, 0, 0, 0),
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Conv:
        """Per-channel values may be single numbers; raises ``QuantiseError`` for anything outside its format."""
        kernel = frozen(weights)
        if kernel.ndim != 4 or 0 in kernel.shape or max(kernel.shape[2:]) > KERNEL_MAX:
            raise refuse(name, f"weights of shape {kernel.shape}", "(outputs, inputs / groups, kh, kw)")
        outputs = kernel.shape[0]
        if groups < 1 or outputs % groups:
            raise refuse(name, f"{groups} groups of {outputs} outputs", "a divisor of the outputs")
        check_window(name, strides, pads, dilations)
        node = cls(
            name=name,
            source=source,
            weights=kernel,
            in_shift=_per_channel(name, "in_shift", in_shift, kernel.shape[1] * groups),
            bias=_per_channel(name, "bias", bias, outputs),
            shift=_per_channel(name, "shift", shift, outputs),
            low=_per_channel(name, "low", low, outputs),
            high=_per_channel(name, "high", high, outputs),
            strides=strides,
            pads=pads,
            dilations=dilations,
            groups=groups,
        )
        node._check()
        return node

    @property
    def kernel(self) -> Pair:
        return int(self.weights.shape[2]), int(self.weights.shape[3])

    def columns(self) -> Ints:
        """Weights with the exponents of their input channels multiplied in: int16 values."""
        per_group = self.in_shift.reshape(self.groups, 1, -1)
        shifts = np.repeat(per_group, self.channels // self.groups, axis=1).reshape(self.channels, -1)
        return self.weights << shifts[:, :, None, None]

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if source[0] != self.in_shift.size:
            raise refuse(self.name, f"a source of shape {source}", f"{self.in_shift.size} channels")
        height, width = window_counts(
            self.name, source, self.kernel, strides=self.strides, pads=self.pads, dilations=self.dilations
        )
        return (self.channels, width) if len(source) == 2 else (self.channels, height, width)
