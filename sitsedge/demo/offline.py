"""Cutting a copied ledger, as somebody with the disk could, and auditing what is left."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from attest.command import Witness, parse_record
from attest.ledger import Ledger, RecordKind
from attest.ledger.audit import verify
from attest.ledger.layout import write_range
from attest.ledger.merkle import CompactRange
from sitsedge.errors import SitsError

CUT_PARTS = 10


def cut_copy_and_audit(ledger_dir: Path, scratch: Path) -> tuple[str, str]:
    """Copy both ledgers, remove the newest part of the device's records, audit the copy.

    At least the newest record that the gate vouched for goes, and at most a tenth more than that.

    Returns code and text of the first ``ledger-cut`` finding, else of the first finding, else ``accepted``.
    """
    copy = scratch / "cut-ledger"
    shutil.rmtree(copy, ignore_errors=True)
    for name in ("device", "gate"):
        (copy / name).mkdir(parents=True)
        _snapshot(ledger_dir / name / "ledger.db", copy / name / "ledger.db")
    shutil.copytree(ledger_dir / "anchors", copy / "anchors")
    _cut(copy / "device" / "ledger.db", witnessed=_witnessed(copy / "gate" / "ledger.db"))
    report = verify(copy, proofs="none")
    shutil.rmtree(copy, ignore_errors=True)
    findings = sorted(report.findings, key=lambda finding: finding.code != "ledger-cut")
    if not findings:
        return "accepted", "no finding"
    return findings[0].code, findings[0].found


def _snapshot(source: Path, target: Path) -> None:
    """A consistent copy of a database that is being written."""
    with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as live, sqlite3.connect(target) as copy:
        live.backup(copy)


def _witnessed(gate_ledger: Path) -> int:
    """Size of the device's ledger that the gate vouched for last."""
    ledger = Ledger.open_readonly(gate_ledger)
    try:
        leaf = ledger.last(RecordKind.WITNESS)
    finally:
        ledger.close()
    record = None if leaf is None else parse_record(leaf.data).record
    if not isinstance(record, Witness):
        raise SitsError("demo-cut", found="no witness in the gate's ledger", expected="at least one")
    return record.size


def _cut(path: Path, *, witnessed: int) -> None:
    """Remove the newest records and everything stored about them: what is left is a well-formed shorter ledger."""
    with sqlite3.connect(path) as ledger:
        size = int(ledger.execute("SELECT count(*) FROM leaves").fetchone()[0])
        keep = min(size * (CUT_PARTS - 1) // CUT_PARTS, witnessed - 1)
        if keep == size:
            raise SitsError("demo-cut", found=f"{size} records", expected=f"at least {CUT_PARTS}")
        ledger.execute("DELETE FROM leaves WHERE idx >= ?", (keep,))
        ledger.execute("DELETE FROM checkpoints WHERE size > ?", (keep,))
        for level in range(64):
            ledger.execute("DELETE FROM nodes WHERE level = ? AND idx >= ?", (level, keep >> level))
        edge = CompactRange()
        for (leaf_hash,) in ledger.execute("SELECT hash FROM leaves ORDER BY idx"):
            edge.append(leaf_hash)
        write_range(ledger, edge)
