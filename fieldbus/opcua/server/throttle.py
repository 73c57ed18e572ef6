"""Growing delays after failed sign-ins.

Two counts, and the longer delay of the two holds: one for a user name *from one application*, one for the
application. Nobody can lock a user out from elsewhere by failing in that user's name, and living sessions are not
touched at all. A success clears the first count only: else a guesser with an account of his own would clear the
second between guesses.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

USER_FREE = 2
"""Failures of one user at one application that cost nothing: typing errors."""

APPLICATION_FREE = 10
"""Failures at one application that cost nothing: a control room shares a screen."""

DELAY_S_FIRST = 1.0
DELAY_S_MAX = 60.0
"""A delay doubles up to this: 1 440 guesses a day, against passwords of ten characters."""

FORGET_S = 600.0
"""A count without a new failure for this long is forgotten."""

ENTRIES_MAX = 1_024
"""Counts kept; the oldest goes. The counts per application are bounded by the trust list and kept apart."""


_K = TypeVar("_K")


@dataclass(slots=True)
class _Count:
    failures: int
    last: float
    until: float


class Throttle:
    """``clock``: seconds that never go back (for tests)."""

    __slots__ = ("_applications", "_clock", "_users")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._users: OrderedDict[tuple[str, str], _Count] = OrderedDict()
        self._applications: OrderedDict[str, _Count] = OrderedDict()

    def wait_s(self, user: str, application: str) -> float:
        """Seconds until this user may try again from this application; 0.0 where it may now."""
        now = self._clock()
        counts = (self._users.get((user, application)), self._applications.get(application))
        return max([0.0, *(count.until - now for count in counts if count is not None)])

    def begin(self, user: str, application: str) -> None:
        """Count an attempt as failed before its result is known: whoever hangs up meanwhile has guessed, too."""
        now = self._clock()
        _count(self._users, (user, application), now, USER_FREE)
        _count(self._applications, application, now, APPLICATION_FREE)

    def succeeded(self, user: str, application: str) -> None:
        """Forget the failures of this user at this application, and that the last attempt was counted as one."""
        self._users.pop((user, application), None)
        count = self._applications.get(application)
        if count is not None:
            count.failures -= 1
            count.until = min(count.until, self._clock())


def _count(counts: OrderedDict[_K, _Count], key: _K, now: float, free: int) -> None:
    count = counts.pop(key, None)
    if count is None or now - count.last > FORGET_S:
        count = _Count(0, now, now)
    count.failures += 1
    count.last = now
    over = count.failures - free
    if over > 0:
        count.until = now + min(DELAY_S_FIRST * 2.0 ** min(over - 1, 16), DELAY_S_MAX)
    counts[key] = count
    if len(counts) > ENTRIES_MAX:
        counts.popitem(last=False)
