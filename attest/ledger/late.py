"""Proofs that arrived after their command: each commitment must be followed by the proof it was made to."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from attest.command.command import parse_command
from attest.command.enums import ProofKind
from attest.command.judge import ProofVerifier
from attest.command.records import LateProof
from attest.errors import AttestError
from attest.ledger.crossindex import DEVICE_COMMAND, CrossIndex
from attest.ledger.report import AuditReport
from attest.ledger.store import Ledger

DEVICE: Final = "device"


class LateProofs:
    """Holds each late proof of the device's ledger against its command; ``missing`` says how many never came."""

    def __init__(
        self,
        report: AuditReport,
        cross: CrossIndex,
        device: Ledger,
        verifiers: Mapping[int, ProofVerifier],
        check_proof: Callable[[], bool],
    ) -> None:
        self._report, self._cross, self._device = report, cross, device
        self._verifiers, self._check_proof = verifiers, check_proof

    def check(self, index: int, late: LateProof) -> None:
        """One record whose signature is already checked."""
        at = self._cross.find(DEVICE_COMMAND, late.command_digest)
        if at is None:
            self._add(index, f"a proof for unknown command {late.command_digest.hex()}", "a recorded command")
            return
        command = parse_command(self._device.read(at).data, None).command
        header = command.header
        digest = hashlib.sha256(late.proof).digest()
        if command.proof_kind is not ProofKind.COMMITMENT or command.proof != digest:
            self._add(index, f"a proof of SHA-256 {digest.hex()}", f"{command.proof.hex()[:64]} as committed")
            return
        if not self._cross.add_late(late.command_digest):
            self._add(index, "a second proof for one command", "one proof")
            return
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
            return
        self._report.proofs_checked += 1

    def missing(self) -> None:
        """After the last record: accepted commitments nothing followed."""
        for epoch, sequence in self._cross.commitments_without_proof():
            self._add(None, f"a commitment in command {epoch}/{sequence} and no proof", "the proof that follows")

    def _add(self, index: int | None, found: str, expected: str) -> None:
        self._report.add("proof", DEVICE, index, found, expected)
