"""Integer graph → circuit file (docs/interfaces.md, ``application/vnd.sits.circuit``).

Public signals are the inputs, the outputs and the context; weights are constants. The statement is y = M(x) for every
x inside the graph's box; outside it the verifier refuses x in the clear. With x in the box every linear combination
stays far under the field's size, so equality in the field is equality of integers, and the private wires are fully
determined by x: ``attest.proof.uniqueness`` shows it for every circuit made here. Select and Concat cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from attest.proof.builder import CircuitBuilder, Interval
from attest.proof.circuit import CONSTRAINTS_MAX, SIGNALS_MAX, TERMS_MAX, Curve, LinearCombination
from attest.proof.errors import CircuitError
from sitsedge.compiler.backends.circuit.maximum import Bounded, arg_max, maximum, on_one_wire
from sitsedge.compiler.backends.circuit.piecewise import leaky, table
from sitsedge.compiler.backends.circuit.requantise import ONE, Rounding, requantised
from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_values import Shape, elements, planes
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds, prove
from sitsedge.compiler.reference import Ints

CONTEXT_ROWS = 1
"""One row ``ctx · 0 = 0`` keeps the context bound."""


@dataclass(frozen=True, slots=True)
class GraphCircuit:
    """The circuit file and its constraints: ``rows`` of each node by name, ``fixed`` for inputs, outputs, context."""

    data: bytes
    rows: dict[str, int]
    fixed: int

    @property
    def n_constraints(self) -> int:
        return self.fixed + sum(self.rows.values())


def emit_circuit(graph: IntegerGraph, *, curve: Curve = Curve.BN254) -> GraphCircuit:
    """The same graph always gives the same bytes, and the same rows on both curves.

    Raises ``attest.proof.errors.CircuitError`` (``circuit-limit``) where the graph exceeds the format's limits, and
    ``QuantiseError`` where its numbers exceed theirs (``intervals.prove``).
    """
    for what, count in (("inputs", graph.n_inputs), ("outputs", graph.n_outputs)):
        if count > SIGNALS_MAX:
            raise CircuitError("circuit-limit", found=f"{count} {what}", expected=f"at most {SIGNALS_MAX}")
    return _Emitter(graph, curve).run()


class _Emitter:
    """``values`` maps a value's name to its elements in row-major order."""

    def __init__(self, graph: IntegerGraph, curve: Curve) -> None:
        self.graph = graph
        self.bounds = prove(graph)
        self.builder = CircuitBuilder(n_inputs=graph.n_inputs, n_outputs=graph.n_outputs, curve=curve)
        self.values: dict[str, list[LinearCombination]] = {graph.input.name: list(self.builder.inputs())}
        self.terms = 0

    def run(self) -> GraphCircuit:
        rows = {}
        for node in self.graph.nodes:
            before = self.builder.n_constraints
            self.values[node.name] = [value for value in self._node(node) if self._within_limits(value)]
            rows[node.name] = self.builder.n_constraints - before
        for index, value in enumerate(self.values[self.graph.output]):
            self.builder.add_out(index, value)
        circuit = self.builder.finish()
        return GraphCircuit(circuit.encode(), rows, self.graph.n_inputs + self.graph.n_outputs + CONTEXT_ROWS)

    def _within_limits(self, value: LinearCombination) -> bool:
        """True; refuses a large graph while its rows are made instead of when all are there."""
        self.terms += len(value.terms)
        if self.builder.n_constraints > CONSTRAINTS_MAX or self.terms > TERMS_MAX:
            raise CircuitError(
                "circuit-limit",
                found=f"{self.builder.n_constraints} constraints, {self.terms} terms and more",
                expected=f"at most {CONSTRAINTS_MAX} and {TERMS_MAX}",
            )
        return True

    def _node(self, node: Node) -> Iterator[LinearCombination]:
        source, bounds = self.values[node.sources[0]], self.bounds[node.sources[0]]
        match node:
            case Dense() | Conv():
                return self._weighted(node, source)
            case Sum():
                return self._sum(node)
            case Product():
                return self._product(node)
            case MaxPool():
                return self._max_pool(node, _bounded(source, bounds))
            case Leaky():
                return (
                    leaky(self.builder, value, multiplier=node.multiplier, shift=node.shift)
                    for value in _bounded(source, bounds)
                )
            case Table():
                return (self._table(node, value) for value in _bounded(source, bounds))
            case Select():
                return (source[index] for index in node.indices.tolist())
            case Concat():
                return self._concat(node)
            case ArgMax():
                return iter([arg_max(self.builder, _bounded(source, bounds))])
            case _:
                assert_never(node)

    def _weighted(self, node: Dense | Conv, source: list[LinearCombination]) -> Iterator[LinearCombination]:
        accumulator = self.bounds[node.name].accumulator
        assert accumulator is not None, "layers accumulate"
        lows, highs = accumulator.acc_low.reshape(-1).tolist(), accumulator.acc_high.reshape(-1).tolist()
        taps = _taps(node, self.graph.shapes[node.source])
        for low, high, (channel, indices, weights) in zip(lows, highs, taps, strict=True):
            rounding = Rounding(
                Interval(low, high), int(node.shift[channel]), int(node.low[channel]), int(node.high[channel])
            )
            parts = [(w, source[i]) for i, w in zip(indices.tolist(), weights.tolist(), strict=True) if w]
            self.terms += sum(len(part.terms) for _, part in parts)
            yield requantised(self.builder, [(int(node.bias[channel]), ONE), *parts], rounding)

    def _sum(self, node: Sum) -> Iterator[LinearCombination]:
        accumulator = self.bounds[node.name].accumulator
        assert accumulator is not None, "sums accumulate"
        lows, highs = accumulator.acc_low.reshape(-1).tolist(), accumulator.acc_high.reshape(-1).tolist()
        sources = zip(*(self.values[name] for name in node.sources), strict=True)
        for low, high, values in zip(lows, highs, sources, strict=True):
            rounding = Rounding(Interval(low, high), node.shift, node.low, node.high)
            parts = [(1 << up, value) for up, value in zip(node.up_shifts, values, strict=True)]
            yield requantised(self.builder, parts, rounding)

    def _product(self, node: Product) -> Iterator[LinearCombination]:
        """One row for each product of two values that vary; a factor the bounds fix is a weight."""
        accumulator = self.bounds[node.name].accumulator
        assert accumulator is not None, "products accumulate"
        lows, highs = accumulator.acc_low.reshape(-1).tolist(), accumulator.acc_high.reshape(-1).tolist()
        a, b = (_bounded(self.values[name], self.bounds[name]) for name in node.sources)
        each = len(a) // len(b)
        for i, (x, low, high) in enumerate(zip(a, lows, highs, strict=True)):
            y = b[i // each]
            rounding = Rounding(Interval(low, high), node.shift, node.low, node.high)
            if rounding.result.lo == rounding.result.hi:
                parts: list[tuple[int, LinearCombination]] = []
            elif x.low == x.high or y.low == y.high:
                parts = [(x.low, y.terms)] if x.low == x.high else [(y.low, x.terms)]
            else:
                parts = [(1, self.builder.add_mul(x.terms, y.terms))]
            yield requantised(self.builder, parts, rounding)

    def _max_pool(self, node: MaxPool, source: list[Bounded]) -> Iterator[LinearCombination]:
        """Largest of each row of a window first: rows that several windows share are compared once."""
        channels, height, width = planes(node.name, self.graph.shapes[node.source])
        _, down, across = planes(node.name, self.graph.shapes[node.name])
        rows: dict[tuple[int, int, int], Bounded] = {}
        for channel, oy, ox in np.ndindex(channels, down, across):
            columns = _window(ox, node.kernel[1], node.strides[1], node.pads[1], width)
            found = []
            for y in _window(oy, node.kernel[0], node.strides[0], node.pads[0], height):
                if (channel, y, ox) not in rows:
                    rows[channel, y, ox] = self._largest([source[(channel * height + y) * width + x] for x in columns])
                found.append(rows[channel, y, ox])
            largest = self._largest(found)
            decided = len(largest.wires) <= 1 or any(largest is value for value in source)
            yield largest.terms if decided else self._own_wire(node, largest)

    def _largest(self, values: list[Bounded]) -> Bounded:
        largest = values[0]
        for value in values[1:]:
            largest = maximum(self.builder, value, largest)
        return largest

    def _table(self, node: Table, value: Bounded) -> LinearCombination:
        entries = node.values[value.low - node.first : value.high - node.first + 1]
        found = Bounded(table(self.builder, value, entries), int(entries.min()), int(entries.max()))
        return found.terms if found.wires <= value.wires else self._own_wire(node, found)

    def _own_wire(self, node: Node, value: Bounded) -> LinearCombination:
        """One row more, one term instead of dozens in every row that reads the value."""
        return value.terms if node.name == self.graph.output else on_one_wire(self.builder, value).terms

    def _concat(self, node: Concat) -> Iterator[LinearCombination]:
        starts, offset = [], 0
        for name in node.sources:
            shape = self.graph.shapes[name]
            starts.append(offset + np.arange(elements(shape)).reshape(shape))
            offset += elements(shape)
        together = [value for name in node.sources for value in self.values[name]]
        return (together[index] for index in np.concatenate(starts, axis=node.axis).reshape(-1).tolist())


def _bounded(values: list[LinearCombination], bounds: ValueBounds) -> list[Bounded]:
    ends = zip(bounds.low.reshape(-1).tolist(), bounds.high.reshape(-1).tolist(), strict=True)
    return [Bounded(terms, low, high) for terms, (low, high) in zip(values, ends, strict=True)]


def _window(position: int, kernel: int, stride: int, pad: int, length: int) -> range:
    """Source positions one window covers, without padding."""
    start = position * stride - pad
    return range(max(start, 0), min(start + kernel, length))


def _taps(node: Dense | Conv, shape: Shape) -> Iterator[tuple[int, Ints, Ints]]:
    """(channel, source elements, weights) of every output element; padding has no element and adds nothing."""
    columns = node.columns()
    if isinstance(node, Dense):
        every = np.arange(columns.shape[1])
        yield from ((channel, every, columns[channel]) for channel in range(node.channels))
        return
    channels, height, width = planes(node.name, shape)
    _, down, across = planes(node.name, node.shape_of(shape))
    inner = channels // node.groups
    at = np.arange(channels * height * width).reshape(channels, height, width)
    for channel, oy, ox in np.ndindex(node.channels, down, across):
        first = channel // (node.channels // node.groups) * inner
        ys = oy * node.strides[0] - node.pads[0] + node.dilations[0] * np.arange(node.kernel[0])
        xs = ox * node.strides[1] - node.pads[1] + node.dilations[1] * np.arange(node.kernel[1])
        inside_y, inside_x = (ys >= 0) & (ys < height), (xs >= 0) & (xs < width)
        seen = at[first : first + inner, ys[inside_y][:, None], xs[inside_x][None, :]]
        weights = columns[channel][:, inside_y][:, :, inside_x]
        yield channel, seen.reshape(-1), weights.reshape(-1)
