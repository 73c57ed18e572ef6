"""Constant folding while importing: every rule gives what ONNX Runtime computes for the same constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from sitsedge.compiler.graph.float_graph import Affine
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.importer.constants import OTHERS, RULES
from sitsedge.compiler.passes import simplify
from tests.sitsedge.compiler.importer.models import Net, onnx_outputs

VALUES = np.array([[-2.5, -1.0, 0.5], [1.0, 2.0, 3.75]])
Make = Callable[[Net], str]


def real(net: Net, name: str) -> str:
    return net.op("Cast", name, to=TensorProto.FLOAT)


def values(net: Net) -> str:
    return net.const(VALUES)


def integers(net: Net) -> str:
    return net.ints(-7, 5, 9)


RULE_CASES: dict[str, Make] = {
    "Identity": lambda n: n.op("Identity", values(n)),
    "Cast": lambda n: real(n, n.op("Cast", values(n), to=TensorProto.INT32)),
    "Gather": lambda n: n.op("Gather", values(n), n.ints(2, -3), axis=1),
    "Concat": lambda n: n.op("Concat", values(n), values(n), axis=-1),
    "Slice": lambda n: n.op("Slice", values(n), n.ints(-1), n.ints(-9), n.ints(1), n.ints(-2)),
    "Reshape": lambda n: n.op("Reshape", values(n), n.ints(3, -1)),
    "Transpose": lambda n: n.op("Transpose", values(n)),
    "Squeeze": lambda n: n.op("Squeeze", n.const(VALUES[None]), n.ints(0)),
    "Unsqueeze": lambda n: n.op("Unsqueeze", values(n), n.ints(0, -1)),
    "Expand": lambda n: n.op("Expand", n.const([[1.0], [2.0]]), n.ints(1, 3)),
    "ConstantOfShape": lambda n: n.op("ConstantOfShape", n.ints(2, 3), value=numpy_helper.from_array(np.float32([4]))),
    "Range": lambda n: real(n, n.op("Range", *(n.const(v, np.int64) for v in (7, 1, -2)))),
    "Where": lambda n: n.op("Where", n.op("Greater", values(n), n.const(0.0)), values(n), n.const([1.0, 2.0, 3.0])),
    "ReduceProd": lambda n: n.op("ReduceProd", values(n), n.ints(1), keepdims=0),
    "DequantizeLinear": lambda n: n.op(
        "DequantizeLinear",
        n.const([[1, 2, 3], [4, 5, 6]], np.int8),
        n.const([0.5, 2.0]),
        n.const([1, -1], np.int8),
        axis=0,
    ),
    "QuantizeLinear": lambda n: real(
        n, n.op("QuantizeLinear", values(n), n.const([0.5, 0.25, 0.01]), n.const([3, -3, 0], np.int8), axis=1)
    ),
    "Add": lambda n: n.op("Add", values(n), n.const([1.0, 2.0, 3.0])),
    "Sub": lambda n: n.op("Sub", values(n), n.const([[1.0], [2.0]])),
    "Mul": lambda n: n.op("Mul", values(n), values(n)),
    "Div": lambda n: real(n, n.op("Div", integers(n), n.ints(2, -3, 4))),
    "Equal": lambda n: real(n, n.op("Equal", integers(n), n.ints(5))),
    "Less": lambda n: real(n, n.op("Less", values(n), n.const(1.0))),
    "Greater": lambda n: real(n, n.op("Greater", values(n), n.const(1.0))),
    "Min": lambda n: n.op("Min", values(n), n.const(0.75)),
    "Max": lambda n: n.op("Max", values(n), n.const(0.75)),
    "Neg": lambda n: n.op("Neg", values(n)),
    "Abs": lambda n: n.op("Abs", values(n)),
    "Floor": lambda n: n.op("Floor", values(n)),
    "Ceil": lambda n: n.op("Ceil", values(n)),
    "Sqrt": lambda n: n.op("Sqrt", n.op("Abs", values(n))),
    "Reciprocal": lambda n: n.op("Reciprocal", values(n)),
    "Exp": lambda n: n.op("Exp", values(n)),
    "Not": lambda n: real(n, n.op("Not", n.op("Less", values(n), n.const(1.0)))),
    "Constant": lambda n: n.op("Constant", value_floats=[1.0, -2.0]),
    "Shape": lambda n: real(n, n.op("Shape", "x", start=1, end=-1)),
    "Size": lambda n: real(n, n.op("Size", "x")),
}

MORE_CASES: dict[str, Make] = {
    "constant-integer": lambda n: real(n, n.op("Constant", value_int=3)),
    "constant-integers": lambda n: real(n, n.op("Constant", value_ints=[3, -4])),
    "constant-float": lambda n: n.op("Constant", value_float=0.5),
    "division-of-reals": lambda n: n.op("Div", values(n), n.const(3.0)),
    "quantised-by-one-scale": lambda n: real(n, n.op("QuantizeLinear", values(n), n.const(0.02))),
    "shape-of-a-weight": lambda n: real(n, n.op("Shape", values(n))),
    "half-precision": lambda n: real(n, n.const(VALUES, np.float16)),
    "reduced-to-one": lambda n: n.op("ReduceProd", values(n)),
}


@pytest.mark.parametrize("name", RULE_CASES | MORE_CASES)
def test_rule_equals_onnx_runtime(name: str) -> None:
    net = Net("N", 2, 3, 4)
    constant = net.op("Reshape", (RULE_CASES | MORE_CASES)[name](net), net.ints(-1))
    column = net.op("Unsqueeze", constant, net.ints(0, 1, 2))
    picture = net.op("Reshape", "x", net.ints(1, 2, 3, 4, 1))
    data = net.bytes(net.op("Mul", picture, column))
    graph, _ = simplify(import_graph_bytes(data).graph)
    x = np.random.default_rng(2).normal(size=(2, 2, 3, 4)).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(run(graph, x), onnx_outputs(data, x), rtol=1e-6, atol=1e-7)


def test_every_rule_has_a_case() -> None:
    assert set(RULES) | set(OTHERS) == set(RULE_CASES)


def test_constants_are_not_counted_as_nodes() -> None:
    net = Net("N", 3)
    data = net.bytes(net.op("Mul", "x", net.op("Exp", net.const([1.0, 2.0, 3.0]))))
    imported = import_graph_bytes(data)
    assert dict(imported.counts) == {"file": 2, "dead code": 2, "constant folding": 1}
    assert imported.operators == (("Mul", 1),)
    assert isinstance(imported.graph.nodes[1], Affine)
