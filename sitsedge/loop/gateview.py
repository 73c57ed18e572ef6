"""What the loop knows of the gate from its answers: the mode, and whether a checkpoint is still unanswered."""

from __future__ import annotations

import time
from typing import Final

from attest.command import Mode

WITNESS_NS: Final = 5_000_000_000  # an answer waits for the gate's disk; one that takes longer was lost on its way


class GateView:
    """On the loop's thread only; CLOCK_MONOTONIC ns."""

    def __init__(self) -> None:
        self.mode = Mode.OFF
        self._change = 0
        self._checkpoint_ns = 0

    def connected(self) -> None:
        """A new connection: perhaps to another gate process, which counts anew."""
        self._change = self._checkpoint_ns = 0

    def told(self, mode: int, change: int) -> None:
        """The gate's mode, unless a newer one overtook it: it may come with an epoch, on another connection."""
        if change >= self._change:
            self.mode, self._change = Mode(mode), change

    def checkpoint_sent(self) -> None:
        """From now on until the witness, another checkpoint would prove that it extends too old a tree."""
        self._checkpoint_ns = time.monotonic_ns()

    def witnessed(self) -> None:
        """The gate has answered the checkpoint, one way or the other."""
        self._checkpoint_ns = 0

    @property
    def checkpoint_open(self) -> bool:
        """Whether one is on its way."""
        return self._checkpoint_ns != 0 and time.monotonic_ns() - self._checkpoint_ns < WITNESS_NS
