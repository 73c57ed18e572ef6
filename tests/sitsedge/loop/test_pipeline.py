"""The stages of the loop on real parts: UADP bytes in, a signed command that the gate accepts out."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from attest.command import (
    Accepted,
    GateState,
    Mode,
    OpenEpoch,
    Refused,
    SessionKey,
    judge,
)
from attest.proof import Groth16Prover, NativeVerifier, key_hash
from fieldbus.net import ReceivedFrame
from fieldbus.uadp import LayoutWriter
from sitsedge.config import Deployment, load_deployment, load_gate_file
from sitsedge.gate.rules import gate_rules
from sitsedge.loop.budget import Budget, CycleRefused
from sitsedge.loop.checks import InputCheck, OutputCheck, SignalSpec
from sitsedge.loop.ingest import Ingest, layout_of
from sitsedge.loop.pipeline import Decision, EpochContext, Pipeline
from sitsedge.modules import Bundle
from sitsedge.sandbox import Sandbox, SandboxLimits

S = 1_000_000_000
ZEROS = (0.0,) * 8


def patient(path: Path) -> None:
    """Ages of seconds in place of the example's milliseconds: a busy machine may stand still between two lines."""
    text = re.sub(r"(source|decision)_age_ms_max: .*", r"\1_age_ms_max: 10000.0", path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8")


class Rig:
    """A pipeline and a gate's judgement around one real module."""

    def __init__(self, deployment_path: Path, bundle: Bundle) -> None:
        patient(deployment_path)
        patient(deployment_path.parent / "gate.yaml")
        self.deployment: Deployment = load_deployment(deployment_path)
        self.bundle = bundle
        self.rules = gate_rules(load_gate_file(deployment_path.parent / "gate.yaml"), self.deployment, bundle.config)
        self.writer = LayoutWriter(layout_of(self.deployment))
        self.key = SessionKey.generate()
        self.epoch = EpochContext(
            1, time.time_ns() + 3600 * S, self.key, self.deployment.device_id, self.deployment.gate_id,
            bundle.digest, bytes(32),
        )  # fmt: skip
        self.sandbox = Sandbox(bundle.wasm, limits=SandboxLimits())
        specs = [
            SignalSpec.physical(s.name, s.unit, scale=s.scale, low=s.range[0], high=s.range[1], max_rate=s.max_rate)
            for s in bundle.config.inputs
        ]
        out = [
            SignalSpec.physical(s.name, s.unit, scale=s.scale, low=s.range[0], high=s.range[1], max_rate=s.max_rate)
            for s in bundle.config.outputs
        ]
        self.pipeline = Pipeline(
            ingest=Ingest(self.deployment),
            inputs=InputCheck(specs),
            sandbox=self.sandbox,
            prover=Groth16Prover(bundle.circuit, bundle.proving_key),
            outputs=OutputCheck(out),
        )
        self.sequence = 0

    def frame(self, values: tuple[float, ...] = ZEROS, *, age_ns: int = 0, status: int = 0) -> ReceivedFrame:
        now = time.time_ns()
        data = self.writer.write(t_source_ns=now - age_ns, values=values, status=status)
        return ReceivedFrame(data, now, "kernel", 0, ("127.0.0.1", 1))

    def run(self, frame: ReceivedFrame, *, mode: Mode = Mode.AUTO, deadline_ns: int = 10 * S) -> Decision:
        self.sequence += 1
        budget = Budget(start_mono_ns=time.monotonic_ns(), deadline_ns=deadline_ns)
        return self.pipeline.run(frame, epoch=self.epoch, mode=mode, sequence=self.sequence, budget=budget)

    def judge(self, data: bytes, state: GateState, *, mode: Mode = Mode.AUTO) -> Accepted | Refused:
        opened = OpenEpoch(
            1, self.epoch.device_id, self.key.public, self.bundle.digest, bytes(32), self.epoch.expires_ns
        )
        key = self.bundle.verification_key
        verifier = NativeVerifier(key, vk_sha256=key_hash(key))
        return judge(data, self.rules, state, opened, time.time_ns(), gate_mode=mode, verifier=verifier)


@pytest.fixture
def rig(mill: Path, mill_bundle: Bundle) -> Rig:
    return Rig(mill, mill_bundle)


def refused(rig: Rig, frame: ReceivedFrame, **options: object) -> CycleRefused:
    with pytest.raises(CycleRefused) as caught:
        rig.run(frame, **options)  # type: ignore[arg-type]
    return caught.value


def test_a_frame_becomes_a_command_the_gate_accepts(rig: Rig) -> None:
    decision = rig.run(rig.frame())
    verdict = rig.judge(decision.data, GateState(1))
    assert isinstance(verdict, Accepted), verdict
    assert verdict.proof_verified
    command = verdict.parsed.command
    assert command.outputs == decision.outputs == rig.sandbox.infer((0,) * 8)
    assert len(decision.data) <= 1500 - 42  # one Ethernet frame with IP and UDP headers


def test_every_frame_gives_a_fresh_proof_and_a_rising_sequence(rig: Rig) -> None:
    state = GateState(1)
    proofs = set()
    for _ in range(3):
        verdict = rig.judge(rig.run(rig.frame()).data, state)
        assert isinstance(verdict, Accepted), verdict
        proofs.add(verdict.parsed.command.proof)
    assert len(proofs) == 3
    assert state.sequence == 3


def test_a_proof_does_not_fit_another_command(rig: Rig) -> None:
    first, second = rig.run(rig.frame()), rig.run(rig.frame())
    state = GateState(1)
    assert isinstance(rig.judge(second.data, state), Accepted)
    verdict = rig.judge(first.data, state)
    assert isinstance(verdict, Refused)
    assert verdict.code == "reorder"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda rig: rig.frame(age_ns=60 * S), "stale-frame"),
        (lambda rig: rig.frame(age_ns=-S), "future-frame"),
        (lambda rig: rig.frame(status=0x8000_0000), "bad-quality"),
        (lambda rig: rig.frame((9.0, *ZEROS[1:])), "input-range"),
        (lambda rig: rig.frame((float("nan"), *ZEROS[1:])), "input-not-finite"),
        (lambda rig: ReceivedFrame(b"\x00", time.time_ns(), "kernel", 0, ("", 0)), "frame"),
        (lambda rig: ReceivedFrame(rig.frame().data[:-1], time.time_ns(), "kernel", 0, ("", 0)), "frame"),
    ],
    ids=["old", "from-the-future", "bad-quality", "out-of-range", "nan", "one-byte", "truncated"],
)
def test_each_bad_frame_ends_the_cycle_with_its_reason(rig: Rig, make: object, code: str) -> None:
    assert callable(make)
    assert refused(rig, make(rig)).code == code


def test_a_repeated_frame_is_refused(rig: Rig) -> None:
    frame = rig.frame()
    rig.run(frame)
    assert refused(rig, frame).code == "duplicate"


def test_no_epoch_no_command(rig: Rig) -> None:
    budget = Budget(start_mono_ns=time.monotonic_ns(), deadline_ns=10 * S)
    with pytest.raises(CycleRefused, match="no-epoch"):
        rig.pipeline.run(rig.frame(), epoch=None, mode=Mode.AUTO, sequence=1, budget=budget)


def test_mode_off_computes_nothing(rig: Rig) -> None:
    assert refused(rig, rig.frame(), mode=Mode.OFF).code == "mode"


def test_a_late_decision_is_discarded(rig: Rig) -> None:
    assert refused(rig, rig.frame(), deadline_ns=1).code == "deadline"


def test_a_circuit_of_another_model_is_noticed_before_signing(rig: Rig) -> None:
    class Lying:
        """A prover whose outputs are not the sandbox's."""

        def prove(self, inputs: object, ctx: bytes) -> object:
            from attest.proof import ProvenInference

            return ProvenInference((1, 2), bytes(128))

    rig.pipeline._prover = Lying()  # type: ignore[assignment]
    assert refused(rig, rig.frame()).code == "divergence"
