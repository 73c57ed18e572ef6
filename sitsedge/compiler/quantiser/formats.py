"""How the counts of one value are laid out, and the figures every stage of the quantiser shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.graph.float_graph import Floats
from sitsedge.compiler.graph.intervals import ValueBounds
from sitsedge.compiler.reference import Ints

TABLE_BITS_MAX = 11
"""Counts of a table's argument: -2047 … 2047 are 4,095 entries of the 4,096 a table may have."""

FAST_BITS = 7
"""Activations in 0 … 127 take the fast kernel (relaxed dot products are exact there on every machine)."""


@dataclass(frozen=True, slots=True)
class Format:
    """``bits`` of a value's magnitude; ``saturate`` clamps it there; ``rule`` of ``ranges.reach`` finds its reach.

    ``fine``: the weights that make the value have twelve bits instead of eight (``quantiser.fine``). ``scale``: the
    physical value of a count that is wanted, whatever the reach; None leaves it to the reach.
    """

    bits: int
    saturate: bool
    rule: str = "min-max"
    fine: bool = False
    scale: float | None = None

    @property
    def weight_bits(self) -> int:
        """Of the weights that make the value, where weights do."""
        return 12 if self.fine else 8

    @property
    def largest(self) -> int:
        """Largest count the reach is brought to."""
        return (1 << self.bits) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of a trial: counts on the calibration rows (rows, *shape), proven bounds, physical value of a count."""

    counts: Ints
    bounds: ValueBounds
    real: Floats


def powers_of_two(ratio: float) -> int:
    """log2 of a ratio that is a power of two up to rounding errors."""
    return int(np.rint(np.log2(ratio)))
