"""Raw monotonic differences, kept as they are: no smoothing, no compensation, bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping

RING_LENGTH = 65_536  # eleven minutes at 100 Hz; 0.5 MiB a stage
QUANTILES = (("p50_ms", 0.50), ("p99_ms", 0.99), ("p999_ms", 0.999))


def percentiles_ms(durations_ns: Iterable[int]) -> dict[str, float]:
    """P50, P99, P99.9 and maximum in milliseconds (nearest-rank), empty when there is nothing to rank."""
    ordered = sorted(durations_ns)
    if not ordered:
        return {}
    last = len(ordered) - 1
    result = {name: ordered[min(last, int(q * len(ordered)))] / 1e6 for name, q in QUANTILES}
    result["max_ms"] = ordered[-1] / 1e6
    return result


class DurationRing:
    """The newest ``RING_LENGTH`` durations of one kind, in nanoseconds."""

    __slots__ = ("_next", "_values", "count")

    def __init__(self) -> None:
        self._values = array("q")
        self._next = 0
        self.count = 0

    def add(self, duration_ns: int) -> None:
        """Keep one duration; the oldest goes when the ring is full."""
        if len(self._values) < RING_LENGTH:
            self._values.append(duration_ns)
        else:
            self._values[self._next] = duration_ns
            self._next = (self._next + 1) % RING_LENGTH
        self.count += 1

    def values(self) -> array[int]:
        """Everything the ring holds, in no particular order once it has wrapped."""
        return self._values

    def newest(self, count: int) -> array[int]:
        """The last ``count`` durations (fewer when there are fewer)."""
        if len(self._values) < RING_LENGTH:
            return self._values[-count:]
        start = self._next - count
        return self._values[start:] + self._values[: self._next] if start < 0 else self._values[start : self._next]


class StageDurations:
    """One ring per stage, the end-to-end ring, and what no stage accounts for."""

    def __init__(self, stages: tuple[str, ...]) -> None:
        self._rings = {name: DurationRing() for name in stages}
        self.end_to_end = DurationRing()
        self.unattributed = DurationRing()

    def add(self, stages_ns: Mapping[str, int], end_to_end_ns: int) -> None:
        """Record one cycle. ``unattributed`` is the raw difference and may show clock steps as negative values."""
        for name, duration in stages_ns.items():
            self._rings[name].add(duration)
        self.end_to_end.add(end_to_end_ns)
        self.unattributed.add(end_to_end_ns - sum(stages_ns.values()))

    def summary(self, newest: int | None = None) -> dict[str, object]:
        """``{p50_ms …, stages: {name: {p50_ms …}}, unattributed_ms}`` of the rings, or of their newest part.

        Ranking a full ring takes milliseconds a stage: a running loop asks for the newest part only.
        """

        def ranked(ring: DurationRing) -> dict[str, float]:
            return percentiles_ms(ring.values() if newest is None else ring.newest(newest))

        stages = {name: ranked(ring) for name, ring in self._rings.items()}
        rest = ranked(self.unattributed)
        return {
            **ranked(self.end_to_end),
            "stages": stages,
            "unattributed_ms": rest.get("p50_ms", 0.0),
            "unattributed_p99_ms": rest.get("p99_ms", 0.0),
        }
