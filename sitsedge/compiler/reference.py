"""The normative meaning of an integer model: exact integer arithmetic in numpy.

Per layer and neuron i, with u_j = x_j · 2^e_j (evidence rules §2):

    acc_i = bias_i + Σ_j w_ij · u_j          int32, width proven by ``intervals``
    q_i   = (acc_i + 2^(s_i - 1)) >> s_i     arithmetic shift; s_i = 0 means none
    a_i   = min(max(q_i, low_i), high_i)     where the layer declares it
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.errors import InputRangeError, QuantiseError

Ints = NDArray[np.int64]

INT16_MIN, INT16_MAX = -(1 << 15), (1 << 15) - 1
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
WEIGHT_MAX = 127
"""Weights are symmetric int8, so that a sign change never overflows."""

SHIFT_MAX = 30
"""Largest requantise shift: 2^(s-1) must itself be an int32."""

IN_SHIFT_MAX = 8
"""Largest column exponent: a weight shifted by it still fits an int16 (127 · 2^8), as SIMD needs."""


def _frozen(values: object) -> Ints:
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


@dataclass(frozen=True, slots=True, eq=False)
class IntegerLayer:
    """One dense layer. Shapes: weights (outputs, inputs); in_shift (inputs,); the others (outputs,).

    ``low`` and ``high`` are int32 bounds of the activation; ``activation`` says which of them count.
    """

    weights: Ints
    bias: Ints
    in_shift: Ints
    shift: Ints
    low: Ints
    high: Ints
    activation: str

    @classmethod
    def make(
        cls,
        *,
        weights: object,
        bias: object,
        shift: object,
        in_shift: object | None = None,
        activation: str = "none",
        low: object | None = None,
        high: object | None = None,
    ) -> IntegerLayer:
        """Validate every number format; raises ``QuantiseError`` with code ``integer-format``.

        ``low`` and ``high`` count for ``clamp`` only; for the others they follow from the activation.
        """
        matrix = _frozen(weights)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise QuantiseError("integer-format", found="weights that are no matrix", expected="a matrix")
        outputs, inputs = matrix.shape
        if activation not in ("none", "relu", "clamp"):
            raise QuantiseError("integer-format", found=f"activation {activation!r}", expected="none, relu or clamp")
        if activation != "clamp" or low is None:
            low = 0 if activation == "relu" else INT32_MIN
        if activation != "clamp" or high is None:
            high = INT32_MAX
        layer = cls(
            weights=matrix,
            bias=_frozen(np.broadcast_to(_frozen(bias), (outputs,))),
            in_shift=_frozen(np.broadcast_to(_frozen(0 if in_shift is None else in_shift), (inputs,))),
            shift=_frozen(np.broadcast_to(_frozen(shift), (outputs,))),
            low=_frozen(np.broadcast_to(_frozen(low), (outputs,))),
            high=_frozen(np.broadcast_to(_frozen(high), (outputs,))),
            activation=activation,
        )
        layer._check()
        return layer

    def _check(self) -> None:
        for name, values, low, high in (
            ("weight", self.weights, -WEIGHT_MAX, WEIGHT_MAX),
            ("bias", self.bias, INT32_MIN, INT32_MAX),
            ("input shift", self.in_shift, 0, IN_SHIFT_MAX),
            ("shift", self.shift, 0, SHIFT_MAX),
            ("low", self.low, INT32_MIN, INT32_MAX),
            ("high", self.high, INT32_MIN, INT32_MAX),
        ):
            if values.min() < low or values.max() > high:
                raise QuantiseError(
                    "integer-format",
                    found=f"{name} in {values.min()} … {values.max()}",
                    expected=f"{low} … {high}",
                )
        if np.any(self.low > self.high):
            raise QuantiseError("integer-format", found="low above high", expected="low ≤ high")

    @property
    def rounding(self) -> Ints:
        """2^(s-1) per neuron, 0 where s = 0."""
        return np.where(self.shift > 0, np.int64(1) << np.maximum(self.shift - 1, 0), 0)

    def columns(self) -> Ints:
        """Weights with the column exponents multiplied in: int16 values."""
        return self.weights << self.in_shift

    def accumulate(self, x: Ints) -> Ints:
        """acc for rows ``x`` (rows, inputs) → (rows, outputs), without rounding."""
        return x @ self.columns().T + self.bias

    def run(self, x: Ints) -> Ints:
        """Activations for rows ``x`` (rows, inputs)."""
        q = (self.accumulate(x) + self.rounding) >> self.shift
        return q if self.activation == "none" else np.clip(q, self.low, self.high)


@dataclass(frozen=True, slots=True, eq=False)
class IntegerModel:
    """Layers and the input box in counts: ``box_low[j] ≤ x_j ≤ box_high[j]``, inside int16."""

    layers: tuple[IntegerLayer, ...]
    box_low: Ints
    box_high: Ints

    @classmethod
    def make(cls, layers: tuple[IntegerLayer, ...], box_low: object, box_high: object) -> IntegerModel:
        """Validate shapes and the box; raises ``QuantiseError``."""
        low, high = _frozen(box_low), _frozen(box_high)
        width = low.size
        for layer in layers:
            if layer.weights.shape[1] != width:
                raise QuantiseError(
                    "integer-format",
                    found=f"a layer for {layer.weights.shape[1]} inputs behind {width} values",
                    expected="matching widths",
                )
            width = layer.weights.shape[0]
        box_ok = low.shape == high.shape == (low.size,) and bool(np.all(low <= high))
        if not layers or not box_ok or low.min() < INT16_MIN or high.max() > INT16_MAX:
            raise QuantiseError(
                "integer-format", found="no layer or an input box outside int16", expected="an int16 box"
            )
        return cls(layers, low, high)

    @property
    def n_inputs(self) -> int:
        return int(self.box_low.size)

    @property
    def n_outputs(self) -> int:
        return int(self.layers[-1].weights.shape[0])

    def run(self, x: NDArray[np.integer]) -> Ints:
        """Outputs in counts for one input vector (inputs,) or rows (rows, inputs), inside the box.

        Raises ``InputRangeError`` where a value lies outside the box: there the model has no meaning.
        """
        rows = np.asarray(x)
        if rows.dtype.kind not in "iu" or rows.ndim not in (1, 2) or rows.shape[-1] != self.n_inputs:
            raise InputRangeError(
                "input-shape",
                found=f"{rows.dtype} of shape {rows.shape}",
                expected=f"integers of shape (rows, {self.n_inputs})",
            )
        value = rows.astype(np.int64)
        outside = np.argwhere((value < self.box_low) | (value > self.box_high))
        if outside.size:
            where = tuple(int(i) for i in outside[0])
            j = where[-1]
            raise InputRangeError(
                "input-range",
                found=f"input {j} = {value[where]} counts",
                expected=f"{self.box_low[j]} … {self.box_high[j]}",
            )
        for layer in self.layers:
            value = layer.run(value)
        return value
