"""Proofs that arrived after their command: each commitment must be followed by the proof of its statement in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attest.command.command import Command, parse_command
from attest.command.enums import PROOF_BYTES, ProofKind
from attest.command.judge import ProofVerifier
from attest.command.records import EpochOpened, LateProof
from attest.command.rules import GateRules
from attest.errors import AttestError
from attest.ledger.crossindex import DEVICE_COMMAND, GATE_COMMAND, CrossIndex
from attest.ledger.report import AuditReport
from attest.ledger.store import Ledger
from attest.proof.circuit import Curve
from attest.proof.commitment import statement_commitment

DEVICE: Final = "device"
GATE: Final = "gate"


class LateProofs:
    """Holds each late proof of the device's ledger against its command.

    A crash between the ledger and the queue may repeat a record; each must verify, and a command counts once. The
    command is taken from the gate's ledger where the device lost it at an unclean end. ``now_ns`` is the auditor's
    clock: what is not yet due is counted as owed.
    """

    def __init__(
        self,
        report: AuditReport,
        cross: CrossIndex,
        *,
        device: Ledger,
        gate: Ledger | None,
        epochs: Mapping[int, EpochOpened],
        rules: Mapping[bytes, GateRules],
        verifiers: Mapping[int, ProofVerifier],
        check_proof: Callable[[], bool],
        now_ns: int,
    ) -> None:
        self._report, self._cross = report, cross
        self._device, self._gate = device, gate
        self._epochs, self._rules = epochs, rules
        self._verifiers, self._check_proof = verifiers, check_proof
        self._now_ns = now_ns

    def check(self, index: int, late: LateProof) -> None:
        """One record whose signature is already checked."""
        command = self._command(late.command_digest)
        if command is None:
            self._add(index, f"a proof for unknown command {late.command_digest.hex()}", "a recorded command")
            return
        header = command.header
        if (late.epoch, late.sequence) != (header.epoch, header.sequence):
            found = f"a proof for {late.epoch}/{late.sequence} that names command {header.epoch}/{header.sequence}"
            self._add(index, found, "the number of its command")
            return
        if not self._fits(index, command, late):
            return
        first = self._cross.add_late(late.command_digest)
        if not self._check_proof():
            return
        verifier = self._verifiers.get(header.epoch)
        if verifier is None:
            self._add(index, "no verification key for this epoch", "the one it pins")
            return
        try:
            failed = verifier.verify(command.inputs, command.outputs, header.ctx(), late.proof)
        except AttestError as refusal:
            failed = refusal.code
        if failed is not None:
            self._add(index, f"check {failed} failed", "a proof that verifies")
        elif first:
            self._report.proofs_checked += 1

    def missing(self) -> None:
        """After the last record: accepted commitments nothing followed, and proofs that came late."""
        for epoch, sequence, due_ns in self._cross.commitments_without_proof():
            if self._now_ns < due_ns:
                self._report.proofs_owed += 1
            else:
                self._add(None, f"a commitment in command {epoch}/{sequence} and no proof", "the proof that follows")
        for index, t_ns, late, due in self._cross.proof_receipts():
            if due is None:
                self._report.add("receipt", GATE, index, "a proof for no accepted commitment", "one that was owed")
                continue
            if late != (t_ns > due):
                found = f"a proof {'late' if t_ns > due else 'in time'} that is said to be otherwise"
                self._report.add("proof", GATE, index, found, "the gate's word in keeping with its clock")
            self._report.proofs_late += t_ns > due

    def _command(self, digest: bytes) -> Command | None:
        for ledger, table in ((self._device, DEVICE_COMMAND), (self._gate, GATE_COMMAND)):
            at = None if ledger is None else self._cross.find(table, digest)
            if at is not None and ledger is not None:
                parsed = parse_command(ledger.read(at).data, None)
                return parsed.command if parsed.digest == digest else None
        return None

    def _fits(self, index: int, command: Command, late: LateProof) -> bool:
        """Whether the proof is of the kind the rules demand and the command committed to this statement."""
        opened = self._epochs.get(command.header.epoch)
        rules = None if opened is None else self._rules.get(opened.rules_digest)
        if opened is None or rules is None:
            self._add(index, f"a proof for epoch {command.header.epoch}", "an epoch the gate opened, with its rules")
            return False
        if late.proof_kind is not rules.proof_kind or len(late.proof) != PROOF_BYTES[rules.proof_kind]:
            found = f"a proof of kind {late.proof_kind.name} with {len(late.proof)} bytes"
            self._add(index, found, f"{rules.proof_kind.name} with {PROOF_BYTES[rules.proof_kind]}")
            return False
        committed = statement_commitment(
            opened.vk_digest,
            command.inputs,
            command.outputs,
            command.header.ctx(),
            curve=Curve(int(rules.proof_kind)),
        )
        if command.proof_kind is not ProofKind.COMMITMENT or command.proof != committed:
            found = f"a proof for a command that committed to {command.proof.hex()[:64] or 'nothing'}"
            self._add(index, found, f"{committed.hex()}, its statement")
            return False
        return True

    def _add(self, index: int | None, found: str, expected: str) -> None:
        self._report.add("proof", DEVICE, index, found, expected)
