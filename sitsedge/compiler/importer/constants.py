"""Constant folding while importing: nodes whose inputs are all constants, and the shapes of computed values.

Exporters compute shapes and unpack quantised weights with nodes; all of that is arithmetic on constants, done here
once in the file's own types. Sizes are checked before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sitsedge.compiler.graph.float_graph import Shape
from sitsedge.compiler.importer.builder import Data, broadcast
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import PARAMETERS_MAX, RANK_MAX, VALUE_ELEMENTS_MAX, refuse, require
from sitsedge.compiler.importer.operators.quantised import real_weights
from sitsedge.compiler.importer.operators.shape import resolved, slices
from sitsedge.compiler.importer.tensors import TYPES, Array

Rule = Callable[[Call], Array]


def constant_node(call: Call) -> Array:
    """The value of a Constant node."""
    call.arity(0, 0)
    found: list[Array] = []
    tensor = call.tensor("value")
    if tensor is not None:
        found.append(tensor)
    names = {attribute.name for attribute in call.node.attribute}
    if "value_float" in names:
        found.append(np.asarray(call.number("value_float", 0.0), np.float32))
    if "value_int" in names:
        found.append(np.asarray(call.integer("value_int", 0), np.int64))
    floats, ints = call.floats("value_floats"), call.ints("value_ints")
    found += [] if floats is None else [floats.astype(np.float32)]
    found += [] if ints is None else [np.asarray(ints, np.int64)]
    if len(found) != 1:
        raise refuse("attribute", "not exactly one numeric value", "one value")
    return found[0]


def shape_node(call: Call) -> Array:
    """Shape of a computed or constant value; the batch counts as 1."""
    value = call.inputs[0] if len(call.inputs) == 1 else None
    if value is None:
        raise refuse("node-shape", "no input", "one input")
    rank = len(value.shape)
    start, end = (
        min(max(v + rank if v < 0 else v, 0), rank) for v in (call.integer("start", 0), call.integer("end", rank))
    )
    return np.asarray(value.shape[start:end], np.int64)


def size_node(call: Call) -> Array:
    """Number of elements of a computed or constant value."""
    value = call.inputs[0] if len(call.inputs) == 1 else None
    if value is None:
        raise refuse("node-shape", "no input", "one input")
    return np.asarray(value.size, np.int64)


def foldable(call: Call) -> bool:
    """Is there a rule for the operator, and are all given inputs constants?"""
    return call.node.op_type in RULES and not any(isinstance(value, Data) for value in call.inputs)


def fold(call: Call) -> Array:
    """The constant a node computes; counts against the constants of the file."""
    with np.errstate(all="ignore"):
        try:
            value = np.asarray(RULES[call.node.op_type](call))
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise refuse(
                "constant", f"constants numpy cannot combine ({str(error)[:80]})", "inputs that fit"
            ) from error
    if value.ndim > RANK_MAX:
        raise refuse("node-shape", f"a constant of rank {value.ndim}", f"at most {RANK_MAX} dimensions")
    if value.dtype.kind == "f" and not np.all(np.isfinite(value)):
        raise refuse("tensor-value", "a constant that becomes NaN or infinite", "finite constants")
    call.reader.parameters += value.size
    require(call.reader.parameters, PARAMETERS_MAX, "constants", "train a smaller network")
    return value


def _bounded(shape: Shape) -> Shape:
    if len(shape) > RANK_MAX or any(d < 0 for d in shape):
        raise refuse("node-shape", f"a constant of shape {list(shape[:8])}", f"at most {RANK_MAX} dimensions")
    require(math.prod(shape), VALUE_ELEMENTS_MAX, "elements of a computed constant")
    return shape


def _pair(make: Callable[[Any, Any], Any]) -> Rule:
    def rule(call: Call) -> Array:
        call.arity(2, 2)
        a, b = call.constant(0), call.constant(1)
        _bounded(broadcast(a.shape, b.shape))
        return np.asarray(make(a, b))

    return rule


def _single(make: Callable[[Any], Any]) -> Rule:
    def rule(call: Call) -> Array:
        call.arity(1, 1)
        value = call.constant(0)
        # np.sqrt of float32 stays float32, of integers would not.
        return np.asarray(make(value)).astype(value.dtype)

    return rule


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if np.any(b == 0):
        raise refuse("constant", "an integer division by zero", "non-zero divisors")
    quotient = np.abs(a) // np.abs(b)
    return np.asarray(np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype))


def _cast(call: Call) -> Array:
    call.ignore("saturate", "round_mode")
    target = TYPES.get(call.integer("to", 1))
    if target is None:
        raise refuse("cast", f"ONNX data type {call.integer('to', 1)}", "a real, integer or boolean type")
    return call.constant(0).astype(target)


def _gather(call: Call) -> Array:
    call.arity(2, 2)
    value, indices = call.constant(0), call.constant(1)
    axis = call.axis(call.integer("axis", 0), value.ndim)
    _bounded((*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :]))
    return np.take(value, indices, axis=axis)


def _concat(call: Call) -> Array:
    values = [call.constant(i) for i in range(len(call.inputs))]
    require(sum(v.size for v in values), VALUE_ELEMENTS_MAX, "elements of a computed constant")
    return np.concatenate(values, axis=call.integer("axis", 0))


def _slice(call: Call) -> Array:
    value = call.constant(0)
    if call.opset < 10:
        starts, ends, axes, steps = call.ints("starts"), call.ints("ends"), call.ints("axes"), None
    else:
        starts, ends, axes, steps = (call.input_ints(i) for i in range(1, 5))
    return np.asarray(value[slices(call, value.shape, starts, ends, axes, steps)])


def _reshape(call: Call) -> Array:
    value = call.constant(0)
    wanted = call.input_ints(1) or []
    return value.reshape(resolved(value.shape, wanted, allow_zero=bool(call.integer("allowzero", 0))))


def _transpose(call: Call) -> Array:
    return np.transpose(call.constant(0), call.ints("perm"))


def _squeeze(call: Call) -> Array:
    value = call.constant(0)
    axes = call.ints_anywhere("axes", 1)
    return np.squeeze(value, None if axes is None else tuple(call.axes(axes, value.ndim)))


def _unsqueeze(call: Call) -> Array:
    value = call.constant(0)
    axes = call.ints_anywhere("axes", 1) or []
    return np.expand_dims(value, tuple(call.axes(axes, value.ndim + len(axes))))


def _expand(call: Call) -> Array:
    value = call.constant(0)
    shape = _bounded(broadcast(value.shape, _bounded(tuple(call.input_ints(1) or []))))
    return np.array(np.broadcast_to(value, shape))


def _constant_of_shape(call: Call) -> Array:
    shape = _bounded(tuple(call.input_ints(0) or []))
    value = call.tensor("value")
    filler = np.zeros(1, np.float32) if value is None else value
    if filler.size != 1:
        raise refuse("attribute", f"a value of {filler.size} numbers", "one number")
    return np.full(shape, filler.reshape(-1)[0], filler.dtype)


def _range(call: Call) -> Array:
    call.arity(3, 3)
    start, limit, delta = (call.constant(i) for i in range(3))
    if start.size != 1 or limit.size != 1 or delta.size != 1 or float(delta.reshape(-1)[0]) == 0.0:
        raise refuse("node-shape", "a range without a step", "three numbers, step not 0")
    first, last, step = (v.reshape(-1)[0] for v in (start, limit, delta))
    count = max(0, math.ceil((float(last) - float(first)) / float(step)))
    _bounded((count,))
    return np.asarray(first + step * np.arange(count), start.dtype)


def _where(call: Call) -> Array:
    call.arity(3, 3)
    choose, a, b = (call.constant(i) for i in range(3))
    _bounded(broadcast(choose.shape, a.shape, b.shape))
    return np.where(choose.astype(bool), a, b)


def _dequantize(call: Call) -> Array:
    call.arity(2, 3)
    call.ignore("output_dtype")
    if call.integer("block_size", 0):
        raise refuse("quantised", "blocked quantisation", "one scale a tensor or a channel")
    return real_weights(call.constant(0), call.constant(1), call.optional(2), call.integer("axis", 1))


def _quantize(call: Call) -> Array:
    """round-half-even of x/scale plus zero point, saturated. Source: ONNX QuantizeLinear-13."""
    call.arity(2, 3)
    call.ignore("saturate", "block_size", "output_dtype", "precision")
    value, scales = call.real(0), call.real(1)
    axis = call.integer("axis", 1)
    zeros = call.optional(2)
    dtype = np.dtype("u1") if zeros is None else zeros.dtype
    if dtype.kind not in "iu" or np.any(scales <= 0.0):
        raise refuse("quantised", "a scale or zero point of another kind", "positive scales, integer zero points")
    shape = [1] * value.ndim
    if scales.size > 1:
        shape[call.axis(axis, value.ndim)] = -1
    offset = np.zeros(1) if zeros is None else zeros.astype(np.float64)
    offset = offset.reshape(shape if offset.size > 1 else (1,) * value.ndim)
    limits = np.iinfo(dtype)
    counts = np.rint(value / scales.reshape(shape if scales.size > 1 else (1,) * value.ndim)) + offset
    return np.clip(counts, limits.min, limits.max).astype(dtype)


def _product(call: Call) -> Array:
    call.ignore("noop_with_empty_axes")
    axes = call.ints_anywhere("axes", 1)
    value = call.constant(0)
    keep = bool(call.integer("keepdims", 1))
    return np.asarray(np.prod(value, axis=None if axes is None else tuple(axes), keepdims=keep), value.dtype)


RULES: Mapping[str, Rule] = {
    "Identity": lambda call: call.constant(0),
    "Cast": _cast,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Where": _where,
    "ReduceProd": _product,
    "DequantizeLinear": _dequantize,
    "QuantizeLinear": _quantize,
    "Add": _pair(np.add),
    "Sub": _pair(np.subtract),
    "Mul": _pair(np.multiply),
    "Div": _pair(_divide),
    "Equal": _pair(np.equal),
    "Less": _pair(np.less),
    "Greater": _pair(np.greater),
    "Min": _pair(np.minimum),
    "Max": _pair(np.maximum),
    "Neg": _single(np.negative),
    "Abs": _single(np.abs),
    "Floor": _single(np.floor),
    "Ceil": _single(np.ceil),
    "Sqrt": _single(np.sqrt),
    "Reciprocal": _single(np.reciprocal),
    "Exp": _single(np.exp),
    "Not": _single(np.logical_not),
}
"""Operators folded where all inputs are constants."""

OTHERS: Mapping[str, Rule] = {"Constant": constant_node, "Shape": shape_node, "Size": size_node}
"""Operators whose result is constant whatever their inputs."""
