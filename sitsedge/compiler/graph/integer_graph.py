"""The integer graph: what the quantiser makes and every back end takes. Its meaning is ``graph.reference``.

A graph has one input and nodes in order of computation; a node's name is the name of the value it computes. Values are
integer tensors of a static shape (C,), (C, L) or (C, H, W), without a batch dimension. A value that another node reads
fits int16; the output may need int32. Both, and that every accumulator stays inside int32, are proven by
``graph.intervals``; the classes here check formats and shapes only.

Dense, Conv, Sum and Product accumulate and requantise by the one rule of the evidence rules §2, per output channel:

    q = min(max((acc + 2^(s-1)) >> s, low), high)        arithmetic shift; s = 0 means none

``low = INT32_MIN`` and ``high = INT32_MAX`` mean no bound: no accumulator reaches them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_values import NODES_MAX, Shape, check_shape, elements, frozen, inside, refuse
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.reference import INT16_MAX, INT16_MIN, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """The graph's input in counts, ``box_low ≤ x ≤ box_high`` element by element, inside int16."""

    name: str
    shape: Shape
    box_low: Ints
    box_high: Ints

    @classmethod
    def make(cls, name: str, shape: Shape, *, box_low: object, box_high: object) -> Input:
        """The bounds are broadcast to ``shape``; raises ``QuantiseError``."""
        check_shape(name, shape)
        low, high = (frozen(np.broadcast_to(frozen(bound), shape)) for bound in (box_low, box_high))
        inside(name, "box", low, INT16_MIN, INT16_MAX)
        inside(name, "box", high, INT16_MIN, INT16_MAX)
        if np.any(low > high):
            raise refuse(name, "a box with low above high", "low ≤ high")
        return cls(name, shape, low, high)


Node = Dense | Conv | Sum | Product | MaxPool | Leaky | Table | Select | Concat | ArgMax


@dataclass(frozen=True, slots=True, eq=False)
class IntegerGraph:
    """Input, nodes in order of computation and the shape of every value; the last node's value is the output."""

    input: Input
    nodes: tuple[Node, ...]
    shapes: dict[str, Shape]

    @classmethod
    def make(cls, source: Input, nodes: tuple[Node, ...]) -> IntegerGraph:
        """Check names, order, use and shapes; raises ``QuantiseError`` with code ``integer-format``.

        Number ranges are the business of ``graph.intervals.prove``, which back ends expect to have passed.
        """
        if not 1 <= len(nodes) <= NODES_MAX:
            raise refuse(source.name, f"{len(nodes)} nodes", f"1 to {NODES_MAX}")
        shapes: dict[str, Shape] = {source.name: source.shape}
        unused = {source.name}
        for position, node in enumerate(nodes):
            missing = [name for name in node.sources if name not in shapes]
            if missing or not node.name or node.name in shapes:
                found = f"sources {missing} not computed before" if missing else "an empty name or one used before"
                raise refuse(node.name, found, "every name once, every source before its use")
            if isinstance(node, ArgMax) and position != len(nodes) - 1:
                raise refuse(node.name, "an ArgMax inside the graph", "an ArgMax as the last node")
            shape = node.shape_of(*(shapes[name] for name in node.sources))
            shapes[node.name] = check_shape(node.name, shape)
            unused.difference_update(node.sources)
            unused.add(node.name)
        unused.discard(nodes[-1].name)
        if unused:
            raise refuse(min(unused), "a value nothing reads", "every value but the output used")
        return cls(source, nodes, shapes)

    @property
    def output(self) -> str:
        """Name of the output value."""
        return self.nodes[-1].name

    @property
    def n_inputs(self) -> int:
        """Input elements, in row-major order of the input's shape."""
        return elements(self.input.shape)

    @property
    def n_outputs(self) -> int:
        """Output elements, in row-major order of the output's shape."""
        return elements(self.shapes[self.output])
