"""Random ONNX networks over all operators: imported, simplified and quantised, near their float selves on all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sitsedge.compiler.graph.float_run import run as run_float
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser import search
from tests.sitsedge.compiler.importer.random_nets import random_net

ROWS = 60
EDGE = 1000


@pytest.mark.parametrize("seed", [0, 3, 5, 6, 7, 8, 12, 15, 29, 32, 39, 46])
def test_a_random_network_keeps_its_function(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(search, "OPEN_BITS", (12,))
    monkeypatch.setattr(search, "SATURATED_BITS", (7,))
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
