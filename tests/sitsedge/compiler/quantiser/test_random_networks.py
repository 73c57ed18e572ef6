"""Random ONNX networks over all operators: quantised, near their float selves, the same in every artefact."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from attest.proof.circuit import Curve, decode
from attest.proof.witness import witness
from sitsedge.compiler.backends.circuit.emit import emit_circuit
from sitsedge.compiler.backends.onnx import emit_onnx
from sitsedge.compiler.backends.wasm import emit_wasm
from sitsedge.compiler.graph.float_run import run as run_float
from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser import candidates, search
from sitsedge.sandbox import Sandbox
from tests.sitsedge.compiler.importer.random_nets import random_net

ROWS = 60
EDGE = 1000


@pytest.mark.parametrize("seed", [0, 3, 5, 6, 7, 8, 12, 15, 29, 32, 39, 46])
def test_a_random_network_keeps_its_function(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(candidates, "OPEN_BITS", (12,))
    monkeypatch.setattr(candidates, "SATURATED_BITS", (7,))
    monkeypatch.setattr(search, "WIDENINGS_MAX", 0)
    graph, _ = simplify(import_graph_bytes(random_net(seed)).graph, check=False)
    rng = np.random.default_rng(seed)
    n = graph.input.size
    scale = 10.0 ** rng.uniform(-2.7, -2, n)
    counts = np.clip(np.rint(rng.normal(0, 1, (ROWS, n)) / scale), -EDGE, EDGE).astype(np.int64)
    wanted = run_float(graph, (counts * scale).reshape(ROWS, *graph.input.shape)).reshape(ROWS, -1)
    outputs = np.maximum(np.ptp(wanted, axis=0), np.abs(wanted).max() * 1e-3) / 1000
    scales = Scales(scale, outputs, np.full(n, -EDGE), np.full(n, EDGE))
    found = search.quantise_graph(graph, scales, counts, counts * scale, goal=Goal(0.001, 0.01))
    prove(found.graph)
    error = (run(found.graph, counts) * outputs - wanted) / np.ptp(wanted)
    assert np.sqrt((error**2).mean(axis=0)).max() < 0.02
    artefacts_agree(found.graph, counts)


def artefacts_agree(graph: IntegerGraph, counts: np.ndarray) -> None:
    """ONNX Runtime and both variants of the module on every row, the circuit's witness on a few."""
    expected = run(graph, counts)
    session = onnxruntime.InferenceSession(emit_onnx(graph), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, {"x": counts.astype(np.int16)})[0], expected)
    for relaxed in (False, True):
        with Sandbox(emit_wasm(graph, relaxed=relaxed)) as sandbox:
            np.testing.assert_array_equal([sandbox.infer(row) for row in counts.tolist()], expected)
    circuit = decode(emit_circuit(graph).data)
    for row in (0, 1):
        wires = witness(circuit, counts[row].tolist(), bytes(31))
        first = 1 + graph.n_inputs
        assert wires[first : first + graph.n_outputs] == [int(y) % Curve.BN254.parameters.r for y in expected[row]]
