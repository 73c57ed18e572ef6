"""Float graphs of every kind for the quantiser's tests, with inputs in units far apart and seeded weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sitsedge.compiler.graph.float_graph import (
    Affine,
    ArgMax,
    Clamp,
    Concat,
    Conv,
    Dense,
    FloatGraph,
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
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.quantise import Scales


class Net:
    """Builds a graph node by node; every method returns the name of its value."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Node] = [Input(name="x", inputs=(), shape=shape)]
        self.shapes: dict[str, Shape] = {"x": shape}

    def add(self, kind: Any, inputs: tuple[str, ...], shape: Shape, **more: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(kind(name=name, inputs=inputs, shape=shape, **more))
        self.shapes[name] = shape
        return name

    def dense(self, x: str, out: int, *, low: float = -math.inf, high: float = math.inf) -> str:
        n = math.prod(self.shapes[x])
        x = self.flat(x)
        weights = self.rng.normal(0, (2 / n) ** 0.5, (out, n))
        return self.add(Dense, (x,), (out,), weights=weights, bias=self.rng.normal(0, 0.1, out), low=low, high=high)

    def flat(self, x: str) -> str:
        n = math.prod(self.shapes[x])
        return x if self.shapes[x] == (n,) else self.add(Select, (x,), (n,), indices=np.arange(n))

    def conv(self, x: str, out: int, k: int = 3, *, groups: int = 1, stride: int = 1, low: float = -math.inf,
             high: float = math.inf, pad: int | None = None) -> str:  # fmt: skip
        channels, *space = self.shapes[x]
        pad = k // 2 if pad is None else pad
        n = len(space)
        sizes = tuple((size + 2 * pad - k) // stride + 1 for size in space)
        fan = channels // groups * k**n
        weights = self.rng.normal(0, (2 / fan) ** 0.5, (out, channels // groups, *(k,) * n))
        return self.add(
            Conv, (x,), (out, *sizes), weights=weights, bias=self.rng.normal(0, 0.1, out), strides=(stride,) * n,
            pads=(pad,) * (2 * n), dilations=(1,) * n, groups=groups, low=low, high=high,
        )  # fmt: skip

    def mean(self, x: str) -> str:
        """Global average: a depthwise convolution over everything."""
        channels, *space = self.shapes[x]
        count = math.prod(space)
        weights = np.full((channels, 1, *space), 1 / count)
        n = len(space)
        return self.add(
            Conv, (x,), (channels, *(1,) * n), weights=weights, bias=np.zeros(channels), strides=(1,) * n,
            pads=(0,) * (2 * n), dilations=(1,) * n, groups=channels,
        )  # fmt: skip

    def affine(self, x: str, factor: Any, offset: Any) -> str:
        return self.add(Affine, (x,), self.shapes[x], factor=np.asarray(factor), offset=np.asarray(offset))

    def pool(self, x: str, k: int = 2) -> str:
        channels, *space = self.shapes[x]
        n = len(space)
        shape = (channels, *(size // k for size in space))
        return self.add(MaxPool, (x,), shape, kernel=(k,) * n, strides=(k,) * n, pads=(0,) * 2 * n, dilations=(1,) * n)

    def plus(self, *x: str, low: float = -math.inf, high: float = math.inf) -> str:
        return self.add(Sum, x, self.shapes[x[0]], low=low, high=high)

    def times(self, a: str, b: str) -> str:
        return self.add(Product, (a, b), self.shapes[a])

    def clamp(self, x: str, low: float, high: float) -> str:
        return self.add(Clamp, (x,), self.shapes[x], low=low, high=high)

    def function(self, x: str, function: str, *parameters: float) -> str:
        return self.add(Function, (x,), self.shapes[x], function=function, parameters=parameters)

    def leaky(self, x: str, slope: float = 0.1) -> str:
        return self.add(Leaky, (x,), self.shapes[x], slope=slope)

    def concat(self, *x: str, axis: int = 0) -> str:
        shape = list(self.shapes[x[0]])
        shape[axis] = sum(self.shapes[name][axis] for name in x)
        return self.add(Concat, x, tuple(shape), axis=axis)

    def select(self, x: str, indices: Any, shape: Shape) -> str:
        return self.add(Select, (x,), shape, indices=np.asarray(indices).reshape(shape))

    def softmax(self, x: str) -> str:
        return self.add(Softmax, (x,), self.shapes[x])

    def argmax(self, x: str) -> str:
        return self.add(ArgMax, (x,), (1,))

    def graph(self, output: str) -> FloatGraph:
        return FloatGraph(tuple(self.nodes), output)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A graph with scales and rows in physical units; the input's channels are normalised by the graph's first node."""

    graph: FloatGraph
    scales: Scales
    counts: np.ndarray
    raw: np.ndarray


def normalised(net: Net) -> tuple[str, np.ndarray, np.ndarray]:
    """An Affine that brings inputs of very different units to about one, and these units: mean and deviation."""
    shape = net.shapes["x"]
    mean = net.rng.normal(0, 1, shape[0]) * 10.0 ** net.rng.integers(0, 4, shape[0])
    deviation = np.maximum(np.abs(mean) * net.rng.uniform(0.02, 0.3, shape[0]), 0.05)
    return net.affine("x", 1 / deviation, -mean / deviation), mean, deviation


def case(net: Net, output: str, mean: np.ndarray, deviation: np.ndarray, *, rows: int = 400, steps: int = 4000) -> Case:
    """Smooth random rows within three deviations; output scales give each output ``steps`` counts of its span."""
    graph = net.graph(output)
    shape = net.shapes["x"]
    wide = (-1, *(1,) * (len(shape) - 1))
    base = net.rng.normal(0, 1, (rows, *shape))
    smooth = base + (np.roll(base, 1, axis=-1) if len(shape) > 1 else 0)
    raw = mean.reshape(wide) + np.clip(smooth / 1.4, -3, 3) * deviation.reshape(wide)
    scale = np.broadcast_to((deviation / 200).reshape(wide), shape)
    counts = np.rint(raw / scale).astype(np.int64)
    low = np.floor((mean - 3.1 * deviation).reshape(wide) / scale).astype(np.int64)
    high = np.ceil((mean + 3.1 * deviation).reshape(wide) / scale).astype(np.int64)
    low, high = (np.broadcast_to(end, shape).reshape(-1) for end in (low, high))
    wanted = run(graph, raw).reshape(rows, -1)
    outputs = np.maximum(np.ptp(wanted, axis=0), 1e-3) / steps
    if graph.by_name()[graph.output].kind in ("ArgMax", "Softmax"):
        outputs = np.ones(1)
    scales = Scales(scale.reshape(-1), outputs, low, high)
    return Case(graph, scales, counts.reshape(rows, -1), (counts * scale).reshape(rows, -1))


def mlp_tanh(seed: int) -> Case:
    net = Net(seed, (6,))
    x, mean, deviation = normalised(net)
    x = net.function(net.dense(x, 10), "tanh")
    x = net.function(net.dense(x, 8), "sigmoid")
    return case(net, net.dense(x, 2), mean, deviation)


def cnn_1d(seed: int) -> Case:
    net = Net(seed, (3, 16))
    x, mean, deviation = normalised(net)
    x = net.pool(net.conv(x, 6, low=0.0))
    x = net.conv(x, 8, stride=2, low=0.0)
    return case(net, net.dense(net.mean(x), 2), mean, deviation)


def cnn_2d_residual(seed: int) -> Case:
    net = Net(seed, (2, 5, 5))
    x, mean, deviation = normalised(net)
    x = net.conv(x, 4, low=0.0)
    y = net.conv(net.conv(x, 4, groups=4, low=0.0, high=6.0), 4, 1)
    x = net.plus(x, y, low=0.0)
    x = net.plus(x, net.conv(x, 4))
    return case(net, net.dense(net.mean(net.leaky(x)), 3), mean, deviation)


def branches(seed: int) -> Case:
    net = Net(seed, (2, 12))
    x, mean, deviation = normalised(net)
    a = net.leaky(net.conv(x, 3))
    b = net.function(net.conv(x, 3, 5), "hard-swish")
    joined = net.concat(a, b, axis=1)
    c = net.conv(joined, 4, low=0.0)
    turned = net.select(c, np.arange(96).reshape(4, 24).T, (24, 4))
    d = net.function(net.conv(turned, 2), "hard-sigmoid", 0.2, 0.5)
    return case(net, net.concat(net.dense(d, 2), net.dense(c, 1)), mean, deviation)


def classifier(seed: int) -> Case:
    net = Net(seed, (2, 12))
    x, mean, deviation = normalised(net)
    x = net.pool(net.conv(x, 8, low=0.0))
    return case(net, net.softmax(net.dense(x, 4)), mean, deviation)


def sigmoid_head(seed: int) -> Case:
    net = Net(seed, (5,))
    x, mean, deviation = normalised(net)
    x = net.clamp(net.dense(x, 8), -1.0, 1.0)
    return case(net, net.function(net.dense(x, 2), "sigmoid"), mean, deviation)


def straight_into_a_sum(seed: int) -> Case:
    """The input itself is read by a sum, a table and the output: all need factors the limits file does not give."""
    net = Net(seed, (4,))
    mean, deviation = np.zeros(4), np.array([1.0, 2.0, 0.5, 1.0])
    x = net.plus("x", net.dense("x", 4))
    y = net.function("x", "tanh")
    return case(net, net.plus(x, y), mean, deviation)


def gated(seed: int) -> Case:
    """Squeeze and excitation, a gated value in a residual sum, and a square as the output."""
    net = Net(seed, (3, 12))
    x, mean, deviation = normalised(net)
    x = net.function(net.conv(x, 6), "hard-swish")
    gate = net.function(net.conv(net.conv(net.mean(x), 2, 1, low=0.0), 6, 1), "hard-sigmoid", 0.2, 0.5)
    y = net.times(x, gate)
    x = net.plus(net.conv(y, 6, low=0.0), y)
    z = net.dense(net.mean(x), 2)
    return case(net, net.times(z, z), mean, deviation)


CASES = {
    f.__name__: f
    for f in (mlp_tanh, cnn_1d, cnn_2d_residual, branches, classifier, sigmoid_head, straight_into_a_sum, gated)
}
