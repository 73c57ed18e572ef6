"""The worker of sits-prover on a real queue and a real module."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.command import Command, CommandHeader, GateKey, Mode, ProofKind, SessionKey, TimeQuality, sign_command
from attest.proof import NativeVerifier, key_hash
from sitsedge.modules import Bundle
from sitsedge.prover import main as module
from sitsedge.prover.main import BATCH, ProverProcess
from sitsedge.prover.queue import ProofQueue, QueueError, set_aside
from sitsedge.prover.workshop import Workshop
from sitsedge.sandbox import Sandbox, SandboxLimits
from sitsedge.supervisor.keys import write_public
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import read_snapshot
from tests.sitsedge.prover.test_lane import until

KEY = SessionKey.generate()
CAPACITY = 1000


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "s")
    made.create()
    write_public(GateKey.create(tmp_path / "publisher.key").public, made.trust / "publisher.pub")
    return made


@pytest.fixture
def process(state: StateDir, mill_bundle: Bundle) -> Iterator[ProverProcess]:
    made = ProverProcess(state, capacity=CAPACITY, threads=1, period_ms=1e6)
    made._workshop = Workshop(lambda _: mill_bundle)  # the store itself has its own tests
    yield made
    made._close_queue()


@pytest.fixture
def queue(state: StateDir) -> Iterator[ProofQueue]:
    made = ProofQueue(state.proof_queue, capacity=CAPACITY)
    yield made
    made.close()


def commands(bundle: Bundle, count: int, *, wrong: int | None = None) -> list[bytes]:
    sandbox = Sandbox(bundle.wasm, limits=SandboxLimits())
    made = []
    for number in range(count):
        now = time.time_ns()
        inputs = (number,) * 8
        outputs = sandbox.infer(inputs)
        if number == wrong:
            outputs = (outputs[0] + 1, *outputs[1:])
        header = CommandHeader(1, "edge", "gate", 1, number + 1, now, now, bundle.digest, bytes(32), Mode.AUTO)
        command = Command(header, inputs, outputs, ProofKind.COMMITMENT, bytes(32), TimeQuality.FREE)
        made.append(sign_command(command, KEY))
    sandbox.close()
    return made


def test_everything_that_waits_is_proven_oldest_first(
    process: ProverProcess, queue: ProofQueue, mill_bundle: Bundle
) -> None:
    queue.add([(data, 1) for data in commands(mill_bundle, BATCH + 3)])
    assert process._work()
    assert queue.waiting(1) == []
    proven = queue.proven(0, CAPACITY)
    assert len(proven) == BATCH + 3
    key = mill_bundle.verification_key
    verifier = NativeVerifier(key, vk_sha256=key_hash(key))
    for one in (proven[0], proven[-1]):
        verifier.verify(one.command.inputs, one.command.outputs, one.command.header.ctx(), one.proof)
    process._work()
    assert not process._work(), "nothing new, nothing done"
    queue.add([(data, 1) for data in commands(mill_bundle, BATCH + 4)[-1:]])
    assert process._work()


def test_a_job_that_cannot_be_proven_does_not_hold_up_the_others(
    process: ProverProcess, queue: ProofQueue, mill_bundle: Bundle
) -> None:
    queue.add([(data, 1) for data in commands(mill_bundle, 3, wrong=1)])
    process._work()
    counts = queue.counts()
    assert (counts.waiting, counts.proven, counts.failed) == (0, 2, 1)


def test_a_queue_put_in_its_place_is_taken_up(
    process: ProverProcess, queue: ProofQueue, state: StateDir, mill_bundle: Bundle
) -> None:
    process._work()
    set_aside(state.proof_queue)
    again = ProofQueue(state.proof_queue, capacity=CAPACITY)
    again.add([(data, 1) for data in commands(mill_bundle, 1)])
    process._work()
    assert again.counts().proven == 1
    again.close()


def test_a_damaged_queue_is_a_fault_that_is_said_and_waited_out(
    process: ProverProcess, state: StateDir, mill_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.proof_queue.write_bytes(b"nothing of ours" * 400)
    with pytest.raises(QueueError, match="proof-queue-damaged"):
        process._work()
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(module, "SNAPSHOT_S", 0.0)
    monkeypatch.setattr(module.signal, "signal", lambda *_: None)
    worker = threading.Thread(target=process.run)
    worker.start()
    try:
        until(lambda: said(state) == "proof-queue-damaged")
        set_aside(state.proof_queue)  # as the loop's side does
        queue = ProofQueue(state.proof_queue, capacity=CAPACITY)
        queue.add([(data, 1) for data in commands(mill_bundle, 1)])
        until(lambda: queue.counts().proven == 1)
        until(lambda: said(state) == "")
        queue.close()
    finally:
        process._stop.set()
        worker.join(20)
    assert not worker.is_alive()
    snapshot = read_snapshot(state.run, "prover")
    assert snapshot is not None
    assert snapshot.state == "stopped"


def said(state: StateDir) -> str:
    snapshot = read_snapshot(state.run, "prover")
    return "" if snapshot is None else str(snapshot.data["fault"])


@pytest.mark.parametrize(("period_ms", "keeps_up", "word"), [(1e6, True, "prover-pace"), (1e-6, False, "prover-slow")])
def test_the_pace_is_measured_before_the_first_job_and_compared_with_the_period(
    process: ProverProcess,
    state: StateDir,
    mill_bundle: Bundle,
    caplog: pytest.LogCaptureFixture,
    period_ms: float,
    keeps_up: bool,
    word: str,
) -> None:
    process._period_ms = period_ms
    with caplog.at_level("INFO", logger="sitsedge.prover"):
        process._measure(mill_bundle.digest)
    process._snapshot("ready", force=True)
    snapshot = read_snapshot(state.run, "prover")
    assert snapshot is not None
    pace = snapshot.data["pace"]
    assert (pace["keeps_up"], pace["period_ms"], pace["threads"]) == (keeps_up, period_ms, 1)
    assert pace["proof_ms"] > 0
    assert word in caplog.text
