"""Following a ledger that another process writes: read-only, in steps of bounded work, never holding it open.

A reader that stays open keeps SQLite from folding its write-ahead log into the file, so every step opens, reads what is
new and closes. What did not change on disk is not opened at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from attest.ledger import Ledger, LedgerError
from attest.ledger.store import Leaf

RECORDS_MAX: Final = 2048  # of one step: a second of a 1 kHz loop with its receipts, a few ms to read
BACKLOG_MAX: Final = 16_384  # records looked at after a start or a long pause; older ones are for the audit

_Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """What one step found. ``skipped``: records passed over; ``more``: there is more to read at once."""

    leaves: Sequence[Leaf]
    size: int
    skipped: int = 0
    more: bool = False


class LedgerTail:
    """Follows one ledger file from ``position`` on (default: from what a start may look back at)."""

    def __init__(self, path: Path, *, position: int | None = None) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self.position = position
        self.size = 0

    def step(self) -> Step:
        """New records since the last step. Raises ``LedgerError``; then the next step tries again."""
        stamp = self._look()
        if stamp == self._stamp:
            return Step((), self.size)
        ledger = Ledger.open_readonly(self._path)
        try:
            step = self._read(ledger)
        finally:
            ledger.close()
        self._stamp = None if step.more else stamp
        return step

    def _read(self, ledger: Ledger) -> Step:
        size = ledger.size
        if self.position is not None and size < self.position:
            self.position = size
            raise LedgerError("ledger-cut", found=f"{size} records", expected=f"at least {self.position} as before")
        first = max(0, size - BACKLOG_MAX)
        start = first if self.position is None else max(self.position, first)
        skipped = 0 if self.position is None else start - self.position
        leaves = tuple(islice(ledger.iterate(start), RECORDS_MAX))
        self.position, self.size = start + len(leaves), size
        return Step(leaves, size, skipped, more=self.position < size)

    def _look(self) -> _Stamp:
        """Size and time of file and write-ahead log. Raises ``LedgerError`` ``ledger-missing``."""
        try:
            main = self._path.stat()
        except OSError as error:
            raise LedgerError(
                "ledger-missing", found=f"{self._path.name}: {error.strerror}", expected="a ledger"
            ) from error
        try:
            log = self._path.with_name(self._path.name + "-wal").stat()
        except OSError:
            return main.st_size, main.st_mtime_ns, 0, 0
        return main.st_size, main.st_mtime_ns, log.st_size, log.st_mtime_ns
