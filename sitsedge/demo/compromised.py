"""A compromised loop: it runs on the enrolled machine, reaches the TPM and can open an epoch of its own.

The strongest attacker the gate has to withstand: everything it signs carries a valid signature of a valid epoch.
The honest loop is stopped (SIGSTOP) while it acts, as an attacker who took its place would do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attest.command import (
    Command,
    CommandHeader,
    Mode,
    ProofKind,
    SessionKey,
    TimeQuality,
    sign_command,
)
from attest.errors import AttestError
from attest.proof import Groth16Prover
from sitsedge.gate.link import GateLink, LinkError, Message
from sitsedge.loop.epoch import AttestationSetup, EpochRefused, OpenedEpoch, ledger_head, make_evidence, open_epoch
from sitsedge.loop.pipeline import COMMAND_VERSION, EpochContext
from sitsedge.modules import Bundle
from sitsedge.sandbox import Sandbox, SandboxLimits

ANSWERS = ("receipt", "refused", "witness", "epoch")
TPM_RETRIES = 20  # a simulated TPM serves one client; the honest loop may hold it for some milliseconds
TPM_RETRY_S = 0.1


@dataclass(frozen=True, slots=True)
class Statement:
    """Everything of one command before it is signed."""

    header: CommandHeader
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    proof: bytes
    kind: ProofKind


class CompromisedLoop:
    """What an attacker can do with the loop's own means."""

    def __init__(self, setup: AttestationSetup, bundle: Bundle) -> None:
        self.setup = setup
        guest = bundle.config.guest
        limits = SandboxLimits.of_guest(fuel_per_call=guest.fuel_per_call, memory_bytes=guest.memory_bytes)
        self._sandbox = Sandbox.of(bundle, limits=limits)
        self._prover = Groth16Prover(bundle.circuit, bundle.proving_key)
        self._kind = bundle.config.proof.kind
        self._sequence = 0

    def close(self) -> None:
        self._sandbox.close()

    def infer(self, inputs: Sequence[int]) -> tuple[int, ...]:
        """The model's own outputs."""
        return self._sandbox.infer(inputs)

    def open(self) -> OpenedEpoch:
        """An epoch of its own, by real evidence of the real machine."""
        for attempt in range(TPM_RETRIES):
            try:
                self._sequence = 0
                return open_epoch(self.setup)
            except EpochRefused:
                raise
            except (AttestError, LinkError):  # the TPM is busy with the honest loop's last call
                if attempt == TPM_RETRIES - 1:
                    raise
                time.sleep(TPM_RETRY_S)
        raise AssertionError

    def statement(self, epoch: EpochContext, mode: Mode, inputs: tuple[int, ...]) -> Statement:
        """An honest decision on ``inputs``: what the loop itself would sign."""
        self._sequence += 1
        now = time.time_ns()
        header = CommandHeader(
            version=COMMAND_VERSION,
            device_id=epoch.device_id,
            gate_id=epoch.gate_id,
            epoch=epoch.number,
            sequence=self._sequence,
            t_source_ns=now,
            t_decided_ns=now,
            module_digest=epoch.module_digest,
            deployment_digest=epoch.deployment_digest,
            mode=mode,
        )
        return self.prove(Statement(header, inputs, self.infer(inputs), b"", self._kind))

    def prove(self, statement: Statement) -> Statement:
        """The same with a fresh proof for its inputs and header."""
        proven = self._prover.prove(statement.inputs, statement.header.ctx())
        return replace(statement, proof=proven.proof)

    @staticmethod
    def sign(statement: Statement, key: SessionKey) -> bytes:
        """A signed command."""
        return sign_command(
            Command(
                statement.header,
                statement.inputs,
                statement.outputs,
                statement.kind,
                statement.proof,
                TimeQuality.FREE,
            ),
            key,
        )

    def send_command(self, data: bytes) -> Message:
        """Send a command to the gate over a connection of its own; the gate's answer."""
        link = GateLink(self.setup.gate_socket)
        try:
            return link.ask(
                {"t": "command", "command": data, "sent_mono_ns": time.monotonic_ns()}, answers=("receipt", "refused")
            )
        finally:
            link.close()

    def send_evidence(self, evidence: bytes | None = None, *, pretend_module: bytes | None = None) -> Message:
        """Ask for an epoch with other evidence (or for another module); the gate's answer."""
        link = GateLink(self.setup.gate_socket)
        key = SessionKey.generate()
        try:
            challenge = link.ask({"t": "challenge"}, answers=("nonce",))
            if evidence is None:
                setup = self.setup
                if pretend_module is not None:
                    setup = replace(setup, module_digest=pretend_module)
                evidence = make_evidence(setup, key=key, nonce=challenge["nonce"])
            head = ledger_head(self.setup.ledger, challenge["witnessed"])
            message = {"t": "evidence", "nonce": challenge["nonce"], "evidence": evidence, **head}
            return link.ask(message, answers=("epoch", "refused"))
        finally:
            key.erase()
            link.close()


@contextlib.contextmanager
def paused(pid: int) -> Iterator[None]:
    """Stop a process for the time of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
