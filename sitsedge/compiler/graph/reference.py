"""The normative meaning of an integer graph: exact integer arithmetic in numpy.

Products are summed in float64 where no sum can leave the integers float64 holds exactly (then BLAS is exact, in any
order of addition), and in int64 otherwise; both give the same integers.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.errors import InputRangeError
from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_values import planes
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.reference import INT16_MIN, Ints

EXACT_BITS = 53
"""Whole numbers up to 2^53 are float64 values, so sums below it are exact whatever their order."""


def run(graph: IntegerGraph, x: NDArray[np.integer]) -> Ints:
    """Outputs in counts, flat: (outputs,) for one input (inputs,) and (rows, outputs) for rows (rows, inputs).

    Raises ``InputRangeError`` for a wrong shape or type and where a value lies outside the box: there the graph has
    no meaning.
    """
    output = values(graph, x)[graph.output].reshape(-1, graph.n_outputs)
    return output[0] if np.asarray(x).ndim == 1 else output


def values(graph: IntegerGraph, x: NDArray[np.integer]) -> dict[str, Ints]:
    """Every value of the graph, each (rows, *shape), for inputs as ``run`` takes them; raises ``InputRangeError``."""
    known = {graph.input.name: _rows(graph, x)}
    for node in graph.nodes:
        known[node.name] = compute(node, *(known[name] for name in node.sources))
    return known


def _rows(graph: IntegerGraph, x: NDArray[np.integer]) -> Ints:
    given = np.asarray(x)
    if given.dtype.kind not in "iu" or given.ndim not in (1, 2) or given.shape[-1] != graph.n_inputs:
        raise InputRangeError(
            "input-shape",
            found=f"{given.dtype} of shape {given.shape}",
            expected=f"integers of shape (rows, {graph.n_inputs})",
        )
    rows = given.astype(np.int64).reshape(-1, graph.n_inputs)
    low, high = graph.input.box_low.reshape(-1), graph.input.box_high.reshape(-1)
    outside = np.argwhere((rows < low) | (rows > high))
    if outside.size:
        row, j = (int(i) for i in outside[0])
        raise InputRangeError(
            "input-range", found=f"input {j} = {rows[row, j]} counts", expected=f"{low[j]} … {high[j]}"
        )
    return rows.reshape(-1, *graph.input.shape)


def compute(node: Node, *sources: Ints) -> Ints:
    """The value of one node for rows of its sources, each (rows, *shape)."""
    match node:
        case Dense() | Conv():
            wide = (slice(None), *(None,) * (sources[0].ndim - 2))
            acc = accumulate(node, sources[0])
            q = (acc + node.rounding[wide]) >> node.shift[wide]
            return np.asarray(np.clip(q, node.low[wide], node.high[wide]))
        case Sum():
            acc = np.sum([source << up for source, up in zip(sources, node.up_shifts, strict=True)], axis=0)
            return np.asarray(np.clip((acc + node.rounding) >> node.shift, node.low, node.high))
        case Product():
            acc = sources[0] * sources[1]
            return np.asarray(np.clip((acc + node.rounding) >> node.shift, node.low, node.high))
        case MaxPool():
            return _max_pool(node, sources[0])
        case Leaky():
            x = sources[0]
            return np.where(x >= 0, x, (x * node.multiplier + node.rounding) >> node.shift)
        case Table():
            return node.values[sources[0] - node.first]
        case Select():
            rows = sources[0].shape[0]
            return sources[0].reshape(rows, -1)[:, node.indices].reshape(rows, *node.shape)
        case Concat():
            return np.concatenate(sources, axis=node.axis + 1)
        case ArgMax():
            return np.asarray(np.argmax(sources[0], axis=1, keepdims=True), dtype=np.int64)
        case _:
            assert_never(node)


def accumulate(node: Dense | Conv, x: Ints) -> Ints:
    """acc of every output element for rows ``x`` (rows, *source shape), without rounding."""
    return weighted_sums(node, node.columns(), x) + node.bias[(slice(None), *(None,) * (x.ndim - 2))]


def weighted_sums(node: Dense | Conv, weights: Ints, x: Ints) -> Ints:
    """Σ w·x of every output element with ``weights`` in place of the node's own (same shape)."""
    if isinstance(node, Dense):
        return products(x, weights.T)
    return _slide(node, weights, x)


def products(a: Ints, b: Ints) -> Ints:
    """a @ b, exactly."""
    if a.shape[-1] == 1:
        return a * b
    largest = int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0)) * a.shape[-1]
    if largest >> EXACT_BITS:
        return np.asarray(a @ b)
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def _slide(node: Conv, weights: Ints, x: Ints) -> Ints:
    """One product for each position in the kernel: all windows' elements there times the weights there."""
    channels, height, width = planes(node.name, x.shape[1:])
    top, left, bottom, right = node.pads
    padded = np.pad(x.reshape(-1, channels, height, width), ((0, 0), (0, 0), (top, bottom), (left, right)))
    shape = node.shape_of(x.shape[1:])
    rows, down, across = len(x), planes(node.name, shape)[1], shape[-1]
    kernel = weights.reshape(node.groups, -1, *weights.shape[1:])
    total = np.zeros((rows, node.groups, kernel.shape[1], down * across), np.int64)
    for ky, kx in np.ndindex(node.kernel):
        seen = _shifted(padded, (ky, kx), (down, across), strides=node.strides, dilations=node.dilations)
        grouped = seen.reshape(rows, node.groups, -1, down * across)
        total += products(kernel[:, :, :, ky, kx], grouped)
    return total.reshape(rows, *shape)


def _shifted(
    padded: Ints, at: tuple[int, int], counts: tuple[int, int], *, strides: tuple[int, int], dilations: tuple[int, int]
) -> Ints:
    """Element ``at`` of every window: (rows, C, down, across)."""
    y, x = (at[axis] * dilations[axis] for axis in (0, 1))
    down, across = (strides[axis] * (counts[axis] - 1) + 1 for axis in (0, 1))
    return padded[:, :, y : y + down : strides[0], x : x + across : strides[1]]


def _max_pool(node: MaxPool, x: Ints) -> Ints:
    channels, height, width = planes(node.name, x.shape[1:])
    top, left, bottom, right = node.pads
    # Below every int16, so that padding never wins.
    padded = np.pad(
        x.reshape(-1, channels, height, width),
        ((0, 0), (0, 0), (top, bottom), (left, right)),
        constant_values=INT16_MIN - 1,
    )
    shape = node.shape_of(x.shape[1:])
    counts = (planes(node.name, shape)[1], shape[-1])
    windows = [
        _shifted(padded, (ky, kx), counts, strides=node.strides, dilations=(1, 1)) for ky, kx in np.ndindex(node.kernel)
    ]
    return np.asarray(np.max(windows, axis=0)).reshape(len(x), *shape)
