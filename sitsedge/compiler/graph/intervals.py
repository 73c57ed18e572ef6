"""Interval analysis of an integer graph: exact integer bounds of every element of every value.

Two bounds per accumulator, as in ``sitsedge.compiler.intervals``: ``acc`` holds for the finished sum, ``partial`` for
every partial sum in any order of addition, bias and rounding constant included. A back end may therefore add in the
order it likes and never leaves int32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.reference import compute, weighted_sums
from sitsedge.compiler.reference import INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """Bounds before rounding and shift, each of the result's shape: finished sum, any partial sum."""

    acc_low: Ints
    acc_high: Ints
    partial_low: Ints
    partial_high: Ints


@dataclass(frozen=True, slots=True, eq=False)
class ValueBounds:
    """Element-wise bounds of one value, each of its shape; ``accumulator`` for Dense, Conv, Sum, Product and Leaky.

    For Leaky it bounds the product below zero.
    """

    low: Ints
    high: Ints
    accumulator: Accumulator | None = None


def graph_bounds(graph: IntegerGraph) -> dict[str, ValueBounds]:
    """Bounds of every value over the input's box; raises ``QuantiseError`` where a table's argument may leave it."""
    known = {graph.input.name: ValueBounds(graph.input.box_low, graph.input.box_high)}
    for node in graph.nodes:
        known[node.name] = node_bounds(node, *(known[name] for name in node.sources))
    return known


def node_bounds(node: Node, *sources: ValueBounds) -> ValueBounds:
    """Bounds of one node's value from the bounds of its sources; raises ``QuantiseError``, see ``graph_bounds``."""
    first = sources[0]
    match node:
        case Dense() | Conv():
            accumulator = _weighted(node, first)
            wide = (slice(None), *(None,) * (accumulator.acc_low.ndim - 1))
            low, high = (
                np.clip((acc + node.rounding[wide]) >> node.shift[wide], node.low[wide], node.high[wide])
                for acc in (accumulator.acc_low, accumulator.acc_high)
            )
            return ValueBounds(low, high, accumulator)
        case Sum() | Product():
            accumulator = _sum(node, sources) if isinstance(node, Sum) else _product(node, *sources)
            low, high = (
                np.clip((acc + node.rounding) >> node.shift, node.low, node.high)
                for acc in (accumulator.acc_low, accumulator.acc_high)
            )
            return ValueBounds(low, high, accumulator)
        case Leaky():
            # Not falling anywhere: the multiplier is not negative.
            below_low, below_high = (np.minimum(bound, 0) * node.multiplier for bound in (first.low, first.high))
            accumulator = Accumulator(below_low, below_high, below_low, below_high + node.rounding)
            return ValueBounds(*_ends(node, *sources), accumulator)
        case Table():
            return _table(node, first)
        case ArgMax():
            return _arg_max(first)
        case MaxPool() | Select() | Concat():
            return ValueBounds(*_ends(node, *sources))
        case _:
            assert_never(node)


def _ends(node: Node, *sources: ValueBounds) -> tuple[Ints, Ints]:
    """Bounds of a node whose elements do not fall when any element of its sources rises."""
    low = compute(node, *(source.low[None] for source in sources))[0]
    high = compute(node, *(source.high[None] for source in sources))[0]
    return low, high


def _weighted(node: Dense | Conv, source: ValueBounds) -> Accumulator:
    columns = node.columns()
    up, down = np.maximum(columns, 0), np.minimum(columns, 0)

    def sums(at_up: Ints, at_down: Ints) -> Ints:
        total: Ints = weighted_sums(node, up, at_up[None])[0] + weighted_sums(node, down, at_down[None])[0]
        return total

    low, high = source.low, source.high
    bias = node.bias[(slice(None), *(None,) * (low.ndim - 1))]
    rounding = node.rounding[(slice(None), *(None,) * (low.ndim - 1))]
    return Accumulator(
        acc_low=bias + sums(low, high),
        acc_high=bias + sums(high, low),
        # Only the terms that can be negative (positive) pull a partial sum down (up).
        partial_low=np.minimum(bias, 0) + sums(np.minimum(low, 0), np.maximum(high, 0)),
        partial_high=np.maximum(bias, 0) + sums(np.maximum(high, 0), np.minimum(low, 0)) + rounding,
    )


def _sum(node: Sum, sources: tuple[ValueBounds, ...]) -> Accumulator:
    lows = np.stack([source.low << up for source, up in zip(sources, node.up_shifts, strict=True)])
    highs = np.stack([source.high << up for source, up in zip(sources, node.up_shifts, strict=True)])
    return Accumulator(
        acc_low=lows.sum(axis=0),
        acc_high=highs.sum(axis=0),
        partial_low=np.minimum(lows, 0).sum(axis=0),
        partial_high=np.maximum(highs, 0).sum(axis=0) + node.rounding,
    )


def _product(node: Product, a: ValueBounds, b: ValueBounds) -> Accumulator:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    if node.sources[0] == node.sources[1]:
        # A square is never negative, and is 0 where the sign is open.
        low = np.where((a.low < 0) & (a.high > 0), 0, np.minimum(a.low * a.low, a.high * a.high))
    return Accumulator(low, high, np.minimum(low, 0), np.maximum(high, 0) + node.rounding)


def _table(node: Table, source: ValueBounds) -> ValueBounds:
    last = node.first + node.values.size - 1
    if source.low.min() < node.first or source.high.max() > last:
        raise QuantiseError(
            "table-range",
            found=f"{node.name!r}: arguments in {source.low.min()} … {source.high.max()}",
            expected=f"{node.first} … {last} as the table has entries",
        )
    spans, where = np.unique(np.stack([source.low.reshape(-1), source.high.reshape(-1)]), axis=1, return_inverse=True)
    lows, highs = np.zeros(spans.shape[1], np.int64), np.zeros(spans.shape[1], np.int64)
    for i, (low, high) in enumerate(spans.T):
        reached = node.values[low - node.first : high - node.first + 1]
        lows[i], highs[i] = reached.min(), reached.max()
    flat = where.reshape(-1)
    return ValueBounds(lows[flat].reshape(source.low.shape), highs[flat].reshape(source.low.shape))


def _arg_max(source: ValueBounds) -> ValueBounds:
    """Indices that can win: able to exceed what stands before them and to reach what comes after."""
    low, high = source.low, source.high
    least = np.iinfo(np.int64).min
    before = np.maximum.accumulate(np.concatenate([[least], low[:-1]]))
    after = np.maximum.accumulate(np.concatenate([low[1:], [least]])[::-1])[::-1]
    able = np.flatnonzero((high > before) & (high >= after))
    return ValueBounds(able[:1].astype(np.int64), able[-1:].astype(np.int64))


def prove(graph: IntegerGraph) -> dict[str, ValueBounds]:
    """Prove every accumulator inside int32, every value a node reads inside int16, every table argument inside.

    Returns the bounds; raises ``QuantiseError`` (``accumulator-width``, ``activation-width``, ``table-range``).
    """
    bounds = graph_bounds(graph)
    for node in graph.nodes:
        bound = bounds[node.name]
        acc = bound.accumulator
        if acc is not None and (acc.partial_low.min() < INT32_MIN or acc.partial_high.max() > INT32_MAX):
            raise QuantiseError(
                "accumulator-width",
                found=f"{node.name!r} sums in {acc.partial_low.min()} … {acc.partial_high.max()}",
                expected="sums inside int32",
                hint="narrow the input ranges or choose coarser input scales in the limits file",
            )
        hidden = node.name != graph.output
        if hidden and (bound.low.min() < INT16_MIN or bound.high.max() > INT16_MAX):
            raise QuantiseError(
                "activation-width",
                found=f"{node.name!r} in {bound.low.min()} … {bound.high.max()}",
                expected="values inside int16",
            )
    return bounds
