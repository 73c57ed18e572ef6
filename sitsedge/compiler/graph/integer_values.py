"""Shapes and limits of the integer graph's values, and the checks its nodes share."""

from __future__ import annotations

import math

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.reference import Ints

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


def refuse(name: str, found: str, expected: str) -> QuantiseError:
    return QuantiseError("integer-format", found=f"{name!r}: {found}", expected=expected)


def frozen(values: object) -> Ints:
    """A read-only int64 copy."""
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def inside(name: str, what: str, values: Ints, low: int, high: int) -> None:
    if values.size == 0 or values.min() < low or values.max() > high:
        found = "nothing" if values.size == 0 else f"{values.min()} … {values.max()}"
        raise refuse(name, f"{what} {found}", f"{low} … {high}")


def rounding(shift: Ints) -> Ints:
    return np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)


def elements(shape: Shape) -> int:
    """Number of elements of a value."""
    return math.prod(shape)


def check_shape(name: str, shape: Shape) -> Shape:
    """``shape`` itself; raises ``QuantiseError`` where it is no shape of a value."""
    whole = all(isinstance(size, int) and 1 <= size <= ELEMENTS_MAX for size in shape)
    if not whole or not 1 <= len(shape) <= RANK_MAX or elements(shape) > ELEMENTS_MAX:
        raise refuse(name, f"shape {shape}", f"(C,), (C, L) or (C, H, W) of 1 to {ELEMENTS_MAX} elements")
    return shape


def planes(name: str, shape: Shape) -> tuple[int, int, int]:
    """(C, H, W) of a value with positions: (C, L) has one row of L columns. Raises ``QuantiseError`` for (C,)."""
    if len(shape) == 2:
        return shape[0], 1, shape[1]
    if len(shape) != 3:
        raise refuse(name, f"a value of shape {shape}", "(C, L) or (C, H, W)")
    return shape[0], shape[1], shape[2]


def check_window(name: str, strides: Pair, pads: Pads, dilations: Pair) -> None:
    inside(name, "strides", frozen(strides), 1, KERNEL_MAX)
    inside(name, "dilations", frozen(dilations), 1, KERNEL_MAX)
    inside(name, "pads", frozen(pads), 0, KERNEL_MAX)
    if (len(strides), len(pads), len(dilations)) != (2, 4, 2):
        raise refuse(name, f"strides {strides}, pads {pads}, dilations {dilations}", "2, 4 and 2 numbers")


def window_counts(name: str, source: Shape, kernel: Pair, *, strides: Pair, pads: Pads, dilations: Pair) -> Pair:
    """Positions of a sliding window down and across; raises ``QuantiseError`` where there is none."""
    _, height, width = planes(name, source)
    if len(source) == 2 and (kernel[0], strides[0], dilations[0], pads[0], pads[2]) != (1, 1, 1, 0, 0):
        raise refuse(name, f"a two-dimensional window over shape {source}", "a window of one row")
    sizes = []
    for axis, length in enumerate((height, width)):
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        count = (length + pads[axis] + pads[axis + 2] - reach) // strides[axis] + 1
        if count < 1:
            raise refuse(name, f"a window of {reach} over {length} positions", "a window inside the padded source")
        sizes.append(count)
    return sizes[0], sizes[1]
