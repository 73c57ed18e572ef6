"""Linear bounds of graphs: every value of every node lies inside, and never outside what intervals say."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds.graph_crown import graph_crown, windows
from sitsedge.compiler.bounds.graphs import Between, decide_between, output_bounds
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.model import GraphModel
from sitsedge.compiler.graph.reference import compute, values
from tests.support.random_graphs import random_graph


def _rows(low: np.ndarray, high: np.ndarray, seed: int, count: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    corners = np.where(rng.integers(0, 2, (count, low.size)) == 1, high, low)
    return np.concatenate([rng.integers(low, high + 1, (count, low.size)), corners])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), narrow=st.booleans(), late=st.booleans())
def test_every_value_lies_inside_and_bounds_are_never_wider_than_intervals(seed: int, narrow: bool, late: bool) -> None:
    graph = random_graph(seed)
    model = GraphModel(graph)
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.integers(model.box_low, model.box_high + 1, (2, model.n_inputs)), axis=0)
    if narrow:
        high = np.minimum(high, low + 3)
    rows = _rows(low, high, seed)
    known = graph_crown(graph, low, high, time.monotonic() + (-1 if late else 60))
    for name, value in values(graph, rows).items():
        assert np.all((known.bounds[name].low <= value) & (value <= known.bounds[name].high))
    lows, highs = output_bounds(graph, low, high)
    outputs = model.run(rows).reshape(len(rows), -1)
    for k in range(min(graph.n_outputs, 2)):
        least, most, _, _ = known.output(k)
        assert lows[k] <= least <= outputs[:, k].min()
        assert outputs[:, k].max() <= most <= highs[k]


def _graph(*nodes: Node, source: Input) -> IntegerGraph:
    return IntegerGraph.make(source, nodes)


def _bounds(graph: IntegerGraph) -> tuple[int, int]:
    low, high = graph.input.box_low.reshape(-1), graph.input.box_high.reshape(-1)
    least, most, _, _ = graph_crown(graph, low, high, time.monotonic() + 60).output(0)
    return least, most


X = Input.make("x", (2,), box_low=-8, box_high=8)


def test_a_convolution_that_takes_away_what_another_adds_is_seen() -> None:
    """Two convolutions of one input whose difference is 0: intervals double, lines cancel."""
    source = Input.make("x", (1, 3, 3), box_low=-50, box_high=50)
    kernel = np.arange(-4, 5).reshape(1, 1, 3, 3)
    graph = _graph(
        Conv.make("a", "x", weights=kernel, bias=1000, pads=(1, 1, 1, 1)),
        Conv.make("b", "x", weights=-kernel, bias=1000, pads=(1, 1, 1, 1), strides=(1, 1)),
        Sum.make("y", ("a", "b")),
        source=source,
    )
    low, high = source.box_low.reshape(-1), source.box_high.reshape(-1)
    assert output_bounds(graph, low, high)[1].max() > 2000
    known = graph_crown(graph, low, high, time.monotonic() + 60)
    assert [known.output(k)[:2] for k in range(9)] == [(2000, 2000)] * 9


def test_a_pool_is_at_least_each_of_its_elements() -> None:
    """max(x0, x1) - x0 is 0 … 16, where intervals give -16 … 16; x0 is the first with the largest bound."""
    graph = _graph(
        Select.make("s", "x", indices=[0, 1], shape=(1, 2)),
        MaxPool.make("m", "s", kernel=(1, 2), strides=(1, 1)),
        Select.make("f", "m", indices=[0], shape=(1,)),
        Dense.make("n", "x", weights=[[-1, 0]]),
        Sum.make("y", ("f", "n")),
        source=X,
    )
    least, most = _bounds(graph)
    assert (least, most) == (0, 16)


def test_windows_are_what_the_reference_takes_the_largest_of() -> None:
    node = MaxPool.make("m", "x", kernel=(3, 2), strides=(2, 1), pads=(1, 0, 1, 1))
    x = np.random.default_rng(0).permutation(60).reshape(3, 4, 5)
    at = windows(node, x.shape)
    largest = np.where(at < 0, -1, x.reshape(-1)[at]).max(axis=1)
    assert np.array_equal(largest, compute(node, x[None])[0].reshape(-1))


def test_a_product_lies_between_its_planes() -> None:
    """a·b - 16·b for both in 0 … 16 is at most 0 by the plane 16·b, which lies as close as any in the middle."""
    source = Input.make("x", (2,), box_low=0, box_high=16)
    graph = _graph(
        Select.make("a", "x", indices=[0], shape=(1,)),
        Select.make("b", "x", indices=[1], shape=(1,)),
        Product.make("p", "a", "b"),
        Dense.make("n", "b", weights=[[-16]]),
        Sum.make("y", ("p", "n")),
        source=source,
    )
    assert _bounds(graph) == (-256, 0)


def test_tables_and_slopes_are_followed() -> None:
    """A table on a line and a leaky slope less what they are of: within a count or two of 0."""
    table = _graph(
        Table.make("t", "x", values=3 * np.arange(-8, 9), first=-8),
        Dense.make("n", "x", weights=[[-3, 0], [0, -3]]),
        Sum.make("y", ("t", "n")),
        source=X,
    )
    assert _bounds(table) == (0, 0)
    source = Input.make("x", (1,), box_low=-1000, box_high=-1)
    leaky = _graph(
        Leaky.make("l", "x", multiplier=1, shift=2),
        Sum.make("q", ("l",), up_shifts=(2,)),
        Dense.make("n", "x", weights=[[-1]]),
        Sum.make("y", ("q", "n")),
        source=source,
    )
    least, most = _bounds(leaky)
    assert -8 <= least <= -1
    assert 2 <= most <= 8


def test_the_class_of_a_network_has_intervals_only() -> None:
    graph = _graph(ArgMax("y", "x"), source=X)
    assert _bounds(graph) == (0, 1)


def _picture() -> GraphModel:
    rng = np.random.default_rng(5)
    source = Input.make("x", (1, 8, 8), box_low=-127, box_high=127)
    return GraphModel(
        _graph(
            Conv.make("c", "x", weights=rng.integers(-40, 41, (4, 1, 3, 3)), shift=6, low=0, pads=(1, 1, 1, 1)),
            MaxPool.make("m", "c", kernel=(2, 2), strides=(2, 2)),
            Select.make("f", "m", indices=np.arange(64), shape=(64,)),
            Dense.make("h", "f", weights=rng.integers(-40, 41, (12, 64)), shift=8, low=0),
            Dense.make("y", "h", weights=rng.integers(-40, 41, (2, 12)), shift=5),
            source=source,
        )
    )


def test_a_property_of_a_convolution_network_is_proven_where_intervals_are_too_wide() -> None:
    model = _picture()
    centre = np.random.default_rng(2).integers(-100, 101, 64)
    low, high = centre - 2, centre + 2
    lows, highs = output_bounds(model.graph, low, high)
    rows = _rows(low, high, 3, 200)
    outputs = model.run(rows)[:, 0]
    middle = int(highs[0] + outputs.max()) // 2
    goal = Between(model, low, high, 0, int(lows[0]), middle)
    decision = decide_between(goal, time.monotonic() + 30)
    assert (decision.verdict, decision.method) == ("proven", "crown")
    assert outputs.max() <= middle < highs[0]
    broken = Between(model, low, high, 0, int(lows[0]), int(outputs.min()))
    assert decide_between(broken, time.monotonic() + 30).verdict == "refuted"


def test_an_undecided_property_of_a_graph_says_what_was_reached() -> None:
    model = _picture()
    low, high = model.box_low, model.box_high
    outputs = model.run(_rows(low, high, 3, 400))[:, 0]
    most = int(outputs.max()) * 3
    goal = Between(model, low, high, 0, -(1 << 20), most)
    decision = decide_between(goal, time.monotonic() + 0.5)
    assert decision.verdict == "undecided"
    assert decision.excess is not None
    assert outputs.max() <= most + decision.excess


@pytest.mark.parametrize("seed", range(4))
def test_halving_alone_agrees_with_trying_everything(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(seed + 20)
    model = GraphModel(graph)
    low = model.box_low
    high = low.copy()
    high[:2] = np.minimum(low[:2] + 9, model.box_high[:2])
    axes = [range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)]
    points = np.array(np.meshgrid(*axes, indexing="ij")).reshape(low.size, -1).T.copy()
    largest = int(model.run(points).reshape(len(points), -1)[:, 0].max())
    monkeypatch.setattr("sitsedge.compiler.bounds.graphs.points_of", lambda *_: None)
    monkeypatch.setattr("sitsedge.compiler.bounds.graphs._search", lambda *_: None)
    for most, verdict in ((largest, "proven"), (largest - 1, "refuted")):
        goal = Between(model, low, high, 0, -(1 << 40), most)
        assert decide_between(goal, time.monotonic() + 60).verdict == verdict
