"""Integer graph → ONNX graph of standard integer operators that runs unchanged on ONNX Runtime.

What ONNX and ONNX Runtime's CPU provider do not have, and what stands for it here:

* no arithmetic right shift (BitShift is unsigned) and a Div that truncates towards zero: the sum is first made
  non-negative by adding a multiple of 2^s in int64, divided by 2^s, and the quotient of that multiple is taken off
  again; for non-negative numerators truncation is the floor an arithmetic shift gives;
* no Conv and no MaxPool of int32: two Gathers, along rows and along columns, give all windows; then one MatMul for
  each group, or one ReduceMax. Their index tables have one entry for each kernel position and window of one axis.

Input ``x`` is int16 (N, inputs) counts, output ``y`` int32 (N, outputs) counts, both flat in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_values import Pads, Pair, Shape, elements, planes
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.reference import INT16_MIN, INT32_MAX, INT32_MIN, Ints

OPSET = 18
IR_VERSION = 8
"""Opset 18 and IR 8 (2022) are understood by every ONNX Runtime since 1.14."""

OFFSET_BITS = 31
"""2^31 is above every int32 magnitude and, as a multiple of every 2^s with s ≤ 30, leaves the floor exact."""


def emit_onnx(graph: IntegerGraph, name: str = "integer-graph") -> bytes:
    """Serialised model; deterministic for one version of the onnx package. ``graph`` has passed ``intervals.prove``."""
    emitter = _Emitter(graph)
    emitter.run()
    made = helper.make_graph(
        emitter.nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.INT16, ["N", graph.n_inputs])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["N", graph.n_outputs])],
        emitter.constants,
    )
    proto = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="sitsedge"
    )
    onnx.checker.check_model(proto, full_check=True)
    return bytes(proto.SerializeToString(deterministic=True))


class _Emitter:
    """Nodes and constants in order. ``tensors`` maps a value's name to the int32 tensor (N, *shape) that holds it."""

    def __init__(self, graph: IntegerGraph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.tensors: dict[str, str] = {}
        self.prefix = "x"

    def run(self) -> None:
        source = self.graph.input
        self.tensors[source.name] = self.shaped(
            self.operator("Cast", ["x"], "wide", to=TensorProto.INT32), source.shape
        )
        for index, node in enumerate(self.graph.nodes):
            # The graph's own names may be anything; those of tensors are counted.
            self.prefix = f"n{index}"
            self.tensors[node.name] = self._node(node, [self.tensors[name] for name in node.sources])
        self.prefix = "y"
        flat = self.shaped(self.tensors[self.graph.output], (self.graph.n_outputs,))
        self.nodes.append(helper.make_node("Identity", [flat], ["y"], name="y"))

    def operator(self, operator: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        name = f"{self.prefix}_{output}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        full = f"{self.prefix}_{name}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), full))
        return full

    def shaped(self, tensor: str, shape: Shape, output: str = "shaped") -> str:
        """``tensor`` with ``shape`` behind its batch dimension (0 copies it)."""
        target = self.constant(f"{output}_shape", np.array([0, *shape], np.int64))
        return self.operator("Reshape", [tensor, target], output)

    def _node(self, node: Node, sources: list[str]) -> str:
        shape = self.graph.shapes[node.sources[0]]
        match node:
            case Dense():
                return self._dense(node, sources[0])
            case Conv():
                return self._conv(node, sources[0], shape)
            case Sum():
                return self._sum(node, sources)
            case Product():
                product = self.operator("Mul", sources, "product")
                quotient = self._shifted(product, np.array(node.shift), np.array(node.rounding))
                return self._clamped(quotient, np.array(node.low), np.array(node.high))
            case MaxPool():
                return self._max_pool(node, sources[0], shape)
            case Leaky():
                return self._leaky(node, sources[0])
            case Table():
                first = self.constant("first", np.array(node.first, np.int32))
                values = self.constant("values", node.values.astype(np.int32))
                return self.operator(
                    "Gather", [values, self.operator("Sub", [sources[0], first], "entry")], "y", axis=0
                )
            case Select():
                return self._select(node, sources[0], shape)
            case Concat():
                return self.operator("Concat", sources, "y", axis=node.axis + 1)
            case ArgMax():
                largest = self.operator("ArgMax", sources, "largest", axis=1, keepdims=1, select_last_index=0)
                return self.operator("Cast", [largest], "y", to=TensorProto.INT32)
            case _:
                assert_never(node)

    def _aligned(self, node: Dense | Conv, source: str, rank: int) -> str:
        if not np.any(node.in_shift):
            return source
        factor = (np.int64(1) << node.in_shift).astype(np.int32).reshape(-1, *(1,) * (rank - 1))
        return self.operator("Mul", [source, self.constant("in", factor)], "aligned")

    def _weights(self, weights: Ints) -> str:
        """Stored as int8, a quarter of the size; the runtime widens them once, when it loads the model."""
        return self.operator("Cast", [self.constant("w", weights.astype(np.int8))], "w32", to=TensorProto.INT32)

    def _dense(self, node: Dense, source: str) -> str:
        aligned = self._aligned(node, source, 1)
        product = self.operator("MatMul", [aligned, self._weights(node.weights.T)], "product")
        return self._requantised(node, product, 1)

    def _conv(self, node: Conv, source: str, shape: Shape) -> str:
        result = node.shape_of(shape)
        channels = planes(node.name, shape)[0]
        windows = self._windows(
            self._aligned(node, source, len(shape)),
            shape,
            node.kernel,
            result,
            node.strides,
            node.pads,
            node.dilations,
            0,
        )
        inner = channels // node.groups * node.kernel[0] * node.kernel[1]
        positions = elements(result) // node.channels
        # (N, C, kh, down, kw, across) to (N, groups, C / groups · kh · kw, down · across)
        ordered = self.operator("Transpose", [windows], "ordered", perm=[0, 1, 2, 4, 3, 5])
        columns = self.shaped(ordered, (node.groups, inner, positions), "columns")
        weights = self._weights(node.weights.reshape(node.groups, -1, inner))
        product = self.operator("MatMul", [weights, columns], "product")
        return self._requantised(node, self.shaped(product, result, "sums"), len(shape))

    def _windows(
        self,
        source: str,
        shape: Shape,
        kernel: Pair,
        result: Shape,
        strides: Pair,
        pads: Pads,
        dilations: Pair,
        fill: int,
    ) -> str:
        """All windows of a value of ``shape`` as (N, C, kh, down, kw, across), padded with ``fill``."""
        _, down, across = planes("windows", result)
        current = self.shaped(source, planes("windows", shape), "planes")
        if any(pads):
            top, left, bottom, right = pads
            amounts = self.constant("pads", np.array([0, 0, top, left, 0, 0, bottom, right], np.int64))
            current = self.operator(
                "Pad", [current, amounts, self.constant("fill", np.array(fill, np.int32))], "padded"
            )
        for axis, at, count, name in ((0, 2, down, "rows"), (1, 4, across, "windows")):
            taps = dilations[axis] * np.arange(kernel[axis])[:, None] + strides[axis] * np.arange(count)[None, :]
            current = self.operator("Gather", [current, self.constant(f"{name}_at", taps)], name, axis=at)
        return current

    def _sum(self, node: Sum, sources: list[str]) -> str:
        total = ""
        for index, (source, up) in enumerate(zip(sources, node.up_shifts, strict=True)):
            if up:
                factor = self.constant(f"up{index}", np.array(1 << up, np.int32))
                raised = self.operator("Mul", [source, factor], f"raised{index}")
            else:
                raised = source
            total = self.operator("Add", [total, raised], f"sum{index}") if total else raised
        quotient = self._shifted(total, np.array(node.shift), np.array(node.rounding))
        return self._clamped(quotient, np.array(node.low), np.array(node.high))

    def _requantised(self, node: Dense | Conv, product: str, rank: int) -> str:
        def wide(values: Ints) -> Ints:
            return values.reshape(-1, *(1,) * (rank - 1))

        acc = self.operator("Add", [product, self.constant("b", wide(node.bias).astype(np.int32))], "acc")
        quotient = self._shifted(acc, wide(node.shift), wide(node.rounding))
        return self._clamped(quotient, wide(node.low), wide(node.high))

    def _shifted(self, acc: str, shift: Ints, rounding: Ints) -> str:
        """(acc + rounding) >> shift."""
        if not np.any(shift):
            return acc
        offset = np.int64(1) << OFFSET_BITS
        wide = self.operator("Cast", [acc], "acc64", to=TensorProto.INT64)
        raised = self.operator("Add", [wide, self.constant("up", rounding + offset)], "raised")
        floor = self.operator("Div", [raised, self.constant("step", np.int64(1) << shift)], "floor")
        quotient = self.operator("Sub", [floor, self.constant("down", offset >> shift)], "q64")
        return self.operator("Cast", [quotient], "q", to=TensorProto.INT32)

    def _clamped(self, value: str, low: Ints, high: Ints) -> str:
        if np.any(low != INT32_MIN):
            value = self.operator("Max", [value, self.constant("low", low.astype(np.int32))], "above")
        if np.any(high != INT32_MAX):
            value = self.operator("Min", [value, self.constant("high", high.astype(np.int32))], "below")
        return value

    def _max_pool(self, node: MaxPool, source: str, shape: Shape) -> str:
        result = node.shape_of(shape)
        # Below every int16, so that padding never wins.
        windows = self._windows(source, shape, node.kernel, result, node.strides, node.pads, (1, 1), INT16_MIN - 1)
        axes = self.constant("axes", np.array([2, 4], np.int64))
        return self.shaped(self.operator("ReduceMax", [windows, axes], "largest", keepdims=0), result)

    def _leaky(self, node: Leaky, source: str) -> str:
        factor = self.constant("slope", np.array(node.multiplier, np.int32))
        zero = self.constant("zero", np.array(0, np.int32))
        # Only what is below zero is multiplied: the product is proven for that alone.
        below = self.operator("Mul", [self.operator("Min", [source, zero], "negative"), factor], "product")
        sloped = self._shifted(below, np.array(node.shift), np.array(node.rounding))
        # One of both is zero: a negative value's positive part, or (0 + 2^(s-1)) >> s.
        return self.operator("Add", [self.operator("Max", [source, zero], "positive"), sloped], "y")

    def _select(self, node: Select, source: str, shape: Shape) -> str:
        if node.keeps_order and node.indices.size == elements(shape):
            return self.shaped(source, node.shape)
        flat = self.shaped(source, (elements(shape),), "flat")
        picked = self.operator("Gather", [flat, self.constant("at", node.indices)], "picked", axis=1)
        return self.shaped(picked, node.shape)
