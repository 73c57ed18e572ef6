"""The time one cycle may take, charged stage by stage."""

from __future__ import annotations

import time

from sitsedge.errors import SitsError

#: Stages of one cycle in order; the last three are reported by the gate.
STAGES = (
    "wake",
    "decode",
    "clock",
    "input",
    "sandbox",
    "prove",
    "output",
    "sign",
    "handover",
    "verify",
    "write",
)


class CycleRefused(SitsError):
    """A cycle that ended without a command; ``code`` is the reason that is counted and recorded."""


class Budget:
    """One cycle's clock: starts at the kernel's receive stamp, ends at the deadline.

    All values are CLOCK_MONOTONIC nanoseconds. ``charge`` is called at the end of each stage.
    """

    __slots__ = ("_mark", "deadline_mono_ns", "stages_ns", "start_mono_ns")

    def __init__(self, *, start_mono_ns: int, deadline_ns: int) -> None:
        self.start_mono_ns = start_mono_ns
        self.deadline_mono_ns = start_mono_ns + deadline_ns
        self.stages_ns: dict[str, int] = {}
        self._mark = start_mono_ns

    def charge(self, stage: str) -> None:
        """Book the time since the last mark on ``stage``; :class:`CycleRefused` ``deadline`` when none is left."""
        now = time.monotonic_ns()
        self.stages_ns[stage] = now - self._mark
        self._mark = now
        if now > self.deadline_mono_ns:
            late_us = (now - self.deadline_mono_ns) // 1000
            raise CycleRefused("deadline", found=f"{late_us} µs late after {stage}", expected="a decision in time")
