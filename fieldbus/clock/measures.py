"""The two measures this product defines for events: Δe and W_sync. Both are checks as well as figures.

Δe is the time from the receive stamp of a frame to the verdict on it (accepted or refused, with the reason). The
stamp is by CLOCK_REALTIME, so the verdict is read by the same clock; a difference across a step of that clock measures
the step, and is left out and counted. W_sync = 3 × the longest round trip within a sliding window: how far apart two
stations' accounts of one event may be and still be of one event. A window without samples has no figure and passes
no check: what was not measured does not hold.

Sources: named and defined here; the standard draft that the figures are attributed to cannot be found.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

DELTA_E_US_MAX = 150.0
"""P99 of Δe that the product's documents promise."""

W_SYNC_MS_MAX = 2.0
"""W_sync that they promise."""

W_SYNC_ROUND_TRIPS = 3

SAMPLES_MAX = 1_024
"""Kept per window: as many as P99.9 needs, and quick to rank beside a running loop."""

WINDOW_S = 10.0
"""Age at which a round trip no longer counts."""


@dataclass(frozen=True, slots=True)
class MeasureFault:
    """A check that does not hold: ``code``, what was found, what the limit is."""

    code: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class DeltaEFigures:
    """Percentiles in ns over the samples kept (None: no samples), and what was left out since the start."""

    count: int
    p50_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None
    stepped: int
    negative: int
    unstamped: int


class DeltaE:
    """Collects Δe of the last ``SAMPLES_MAX`` frames. Not for several threads."""

    def __init__(self, *, samples_max: int = SAMPLES_MAX) -> None:
        self._samples: deque[int] = deque(maxlen=samples_max)
        self._stepped = self._negative = self._unstamped = 0

    def add(self, t_rx_ns: int, t_verdict_ns: int, *, stepped: bool = False, stamped: bool = True) -> int | None:
        """Δe of one frame in ns, or None where it is no measurement: the clock was ``stepped`` in between, the receive
        stamp is this process's own (not ``stamped``: it leaves the waking out), or the verdict seems to come before
        the frame (a hardware stamp ahead by the error of two clocks)."""
        if not stamped:
            self._unstamped += 1
            return None
        if stepped:
            self._stepped += 1
            return None
        delta_ns = t_verdict_ns - t_rx_ns
        if delta_ns < 0:
            self._negative += 1
            return None
        self._samples.append(delta_ns)
        return delta_ns

    def figures(self) -> DeltaEFigures:
        """Percentiles (nearest rank) of what is kept."""
        ordered = sorted(self._samples)
        return DeltaEFigures(
            count=len(ordered),
            p50_ns=_rank(ordered, 500),
            p99_ns=_rank(ordered, 990),
            p999_ns=_rank(ordered, 999),
            max_ns=ordered[-1] if ordered else None,
            stepped=self._stepped,
            negative=self._negative,
            unstamped=self._unstamped,
        )

    def check(self, *, us_max: float = DELTA_E_US_MAX) -> MeasureFault | None:
        """None where P99 is within ``us_max``; else ``delta-e-empty`` or ``delta-e``."""
        p99_ns = self.figures().p99_ns
        if p99_ns is None:
            return MeasureFault("delta-e-empty", "no frame measured", f"P99 of at most {us_max} µs")
        if p99_ns > us_max * 1_000:
            return MeasureFault("delta-e", f"P99 {p99_ns / 1_000:.1f} µs", f"at most {us_max} µs")
        return None


class SyncWindow:
    """Round trips of the last ``window_s`` (at most ``SAMPLES_MAX``), by the monotonic clock. For several threads."""

    def __init__(self, *, window_s: float = WINDOW_S, samples_max: int = SAMPLES_MAX) -> None:
        if not window_s > 0:
            raise ValueError(f"window_s {window_s} is not positive")
        self._window_ns = round(window_s * 1e9)
        self._samples_max = samples_max
        # Decreasing round trips only: a sample that a later one exceeds can never be the longest again.
        self._longest: deque[tuple[int, int]] = deque()
        self._lock = threading.Lock()

    def add(self, rtt_ns: int, mono_ns: int) -> None:
        """Take in one round trip, measured at ``mono_ns`` (CLOCK_MONOTONIC). Raises ValueError for a negative one."""
        if rtt_ns < 0:
            raise ValueError(f"a round trip of {rtt_ns} ns")
        with self._lock:
            while self._longest and self._longest[-1][1] <= rtt_ns:
                self._longest.pop()
            self._longest.append((mono_ns, rtt_ns))
            if len(self._longest) > self._samples_max:
                # The last two become one, as long as the longer and as new as the newer: the figure may be too large
                # for a while, never too small.
                (_, longer), (newer, _) = self._longest[-2], self._longest.pop()
                self._longest[-1] = (newer, longer)
            self._expire(mono_ns)

    def clear(self) -> None:
        """Forget all: after a step of the clock that the round trips were measured by."""
        with self._lock:
            self._longest.clear()

    def w_sync_ns(self, mono_ns: int) -> int | None:
        """3 × the longest round trip of the window that ends now; None where it is empty."""
        with self._lock:
            self._expire(mono_ns)
            return W_SYNC_ROUND_TRIPS * self._longest[0][1] if self._longest else None

    def check(self, mono_ns: int, *, ms_max: float = W_SYNC_MS_MAX) -> MeasureFault | None:
        """None where W_sync is within ``ms_max``; else ``w-sync-empty`` or ``w-sync``."""
        width_ns = self.w_sync_ns(mono_ns)
        if width_ns is None:
            return MeasureFault("w-sync-empty", "no round trip in the window", f"W_sync of at most {ms_max} ms")
        if width_ns > ms_max * 1e6:
            return MeasureFault("w-sync", f"{width_ns / 1e6:.3f} ms", f"at most {ms_max} ms")
        return None

    def _expire(self, mono_ns: int) -> None:
        while self._longest and self._longest[0][0] < mono_ns - self._window_ns:
            self._longest.popleft()


def _rank(ordered: list[int], per_mille: int) -> int | None:
    if not ordered:
        return None
    return ordered[-(-len(ordered) * per_mille // 1_000) - 1]
