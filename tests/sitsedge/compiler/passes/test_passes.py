"""The passes: every one keeps its invariant, random networks stay what ONNX Runtime computes, known counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.graph.float_graph import (
    Affine,
    Clamp,
    Conv,
    Dense,
    FloatGraph,
    Input,
    MaxPool,
    Node,
    Select,
    Sum,
)
from sitsedge.compiler.graph.float_run import run, run_all
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import PassError, runner, simplify
from sitsedge.compiler.passes.clean import dead_code, no_ops, shape_chains
from tests.sitsedge.compiler.importer.models import mobilenet_v2, onnx_outputs, resnet18
from tests.sitsedge.compiler.importer.operator_cases import CASES
from tests.sitsedge.compiler.importer.random_nets import random_net


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_networks_equal_onnx_runtime_before_and_after(seed: int) -> None:
    data = random_net(seed)
    graph = import_graph_bytes(data).graph
    x = np.random.default_rng(seed).normal(size=(4, *graph.input.shape)).astype(np.float32).astype(np.float64)
    expected = onnx_outputs(data, x)
    scale = 1.0 + float(np.abs(expected).max())
    np.testing.assert_allclose(run(graph, x), expected, rtol=0, atol=1e-4 * scale)
    simplified, counts = simplify(graph, seed=seed)
    np.testing.assert_allclose(run(simplified, x), expected, rtol=0, atol=1e-4 * scale)
    assert [c.before for c in counts[1:]] == [c.after for c in counts[:-1]]
    again, nothing = simplify(simplified, seed=seed)
    assert not nothing
    assert again is simplified


@pytest.mark.parametrize("step", runner.PASSES, ids=lambda step: step.name)
@pytest.mark.parametrize("seed", range(12))
def test_pass_alone_keeps_its_invariant(step: runner.Pass, seed: int) -> None:
    graph = import_graph_bytes(random_net(seed)).graph
    x = np.random.default_rng(seed).normal(size=(8, *graph.input.shape)) * 3
    before, after = run(graph, x), run(step.apply(graph), x)
    if step.tolerance == runner.EXACT:
        assert np.array_equal(before, after)
    else:
        np.testing.assert_allclose(after, before, rtol=0, atol=step.tolerance * (1 + np.abs(before).max()))


@pytest.mark.parametrize(
    ("make", "nodes", "folded", "fused"),
    [(resnet18, 69, 49, 32), (mobilenet_v2, 152, 100, 65)],
    ids=["resnet18", "mobilenet-v2"],
)
def test_known_networks(make: Any, nodes: int, folded: int, fused: int) -> None:
    data = make(32, classes=10)
    imported = import_graph_bytes(data)
    graph, counts = simplify(imported.graph)
    assert dict(imported.counts)["file"] == nodes
    assert [(c.name, c.after) for c in counts] == [("batch-norm folding", folded), ("requantise fusion", fused)]
    assert {type(node) for node in graph.nodes} <= {Input, Conv, Dense, Sum, Select, MaxPool}
    x = np.random.default_rng(5).normal(size=(1, 3, 32, 32)).astype(np.float32).astype(np.float64)
    expected = onnx_outputs(data, x)
    np.testing.assert_allclose(run(graph, x), expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_a_pass_that_breaks_its_invariant_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(graph: FloatGraph) -> FloatGraph:
        last = graph.nodes[-1]
        assert isinstance(last, Dense)
        return replace(graph, nodes=(*graph.nodes[:-1], replace(last, bias=last.bias + 1e-6)))

    for tolerance in (runner.EXACT, runner.ROUNDING):
        monkeypatch.setattr(runner, "PASSES", (runner.Pass("wrong", wrong, tolerance),))
        with pytest.raises(PassError) as refused:
            simplify(import_graph_bytes(CASES["gemm"]).graph)
        assert refused.value.code == "pass-invariant"
        assert "wrong" in refused.value.found


def graph_of(*nodes: Node, shape: tuple[int, ...] = (4,)) -> FloatGraph:
    return FloatGraph((Input(name="x", inputs=(), shape=shape), *nodes), nodes[-1].name)


def gather(name: str, source: str, *indices: int) -> Select:
    return Select(name=name, inputs=(source,), shape=(len(indices),), indices=np.array(indices))


def test_dead_code_disappears() -> None:
    graph = graph_of(Clamp(name="dead", inputs=("x",), shape=(4,), low=0.0), gather("y", "x", 3, 1))
    assert [node.name for node in dead_code(graph).nodes] == ["x", "y"]
    assert dead_code(dead_code(graph)).n_nodes == 1


def test_nodes_that_change_nothing_disappear() -> None:
    identity = Affine(name="a", inputs=("x",), shape=(4,), factor=np.ones(4), offset=np.zeros(4))
    limits = Clamp(name="b", inputs=("a",), shape=(4,))
    made = no_ops(graph_of(identity, limits, gather("c", "b", 0, 1, 2, 3), gather("y", "c", 3, 2)))
    assert [node.name for node in made.nodes] == ["x", "y"]
    assert made.nodes[1].inputs == ("x",)


def test_an_output_that_changes_nothing_becomes_what_it_reads() -> None:
    made = no_ops(graph_of(gather("a", "x", 1), Clamp(name="b", inputs=("a",), shape=(1,))))
    assert made.output == "a"


def test_gathers_join_into_one() -> None:
    made = shape_chains(graph_of(gather("a", "x", 3, 1, 0), gather("b", "a", 2, 0)))
    (only,) = made.nodes[1:]
    assert isinstance(only, Select)
    assert only.indices.tolist() == [0, 3]


def test_every_value_can_be_seen() -> None:
    graph, _ = simplify(import_graph_bytes(CASES["silu"]).graph)
    x = np.ones((2, 6))
    values = run_all(graph, x)
    assert set(values) == {node.name for node in graph.nodes}
    assert np.array_equal(values[graph.output], run(graph, x))
