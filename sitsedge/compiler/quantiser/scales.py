"""Which counts may stand for different physical values, and which must not: the freedom of every scale.

A value's element e stands for ``count · real[e]``. ReLU, clamps, maxima and slopes commute with positive factors, so
most values may have a factor of their own per channel, chosen so that weights use all their bits. Three things bind:

* what reads a value: Dense reads any factors, Conv one per channel, sums, tables and ArgMax a single one;
* a join: values that become one value of a single factor share it (they are *locked*);
* a product: its factors are its sources', times a power of two (``free_products`` gives it others);
* a sum: its sources' factors and its own lie on one grid of powers of two, so that up-shifts align them exactly.

The output's factors are those of the limits file. They are handed back to the nodes that compute it where these can
take them; otherwise a last multiplication is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.graph.float_graph import (
    Affine,
    ArgMax,
    Clamp,
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
    Sum,
)
from sitsedge.compiler.quantiser.lower import PASSING, live
from sitsedge.compiler.reference import INT16_MAX

FREE, CHANNEL, SINGLE = 0, 1, 2
"""How many factors the readers of a value allow: one per element, one per channel, one."""


@dataclass(frozen=True, slots=True, eq=False)
class Freedom:
    """For every value: ``level`` (readers' demand). For every node that chooses factors: its ``lock`` and ``grid``.

    ``lock`` maps a choosing node to the name of its set of equal factors, ``grid`` a lock to its set of factors that
    differ by powers of two. ``fixed`` holds factors (node's shape) that the limits file decides.
    """

    level: dict[str, int]
    lock: dict[str, str]
    grid: dict[str, str]
    fixed: dict[str, Floats]


def chooses(node: Node) -> bool:
    """Whether the node's factors are chosen, not inherited or given."""
    return not isinstance(node, (*PASSING, Input, ArgMax))


def demands(graph: FloatGraph) -> dict[str, int]:
    """Level of every value: the strictest demand among its readers."""
    by_name = graph.by_name()
    level = {node.name: FREE for node in graph.nodes}
    for node in reversed(graph.nodes[1:]):
        for name in node.inputs:
            level[name] = max(level[name], demand(node, level[node.name], by_name[name]))
        if isinstance(node, Sum | Clamp | Function):
            level[node.name] = SINGLE
    return level


def demand(node: Node, own: int, source: Node) -> int:
    """What ``node``, whose own value is read at level ``own``, demands of ``source``."""
    match node:
        case Dense():
            return FREE
        case Conv() | Affine():
            return CHANNEL
        case MaxPool():
            return max(own, CHANNEL)
        case Leaky() | Product():
            return own
        case Select():
            kept = own == FREE or (own == CHANNEL and _keeps_channels(node, source))
            return own if kept else SINGLE
        case Concat():
            return own if own != CHANNEL or node.axis == 0 else SINGLE
        case _:
            return SINGLE


def _keeps_channels(node: Select, source: Node) -> bool:
    """Whether every channel of the result comes from a single channel of the source."""
    channel = (node.indices.reshape(-1) // (source.size // source.shape[0])).reshape(node.shape[0], -1)
    return bool(np.all(channel == channel[:, :1]))


def roots(name: str, by_name: dict[str, Node]) -> set[str]:
    """The nodes that decide the factors of a value: itself, or what it passes on."""
    node = by_name[name]
    if not isinstance(node, PASSING):
        return {name}
    return set().union(*(roots(source, by_name) for source in node.inputs))


class _Sets:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        while (parent := self._parent.setdefault(name, name)) != name:
            name = parent
        return name

    def join(self, names: set[str]) -> None:
        first, *rest = sorted(self.find(name) for name in names)
        for name in rest:
            self._parent[name] = first


def freedom(graph: FloatGraph, fixed: dict[str, Floats]) -> Freedom:
    """Sets of bound factors; ``fixed`` comes from ``give_back``."""
    level = demands(graph)
    by_name = dict(graph.by_name())
    locks, grids = _Sets(), _Sets()
    for node in graph.nodes[1:]:
        if isinstance(node, PASSING) and level[node.name] == SINGLE:
            locks.join(roots(node.name, by_name))
        if isinstance(node, Concat) and node.axis and level[node.name] == CHANNEL:
            locks.join(roots(node.name, by_name))
    for node in graph.nodes[1:]:
        if isinstance(node, Sum | Clamp):
            bound = set().union(*(roots(name, by_name) for name in (node.name, *node.inputs)))
            grids.join({locks.find(name) for name in bound})
    choosing = [node.name for node in graph.nodes if chooses(node)]
    return Freedom(
        level=level,
        lock={name: locks.find(name) for name in choosing},
        grid={locks.find(name): grids.find(locks.find(name)) for name in choosing},
        fixed=fixed,
    )


def adapt_input(graph: FloatGraph, scales: Floats) -> FloatGraph:
    """Multiplies the input where a reader cannot take the limits file's factors; ``scales`` has the input's shape.

    The multiplication is an Affine over the flat input, so that every element may have its own factor.
    """
    source = graph.input
    level = demands(graph)
    flat = scales.reshape(source.shape[0], -1)
    per_channel = bool(np.all(flat == flat[:, :1]))
    able = {FREE: True, CHANNEL: per_channel, SINGLE: False}
    unable = {
        node.name
        for node in graph.nodes[1:]
        if source.name in node.inputs and not able[demand(node, level[node.name], source)]
    }
    if not unable:
        return graph
    size, order = source.size, np.arange(source.size)
    listed = Select(name=f"{source.name}.listed", inputs=(source.name,), shape=(size,), indices=order)
    scaled = identity(f"{source.name}.listed.scaled", listed)
    shaped = Select(
        name=f"{source.name}.scaled", inputs=(scaled.name,), shape=source.shape, indices=order.reshape(source.shape)
    )
    rest = tuple(
        replace(node, inputs=tuple(shaped.name if name == source.name else name for name in node.inputs))
        if node.name in unable
        else node
        for node in graph.nodes[1:]
    )
    return replace(graph, nodes=(source, listed, scaled, shaped, *rest))


def free_products(graph: FloatGraph) -> FloatGraph:
    """Multiplies every product by one where its readers want a single factor.

    A product's factors are those of what it multiplies, times a power of two: it cannot choose them.
    """
    level = demands(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Product) and level[node.name] == SINGLE:
            inner = replace(node, name=f"{node.name}.product")
            nodes += [inner, replace(identity(node.name, node), inputs=(inner.name,))]
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def identity(name: str, source: Node) -> Affine:
    """A multiplication by one, whose factors can be chosen."""
    channels = source.shape[0]
    return Affine(
        name=name, inputs=(source.name,), shape=source.shape, factor=np.ones(channels), offset=np.zeros(channels),
        origin=source.origin,
    )  # fmt: skip


def give_back(graph: FloatGraph, scales: Floats, largest: Mapping[str, Floats]) -> tuple[FloatGraph, dict[str, Floats]]:
    """The graph and the factors of the nodes that compute the output, from the limits file's ``scales`` (outputs,).

    ``largest`` gives the largest magnitude of every element of every value: counts that only the output may have,
    because they leave int16, are left to a last multiplication.
    """
    by_name = graph.by_name()
    output = by_name[graph.output]
    if isinstance(output, ArgMax):
        return graph, {}
    wanted = _handed_back(graph, scales.reshape(output.shape))
    if wanted is not None and _possible(graph, wanted, largest):
        return graph, wanted
    flat = Select(
        name=f"{output.name}.listed", inputs=(output.name,), shape=(output.size,), indices=np.arange(output.size)
    )
    scaled = identity(f"{output.name}.scaled", flat)
    nodes = live((*graph.nodes, flat, scaled), scaled.name)
    return replace(graph, nodes=nodes, output=scaled.name), {scaled.name: scales}


def _possible(graph: FloatGraph, wanted: dict[str, Floats], largest: Mapping[str, Floats]) -> bool:
    """Whether every node can compute the counts wanted of it, and no two demands meet in one grid."""
    by_name = graph.by_name()
    bound = freedom(graph, wanted)
    single: dict[str, float] = {}
    for name, factors in wanted.items():
        wide = bool(np.any(largest[name] > factors * INT16_MAX))
        alone = name == graph.output and not isinstance(by_name[name], Function)
        if not _takes(by_name[name], factors) or (wide and not alone):
            return False
        if bound.level[name] == SINGLE:
            grid = bound.grid[bound.lock[name]]
            first = single.setdefault(grid, float(factors.flat[0]))
            if np.any(factors != first):
                return False
    return True


def _takes(node: Node, factors: Floats) -> bool:
    """Whether the node can compute counts of these factors exactly."""
    if isinstance(node, Dense):
        return True
    if isinstance(node, Conv | Affine):
        rows = factors.reshape(factors.shape[0], -1)
        return bool(np.all(rows == rows[:, :1]))
    return isinstance(node, Sum | Clamp | Function) and bool(np.all(factors == factors.flat[0]))


def _handed_back(graph: FloatGraph, scales: Floats) -> dict[str, Floats] | None:
    """Factors of the deciding nodes, or None where two demands meet or an element's factor stays open."""
    by_name = graph.by_name()
    uses = graph.uses()
    open_: list[tuple[str, Floats]] = [(graph.output, scales)]
    found: dict[str, Floats] = {}
    while open_:
        name, factors = open_.pop()
        node = by_name[name]
        if name in found or isinstance(node, Input) or (isinstance(node, Sum | Clamp) and uses[name] > 1):
            return None
        match node:
            case Leaky() | MaxPool():
                source = by_name[node.inputs[0]]
                if isinstance(node, MaxPool):
                    rows = factors.reshape(factors.shape[0], -1)
                    if np.any(rows != rows[:, :1]):
                        return None
                    factors = np.broadcast_to(rows[:, 0].reshape(-1, *(1,) * (len(source.shape) - 1)), source.shape)
                open_.append((source.name, factors))
            case Select():
                source = by_name[node.inputs[0]]
                spread = np.full(source.size, factors.flat[0])
                spread[node.indices.reshape(-1)] = factors.reshape(-1)
                if np.any(spread[node.indices.reshape(-1)] != factors.reshape(-1)):
                    return None
                open_.append((source.name, spread.reshape(source.shape)))
            case Concat():
                cuts = np.cumsum([by_name[source].shape[node.axis] for source in node.inputs])[:-1]
                open_ += list(zip(node.inputs, np.split(factors, cuts, axis=node.axis), strict=True))
            case _:
                found[name] = factors
    return found
