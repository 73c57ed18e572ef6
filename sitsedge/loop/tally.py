"""What happened in the loop: counts, durations, and the record of cycles that ended without a command."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from attest.command import CycleRefused as CycleRefusedRecord
from attest.command import line
from sitsedge.loop.budget import STAGES, CycleRefused
from sitsedge.telemetry import StageDurations

RECORD_INTERVAL_NS = 1_000_000_000  # one record a second and reason: a broken sensor must not fill the disk
PENDING_MAX = 256  # commands sent and not yet answered; older ones are counted as unanswered
NEWEST = 1000


@dataclass(slots=True)
class _Reason:
    """Refusals of one reason not yet recorded, with the latest example."""

    count: int
    found: str
    expected: str
    recorded_mono_ns: int


@dataclass(frozen=True, slots=True)
class Sent:
    """A command on its way: when its frame came in and how long each stage took so far."""

    start_mono_ns: int
    sent_mono_ns: int
    stages_ns: dict[str, int]
    budget_end_ns: int


class Tally:
    """Counters of one ``sitsd``; not for several threads."""

    def __init__(self, device_id: str) -> None:
        self._device_id = device_id
        self.cycles = 0
        self.accepted = 0
        self.superseded = 0
        self.kernel_dropped = 0
        self.unanswered = 0
        self.late = 0
        self.refused: Counter[str] = Counter()
        self.read_back: Counter[str] = Counter()
        self.durations = StageDurations(STAGES)
        self._reasons: dict[str, _Reason] = {}
        self._pending: dict[int, Sent] = {}

    def refuse(self, reason: CycleRefused) -> None:
        """Count one cycle that ended without a command."""
        self.refused[reason.code] += 1
        entry = self._reasons.get(reason.code)
        if entry is None:
            self._reasons[reason.code] = _Reason(1, reason.found, reason.expected, 0)
        else:
            entry.count += 1
            entry.found, entry.expected = reason.found, reason.expected

    def due_records(self, epoch: int, *, everything: bool = False) -> list[CycleRefusedRecord]:
        """One record for each reason whose last one is a second old (or for all, at the end)."""
        now = time.monotonic_ns()
        records = []
        for code, entry in self._reasons.items():
            if entry.count and (everything or now - entry.recorded_mono_ns >= RECORD_INTERVAL_NS):
                records.append(
                    CycleRefusedRecord(
                        device_id=self._device_id,
                        epoch=epoch,
                        sequence=0,
                        code=code,
                        found=line(entry.found),
                        expected=line(entry.expected),
                        count=entry.count,
                        t_ns=time.time_ns(),
                    )
                )
                entry.count, entry.recorded_mono_ns = 0, now
        return records

    def sent(self, sequence: int, sent: Sent) -> None:
        """Remember a command until its answer comes."""
        if len(self._pending) >= PENDING_MAX:
            del self._pending[next(iter(self._pending))]
            self.unanswered += 1
        self._pending[sequence] = sent

    def answered(self, sequence: int, *, code: str | None, state: str, timing: dict[str, int]) -> None:
        """Book the gate's answer: a refusal by its code, or an accepted command with its durations."""
        sent = self._pending.pop(sequence, None)
        if code is not None:
            self.refused[code] += 1
            return
        self.accepted += 1
        self.read_back[state] += 1
        acknowledged = timing["acknowledged"]
        if sent is None or not acknowledged:
            return
        stages = dict(sent.stages_ns)
        stages["handover"] = timing["started"] - sent.sent_mono_ns
        stages["verify"] = timing["judged"] - timing["started"]
        stages["write"] = acknowledged - timing["judged"]
        self.durations.add(stages, acknowledged - sent.start_mono_ns)
        if acknowledged > sent.budget_end_ns:
            self.late += 1

    def unanswered_sequences(self) -> list[int]:
        """Commands that were sent and never answered, as far as they are remembered."""
        return sorted(self._pending)

    @property
    def pending(self) -> int:
        """Commands sent and not yet answered."""
        return len(self._pending)

    @property
    def missed(self) -> int:
        """Frames that gave no accepted command: superseded, dropped by the kernel, or refused for any reason."""
        return self.superseded + self.kernel_dropped + self.refused.total()

    def summary(self, *, newest: int | None = NEWEST) -> dict[str, object]:
        """Plain data for the snapshot; ``newest=None`` ranks everything (at the end, not while running)."""
        return {
            "cycles": self.cycles,
            "accepted": self.accepted,
            "refused": dict(self.refused),
            "missed": self.missed,
            "superseded": self.superseded,
            "kernel_dropped": self.kernel_dropped,
            "unanswered": self.unanswered,
            "pending": self.pending,
            "late": self.late,
            "read_back": dict(self.read_back),
            "latency": self.durations.summary(newest),
        }
