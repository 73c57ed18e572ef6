"""Networks as the pipeline imports them: chains of dense layers folded, one typed refusal per rule on the rest."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from attest.proof.circuit import Curve
from attest.proof.errors import CircuitError
from sitsedge.compiler.artefacts import emit
from sitsedge.compiler.errors import OnnxImportError, QuantiseError
from sitsedge.compiler.graph.float_graph import Dense
from sitsedge.compiler.imported import import_network, import_network_bytes
from sitsedge.compiler.importer.limits import FILE_BYTES_MAX, OPSET_MAX
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser.search import quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from tests.sitsedge.compiler.importer.models import onnx_outputs
from tests.sitsedge.compiler.nets import OnnxChain, random_onnx, read_chain

OPERATORS = ("gemm", "gemm_t", "matmul", "add", "radd", "sub", "rsub", "mul", "div", "relu", "clip", "identity")


def random_chain(seed: int) -> tuple[OnnxChain, int, int]:
    rng = np.random.default_rng(seed)
    first = width = int(rng.integers(1, 6))
    chain = OnnxChain(width, elem=TensorProto.DOUBLE)
    chain.gemm(rng.normal(size=(width, width)), rng.normal(size=width))
    for operator in rng.choice(OPERATORS, size=int(rng.integers(1, 9))):
        row = rng.normal(size=rng.choice([1, width])) + 0.1
        if operator in ("gemm", "gemm_t", "matmul"):
            outputs = int(rng.integers(1, 6))
            weights = rng.normal(size=(width, outputs))
            if operator == "matmul":
                chain.add("MatMul", after=(chain.const(weights),))
            else:
                turned = operator == "gemm_t"
                chain.gemm(
                    weights.T if turned else weights, rng.normal(size=outputs),
                    transB=int(turned), alpha=float(np.float32(rng.normal())), beta=float(np.float32(rng.normal())),
                )  # fmt: skip
            width = outputs
        elif operator in ("radd", "rsub"):
            chain.add(operator[1:].capitalize(), chain.const(row))
        elif operator in ("add", "sub", "mul", "div"):
            chain.add(operator.capitalize(), after=(chain.const(row),))
        elif operator == "clip":
            low = float(rng.normal())
            chain.add("Clip", after=(chain.const(low), chain.const(low + abs(float(rng.normal())) + 0.1)))
        else:
            chain.add(operator.capitalize())
    return chain, first, width


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_folded_network_equals_onnx_runtime(seed: int) -> None:
    chain, inputs, outputs = random_chain(seed)
    data = chain.bytes(outputs)
    network = read_chain(data)
    x = np.random.default_rng(seed).normal(size=(20, inputs))
    options = onnxruntime.SessionOptions()
    # The optimiser of ONNX Runtime 1.32 fails to load a float64 Relu followed by Clip.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(network.run(x), expected, rtol=1e-9, atol=1e-9)
    hidden = network.layers[:-1]
    assert all(layer.activation != "none" for layer in hidden), "affine maps in a row are one layer"


def test_normalisation_vanishes_into_the_first_layer() -> None:
    model = random_onnx(1, (4, 6, 2), mean=[10, 20, 30, 40], deviation=[1, 2, 3, 4])
    network = read_chain(model.SerializeToString())
    assert network.sizes == (4, 6, 2)
    assert [layer.activation for layer in network.layers] == ["relu", "none"]
    imported = import_network_bytes(model.SerializeToString(), n_outputs=2)
    assert dict(imported.node_counts) == {"Div": 1, "Gemm": 2, "Relu": 1, "Sub": 1}
    assert imported.sizes == (4, 6, 2)


def plain() -> OnnxChain:
    return OnnxChain(3).gemm(np.ones((3, 2)), [0, 0])


def with_graph(change: Callable[[Any], None]) -> bytes:
    model = plain().model(2)
    change(model)
    return bytes(model.SerializeToString())


def set_dims(*dims: object) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, list(dims)))

    return change


def set_tensor(index: int, tensor: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        tensor.name = model.graph.initializer[index].name
        model.graph.initializer[index].CopyFrom(tensor)

    return change


def external(model: Any) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"


def second_input(model: Any) -> None:
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 3]))


def second_output(model: Any) -> None:
    model.graph.output.append(model.graph.output[0])


def branch() -> bytes:
    chain = plain()
    return chain.add("Add", after=(chain.current,)).bytes(2)


def skip_connection() -> bytes:
    chain = OnnxChain(3).gemm(np.ones((3, 3)), np.zeros(3))
    return chain.add("Add", after=("x",)).bytes(3)


def huge_declared_tensor() -> Any:
    tensor = numpy_helper.from_array(np.ones((3, 2), np.float32))
    tensor.dims[:] = [1 << 40, 1 << 20]
    return tensor


def short_tensor() -> Any:
    tensor = numpy_helper.from_array(np.ones((3, 2), np.float32))
    tensor.raw_data = struct.pack("<5f", *range(5))
    return tensor


def ragged_tensor() -> Any:
    tensor = numpy_helper.from_array(np.ones((3, 2), np.float32))
    tensor.raw_data = tensor.raw_data + b"\0"
    return tensor


def half_tensor() -> Any:
    return numpy_helper.from_array(np.ones((3, 2), np.float16))


def nan_tensor() -> Any:
    return numpy_helper.from_array(np.full((3, 2), np.nan, np.float32))


def unknown_function(model: Any) -> None:
    model.functions.add().name = "f"


def sparse(model: Any) -> None:
    model.graph.sparse_initializer.add()


def many_nodes(model: Any) -> None:
    node = helper.make_node("Identity", ["x"], ["q"])
    model.graph.node.extend([node] * 5000)


def duplicate_name(model: Any) -> None:
    model.graph.initializer[1].name = model.graph.initializer[0].name


NEGATIVE: dict[str, tuple[bytes, str]] = {
    "not-protobuf": (b"\xff\xff\xff\xffnot an onnx file", "onnx-syntax"),
    "empty": (b"", "onnx-syntax"),
    "opset-too-old": (plain().bytes(2, opset=8), "opset"),
    "opset-too-new": (plain().bytes(2, opset=OPSET_MAX + 1), "opset"),
    "functions": (with_graph(unknown_function), "onnx-feature"),
    "sparse-weights": (with_graph(sparse), "onnx-feature"),
    "too-many-nodes": (with_graph(many_nodes), "oversize"),
    "duplicate-name": (with_graph(duplicate_name), "graph-name"),
    "two-inputs": (with_graph(second_input), "graph-input"),
    "integer-input": (
        with_graph(lambda m: m.graph.input[0].CopyFrom(
            helper.make_tensor_value_info("x", TensorProto.INT32, ["N", 3]))), "graph-input"),
    "two-outputs": (with_graph(second_output), "graph-output"),
    "dynamic-features": (with_graph(set_dims("N", "features")), "dynamic-shape"),
    "fixed-batch": (with_graph(set_dims(7, 3)), "dynamic-shape"),
    "rank-three": (with_graph(set_dims(1, 1, 3)), "node-shape"),
    "external-data": (with_graph(external), "tensor-external"),
    "huge-declared-tensor": (with_graph(set_tensor(0, huge_declared_tensor())), "tensor-size"),
    "short-tensor": (with_graph(set_tensor(0, short_tensor())), "tensor-size"),
    "ragged-tensor": (with_graph(set_tensor(0, ragged_tensor())), "tensor-size"),
    "nan-weight": (with_graph(set_tensor(0, nan_tensor())), "tensor-value"),
    "unsupported-operator": (plain().add("Mish").bytes(2), "unsupported-operator"),
    "foreign-domain": (plain().add("Relu", domain="com.example").bytes(2), "unsupported-operator"),
    "unknown-attribute": (plain().add("Relu", alpha=0.1).bytes(2), "attribute"),
    "transposed-data": (OnnxChain(3).gemm(np.ones((3, 2)), [0, 0], transA=1).bytes(2), "attribute"),
    "weights-from-data": (OnnxChain(3).add("MatMul", after=("x",)).bytes(3), "not-constant"),
    "missing-weights": (OnnxChain(3).add("MatMul", after=("nowhere",)).bytes(3), "graph-undefined"),
    "wrong-weights-shape": (OnnxChain(3).gemm(np.ones((4, 2)), [0, 0]).bytes(2), "node-shape"),
    "wrong-bias-shape": (OnnxChain(3).gemm(np.ones((3, 2)), [0, 0, 0]).bytes(2), "node-shape"),
    "constant-first-in-matmul": (
        (lambda c: c.add("MatMul", c.const(np.ones((3, 3)))))(OnnxChain(3)).bytes(3), "node-shape"),
    "divide-by-zero": ((lambda c: c.add("Div", after=(c.const([0.0]),)))(plain()).bytes(2), "node-shape"),
    "divide-by-data": ((lambda c: c.add("Div", c.const([1.0])))(plain()).bytes(2), "not-computed"),
    "clip-upside-down": (
        (lambda c: c.add("Clip", after=(c.const(2.0), c.const(1.0))))(plain()).bytes(2), "attribute"),
    "broadcast-to-higher-rank": (
        (lambda c: c.add("Add", after=(c.const(np.ones((1, 1, 2))),)))(plain()).bytes(2), "graph-output"),
    "no-layer": (OnnxChain(3).add("Identity").bytes(3), "no-layer"),
}  # fmt: skip


NO_CHAIN: dict[str, bytes] = {
    "too-many-inputs": OnnxChain(1025).gemm(np.ones((1025, 1)), [0]).bytes(1),
    "too-wide": OnnxChain(1).gemm(np.ones((1, 1025)), np.zeros(1025)).bytes(1025),
    "too-many-weights": OnnxChain(512).gemm(np.ones((512, 512)), np.zeros(512)).bytes(512),
    "overflow-when-folded": OnnxChain(1, elem=TensorProto.DOUBLE).gemm([[1e300]], [0]).gemm([[1e300]], [0]).bytes(1),
    "sigmoid": plain().add("Sigmoid").bytes(2),
    "branch": branch(),
    "skip-connection": skip_connection(),
}
"""What the search for chains does not take, by the reason; the general path does."""


@pytest.mark.parametrize("rule", NEGATIVE)
def test_refuses(rule: str) -> None:
    data, code = NEGATIVE[rule]
    with pytest.raises(OnnxImportError) as refused:
        import_network_bytes(data, n_outputs=2)
    assert refused.value.code == code
    assert refused.value.found
    assert refused.value.expected


@pytest.mark.parametrize("rule", NO_CHAIN)
def test_what_is_no_chain_is_imported_as_a_graph(rule: str) -> None:
    imported = import_network_bytes(NO_CHAIN[rule], n_outputs=2)
    assert imported.chain is None
    rows = np.random.default_rng(1).normal(size=(6, imported.n_inputs))
    expected = onnx_outputs(NO_CHAIN[rule], rows)
    assert imported.n_outputs == expected.shape[1]
    np.testing.assert_allclose(imported.run(rows), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rule", ["too-many-inputs", "too-wide"])
def test_more_signals_than_a_circuit_has_are_refused_with_the_limit(rule: str) -> None:
    with pytest.raises(CircuitError) as refused:
        emit(quantised(NO_CHAIN[rule]).graph, "m", curve=Curve.BN254)
    assert refused.value.code == "circuit-limit"
    assert "1024" in str(refused.value)


def test_weights_that_overflow_are_refused_by_the_quantiser() -> None:
    with pytest.raises(QuantiseError) as refused:
        quantised(NO_CHAIN["overflow-when-folded"])
    assert refused.value.code == "value-range"


def test_values_that_overflow_are_refused_by_the_quantiser() -> None:
    """No weight is too large, what they make is: twelve layers of 1e10."""
    chain = OnnxChain(1, elem=TensorProto.DOUBLE)
    for _ in range(12):
        chain.gemm([[1e10]], [0]).add("Sigmoid").gemm([[1e10]], [0])
    for _ in range(11):
        chain.gemm([[1e10]], [0]).add("LeakyRelu", alpha=0.5)
    with pytest.raises(QuantiseError) as refused:
        quantised(chain.bytes(1))
    assert refused.value.code == "value-range"


@pytest.mark.parametrize("weight", [1e120, 1e60])
def test_chains_of_weights_that_grow_too_large_are_refused_by_the_quantiser(weight: float) -> None:
    """1e120 at once, or 1e60 · 1e60 in the second layer's sums."""
    chain = OnnxChain(1, elem=TensorProto.DOUBLE).gemm([[weight]], [0]).add("Relu").gemm([[weight]], [0])
    with pytest.raises(QuantiseError) as refused:
        quantised(chain.bytes(1))
    assert refused.value.code == "value-range"


def quantised(data: bytes) -> QuantisedGraph:
    imported = import_network_bytes(data, n_outputs=2)
    n, m = imported.n_inputs, imported.n_outputs
    counts = np.random.default_rng(2).integers(-100, 101, (20, n))
    scales = Scales(np.full(n, 0.01), np.full(m, 0.01), np.full(n, -100), np.full(n, 100))
    return quantise_graph(imported.graph, scales, counts, counts * 0.01, goal=Goal())


def test_refusal_names_node_operator_and_what_to_change() -> None:
    with pytest.raises(OnnxImportError) as refused:
        import_network_bytes(plain().add("LayerNormalization").bytes(2), n_outputs=2)
    assert (refused.value.node, refused.value.operator) == ("n_t1", "LayerNormalization")
    assert "batch normalisation" in refused.value.hint
    assert "n_t1" in str(refused.value)


def test_large_and_missing_files_are_refused_before_reading(tmp_path: Path) -> None:
    large = tmp_path / "large.onnx"
    with large.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(OnnxImportError) as refused:
        import_network(large, n_outputs=2)
    assert refused.value.code == "oversize"
    with pytest.raises(OnnxImportError) as missing:
        import_network(tmp_path / "absent.onnx", n_outputs=2)
    assert missing.value.code == "onnx-unreadable"


def outcome(data: bytes) -> str:
    """``imported``, or the code of the typed refusal; anything else propagates."""
    try:
        network = import_network_bytes(data, n_outputs=2)
    except OnnxImportError as refused:
        return refused.code
    assert all(np.isfinite(node.weights).all() for node in network.graph.nodes if isinstance(node, Dense))
    assert network.chain is None or all(np.isfinite(layer.weights).all() for layer in network.chain.layers)
    return "imported"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_give_a_network_or_a_typed_refusal(data: st.DataObject) -> None:
    original = bytearray(random_onnx(3, (3, 4, 2)).SerializeToString())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(original) - 1))
        original[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(original)))
    damaged = bytes(original[:cut]) if data.draw(st.booleans()) else bytes(original)
    assert outcome(damaged)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_give_a_network_or_a_typed_refusal(data: bytes) -> None:
    assert outcome(data)


def test_half_precision_weights_are_read() -> None:
    network = read_chain(with_graph(set_tensor(0, half_tensor())))
    assert network.run(np.ones((1, 3))).tolist() == [[3.0, 3.0]]


def test_constants_may_be_nodes() -> None:
    chain = plain()
    node = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.array([2.0, 3.0], np.float32)))
    chain.nodes.append(node)
    network = read_chain(chain.add("Mul", after=("k",)).bytes(2))
    assert network.run(np.ones((1, 3))).tolist() == [[6.0, 9.0]]


def test_checker_accepts_what_we_refuse_only_by_policy() -> None:
    """The negative vectors of structure are valid ONNX where the rule is ours, so the refusal is not accidental."""
    onnx.checker.check_model(onnx.load_from_string(NEGATIVE["unsupported-operator"][0]))
    onnx.checker.check_model(onnx.load_from_string(NO_CHAIN["skip-connection"]))
