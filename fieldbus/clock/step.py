"""Did somebody set the clock? The wall clock against the monotonic clock, which nobody can set."""

from __future__ import annotations

_NS_PER_MS = 1_000_000
_SLEW_PPM_MAX = 1_000
"""Rate difference that is no step: the kernel slews at most 500 ppm, twice that leaves room for reading noise."""


class ClockStepDetector:
    """Compares successive (realtime, monotonic) pairs; both in ns, read one right after the other."""

    __slots__ = ("_last_mono_ns", "_last_real_ns", "_step_ns_max")

    def __init__(self, *, step_ms_max: float) -> None:
        self._step_ns_max = round(step_ms_max * _NS_PER_MS)
        self._last_real_ns = 0
        self._last_mono_ns: int | None = None

    def update(self, real_ns: int, mono_ns: int) -> int:
        """Size of the step since the last call in ns (signed), or 0 where there was none.

        After a step the new time is the base: one step is reported once.
        """
        last_mono_ns, last_real_ns = self._last_mono_ns, self._last_real_ns
        self._last_mono_ns, self._last_real_ns = mono_ns, real_ns
        if last_mono_ns is None:
            return 0
        elapsed_ns = mono_ns - last_mono_ns
        step_ns = (real_ns - last_real_ns) - elapsed_ns
        allowed_ns = self._step_ns_max + max(0, elapsed_ns) * _SLEW_PPM_MAX // 1_000_000
        return step_ns if abs(step_ns) > allowed_ns else 0
