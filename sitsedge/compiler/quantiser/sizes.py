"""Numbers too large to be quantised are refused before anything is computed with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.float_graph import Affine, Conv, Dense, FloatGraph, Floats

MAGNITUDE_MAX = 1e100
"""Sums of squares of numbers below it stay inside float64; no unit of any signal comes near."""


def require_moderate_weights(graph: FloatGraph) -> None:
    """Raises ``QuantiseError`` (``value-range``) for a weight, bias, factor or offset above ``MAGNITUDE_MAX``."""
    for node in graph.nodes:
        if isinstance(node, Dense | Conv):
            _require(node.origin or node.name, "weights", (node.weights, node.bias))
        elif isinstance(node, Affine):
            _require(node.origin or node.name, "factors", (node.factor, node.offset))


def require_moderate_values(values: Mapping[str, Floats]) -> None:
    """The same for what nodes compute on the calibration rows, by name."""
    for name, value in values.items():
        _require(name, "values", (value,))


def _require(name: str, what: str, arrays: Iterable[Floats]) -> None:
    for array in arrays:
        largest = float(np.abs(array).max(initial=0.0))
        # Not "greater than": it must also be false for what is no number.
        if not largest <= MAGNITUDE_MAX:
            raise QuantiseError(
                "value-range",
                found=f"{what} of {name} up to {largest:g}",
                expected=f"at most {MAGNITUDE_MAX:g}",
                hint="normalise the inputs of the network, and look for weights that training let grow",
            )
