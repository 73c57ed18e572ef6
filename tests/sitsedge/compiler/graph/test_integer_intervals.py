"""Interval analysis: sound on random graphs, exact where every input can be tried, and its three refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Leaky, Product, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import graph_bounds, node_bounds, prove
from sitsedge.compiler.graph.reference import accumulate, values
from sitsedge.compiler.intervals import model_bounds
from tests.sitsedge.compiler.nets import models
from tests.support.random_graphs import graphs, interesting_rows


@settings(max_examples=80, deadline=None)
@given(graphs, st.integers(0, 2**16))
def test_values_and_sums_stay_inside_their_bounds(graph: IntegerGraph, seed: int) -> None:
    bounds = prove(graph)
    found = values(graph, interesting_rows(graph, seed, 8))
    for name, value in found.items():
        assert np.all(bounds[name].low <= value), name
        assert np.all(value <= bounds[name].high), name
    for node in graph.nodes:
        acc = bounds[node.name].accumulator
        if isinstance(node, Dense | Conv) and acc is not None:
            sums = accumulate(node, found[node.source])
            assert np.all(acc.acc_low <= sums)
            assert np.all(sums <= acc.acc_high)


@settings(max_examples=40, deadline=None)
@given(models)
def test_a_chains_bounds_are_those_of_its_model(model: Any) -> None:
    graph = graph_of(model)
    found = prove(graph)
    for index, expected in enumerate(model_bounds(model)):
        bound = found[f"l{index}"]
        assert bound.accumulator is not None
        for name in ("acc_low", "acc_high", "partial_low", "partial_high"):
            np.testing.assert_array_equal(getattr(bound.accumulator, name), getattr(expected, name))
        np.testing.assert_array_equal(bound.low, expected.out_low)
        np.testing.assert_array_equal(bound.high, expected.out_high)


SOURCE = Input.make("x", (2, 2), box_low=[[-3, 0], [1, -2]], box_high=[[2, 1], [3, -1]])

SINGLE: dict[str, Node] = {
    "conv": Conv.make(
        "n", "x", weights=[[[[2, -3]], [[-1, 4]]]], bias=[-7], shift=1, pads=(0, 1, 0, 0), low=-9, high=9
    ),
    "leaky": Leaky.make("n", "x", multiplier=3, shift=3),
    "table": Table.make("n", "x", values=[5, -4, 0, 7, 7, -1, 2], first=-3),
    "square": Product.make("n", "x", "x", shift=1, low=1),
    "sum": Sum.make("n", ("x", "x"), up_shifts=(1, 0), shift=1, low=-2),
}


@pytest.mark.parametrize("kind", SINGLE)
def test_bounds_of_one_node_are_reached(kind: str) -> None:
    """Over every input of a small box; elements of one node are each bounded exactly (Sum: of the same value twice)."""
    graph = IntegerGraph.make(SOURCE, (SINGLE[kind],))
    sides = [range(int(a), int(b) + 1) for a, b in zip(SOURCE.box_low.flat, SOURCE.box_high.flat, strict=True)]
    every = values(graph, np.array(list(itertools.product(*sides))))["n"]
    bound = graph_bounds(graph)["n"]
    np.testing.assert_array_equal(every.min(axis=0), bound.low)
    np.testing.assert_array_equal(every.max(axis=0), bound.high)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2)), min_size=1, max_size=4))
def test_indices_that_can_win(spans: list[tuple[int, int]]) -> None:
    low = np.array([a for a, _ in spans])
    high = np.array([a + width for a, width in spans])
    source = Input.make("x", (len(spans),), box_low=low, box_high=high)
    graph = IntegerGraph.make(source, (ArgMax("n", "x"),))
    sides = [range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)]
    winners = values(graph, np.array(list(itertools.product(*sides))))["n"]
    bound = graph_bounds(graph)["n"]
    assert (winners.min(), winners.max()) == (bound.low[0], bound.high[0])


def wide(*nodes: Node) -> IntegerGraph:
    return IntegerGraph.make(Input.make("x", (300,), box_low=-32768, box_high=32767), nodes)


PARTIAL = np.concatenate([np.full(150, 127), np.full(150, -127)])[None]


def test_a_sum_beyond_int32_is_refused() -> None:
    with pytest.raises(QuantiseError) as refused:
        prove(wide(Dense.make("d", "x", weights=np.full((1, 300), 127), in_shift=4)))
    assert refused.value.code == "accumulator-width"


def test_a_partial_sum_beyond_int32_is_refused() -> None:
    """The finished sum is small for every input of a box around one point; some order of addition still overflows."""
    low = np.full(300, 32000)
    source = Input.make("x", (300,), box_low=low, box_high=low + 1)
    graph = IntegerGraph.make(source, (Dense.make("d", "x", weights=PARTIAL, in_shift=2, shift=20),))
    acc = graph_bounds(graph)["d"].accumulator
    assert acc is not None
    assert abs(int(acc.acc_low[0])) < 1 << 20
    with pytest.raises(QuantiseError) as refused:
        prove(graph)
    assert refused.value.code == "accumulator-width"


def test_the_rounding_constant_counts() -> None:
    exact = Dense.make("d", "x", weights=[[1]], bias=(1 << 31) - 1 - (1 << 29), shift=30)
    prove(IntegerGraph.make(Input.make("x", (1,), box_low=0, box_high=0), (exact,)))
    more = Input.make("x", (1,), box_low=0, box_high=1)
    with pytest.raises(QuantiseError) as refused:
        prove(IntegerGraph.make(more, (exact,)))
    assert refused.value.code == "accumulator-width"


def test_a_hidden_value_beyond_int16_is_refused_and_an_output_is_not() -> None:
    first = Sum.make("a", ("x", "x"))
    prove(wide(first))
    with pytest.raises(QuantiseError) as refused:
        prove(wide(first, Sum.make("b", ("a",), shift=1)))
    assert refused.value.code == "activation-width"


@pytest.mark.parametrize("first", [-32768 + 1, 32767 - 3])
def test_an_argument_outside_the_table_is_refused(first: int) -> None:
    with pytest.raises(QuantiseError) as refused:
        node_bounds(Table.make("t", "x", values=[1, 2, 3], first=first), graph_bounds(wide(Sum.make("a", ("x",))))["x"])
    assert refused.value.code == "table-range"
