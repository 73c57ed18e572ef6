"""Folds a chain of affine maps and clamps into as few dense layers as possible, in float64.

An affine map after an affine map is one affine map; a clamp after a clamp is one clamp. Normalisation in
front of the network and scaling behind it therefore vanish into the first and last dense layer.
"""

from __future__ import annotations

import math

import numpy as np

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.network import FloatLayer, Floats

WIDTH_MAX = 1024
"""Widest layer: the circuit file holds at most 1,024 public inputs."""

WEIGHTS_MAX = 1 << 17
"""Most weights in all: the emitted module is unrolled, and compiles in about 0.4 s at this size."""


class Chain:
    """The layers so far; the last one is open (no activation yet) or closed by a clamp."""

    def __init__(self, n_inputs: int) -> None:
        if not 1 <= n_inputs <= WIDTH_MAX:
            raise OnnxImportError(
                "oversize", found=f"{n_inputs} inputs", expected=f"1 to {WIDTH_MAX} inputs of one model"
            )
        self._width = n_inputs
        self._closed: list[FloatLayer] = []
        # None stands for the identity, so that a wide input costs nothing before its first dense layer.
        self._open: tuple[Floats, Floats] | None = None
        self._identity_output = True

    @property
    def width(self) -> int:
        return self._width

    def affine(self, matrix: Floats, offset: Floats) -> None:
        """Append ``x → matrix·x + offset``; matrix (outputs, width), offset (outputs,)."""
        if matrix.shape[0] > WIDTH_MAX:
            raise OnnxImportError(
                "oversize", found=f"a layer of {matrix.shape[0]} outputs", expected=f"at most {WIDTH_MAX}"
            )
        if self._open is not None:
            weights, bias = self._open
            with np.errstate(over="ignore", invalid="ignore"):
                matrix, offset = matrix @ weights, matrix @ bias + offset
        self._set(matrix, offset)

    def scale(self, factor: Floats, offset: Floats) -> None:
        """Append ``x → factor * x + offset`` element by element; both (width,)."""
        if self._open is None:
            self.affine(np.diag(factor), offset)
            return
        weights, bias = self._open
        with np.errstate(over="ignore", invalid="ignore"):
            self._set(factor[:, None] * weights, factor * bias + offset)

    def _set(self, matrix: Floats, offset: Floats) -> None:
        if not (np.all(np.isfinite(matrix)) and np.all(np.isfinite(offset))):
            raise OnnxImportError(
                "tensor-value",
                found="weights that overflow float64 when consecutive layers are combined",
                expected="finite weights",
            )
        self._open = (matrix, offset)
        self._width = int(matrix.shape[0])
        self._identity_output = False

    def clamp(self, low: float, high: float) -> None:
        """Append ``x → min(max(x, low), high)``."""
        if self._open is None and self._closed:
            last = self._closed[-1]
            low, high = (min(max(bound, low), high) for bound in (last.low, last.high))
            self._closed[-1] = FloatLayer(last.weights, last.bias, low, high)
            return
        weights, bias = self._open or (np.eye(self._width), np.zeros(self._width))
        self._closed.append(FloatLayer(weights, bias, low, high))
        self._open = None

    def finish(self) -> tuple[FloatLayer, ...]:
        """The layers; refuses a model without any dense layer and one with too many weights."""
        layers = list(self._closed)
        if self._open is not None:
            layers.append(FloatLayer(self._open[0], self._open[1], -math.inf, math.inf))
        if not layers:
            raise OnnxImportError(
                "no-layer", found="a graph without a dense layer", expected="at least one Gemm or MatMul"
            )
        total = sum(layer.weights.size for layer in layers)
        if total > WEIGHTS_MAX:
            raise OnnxImportError(
                "oversize",
                found=f"{total} weights",
                expected=f"at most {WEIGHTS_MAX}",
                hint="train a smaller network; larger models belong in the deferred lane",
            )
        return tuple(layers)
