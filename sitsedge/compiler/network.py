"""The float network between import and quantisation: dense layers, each with an elementwise activation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FloatLayer:
    """``a = min(max(W·x + b, low), high)``; ReLU is ``low = 0``, no activation is ``-inf … inf``.

    ``weights`` has shape (outputs, inputs), ``bias`` shape (outputs,).
    """

    weights: Floats
    bias: Floats
    low: float = -math.inf
    high: float = math.inf

    @property
    def activation(self) -> str:
        """``none``, ``relu`` or ``clamp``."""
        if self.low == -math.inf and self.high == math.inf:
            return "none"
        return "relu" if self.low == 0.0 and self.high == math.inf else "clamp"


@dataclass(frozen=True, slots=True)
class FloatNetwork:
    """Layers in order, with the operators of the imported graph and the nodes after each pass over it."""

    layers: tuple[FloatLayer, ...]
    node_counts: tuple[tuple[str, int], ...] = ()
    passes: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()

    @property
    def n_inputs(self) -> int:
        return int(self.layers[0].weights.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.layers[-1].weights.shape[0])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Widths from the inputs to the outputs, for example ``(8, 16, 16, 2)``."""
        return (self.n_inputs, *(int(layer.weights.shape[0]) for layer in self.layers))

    def activations(self, x: Floats) -> list[Floats]:
        """Pre-activation values of every layer for rows ``x`` (rows, inputs), each (rows, width)."""
        values: list[Floats] = []
        current = x
        for layer in self.layers:
            pre = current @ layer.weights.T + layer.bias
            values.append(pre)
            current = np.clip(pre, layer.low, layer.high)
        return values

    def run(self, x: Floats) -> Floats:
        """Outputs (rows, outputs) in physical units for inputs (rows, inputs) in physical units."""
        last = self.layers[-1]
        return np.clip(self.activations(x)[-1], last.low, last.high)
