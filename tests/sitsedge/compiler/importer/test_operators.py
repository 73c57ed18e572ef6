"""Every operator, alone: the imported graph, and the graph after all passes, compute what ONNX Runtime computes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from sitsedge.compiler.graph.float_graph import FUNCTIONS, Function
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.importer.registry import ML_OPERATORS, OPERATORS
from sitsedge.compiler.passes import simplify
from tests.sitsedge.compiler.importer.models import checked, onnx_outputs
from tests.sitsedge.compiler.importer.operator_cases import CASES

ROWS = 5


def rows(shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(11).normal(size=(ROWS, *shape)) * 2.0
    return x.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("name", CASES)
def test_operator_equals_onnx_runtime(name: str) -> None:
    data = checked(CASES[name])
    imported = import_graph_bytes(data).graph
    x = rows(imported.input.shape)
    expected = onnx_outputs(data, x)
    np.testing.assert_allclose(run(imported, x).reshape(ROWS, -1), expected, rtol=2e-5, atol=2e-5)
    simplified, _ = simplify(imported)
    np.testing.assert_allclose(run(simplified, x).reshape(ROWS, -1), expected, rtol=2e-5, atol=2e-5)


def test_every_operator_has_a_case() -> None:
    used = {node.op_type for data in CASES.values() for node in onnx.load_from_string(data).graph.node}
    quantised = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"}
    assert (set(OPERATORS) | set(ML_OPERATORS)) - quantised <= used


def test_every_function_is_reached() -> None:
    graphs = [simplify(import_graph_bytes(data).graph)[0] for data in CASES.values()]
    assert {node.function for graph in graphs for node in graph.nodes if isinstance(node, Function)} == set(FUNCTIONS)


@pytest.mark.parametrize(
    "name",
    [
        "hard-swish-decomposed",
        "hard-swish-gate-scaled",
        "hard-swish-by-hard-sigmoid",
        "silu",
        "gelu-decomposed",
        "gelu-gate-halved",
    ],
)
def test_decomposed_activations_become_one_function(name: str) -> None:
    graph, _ = simplify(import_graph_bytes(CASES[name]).graph)
    assert sum(isinstance(node, Function) for node in graph.nodes) == 1
    assert "Product" not in dict(graph.counts())


def test_channels_last_model_leaves_no_affine_map() -> None:
    graph, _ = simplify(import_graph_bytes(CASES["keras-channels-last"]).graph)
    assert {"Affine", "Clamp", "Product"}.isdisjoint(dict(graph.counts()))
