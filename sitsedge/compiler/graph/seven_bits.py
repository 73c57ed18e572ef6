"""Which values the relaxed dot product may read: those whose channels, each moved by a constant, lie in 0 … 127.

On such operands ``i16x8.relaxed_dot_i8x16_i7x16_s`` is one function on every machine (2 · 128 · 127 < 2^15).
"""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.intervals import ValueBounds
from sitsedge.compiler.reference import Ints

SPAN = 127


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
