"""Models a quantiser made: ONNX Runtime's static quantisation in both formats, with scales remembered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from sitsedge.compiler.graph.float_graph import Clamped, Conv
from sitsedge.compiler.graph.float_run import run, run_all
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import simplify
from tests.sitsedge.compiler.importer.models import Net, onnx_outputs

ROWS = np.random.default_rng(3).normal(size=(32, 3, 8, 8)).astype(np.float32)


class _Rows(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self._rows: Iterator[np.ndarray] = iter(ROWS)

    def get_next(self) -> dict[str, np.ndarray] | None:
        row = next(self._rows, None)
        return None if row is None else {"x": row[None]}


def network(path: Path) -> None:
    rng = np.random.default_rng(1)
    net = Net("N", 3, 8, 8, opset=17)
    x = net.op(
        "Relu", net.op("Conv", "x", net.const(rng.normal(size=(6, 3, 3, 3)) * 0.3), net.const(rng.normal(size=6)))
    )
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Conv", x, net.const(rng.normal(size=(6, 6, 3, 3)) * 0.2), net.const(rng.normal(size=6)), pads=[1] * 4)
    x = net.op("Flatten", net.op("GlobalAveragePool", net.op("Add", x, y)))
    out = net.op("Gemm", x, net.const(rng.normal(size=(6, 4))), net.const(rng.normal(size=4)))
    path.write_bytes(net.bytes(out, ("N", 4)))


def quantised(folder: Path, form: QuantFormat, **options: object) -> bytes:
    network(folder / "float.onnx")
    quantize_static(folder / "float.onnx", folder / "q.onnx", _Rows(), quant_format=form, **options)
    return (folder / "q.onnx").read_bytes()


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_qdq_model_keeps_scales_and_values(tmp_path: Path, kind: QuantType, per_channel: bool) -> None:
    data = quantised(tmp_path, QuantFormat.QDQ, activation_type=kind, per_channel=per_channel)
    imported = import_graph_bytes(data).graph
    graph, _ = simplify(imported)
    # The saturation of the input stays; every other one is a layer's.
    assert dict(graph.counts()).get("Clamp", 0) == 1
    values = run_all(graph, ROWS.astype(np.float64))
    expected = onnx_outputs(data, ROWS)
    step = max(scale.scale for scale in graph.remembered)
    # What the graph leaves out is the rounding of every activation, at most half a step each.
    assert np.abs(values[graph.output] - expected).max() < 4 * step
    names = {node.name for node in graph.nodes}
    assert len(graph.remembered) >= 4
    for scale in graph.remembered:
        assert scale.value in names
        low, high = ((bound - scale.zero_point) * scale.scale for bound in (scale.low, scale.high))
        assert low - 1e-9 <= values[scale.value].min() <= values[scale.value].max() <= high + 1e-9


def test_rounding_apart_the_quantised_model_is_the_float_one(tmp_path: Path) -> None:
    data = quantised(tmp_path, QuantFormat.QDQ)
    exact = (tmp_path / "float.onnx").read_bytes()
    graph, _ = simplify(import_graph_bytes(data).graph)
    wanted = onnx_outputs(exact, ROWS)
    spread = float(np.ptp(wanted))
    assert np.abs(run(graph, ROWS.astype(np.float64)) - wanted).max() < 0.1 * spread


def test_saturation_of_the_quantised_model_becomes_the_limits_of_the_layers(tmp_path: Path) -> None:
    graph, _ = simplify(import_graph_bytes(quantised(tmp_path, QuantFormat.QDQ)).graph)
    first = next(node for node in graph.nodes if isinstance(node, Conv))
    assert first.low <= 0.0 < first.high < np.inf
    assert all(node.activation != "none" for node in graph.nodes if isinstance(node, Clamped))


def test_operator_format_of_convolutions_and_products(tmp_path: Path) -> None:
    """QLinearConv and QLinearMatMul: the same network as in QDQ format, by hand since the tool adds its own domain."""
    net = Net("N", 2, 5, opset=17)
    rng = np.random.default_rng(2)
    zero = net.const(0, np.int8)
    quantum = [net.const(v) for v in (0.05, 0.1, 0.2)]
    x = net.op("QuantizeLinear", "x", quantum[0], zero)
    weights = net.const(rng.integers(-100, 100, (3, 2, 3)), np.int8)
    scales = net.const([0.01, 0.02, 0.03])
    zeros = net.const([0, 0, 0], np.int8)
    bias = net.const(rng.integers(-500, 500, 3), np.int32)
    x = net.op("QLinearConv", x, quantum[0], zero, weights, scales, zeros, quantum[1], zero, bias, pads=[1, 1])
    x = net.op("Reshape", x, net.ints(1, 15))
    matrix = net.const(rng.integers(-100, 100, (15, 4)), np.int8)
    x = net.op("QLinearMatMul", x, quantum[1], zero, matrix, net.const(0.02), zero, quantum[2], zero)
    data = net.bytes(net.op("DequantizeLinear", x, quantum[2], zero), ("N", 4))
    onnx.checker.check_model(onnx.load_from_string(data))
    graph, _ = simplify(import_graph_bytes(data).graph)
    rows = rng.normal(size=(16, 2, 5))
    expected = onnx_outputs(data, rows)
    assert np.abs(run(graph, rows) - expected).max() < 0.2 * 0.51 + 15 * 100 * 0.02 * 0.05
    assert np.corrcoef(run(graph, rows).ravel(), expected.ravel())[0, 1] > 0.999
    assert [scale.scale for scale in graph.remembered] == pytest.approx([0.05, 0.1, 0.2])
