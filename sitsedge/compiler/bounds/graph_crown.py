"""Linear bounds of any integer graph over a box: CROWN with convolutions, sums, pools and tables.

As ``crown`` does for chains: every node's value lies between two lines over what it is computed from, roundings and
clamps included, and lines are put through the graph backwards. Dense, Conv and Sum are linear up to their rounding; a
convolution is gone through backwards position by position of its kernel and never written out as a matrix. The rest:

    Product   between McCormick's planes (Mathematical Programming 10, 1976) over the ranges of both factors
    MaxPool   at least any one element of the window; at most a line over the element with the largest bound, through
              that bound and the next element's (max(x, c) is convex in x)
    Leaky     at most and at least lines with the chord's slope: the largest differences are at the ends and at 0
    Table     the same, differences tried out over every entry that can be read
    ArgMax    nothing linear: only intervals

Where a bound of a hidden value costs more than there is time or memory for, its interval stays. Rounding errors of
float64 are bounded as in ``crown``: the sum of magnitudes, times the number of terms any sum has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np

from sitsedge.compiler.bounds.crown import TINY, UNIT, Floats, line_above
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_values import elements, planes
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds, node_bounds
from sitsedge.compiler.graph.reference import weighted_sums
from sitsedge.compiler.reference import INT32_MIN, Ints

NUMBERS_AT_ONCE = 1 << 21
"""Coefficients in one array: 16 MiB; a dozen such arrays live at a time."""

PAIRS_MAX = 1 << 12
"""A table's elements with more different ranges than this get their intervals as lines."""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Of one node, flat over its elements: above ≤ slope·v + offset, and below the same, v what it rounds or reads.

    ``above_at`` and ``below_at`` are the elements of the source that v is for MaxPool; ``reach`` bounds |v|.
    """

    above: Floats
    above_offset: Floats
    below: Floats
    below_offset: Floats
    reach: Floats
    above_at: Ints | None = None
    below_at: Ints | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GraphCrown:
    """Bounds of every value over the box of ``graph.input``, and the lines of every node but selections."""

    graph: IntegerGraph
    bounds: dict[str, ValueBounds]
    lines: dict[str, Lines]

    def output(self, k: int) -> tuple[int, int, Floats, Floats]:
        """Bounds of output element ``k``, and the coefficients (inputs,) of the lines above and below it."""
        bound = self.bounds[self.graph.output]
        low, high = int(bound.low.reshape(-1)[k]), int(bound.high.reshape(-1)[k])
        if isinstance(self.graph.nodes[-1], ArgMax):
            nothing = np.zeros(self.graph.n_inputs)
            return low, high, nothing, nothing
        rows = np.zeros((2, self.graph.n_outputs))
        rows[:, k] = 1.0, -1.0
        most, lines = upper_bounds(self, self.graph.output, rows)
        return max(low, -int(np.floor(most[1]))), min(high, int(np.floor(most[0]))), lines[0], -lines[1]


def graph_crown(graph: IntegerGraph, low: Ints, high: Ints, deadline: float) -> GraphCrown:
    """Bounds for inputs in ``low … high``, flat and inside the graph's box; after ``deadline`` only intervals."""
    shape = graph.input.shape
    source = Input.make(graph.input.name, shape, box_low=low.reshape(shape), box_high=high.reshape(shape))
    known = GraphCrown(replace(graph, input=source), {source.name: ValueBounds(source.box_low, source.box_high)}, {})
    behind = False
    for node in graph.nodes:
        bound = node_bounds(node, *(known.bounds[name] for name in node.sources))
        if isinstance(node, Accumulating):
            if behind:
                bound = _narrowed(known, node, bound, deadline)
            behind = True
        known.bounds[node.name] = bound
        if (lines := _relaxed(known, node, bound)) is not None:
            known.lines[node.name] = lines
    return known


Accumulating = Dense | Conv | Sum | Product


def _narrowed(known: GraphCrown, node: Accumulating, bound: ValueBounds, deadline: float) -> ValueBounds:
    """The node's bounds with accumulators bounded by lines where the interval leaves its value open."""
    acc = bound.accumulator
    assert acc is not None
    shape = acc.acc_low.shape
    low, high = acc.acc_low.reshape(-1).copy(), acc.acc_high.reshape(-1).copy()
    open_ = np.flatnonzero((bound.low < bound.high).reshape(-1))
    largest = max(elements(shape_) for shape_ in known.graph.shapes.values())
    at_once = max(1, NUMBERS_AT_ONCE // (2 * largest))
    for first in range(0, len(open_), at_once):
        if time.monotonic() > deadline:
            break
        rows = open_[first : first + at_once]
        upper = _accumulators(known, node, rows)
        high[rows] = np.minimum(high[rows], np.floor(upper[: len(rows)]).astype(np.int64))
        low[rows] = np.maximum(low[rows], -np.floor(upper[len(rows) :]).astype(np.int64))
    acc = replace(acc, acc_low=low.reshape(shape), acc_high=high.reshape(shape))
    return ValueBounds(_value(node, acc.acc_low), _value(node, acc.acc_high), acc)


def _wide(values: Ints, rank: int) -> Ints:
    """Per-channel values for a value of ``rank`` dimensions."""
    wide: Ints = values[(slice(None), *(None,) * (rank - 1))]
    return wide


def _value(node: Accumulating, acc: Ints) -> Ints:
    """What the node makes of accumulators of its value's shape."""
    if isinstance(node, Sum | Product):
        return np.asarray(np.clip((acc + node.rounding) >> node.shift, node.low, node.high), dtype=np.int64)
    rounding, shift, low, high = (_wide(x, acc.ndim) for x in (node.rounding, node.shift, node.low, node.high))
    return np.asarray(np.clip((acc + rounding) >> shift, low, high), dtype=np.int64)


def _accumulators(known: GraphCrown, node: Accumulating, at: Ints) -> Floats:
    """Upper bounds of the accumulators at flat elements ``at``, then of their negatives."""
    size = elements(known.graph.shapes[node.name])
    rows = np.zeros((2 * len(at), size))
    rows[np.arange(len(at)), at] = 1.0
    rows[len(at) + np.arange(len(at)), at] = -1.0
    pending: dict[str, Floats] = {}
    constant, magnitude = _through_linear(known, node, rows, pending)
    return _finish(known, pending, constant, magnitude)[0]


def _relaxed(known: GraphCrown, node: Node, bound: ValueBounds) -> Lines | None:
    """The node's lines; None for what moves values only."""
    before = known.bounds[node.sources[0]]
    match node:
        case Dense() | Conv() | Sum() | Product():
            return _requantised(known, node, bound)
        case MaxPool():
            return _pooled(node, before)
        case Leaky():
            return _leaky(node, before)
        case Table():
            return _table(node, before)
        case Select() | Concat() | ArgMax():
            return None
        case _:
            assert_never(node)


def _requantised(known: GraphCrown, node: Accumulating, bound: ValueBounds) -> Lines:
    acc = bound.accumulator
    assert acc is not None
    shape = acc.acc_low.shape
    if isinstance(node, Sum | Product):
        parts = [np.full(acc.acc_low.size, x, np.int64) for x in (node.rounding, node.shift)]
    else:
        parts = [np.broadcast_to(_wide(x, len(shape)), shape).reshape(-1) for x in (node.rounding, node.shift)]
    step, up = np.exp2(parts[1].astype(np.float64)), parts[0].astype(np.float64)
    # The value's own whole bounds clip more tightly than the node's.
    ends = [x.reshape(-1).astype(np.float64) for x in (acc.acc_low, acc.acc_high, bound.low, bound.high)]
    v_low, v_high, least, most = ends
    above, above_offset = line_above(v_low, v_high, up, step, least, most)
    below, below_offset = line_above(-v_high, -v_low, -(up - step + 1), step, -most, -least)
    return Lines(above, above_offset, below, -below_offset, np.maximum(np.abs(v_low), np.abs(v_high)))


def _padded(above: Floats, offset: Floats) -> Floats:
    """Offsets with more than the rounding errors of their own computation added."""
    return offset + 16 * UNIT * (np.abs(offset) + np.abs(above) * 2.0**16 + 1)


def windows(node: MaxPool, shape: tuple[int, ...]) -> Ints:
    """Flat source elements of every window, -1 for padding; (elements of the result, kernel)."""
    channels, height, width = planes(node.name, shape)
    top, left, bottom, right = node.pads
    index = np.arange(channels * height * width).reshape(channels, height, width)
    padded = np.pad(index, ((0, 0), (top, bottom), (left, right)), constant_values=-1)
    seen = np.lib.stride_tricks.sliding_window_view(padded, node.kernel, axis=(1, 2))
    strided: Ints = seen[:, :: node.strides[0], :: node.strides[1]]
    return strided.reshape(-1, node.kernel[0] * node.kernel[1])


def _pooled(node: MaxPool, before: ValueBounds) -> Lines:
    at = windows(node, before.low.shape)
    nothing = np.int64(INT32_MIN)
    low, high = (np.where(at < 0, nothing, bound.reshape(-1)[at]) for bound in (before.low, before.high))
    rows = np.arange(len(at))
    first = high.argmax(axis=1)
    others = high.copy()
    others[rows, first] = nothing
    x_low, x_high = low[rows, first], high[rows, first]
    # max(x, c) for the element with the largest bound, c what the others reach at most.
    c = np.maximum(others.max(axis=1), x_low).astype(np.float64)
    slope = (x_high - c) / np.maximum(x_high - x_low, 1)
    middle = np.where(at < 0, 2 * nothing, low + high).argmax(axis=1)
    sizes = np.maximum(np.abs(before.low), np.abs(before.high)).reshape(-1).astype(np.float64)
    return Lines(
        above=slope,
        above_offset=_padded(slope, c - slope * x_low),
        below=np.ones(len(at)),
        below_offset=np.zeros(len(at)),
        reach=np.maximum(sizes[at[rows, first]], sizes[at[rows, middle]]),
        above_at=at[rows, first],
        below_at=at[rows, middle],
    )


def _between(slope: Floats, x: Floats, above: Floats, below: Floats, reach: Floats) -> Lines:
    """Lines of one slope: offsets from the largest and smallest of values less slope·x over the points (points, n)."""
    over, under = (above - slope * x).max(axis=0), (below - slope * x).min(axis=0)
    return Lines(slope, _padded(slope, over), slope, -_padded(slope, -under), reach)


def _leaky(node: Leaky, before: ValueBounds) -> Lines:
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (before.low, before.high))
    step = 2.0**node.shift
    # Piecewise linear but for rounding, so the largest differences are at the ends, at 0 and just below it.
    x = np.stack([low, high, np.clip(0, low, high), np.clip(-1, low, high)])
    above = np.where(x >= 0, x, (x * node.multiplier + node.rounding) / step)
    below = np.where(x >= 0, x, (x * node.multiplier + node.rounding - step + 1) / step)
    slope = (above[1] - above[0]) / np.maximum(high - low, 1)
    return _between(slope, x, above, below, np.maximum(np.abs(low), np.abs(high)))


def _table(node: Table, before: ValueBounds) -> Lines:
    low, high = before.low.reshape(-1), before.high.reshape(-1)
    reach = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    pairs, where = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
    flat = len(pairs[0]) > PAIRS_MAX
    found = np.zeros((3, pairs.shape[1]))
    for i, (first, last) in enumerate(pairs.T):
        y = node.values[first - node.first : last - node.first + 1].astype(np.float64)
        slope = 0.0 if flat or first == last else float(y[-1] - y[0]) / float(last - first)
        rest = y - slope * np.arange(first, last + 1)
        found[:, i] = slope, rest.max(), rest.min()
    slope, over, under = found[:, where.reshape(-1)]
    return Lines(slope, _padded(slope, over), slope, -_padded(slope, -under), reach)


def upper_bounds(known: GraphCrown, name: str, rows: Floats) -> tuple[Floats, Floats]:
    """Upper bounds (m,) of ``rows`` (m, elements) times a value, and the coefficients (m, inputs) that gave them."""
    nothing = np.zeros(len(rows))
    return _finish(known, {name: rows}, nothing, nothing)


def _finish(
    known: GraphCrown, pending: dict[str, Floats], constant: Floats, magnitude: Floats
) -> tuple[Floats, Floats]:
    """Go on backwards to the input with coefficients of values in ``pending``."""
    graph = known.graph
    for node in reversed(graph.nodes):
        rows = pending.pop(node.name, None)
        if rows is None:
            continue
        added, size = _through(known, node, rows, pending)
        constant, magnitude = constant + added, magnitude + size
    low, high = graph.input.box_low.reshape(-1), graph.input.box_high.reshape(-1)
    rows = pending.get(graph.input.name, np.zeros((len(constant), graph.n_inputs)))
    value = constant + np.maximum(rows, 0) @ high + np.minimum(rows, 0) @ low
    magnitude = magnitude + np.abs(rows) @ np.maximum(np.abs(low), np.abs(high))
    terms = max(elements(shape) for shape in graph.shapes.values())
    return value + (2 * terms + 16 * len(graph.nodes) + 32) * UNIT * magnitude + TINY, rows


def _add(pending: dict[str, Floats], name: str, rows: Floats) -> None:
    pending[name] = pending[name] + rows if name in pending else rows


def _through(known: GraphCrown, node: Node, rows: Floats, pending: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Coefficients of a node's value become coefficients of its sources'; what constant and magnitude gain."""
    nothing = np.zeros(len(rows))
    if isinstance(node, Select):
        moved = np.zeros((elements(known.graph.shapes[node.source]), len(rows)))
        np.add.at(moved, node.indices, rows.T)
        _add(pending, node.source, np.ascontiguousarray(moved.T))
        return nothing, nothing
    if isinstance(node, Concat):
        shape = known.graph.shapes[node.name]
        sizes = [known.graph.shapes[name][node.axis] for name in node.sources]
        pieces = np.split(rows.reshape(-1, *shape), np.cumsum(sizes)[:-1], axis=node.axis + 1)
        for name, piece in zip(node.sources, pieces, strict=True):
            _add(pending, name, piece.reshape(len(rows), -1))
        return nothing, nothing
    assert not isinstance(node, ArgMax)
    lines = known.lines[node.name]
    up, down = np.maximum(rows, 0), np.minimum(rows, 0)
    constant = up @ lines.above_offset + down @ lines.below_offset
    offsets = np.maximum(np.abs(lines.above_offset), np.abs(lines.below_offset))
    above, below = up * lines.above, down * lines.below
    magnitude = np.abs(rows) @ offsets + (above - below) @ lines.reach
    if isinstance(node, MaxPool):
        assert lines.above_at is not None
        assert lines.below_at is not None
        moved = np.zeros((elements(known.graph.shapes[node.source]), len(rows)))
        np.add.at(moved, lines.above_at, above.T)
        np.add.at(moved, lines.below_at, below.T)
        _add(pending, node.source, np.ascontiguousarray(moved.T))
    elif isinstance(node, Leaky | Table):
        _add(pending, node.source, above + below)
    else:
        added, size = _through_linear(known, node, above + below, pending)
        constant, magnitude = constant + added, magnitude + size
    return constant, magnitude


def _through_linear(
    known: GraphCrown, node: Accumulating, rows: Floats, pending: dict[str, Floats]
) -> tuple[Floats, Floats]:
    """As ``_through`` for coefficients of a node's accumulators."""
    if isinstance(node, Sum):
        for name, up in zip(node.sources, node.up_shifts, strict=True):
            _add(pending, name, rows * 2.0**up)
        sizes = [np.maximum(np.abs(known.bounds[n].low), np.abs(known.bounds[n].high)) for n in node.sources]
        inner = np.sum([size << up for size, up in zip(sizes, node.up_shifts, strict=True)], axis=0).reshape(-1)
        return np.zeros(len(rows)), np.abs(rows) @ inner
    if isinstance(node, Product):
        return _through_product(known, node, rows, pending)
    source = known.bounds[node.source]
    sizes = [np.maximum(np.abs(source.low), np.abs(source.high))]
    inner = weighted_sums(node, np.abs(node.columns()), sizes[0][None])[0]
    shape = known.graph.shapes[node.name]
    bias = np.broadcast_to(_wide(node.bias, len(shape)), shape).reshape(-1)
    back = rows @ node.columns() if isinstance(node, Dense) else _slide_back(known, node, rows)
    _add(pending, node.source, back)
    return rows @ bias, np.abs(rows) @ (inner.reshape(-1) + np.abs(bias))


def _through_product(
    known: GraphCrown, node: Product, rows: Floats, pending: dict[str, Floats]
) -> tuple[Floats, Floats]:
    """Coefficients of products as those of both factors, by the planes that lie closer in the middle."""
    shape = known.graph.shapes[node.name]
    a, b = (known.bounds[name] for name in node.sources)
    a_low, a_high, b_low, b_high = (
        np.broadcast_to(x, shape).reshape(-1).astype(np.float64) for x in (a.low, a.high, b.low, b.high)
    )

    def plane(at_a: Floats, at_b: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """(a - at_a)(b - at_b) has one sign: coefficients of a and b, constant, and twice the value in the middle."""
        middle = at_b * (a_low + a_high) + at_a * (b_low + b_high) - 2 * at_a * at_b
        return at_b, at_a, -at_a * at_b, middle

    def closer(first: tuple[Floats, ...], second: tuple[Floats, ...], sign: float) -> list[Floats]:
        better = sign * first[3] <= sign * second[3]
        return [np.where(better, x, y) for x, y in zip(first[:3], second[:3], strict=True)]

    above = closer(plane(a_high, b_low), plane(a_low, b_high), 1.0)
    below = closer(plane(a_low, b_low), plane(a_high, b_high), -1.0)
    up, down = np.maximum(rows, 0), np.minimum(rows, 0)
    of_a, of_b = (up * above[i] + down * below[i] for i in (0, 1))
    if b.low.shape != shape:
        of_b = of_b.reshape(len(rows), shape[0], -1).sum(axis=2)
    _add(pending, node.sources[0], of_a)
    _add(pending, node.sources[1], of_b)
    size = np.maximum(np.abs(a_low), np.abs(a_high)) * np.maximum(np.abs(b_low), np.abs(b_high))
    return up @ above[2] + down @ below[2], np.abs(rows) @ (4 * size)


def _slide_back(known: GraphCrown, node: Conv, rows: Floats) -> Floats:
    """Coefficients of a convolution's accumulators (m, …) as coefficients of its source's elements, flat."""
    source, shape = known.graph.shapes[node.source], known.graph.shapes[node.name]
    channels, height, width = planes(node.name, source)
    _, down, across = planes(node.name, shape)
    top, left, bottom, right = node.pads
    count, groups = len(rows), node.groups
    kernel = node.columns().astype(np.float64).reshape(groups, -1, *node.weights.shape[1:])
    grouped = rows.reshape(count, groups, -1, down * across)
    padded = np.zeros((count, channels, height + top + bottom, width + left + right))
    for ky, kx in np.ndindex(node.kernel):
        y, x = ky * node.dilations[0], kx * node.dilations[1]
        seen = kernel[:, :, :, ky, kx].transpose(0, 2, 1) @ grouped
        rows_y = slice(y, y + node.strides[0] * (down - 1) + 1, node.strides[0])
        columns_x = slice(x, x + node.strides[1] * (across - 1) + 1, node.strides[1])
        padded[:, :, rows_y, columns_x] += seen.reshape(count, channels, down, across)
    inside = padded[:, :, top : top + height, left : left + width]
    return np.ascontiguousarray(inside).reshape(count, -1)
