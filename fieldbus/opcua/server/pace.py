"""What time it is for a server that is not always given a processor: time in which it could not run is nobody's fault.

A server below everything else of its machine (nice), or one that was stopped, finds all deadlines passed when it runs
again, before it has read what its clients sent meanwhile. Deadlines of clients therefore go by the time in which the
event loop turned; how long it was held up, and by what, is kept for the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TURN_S = 0.25
"""How often the loop is to turn at least."""

LATE_S = 0.25
"""How late it may be: more is time in which it was held up."""

STALL_S = 1.0
"""Held up this long is worth a line in the log: it is the time after which asyncua's clients, unanswered, hang up."""

_RUN_DELAY = Path("/proc/thread-self/schedstat")


@dataclass(frozen=True, slots=True)
class Stall:
    """Seconds that the loop was late, waited for a processor (None: the kernel does not tell), worked meanwhile."""

    late_s: float
    waited_s: float | None
    worked_s: float

    def __str__(self) -> str:
        waited = "unknown" if self.waited_s is None else f"{self.waited_s:.1f} s"
        return f"held up for {self.late_s:.1f} s (waiting for a processor: {waited}, own work: {self.worked_s:.1f} s)"


class Pace:
    """``now`` rises with the monotonic clock (s) while the loop turns, and stands still while it is held up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lost = 0.0
        self._turned: float | None = None
        self._worked = 0.0
        self._waited: float | None = None
        self.longest = Stall(0.0, None, 0.0)
        """The longest time it was held up."""

    def now(self) -> float:
        """Seconds; before the first turn simply the clock's."""
        now = self._clock()
        return now - self._lost - self._late(now)

    def turn(self) -> Stall | None:
        """The loop turned, on its own thread; what held it up since the last turn, if anything did for STALL_S."""
        now, worked, waited = self._clock(), time.thread_time(), _waited()
        late = self._late(now)
        stall = Stall(
            late,
            None if waited is None or self._waited is None else waited - self._waited,
            worked - self._worked,
        )
        self._lost += late
        self._turned, self._worked, self._waited = now, worked, waited
        if late > self.longest.late_s:
            self.longest = stall
        return stall if late >= STALL_S else None

    def _late(self, now: float) -> float:
        return 0.0 if self._turned is None else max(0.0, now - self._turned - TURN_S - LATE_S)


def _waited() -> float | None:
    """Seconds that this thread was ready to run and did not (Linux: Documentation/scheduler/sched-stats.rst)."""
    try:
        return int(_RUN_DELAY.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
