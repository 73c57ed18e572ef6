"""What a graph costs in the circuit, estimated from its bounds: the search compares trials by it.

The circuit back end counts exactly; this follows the same encodings (``circuit_plan``) without making them.
"""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Leaky, MaxPool, Product, Sum, Table
from sitsedge.compiler.graph.integer_values import elements
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds, graph_bounds
from sitsedge.compiler.reference import Ints

LINK_ROWS = 2
"""Rows of one ReLU besides its bits: the top bit and the product."""


def circuit_rows(graph: IntegerGraph) -> int:
    """Estimated constraints of the circuit of ``graph``."""
    bounds = graph_bounds(graph)
    fixed = graph.n_inputs + graph.n_outputs + 1
    return fixed + sum(_rows(graph, node, bounds) for node in graph.nodes)


def _bits(low: Ints, high: Ints) -> Ints:
    """Fewest bits k ≥ 1 of each span with -2^k ≤ low and high < 2^k."""
    needed = np.maximum(np.maximum(high, 0) + 1, np.maximum(-low, 1))
    return np.asarray(np.maximum(1, np.ceil(np.log2(needed))), dtype=np.int64)


def _rows(graph: IntegerGraph, node: Node, bounds: dict[str, ValueBounds]) -> int:
    bound, source = bounds[node.name], bounds[node.sources[0]]
    match node:
        case Dense() | Conv():
            wide = (slice(None), *(None,) * (bound.low.ndim - 1))
            return _requantised(bound, node.shift[wide], node.rounding[wide], node.low[wide], node.high[wide])
        case Sum():
            return _requantised(bound, *(np.array(v) for v in (node.shift, node.rounding, node.low, node.high)))
        case Product():
            rounded = _requantised(bound, *(np.array(v) for v in (node.shift, node.rounding, node.low, node.high)))
            other = bounds[node.sources[1]]
            both = (source.low != source.high) & (other.low != other.high) & (bound.low != bound.high)
            return rounded + int(both.sum())
        case MaxPool():
            span = int(_bits(source.low.min() - source.high.max(), source.high.max() - source.low.min()))
            return elements(graph.shapes[node.name]) * (node.kernel[0] * node.kernel[1] - 1) * (span + LINK_ROWS)
        case Leaky():
            mixed = (source.low < 0) & (source.high > 0)
            below = np.where(source.low < 0, node.shift + _bits(source.low, source.high), 0)
            return int((np.where(mixed, _bits(source.low, source.high) + LINK_ROWS, 0) + below).sum())
        case Table():
            bits = np.ceil(np.log2(source.high - source.low + 1))
            return int((bits + 2 * np.exp2(bits / 2) + 1)[bits > 0].sum())
        case ArgMax():
            span = int(_bits(source.low.min() - source.high.max(), source.high.max() - source.low.min()))
            return source.low.size * (span + 2 * LINK_ROWS)
        case _:
            return 0


def _requantised(bound: ValueBounds, shift: Ints, rounding: Ints, low: Ints, high: Ints) -> int:
    acc = bound.accumulator
    assert acc is not None, "requantised nodes accumulate"
    v_low, v_high = acc.acc_low + rounding, acc.acc_high + rounding
    varies = bound.low != bound.high
    below, above = (v_low >> shift) < low, (v_high >> shift) > high
    relu = _bits(v_low - (low << shift), v_high - (low << shift)) + LINK_ROWS
    shifted = np.where(shift > 0, _bits(np.zeros_like(v_low), v_high - ((v_low >> shift) << shift)) + 1, 0)
    excess = np.where(above, _bits(bound.low - bound.high, (v_high >> shift) - bound.high) + LINK_ROWS, 0)
    return int(np.where(varies, np.where(below, relu, shifted) + excess, 0).sum())
