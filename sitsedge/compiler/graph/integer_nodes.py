"""Nodes without weights of the integer graph. Their meaning is ``graph.reference``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.graph.integer_values import (
    KERNEL_MAX,
    LEAKY_SHIFT_MAX,
    MULTIPLIER_MAX,
    RANK_MAX,
    TABLE_MAX,
    UP_SHIFT_MAX,
    Pads,
    Pair,
    Shape,
    check_shape,
    check_window,
    elements,
    frozen,
    inside,
    refuse,
    window_counts,
)
from sitsedge.compiler.reference import INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, SHIFT_MAX, Ints


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
            raise refuse(name, f"{len(sources)} sources, {len(ups)} up-shifts", "as many up-shifts as sources")
        inside(name, "up-shifts", frozen(ups), 0, UP_SHIFT_MAX)
        inside(name, "shift", frozen(shift), 0, SHIFT_MAX)
        inside(name, "bounds", frozen([low, high]), INT32_MIN, INT32_MAX)
        if low > high:
            raise refuse(name, "low above high", "low ≤ high")
        return cls(name, sources, ups, shift, low, high)

    @property
    def rounding(self) -> int:
        """2^(s-1), 0 where s = 0."""
        return 1 << (self.shift - 1) if self.shift else 0

    def shape_of(self, *sources: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if len(set(sources)) != 1:
            raise refuse(self.name, f"sources of shapes {sources}", "one shape")
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
        inside(name, "shift", frozen(shift), 0, SHIFT_MAX)
        inside(name, "bounds", frozen([low, high]), INT32_MIN, INT32_MAX)
        if low > high:
            raise refuse(name, "low above high", "low ≤ high")
        return cls(name, (a, b), shift, low, high)

    @property
    def rounding(self) -> int:
        """2^(s-1), 0 where s = 0."""
        return 1 << (self.shift - 1) if self.shift else 0

    def shape_of(self, a: Shape, b: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        if b not in (a, (a[0], *(1,) * (len(a) - 1))):
            raise refuse(self.name, f"factors of shapes {a} and {b}", "equal shapes, or one factor for each channel")
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
        inside(name, "kernel", frozen(kernel), 1, KERNEL_MAX)
        check_window(name, strides, pads, (1, 1))
        if len(kernel) != 2 or any(pads[i] >= kernel[i % 2] for i in range(4)):
            raise refuse(name, f"pads {pads} around a kernel {kernel}", "padding smaller than the kernel")
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
        inside(name, "multiplier", frozen(multiplier), 0, MULTIPLIER_MAX)
        inside(name, "shift", frozen(shift), 0, LEAKY_SHIFT_MAX)
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
            raise refuse(name, f"a table of shape {entries.shape}", f"one to {TABLE_MAX} entries")
        inside(name, "table entries", entries, INT16_MIN, INT16_MAX)
        inside(name, "table arguments", frozen([first, first + entries.size - 1]), INT16_MIN, INT16_MAX)
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
            raise refuse(name, f"indices of shape {picked.shape}", f"{elements(shape)} indices from 0")
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
            raise refuse(self.name, f"index {self.indices.max()}", f"below the source's {elements(source)} elements")
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
            raise refuse(name, f"{len(sources)} sources along axis {axis}", f"axis 0 … {RANK_MAX - 1}")
        return cls(name, sources, axis)

    def shape_of(self, *sources: Shape) -> Shape:
        """Shape of the result; raises ``QuantiseError``."""
        first, axis = sources[0], self.axis
        rest = {shape[:axis] + shape[axis + 1 :] for shape in sources}
        if any(len(shape) != len(first) for shape in sources) or axis >= len(first) or len(rest) != 1:
            raise refuse(self.name, f"sources of shapes {sources}", f"shapes that differ along axis {axis} only")
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
            raise refuse(self.name, f"a source of shape {source}", "(n,)")
        return (1,)
