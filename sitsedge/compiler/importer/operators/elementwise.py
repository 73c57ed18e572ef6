"""Arithmetic with constants and between values, activations, batch normalisation."""

from __future__ import annotations

import math

import numpy as np

from sitsedge.compiler.graph.float_graph import Leaky, Product
from sitsedge.compiler.importer.builder import Data, broadcast, graph_shape
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import refuse

_ONE, _ZERO = np.ones(()), np.zeros(())

FLOAT32_MAX = float(np.finfo(np.float32).max)
"""Exporters write "no limit" as the largest float32."""


def add(call: Call) -> Data:
    call.arity(2, 2)
    if call.is_data(0) and call.is_data(1):
        return call.builder.sum([call.data(0), call.data(1)])
    at = 0 if call.is_data(0) else 1
    return call.builder.affine(call.data(at), _ONE, call.real(1 - at))


def sub(call: Call) -> Data:
    call.arity(2, 2)
    if call.is_data(0) and call.is_data(1):
        return call.builder.sum([call.data(0), call.builder.affine(call.data(1), -_ONE, _ZERO)])
    if call.is_data(0):
        return call.builder.affine(call.data(0), _ONE, -call.real(1))
    return call.builder.affine(call.data(1), -_ONE, call.real(0))


def mul(call: Call) -> Data:
    call.arity(2, 2)
    if not (call.is_data(0) and call.is_data(1)):
        at = 0 if call.is_data(0) else 1
        return call.builder.affine(call.data(at), call.real(1 - at), _ZERO)
    b, pair = call.builder, (call.data(0), call.data(1))
    shape = broadcast(pair[0].shape, pair[1].shape)
    for x, gate in (pair, pair[::-1]):
        if x.shape == shape and _one_a_channel(graph_shape(gate.shape), graph_shape(shape)):
            return b.made(
                Product(name=b.fresh(), inputs=(x.name, gate.name), shape=graph_shape(shape), origin=b.origin), shape
            )
    names = tuple(b.expand(value, shape).name for value in pair)
    return b.made(Product(name=b.fresh(), inputs=names, shape=graph_shape(shape), origin=b.origin), shape)


def _one_a_channel(gate: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a value of shape ``gate`` has one factor for each channel of ``shape``."""
    return len(shape) > 1 and gate == (shape[0], *(1,) * (len(shape) - 1))


def power(call: Call) -> Data:
    """A square is a product; other exponents have no integer form."""
    call.arity(2, 2)
    x, exponent = call.data(0), call.scalar(1, 2.0)
    if exponent == 1.0:
        return x
    if exponent != 2.0:
        raise refuse("attribute", f"the exponent {exponent:g}", "2 or 1", "use products, or an activation")
    b = call.builder
    node = Product(name=b.fresh(), inputs=(x.name, x.name), shape=graph_shape(x.shape), origin=b.origin)
    return b.made(node, x.shape)


def div(call: Call) -> Data:
    call.arity(2, 2)
    x, divisor = call.data(0), call.real(1)
    if np.any(divisor == 0.0):
        raise refuse("node-shape", "division by zero", "non-zero constants")
    with np.errstate(over="ignore"):
        return call.builder.affine(x, 1.0 / divisor, _ZERO)


def neg(call: Call) -> Data:
    return call.builder.affine(call.data(), -_ONE, _ZERO)


def variadic_sum(call: Call) -> Data:
    values = [call.data(i) for i in range(len(call.inputs)) if call.is_data(i)]
    constants = [call.real(i) for i in range(len(call.inputs)) if not call.is_data(i)]
    total = call.data() if not values else values[0] if len(values) == 1 else call.builder.sum(values)
    for constant in constants:
        total = call.builder.affine(total, _ONE, constant)
    return total


def relu(call: Call) -> Data:
    return call.builder.clamp(call.data(), 0.0, math.inf)


def clip(call: Call) -> Data:
    x = call.data()
    if call.opset < 11:
        low, high = call.number("min", -FLOAT32_MAX), call.number("max", FLOAT32_MAX)
    else:
        low, high = call.scalar(1, -math.inf), call.scalar(2, math.inf)
    return _limited(call, x, low, high)


def _limited(call: Call, x: Data, low: float, high: float) -> Data:
    low = -math.inf if low <= -FLOAT32_MAX else low
    high = math.inf if high >= FLOAT32_MAX else high
    if not low < high:
        raise refuse("attribute", f"bounds [{low}, {high}]", "min below max")
    return x if (low, high) == (-math.inf, math.inf) else call.builder.clamp(x, low, high)


def minimum(call: Call) -> Data:
    x, bound = _with_bound(call)
    return _limited(call, x, -math.inf, bound)


def maximum(call: Call) -> Data:
    x, bound = _with_bound(call)
    return _limited(call, x, bound, math.inf)


def _with_bound(call: Call) -> tuple[Data, float]:
    call.arity(2, 2)
    at = 0 if call.is_data(0) else 1
    x, bound = call.data(at), call.real(1 - at)
    if bound.size < 1 or np.any(bound != bound.reshape(-1)[0]) or bound.ndim > max(1, len(x.shape)):
        raise refuse("node-shape", f"a bound of shape {list(bound.shape)} with several values", "one number")
    if broadcast(x.shape, bound.shape) != x.shape:
        raise refuse("node-shape", f"a bound of shape {list(bound.shape)}", "one number")
    return x, float(bound.reshape(-1)[0])


def leaky_relu(call: Call) -> Data:
    return call.builder.unary(call.data(), Leaky, slope=call.number("alpha", 0.01))


def prelu(call: Call) -> Data:
    call.arity(2, 2)
    x, slope = call.data(), call.real(1)
    if slope.size and np.all(slope == slope.reshape(-1)[0]) and broadcast(x.shape, slope.shape) == x.shape:
        return call.builder.unary(x, Leaky, slope=float(slope.reshape(-1)[0]))
    b = call.builder
    above, below = b.clamp(x, 0.0, math.inf), b.clamp(x, -math.inf, 0.0)
    return b.sum([above, b.affine(below, slope, _ZERO)])


def sigmoid(call: Call) -> Data:
    return call.builder.function(call.data(), "sigmoid")


def tanh(call: Call) -> Data:
    return call.builder.function(call.data(), "tanh")


def softplus(call: Call) -> Data:
    return call.builder.function(call.data(), "softplus")


def elu(call: Call) -> Data:
    return call.builder.function(call.data(), "elu", call.number("alpha", 1.0))


def gelu(call: Call) -> Data:
    approximate = call.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise refuse("attribute", f"approximate {approximate!r}", "none or tanh")
    return call.builder.function(call.data(), "gelu" if approximate == "none" else "gelu-tanh")


def erf(call: Call) -> Data:
    return call.builder.function(call.data(), "erf")


def hard_sigmoid(call: Call) -> Data:
    return call.builder.function(call.data(), "hard-sigmoid", call.number("alpha", 0.2), call.number("beta", 0.5))


def hard_swish(call: Call) -> Data:
    return call.builder.function(call.data(), "hard-swish")


def batch_normalization(call: Call) -> Data:
    call.arity(5, 5)
    call.ignore("momentum")
    x = call.data()
    if call.integer("training_mode", 0) or call.integer("spatial", 1) != 1:
        raise refuse("attribute", "training mode", "evaluation", "export with model.eval()")
    scale, bias, mean, variance = (call.real(i) for i in range(1, 5))
    channels = x.shape[1] if len(x.shape) > 1 else 1
    if any(v.shape != (channels,) for v in (scale, bias, mean, variance)) or len(x.shape) < 2:
        raise refuse("node-shape", f"parameters of shape {list(scale.shape)}", f"four of shape [{channels}]")
    spread = variance + call.number("epsilon", 1e-5)
    if np.any(spread <= 0.0):
        raise refuse("tensor-value", "a variance that is not positive", "positive variances")
    factor = scale / np.sqrt(spread)
    axes = (1, -1, *(1,) * (len(x.shape) - 2))
    return call.builder.affine(x, factor.reshape(axes), (bias - mean * factor).reshape(axes))
