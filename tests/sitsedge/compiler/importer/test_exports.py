"""Models as exporters write them: files of scikit-learn's converter (see exports/make.py), and PyTorch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sitsedge.compiler.graph.float_graph import Dense, Softmax
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import import_graph
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.passes import simplify
from tests.sitsedge.compiler.nets import read_chain

EXPORTS = Path(__file__).with_name("exports")
NAMES = sorted(path.stem for path in EXPORTS.glob("*.onnx"))


def chain_of(path: Path) -> FloatNetwork:
    return read_chain(path.read_bytes())


def expected(path: Path, rows: np.ndarray) -> np.ndarray:
    """Values of the numeric output; ZipMap gives a list of dictionaries."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    results = [session.run(None, {session.get_inputs()[0].name: row[None].astype(np.float32)})[-1] for row in rows]
    flat = [list(r[0].values()) if isinstance(r, list) else np.asarray(r).reshape(-1) for r in results]
    return np.asarray(flat, np.float64)


@pytest.mark.parametrize("name", NAMES)
def test_export_equals_onnx_runtime(name: str) -> None:
    path = EXPORTS / f"{name}.onnx"
    graph, _ = simplify(import_graph(path).graph)
    rows = np.random.default_rng(1).normal(size=(20, *graph.input.shape)).astype(np.float32).astype(np.float64)
    wanted = expected(path, rows)
    np.testing.assert_allclose(run(graph, rows), wanted, rtol=0, atol=1e-5 * (1 + np.abs(wanted).max()))


def test_scaler_and_layers_of_scikit_learn_become_dense_layers_only() -> None:
    graph, _ = simplify(import_graph(EXPORTS / "mlp-regressor-relu.onnx").graph)
    assert [type(node) for node in graph.nodes[1:]] == [Dense, Dense, Dense]
    assert chain_of(EXPORTS / "mlp-regressor-relu.onnx").sizes == (5, 8, 4, 2)
    assert chain_of(EXPORTS / "pca-ridge.onnx").sizes == (5, 2)


@pytest.mark.parametrize("name", ["mlp-classifier-3", "mlp-classifier-3-tensor"])
def test_label_of_a_classifier_is_left_out_and_said_so(name: str) -> None:
    imported = import_graph(EXPORTS / f"{name}.onnx")
    assert imported.graph.notes[0].startswith("outputs left out: ")
    assert isinstance(imported.graph.nodes[-1], Softmax)
    counts = dict(imported.counts)
    assert counts["dead code"] < counts["file"]


@pytest.mark.parametrize("name", ["torch-mlp", "torch-mlp-unfolded"])
def test_normalisation_and_batch_norm_of_pytorch_vanish(name: str) -> None:
    network = chain_of(EXPORTS / f"{name}.onnx")
    assert network.sizes == (6, 12, 8, 2)
    assert [layer.activation for layer in network.layers] == ["relu", "clamp", "none"]


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("torch-cnn-2d")])
def test_convolution_network_of_pytorch_keeps_no_affine_map(name: str) -> None:
    graph, _ = simplify(import_graph(EXPORTS / f"{name}.onnx").graph)
    counts = dict(graph.counts())
    assert counts["Conv"] == 8
    assert counts["Function"] == 3
    assert counts["Sum"] == 2
    assert {"Affine", "Clamp", "Product"}.isdisjoint(counts)


def test_files_are_valid_onnx() -> None:
    assert len(NAMES) >= 8
    for name in NAMES:
        onnx.checker.check_model(onnx.load(EXPORTS / f"{name}.onnx"))
