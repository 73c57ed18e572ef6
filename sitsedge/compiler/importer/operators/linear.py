"""Gemm, MatMul and Conv, and the window arithmetic they share with the poolings."""

from __future__ import annotations

import math

import numpy as np

from sitsedge.compiler.graph.float_graph import Conv, Floats, Shape
from sitsedge.compiler.graph.float_run import window_count
from sitsedge.compiler.importer.builder import Data, broadcast
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import VALUE_ELEMENTS_MAX, WINDOWS_MAX, refuse, require

KERNEL_MAX = 1024
"""Longest kernel, stride, dilation or padding along one axis, except where a pooling covers the whole axis."""


def gemm(call: Call) -> Data:
    call.arity(2, 3)
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    x, weights = call.data(), call.real(1)
    if call.integer("transA", 0):
        raise refuse("attribute", "transA set", "transA = 0", "transpose the data before the model")
    if call.integer("transB", 0):
        weights = weights.T
    if len(x.shape) != 2 or weights.ndim != 2 or x.shape[1] != weights.shape[0] or x.shape[0] != 1:
        raise refuse("node-shape", f"{list(x.shape)} × {list(weights.shape)}", "[batch, n] × [n, outputs]")
    outputs = int(weights.shape[1])
    bias = np.zeros(outputs)
    if call.has(2):
        given = beta * call.real(2)
        if broadcast(given.shape, (1, outputs)) != (1, outputs):
            raise refuse("node-shape", f"a bias of shape {list(given.shape)}", f"[{outputs}]")
        bias = np.broadcast_to(given, (1, outputs)).reshape(-1).copy()
    return call.builder.dense(x, alpha * weights.T, bias, (1, outputs))


def matmul(call: Call) -> Data:
    call.arity(2, 2)
    if call.is_data(0) and call.is_data(1):
        raise refuse("not-constant", "a product of two computed values", "data × constant weights")
    if call.is_data(0):
        return product(call, call.data(0), call.real(1))
    x, weights = call.data(1), call.real(0)
    # W·x = (xᵀ·Wᵀ)ᵀ on the last two axes.
    if weights.ndim != 2 or len(x.shape) < 2:
        raise refuse("node-shape", f"{list(weights.shape)} × {list(x.shape)}", "a constant matrix times data")
    turned = _swap(call, x)
    return _swap(call, product(call, turned, weights.T))


def product(call: Call, x: Data, weights: Floats) -> Data:
    """``x·weights`` over the last axis of ``x``: one dense layer, or a 1 × 1 convolution over the rows."""
    while weights.ndim > 2 and weights.shape[0] == 1 and len(x.shape) >= weights.ndim:
        weights = weights[0]
    column = weights.ndim == 1
    if column:
        weights = weights[:, None]
    if weights.ndim != 2 or not x.shape or x.shape[-1] != weights.shape[0] or weights.shape[1] < 1:
        raise refuse("node-shape", f"{list(x.shape)} × {list(weights.shape)}", f"weights [{x.shape[-1:]}, outputs]")
    inputs, outputs = weights.shape
    rows = x.size // inputs
    shape = x.shape[:-1] if column else (*x.shape[:-1], outputs)
    b, bias = call.builder, np.zeros(outputs)
    if rows == 1:
        return b.dense(x, weights.T.copy(), bias, shape)
    channels = _swap(call, b.reshape(x, (1, rows, inputs)))
    made = convolve(call, channels, weights.T.copy()[:, :, None], bias, (1,), (0, 0), (1,), 1)
    return b.reshape(_swap(call, made), shape)


def _swap(call: Call, x: Data) -> Data:
    """The last two axes exchanged."""
    order = np.arange(x.size, dtype=np.int64).reshape(x.shape)
    return call.builder.select(x, np.swapaxes(order, -1, -2))


def conv(call: Call) -> Data:
    call.arity(2, 3)
    x, weights = call.data(), call.real(1)
    bias = call.real(2) if call.has(2) else np.zeros(len(weights) if weights.ndim else 0)
    return convolution(call, x, weights, bias)


def convolution(call: Call, x: Data, weights: Floats, bias: Floats) -> Data:
    """The convolution with the attributes of ``call``."""
    groups = call.integer("group", 1)
    n = len(x.shape) - 2
    if n not in (1, 2) or x.shape[0] != 1 or weights.ndim != n + 2 or min(weights.shape) < 1:
        raise refuse(
            "node-shape",
            f"data {list(x.shape)}, weights {list(weights.shape)}",
            "a 1-D or 2-D convolution of [1, channels, …]",
            "three-dimensional convolutions are not compiled",
        )
    outputs, channels = len(weights), x.shape[1]
    if groups < 1 or outputs % groups or channels != weights.shape[1] * groups or bias.shape != (outputs,):
        raise refuse(
            "node-shape",
            f"{channels} channels, weights {list(weights.shape)}, bias {list(bias.shape)}, {groups} groups",
            "channels = weights' second dimension × groups, one bias an output",
        )
    kernel = tuple(int(d) for d in weights.shape[2:])
    if (call.ints("kernel_shape") or list(kernel)) != list(kernel):
        raise refuse("attribute", "a kernel_shape unlike the weights", f"kernel_shape {list(kernel)}")
    strides, dilations = per_axis(call, "strides", n), per_axis(call, "dilations", n)
    pads = window_pads(call, x.shape[2:], kernel, strides, dilations)
    return convolve(call, x, weights, bias, strides, pads, dilations, groups)


def convolve(
    call: Call,
    x: Data,
    weights: Floats,
    bias: Floats,
    strides: Shape,
    pads: Shape,
    dilations: Shape,
    groups: int,
) -> Data:
    """Append a convolution; all its numbers are checked but the window arithmetic."""
    space = window_space(x.shape[1], x.shape[2:], weights.shape[2:], strides, pads, dilations)
    b = call.builder
    require(len(weights) * math.prod(space), VALUE_ELEMENTS_MAX, "elements of one value", "use a smaller input")
    node = Conv(
        name=b.fresh(),
        inputs=(x.name,),
        shape=(len(weights), *space),
        origin=b.origin,
        weights=np.ascontiguousarray(weights),
        bias=bias,
        strides=strides,
        pads=pads,
        dilations=dilations,
        groups=groups,
    )
    return b.conv(x, node)


def per_axis(call: Call, name: str, n: int) -> Shape:
    """Strides or dilations, one a spatial axis."""
    values = call.ints(name) or [1] * n
    if len(values) != n or any(not 1 <= v <= KERNEL_MAX for v in values):
        raise refuse("attribute", f"{name} {values[:8]}", f"{n} numbers from 1 to {KERNEL_MAX}")
    return tuple(values)


def window_pads(call: Call, size: Shape, kernel: Shape, strides: Shape, dilations: Shape) -> Shape:
    """All begins then all ends, from ``pads`` or ``auto_pad``."""
    n = len(kernel)
    auto = call.text("auto_pad", "NOTSET")
    given = call.ints("pads")
    if auto in ("NOTSET", "VALID"):
        pads = [0] * (2 * n) if given is None or auto == "VALID" else given
        if len(pads) != 2 * n or any(not 0 <= p <= KERNEL_MAX for p in pads):
            raise refuse("attribute", f"pads {pads[:8]}", f"{2 * n} numbers from 0 to {KERNEL_MAX}")
        return tuple(pads)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise refuse("attribute", f"auto_pad {auto!r}", "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    begins, ends = [], []
    for length, k, s, d in zip(size, kernel, strides, dilations, strict=True):
        total = max(0, (-(-length // s) - 1) * s + d * (k - 1) + 1 - length)
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return (*begins, *ends)


def window_space(channels: int, size: Shape, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape) -> Shape:
    """Windows along every axis; refuses kernels that do not fit and more elements than memory should hold."""
    n = len(kernel)
    space = tuple(window_count(size[i], kernel[i], strides[i], (pads[i], pads[i + n]), dilations[i]) for i in range(n))
    if min(space) < 1:
        raise refuse("node-shape", f"a kernel {list(kernel)} over {list(size)}", "a kernel inside the padded data")
    padded = channels * math.prod(size[i] + pads[i] + pads[i + n] for i in range(n))
    require(padded, WINDOWS_MAX, "padded elements", "use a smaller input")
    require(channels * math.prod(kernel) * math.prod(space), WINDOWS_MAX, "window elements", "use a smaller input")
    return space
