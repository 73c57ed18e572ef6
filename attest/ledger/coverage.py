"""Whether checkpoints cover a ledger: without them nobody has vouched for the records, and removing them hides a cut.

Three demands, each broken with ``checkpoint-missing``: a ledger that was closed in order has a checkpoint over all of
it; the device holds the checkpoint behind every witness of the gate; and no stretch of records between two checkpoints,
before the first or after the last, spans more than ``STRETCH_NS_MAX`` of commands. Only checkpoints whose signature by
a known key was checked count. An unclean end leaves one such stretch at most.
"""

from __future__ import annotations

from typing import Final

from attest.ledger.crossindex import CrossIndex
from attest.ledger.report import AuditReport

NS_PER_S: Final = 1_000_000_000
STRETCH_NS_MAX: Final = 10 * NS_PER_S  # a checkpoint is due each second; ten leave room for a disk that stalls
# What one gap counts at most: in a pause, between two lives of a process or where a clock was set, no commands flow.
GAP_NS_MAX: Final = NS_PER_S


class Coverage:
    """Takes one ledger's records in order, after the signatures of its checkpoints were checked."""

    def __init__(self, report: AuditReport, cross: CrossIndex, name: str) -> None:
        self._report, self._cross, self._name = report, cross, name
        self._until: int | None = 0  # size of the checkpoint that ends the present stretch; None: there is none
        self._flow_ns = 0
        self._latest_ns: int | None = None

    def record(self, index: int, t_ns: int | None) -> None:
        """One record; ``t_ns`` is when its command was decided or answered, ``None`` for any other record."""
        if self._until is not None and index >= self._until:
            self._until = self._cross.checkpoint_after(self._name, index)
            self._flow_ns, self._latest_ns = 0, None
        if t_ns is None:
            return
        latest, before = self._latest_ns, self._flow_ns
        # Receipts may come out of order: only a time beyond all before counts, unless the clock was set back.
        if latest is not None and latest - GAP_NS_MAX <= t_ns <= latest:
            return
        if latest is not None and t_ns > latest:
            self._flow_ns += min(t_ns - latest, GAP_NS_MAX)
        self._latest_ns = t_ns
        if before <= STRETCH_NS_MAX < self._flow_ns:  # once a stretch
            found = f"over {STRETCH_NS_MAX // NS_PER_S} s of commands without a checkpoint"
            self._report.add("checkpoint-missing", self._name, index, found, "one each second")

    def closed(self, size: int) -> None:
        """After the last record of a ledger that its owner closed, with ``size`` records in all."""
        if self._cross.checkpoint_after(self._name, size - 1) != size:
            found = "a closed ledger without a checkpoint over all of it"
            self._report.add("checkpoint-missing", self._name, size - 1, found, f"a checkpoint at {size}")


def check_witnessed(report: AuditReport, cross: CrossIndex, name: str) -> None:
    """The ledger ``name`` must hold the checkpoint that each witness record of the other side speaks of."""
    for size, index in cross.witnessed_without_checkpoint(name):
        found = f"no checkpoint at {size}, which the gate witnessed in its record {index}"
        report.add("checkpoint-missing", name, None, found, "every witnessed checkpoint, by a known key")
