"""Hostile and unsupported files: a typed refusal that names the culprit, in bounded memory and without other files."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,  # noqa: A004
    RuntimeException,
)

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import import_graph, import_graph_bytes
from sitsedge.compiler.importer.constants import RULES
from sitsedge.compiler.importer.limits import FILE_BYTES_MAX
from sitsedge.compiler.importer.registry import OPERATORS
from sitsedge.compiler.passes import PassError, simplify
from tests.sitsedge.compiler.importer.hostile import CORPUS, external, plain
from tests.sitsedge.compiler.importer.models import onnx_outputs
from tests.sitsedge.compiler.importer.operator_cases import CASES

MEMORY_MAX = 200 << 20
"""Bytes of Python and numpy objects one refusal may cost; the corpus claims up to exabytes."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with weights, a link out of it and a pipe nobody writes to; a secret outside."""
    (tmp_path / "secret").write_bytes(bytes(24))
    inside = tmp_path / "model"
    inside.mkdir()
    (inside / "weights.bin").write_bytes(np.arange(6, dtype="<f4").tobytes())
    (inside / "link.bin").symlink_to(tmp_path / "secret")
    (inside / "folder").mkdir()
    (inside / "linked").symlink_to(tmp_path)
    os.mkfifo(inside / "pipe.bin")
    return inside


@pytest.mark.parametrize("rule", CORPUS)
def test_refuses(rule: str, folder: Path) -> None:
    hostile = CORPUS[rule]
    # Tracing every allocation makes a walk over half a million fields take ten seconds.
    traced = not rule.startswith("million-")
    if traced:
        tracemalloc.start()
    try:
        with pytest.raises(OnnxImportError) as refused:
            simplify(import_graph_bytes(hostile.data, folder=folder).graph)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    error = refused.value
    assert (error.code, error.operator) == (hostile.code, hostile.operator)
    assert bool(error.node) == bool(hostile.operator)
    assert error.found
    assert error.expected
    assert len(str(error)) < 2000
    assert peak < MEMORY_MAX


def test_the_whole_corpus_is_refused_under_hard_limits_of_memory_and_time(folder: Path) -> None:
    """Tracing sees Python and numpy; the system's limits also hold for protobuf, and for time."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sitsedge.compiler.importer.confined", folder],
        capture_output=True,
        check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert json.loads(done.stdout) == {rule: hostile.code for rule, hostile in CORPUS.items()}


def test_external_weights_beside_the_model_are_read(folder: Path) -> None:
    net, out = plain()
    proto = net.model(out, ("N", 2))
    tensor = external("weights.bin")
    tensor.name = proto.graph.initializer[0].name
    proto.graph.initializer[0].CopyFrom(tensor)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    graph = import_graph(path).graph
    assert run(graph, np.ones((1, 3))).tolist() == [[0.0 + 2 + 4, 1.0 + 3 + 5]]
    with pytest.raises(OnnxImportError) as refused:
        import_graph_bytes(path.read_bytes())
    assert refused.value.code == "tensor-external"


def test_large_and_missing_files_are_refused_before_reading(tmp_path: Path) -> None:
    large = tmp_path / "large.onnx"
    with large.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(OnnxImportError) as refused:
        import_graph(large)
    assert refused.value.code == "oversize"
    with pytest.raises(OnnxImportError) as missing:
        import_graph(tmp_path / "absent.onnx")
    assert missing.value.code == "onnx-unreadable"


@pytest.mark.parametrize("name", ["pipe.bin", "folder"])
def test_what_is_no_file_is_refused_before_it_is_opened(name: str, folder: Path) -> None:
    with pytest.raises(OnnxImportError) as refused:
        import_graph(folder / name)
    assert refused.value.code == "onnx-unreadable"


def test_refusal_says_what_to_change() -> None:
    with pytest.raises(OnnxImportError) as refused:
        import_graph_bytes(CORPUS["unsupported-lstm"].data)
    assert (refused.value.node, refused.value.operator) == ("lstm_0", "LSTM")
    assert "window" in refused.value.hint


def test_declared_shapes_may_be_opened_by_the_caller() -> None:
    data = CORPUS["dynamic-features"].data
    assert import_graph_bytes(data, input_shape=(1, 3)).graph.input.shape == (3,)
    with pytest.raises(OnnxImportError) as refused:
        import_graph_bytes(CASES["relu"], input_shape=(1, 7))
    assert refused.value.code == "graph-input"


def test_one_of_several_outputs_is_chosen_by_name() -> None:
    proto = onnx.load_from_string(CORPUS["two-outputs"].data)
    del proto.graph.output[1]
    proto.graph.node.append(onnx.helper.make_node("Relu", ["x"], ["second"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("second", onnx.TensorProto.FLOAT, ["N", 3]))
    imported = import_graph_bytes(proto.SerializeToString(), output="second")
    assert imported.graph.output_shape == (3,)
    assert imported.graph.notes == ("outputs left out: t0",)
    assert dict(imported.counts) == {"file": 2, "dead code": 1, "constant folding": 1}
    with pytest.raises(OnnxImportError) as refused:
        import_graph_bytes(proto.SerializeToString(), output="third")
    assert refused.value.code == "graph-output"


def outcome(data: bytes) -> str:
    """``imported``, or the code of the typed refusal; anything else propagates."""
    try:
        graph, _ = simplify(import_graph_bytes(data).graph)
    except (OnnxImportError, PassError) as refused:
        return refused.code
    assert graph.nodes
    return "imported"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_files_give_a_graph_or_a_typed_refusal(data: st.DataObject) -> None:
    original = bytearray(CASES[data.draw(st.sampled_from(sorted(CASES)))])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(original) - 1))
        original[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(original)))
    damaged = bytes(original[:cut]) if data.draw(st.booleans()) else bytes(original)
    assert outcome(damaged)


NUMBERS = (-(1 << 62), -(1 << 31), -7, -2, -1, 0, 1, 2, 3, 5, 100, 1025, 1 << 20, 1 << 31, 1 << 62)
REALS = (float("-inf"), -1e38, -1.0, -0.0, 1e-45, 0.5, 1e38, float("inf"), float("nan"))

FLOAT32_SAFE = 1e30
"""Above it ONNX Runtime's float32 overflows where our float64 does not."""

RAW = {onnx.TensorProto.FLOAT: "<f4", onnx.TensorProto.INT64: "<i8"}


def twist(proto: Any, draw: random.Random) -> None:
    """One change that keeps the file a valid protocol buffer: a number, a name, an operator, a node or a tensor."""
    graph = proto.graph
    node = draw.choice(graph.node)
    names = [name for n in graph.node for name in (*n.input, *n.output)] + ["", "nowhere"]
    match draw.randrange(9):
        case 0 if node.attribute:
            attribute = draw.choice(node.attribute)
            if attribute.ints:
                attribute.ints[draw.randrange(len(attribute.ints))] = draw.choice(NUMBERS)
            else:
                attribute.i, attribute.f = draw.choice(NUMBERS), draw.choice(REALS)
        case 1 if node.attribute:
            draw.choice(node.attribute).name = draw.choice(["axis", "pads", "strides", "group", "perm", "axes"])
        case 2 if node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice(names)
        case 3:
            node.op_type = draw.choice(sorted(set(OPERATORS) | set(RULES)))
        case 4 if graph.initializer:
            tensor = draw.choice(graph.initializer)
            if tensor.raw_data and tensor.data_type in RAW:
                values = np.frombuffer(tensor.raw_data, RAW[tensor.data_type]).copy()
                values[draw.randrange(values.size)] = draw.choice(REALS if values.dtype.kind == "f" else NUMBERS)
                tensor.raw_data = values.tobytes()
        case 5 if graph.initializer:
            tensor = draw.choice(graph.initializer)
            tensor.dims[:] = draw.choices((*NUMBERS, *tensor.dims), k=draw.randrange(5))
        case 6:
            dims = draw.choice(graph.input).type.tensor_type.shape.dim
            dims[draw.randrange(len(dims))].dim_value = draw.choice(NUMBERS)
        case 7:
            graph.node.insert(draw.randrange(len(graph.node) + 1), draw.choice(graph.node))
        case 8:
            del graph.node[draw.randrange(len(graph.node))]


def twisted(seed: int) -> bytes:
    draw = random.Random(seed)
    proto = onnx.load_from_string(CASES[draw.choice(sorted(CASES))])
    for _ in range(draw.randint(1, 3)):
        if proto.graph.node:
            twist(proto, draw)
    return bytes(proto.SerializeToString())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_twisted_models_give_a_graph_or_a_typed_refusal(seed: int) -> None:
    assert outcome(twisted(seed))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_twisted_models_that_are_taken_mean_what_onnx_runtime_says(seed: int) -> None:
    data = twisted(seed)
    if outcome(data) != "imported":
        return
    graph, _ = simplify(import_graph_bytes(data).graph)
    x = np.random.default_rng(1).normal(size=(2, *graph.input.shape)).astype(np.float32).astype(np.float64)
    try:
        expected = onnx_outputs(data, x)
    except (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException):
        # ONNX Runtime is stricter in places and lacks kernels in others.
        return
    largest = np.abs(expected).max()
    if largest < FLOAT32_SAFE:
        np.testing.assert_allclose(run(graph, x), expected, rtol=1e-3, atol=1e-4 * (1 + largest))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_give_a_graph_or_a_typed_refusal(data: bytes) -> None:
    assert outcome(data)
