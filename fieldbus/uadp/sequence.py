"""Sequence numbers of 16 bits with rollover (OPC 10000-14, 7.2.3) → a 64-bit number that never goes back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MODULUS = 1 << 16
NEWER_BELOW = 16_384
"""A distance below this is a newer message (a quarter of the circle), by the standard's rule."""
OLDER_ABOVE = 49_162
"""A distance above this is an older message or a repeat; between the two the number is meaningless."""


class SequenceEvent(Enum):
    """What a sequence number says about its message."""

    FIRST = "first"
    NEXT = "next"
    GAP = "gap"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    INVALID = "invalid"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class SequenceVerdict:
    """``extended``: 64-bit number of this message; ``missed``: messages lost before it (0 unless GAP)."""

    event: SequenceEvent
    extended: int
    missed: int = 0

    @property
    def in_order(self) -> bool:
        """True where the message is newer than every one before it."""
        return self.event in _IN_ORDER


_IN_ORDER = frozenset({SequenceEvent.FIRST, SequenceEvent.NEXT, SequenceEvent.GAP, SequenceEvent.RESTART})


class SequenceTracker:
    """Classifies the sequence numbers of one writer; one tracker per (publisher, group, writer).

    After ``restart_after`` messages in a row that follow each other but not the newest one seen, the
    publisher has restarted: the count goes on from the last extended number, so a consumer that asks for
    growth stays satisfied. Freshness of timestamps, not this class, is what stops a replay.
    """

    __slots__ = ("_extended", "_last", "_restart_after", "_run", "_run_last", "counts")

    def __init__(self, *, restart_after: int = 16) -> None:
        if restart_after < 2:
            raise ValueError("restart_after must be at least 2: one stray frame is no restart")
        self._restart_after = restart_after
        self._last = -1
        self._extended = -1
        self._run = 0
        self._run_last = -1
        self.counts: dict[SequenceEvent, int] = dict.fromkeys(SequenceEvent, 0)

    def update(self, sequence: int) -> SequenceVerdict:
        """Verdict on ``sequence`` (0 … 65,535), which becomes the newest if it is in order."""
        if not 0 <= sequence < MODULUS:
            raise ValueError(f"sequence number {sequence} is outside 0 … 65535")
        verdict = self._judge(sequence)
        self.counts[verdict.event] += 1
        if verdict.in_order:
            self._last = sequence
            self._extended = verdict.extended
            self._run = 0
        return verdict

    def lost_before(self, expected: int) -> int:
        """Messages lost so far, as a keep-alive shows: it carries the number that the next message will have.

        0 where none is missing, where nothing was received yet, and where the number is no newer one (a restart).
        """
        if not 0 <= expected < MODULUS:
            raise ValueError(f"sequence number {expected} is outside 0 … 65535")
        missing = (expected - self._last - 1) % MODULUS
        return missing if self._last >= 0 and missing < NEWER_BELOW else 0

    def _judge(self, sequence: int) -> SequenceVerdict:
        if self._last < 0:
            return SequenceVerdict(SequenceEvent.FIRST, sequence)
        ahead = (sequence - self._last) % MODULUS
        # The standard's distance is one less than ``ahead``, modulo 65,536: 0 is the next message.
        distance = (ahead - 1) % MODULUS
        if distance < NEWER_BELOW:
            event = SequenceEvent.GAP if distance else SequenceEvent.NEXT
            return SequenceVerdict(event, self._extended + ahead, distance)
        if ahead == 0:
            return SequenceVerdict(SequenceEvent.DUPLICATE, self._extended)
        if self._restarted(sequence):
            return SequenceVerdict(SequenceEvent.RESTART, self._extended + 1)
        older = self._extended - (MODULUS - ahead)
        if distance > OLDER_ABOVE:
            return SequenceVerdict(SequenceEvent.REORDER, older)
        return SequenceVerdict(SequenceEvent.INVALID, older)

    def _restarted(self, sequence: int) -> bool:
        follows = self._run > 0 and sequence == (self._run_last + 1) % MODULUS
        self._run = self._run + 1 if follows else 1
        self._run_last = sequence
        return self._run >= self._restart_after
