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

import math
from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.reference import (
    IN_SHIFT_MAX,
    INT16_MAX,
    INT16_MIN,
    INT32_MAX,
    INT32_MIN,
    SHIFT_MAX,
    WEIGHT_MAX,
    Ints,
)

Shape = tuple[int, ...]
Pair = tuple[int, int]
Pads = tuple[int, int, int, int]

RANK_MAX = 3
"""Channels, rows, columns; the batch dimension is gone."""

ELEMENTS_MAX = 1 << 22
"""Largest value: 224 · 224 · 64 fits, and int64 bounds of it take 32 MiB."""

NODES_MAX = 4096
"""Longest graph; a ResNet-152 has a tenth of it."""

KERNEL_MAX = 1 << 10
"""Longest side of a kernel, stride, dilation or padding: keeps every size computed from them small."""

TABLE_MAX = 1 << 12
"""Most entries of a table: 8 KiB of data in a module, 2^6 + 2^6 selectors in a circuit."""

UP_SHIFT_MAX = 14
"""Largest shift of a Sum's operand: an int16 shifted by it and 2 added still fits int32."""

MULTIPLIER_MAX = 1 << 14
LEAKY_SHIFT_MAX = 15
"""A slope is multiplier / 2^shift; int16 times the multiplier is an int32 with the rounding constant added."""


def _refuse(name: str, found: str, expected: str) -> QuantiseError:
    return QuantiseError("integer-format", found=f"{name!r}: {found}", expected=expected)


def frozen(values: object) -> Ints:
    """A read-only int64 copy."""
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def _inside(name: str, what: str, values: Ints, low: int, high: int) -> None:
    if values.size == 0 or values.min() < low or values.max() > high:
        found = "nothing" if values.size == 0 else f"{values.min()} … {values.max()}"
        raise _refuse(name, f"{what} {found}", f"{low} … {high}")


def _rounding(shift: Ints) -> Ints:
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def elements(shape: Shape) -> int:
    """Number of elements of a value."""
    return math.prod(shape)


def check_shape(name: str, shape: Shape) -> Shape:
    """``shape`` itself; raises ``QuantiseError`` where it is no shape of a value."""
    whole = all(isinstance(size, int) and 1 <= size <= ELEMENTS_MAX for size in shape)
    if not whole or not 1 <= len(shape) <= RANK_MAX or elements(shape) > ELEMENTS_MAX:
        raise _refuse(name, f"shape {shape}", f"(C,), (C, L) or (C, H, W) of 1 to {ELEMENTS_MAX} elements")
    return shape


def planes(name: str, shape: Shape) -> tuple[int, int, int]:
    """(C, H, W) of a value with positions: (C, L) has one row of L columns. Raises ``QuantiseError`` for (C,)."""
    if len(shape) == 2:
        return shape[0], 1, shape[1]
    if len(shape) != 3:
        raise _refuse(name, f"a value of shape {shape}", "(C, L) or (C, H, W)")
    return shape[0], shape[1], shape[2]


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
        _inside(name, "box", low, INT16_MIN, INT16_MAX)
        _inside(name, "box", high, INT16_MIN, INT16_MAX)
        if np.any(low > high):
            raise _refuse(name, "a box with low above high", "low ≤ high")
        return cls(name, shape, low, high)


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """What Dense and Conv share. ``in_shift`` is per input channel, ``bias`` … ``high`` per output channel."""

    name: str
    source: str
    weights: Ints
    in_shift: Ints
    bias: Ints
    shift: Ints
    low: Ints
    high: Ints

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def rounding(self) -> Ints:
        """2^(s-1) per output channel, 0 where s = 0."""
        return _rounding(self.shift)

    @property
    def channels(self) -> int:
        return int(self.weights.shape[0])

    def _check(self) -> None:
        for what, values, low, high in (
            ("weights", self.weights, -WEIGHT_MAX, WEIGHT_MAX),
            ("input shifts", self.in_shift, 0, IN_SHIFT_MAX),
            ("biases", self.bias, INT32_MIN, INT32_MAX),
            ("shifts", self.shift, 0, SHIFT_MAX),
            ("lows", self.low, INT32_MIN, INT32_MAX),
            ("highs", self.high, INT32_MIN, INT32_MAX),
        ):
            _inside(self.name, what, values, low, high)
        if np.any(self.low > self.high):
            raise _refuse(self.name, "low above high", "low ≤ high")


def _per_channel(name: str, what: str, values: object, channels: int) -> Ints:
    array = frozen(values)
    if array.shape not in ((), (1,), (channels,)):
        raise _refuse(name, f"{what} of shape {array.shape}", f"one, or one for each of {channels} channels")
    return frozen(np.broadcast_to(array, (channels,)))


@dataclass(frozen=True, slots=True, eq=False)
class Dense(Weighted):
    """acc_i = bias_i + Σ_j w_ij · (x_j << in_shift_j); weights (out, in), source and result of shape (in,), (out,)."""

    @classmethod
    def make(
        cls,
        name: str,
        source: str,
        *,
        weights: object,
        bias: object = 0,
        shift: object = 0,
        in_shift: object = 0,
        low: object = INT32_MIN,
        high: object = INT32_MAX,
    ) -> Dense:
        """Per-channel values may be single numbers; raises ``QuantiseError`` for anything outside its format."""
        matrix = frozen(weights)
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise _refuse(name, f"weights of shape {matrix.shape}", "(outputs, inputs)")
        outputs, inputs = matrix.shape
        node = cls(
            name=name,
            source=source,
            weights=matrix,
            in_shift=_per_channel(name, "in_shift", in_shift, inputs),
            bias=_per_channel(name, "bias", bias, outputs),
            shift=_per_channel(name, "shift", shift, outputs),
            low=_per_channel(name, "low", low, outputs),
            high=_per_channel(name, "high", high, outputs),
        )
        node._check()
        return node

    def columns(self) -> Ints:
        """Weights with the column exponents multiplied in: int16 values."""
        return self.weights << self.in_shift

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if source != (self.weights.shape[1],):
            raise _refuse(self.name, f"a source of shape {source}", f"({self.weights.shape[1]},)")
        return (self.channels,)


@dataclass(frozen=True, slots=True, eq=False)
class Conv(Weighted):
    """Cross-correlation as ONNX defines Conv; weights (out, in / groups, kh, kw), one-dimensional with kh = 1.

    ``pads`` are (top, left, bottom, right) and add the integer 0. For a source of shape (C, L) every row figure is
    that of a single row: kh = 1, stride 1, no padding, dilation 1.
    """

    strides: Pair
    pads: Pads
    dilations: Pair
    groups: int

    @classmethod
    def make(
        cls,
        name: str,
        source: str,
        *,
        weights: object,
        bias: object = 0,
        shift: object = 0,
        in_shift: object = 0,
        low: object = INT32_MIN,
        high: object = INT32_MAX,
        strides: Pair = (1, 1),
        pads: Pads = (0, 0, 0, 0),
        dilations: Pair = (1, 1),
        groups: int = 1,
    ) -> Conv:
        """Per-channel values may be single numbers; raises ``QuantiseError`` for anything outside its format."""
        kernel = frozen(weights)
        if kernel.ndim != 4 or 0 in kernel.shape or max(kernel.shape[2:]) > KERNEL_MAX:
            raise _refuse(name, f"weights of shape {kernel.shape}", "(outputs, inputs / groups, kh, kw)")
        outputs = kernel.shape[0]
        if groups < 1 or outputs % groups:
            raise _refuse(name, f"{groups} groups of {outputs} outputs", "a divisor of the outputs")
        _check_window(name, strides, pads, dilations)
        node = cls(
            name=name,
            source=source,
            weights=kernel,
            in_shift=_per_channel(name, "in_shift", in_shift, kernel.shape[1] * groups),
            bias=_per_channel(name, "bias", bias, outputs),
            shift=_per_channel(name, "shift", shift, outputs),
            low=_per_channel(name, "low", low, outputs),
            high=_per_channel(name, "high", high, outputs),
            strides=strides,
            pads=pads,
            dilations=dilations,
            groups=groups,
        )
        node._check()
        return node

    @property
    def kernel(self) -> Pair:
        return int(self.weights.shape[2]), int(self.weights.shape[3])

    def columns(self) -> Ints:
        """Weights with the exponents of their input channels multiplied in: int16 values."""
        per_group = self.in_shift.reshape(self.groups, 1, -1)
        shifts = np.repeat(per_group, self.channels // self.groups, axis=1).reshape(self.channels, -1)
        return self.weights << shifts[:, :, None, None]

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if source[0] != self.in_shift.size:
            raise _refuse(self.name, f"a source of shape {source}", f"{self.in_shift.size} channels")
        height, width = window_counts(
            self.name, source, self.kernel, strides=self.strides, pads=self.pads, dilations=self.dilations
        )
        return (self.channels, width) if len(source) == 2 else (self.channels, height, width)


def _check_window(name: str, strides: Pair, pads: Pads, dilations: Pair) -> None:
    _inside(name, "strides", frozen(strides), 1, KERNEL_MAX)
    _inside(name, "dilations", frozen(dilations), 1, KERNEL_MAX)
    _inside(name, "pads", frozen(pads), 0, KERNEL_MAX)
    if (len(strides), len(pads), len(dilations)) != (2, 4, 2):
        raise _refuse(name, f"strides {strides}, pads {pads}, dilations {dilations}", "2, 4 and 2 numbers")


def window_counts(name: str, source: Shape, kernel: Pair, *, strides: Pair, pads: Pads, dilations: Pair) -> Pair:
    """Positions of a sliding window down and across; raises ``QuantiseError`` where there is none."""
    _, height, width = planes(name, source)
    if len(source) == 2 and (kernel[0], strides[0], dilations[0], pads[0], pads[2]) != (1, 1, 1, 0, 0):
        raise _refuse(name, f"a two-dimensional window over shape {source}", "a window of one row")
    sizes = []
    for axis, length in enumerate((height, width)):
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        count = (length + pads[axis] + pads[axis + 2] - reach) // strides[axis] + 1
        if count < 1:
            raise _refuse(name, f"a window of {reach} over {length} positions", "a window inside the padded source")
        sizes.append(count)
    return sizes[0], sizes[1]


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """acc = Σ_k (x_k << up_shift_k), requantised: a residual sum. All sources and the result have one shape."""

    name: str
    sources: tuple[str, ...]
    up_shifts: tuple[int, ...]
    shift: int
    low: int
    high: int

    @classmethod
    def make(
        cls,
        name: str,
        sources: tuple[str, ...],
        *,
        up_shifts: tuple[int, ...] | None = None,
        shift: int = 0,
        low: int = INT32_MIN,
        high: int = INT32_MAX,
    ) -> Sum:
        """Raises ``QuantiseError`` for anything outside its format."""
        ups = (0,) * len(sources) if up_shifts is None else up_shifts
        if not sources or len(ups) != len(sources):
            raise _refuse(name, f"{len(sources)} sources, {len(ups)} up-shifts", "as many up-shifts as sources")
        _inside(name, "up-shifts", frozen(ups), 0, UP_SHIFT_MAX)
        _inside(name, "shift", frozen(shift), 0, SHIFT_MAX)
        _inside(name, "bounds", frozen([low, high]), INT32_MIN, INT32_MAX)
        if low > high:
            raise _refuse(name, "low above high", "low ≤ high")
        return cls(name, sources, ups, shift, low, high)

    @property
    def rounding(self) -> int:
        """2^(s-1), 0 where s = 0."""
        return 1 << (self.shift - 1) if self.shift else 0

    def shape_of(self, *sources: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if len(set(sources)) != 1:
            raise _refuse(self.name, f"sources of shapes {sources}", "one shape")
        return sources[0]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """acc = a · b, requantised: a gate, or a square where both sources are one value.

    The result has the shape of ``a``. ``b`` has the same one, or one element for each channel of ``a`` at a single
    position (squeeze and excitation: Hu et al., "Squeeze-and-Excitation Networks", 2018). Two int16 never leave int32.
    """

    name: str
    sources: tuple[str, str]
    shift: int
    low: int
    high: int

    @classmethod
    def make(cls, name: str, a: str, b: str, *, shift: int = 0, low: int = INT32_MIN, high: int = INT32_MAX) -> Product:
        """Raises ``QuantiseError`` for anything outside its format."""
        _inside(name, "shift", frozen(shift), 0, SHIFT_MAX)
        _inside(name, "bounds", frozen([low, high]), INT32_MIN, INT32_MAX)
        if low > high:
            raise _refuse(name, "low above high", "low ≤ high")
        return cls(name, (a, b), shift, low, high)

    @property
    def rounding(self) -> int:
        """2^(s-1), 0 where s = 0."""
        return 1 << (self.shift - 1) if self.shift else 0

    def shape_of(self, a: Shape, b: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if b not in (a, (a[0], *(1,) * (len(a) - 1))):
            raise _refuse(self.name, f"factors of shapes {a} and {b}", "equal shapes, or one factor for each channel")
        return a


@dataclass(frozen=True, slots=True, eq=False)
class MaxPool:
    """Largest element of each window. Padded positions do not count; every window has a real one.

    That is the same as padding with the source's proven lower bound. Figures as for ``Conv``.
    """

    name: str
    source: str
    kernel: Pair
    strides: Pair
    pads: Pads

    @classmethod
    def make(cls, name: str, source: str, *, kernel: Pair, strides: Pair, pads: Pads = (0, 0, 0, 0)) -> MaxPool:
        """Raises ``QuantiseError`` for anything outside its format."""
        _inside(name, "kernel", frozen(kernel), 1, KERNEL_MAX)
        _check_window(name, strides, pads, (1, 1))
        if len(kernel) != 2 or any(pads[i] >= kernel[i % 2] for i in range(4)):
            raise _refuse(name, f"pads {pads} around a kernel {kernel}", "padding smaller than the kernel")
        return cls(name, source, kernel, strides, pads)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        counts = window_counts(self.name, source, self.kernel, strides=self.strides, pads=self.pads, dilations=(1, 1))
        return (source[0], counts[1]) if len(source) == 2 else (source[0], *counts)


@dataclass(frozen=True, slots=True, eq=False)
class Leaky:
    """y = x where x ≥ 0, else (x · multiplier + 2^(s-1)) >> s: a slope below zero."""

    name: str
    source: str
    multiplier: int
    shift: int

    @classmethod
    def make(cls, name: str, source: str, *, multiplier: int, shift: int) -> Leaky:
        """Raises ``QuantiseError`` for anything outside its format."""
        _inside(name, "multiplier", frozen(multiplier), 0, MULTIPLIER_MAX)
        _inside(name, "shift", frozen(shift), 0, LEAKY_SHIFT_MAX)
        return cls(name, source, multiplier, shift)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def rounding(self) -> int:
        """2^(s-1), 0 where s = 0."""
        return 1 << (self.shift - 1) if self.shift else 0

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result."""
        return source


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """y = values[x - first]; the intervals prove first ≤ x < first + len(values)."""

    name: str
    source: str
    values: Ints
    first: int

    @classmethod
    def make(cls, name: str, source: str, *, values: object, first: int) -> Table:
        """``values`` are int16, at most ``TABLE_MAX`` of them; raises ``QuantiseError``."""
        entries = frozen(values)
        if entries.ndim != 1 or entries.size > TABLE_MAX:
            raise _refuse(name, f"a table of shape {entries.shape}", f"one to {TABLE_MAX} entries")
        _inside(name, "table entries", entries, INT16_MIN, INT16_MAX)
        _inside(name, "table arguments", frozen([first, first + entries.size - 1]), INT16_MIN, INT16_MAX)
        return cls(name, source, entries, first)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result."""
        return source


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """A gather: element i of the result, in row-major order, is element ``indices[i]`` of the source.

    Flatten, Reshape, Transpose, Squeeze, Slice and shuffles of channels are all this. ``indices`` has one
    dimension, ``shape`` is the result's.
    """

    name: str
    source: str
    indices: Ints
    shape: Shape

    @classmethod
    def make(cls, name: str, source: str, *, indices: object, shape: Shape) -> Select:
        """Raises ``QuantiseError`` for anything outside its format."""
        picked = frozen(indices)
        check_shape(name, shape)
        if picked.shape != (elements(shape),) or picked.min() < 0:
            raise _refuse(name, f"indices of shape {picked.shape}", f"{elements(shape)} indices from 0")
        return cls(name, source, picked, shape)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    @property
    def keeps_order(self) -> bool:
        """Whether the result is the source's elements in their order: a reshape, which moves nothing."""
        return bool(np.array_equal(self.indices, np.arange(self.indices.size)))

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if self.indices.max() >= elements(source):
            raise _refuse(self.name, f"index {self.indices.max()}", f"below the source's {elements(source)} elements")
        return self.shape


@dataclass(frozen=True, slots=True, eq=False)
class Concat:
    """The sources one after another along ``axis``, which counts the value's dimensions from 0."""

    name: str
    sources: tuple[str, ...]
    axis: int

    @classmethod
    def make(cls, name: str, sources: tuple[str, ...], *, axis: int = 0) -> Concat:
        """Raises ``QuantiseError`` for anything outside its format."""
        if not sources or not 0 <= axis < RANK_MAX:
            raise _refuse(name, f"{len(sources)} sources along axis {axis}", f"axis 0 … {RANK_MAX - 1}")
        return cls(name, sources, axis)

    def shape_of(self, *sources: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        first, axis = sources[0], self.axis
        rest = {shape[:axis] + shape[axis + 1 :] for shape in sources}
        if any(len(shape) != len(first) for shape in sources) or axis >= len(first) or len(rest) != 1:
            raise _refuse(self.name, f"sources of shapes {sources}", f"shapes that differ along axis {axis} only")
        return (*first[:axis], sum(shape[axis] for shape in sources), *first[axis + 1 :])


@dataclass(frozen=True, slots=True, eq=False)
class ArgMax:
    """Index of the largest of n elements, the lowest where several are; result of shape (1,). Last node only."""

    name: str
    source: str

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def shape_of(self, source: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if len(source) != 1:
            raise _refuse(self.name, f"a source of shape {source}", "(n,)")
        return (1,)


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
            raise _refuse(source.name, f"{len(nodes)} nodes", f"1 to {NODES_MAX}")
        shapes: dict[str, Shape] = {source.name: source.shape}
        unused = {source.name}
        for position, node in enumerate(nodes):
            missing = [name for name in node.sources if name not in shapes]
            if missing or not node.name or node.name in shapes:
                found = f"sources {missing} not computed before" if missing else "an empty name or one used before"
                raise _refuse(node.name, found, "every name once, every source before its use")
            if isinstance(node, ArgMax) and position != len(nodes) - 1:
                raise _refuse(node.name, "an ArgMax inside the graph", "an ArgMax as the last node")
            shape = node.shape_of(*(shapes[name] for name in node.sources))
            shapes[node.name] = check_shape(node.name, shape)
            unused.difference_update(node.sources)
            unused.add(node.name)
        unused.discard(nodes[-1].name)
        if unused:
            raise _refuse(min(unused), "a value nothing reads", "every value but the output used")
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
