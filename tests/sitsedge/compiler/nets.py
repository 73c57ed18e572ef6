"""Random networks for the compiler's tests: integer models inside every number format, and float ONNX files."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from attest.proof.circuit import Curve
from sitsedge.compiler.backends import onnx as onnx_backend
from sitsedge.compiler.backends import wasm as wasm_backend
from sitsedge.compiler.backends.circuit import emit as circuit_backend
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.imported import import_network_bytes
from sitsedge.compiler.intervals import layer_bounds, prove
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.reference import IntegerLayer, IntegerModel


def emit_onnx(model: IntegerModel) -> bytes:
    """The integer ONNX graph of a chain, by the back end."""
    return onnx_backend.emit_onnx(graph_of(model))


def emit_wasm(model: IntegerModel, *, relaxed: bool = False) -> bytes:
    """The module of a chain, by the back end."""
    return wasm_backend.emit_wasm(graph_of(model), relaxed=relaxed)


def emit_circuit(model: IntegerModel, *, curve: Curve = Curve.BN254) -> bytes:
    """The circuit file of a chain, by the back end."""
    return circuit_backend.emit_circuit(graph_of(model), curve=curve).data


def random_model(seed: int, *, widths: list[int] | None = None) -> IntegerModel:
    """A valid integer model; shifts grow until activations and sums fit, as the quantiser's do."""
    rng = np.random.default_rng(seed)
    sizes = widths or [int(n) for n in rng.integers(1, 8, size=int(rng.integers(2, 5)))]
    edge = int(rng.choice([3, 40, 600, 32767]))
    low = rng.integers(-edge - 1, edge + 1, sizes[0])
    high = np.minimum(low + rng.integers(0, 2 * edge + 1, sizes[0]), 32767)
    box_low, box_high = low.copy(), high.copy()
    layers = []
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        layer = _random_layer(rng, inputs, outputs, low, high, hidden=index < len(sizes) - 2, first=index == 0)
        bound = layer_bounds(layer, low, high)
        low, high = bound.out_low, bound.out_high
        layers.append(layer)
    model = IntegerModel.make(tuple(layers), box_low, box_high)
    prove(model)
    return model


def _random_layer(
    rng: np.random.Generator, inputs: int, outputs: int, low: Any, high: Any, *, hidden: bool, first: bool
) -> IntegerLayer:
    weights = rng.integers(-127, 128, (outputs, inputs)) * (rng.random((outputs, inputs)) < 0.8)
    activation = str(rng.choice(["relu", "clamp", "relu"] if hidden else ["none", "relu", "clamp"]))
    shift = rng.integers(0, 4, outputs) * int(rng.integers(0, 3))
    in_shift = rng.integers(0, 4, inputs) if first else np.zeros(inputs, np.int64)
    while True:
        clamp_low = rng.integers(-50, 50, outputs)
        layer = IntegerLayer.make(
            weights=weights,
            bias=rng.integers(-3000, 3000, outputs),
            in_shift=in_shift,
            shift=shift,
            activation=activation,
            low=clamp_low,
            high=clamp_low + rng.integers(0, 200, outputs),
        )
        bound = layer_bounds(layer, low, high)
        too_wide = max(abs(int(bound.out_low.min())), abs(int(bound.out_high.max()))) > 32767
        sums = max(abs(int(bound.partial_low.min())), abs(int(bound.partial_high.max())))
        if sums >= 1 << 31:
            weights, in_shift = weights // 2, np.maximum(in_shift - 1, 0)
        elif hidden and too_wide:
            shift = np.minimum(shift + 1, 30)
        else:
            return layer


def interesting_rows(model: IntegerModel, seed: int, count: int = 40) -> np.ndarray:
    """Inputs inside the box: corners, random ones, and ones next to a requantise or ReLU boundary."""
    rng = np.random.default_rng(seed)
    n = model.n_inputs
    corners = np.where(rng.integers(0, 2, (count, n)) == 1, model.box_high, model.box_low)
    inside = rng.integers(model.box_low, model.box_high + 1, (count, n))
    return np.concatenate([corners, inside, _boundary(model, inside, rng)])


def _boundary(model: IntegerModel, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move one input of each row so that a first-layer sum lands on, or one step beside, a multiple of 2^s."""
    layer = model.layers[0]
    columns = layer.columns()
    moved = rows.copy()
    for row in moved:
        i, j = int(rng.integers(columns.shape[0])), int(rng.integers(columns.shape[1]))
        step = int(columns[i, j])
        if step == 0:
            continue
        acc = int(layer.accumulate(row)[i] + layer.rounding[i])
        size = 1 << int(layer.shift[i])
        target = int(rng.integers(-2, 3)) * size + int(rng.integers(-1, 2))
        wanted = int(row[j]) + round((target - acc) / step)
        row[j] = min(max(wanted, int(model.box_low[j])), int(model.box_high[j]))
    return moved


models = st.integers(0, 2**32 - 1).map(random_model)


class OnnxChain:
    """Builds a float ONNX graph node by node."""

    def __init__(self, width: int, *, batch: object = "N", elem: int = TensorProto.FLOAT) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.current = "x"
        self.width = width
        self.elem = elem
        self.input = helper.make_tensor_value_info("x", elem, [batch, width])

    def const(self, values: Any, name: str | None = None) -> str:
        name = name or f"c{len(self.constants)}"
        dtype = np.float32 if self.elem == TensorProto.FLOAT else np.float64
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, operator: str, *before: str, after: tuple[str, ...] = (), **attributes: Any) -> OnnxChain:
        output = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, [*before, self.current, *after], [output], name=f"n_{output}", **attributes)
        )
        self.current = output
        return self

    def gemm(self, weights: Any, bias: Any, **attributes: Any) -> OnnxChain:
        return self.add("Gemm", after=(self.const(weights), self.const(bias)), **attributes)

    def model(self, outputs: int = 1, *, opset: int = 18) -> Any:
        output = helper.make_tensor_value_info(self.current, self.elem, ["N", outputs])
        graph = helper.make_graph(self.nodes, "g", [self.input], [output], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)

    def bytes(self, outputs: int = 1, *, opset: int = 18) -> bytes:
        return bytes(self.model(outputs, opset=opset).SerializeToString())


def random_onnx(seed: int, sizes: tuple[int, ...], *, mean: Any = None, deviation: Any = None) -> onnx.ModelProto:
    """A float network with He-initialised weights, optional normalisation in front and scaling behind."""
    rng = np.random.default_rng(seed)
    chain = OnnxChain(sizes[0])
    if mean is not None:
        chain.add("Sub", after=(chain.const(mean),)).add("Div", after=(chain.const(deviation),))
    for index, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        weights = rng.normal(0, (2 / inputs) ** 0.5, (inputs, outputs))
        chain.gemm(weights, rng.normal(0, 0.1, outputs))
        if index < len(sizes) - 2:
            chain.add("Relu")
    return chain.model(sizes[-1])


def read_chain(data: bytes) -> FloatNetwork:
    """The chain of dense layers an ONNX file is, as the pipeline reads it."""
    chain = import_network_bytes(data, n_outputs=1).chain
    assert chain is not None, "a chain of dense layers"
    return chain
