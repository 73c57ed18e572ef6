"""The gate's ledger read as the gate's conduct: every epoch, refusal and receipt judged again.

Evidence is verified as it was at the epoch's opening. An accepted command is judged by the same ``judge`` as the
gate's, with the rules the epoch record pins, in the mode the gate was in, at the time its receipt states, in the order
in which the gate recorded the commands. Receipts may come later and in another order, because they wait for a
read-back. A gate that records receipts only is audited in their order, with the commands of the device's ledger.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from attest.command.command import Command, ParsedCommand, parse_command
from attest.command.enums import Mode, ProofKind, ProofPolicy, ReadBack
from attest.command.errors import CommandError
from attest.command.judge import CHECKS, Accepted, OpenEpoch, ProofVerifier, judge
from attest.command.records import (
    REFUSED_BYTES_MAX,
    EpochClosed,
    EpochOpened,
    ModeChange,
    ParsedRecord,
    ProofReceipt,
    ProofStatus,
    Receipt,
    Refusal,
    Witness,
)
from attest.command.rules import GateRules
from attest.command.state import GateState
from attest.errors import AttestError
from attest.evidence.application import quoted_application_pcr
from attest.evidence.none import verify_none
from attest.evidence.verify import NOTHING_SEEN, Seen, verify_evidence
from attest.ledger.anchors import Anchors
from attest.ledger.crossindex import DEVICE_COMMAND, GATE_COMMAND, GATE_RECEIPT, GATE_REFUSAL, CrossIndex
from attest.ledger.decode import Decoded, Opaque
from attest.ledger.errors import LedgerError
from attest.ledger.kinds import RecordKind, is_none
from attest.ledger.owed import NS_PER_MS, OwedProofs
from attest.ledger.report import AuditReport, EpochSummary
from attest.ledger.store import Ledger
from attest.policies import sealing_policy
from attest.proof.keys import VerificationKey

GATE: Final = "gate"
DEVICE: Final = "device"
PENDING_MAX: Final = 4096  # accepted commands waiting for a receipt; a read-back takes a fraction of a second
RECEIPTS_TAIL_NS: Final = 2_000_000_000  # ten times the usual limit of a read-back
RECEIPTS_TAIL_MAX: Final = 2048  # two seconds at 1 kHz

MakeVerifier = Callable[[bytes, bytes], ProofVerifier]
"""``make(verification_key, vk_sha256)``."""


class _Unchecked:
    """Stands for a proof that this audit was asked not to check; the report counts only those checked."""

    def verify(self, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, proof: bytes, /) -> str | None:
        return None


@dataclass(slots=True)
class _Pending:
    """An accepted command waiting for its receipt; ``data`` is ``None`` where no ledger has its bytes."""

    index: int
    digest: bytes
    data: bytes | None
    mode: Mode
    t_ns: int = 0
    withdrawn: str | None = None
    receipt: Receipt | None = None
    receipt_index: int = 0


@dataclass(slots=True)
class _Epoch:
    record: EpochOpened
    open: OpenEpoch
    state: GateState
    rules: GateRules | None
    verifier: ProofVerifier | None
    summary: EpochSummary
    closed: bool = False
    last_index: int = 0
    latest_ns: int = 0
    unreceipted: int = 0
    queue: deque[_Pending] = field(default_factory=deque)
    waiting: dict[bytes, _Pending] = field(default_factory=dict)

    def saw(self, index: int, t_ns: int) -> None:
        """A record of this epoch: how far the gate came with it."""
        self.last_index, self.latest_ns = index, max(self.latest_ns, t_ns)


class GateAudit:
    """Visits the gate's records in order; ``device`` may be missing, then commands come from the gate's ledger."""

    def __init__(
        self,
        *,
        report: AuditReport,
        anchors: Anchors,
        cross: CrossIndex,
        device: Ledger | None,
        gate: Ledger | None,
        make_verifier: MakeVerifier,
        check_proof: Callable[[], bool],
    ) -> None:
        self._report, self._anchors, self._cross = report, anchors, cross
        self._ledgers = {"device": device, GATE: gate}
        self._make_verifier = make_verifier
        self._check_proof = check_proof
        self._mode = Mode.OFF
        self._owed = OwedProofs(self._add)
        self._open: dict[int, _Epoch] = {}
        self._seen = NOTHING_SEEN
        self.epochs: dict[int, EpochOpened] = {}
        self.covered_before: dict[int, int] = {}
        self._newest_witness: dict[int, int] = {}
        self.verifiers: dict[int, ProofVerifier] = {}
        self._made: dict[bytes, ProofVerifier] = {}

    def finish(self) -> None:
        """After the last record: judge what still waits for a receipt."""
        for epoch in self._open.values():
            self._drain(epoch, everything=True)
        self._open.clear()

    def visit(self, index: int, kind: RecordKind, value: Decoded, data: bytes) -> None:
        """One record of the gate's ledger."""
        if isinstance(value, ParsedCommand):
            self._accepted(index, value, data)
        elif isinstance(value, Opaque):
            self._cross.add_evidence(value.digest, GATE, index)
        elif self._signed(index, kind, value):
            record = value.record
            if isinstance(record, EpochOpened):
                self._opened(index, record)
            elif isinstance(record, EpochClosed):
                self._closed(index, record)
            elif isinstance(record, ModeChange):
                self._mode = record.new
            elif isinstance(record, Receipt):
                self._receipt(index, record)
            elif isinstance(record, Refusal):
                self._refusal(index, record)
            elif isinstance(record, Witness):
                self._witness(index, record)
            elif isinstance(record, ProofReceipt):
                self._owed.proven(record.command_digest)
                self._cross.add_proof_receipt(record.command_digest, record.t_ns, record.late, index)
            elif isinstance(record, ProofStatus):
                self._owed.status(record)

    def _add(self, code: str, index: int | None, found: str, expected: str) -> None:
        self._report.add(code, GATE, index, found, expected)

    def _signed(self, index: int, kind: RecordKind, value: ParsedRecord) -> bool:
        try:
            value.verify(self._anchors.gate_public)
        except CommandError as error:
            self._add("unknown-record", index, f"{kind}: {error.found}", error.expected)
            return False
        return True

    def _accepted(self, index: int, value: ParsedCommand, data: bytes) -> None:
        header = value.command.header
        if not self._cross.add(GATE_COMMAND, value.digest, header.epoch, header.sequence, index):
            self._add("ledger-reordered", index, "the same command again", "each command once")
            return
        if self._cross.find(GATE_RECEIPT, value.digest) is not None:
            self._add("ledger-reordered", index, "a command after its receipt", "the command first")
            return
        epoch = self._epoch(index, header.epoch)
        if epoch is not None:
            pending = _Pending(index, value.digest, data, self._mode, header.t_decided_ns, self._owed.withdrawn)
            self._wait(epoch, pending)
            if value.command.proof_kind is ProofKind.COMMITMENT and epoch.rules is not None:
                self._owed.accepted(index, value.digest, header.t_decided_ns, epoch.rules)
            epoch.saw(index, header.t_decided_ns)

    def _epoch(self, index: int, number: int) -> _Epoch | None:
        epoch = self._open.get(number)
        if epoch is None:
            self._add("receipt", index, f"a record of epoch {number}", "one of the open epoch")
        return epoch

    def _wait(self, epoch: _Epoch, pending: _Pending) -> None:
        epoch.queue.append(pending)
        epoch.waiting[pending.digest] = pending
        self._report.accepted += 1
        epoch.summary.accepted += 1

    def _drain(self, epoch: _Epoch, *, everything: bool) -> None:
        """Judge from the front while receipts are there; ``everything`` also what has none."""
        queue = epoch.queue
        while queue and (everything or queue[0].receipt is not None or len(queue) > PENDING_MAX):
            pending = queue.popleft()
            del epoch.waiting[pending.digest]
            if pending.receipt is not None:
                self._check_receipt(pending.receipt_index, pending.receipt)
            elif everything and self._in_tail(epoch, pending):
                self._report.tail_receipts += 1
                epoch.unreceipted += 1
            else:
                self._add("receipt", pending.index, "an accepted command without receipt", "its receipt")
            self._judge(epoch, pending)

    def _in_tail(self, epoch: _Epoch, pending: _Pending) -> bool:
        """Whether a gate that was stopped in this epoch, with no time to close it, may still have owed the receipt."""
        if epoch.closed or epoch.unreceipted >= RECEIPTS_TAIL_MAX:
            return False
        recent = pending.t_ns >= epoch.latest_ns - RECEIPTS_TAIL_NS
        return recent or pending.index >= self._cross.last_checkpoint_but_one(GATE, epoch.last_index + 1)

    def _closed(self, index: int, record: EpochClosed) -> None:
        epoch = self._epoch(index, record.epoch)
        if epoch is not None:
            epoch.closed = True

    def _opened(self, index: int, record: EpochOpened) -> None:
        last = max(self.epochs, default=0)
        if record.epoch <= last:
            self._add("ledger-reordered", index, f"epoch {record.epoch} after {last}", "rising epochs")
        self.epochs[record.epoch] = record
        fault, outcome = self._judge_evidence(record)
        if fault is not None:
            self._add("evidence", index, *fault)
        module = self._anchors.modules.get(record.module_digest)
        summary = EpochSummary(
            number=record.epoch,
            evidence=outcome,
            tpm_kind=record.tpm_kind,
            module_digest=record.module_digest.hex(),
            deployment_digest=record.deployment_digest.hex(),
            development_key=module is not None and module.development,
        )
        self._report.epochs.append(summary)
        if summary.development_key and self._anchors.profile == "production":
            self._add("proof", index, "a development key, which nobody contributed to", "a key from a ceremony")
        rules = self._anchors.rules.get(record.rules_digest)
        if rules is None:
            self._add("command", index, f"rules {record.rules_digest.hex()}", "rules that the anchors hold")
        for number, earlier in list(self._open.items()):
            if number < last:  # its read-backs are long over; the one just ended may still get receipts
                self._drain(earlier, everything=True)
                del self._open[number]
        self._open[record.epoch] = _Epoch(
            record=record,
            open=OpenEpoch.of(record),
            state=GateState(record.epoch, record.plant_outputs),
            rules=rules,
            verifier=self._verifier(index, record),
            summary=summary,
        )

    def _signer_policy(self, record: EpochOpened) -> bytes | None:
        """What a command key of the TPM has to be bound to; without the authority in the anchors none is acceptable."""
        authority = self._anchors.seal_authority
        return sealing_policy(authority, record.ak_name) if authority is not None and record.command_public else None

    def _judge_evidence(self, record: EpochOpened) -> tuple[tuple[str, str] | None, str]:
        """What is wrong, and one word for the summary."""
        anchors = self._anchors
        if (record.gate_id, record.device_id) != (anchors.gate_id, anchors.device_id):
            found = f"{record.gate_id} and {record.device_id}"
            return (found, f"{anchors.gate_id} and {anchors.device_id}"), "other names"
        if record.module_digest not in anchors.modules:
            return (f"module {record.module_digest.hex()}", "a module of the anchors"), "module"
        if record.deployment_digest not in anchors.deployments:
            return (f"deployment {record.deployment_digest.hex()}", "a deployment of the anchors"), "deployment"
        data = self._find_evidence(record.evidence_digest)
        if data is None:
            return (f"no evidence {record.evidence_digest.hex()}", "its bytes in a ledger"), "missing"
        unattested = is_none(data)
        if unattested:
            verdict = verify_none(
                data,
                nonce=record.nonce,
                expected_module=record.module_digest,
                expected_deployment=record.deployment_digest,
                development_profile=anchors.profile == "development",
            )
        else:
            verdict = verify_evidence(
                data,
                nonce=record.nonce,
                record=anchors.device_records.get(record.record_digest, b""),
                policy=anchors.boot_policies.get(record.policy_digest, b""),
                policy_public=anchors.policy_public or b"",
                expected_module=record.module_digest,
                expected_deployment=record.deployment_digest,
                now_ns=record.t_opened_ns,
                seen=self._seen,
                application_pcr=quoted_application_pcr(data),
                signer_policy=self._signer_policy(record),
            )
        failed = verdict.failed
        if failed is not None:
            return (f"{failed.name}: {failed.found}", failed.expected), failed.name
        if verdict.session_public != record.session_public:
            found = f"session key {record.session_public.hex()}"
            return (found, f"{verdict.session_public.hex()} as attested"), "session key"
        if verdict.command_public != record.command_public:
            found = f"command key {record.command_public.hex() or 'none'}"
            return (found, f"{verdict.command_public.hex() or 'none'} as attested"), "command key"
        if verdict.tpm_kind != record.tpm_kind:
            return (f"TPM kind {record.tpm_kind}", f"{verdict.tpm_kind} as attested"), "tpm kind"
        if unattested:
            return None, "none"
        attested, claimed = (verdict.device_id, verdict.ak_name), (record.device_id, record.ak_name)
        if attested != claimed:
            found = f"device {record.device_id}, AK {record.ak_name.hex()}"
            return (found, f"{verdict.device_id}, {verdict.ak_name.hex()} as attested"), "device"
        self._seen = Seen(verdict.reset_count, verdict.policy_version)
        return None, "ok"

    def _find_evidence(self, digest: bytes) -> bytes | None:
        place = self._cross.find_evidence(digest)
        ledger = None if place is None else self._ledgers[place[0]]
        if place is None or ledger is None:
            return None
        data = ledger.read(place[1]).data
        # read again: the digest was taken from these bytes, but the file is not ours
        return data if hashlib.sha256(data).digest() == digest else None

    def _verifier(self, index: int, record: EpochOpened) -> ProofVerifier | None:
        module = self._anchors.modules.get(record.module_digest)
        if module is None or not record.vk_digest:
            return None
        if module.vk_sha256 != record.vk_digest:
            found = f"key {module.vk_sha256.hex() or '(none)'} in the anchors"
            self._add("proof", index, found, f"{record.vk_digest.hex()} as the epoch pins")
            return None
        if record.vk_digest not in self._made:
            try:
                self._made[record.vk_digest] = self._make_verifier(module.verification_key, record.vk_digest)
            except AttestError as error:
                self._add("proof", index, f"{error.code}: {error.found}", error.expected)
                return None
        rules = self._anchors.rules.get(record.rules_digest)
        curve = VerificationKey.curve_of(module.verification_key)
        if rules is not None and rules.proof_kind is not ProofKind(int(curve)):
            self._add("proof", index, f"a key on {curve.text}", f"{rules.proof_kind.name} as the rules demand")
            return None
        self.verifiers[record.epoch] = self._made[record.vk_digest]
        return self._made[record.vk_digest]

    def _refusal(self, index: int, record: Refusal) -> None:
        self._cross.add(GATE_REFUSAL, record.command_digest, record.epoch, record.sequence, index)
        self._report.refused[record.code] = self._report.refused.get(record.code, 0) + 1
        if CHECKS.get(record.code) != record.check:
            self._add("receipt", index, f"refusal {record.code} at check {record.check}", "a code and its check")
        whole = len(record.refused) < REFUSED_BYTES_MAX
        if whole and hashlib.sha256(record.refused).digest() != record.command_digest:
            self._add("receipt", index, "a refusal of other bytes", f"bytes of {record.command_digest.hex()}")

    def _witness(self, index: int, record: Witness) -> None:
        device, number = self._ledgers["device"], max(self._open, default=0)
        if number:
            self._open[number].summary.witnesses += 1
            self._open[number].saw(index, record.t_ns)
            self.covered_before[number] = self._newest_witness.get(number, -1)
            self._newest_witness[number] = index
        if device is None or record.origin != self._anchors.device_origin:
            self._add("ledger-cut", index, f"a witness of {record.origin}", "a device ledger to compare")
            return
        if record.size > device.size:
            found = f"{device.size} records"
            self._report.add("ledger-cut", "device", device.size, found, f"{record.size} as witnessed")
            return
        try:
            root = device.root(record.size)
        except LedgerError as error:
            self._report.add("ledger-cut", "device", None, error.found, f"{record.size} records as witnessed")
            return
        if root != record.root:
            found = f"root {root.hex()} at {record.size}"
            self._report.add("ledger-cut", "device", record.size - 1, found, f"{record.root.hex()} as witnessed")
            return
        self._cross.add_witness(record.size, index)

    def _receipt(self, index: int, receipt: Receipt) -> None:
        digest = receipt.command_digest
        if not self._cross.add(GATE_RECEIPT, digest, receipt.epoch, receipt.sequence, index):
            self._add("ledger-reordered", index, "a second receipt for one command", "one receipt")
            return
        epoch = self._epoch(index, receipt.epoch)
        if epoch is None:
            return
        epoch.saw(index, receipt.t_accepted_ns)
        if digest not in epoch.waiting:
            if self._cross.find(GATE_COMMAND, digest) is not None:
                return  # given up on: reported when it was
            device_data = self._device_command(digest)
            self._wait(epoch, _Pending(index, digest, device_data, self._mode, withdrawn=self._owed.withdrawn))
        pending = epoch.waiting[digest]
        pending.receipt, pending.receipt_index = receipt, index
        self._drain(epoch, everything=False)

    def _check_receipt(self, index: int, receipt: Receipt) -> None:
        if receipt.applied and receipt.applied != receipt.accepted:
            self._add("receipt", index, f"applied {receipt.applied}", f"{receipt.accepted} as accepted")
        if receipt.state is ReadBack.NOT_WRITTEN and receipt.applied:
            self._add("receipt", index, f"state {receipt.state} with {receipt.applied} applied", "nothing applied")
        if receipt.applied and receipt.t_written_ns < receipt.t_accepted_ns:
            self._add("receipt", index, "a write before the acceptance", "after it")

    def _device_command(self, digest: bytes) -> bytes | None:
        device, at = self._ledgers["device"], self._cross.find(DEVICE_COMMAND, digest)
        if device is None or at is None:
            return None  # reconciliation says so
        data = device.read(at).data
        return data if hashlib.sha256(data).digest() == digest else None

    def _judge(self, epoch: _Epoch, pending: _Pending) -> None:
        receipt, data, state = pending.receipt, pending.data, epoch.state
        if data is None:
            # the next command has no inputs to be compared with
            assert receipt is not None
            state.inputs, state.outputs = None, receipt.accepted
            state.sequence = max(state.sequence, receipt.sequence)
            return
        command = parse_command(data, None).command
        header = command.header
        if receipt is not None:
            self._compare(pending.receipt_index, command, receipt)
        rules = epoch.rules
        if rules is None:
            return  # reported once, at the epoch
        if receipt is not None and rules.proof_policy is ProofPolicy.INLINE and not receipt.proof_verified:
            self._add("receipt", pending.receipt_index, "accepted without its proof", "a proof as the rules demand")
        checked = self._check_proof() and epoch.verifier is not None
        verifier = epoch.verifier if checked or epoch.verifier is None else _Unchecked()
        # Without a receipt the time of acceptance is unknown: the decision's own is the earliest possible.
        now_ns = header.t_decided_ns if receipt is None else receipt.t_accepted_ns
        result = judge(
            data,
            rules,
            state,
            epoch.open,
            now_ns,
            gate_mode=pending.mode,
            verifier=verifier,
            withdrawn=pending.withdrawn,
        )
        if isinstance(result, Accepted):
            self._cross.add_judged(pending.digest)
            if command.proof_kind is ProofKind.COMMITMENT:
                due_ns = now_ns + rules.proof_deadline_ms * NS_PER_MS
                self._cross.add_committed(pending.digest, header.epoch, header.sequence, due_ns)
            if checked and result.proof_verified:
                self._report.proofs_checked += 1
                epoch.summary.proofs_checked += 1
            return
        self._add(_code(result.code), pending.index, f"{result.code}: {result.found}", result.expected)
        if header.sequence > state.sequence:
            # go on from what the gate took over, so that one fault is not reported again and again
            state.accept(
                sequence=header.sequence,
                inputs=command.inputs,
                outputs=command.outputs,
                t_source_ns=header.t_source_ns,
                t_decided_ns=header.t_decided_ns,
                proof_digest=None,
            )

    def _compare(self, index: int, command: Command, receipt: Receipt) -> None:
        header = command.header
        if (header.epoch, header.sequence, command.outputs) != (receipt.epoch, receipt.sequence, receipt.accepted):
            found = f"epoch {receipt.epoch}, sequence {receipt.sequence}, accepted {receipt.accepted}"
            expected = f"{header.epoch}, {header.sequence}, {command.outputs} as commanded"
            self._add("receipt", index, found, expected)


def _code(refusal: str) -> str:
    """The finding's code for a command that the gate should have refused."""
    if refusal in ("replay", "reorder"):
        return "ledger-reordered"
    return "proof" if refusal.startswith("proof") else "command"
