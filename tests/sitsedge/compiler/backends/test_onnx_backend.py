"""The ONNX back end on ONNX Runtime equals the reference, bit for bit."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.backends.onnx import emit_onnx
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Leaky, MaxPool, Product, Sum, Table
from sitsedge.compiler.graph.integer_values import Shape
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.graph.reference import run
from tests.support.random_graphs import graphs, interesting_rows


def run_onnx(graph: IntegerGraph, rows: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(emit_onnx(graph), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": rows.astype(np.int16)})[0]


def graph_of(shape: Shape, *nodes: Node, low: int = -128, high: int = 127) -> IntegerGraph:
    graph = IntegerGraph.make(Input.make("x", shape, box_low=low, box_high=high), nodes)
    prove(graph)
    return graph


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(0, 2**32 - 1))
def test_runtime_equals_the_reference(graph: IntegerGraph, seed: int) -> None:
    rows = interesting_rows(graph, seed, 20)
    found = run_onnx(graph, rows)
    assert found.dtype == np.int32
    assert found.tolist() == run(graph, rows).tolist()


CASES = {
    "requantise": graph_of((1,), Dense.make("d", "x", weights=[[1], [-3], [5]], shift=[1, 2, 6], bias=[0, 1, -9])),
    "clamp": graph_of((1,), Dense.make("d", "x", weights=[[1], [1]], shift=[2, 0], low=[-3, -100], high=[9, 100])),
    "sum": graph_of((1,), Dense.make("d", "x", weights=[[7]]), Sum.make("s", ("x", "d"), up_shifts=(3, 0), shift=3)),
    "product": graph_of((1,), Dense.make("d", "x", weights=[[7]]), Product.make("p", "x", "d", shift=5, high=900)),
    "square": graph_of((1,), Product.make("p", "x", "x", shift=3)),
    "leaky": graph_of((1,), Leaky.make("l", "x", multiplier=13, shift=7)),
    "steep": graph_of((1,), Leaky.make("l", "x", multiplier=700, shift=7)),
    "table": graph_of((1,), Table.make("t", "x", values=np.arange(300) ** 2 % 211 - 100, first=-140)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_argument_of_one_node(name: str) -> None:
    """All 256 inputs: every boundary of every requantise is among them."""
    rows = np.arange(-128, 128)[:, None]
    assert run_onnx(CASES[name], rows).tolist() == run(CASES[name], rows).tolist()


def test_the_lowest_index_wins_a_tie() -> None:
    graph = graph_of((3,), ArgMax("a", "x"))
    rows = np.array([[5, 5, 5], [1, 7, 7], [2, 1, 2], [-128, -128, -127]])
    assert run_onnx(graph, rows).ravel().tolist() == [0, 1, 0, 2]


def test_padding_never_wins_a_maximum() -> None:
    graph = graph_of((1, 2, 2), MaxPool.make("m", "x", kernel=(2, 2), strides=(1, 1), pads=(1, 1, 1, 1)))
    rows = np.full((1, 4), -128)
    assert run_onnx(graph, rows).ravel().tolist() == [-128] * 9


def test_a_depthwise_convolution_with_strides_padding_and_dilations() -> None:
    conv = Conv.make(
        "c", "x", weights=np.arange(-9, 9).reshape(2, 1, 3, 3),
        strides=(2, 1), pads=(1, 2, 0, 1), dilations=(1, 2), groups=2,
    )  # fmt: skip
    graph = graph_of((2, 6, 7), conv)
    rows = np.random.default_rng(1).integers(-128, 128, (9, graph.n_inputs))
    assert run_onnx(graph, rows).tolist() == run(graph, rows).tolist()


def test_equal_graphs_give_equal_bytes_of_standard_operators() -> None:
    for graph in CASES.values():
        data = emit_onnx(graph)
        assert data == emit_onnx(graph)
        assert {node.domain for node in onnx.load_from_string(data).graph.node} == {""}
