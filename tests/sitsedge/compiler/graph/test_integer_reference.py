"""Every node of the integer graph against its formula, written out element by element in Python's own integers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.errors import InputRangeError
from sitsedge.compiler.graph.chain import graph_of, model_of
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.reference import products, run, values
from tests.sitsedge.compiler.nets import interesting_rows as chain_rows
from tests.sitsedge.compiler.nets import models
from tests.support.random_graphs import graphs, interesting_rows


def requantised(acc: int, shift: int, low: int, high: int) -> int:
    """Evidence rules §2; Python's >> is the arithmetic shift."""
    q = (acc + (1 << (shift - 1)) >> shift) if shift else acc
    return min(max(q, low), high)


def at(array: Any, *index: int) -> int:
    return int(array[index])


def positions(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, shape))


def seen(x: Any, channel: int, y: int, column: int) -> int | None:
    """Element of a value with positions, None in the padding."""
    planes = x if x.ndim == 3 else x[:, None, :]
    inside = 0 <= y < planes.shape[1] and 0 <= column < planes.shape[2]
    return at(planes, channel, y, column) if inside else None


def conv_element(node: Conv, x: Any, channel: int, y: int, column: int) -> int:
    _, per_group, kh, kw = node.weights.shape
    group = channel // (node.weights.shape[0] // node.groups)
    acc = at(node.bias, channel)
    for j, ky, kx in positions((per_group, kh, kw)):
        source = group * per_group + j
        element = seen(
            x,
            source,
            y * node.strides[0] - node.pads[0] + ky * node.dilations[0],
            column * node.strides[1] - node.pads[1] + kx * node.dilations[1],
        )
        acc += at(node.weights, channel, j, ky, kx) * ((element or 0) << at(node.in_shift, source))
    return requantised(acc, at(node.shift, channel), at(node.low, channel), at(node.high, channel))


def pool_element(node: MaxPool, x: Any, channel: int, y: int, column: int) -> int:
    window = [
        seen(x, channel, y * node.strides[0] - node.pads[0] + ky, column * node.strides[1] - node.pads[1] + kx)
        for ky, kx in positions(node.kernel)
    ]
    return max(element for element in window if element is not None)


def spatial(shape: tuple[int, ...], index: tuple[int, ...]) -> tuple[int, int, int]:
    return (index[0], 0, index[1]) if len(shape) == 2 else (index[0], index[1], index[2])


def element(node: Node, sources: list[Any], shape: tuple[int, ...], index: tuple[int, ...]) -> int:
    """One element of a node's value."""
    x = sources[0]
    match node:
        case Dense():
            i = index[0]
            acc = at(node.bias, i) + sum(
                at(node.weights, i, j) * (at(x, j) << at(node.in_shift, j)) for j in range(x.size)
            )
            return requantised(acc, at(node.shift, i), at(node.low, i), at(node.high, i))
        case Conv():
            return conv_element(node, x, *spatial(shape, index))
        case MaxPool():
            return pool_element(node, x, *spatial(shape, index))
        case Sum():
            acc = sum(at(s, *index) << up for s, up in zip(sources, node.up_shifts, strict=True))
            return requantised(acc, node.shift, node.low, node.high)
        case Product():
            b = sources[1]
            factor = at(b, *index) if b.shape == x.shape else at(b, index[0], *(0,) * (b.ndim - 1))
            return requantised(at(x, *index) * factor, node.shift, node.low, node.high)
        case Leaky():
            value = at(x, *index)
            return value if value >= 0 else requantised(value * node.multiplier, node.shift, -(1 << 31), 1 << 31)
        case Table():
            return at(node.values, at(x, *index) - node.first)
        case Select():
            return int(x.reshape(-1)[node.indices[np.ravel_multi_index(index, shape)]])
        case Concat():
            along = index[node.axis]
            for source in sources:
                if along < source.shape[node.axis]:
                    return at(source, *index[: node.axis], along, *index[node.axis + 1 :])
                along -= source.shape[node.axis]
            raise AssertionError("an index past the last source")
        case ArgMax():
            listed = x.tolist()
            return int(listed.index(max(listed)))


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(0, 2**16))
def test_every_node_is_its_formula(graph: IntegerGraph, seed: int) -> None:
    rows = interesting_rows(graph, seed, 2)
    found = values(graph, rows)
    row = seed % len(rows)
    for node in graph.nodes:
        shape = graph.shapes[node.name]
        sources = [found[name][row] for name in node.sources]
        assert found[node.name].shape == (len(rows), *shape)
        for index in positions(shape):
            assert at(found[node.name][row], *index) == element(node, sources, shape, index), node


@settings(max_examples=40, deadline=None)
@given(graphs, st.integers(0, 2**16))
def test_one_row_is_a_row_of_many(graph: IntegerGraph, seed: int) -> None:
    rows = interesting_rows(graph, seed, 3)
    together = run(graph, rows)
    assert together.shape == (len(rows), graph.n_outputs)
    np.testing.assert_array_equal(together[1], run(graph, rows[1]))


@settings(max_examples=40, deadline=None)
@given(models, st.integers(0, 2**16))
def test_a_chain_means_the_same_as_its_graph(model: Any, seed: int) -> None:
    graph = graph_of(model)
    rows = chain_rows(model, seed)
    np.testing.assert_array_equal(run(graph, rows), model.run(rows))
    back = model_of(graph)
    assert back is not None
    np.testing.assert_array_equal(back.run(rows), model.run(rows))


def test_a_graph_with_another_node_is_no_chain() -> None:
    source = Input.make("x", (2,), box_low=-5, box_high=5)
    dense = Dense.make("a", "x", weights=[[1, 2]])
    assert model_of(IntegerGraph.make(source, (dense, Sum.make("b", ("a", "a"))))) is None


def test_products_beyond_float64_stay_exact() -> None:
    a = np.array([[(1 << 40) + 1, 3]], dtype=np.int64)
    b = np.array([[(1 << 20) + 1], [7]], dtype=np.int64)
    assert int(products(a, b)[0, 0]) == ((1 << 40) + 1) * ((1 << 20) + 1) + 21


@pytest.mark.parametrize("x", [[0, 6], [-6, 0], [[0, 0], [0, 6]]])
def test_inputs_outside_the_box_are_refused(x: list[Any]) -> None:
    graph = IntegerGraph.make(Input.make("x", (2, 1), box_low=-5, box_high=5), (Sum.make("a", ("x",)),))
    with pytest.raises(InputRangeError) as refused:
        run(graph, np.array(x))
    assert refused.value.code == "input-range"


@pytest.mark.parametrize("x", [[0.0, 1.0], [0, 1, 2], [[[0, 1]]]])
def test_inputs_of_another_shape_or_type_are_refused(x: list[Any]) -> None:
    graph = IntegerGraph.make(Input.make("x", (2,), box_low=-5, box_high=5), (Sum.make("a", ("x",)),))
    with pytest.raises(InputRangeError) as refused:
        run(graph, np.array(x))
    assert refused.value.code == "input-shape"
