"""One ledger by itself: every leaf against its hash, the tree against stored nodes and every checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attest.errors import AttestError
from attest.ledger.crossindex import CrossIndex
from attest.ledger.decode import Decoded, decode
from attest.ledger.errors import LedgerError
from attest.ledger.kinds import NUMBERS, RecordKind
from attest.ledger.merkle import CompactRange, leaf_hash
from attest.ledger.note import SignedCheckpoint, key_id, parse_checkpoint
from attest.ledger.report import AuditReport, LedgerSummary
from attest.ledger.store import STRIDE, Ledger

Visit = Callable[[int, RecordKind, Decoded, bytes], None]
"""``visit(index, kind, value, data)`` for every record that decodes."""


@dataclass(slots=True)
class _Checkpoints:
    """The stored checkpoints beside the growing tree; one is held at a time."""

    notes: Iterator[tuple[int, bytes]]
    name: str
    report: AuditReport
    summary: LedgerSummary
    current: SignedCheckpoint | None = None
    last_size: int = -1

    def advance(self) -> None:
        """Hold the next well-formed checkpoint."""
        self.current = None
        for size, note in self.notes:
            self.summary.checkpoints += 1
            try:
                signed = parse_checkpoint(note)
            except LedgerError as error:
                self.report.add("checkpoint-signature", self.name, None, error.found, error.expected)
                continue
            found = signed.checkpoint
            if found.size != size or found.origin != self.summary.origin:
                text = f"a checkpoint of {found.origin} at {found.size}"
                expected = f"one of {self.summary.origin} at {size}"
                self.report.add("checkpoint-signature", self.name, None, text, expected)
                continue
            if found.size < self.last_size:
                text = f"a checkpoint at {found.size} after one at {self.last_size}"
                self.report.add("ledger-reordered", self.name, None, text, "rising sizes")
                continue
            self.last_size = found.size
            self.current = signed
            return

    def meet(self, tree: CompactRange) -> None:
        """Compare every checkpoint of the tree's present size."""
        while self.current is not None and self.current.checkpoint.size == tree.size:
            root = tree.root()
            if self.current.checkpoint.root != root:
                expected = f"{self.current.checkpoint.root.hex()} as signed"
                self.report.add("checkpoint-root", self.name, tree.size - 1, f"root {root.hex()}", expected)
            self.summary.checkpointed = tree.size
            self.advance()

    def beyond(self, tree: CompactRange) -> None:
        """What is left speaks of records that are not there."""
        while self.current is not None:
            shown = self.current.checkpoint.size
            self.report.add("ledger-cut", self.name, tree.size, f"{tree.size} records", f"{shown} as signed")
            self.advance()


def scan(ledger: Ledger, name: str, report: AuditReport, visit: Visit) -> LedgerSummary:
    """Check one ledger's storage and hand its records to ``visit``; findings go to ``report``."""
    summary = report.ledgers[name] = LedgerSummary(name, ledger.origin)
    tree = CompactRange()
    checkpoints = _Checkpoints(ledger.checkpoints(), name, report, summary)
    checkpoints.advance()
    checkpoints.meet(tree)
    due = nodes = 0
    for index, number, stored, data in ledger.stored():
        if index != due:
            report.add("ledger-cut", name, due, f"record {index} next", f"record {due}")
        due = index + 1
        hash_ = leaf_hash(data)
        if hash_ != stored:
            report.add("leaf-hash", name, index, f"hash {hash_.hex()}", f"{stored.hex()} as stored")
        for level, position, node in tree.append(hash_):
            if level % STRIDE:
                continue
            nodes += 1
            if ledger.node(level, position) != node:
                text = f"node {level}/{position} that differs"
                report.add("leaf-hash", name, index, text, node.hex())
        checkpoints.meet(tree)
        summary.data_bytes += len(data)
        _visit(index, number, data, name, report, summary, visit)
    checkpoints.beyond(tree)
    if ledger.nodes() > nodes:  # none is missing: each was compared
        report.add("leaf-hash", name, None, f"{ledger.nodes()} stored nodes", f"the {nodes} of this tree")
    summary.size, summary.root = tree.size, tree.root().hex()
    if tree.size < ledger.appended:
        report.add("ledger-cut", name, tree.size, f"{tree.size} records", f"{ledger.appended} as stored")
    elif tree.size > ledger.appended:
        found = f"{tree.size} records"
        report.add("unknown-record", name, ledger.appended, found, f"{ledger.appended} as stored")
    elif tree.root() != ledger.root():
        report.add("leaf-hash", name, None, f"root {tree.root().hex()}", f"{ledger.root().hex()} as stored")
    return summary


def check_signatures(
    ledger: Ledger, name: str, publics: list[bytes], report: AuditReport, cross: CrossIndex, *, covers: bool
) -> None:
    """Every stored checkpoint must be signed by one of ``publics``; those that are go into ``cross``.

    One by a key nobody introduced is only counted if a later one by a known key covers it: a device signs before
    its first epoch too.
    """
    keys: dict[bytes, list[bytes]] = {}
    for public in publics:
        keys.setdefault(key_id(ledger.origin, public), []).append(public)
    uncovered: int | None = None
    for size, note in ledger.checkpoints():
        try:
            signed = parse_checkpoint(note)
        except LedgerError:
            continue  # reported by scan
        candidates = [public for line in signed.signatures for public in keys.get(line.key_id, [])]
        if signed.signed_by(candidates) is not None:
            uncovered = None
            cross.add_checkpoint(name, signed.checkpoint.size)
        elif candidates or not covers:
            found = f"the checkpoint at {size} with a signature that does not verify"
            report.add("checkpoint-signature", name, None, found, "one by the ledger's owner")
        else:
            report.ledgers[name].checkpoints_unknown += 1
            uncovered = size
    if uncovered is not None:
        found = f"the last checkpoint, at {uncovered}, by an unknown key"
        report.add("checkpoint-signature", name, None, found, "a key that an epoch introduced")


def _visit(
    index: int,
    number: int,
    data: bytes,
    name: str,
    report: AuditReport,
    summary: LedgerSummary,
    visit: Visit,
) -> None:
    try:
        kind, value = decode(data)
    except AttestError as error:
        summary.kinds["unknown"] = summary.kinds.get("unknown", 0) + 1
        report.add("unknown-record", name, index, error.found, error.expected)
        return
    if NUMBERS[kind] != number:
        report.add("unknown-record", name, index, f"stored as kind {number}", f"{kind} as the record says")
    summary.kinds[kind.value] = summary.kinds.get(kind.value, 0) + 1
    # the gate still vouches for the device's last checkpoint after it has written its own last word
    summary.closed = kind is RecordKind.LEDGER_CLOSED or (summary.closed and kind is RecordKind.WITNESS)
    visit(index, kind, value, data)
