"""Nodes of one argument that are no rounding shift: Leaky and Table.

A table of n = 2^k entries costs its k bits, one row that ties them, and about 2·2^(k/2) products instead of n: all
products of the lower half of the bits give any function of that half as a linear combination (its multilinear form),
and a tree of choices by the upper half picks the right one of them.
"""

from __future__ import annotations

import numpy as np

from attest.proof.builder import CircuitBuilder, Interval
from attest.proof.circuit import LinearCombination
from sitsedge.compiler.backends.circuit.maximum import Bounded
from sitsedge.compiler.backends.circuit.requantise import Rounding, requantised, tied_bits
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN, Ints


def leaky(builder: CircuitBuilder, value: Bounded, *, multiplier: int, shift: int) -> LinearCombination:
    """ReLU(x) + ((min(x, 0)·m + 2^(s-1)) >> s): one of both is zero."""
    # (x·2^a·m + 2^(s-1)) >> s = (x·m + 2^(s-a-1)) >> (s-a), which is exact where a ≥ s.
    while shift and multiplier % 2 == 0:
        multiplier, shift = multiplier // 2, shift - 1
    if value.low >= 0 or (multiplier, shift) == (1, 0):
        return value.terms
    positive = builder.relu_shift(value.terms, Interval(value.low, value.high))
    if not multiplier:
        return positive
    below = Interval(value.low * multiplier, min(value.high, 0) * multiplier)
    sloped = Rounding(below, shift, INT32_MIN, INT32_MAX)
    return positive + requantised(builder, [(multiplier, value.terms), (-multiplier, positive)], sloped)


def table(builder: CircuitBuilder, value: Bounded, entries: Ints) -> LinearCombination:
    """entries[x - low] for x in low … high; nothing where the entries lie on a line."""
    steps = np.diff(entries)
    if steps.size == 0 or np.all(steps == steps[0]):
        slope = int(steps[0]) if steps.size else 0
        return value.terms * slope + (int(entries[0]) - slope * value.low)
    k = int(entries.size - 1).bit_length()
    bits = tied_bits(builder, value.terms - value.low, k)
    lower = _cheapest_split(k)
    return _Choice(builder, bits[:lower]).of(entries, bits[lower:])


def _cheapest_split(k: int) -> int:
    """Number of lower bits: 2^l - l - 1 products of them and 2^(k-l) - 1 choices."""
    return min(range(1, k + 1), key=lambda lower: (1 << lower) - lower + (1 << (k - lower)))


class _Choice:
    """Any function of the lower bits, and choices between such functions."""

    def __init__(self, builder: CircuitBuilder, lower: tuple[LinearCombination, ...]) -> None:
        self.builder = builder
        self.size = 1 << len(lower)
        self.products = {0: LinearCombination.constant(1)} | {1 << i: bit for i, bit in enumerate(lower)}

    def of(self, entries: Ints, upper: tuple[LinearCombination, ...]) -> LinearCombination:
        """The entry that lower and upper bits, highest last, point to; entries from the end on are never asked for."""
        if not upper:
            return self._function(entries)
        half = self.size << (len(upper) - 1)
        *rest, bit = upper
        below = self.of(entries[:half], tuple(rest))
        if entries.size <= half:
            return below
        step = self.of(entries[half:], tuple(rest)) - below
        constant = step.constant_value
        return below + (bit * constant if constant is not None else self.builder.add_mul(bit, step))

    def _function(self, entries: Ints) -> LinearCombination:
        """Σ c_S · Π_{i in S} bit_i; c is the Möbius transform of the entries over subsets of the bits."""
        c = np.concatenate([entries, np.full(self.size - entries.size, entries[-1])])
        for i in range(self.size.bit_length() - 1):
            pairs = c.reshape(-1, 2, 1 << i)
            pairs[:, 1] -= pairs[:, 0]
        return LinearCombination.weighted((int(c[s]), self._product(int(s))) for s in np.flatnonzero(c))

    def _product(self, chosen: int) -> LinearCombination:
        """Product of the bits in the set ``chosen``, one row each time a new one is asked for."""
        if chosen not in self.products:
            highest = 1 << (chosen.bit_length() - 1)
            self.products[chosen] = self.builder.add_mul(self._product(chosen - highest), self.products[highest])
        return self.products[chosen]
