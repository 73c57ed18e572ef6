"""Integer model → ONNX graph of standard integer operators that runs unchanged on ONNX Runtime.

ONNX has no arithmetic right shift (BitShift is unsigned) and Div truncates towards zero. So the shifted sum is
first made non-negative by adding a multiple of 2^s in int64, divided by 2^s, and the quotient of that
multiple is taken off again: for non-negative numerators truncation is the floor an arithmetic shift gives.
Input ``x`` is int16 (N, n) counts, output ``y`` int32 (N, m) counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sitsedge.compiler.reference import IntegerLayer, IntegerModel

OPSET = 18
IR_VERSION = 8
"""Opset 18 and IR 8 (2022) are understood by every ONNX Runtime since 1.14."""

OFFSET_BITS = 31
"""2^31 is above every int32 magnitude and, as a multiple of every 2^s with s ≤ 30, leaves the floor exact."""


def emit_onnx(model: IntegerModel, name: str = "integer-model") -> bytes:
    """Serialised graph; deterministic for one version of the onnx package."""
    builder = _Builder()
    current = builder.node("Cast", ["x"], "x_wide", to=TensorProto.INT32)
    for index, layer in enumerate(model.layers):
        current = _layer(builder, layer, current, f"l{index}")
    builder.nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        builder.nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.INT16, ["N", model.n_inputs])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["N", model.n_outputs])],
        builder.constants,
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="sitsedge"
    )
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString(deterministic=True))


class _Builder:
    """Nodes and constants in order."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name


def _layer(builder: _Builder, layer: IntegerLayer, current: str, prefix: str) -> str:
    if np.any(layer.in_shift):
        factor = builder.constant(f"{prefix}_in", (np.int64(1) << layer.in_shift).astype(np.int32))
        current = builder.node("Mul", [current, factor], f"{prefix}_aligned")
    weights = builder.constant(f"{prefix}_w", layer.weights.T.astype(np.int8))
    wide = builder.node("Cast", [weights], f"{prefix}_w32", to=TensorProto.INT32)
    bias = builder.constant(f"{prefix}_b", layer.bias.astype(np.int32))
    product = builder.node("MatMul", [current, wide], f"{prefix}_product")
    current = builder.node("Add", [product, bias], f"{prefix}_acc")
    if np.any(layer.shift):
        current = builder.node("Cast", [current], f"{prefix}_acc64", to=TensorProto.INT64)
        offset = np.int64(1) << OFFSET_BITS
        up = builder.constant(f"{prefix}_up", layer.rounding + offset)
        step = builder.constant(f"{prefix}_step", np.int64(1) << layer.shift)
        down = builder.constant(f"{prefix}_down", offset >> layer.shift)
        current = builder.node("Add", [current, up], f"{prefix}_raised")
        current = builder.node("Div", [current, step], f"{prefix}_floor")
        current = builder.node("Sub", [current, down], f"{prefix}_q64")
        current = builder.node("Cast", [current], f"{prefix}_q", to=TensorProto.INT32)
    if layer.activation != "none":
        low = builder.constant(f"{prefix}_low", layer.low.astype(np.int32))
        current = builder.node("Max", [current, low], f"{prefix}_above")
    if layer.activation == "clamp":
        high = builder.constant(f"{prefix}_high", layer.high.astype(np.int32))
        current = builder.node("Min", [current, high], f"{prefix}_a")
    return current
