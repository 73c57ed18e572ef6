"""Input and output checks of the loop: physical values to counts, box, rate, limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sitsedge.loop.budget import CycleRefused

INT16_MIN, INT16_MAX = -32768, 32767
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """One input or output. ``scale`` is physical units per count; ``low``/``high`` are inclusive counts.

    ``rate_max`` is in counts per second; ``None`` means no rate limit.
    """

    name: str
    unit: str
    scale: float
    low: int
    high: int
    rate_max: float | None

    @classmethod
    def physical(
        cls, name: str, unit: str, *, scale: float, low: float, high: float, max_rate: float | None
    ) -> SignalSpec:
        """From physical limits; the box never grows by rounding (low is rounded up, high down)."""
        tiny = 1e-9  # a limit that is a whole number of counts must not lose one to binary fractions
        rate = None if max_rate is None else max_rate / scale
        return cls(name, unit, scale, math.ceil(low / scale - tiny), math.floor(high / scale + tiny), rate)

    def text(self, counts: int) -> str:
        """A value for people."""
        return f"{counts * self.scale:.6g} {self.unit}"


class InputCheck:
    """Quantises (evidence §1) and holds each input to its box and its rate against the last sample that passed."""

    def __init__(self, specs: Sequence[SignalSpec]) -> None:
        self._specs = tuple(specs)
        self._last: tuple[int, ...] | None = None
        self._last_ns = 0

    def check(self, values: Sequence[object], t_source_ns: int) -> tuple[int, ...]:
        """Counts (n int16) of one sample.

        Raises :class:`CycleRefused` ``input-type``, ``input-not-finite``, ``input-range`` or ``input-rate``
        naming the signal, its value and its limit.
        """
        counts = tuple(map(self._quantise, self._specs, values))
        if self._last is not None:
            self._check_rates(counts, t_source_ns)
        self._last, self._last_ns = counts, t_source_ns
        return counts

    @staticmethod
    def _quantise(spec: SignalSpec, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CycleRefused("input-type", found=f"{spec.name} = {value!r:.40}", expected="a number")
        if not math.isfinite(value):
            raise CycleRefused("input-not-finite", found=f"{spec.name} = {value}", expected="a finite number")
        scaled = value / spec.scale
        if not INT16_MIN - 1 < scaled < INT16_MAX + 1 or not spec.low <= (count := round(scaled)) <= spec.high:
            raise CycleRefused(
                "input-range",
                found=f"{spec.name} = {value:.6g} {spec.unit}",
                expected=f"{spec.text(spec.low)} .. {spec.text(spec.high)}",
            )
        return count

    def _check_rates(self, counts: tuple[int, ...], t_source_ns: int) -> None:
        assert self._last is not None
        elapsed_ns = t_source_ns - self._last_ns
        for spec, now, before in zip(self._specs, counts, self._last, strict=True):
            if spec.rate_max is None or now == before:
                continue
            # One count of slack: quantisation alone can move a still value by one.
            allowed = spec.rate_max * elapsed_ns / NS_PER_S + 1
            if abs(now - before) > allowed:
                self._last, self._last_ns = counts, t_source_ns  # a jump is refused once, not for ever
                raise CycleRefused(
                    "input-rate",
                    found=f"{spec.name} moved {spec.text(now - before)} in {elapsed_ns / 1e6:.1f} ms",
                    expected=f"at most {spec.rate_max * spec.scale:.6g} {spec.unit}/s",
                )


class OutputCheck:
    """Refuses outputs beyond the deployment's limits; the gate has its own."""

    def __init__(self, specs: Sequence[SignalSpec]) -> None:
        self._specs = tuple(specs)

    def check(self, outputs: Sequence[int]) -> None:
        """Raise :class:`CycleRefused` ``output-limit`` naming the signal, its value and its limit."""
        for spec, value in zip(self._specs, outputs, strict=True):
            if not spec.low <= value <= spec.high:
                raise CycleRefused(
                    "output-limit",
                    found=f"{spec.name} = {spec.text(value)}",
                    expected=f"{spec.text(spec.low)} .. {spec.text(spec.high)}",
                )
