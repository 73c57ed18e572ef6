"""What a float graph means: numpy, float64, rows of inputs at once. Source: ONNX operator specification."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sitsedge.compiler.graph.float_graph import (
    Affine,
    ArgMax,
    Clamp,
    Clamped,
    Concat,
    Conv,
    Dense,
    FloatGraph,
    Floats,
    Function,
    Input,
    Leaky,
    MaxPool,
    Node,
    Product,
    Select,
    Shape,
    Softmax,
    Sum,
)

_SQRT_HALF = math.sqrt(0.5)
_GELU_TANH = math.sqrt(2.0 / math.pi)
_ERF = np.vectorize(math.erf, otypes=[np.float64])


def run(graph: FloatGraph, x: Floats) -> Floats:
    """Outputs (rows, \\*output shape) for inputs (rows, \\*input shape); values are freed after their last use."""
    left = graph.uses()
    values: dict[str, Floats] = {}
    for node, value in _evaluate(graph, x, values):
        values[node.name] = value
        for name in node.inputs:
            left[name] -= 1
            if not left[name]:
                values.pop(name, None)
    return values[graph.output]


def run_all(graph: FloatGraph, x: Floats) -> dict[str, Floats]:
    """Every value by name for inputs (rows, \\*input shape); for calibration of small networks."""
    values: dict[str, Floats] = {}
    for node, value in _evaluate(graph, x, values):
        values[node.name] = value
    return values


def _evaluate(graph: FloatGraph, x: Floats, values: dict[str, Floats]) -> Iterator[tuple[Node, Floats]]:
    rows = np.asarray(x, np.float64).reshape((len(x), *graph.input.shape))
    for node in graph.nodes:
        if isinstance(node, Input):
            yield node, rows
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                yield node, run_node(node, [values[name] for name in node.inputs])


def run_node(node: Node, inputs: list[Floats]) -> Floats:
    """The node's value (rows, \\*shape) from the values of its inputs, limits included."""
    value = _raw(node, inputs)
    if isinstance(node, Clamped) and node.activation != "none":
        value = np.clip(value, node.low, node.high)
    # One memory layout for equal values: matrix products round differently for different ones.
    return np.ascontiguousarray(value)


def _raw(node: Node, inputs: list[Floats]) -> Floats:
    x = inputs[0]
    match node:
        case Dense():
            return x @ node.weights.T + node.bias
        case Conv():
            return _conv(node, x)
        case Affine():
            spread = (-1, *(1,) * (len(node.shape) - 1))
            return x * node.factor.reshape(spread) + node.offset.reshape(spread)
        case Sum():
            return np.sum(np.stack(inputs), axis=0) if len(inputs) > 2 else x + inputs[1]
        case Clamp():
            return x
        case MaxPool():
            return _max_pool(node, x)
        case Leaky():
            return np.where(x >= 0.0, x, node.slope * x)
        case Function():
            return apply_function(node.function, node.parameters, x)
        case Product():
            return x * inputs[1]
        case Select():
            return x.reshape(len(x), -1)[:, node.indices.reshape(-1)].reshape((len(x), *node.shape))
        case Concat():
            return np.asarray(np.concatenate(inputs, axis=node.axis + 1), np.float64)
        case Softmax():
            flat = x.reshape(len(x), -1)
            powers = np.exp(flat - flat.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64).reshape(x.shape)
        case ArgMax():
            return np.asarray(x.reshape(len(x), -1).argmax(axis=1), np.float64)[:, None]
    raise AssertionError(f"a node of kind {node.kind}")


def apply_function(function: str, parameters: tuple[float, ...], x: Floats) -> Floats:
    """``function`` (one of ``FUNCTIONS``) on every element of ``x``."""
    match function:
        case "sigmoid":
            return _sigmoid(x)
        case "tanh":
            return np.tanh(x)
        case "hard-sigmoid":
            return np.clip(parameters[0] * x + parameters[1], 0.0, 1.0)
        case "hard-swish":
            return x * np.clip(x / 6.0 + 0.5, 0.0, 1.0)
        case "silu":
            return x * _sigmoid(x)
        case "elu":
            return np.where(x >= 0.0, x, parameters[0] * np.expm1(np.minimum(x, 0.0)))
        case "softplus":
            return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
        case "gelu":
            return np.asarray(0.5 * x * (1.0 + _ERF(x * _SQRT_HALF)), np.float64)
        case "erf":
            return np.asarray(_ERF(x), np.float64)
        case "gelu-tanh":
            return np.asarray(0.5 * x * (1.0 + np.tanh(_GELU_TANH * (x + 0.044715 * x**3))), np.float64)
    raise AssertionError(f"function {function}")


def _sigmoid(x: Floats) -> Floats:
    # Both halves use an exponential of a non-positive number, so nothing overflows.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def window_count(size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int) -> int:
    """Number of windows along one axis of ``size``; below one where the kernel does not fit."""
    return (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1


def _windows(x: Floats, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape, fill: float) -> Floats:
    """View of ``x`` (rows, C, \\*space) as (rows, C, \\*windows, \\*kernel), padded with ``fill``."""
    n = len(kernel)
    if any(pads):
        around = [(0, 0), (0, 0), *((pads[i], pads[i + n]) for i in range(n))]
        x = np.pad(x, around, constant_values=fill)
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    axes = tuple(range(2, 2 + n))
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=axes)
    steps = (slice(None),) * 2 + tuple(slice(None, None, s) for s in strides)
    return view[steps + tuple(slice(None, None, d) for d in dilations)]


def _conv(node: Conv, x: Floats) -> Floats:
    rows, channels = x.shape[:2]
    kernel = node.weights.shape[2:]
    n, groups, outputs = len(kernel), node.groups, len(node.weights)
    windows = _windows(x, kernel, node.strides, node.pads, node.dilations, 0.0)
    space = windows.shape[2 : 2 + n]
    split = windows.reshape((rows, groups, channels // groups, *windows.shape[2:]))
    # (groups, rows·space, channels/groups·kernel): one matrix product per group.
    order = (1, 0, *range(3, 3 + n), 2, *range(3 + n, 3 + 2 * n))
    columns = split.transpose(order).reshape(groups, rows * math.prod(space), -1)
    made = columns @ node.weights.reshape(groups, outputs // groups, -1).transpose(0, 2, 1)
    made = made.reshape((groups, rows, *space, outputs // groups))
    made = made.transpose((1, 0, 2 + n, *range(2, 2 + n))).reshape((rows, outputs, *space))
    return np.asarray(made + node.bias.reshape((-1, *(1,) * n)), np.float64)


def _max_pool(node: MaxPool, x: Floats) -> Floats:
    n = len(node.kernel)
    windows = _windows(x, node.kernel, node.strides, node.pads, node.dilations, -math.inf)
    return np.asarray(windows.max(axis=tuple(range(2 + n, 2 + 2 * n))), np.float64)
