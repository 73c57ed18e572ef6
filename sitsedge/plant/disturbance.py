"""Seeded disturbances and transport along the strip; every source of randomness has a stream of its own.

Streams are children of one :class:`numpy.random.SeedSequence`, so one more draw in one place does not shift
the numbers of another, and a seed gives the same strip whatever the controller does to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BLOCK = 2048  # normals drawn at once: one NumPy call per 2 s instead of one per step
RING = 4096  # steps of strip history; at the slowest strip speed (4 m/s) 4 s, ten times the way to a gauge


class Normal:
    """Standard normal numbers, one at a time, from a PCG64 stream."""

    __slots__ = ("_block", "_generator", "_next")

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._block: list[float] = []
        self._next = BLOCK

    def draw(self) -> float:
        """The next number."""
        if self._next >= BLOCK:
            self._block = self._generator.standard_normal(BLOCK).tolist()
            self._next = 0
        value = self._block[self._next]
        self._next += 1
        return value


class ColouredNoise:
    """Gaussian noise with standard deviation ``sigma``, low-pass twice: corner at ``tau_s``, smooth below ``smooth_s``.

    The second low-pass keeps neighbouring millimetres of strip alike, as they are in metal.
    """

    __slots__ = ("_drive", "_keep", "_mix", "_raw", "_source", "value")

    def __init__(
        self, seed: np.random.SeedSequence, *, sigma: float, tau_s: float, smooth_s: float, step_s: float
    ) -> None:
        self._source = Normal(seed)
        a = math.exp(-step_s / tau_s)
        b = 1.0 - math.exp(-step_s / smooth_s)
        # Variance of the cascade of two discrete one-pole filters driven by white noise, solved for the drive.
        c = 1.0 - b
        cascade = b * b * (1.0 + a * c) / ((1.0 - a * a) * (1.0 - c * c) * (1.0 - a * c))
        self._drive = sigma / math.sqrt(cascade)
        self._keep = a
        self._mix = b
        start = self._source.draw()
        self._raw = sigma * start
        self.value = sigma * start

    def step(self) -> float:
        """Advance one step and return the new value in the unit of ``sigma``."""
        self._raw = self._keep * self._raw + self._drive * self._source.draw()
        self.value += self._mix * (self._raw - self.value)
        return self.value


class Sensor:
    """First-order sensor lag with additive white noise; ``value`` is what the PLC's input card shows."""

    __slots__ = ("_gain", "_noise", "_sigma", "_source", "value")

    def __init__(self, seed: np.random.SeedSequence, *, sigma: float, tau_s: float, step_s: float) -> None:
        self._source = Normal(seed)
        self._gain = 1.0 - math.exp(-step_s / tau_s)
        # The lag filters the noise too; scale it so that `sigma` is the noise of the filtered value.
        self._sigma = sigma * math.sqrt((2.0 - self._gain) / self._gain)
        self.value = 0.0

    def step(self, truth: float) -> float:
        """Take one reading of ``truth``."""
        self.value += self._gain * (truth + self._sigma * self._source.draw() - self.value)
        return self.value


class TransportLine:
    """Moves values with the strip: what was pushed at one place is read a fixed distance further on.

    Readers are given as distances in metres at construction and read by their number, because each
    keeps a pointer that only moves forward (constant time per step).
    """

    __slots__ = ("_columns", "_count", "_pointers", "_positions", "position_m")

    def __init__(self, *, width: int, readers: int) -> None:
        self._positions = [0.0] * RING
        self._columns = [[0.0] * RING for _ in range(width)]
        self._pointers = [0] * readers
        self._count = 0
        self.position_m = 0.0

    def push(self, travel_m: float, values: Sequence[float]) -> None:
        """Append the values now at the start of the line after the strip moved ``travel_m``."""
        slot = self._count % RING
        self.position_m += travel_m
        self._positions[slot] = self.position_m
        for column, value in zip(self._columns, values, strict=True):
            column[slot] = value
        self._count += 1

    def read(self, reader: int, distance_m: float, column: int) -> float:
        """Value of ``column`` at ``distance_m`` from the start, linear between steps; the oldest one before that."""
        target = self.position_m - distance_m
        oldest = max(0, self._count - RING)
        newest = self._count - 1
        at = min(max(self._pointers[reader], oldest), newest)
        positions = self._positions
        while at < newest and positions[(at + 1) % RING] <= target:
            at += 1
        # A distance that grows faster than the strip moves (the lead shrinks with the speed) goes back a little.
        while at > oldest and positions[at % RING] > target:
            at -= 1
        self._pointers[reader] = at
        values = self._columns[column]
        here = at % RING
        if at == newest or positions[here] >= target:
            return values[here]
        after = (at + 1) % RING
        span = positions[after] - positions[here]
        share = (target - positions[here]) / span if span > 0.0 else 0.0
        return values[here] + share * (values[after] - values[here])
