"""Models a quantiser made: ONNX Runtime's static quantisation in both formats, with scales remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import cbor2
import numpy as np
import onnx
import pycddl
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from sitsedge.compiler import report_layers
from sitsedge.compiler.calibration import Calibration
from sitsedge.compiler.graph.float_graph import Clamped, Conv, FloatGraph
from sitsedge.compiler.graph.float_run import run, run_all
from sitsedge.compiler.graph.reference import run as run_integer
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser.reasons import REMEMBERED
from sitsedge.compiler.quantiser.remembered import honoured, own_outputs, remembered_formats
from sitsedge.compiler.quantiser.search import quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.compiler.report_layers import describe_layers
from sitsedge.modules import strict_json
from tests.sitsedge.compiler.importer.models import Net, onnx_outputs

SCHEMA = pycddl.Schema(Path(report_layers.__file__).with_name("report-layers.cddl").read_text())
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


def quantised(folder: Path, form: QuantFormat, network: Callable[[Path], None] = network, **options: object) -> bytes:
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


def chain_of_convolutions(path: Path) -> None:
    """No sum of two values: every scale is free."""
    rng = np.random.default_rng(4)
    net = Net("N", 3, 8, 8, opset=17)
    x = "x"
    for channels, into in ((5, 3), (4, 5)):
        weights = net.const(rng.normal(size=(channels, into, 3, 3)) * 0.3)
        x = net.op("Relu", net.op("Conv", x, weights, net.const(rng.normal(size=channels))))
    x = net.op("Reshape", net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), net.ints(1, 16))
    path.write_bytes(net.bytes(net.op("MatMul", x, net.const(rng.normal(size=(16, 4)) * 0.3)), ("N", 4)))


def compiled(data: bytes, goal: Goal | None = None) -> tuple[FloatGraph, QuantisedGraph, Calibration]:
    """The integer graph for counts of 0.01, with the rows it was fitted to."""
    graph, _ = simplify(import_graph_bytes(data).graph)
    n = graph.input.size
    rows = np.random.default_rng(5).normal(size=(160, n))
    counts = np.clip(np.rint(rows * 100), -600, 600).astype(np.int64)
    outputs = np.ptp(run(graph, (counts * 0.01).reshape(-1, *graph.input.shape)).reshape(160, -1), axis=0) / 4000
    scales = Scales(np.full(n, 0.01), outputs, np.full(n, -600), np.full(n, 600))
    found = quantise_graph(graph, scales, counts, counts * 0.01, goal=goal or Goal())
    raw = counts * 0.01
    return graph, found, Calibration(raw[:120], counts[:120], raw[120:], counts[120:], 160, 0)


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_scales_of_the_models_own_quantiser_are_taken_exactly(tmp_path: Path, form: QuantFormat) -> None:
    data = quantised(tmp_path, form, network=chain_of_convolutions)
    kinds = {node.op_type for node in onnx.load_from_string(data).graph.node}
    assert ("QLinearConv" in kinds) == (form == QuantFormat.QOperator)
    graph, found, calibration = compiled(data)
    scales = honoured(found.source, found.real)  # type: ignore[arg-type]
    assert len(scales) >= 3
    assert all(scale.exact for scale in scales.values())
    described = describe_layers(found, calibration, {})
    own = {entry["name"]: entry["remembered"] for entry in described if entry["remembered"]}
    assert own.keys() == scales.keys()
    assert all(entry["exact"] and entry["count"] == pytest.approx([entry["scale"]] * 2) for entry in own.values())
    assert REMEMBERED in found.reasons.values()
    SCHEMA.validate_cbor(cbor2.dumps(json.loads(strict_json.encode(described))))
    assert {scale.remembered for scale in scales.values()} <= set(graph.remembered)


def test_scales_that_meet_in_a_sum_are_brought_to_powers_of_two_and_said_to_be(tmp_path: Path) -> None:
    _, found, _ = compiled(quantised(tmp_path, QuantFormat.QDQ))
    scales = honoured(found.source, found.real)  # type: ignore[arg-type]
    exact = [scale for scale in scales.values() if scale.exact]
    missed = [scale for scale in scales.values() if not scale.exact]
    assert len(exact) >= 3
    assert missed
    assert all(0 < scale.off < 1 for scale in missed)
    finest = min(scale.least for scale in scales.values() if scale in missed)
    assert all(np.log2(scale.least / finest) == pytest.approx(round(np.log2(scale.least / finest))) for scale in missed)


def test_own_scales_lose_no_more_than_the_models_own_rounding(tmp_path: Path) -> None:
    data = quantised(tmp_path, QuantFormat.QDQ)
    graph, found, calibration = compiled(data)
    rows = calibration.held_raw.reshape(-1, *graph.input.shape)
    wanted, rounded = run(graph, rows).reshape(len(rows), -1), own_outputs(graph, rows)
    span = np.ptp(wanted, axis=0)
    got = run_integer(found.graph, calibration.held_counts) * found.real[found.graph.output]
    own, ours = (np.sqrt((((values - wanted) / span) ** 2).mean()) for values in (rounded, got))
    assert ours < 1.3 * own
    step = next(scale.scale for scale in graph.remembered if scale.value == graph.output)
    # float32 may round a tie the other way, one step a value.
    assert np.abs(rounded - onnx_outputs(data, rows)).mean() < 0.2 * step


def test_scales_that_cannot_be_reached_are_left_to_the_search(tmp_path: Path) -> None:
    graph, _ = simplify(import_graph_bytes(quantised(tmp_path, QuantFormat.QDQ)).graph)
    absurd = tuple(replace(scale, scale=scale.scale * 1e-9) for scale in graph.remembered)
    names = [node.name for node in graph.nodes]
    assert next(remembered_formats(replace(graph, remembered=absurd), names))
    assert list(remembered_formats(replace(graph, remembered=()), names)) == []
    n = graph.input.size
    counts = np.random.default_rng(6).integers(-300, 301, (40, n))
    scales = Scales(np.full(n, 0.01), np.full(4, 0.01), np.full(n, -300), np.full(n, 300))
    found = quantise_graph(
        replace(graph, remembered=absurd), scales, counts, counts * 0.01, goal=Goal(0.05, 0.3), prefer="rows"
    )
    assert REMEMBERED not in found.reasons.values()
