"""Is this frame fresh, in order and from a moving clock? One small state per data source.

Rules, in the order they are checked; the first broken one is reported, and only a frame that breaks none
moves the state (so a forged far-future frame cannot lock the real ones out):

1. ``time-quality``     this machine's clock is at least as good as the policy asks
2. ``clock-step``       the wall clock ran as the monotonic clock did since the last check
3. ``duplicate``        the sequence number is not the last accepted one
4. ``out-of-order``     sequence number and source timestamp are not before the last accepted ones
5. ``frozen-timestamp`` the source timestamp moves when the sequence number does
6. ``future-frame``     source timestamp not later than now by more than ``future_ms_max``
7. ``stale-frame``      source timestamp not earlier than now by more than ``age_ms_max``, and the frame did
                        not lie in a queue here for that long either
"""

from __future__ import annotations

from dataclasses import dataclass

from fieldbus.clock.quality import TimeQualityKind
from fieldbus.clock.step import ClockStepDetector

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class FreshnessPolicy:
    """Limits. ``frozen_frames_max``: frames in a row that may repeat the last source timestamp (publishers
    whose cycle is faster than their sampling); ``order``: whether sequence numbers are checked at all."""

    age_ms_max: float
    future_ms_max: float
    order: bool = True
    time_quality_min: TimeQualityKind = TimeQualityKind.FREE
    frozen_frames_max: int = 0
    clock_step_ms_max: float = 5.0

    def __post_init__(self) -> None:
        limits = (self.age_ms_max, self.future_ms_max, self.clock_step_ms_max)
        if not all(0 <= limit < 1e12 for limit in limits) or self.frozen_frames_max < 0:
            raise ValueError("freshness limits must be finite and not negative")


@dataclass(frozen=True, slots=True)
class ClockFault:
    """A broken rule: ``code`` as in the module text, what was found, what the policy allows."""

    code: str
    found: str
    expected: str


class FreshnessCheck:
    """Checks the frames of one source against a policy. Not for several threads."""

    __slots__ = (
        "_age_ns",
        "_frozen",
        "_future_ns",
        "_policy",
        "_quality",
        "_sequence",
        "_steps",
        "_t_source_ns",
    )

    def __init__(self, policy: FreshnessPolicy, *, time_quality: TimeQualityKind = TimeQualityKind.FREE) -> None:
        self._policy = policy
        self._age_ns = round(policy.age_ms_max * _NS_PER_MS)
        self._future_ns = round(policy.future_ms_max * _NS_PER_MS)
        self._steps = ClockStepDetector(step_ms_max=policy.clock_step_ms_max)
        self._quality = time_quality
        self._sequence: int | None = None
        self._t_source_ns = 0
        self._frozen = 0

    def update_time_quality(self, kind: TimeQualityKind) -> None:
        """Take over what ``time_quality()`` last said (asked beside the loop)."""
        self._quality = kind

    def check(
        self,
        sequence: int,
        t_source_ns: int,
        t_rx_ns: int,
        now_ns: int,
        *,
        now_mono_ns: int | None = None,
    ) -> ClockFault | None:
        """The first broken rule, or None: the frame may be used.

        ``sequence``: extended (64-bit) number from SequenceTracker. All times are CLOCK_REALTIME ns, except
        ``now_mono_ns`` (CLOCK_MONOTONIC); without it clock steps are not looked for.
        """
        if self._quality < self._policy.time_quality_min:
            return ClockFault("time-quality", self._quality.label, f"at least {self._policy.time_quality_min.label}")
        if now_mono_ns is not None:
            step_ns = self._steps.update(now_ns, now_mono_ns)
            if step_ns:
                return ClockFault(
                    "clock-step",
                    f"the wall clock jumped by {_ms(step_ns)}",
                    f"at most {self._policy.clock_step_ms_max} ms",
                )
        fault = self._order(sequence, t_source_ns) or self._age(t_source_ns, t_rx_ns, now_ns)
        if fault is None:
            self._frozen = self._frozen + 1 if t_source_ns == self._t_source_ns else 0
            self._sequence = sequence
            self._t_source_ns = t_source_ns
        return fault

    def _order(self, sequence: int, t_source_ns: int) -> ClockFault | None:
        if self._sequence is None:
            return None
        if self._policy.order:
            if sequence == self._sequence:
                return ClockFault("duplicate", f"sequence {sequence} again", f"above {self._sequence}")
            if sequence < self._sequence:
                return ClockFault("out-of-order", f"sequence {sequence}", f"above {self._sequence}")
        behind_ns = self._t_source_ns - t_source_ns
        if behind_ns > 0:
            return ClockFault(
                "out-of-order", f"source time {_ms(behind_ns)} before the last accepted one", "a later one"
            )
        if behind_ns == 0 and self._frozen >= self._policy.frozen_frames_max:
            return ClockFault(
                "frozen-timestamp",
                f"the same source time {self._frozen + 1} times again",
                f"at most {self._policy.frozen_frames_max}",
            )
        return None

    def _age(self, t_source_ns: int, t_rx_ns: int, now_ns: int) -> ClockFault | None:
        age_ns = now_ns - t_source_ns
        if -age_ns > self._future_ns:
            return ClockFault(
                "future-frame", f"{_ms(-age_ns)} in the future", f"at most {self._policy.future_ms_max} ms"
            )
        if age_ns > self._age_ns:
            return ClockFault("stale-frame", f"{_ms(age_ns)} old", f"at most {self._policy.age_ms_max} ms")
        waited_ns = now_ns - t_rx_ns
        if waited_ns > self._age_ns:
            return ClockFault("stale-frame", f"received {_ms(waited_ns)} ago", f"at most {self._policy.age_ms_max} ms")
        return None


def _ms(ns: int) -> str:
    return f"{ns / _NS_PER_MS:.3f} ms"
