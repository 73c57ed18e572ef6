"""When the next row is due: the recording's own spacing, divided by the speed."""

from __future__ import annotations

import datetime as dt
from typing import Literal

Speed = float | Literal["max"]


class Pace:
    """Due times of rows, as seconds on the caller's monotonic clock.

    The schedule is anchored at the first row, so that a late row does not delay all that follow. A pause longer
    than ``gap_s_max`` recorded seconds is shortened to it: recordings are stopped for an hour between two runs.
    """

    def __init__(self, speed: Speed, *, gap_s_max: float) -> None:
        self._speed = speed
        self._gap_s_max = gap_s_max
        self._last: dt.datetime | None = None
        self._due_s: float | None = None

    def due_s(self, recorded: dt.datetime, now_s: float) -> float:
        """Monotonic second at which a row recorded at ``recorded`` is due; ``now_s`` for the first, or at ``max``."""
        if self._speed == "max" or self._due_s is None or self._last is None:
            self._due_s = now_s
        else:
            # A new recording may begin before the last one ended; its first row follows without a pause.
            step_s = min(max((recorded - self._last).total_seconds(), 0.0), self._gap_s_max)
            self._due_s += step_s / self._speed
        self._last = recorded
        return self._due_s
