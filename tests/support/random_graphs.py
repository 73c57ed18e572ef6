"""Random integer graphs over every node, small and inside every number format, for the property tests of all back ends.

``random_graph(seed)`` is deterministic. ``interesting_rows(graph, seed)`` gives inputs inside the box: corners, random
ones, and ones that step across requantise boundaries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from sitsedge.compiler.graph.integer_graph import INT16_MAX, Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_values import TABLE_MAX, Shape, elements
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds, node_bounds, prove
from sitsedge.compiler.graph.reference import run

ELEMENTS_SMALL = 40
"""Values stay this small, so that a circuit of one graph has a few thousand rows at most."""


class _Growing:
    """A graph under construction with the bounds of every value so far."""

    def __init__(self, rng: np.random.Generator, source: Input) -> None:
        self.rng = rng
        self.source = source
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {source.name: source.shape}
        self.bounds = {source.name: ValueBounds(source.box_low, source.box_high)}
        self.read: set[str] = set()

    def fresh(self) -> str:
        return f"v{len(self.nodes)}"

    def add(self, node: Node) -> str:
        self.shapes[node.name] = node.shape_of(*(self.shapes[name] for name in node.sources))
        self.bounds[node.name] = node_bounds(node, *(self.bounds[name] for name in node.sources))
        self.read.update(node.sources)
        self.nodes.append(node)
        return node.name

    def pick(self, *, rank: int | None = None) -> str | None:
        """A value, rather one nothing reads yet, then rather a late one."""
        names = [name for name, shape in self.shapes.items() if rank is None or len(shape) == rank]
        fresh = [name for name in names if name not in self.read]
        pool = fresh if fresh and self.rng.random() < 0.8 else names
        return pool[-1 - int(self.rng.integers(min(3, len(pool))))] if pool else None


def random_graph(seed: int, *, nodes: int | None = None, wide_output: bool = True) -> IntegerGraph:
    """A valid, proven graph of about ``nodes`` (else 2 to 7) steps; with ``wide_output`` its output may leave int16."""
    rng = np.random.default_rng(seed)
    growing = _Growing(rng, _input(rng))
    for _ in range(nodes or int(rng.integers(2, 8))):
        rng.choice(_STEPS)(growing)
    current = _join(growing)
    ending = rng.random()
    if ending < 0.15:
        growing.add(ArgMax(growing.fresh(), current))
    elif ending < 0.8 or not growing.nodes:
        _dense(growing, source=current, last=wide_output)
    graph = IntegerGraph.make(growing.source, tuple(growing.nodes))
    prove(graph)
    return graph


def _input(rng: np.random.Generator) -> Input:
    rank = int(rng.integers(1, 4))
    limits = {1: [(1, 9)], 2: [(1, 4), (1, 9)], 3: [(1, 4), (1, 5), (1, 5)]}[rank]
    shape = tuple(int(rng.integers(*limit)) for limit in limits)
    edge = int(rng.choice([3, 63, 600, 32767]))
    low = rng.integers(-edge - 1, edge + 1, shape)
    if rng.random() < 0.3:
        low, edge = np.zeros(shape, np.int64), 63
    high = np.minimum(low + rng.integers(0, 2 * edge + 1, shape), INT16_MAX)
    return Input.make("x", shape, box_low=low, box_high=high)


def _flat(growing: _Growing, source: str) -> str:
    size = elements(growing.shapes[source])
    if growing.shapes[source] == (size,):
        return source
    return growing.add(Select.make(growing.fresh(), source, indices=np.arange(size), shape=(size,)))


def _join(growing: _Growing) -> str:
    """One flat value of everything nothing reads yet."""
    loose = [name for name in growing.shapes if name not in growing.read]
    flat = tuple(_flat(growing, name) for name in loose)
    return flat[0] if len(flat) == 1 else growing.add(Concat.make(growing.fresh(), flat))


def _requantised(growing: _Growing, make: Any, channels: int, *, last: bool) -> str:
    """Adds ``make(weights scale, shift, low, high)`` with shifts and weights such that every format holds."""
    rng = growing.rng
    shift = rng.integers(0, 5, channels) * int(rng.integers(0, 3))
    low, high = np.full(channels, -(1 << 31)), np.full(channels, (1 << 31) - 1)
    style = rng.random()
    if style < 0.45:
        low = np.zeros(channels, np.int64)
        high = np.where(rng.random() < 0.5, 127, high)
    elif style < 0.7:
        low = rng.integers(-60, 60, channels)
        high = low + rng.integers(0, 300, channels)
    halvings = 0
    while True:
        node = make(halvings, shift, low, high)
        bound = node_bounds(node, growing.bounds[node.sources[0]])
        acc = bound.accumulator
        assert acc is not None
        if acc.partial_low.min() < -(1 << 31) or acc.partial_high.max() >= 1 << 31:
            halvings += 1
        elif not last and max(-int(bound.low.min()), int(bound.high.max())) > INT16_MAX:
            shift = np.minimum(shift + 1, 30)
        else:
            return growing.add(node)


def _weights(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    edge = int(rng.choice([1, 7, 127]))
    return rng.integers(-edge, edge + 1, shape) * (rng.random(shape) < 0.8)


def _dense(growing: _Growing, *, source: str | None = None, last: bool = False) -> str:
    rng = growing.rng
    if source is None:
        picked = growing.pick()
        assert picked is not None
        source = picked
    source = _flat(growing, source)
    inputs, outputs = growing.shapes[source][0], int(rng.integers(1, 9))
    weights, bias = _weights(rng, (outputs, inputs)), rng.integers(-3000, 3000, outputs)
    in_shift = rng.integers(0, 4, inputs) if rng.random() < 0.3 else np.zeros(inputs, np.int64)
    name = growing.fresh()
    return _requantised(
        growing,
        lambda halvings, shift, low, high: Dense.make(
            name, source, weights=weights >> halvings, bias=bias, shift=shift, low=low, high=high,
            in_shift=np.maximum(in_shift - halvings, 0),
        ),
        outputs,
        last=last,
    )  # fmt: skip


def _window(rng: np.random.Generator, shape: Shape, *, dilate: bool) -> dict[str, Any]:
    """Kernel, strides, pads and dilations that fit a source of ``shape``."""
    sizes = (1, shape[1]) if len(shape) == 2 else shape[1:]
    kernel, strides, before, after, dilations = [], [], [], [], []
    for axis, length in enumerate(sizes):
        single = len(shape) == 2 and axis == 0
        k = 1 if single else int(rng.integers(1, min(3, length) + 1))
        d = int(rng.integers(1, 3)) if dilate and k > 1 and (k - 1) * 2 + 1 <= length else 1
        pads = [0, 0] if single else [int(p) for p in rng.integers(0, k, 2)]
        kernel.append(k)
        dilations.append(d)
        strides.append(1 if single else int(rng.integers(1, 3)))
        before.append(pads[0])
        after.append(pads[1])
    found: dict[str, Any] = {"kernel": tuple(kernel), "strides": tuple(strides), "pads": (*before, *after)}
    return found | ({"dilations": tuple(dilations)} if dilate else {})


def _conv(growing: _Growing) -> str | None:
    rng = growing.rng
    source = growing.pick(rank=int(rng.integers(2, 4))) or growing.pick(rank=2) or growing.pick(rank=3)
    if source is None:
        return _dense(growing)
    shape = growing.shapes[source]
    window = _window(rng, shape, dilate=True)
    kernel = window.pop("kernel")
    inputs = shape[0]
    groups = int(rng.choice([g for g in range(1, inputs + 1) if inputs % g == 0]))
    outputs = groups * int(rng.integers(1, max(2, 5 // groups)))
    weights = _weights(rng, (outputs, inputs // groups, *kernel))
    bias = rng.integers(-3000, 3000, outputs)
    in_shift = rng.integers(0, 3, inputs) if rng.random() < 0.2 else np.zeros(inputs, np.int64)
    name = growing.fresh()
    return _requantised(
        growing,
        lambda halvings, shift, low, high: Conv.make(
            name, source, weights=weights >> halvings, bias=bias, shift=shift, low=low, high=high,
            in_shift=np.maximum(in_shift - halvings, 0), groups=groups, **window,
        ),
        outputs,
        last=False,
    )  # fmt: skip


def _sum(growing: _Growing) -> str | None:
    rng = growing.rng
    source = growing.pick()
    assert source is not None
    shape = growing.shapes[source]
    same = [name for name in growing.shapes if growing.shapes[name] == shape]
    sources = tuple(str(name) for name in rng.choice(same, int(rng.integers(2, 4))))
    sources = (source, *sources[1:])
    ups = tuple(int(up) for up in rng.integers(0, 4, len(sources)))
    shift = int(rng.integers(0, 5))
    low, high = (-(1 << 31), (1 << 31) - 1) if rng.random() < 0.5 else (0, int(rng.integers(1, 300)))
    name = growing.fresh()
    while True:
        node = Sum.make(name, sources, up_shifts=ups, shift=shift, low=low, high=high)
        bound = node_bounds(node, *(growing.bounds[name] for name in sources))
        if max(-int(bound.low.min()), int(bound.high.max())) <= INT16_MAX:
            return growing.add(node)
        shift += 1


def _product(growing: _Growing) -> str | None:
    """A gate of one channel each, a square, or a product of two values."""
    rng = growing.rng
    source = growing.pick()
    assert source is not None
    shape = growing.shapes[source]
    fitting = [name for name, other in growing.shapes.items() if other in (shape, (shape[0], *(1,) * (len(shape) - 1)))]
    if rng.random() < 0.4 and len(shape) > 1:
        gates = growing.add(
            Select.make(
                growing.fresh(),
                source,
                indices=rng.integers(0, elements(shape), shape[0]),
                shape=(shape[0], *(1,) * (len(shape) - 1)),
            )
        )
        fitting = [gates]
    other = str(rng.choice(fitting))
    shift = int(rng.integers(0, 9))
    low, high = (-(1 << 31), (1 << 31) - 1) if rng.random() < 0.5 else (int(rng.integers(-90, 1)), 127)
    name = growing.fresh()
    while True:
        node = Product.make(name, source, other, shift=shift, low=low, high=high)
        bound = node_bounds(node, growing.bounds[source], growing.bounds[other])
        if max(-int(bound.low.min()), int(bound.high.max())) <= INT16_MAX:
            return growing.add(node)
        shift += 1


def _max_pool(growing: _Growing) -> str | None:
    source = growing.pick(rank=2) if growing.rng.random() < 0.4 else growing.pick(rank=3)
    if source is None:
        return _dense(growing)
    window = _window(growing.rng, growing.shapes[source], dilate=False)
    return growing.add(MaxPool.make(growing.fresh(), source, **window))


def _leaky(growing: _Growing) -> str | None:
    source = growing.pick()
    assert source is not None
    shift = int(growing.rng.integers(0, 8))
    multiplier = int(growing.rng.integers(0, (1 << shift) + 1))
    return growing.add(Leaky.make(growing.fresh(), source, multiplier=multiplier, shift=shift))


def _table(growing: _Growing) -> str | None:
    source = growing.pick()
    assert source is not None
    low, high = int(growing.bounds[source].low.min()), int(growing.bounds[source].high.max())
    rng = growing.rng
    if high - low + 1 > min(TABLE_MAX, 600):
        # Sum alone clamps whatever it is given, which is how the quantiser brings a value into a table.
        source = growing.add(Sum.make(growing.fresh(), (source,), shift=int(rng.integers(0, 8)), low=-70, high=90))
        low, high = int(growing.bounds[source].low.min()), int(growing.bounds[source].high.max())
    first = low - int(rng.integers(0, 3)) if low > -32000 else low
    size = high - first + 1 + int(rng.integers(0, 3))
    edge = int(rng.choice([1, 127, 3000]))
    values = rng.integers(-edge, edge + 1, size)
    if rng.random() < 0.5:
        values = np.sort(values)
    return growing.add(Table.make(growing.fresh(), source, values=values, first=first))


def _select(growing: _Growing) -> str | None:
    source = growing.pick()
    assert source is not None
    rng = growing.rng
    size = elements(growing.shapes[source])
    if rng.random() < 0.5:
        indices = rng.permutation(size)
    else:
        indices = rng.integers(0, size, int(rng.integers(1, min(size, 20) + 1)))
    shapes: list[Shape] = [(indices.size,)]
    shapes += [(d, indices.size // d) for d in range(1, indices.size + 1) if indices.size % d == 0]
    shapes += [(d, indices.size // d // 2, 2) for d in range(1, indices.size) if indices.size % (2 * d) == 0]
    shape = shapes[int(rng.integers(len(shapes)))]
    return growing.add(Select.make(growing.fresh(), source, indices=indices, shape=shape))


def _concat(growing: _Growing) -> str | None:
    rng = growing.rng
    source = growing.pick()
    assert source is not None
    shape = growing.shapes[source]
    axis = int(rng.integers(len(shape)))
    fitting = [
        name
        for name, other in growing.shapes.items()
        if len(other) == len(shape) and other[:axis] + other[axis + 1 :] == shape[:axis] + shape[axis + 1 :]
    ]
    sources = (source, *(str(name) for name in rng.choice(fitting, int(rng.integers(0, 2)))))
    if elements(shape) * len(sources) > 2 * ELEMENTS_SMALL:
        return _max_pool(growing)
    return growing.add(Concat.make(growing.fresh(), sources, axis=axis))


_STEPS: Any = np.array(
    [_dense, _conv, _conv, _sum, _product, _max_pool, _max_pool, _leaky, _table, _select, _concat], dtype=object
)

graphs = st.integers(0, 2**32 - 1).map(random_graph)


def interesting_rows(graph: IntegerGraph, seed: int, count: int = 40) -> np.ndarray:
    """Inputs inside the box (rows, inputs): corners, random ones, and neighbours between which an output changes."""
    rng = np.random.default_rng(seed)
    n = graph.n_inputs
    low, high = graph.input.box_low.reshape(-1), graph.input.box_high.reshape(-1)
    corners = np.where(rng.integers(0, 2, (count, n)) == 1, high, low)
    corners[: min(2, count)] = np.stack([low, high])[: min(2, count)]
    inside = rng.integers(low, high + 1, (count, n))
    return np.concatenate([corners, inside, _boundaries(graph, corners, inside)])


def _boundaries(graph: IntegerGraph, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Pairs of inputs one small step apart with different outputs, found by halving the way between two inputs."""
    a, b = start.copy(), end.copy()
    at_a = run(graph, a)
    for _ in range(16):
        middle = (a + b) >> 1
        same = (run(graph, middle) == at_a).all(axis=1)
        a[same], b[~same] = middle[same], middle[~same]
    return np.concatenate([a, b])
