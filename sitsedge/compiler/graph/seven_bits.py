"""What the relaxed dot product may multiply: values whose channels, each moved by a constant, lie in 0 … 127, and int8.

On such operands ``i16x8.relaxed_dot_i8x16_i7x16_s`` is one function on every machine (2 · 128 · 127 < 2^15).
"""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds
from sitsedge.compiler.reference import IN_SHIFT_MAX, Ints

SPAN = 127
INT8_MIN, INT8_MAX = -128, 127


def serves(node: Dense | Conv, source: ValueBounds) -> bool:
    """Whether the relaxed product can compute ``node`` from a value with these bounds.

    The back end asks a little more: a border that another reader of the value needs has to fit too.
    """
    border = isinstance(node, Conv) and any(node.pads)
    return fits_int8(node) and offsets(source, border=border) is not None


def fits_int8(node: Dense | Conv) -> bool:
    """Whether the weights with their exponents are int8; looks at the matrix only where an exponent is not 0."""
    if not node.in_shift.any():
        return True
    assert node.in_shift.max() <= IN_SHIFT_MAX
    columns = node.columns()
    return bool(columns.min() >= INT8_MIN and columns.max() <= INT8_MAX)


def offsets(bound: ValueBounds, *, border: bool) -> Ints | None:
    """What to subtract from each channel (channels,), or None where some channel's proven bounds span more.

    All are equal where one offset serves, 0 where none is needed. With ``border`` the zeros of a padding have to lie
    in 0 … 127 as well.
    """
    low, high = (values.reshape(len(values), -1) for values in (bound.low, bound.high))
    low, high = low.min(axis=1), high.max(axis=1)
    if border:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    if np.any(high - low > SPAN):
        return None
    if low.min() >= 0 and high.max() <= SPAN:
        return np.zeros(len(low), np.int64)
    if high.max() - low.min() <= SPAN:
        return np.full(len(low), low.min(), np.int64)
    return np.asarray(np.where((low >= 0) & (high <= SPAN), 0, low), dtype=np.int64)
