"""Poolings, reductions and padding; averages are depthwise convolutions with equal weights."""

from __future__ import annotations

import math

import numpy as np

from sitsedge.compiler.graph.float_graph import MaxPool, Shape
from sitsedge.compiler.importer.builder import Data, graph_shape
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import VALUE_ELEMENTS_MAX, refuse, require
from sitsedge.compiler.importer.operators.linear import KERNEL_MAX, convolve, per_axis, window_pads, window_space
from sitsedge.compiler.importer.tensors import Array


def max_pool(call: Call) -> Data:
    if len([name for name in call.node.output if name]) != 1:
        raise refuse("node-shape", "a second output with indices", "one output")
    call.ignore("storage_order")
    x = call.data()
    kernel, strides, pads, dilations, extra = _pooling(call, x)
    n = len(kernel)
    pads = (*pads[:n], *(p + e for p, e in zip(pads[n:], extra, strict=True)))
    return _max_pool(call, x, kernel, strides, pads, dilations)


def _max_pool(call: Call, x: Data, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape) -> Data:
    b = call.builder
    shape = (x.shape[1], *window_space(x.shape[1], x.shape[2:], kernel, strides, pads, dilations))
    b.work(math.prod(shape) * math.prod(kernel))
    node = MaxPool(
        name=b.fresh(),
        inputs=(x.name,),
        shape=shape,
        origin=b.origin,
        kernel=kernel,
        strides=strides,
        pads=pads,
        dilations=dilations,
    )
    return Data(b.add(node).name, (1, *shape), x.quantised)


def _pooling(call: Call, x: Data) -> tuple[Shape, Shape, Shape, Shape, Shape]:
    """Kernel, strides, pads, dilations and the cells ceil_mode adds at the end of each axis."""
    n = len(x.shape) - 2
    kernel = tuple(call.ints("kernel_shape") or ())
    if n not in (1, 2) or x.shape[0] != 1 or len(kernel) != n or any(not 1 <= k <= KERNEL_MAX for k in kernel):
        raise refuse(
            "node-shape", f"kernel {list(kernel)} over {list(x.shape)}", "1-D or 2-D pooling of [1, channels, …]"
        )
    strides, dilations = per_axis(call, "strides", n), per_axis(call, "dilations", n)
    size = x.shape[2:]
    pads = window_pads(call, size, kernel, strides, dilations)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    if any(max(pads[i], pads[i + n]) >= reach[i] for i in range(n)):
        raise refuse("attribute", f"pads {list(pads)}", "padding smaller than the kernel")
    space = window_space(x.shape[1], size, kernel, strides, pads, dilations)
    extra = [0] * n
    if call.integer("ceil_mode", 0):
        for i in range(n):
            whole = size[i] + pads[i] + pads[i + n]
            windows = -(-(whole - reach[i]) // strides[i]) + 1
            if (windows - 1) * strides[i] >= size[i] + pads[i]:
                windows -= 1
            extra[i] = max(0, (windows - 1) * strides[i] + reach[i] - whole) if windows > space[i] else 0
    return kernel, strides, pads, dilations, tuple(extra)


def average_pool(call: Call) -> Data:
    x = call.data()
    kernel, strides, pads, dilations, extra = _pooling(call, x)
    n = len(kernel)
    extended = (*pads[:n], *(p + e for p, e in zip(pads[n:], extra, strict=True)))
    made = _average(call, x, kernel, strides, extended, dilations)
    if not any(extended):
        call.integer("count_include_pad", 0)
        return made
    inside = np.zeros([s + pads[i] + pads[i + n] + extra[i] for i, s in enumerate(x.shape[2:])])
    include = bool(call.integer("count_include_pad", 0))
    inside[tuple(slice(0, s + pads[i] + pads[i + n]) if include else slice(pads[i], pads[i] + s)
                 for i, s in enumerate(x.shape[2:]))] = 1.0  # fmt: skip
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    view = np.lib.stride_tricks.sliding_window_view(inside, reach)
    steps = tuple(slice(None, None, s) for s in (*strides, *dilations))
    counts = view[steps].sum(axis=tuple(range(n, 2 * n)))
    full = float(math.prod(kernel))
    if np.all(counts == full):
        return made
    with np.errstate(divide="ignore"):
        correction = full / counts
    return call.builder.affine(made, correction[None, None], np.zeros(()))


def _average(
    call: Call, x: Data, kernel: Shape, strides: Shape, pads: Shape, dilations: Shape, *, total: bool = False
) -> Data:
    channels = x.shape[1]
    weight = 1.0 if total else 1.0 / math.prod(kernel)
    require(channels * math.prod(kernel), VALUE_ELEMENTS_MAX, "weights of a pooling")
    weights = np.full((channels, 1, *kernel), weight)
    return convolve(call, x, weights, np.zeros(channels), strides, pads, dilations, channels)


def _spatial(x: Data) -> Shape:
    if len(x.shape) not in (3, 4) or x.shape[0] != 1:
        raise refuse("node-shape", f"data {list(x.shape)}", "[1, channels, length] or [1, channels, height, width]")
    return x.shape[2:]


def global_average_pool(call: Call) -> Data:
    x = call.data()
    size = _spatial(x)
    ones = (1,) * len(size)
    return _average(call, x, size, ones, (0,) * (2 * len(size)), ones)


def global_max_pool(call: Call) -> Data:
    x = call.data()
    size = _spatial(x)
    ones = (1,) * len(size)
    return _max_pool(call, x, size, ones, (0,) * (2 * len(size)), ones)


def reduce_mean(call: Call) -> Data:
    return _reduce(call, "mean")


def reduce_sum(call: Call) -> Data:
    return _reduce(call, "sum")


def reduce_max(call: Call) -> Data:
    return _reduce(call, "max")


def _reduce(call: Call, how: str) -> Data:
    """Brought to one row a result: (1, results, reduced elements), then pooled along the last axis."""
    x = call.data()
    rank = len(x.shape)
    given = call.ints_anywhere("axes", 1)
    # Read in any case: exporters write it beside axes that are given.
    if call.integer("noop_with_empty_axes", 0) and not given:
        return x
    axes = list(range(rank)) if not given else call.axes(given, rank)
    keep = bool(call.integer("keepdims", 1))
    shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    final = shape if keep else tuple(d for i, d in enumerate(x.shape) if i not in axes)
    b = call.builder
    kept = [i for i in range(rank) if i not in axes]
    n = math.prod(x.shape[a] for a in axes)
    if axes == [2, 3] and rank == 4 and x.shape[0] == 1:
        rows, size = x, x.shape[2:]
    else:
        order = np.arange(x.size, dtype=np.int64).reshape(x.shape).transpose([*kept, *axes])
        rows, size = b.select(x, order.reshape(1, x.size // n, n)), (n,)
    ones, pads = (1,) * len(size), (0,) * (2 * len(size))
    if how == "max":
        made = _max_pool(call, rows, size, ones, pads, ones)
    else:
        made = _average(call, rows, size, ones, pads, ones, total=how == "sum")
    return b.reshape(made, final)


def pad(call: Call) -> Data:
    """Zero padding: a depthwise convolution with the weight 1, which a later convolution absorbs."""
    x = call.data()
    if call.text("mode", "constant") != "constant" or call.scalar(2, 0.0) != 0.0 or call.number("value", 0.0) != 0.0:
        raise refuse("attribute", "padding other than zeros", "mode constant with the value 0")
    listed = call.ints_anywhere("pads", 1) or []
    rank = len(x.shape)
    chosen = call.input_ints(3)
    axes = list(range(rank)) if chosen is None else [call.axis(a, rank) for a in chosen]
    if len(listed) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise refuse("node-shape", f"{len(listed)} pads", f"{2 * len(axes)} pads")
    begins, ends = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begins[axis], ends[axis] = listed[i], listed[i + len(axes)]
    if not any((*begins, *ends)):
        return x
    inside = not begins[0] and not ends[0] and all(0 <= p <= KERNEL_MAX for p in (*begins, *ends))
    if rank not in (3, 4) or x.shape[0] != 1 or not inside:
        raise refuse("node-shape", f"pads {listed[:8]} of {list(x.shape)}", "non-negative pads of [1, channels, …]")
    return _padded(call, x, begins[1:], ends[1:])


def _padded(call: Call, x: Data, begins: list[int], ends: list[int]) -> Data:
    b, n = call.builder, len(x.shape) - 2
    ones = (1,) * n
    if not begins[0] and not ends[0]:
        weights: Array = np.ones((x.shape[1], 1, *ones))
        pads = (*begins[1:], *ends[1:])
        return convolve(call, x, weights, np.zeros(x.shape[1]), ones, pads, ones, x.shape[1])
    # Channels or channels-last data are padded too: all axes become the two of one channel where they fit.
    if n == 1:
        picture = b.reshape(x, (1, 1, *graph_shape(x.shape)))
        made = convolve(call, picture, np.ones((1, 1, 1, 1)), np.zeros(1), (1, 1), (*begins, *ends), (1, 1), 1)
        return b.reshape(made, made.shape[1:])
    channels_last = not begins[2] and not ends[2]
    if not channels_last:
        raise refuse("node-shape", "padding of all three axes", "padding of two axes")
    order = np.arange(x.size, dtype=np.int64).reshape(x.shape).transpose(0, 3, 1, 2)
    turned = b.select(x, order)
    made = convolve(
        call, turned, np.ones((x.shape[3], 1, 1, 1)), np.zeros(x.shape[3]), (1, 1),
        (*begins[:2], *ends[:2]), (1, 1), x.shape[3],
    )  # fmt: skip
    back = np.arange(made.size, dtype=np.int64).reshape(made.shape).transpose(0, 2, 3, 1)
    return b.select(made, back)
