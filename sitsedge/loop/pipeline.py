"""One cycle: a frame in, a signed command out, or a reason why not.

A pure function of the frame, the epoch and the small explicit state of the checks before it; nothing here
does I/O, so a recording replayed through it gives the same decisions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from attest.command import Command, CommandHeader, Mode, ProofKind, SessionKey, TimeQuality, sign_command
from attest.cose import Signer
from attest.errors import AttestError
from attest.proof import ProvenInference
from attest.tpm.errors import TpmError
from fieldbus.net import ReceivedFrame
from sitsedge.loop.budget import Budget, CycleRefused
from sitsedge.loop.checks import InputCheck, OutputCheck
from sitsedge.loop.ingest import Ingest
from sitsedge.sandbox import Sandbox, SandboxError

COMMAND_VERSION = 1


class Prover(Protocol):
    """Makes the proof of one inference; the outputs are the circuit's own."""

    def prove(self, inputs: Sequence[int], ctx: bytes) -> ProvenInference: ...


Commit = Callable[[Sequence[int], Sequence[int], bytes], bytes]
"""``commit(inputs, outputs, ctx)``: the commitment to a statement whose proof follows."""


@dataclass(frozen=True, slots=True)
class EpochContext:
    """What every command of one epoch shares."""

    number: int
    expires_ns: int
    key: SessionKey
    device_id: str
    gate_id: str
    module_digest: bytes
    deployment_digest: bytes
    command_key: Signer | None = None

    @property
    def signer(self) -> Signer:
        """Who signs the commands: a key of the TPM where there is one, else the session key."""
        return self.key if self.command_key is None else self.command_key


@dataclass(frozen=True, slots=True)
class Decision:
    """A signed command and what it says; values are counts."""

    sequence: int
    data: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Pipeline:
    """The stages of the loop between the wire and the gate."""

    def __init__(
        self,
        *,
        ingest: Ingest,
        inputs: InputCheck,
        sandbox: Sandbox,
        prover: Prover | None,
        outputs: OutputCheck,
        commit: Commit | None = None,
    ) -> None:
        """``prover`` for the inline lane, ``commit`` for the deferred one, neither where proofs are off."""
        assert prover is None or commit is None, "one lane"
        self._commit = commit
        self.ingest = ingest
        self._inputs = inputs
        self._sandbox = sandbox
        self._prover = prover
        self._outputs = outputs

    def run(
        self, frame: ReceivedFrame, *, epoch: EpochContext | None, mode: Mode, sequence: int, budget: Budget
    ) -> Decision:
        """Decide on one frame. Raises :class:`CycleRefused` with the reason."""
        sample = self.ingest.decode(frame)
        budget.charge("decode")
        self.ingest.check_clock(sample, frame)
        budget.charge("clock")
        inputs = self._inputs.check(sample.values, sample.t_source_ns)
        budget.charge("input")
        if epoch is None:
            raise CycleRefused("no-epoch", found="no open epoch", expected="one opened by the gate")
        if mode is Mode.OFF:
            raise CycleRefused("mode", found="mode OFF", expected="a mode that computes")
        outputs = self._infer(inputs)
        budget.charge("sandbox")
        header = CommandHeader(
            version=COMMAND_VERSION,
            device_id=epoch.device_id,
            gate_id=epoch.gate_id,
            epoch=epoch.number,
            sequence=sequence,
            t_source_ns=sample.t_source_ns,
            t_decided_ns=time.time_ns(),
            module_digest=epoch.module_digest,
            deployment_digest=epoch.deployment_digest,
            mode=mode,
        )
        kind, proof = self._prove(inputs, outputs, header.ctx())
        budget.charge("prove")
        self._outputs.check(outputs)
        budget.charge("output")
        quality = TimeQuality(int(self.ingest.quality))
        data = self._sign(Command(header, inputs, outputs, kind, proof, quality), epoch.signer)
        budget.charge("sign")
        return Decision(sequence, data, inputs, outputs)

    @staticmethod
    def _sign(command: Command, signer: Signer) -> bytes:
        try:
            return sign_command(command, signer)
        except TpmError as error:  # a key of the TPM; the session key in memory does not fail
            raise CycleRefused(error.code, found=error.found, expected=error.expected, hint=error.hint) from error

    def _infer(self, inputs: tuple[int, ...]) -> tuple[int, ...]:
        try:
            return self._sandbox.infer(inputs)
        except SandboxError as error:
            self._sandbox.reset()  # after a trap the guest's memory may hold half a result
            raise CycleRefused(
                "sandbox", found=f"{error.code}: {error.found}", expected=error.expected, hint=error.hint
            ) from error

    def _prove(self, inputs: tuple[int, ...], outputs: tuple[int, ...], ctx: bytes) -> tuple[ProofKind, bytes]:
        if self._commit is not None:
            return ProofKind.COMMITMENT, self._commit(inputs, outputs, ctx)
        if self._prover is None:
            return ProofKind.NONE, b""
        try:
            proven = self._prover.prove(inputs, ctx)
        except AttestError as error:
            raise CycleRefused("proof", found=f"{error.code}: {error.found}", expected=error.expected) from error
        if proven.outputs != outputs:
            raise CycleRefused(
                "divergence",
                found=f"sandbox {outputs}, circuit {proven.outputs}",
                expected="the same outputs from both",
                hint="the module and its circuit do not belong together: stop and inspect the bundle",
            )
        return ProofKind(int(proven.curve)), proven.proof
