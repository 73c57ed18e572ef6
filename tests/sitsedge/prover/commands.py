"""Signed commands with commitments to the statements of a tiny model, and their proofs."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace

from attest.command import (
    Accepted,
    Command,
    CommandHeader,
    LateProof,
    Mode,
    ProofKind,
    SessionKey,
    TimeQuality,
    parse_command,
    sign_command,
    sign_record,
)
from attest.proof import Curve, key_hash
from attest.proof.commitment import statement_commitment
from tests.attest.ledger.scenario import model

DEVICE, GATE = "edge", "gate"
SESSION = SessionKey.generate()
MODULE = hashlib.sha256(b"module").digest()


@dataclass(frozen=True)
class Owing:
    """One signed command, and the proof it owes."""

    data: bytes
    command: Command
    proof: bytes

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.data).digest()

    def accepted(self, now_ns: int | None = None) -> Accepted:
        return Accepted(parse_command(self.data, None), False, time.time_ns() if now_ns is None else now_ns)

    def late(self, key: SessionKey = SESSION, **changes: object) -> bytes:
        header = self.command.header
        record = LateProof(
            device_id=DEVICE,
            epoch=header.epoch,
            sequence=header.sequence,
            command_digest=self.digest,
            proof_kind=ProofKind.GROTH16_BN254,
            proof=self.proof,
            t_ns=time.time_ns(),
        )
        return sign_record(replace(record, **changes), key)  # type: ignore[arg-type]


def owing(sequence: int, *, epoch: int = 1, module: bytes = MODULE, prove: bool = True) -> Owing:
    """A command that owes a proof."""
    now = time.time_ns()
    header = CommandHeader(1, DEVICE, GATE, epoch, sequence, now, now, module, bytes(32), Mode.AUTO)
    inputs = (sequence % 50, -3)
    outputs = model().run(inputs)
    proof = model().prover.prove(inputs, header.ctx()).proof if prove else bytes(128)
    vk_sha256 = key_hash(model().verification_key)
    commitment = statement_commitment(vk_sha256, inputs, outputs, header.ctx(), curve=Curve.BN254)
    command = Command(header, inputs, outputs, ProofKind.COMMITMENT, commitment, TimeQuality.NTP)
    return Owing(sign_command(command, SESSION), command, proof)
