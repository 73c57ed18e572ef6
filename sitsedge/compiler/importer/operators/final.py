"""Class outputs, and the operators of the ai.onnx.ml domain scikit-learn's converter writes."""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.float_graph import ArgMax, Softmax
from sitsedge.compiler.importer.builder import Data, graph_shape
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import refuse
from sitsedge.compiler.importer.operators.linear import product


def softmax(call: Call) -> Data:
    x = call.data()
    axis = call.axis(call.integer("axis", 1 if call.opset < 13 else -1), len(x.shape))
    covered = x.size if call.opset < 13 and not axis else x.shape[axis]
    if call.opset < 13 and axis:
        covered = int(np.prod(x.shape[axis:]))
    if covered != x.size:
        raise refuse(
            "node-shape",
            f"softmax over {covered} of {x.size} elements",
            "one softmax over all classes as the last step",
        )
    b = call.builder
    return b.reshape(b.unary(b.reshape(x, (1, x.size)), Softmax), x.shape)


def arg_max(call: Call) -> Data:
    x = call.data()
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    if x.shape[axis] != x.size or call.integer("select_last_index", 0):
        raise refuse(
            "node-shape", f"arg-max over axis {axis} of {list(x.shape)}", "over all classes, lowest index first"
        )
    b = call.builder
    shape = tuple(1 for d in x.shape) if call.integer("keepdims", 1) else (1,) * max(1, len(x.shape) - 1)
    node = ArgMax(name=b.fresh(), inputs=(x.name,), shape=(1,), origin=b.origin)
    return Data(b.add(node).name, shape if graph_shape(shape) == (1,) else (1,))


def scaler(call: Call) -> Data:
    """(x − offset)·scale. Source: ONNX ai.onnx.ml Scaler-1."""
    x = call.data()
    offset, scale = call.floats("offset"), call.floats("scale")
    width = x.shape[-1] if x.shape else 1
    for name, values in (("offset", offset), ("scale", scale)):
        if values is not None and values.size not in (1, width):
            raise refuse("attribute", f"{name} of {values.size} numbers", f"1 or {width}")
    factor = np.ones(1) if scale is None else scale
    shift = np.zeros(1) if offset is None else -offset * factor
    return call.builder.affine(x, factor, shift)


def linear_regressor(call: Call) -> Data:
    """``x·Cᵀ + intercepts``. Source: ONNX ai.onnx.ml LinearRegressor-1."""
    x = call.data()
    targets = call.integer("targets", 1)
    coefficients, intercepts = call.floats("coefficients"), call.floats("intercepts")
    if call.text("post_transform", "NONE") != "NONE":
        raise refuse("attribute", "a post_transform", "NONE")
    width = x.shape[-1] if x.shape else 0
    if coefficients is None or targets < 1 or coefficients.size != targets * width:
        raise refuse("attribute", "coefficients that do not fit", f"{targets} × {width} numbers")
    if intercepts is not None and intercepts.size != targets:
        raise refuse("attribute", f"{intercepts.size} intercepts", f"{targets}")
    made = product(call, x, coefficients.reshape(targets, width).T)
    return made if intercepts is None else call.builder.affine(made, np.ones(()), intercepts)
