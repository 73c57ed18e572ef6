"""What the kernels of one module share: bounds, memory, the place of every value, and how much code is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sitsedge.compiler.backends.wasm.code import VECTOR, Code, Place
from sitsedge.compiler.backends.wasm.layout import NO_PADS, Memory, Region
from sitsedge.compiler.graph import seven_bits
from sitsedge.compiler.graph.integer_graph import IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import Select
from sitsedge.compiler.graph.integer_values import Pads
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds
from sitsedge.compiler.reference import Ints


@dataclass(frozen=True, slots=True)
class Unroll:
    """How much stands in the code one after another before a loop or a table does the same work.

    The end of a loop costs about as much as a short body, and metering charges it; code costs time to compile. With
    every figure 0 nothing is unrolled; the integers are the same.
    """

    dots: int = 256
    """Dot products with their weights in the code, all nodes together: 10 KB of code and constants. Above that the loop
    over tables is as fast and compiles sooner; above 1,000 it is faster, as its code stays in the cache."""
    position_dots: int = 256
    """Up to this many dot products of a node the positions are unrolled too."""
    vectors: int = 64
    """Vectors of an element-wise node, and elements of a Table or ArgMax."""
    moves: int = 512
    """Loads and stores of one Select, Concat, input or output: 5 KB."""
    probes: int = 256
    """Comparisons of a MaxPool."""
    box: int = 256
    """Groups of four inputs checked and narrowed: 1,024 inputs, as many as the sandbox passes."""


NO_UNROLL = Unroll(dots=0, position_dots=0, vectors=0, moves=0, probes=0, box=0)


@dataclass(frozen=True, slots=True)
class Packed:
    """A byte copy of a region for the relaxed dot product: every int16 minus its channel's offset, in 0 … 127."""

    start: int
    offsets: Ints


@dataclass(frozen=True, slots=True)
class Held:
    """Where a value lies: the region it is in and the address of each element in row-major order.

    A Select that only Dense nodes read is no copy but other addresses in its source's region.
    """

    region: Region
    addresses: Ints
    packed: Packed | None = None


@dataclass(slots=True)
class Plan:
    """State of one emission."""

    graph: IntegerGraph
    bounds: dict[str, ValueBounds]
    relaxed: bool
    unroll: Unroll
    memory: Memory = field(default_factory=Memory)
    held: dict[str, Held] = field(default_factory=dict)
    dots_left: int = field(init=False)
    readers: dict[str, list[Node]] = field(default_factory=dict)
    relaxed_nodes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dots_left = self.unroll.dots
        for node in self.graph.nodes:
            for name in node.sources:
                self.readers.setdefault(name, []).append(node)

    def is_view(self, node: Node) -> bool:
        """Whether ``node`` moves nothing: a Select without repeated elements that only Dense nodes read."""
        return (
            isinstance(node, Select)
            and node.name != self.graph.output
            and all(isinstance(reader, Dense) for reader in self.readers[node.name])
            and np.unique(node.indices).size == node.indices.size
        )

    def pads(self, name: str) -> Pads:
        """The border that the padded Convs reading a value need."""
        pads = [reader.pads for reader in self.readers.get(name, []) if isinstance(reader, Conv)]
        top, left, bottom, right = (max((p[side] for p in pads), default=0) for side in range(4))
        return top, left, bottom, right

    def weighted_readers(self, name: str) -> list[Dense | Conv]:
        """Dense and Conv nodes that read a value, also through Selects that move nothing."""
        found: list[Dense | Conv] = []
        for reader in self.readers.get(name, []):
            if isinstance(reader, Dense | Conv):
                found.append(reader)
            elif self.is_view(reader):
                found += self.weighted_readers(reader.name)
        return found

    def place(self, name: str, *, width: int = 2) -> Held:
        """Take memory for a value."""
        region = self.memory.region(self.graph.shapes[name], width=width, pads=self.pads(name))
        self.held[name] = Held(region, region.addresses())
        return self.held[name]

    def pack(self, name: str, code: Code) -> None:
        """Emit the byte copy of a value where its proven bounds and a reader's weights allow the relaxed product."""
        if not self.relaxed or not any(seven_bits.fits_int8(reader) for reader in self.weighted_readers(name)):
            return
        held = self.held[name]
        offsets = seven_bits.offsets(self.bounds[name], border=held.region.pads != NO_PADS)
        if offsets is None or (np.ptp(offsets) and not _vectors_a_pixel(held.region)):
            return
        packed = Packed(self.memory.take(held.region.size // 2), offsets)
        self.held[name] = Held(held.region, held.addresses, packed)
        _narrow_all(self, code, held.region, packed)


def _vectors_a_pixel(region: Region) -> int:
    """Stores of sixteen bytes that one position's copy takes, or 0 where it is no whole number of them."""
    if region.height * region.across == 1 and region.pads == NO_PADS:
        return region.size // (2 * VECTOR)
    return region.pixel // (2 * VECTOR) if region.pixel % (2 * VECTOR) == 0 else 0


def _narrow_all(plan: Plan, code: Code, region: Region, packed: Packed) -> None:
    """The whole region, border and spare channels included; where those leave 0 … 127 the weights are 0."""
    count = region.size // (2 * VECTOR)
    unrolled = count <= plan.unroll.vectors
    steps = ((Place(region.start), 2 * VECTOR), (Place(packed.start), VECTOR))
    if not np.ptp(packed.offsets):
        offset = int(packed.offsets[0])

        def same(source: Place, target: Place) -> None:
            _narrow(code, source, target, partial(code.const_i16x8, [offset] * 8) if offset else None)

        code.repeat(count, steps, same, unrolled=unrolled)
        return
    a_pixel = _vectors_a_pixel(region)
    spare = a_pixel * VECTOR - packed.offsets.size
    table = Place(plan.memory.data(np.pad(packed.offsets, (0, spare)).astype("<i2")))

    def vector(source: Place, target: Place, subtracted: Place) -> None:
        _narrow(
            code, source, target, partial(code.load_at, subtracted), partial(code.load_at, subtracted.moved(VECTOR))
        )

    def pixel(source: Place, target: Place) -> None:
        inner = ((source, 2 * VECTOR), (target, VECTOR), (table, 2 * VECTOR))
        code.repeat(a_pixel, inner, vector, unrolled=unrolled)

    outer = tuple((place, step * a_pixel) for place, step in steps)
    code.repeat(count // a_pixel, outer, pixel, unrolled=unrolled)


def _narrow(code: Code, source: Place, target: Place, *subtract: Callable[[], None] | None) -> None:
    """Sixteen int16, less what ``subtract`` pushes for all, or for either half, as bytes."""
    code.base(target)
    for half in range(2):
        code.load_at(source.moved(VECTOR * half))
        if (push := subtract[half % len(subtract)]) is not None:
            push()
            code.sub_i16x8()
    code.narrow_i16x8_u()
    code.store_at(target)
