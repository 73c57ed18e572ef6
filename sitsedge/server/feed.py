"""One look at everything the appliance says of itself: snapshots of its processes and new records of its ledgers.

Reads only, in bounded work, and keeps nothing open. Runs on a thread of its own, since a busy disk may hold it up.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.ledger import Ledger, LedgerError, RecordKind
from fieldbus.opcua import CertificateError, load_certificate
from sitsedge.server.judge import NO_PROCESS, Facts, Process
from sitsedge.server.news import FROM_DEVICE, FROM_GATE, News
from sitsedge.server.tail import LedgerTail
from sitsedge.telemetry import read_snapshot

STEPS_MAX: Final = 8  # of one ledger in one look: some 16,000 records, what a start looks back at
CERTIFICATES_S: Final = 10.0  # between two looks at the files


@dataclass(frozen=True, slots=True)
class Sources:
    """Where everything lies. ``processes``: names of snapshots; ``certificates``: what is watched for its end."""

    run_dir: Path
    gate_ledger: Path
    device_ledger: Path
    processes: tuple[str, ...]
    certificates: Mapping[str, Path]
    period_s: float


class Feed:
    """Looks again and again; ``news`` is kept between two looks."""

    def __init__(self, sources: Sources, *, positions: Mapping[str, int] | None = None) -> None:
        """``positions``: how far an earlier life had read each ledger (``gate``, ``device``)."""
        known = {} if positions is None else positions
        self._sources = sources
        self._tails = {
            "gate": (LedgerTail(sources.gate_ledger, position=known.get("gate")), FROM_GATE),
            "device": (LedgerTail(sources.device_ledger, position=known.get("device")), FROM_DEVICE),
        }
        self._certificates: dict[str, dt.datetime] = {}
        self._certificates_due = 0.0
        self.news = News()

    @property
    def certificate_ends(self) -> Mapping[str, dt.datetime]:
        """When each watched certificate ends, as far as it can be read."""
        return self._certificates

    @property
    def positions(self) -> dict[str, int]:
        """How far each ledger was read."""
        return {name: tail.position for name, (tail, _) in self._tails.items() if tail.position is not None}

    def look(self, now_s: float) -> Facts:
        """Everything as it is now; ``now_s`` is monotonic. Raises nothing for what others wrote or did not write."""
        self.news.begin()
        faults = [fault for name in self._tails if (fault := self._follow(name)) is not None]
        if now_s >= self._certificates_due:
            self._certificates_due = now_s + CERTIFICATES_S
            self._read_certificates()
        now = dt.datetime.now(dt.UTC)
        return Facts(
            processes={name: self._process(name) for name in self._sources.processes},
            news=self.news,
            certificates={name: (end - now).total_seconds() for name, end in self._certificates.items()},
            ledger_fault="; ".join(faults) or None,
            period_s=self._sources.period_s,
        )

    def recall_epoch(self, index: int) -> None:
        """Read the epoch that an earlier life knew; nothing where it cannot be read."""
        try:
            ledger = Ledger.open_readonly(self._sources.gate_ledger)
            try:
                leaf = ledger.read(index)
            finally:
                ledger.close()
        except LedgerError:
            return
        if leaf.kind is RecordKind.EPOCH_OPENED:
            self.news.take([leaf], FROM_GATE)

    def _follow(self, name: str) -> str | None:
        tail, kinds = self._tails[name]
        for _ in range(STEPS_MAX):
            try:
                step = tail.step()
            except LedgerError as error:
                if error.code == "ledger-missing" and tail.position is None:
                    return None  # nothing has been written yet
                return f"{name} ledger: {error.code}"
            self.news.take(step.leaves, kinds)
            if not step.more:
                break
        return None

    def _process(self, name: str) -> Process:
        snapshot = read_snapshot(self._sources.run_dir, name)
        if snapshot is None:
            return NO_PROCESS
        return Process(snapshot.alive, max(0.0, snapshot.age_s), snapshot.state, snapshot.data)

    def _read_certificates(self) -> None:
        for name, path in self._sources.certificates.items():
            try:
                self._certificates[name] = load_certificate(path).not_valid_after_utc
            except CertificateError:
                self._certificates.pop(name, None)  # one that is not there does not end
