"""Verify two ledgers with files alone: no device, no plant, no network.

 1. load the anchors
 2. the device's ledger by itself: leaf hashes, tree, stored nodes, checkpoints, every record decodes
 3. the gate's ledger by itself, and in its order: signatures of checkpoints and records, evidence of every epoch,
    refusals, receipts, every accepted command judged again with its proof, witnesses against the device's tree, no
    records without a checkpoint
 4. the device's ledger again, now that the session keys are known: signatures of checkpoints and records, epochs and
    sequences in order, proofs that followed a commitment (all of them unless ``proofs`` is ``none``), no records
    without a checkpoint, a checkpoint behind every witness
 5. the two reconciled

A check that cannot be made is a finding.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

from attest.command.command import ParsedCommand, parse_command
from attest.command.enums import ProofKind
from attest.command.errors import CommandError
from attest.command.judge import ProofVerifier
from attest.command.records import (
    Alarm,
    CycleRefused,
    EpochOpened,
    EpochRefused,
    LateProof,
    LedgerClosed,
    ParsedRecord,
    Receipt,
    Refusal,
    parse_record,
)
from attest.cose import key_id
from attest.ledger.anchors import Anchors, load_anchors
from attest.ledger.coverage import Coverage, check_witnessed
from attest.ledger.crossindex import DEVICE_COMMAND, DEVICE_RECEIPT, CrossIndex
from attest.ledger.decode import Decoded, Opaque, decode
from attest.ledger.errors import LedgerError
from attest.ledger.kinds import RecordKind
from attest.ledger.late import LateProofs
from attest.ledger.reconcile import reconcile
from attest.ledger.rejudge import DEVICE, GATE, GateAudit, MakeVerifier
from attest.ledger.report import AuditReport
from attest.ledger.scan import check_signatures, scan
from attest.ledger.store import Ledger
from attest.proof.verifier import NativeVerifier, PyEccVerifier

LEDGER_FILE: Final = "ledger.db"
Engine = Literal["native", "py-ecc"]
_SHOWN_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Extracted:
    """What ``proof verify`` needs of one recorded command."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ctx: bytes
    proof: bytes
    proof_kind: str
    module_digest: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit is. The device's records are read twice, and count twice in both numbers of records."""

    records: int
    records_total: int
    proofs: int
    """Proofs that verified so far."""


OnProgress = Callable[[Progress], None]
"""Called for every record; decides itself how often it shows something."""


class _Steps:
    """Counts records for a callback, which is told before a record's own checks begin."""

    def __init__(self, report: AuditReport, tell: OnProgress | None) -> None:
        self._report, self._tell = report, tell
        self._done = self.total = 0

    def step(self) -> None:
        if self._tell is not None:
            self._tell(Progress(self._done, max(self._done, self.total), self._report.proofs_checked))
            self._done += 1


def verify(
    ledger_dir: Path,
    *,
    proofs: Literal["all", "none"] | int = "all",
    engine: Engine = "native",
    now_ns: int | None = None,
    progress: OnProgress | None = None,
) -> AuditReport:
    """Audit ``ledger_dir`` (``device/ledger.db``, ``gate/ledger.db``, ``anchors/``).

    ``proofs`` says how many of the accepted commands' proofs are checked: all, none, or that many chosen at
    random; of the proofs that followed a commitment likewise. ``engine`` is the verifier: ``native`` takes about a
    millisecond a proof, ``py-ecc`` half a second. A commitment without its proof is a finding once its deadline has
    passed at ``now_ns`` (this machine's clock by default). ``progress`` is told of every record.
    """
    report = AuditReport(engine=engine, proofs=str(proofs))
    try:
        anchors = load_anchors(ledger_dir / "anchors")  # 1
    except LedgerError as error:
        report.add(error.code, "anchors", None, error.found, error.expected)
        return report
    report.profile = anchors.profile
    with ExitStack() as stack:
        device = _open(ledger_dir / DEVICE / LEDGER_FILE, DEVICE, anchors.device_origin, report, stack)
        gate = _open(ledger_dir / GATE / LEDGER_FILE, GATE, anchors.gate_origin, report, stack)
        cross = CrossIndex()
        stack.callback(cross.close)
        steps = _Steps(report, progress)
        steps.total = sum(passes * ledger.appended for ledger, passes in ((device, 2), (gate, 1)) if ledger is not None)
        first = _DeviceAudit(report, anchors, cross, steps)
        if device is not None:
            _guarded(report, DEVICE, lambda: scan(device, DEVICE, report, first.collect))  # 2
        conduct = GateAudit(
            report=report,
            anchors=anchors,
            cross=cross,
            device=device,
            gate=gate,
            make_verifier=_make_verifier(engine),
            check_proof=_sample(gate, proofs, RecordKind.RECEIPT, RecordKind.COMMAND),
        )
        if gate is not None:
            publics = [anchors.gate_public]
            _guarded(report, GATE, lambda: check_signatures(gate, GATE, publics, report, cross, covers=False))  # 3
            _guarded(report, GATE, lambda: _check_gate(gate, report, cross, conduct, steps))
            _guarded(report, GATE, conduct.finish)
        first.epochs |= conduct.epochs
        if device is not None:
            late = LateProofs(
                report,
                cross,
                device=device,
                gate=gate,
                epochs=conduct.epochs,
                rules=anchors.rules,
                verifiers=conduct.verifiers,
                check_proof=_sample(device, proofs, RecordKind.PROOF),
                now_ns=time.time_ns() if now_ns is None else now_ns,
            )
            known = list(first.session_keys().values())
            _guarded(report, DEVICE, lambda: check_signatures(device, DEVICE, known, report, cross, covers=True))  # 4
            _guarded(report, DEVICE, lambda: first.check(device, late))
            _guarded(report, DEVICE, late.missing)
            check_witnessed(report, cross, DEVICE)
        if device is not None and gate is not None:
            reconcile(report, cross, conduct.covered_before, first.closed_epoch)  # 5
    return report


def show(data: bytes) -> dict[str, Any]:
    """One record as plain values (bytes in hex, enumerations by name), for people and JSON.

    Raises ``LedgerError`` (``ledger-kind``) or ``CommandError``.
    """
    kind, value = decode(data)
    result: dict[str, Any] = {"kind": str(kind), "bytes": len(data)}
    if isinstance(value, Opaque):
        return result | {"digest": value.digest.hex(), "data": value.data[:_SHOWN_BYTES_MAX].hex()}
    result |= {"digest": value.digest.hex(), "kid": value.kid.hex()}
    content = value.command if isinstance(value, ParsedCommand) else value.record
    plain: dict[str, Any] = _plain(content)
    if isinstance(value, ParsedCommand):
        plain = plain.pop("header") | plain | {"ctx": value.command.header.ctx().hex()}
    return result | plain


def extract(ledger: Ledger, index: int) -> Extracted:
    """Inputs, outputs, ctx and proof of the command at ``index``; a deferred proof is looked for in what follows.

    Raises ``LedgerError`` (``ledger-range``, ``ledger-kind``, ``proof-owed``) or ``CommandError``.
    """
    leaf = ledger.read(index)
    if leaf.kind is not RecordKind.COMMAND:
        raise LedgerError("ledger-kind", found=f"record {index} of kind {leaf.kind}", expected="a command")
    parsed = parse_command(leaf.data, None)
    command, header = parsed.command, parsed.command.header
    kind, proof = command.proof_kind, command.proof
    if kind is ProofKind.COMMITMENT:
        late = _late_proof(ledger, index, parsed.digest)
        kind, proof = late.proof_kind, late.proof
    return Extracted(command.inputs, command.outputs, header.ctx(), proof, kind.name, header.module_digest)


def _late_proof(ledger: Ledger, index: int, digest: bytes) -> LateProof:
    for leaf in ledger.iterate(index + 1):
        if leaf.kind is RecordKind.PROOF:
            record = parse_record(leaf.data).record
            if isinstance(record, LateProof) and record.command_digest == digest:
                return record
    raise LedgerError(
        "proof-owed",
        found=f"record {index} with a commitment and no proof behind it",
        expected="the proof that follows",
        hint="the device's ledger holds it once it was made; the gate's does not",
    )


class _DeviceAudit:
    """The device's records: collected first, checked once the session keys are known."""

    def __init__(self, report: AuditReport, anchors: Anchors, cross: CrossIndex, steps: _Steps) -> None:
        self._report, self._anchors, self._cross, self._steps = report, anchors, cross, steps
        self.epochs: dict[int, EpochOpened] = {}
        self.refused_keys: set[bytes] = set()
        self.closed_epoch = 0
        """The epoch whose key closed the ledger in order; 0 if its end is another (a crash, an epoch lost before)."""

    def collect(self, index: int, kind: RecordKind, value: Decoded, data: bytes) -> None:
        """First pass: what is there, and the keys that gate records introduce."""
        self._steps.step()
        if isinstance(value, ParsedCommand):
            header = value.command.header
            if not self._cross.add(DEVICE_COMMAND, value.digest, header.epoch, header.sequence, index):
                self._report.add("ledger-reordered", DEVICE, index, "the same command again", "each command once")
        elif isinstance(value, Opaque):
            self._cross.add_evidence(value.digest, DEVICE, index)
        elif isinstance(value.record, CycleRefused):
            if value.record.sequence:
                self._cross.add_unsent(value.record.epoch, value.record.sequence)
        elif isinstance(value.record, EpochOpened | EpochRefused | Receipt) and self._by_gate(value):
            record = value.record
            if isinstance(record, EpochOpened):
                self.epochs[record.epoch] = record
            elif isinstance(record, EpochRefused):
                self.refused_keys.add(record.session_public)
            else:
                self._cross.add(DEVICE_RECEIPT, record.command_digest, record.epoch, record.sequence, index)

    def check(self, device: Ledger, late: LateProofs) -> None:
        """Second pass: signatures, order, checkpoints, and proofs that came later."""
        keys, coverage = self.session_keys(), Coverage(self._report, self._cross, DEVICE)
        epoch = sequence = 0
        for leaf in device.iterate():
            self.closed_epoch = 0
            self._steps.step()
            try:
                _, value = decode(leaf.data)
            except (LedgerError, CommandError):
                continue  # reported by the first pass
            coverage.record(leaf.index, value.command.header.t_decided_ns if isinstance(value, ParsedCommand) else None)
            if isinstance(value, Opaque):
                continue  # judged with the epoch it opened; evidence that opened none proves nothing
            if isinstance(value, ParsedCommand):
                header = value.command.header
                if (header.epoch, header.sequence) <= (epoch, sequence):
                    found = f"command {header.epoch}/{header.sequence} after {epoch}/{sequence}"
                    self._report.add("ledger-reordered", DEVICE, leaf.index, found, "rising epochs and sequences")
                epoch, sequence = header.epoch, header.sequence
                self._check_command(leaf.index, value)
                continue
            if not self._check_record(leaf.index, value, keys):
                continue
            if isinstance(value.record, LateProof):
                late.check(leaf.index, value.record)
            elif isinstance(value.record, LedgerClosed):
                self.closed_epoch = self._epoch_of(value.kid)
        # closed before any epoch introduced its key, a device cannot sign a checkpoint that anybody would know
        if self.closed_epoch:
            coverage.closed(self._report.ledgers[DEVICE].size)

    def _epoch_of(self, kid: bytes) -> int:
        """The number of the epoch that introduced this key, 0 if none did."""
        return max((number for number, it in self.epochs.items() if key_id(it.session_public) == kid), default=0)

    def _check_record(self, index: int, value: ParsedRecord, keys: dict[bytes, bytes]) -> bool:
        """Whether a known key signed the record."""
        record, public = value.record, keys.get(value.kid)
        if isinstance(record, CycleRefused | LateProof | LedgerClosed | Alarm):
            if public is not None and _verifies(value, public):
                return True
            outside = isinstance(record, LedgerClosed) or (record.epoch, record.sequence) == (0, 0)
            if public is None and outside:
                self._report.ledgers[DEVICE].unauthenticated += 1
                return False
        if self._by_gate(value):
            return True
        found = f"{record.KIND} signed by key {value.kid.hex()}"
        self._report.add("unknown-record", DEVICE, index, found, "the gate's or a session key")
        return False

    def session_keys(self) -> dict[bytes, bytes]:
        """Keys by kid: those of opened epochs, and those the gate refused (their alarms are still records)."""
        publics = [record.session_public for record in self.epochs.values()]
        publics += [public for public in self.refused_keys if public]
        return {key_id(public): public for public in publics}

    def _check_command(self, index: int, value: ParsedCommand) -> None:
        if self._cross.judged(value.digest):
            return
        number = value.command.header.epoch
        record = self.epochs.get(number)
        if record is None:
            self._report.add("command", DEVICE, index, f"a command of epoch {number}", "an epoch the gate opened")
            return
        try:
            value.verify(record.command_key)
        except CommandError as error:
            self._report.add("command", DEVICE, index, f"signature: {error.found}", error.expected)

    def _by_gate(self, value: Decoded) -> bool:
        return not isinstance(value, Opaque | ParsedCommand) and _verifies(value, self._anchors.gate_public)


def _verifies(value: Any, public: bytes) -> bool:
    try:
        value.verify(public)
    except CommandError:
        return False
    return True


def _open(path: Path, name: str, origin: str, report: AuditReport, stack: ExitStack) -> Ledger | None:
    try:
        ledger = Ledger.open_readonly(path)
    except LedgerError as error:
        report.add(error.code, name, None, error.found, error.expected)
        return None
    stack.callback(ledger.close)
    if ledger.origin != origin:
        report.add("ledger-origin", name, None, ledger.origin, origin)
    return ledger


def _guarded(report: AuditReport, name: str, work: Callable[[], object]) -> None:
    """A file that breaks while it is read is a finding, not the end of the audit."""
    try:
        work()
    except LedgerError as error:
        report.add(error.code, name, None, error.found, error.expected)


def _check_gate(gate: Ledger, report: AuditReport, cross: CrossIndex, conduct: GateAudit, steps: _Steps) -> None:
    coverage = Coverage(report, cross, GATE)

    def visit(index: int, kind: RecordKind, value: Decoded, data: bytes) -> None:
        steps.step()
        coverage.record(index, _answered_ns(value))
        conduct.visit(index, kind, value, data)

    summary = scan(gate, GATE, report, visit)
    if summary.closed:
        coverage.closed(summary.size)


def _answered_ns(value: Decoded) -> int | None:
    """When the gate answered a command, by its own clock."""
    if isinstance(value, Opaque | ParsedCommand):
        return None
    record = value.record
    if isinstance(record, Receipt):
        return record.t_accepted_ns
    return record.t_ns if isinstance(record, Refusal) else None


def _make_verifier(engine: Engine) -> MakeVerifier:
    def make(verification_key: bytes, vk_sha256: bytes) -> ProofVerifier:
        if engine == "py-ecc":
            return PyEccVerifier(verification_key, vk_sha256=vk_sha256)
        return NativeVerifier(verification_key, vk_sha256=vk_sha256)

    return make


def _sample(ledger: Ledger | None, proofs: Literal["all", "none"] | int, *kinds: RecordKind) -> Callable[[], bool]:
    """A function that says, one record of these kinds after the other, whether its proof is to be checked."""
    if proofs == "all":
        return lambda: True
    if proofs == "none" or ledger is None:
        return lambda: False
    # Chosen by the operating system's randomness: whoever made the ledger must not know which.
    count = max(ledger.count(kind) for kind in kinds)
    chosen = set(random.SystemRandom().sample(range(count), min(int(proofs), count)))
    numbers = iter(range(count))
    return lambda: next(numbers, -1) in chosen


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name.lower().replace("_", "-")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
