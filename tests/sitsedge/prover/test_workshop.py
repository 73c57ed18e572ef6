"""What sits-prover makes of a job, and what it refuses to make."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from attest.command import Command, CommandHeader, Mode, ProofKind, TimeQuality
from attest.proof import Groth16Prover, NativeVerifier, ProvenInference, key_hash
from sitsedge.modules import Bundle
from sitsedge.modules.errors import StoreError
from sitsedge.prover.workshop import PROVERS_MAX, ProofImpossible, Workshop
from sitsedge.sandbox import Sandbox, SandboxLimits


@pytest.fixture
def workshop(mill_bundle: Bundle) -> Workshop:
    def load(digest: bytes) -> Bundle:
        if digest == b"?" * 32:
            raise StoreError("module-unknown", found="?", expected="a module in the store")
        return mill_bundle

    return Workshop(load)


@pytest.fixture
def command(mill_bundle: Bundle) -> Command:
    now = time.time_ns()
    sandbox = Sandbox(mill_bundle.wasm, limits=SandboxLimits())
    outputs = sandbox.infer((7,) * 8)
    sandbox.close()
    header = CommandHeader(1, "edge", "gate", 1, 1, now, now, mill_bundle.digest, bytes(32), Mode.AUTO)
    return Command(header, (7,) * 8, outputs, ProofKind.COMMITMENT, bytes(32), TimeQuality.FREE)


def impossible(workshop: Workshop, command: Command, *beside: Command) -> str:
    first, *others = workshop.prove([command, *beside])
    assert isinstance(first, ProofImpossible)
    assert all(isinstance(other, bytes) for other in others)
    return first.code


def test_a_proof_of_the_command_s_statement(workshop: Workshop, command: Command, mill_bundle: Bundle) -> None:
    assert workshop.kernel == ""
    (proof,) = workshop.prove([command])
    assert isinstance(proof, bytes)
    key = mill_bundle.verification_key
    verifier = NativeVerifier(key, vk_sha256=key_hash(key))
    verifier.verify(command.inputs, command.outputs, command.header.ctx(), proof)
    assert workshop.kernel


def test_outputs_that_are_not_the_circuit_s(workshop: Workshop, command: Command) -> None:
    wrong = replace(command, outputs=(command.outputs[0] + 1, command.outputs[1]))
    assert impossible(workshop, wrong, command, command) == "divergence"


def test_inputs_outside_the_circuit_s_box(workshop: Workshop, command: Command) -> None:
    assert impossible(workshop, replace(command, inputs=(2**31 - 1,) * 8)) == "prover"


def test_a_module_that_is_not_in_the_store(workshop: Workshop, command: Command) -> None:
    assert impossible(workshop, replace(command, header=replace(command.header, module_digest=b"?" * 32))) == "module"


def test_bad_memory_does_not_look_like_a_forgery(
    workshop: Workshop, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Groth16Prover.prove

    def flipped(self: Groth16Prover, inputs: tuple[int, ...], ctx: bytes) -> ProvenInference:
        proven = honest(self, inputs, ctx)
        other = honest(self, inputs, bytes(31)).proof
        return replace(proven, proof=other) if ctx == command.header.ctx() else proven

    monkeypatch.setattr(Groth16Prover, "prove", flipped)
    beside = replace(command, header=replace(command.header, sequence=2))
    assert impossible(workshop, command, beside) == "self-check"


def test_tables_of_few_modules_are_kept(workshop: Workshop) -> None:
    for number in range(PROVERS_MAX + 1):
        workshop.warm(bytes([number]) * 32)
    assert len(workshop._modules) == PROVERS_MAX
