"""Processes that may end without harm are started again, ever later."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sitsedge.supervisor.children import Children

RESTART_S: Final = 0.5
RESTART_S_MAX: Final = 30.0
STABLE_S: Final = 60.0  # one that ran this long may start again at once


@dataclass(slots=True)
class Revival:
    """A process that is started again when it ends, ever later: the plant is safe without it."""

    children: Children
    name: str
    module: str
    arguments: Sequence[str]
    say: Callable[[str], None]
    _started: float = field(default_factory=time.monotonic)
    _due: float | None = None
    _wait_s: float = RESTART_S

    def start(self) -> None:
        """Start it, and do not wait until it is ready."""
        self._started = time.monotonic()
        self.children.spawn(self.name, self.module, list(self.arguments), restartable=True)

    def check(self) -> None:
        """Start it again where it has ended and waited long enough."""
        now = time.monotonic()
        said = self.children.reap(self.name)
        if said is not None:
            if now - self._started > STABLE_S:
                self._wait_s = RESTART_S
            self.say(f"the {self.name} ended with {said}; starting it again in {self._wait_s:.1f} s")
            self._due = now + self._wait_s
            self._wait_s = min(2 * self._wait_s, RESTART_S_MAX)
        if self._due is not None and now >= self._due:
            self._due = None
            self.start()
