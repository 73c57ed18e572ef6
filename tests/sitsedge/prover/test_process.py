"""The deferred lane whole, with real processes that are killed, stopped and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attest.command import Alarm, ProofKind, parse_command, parse_record
from attest.ledger import Ledger, RecordKind
from attest.ledger.audit import verify
from sitsedge.prover.queue import ProofQueue
from sitsedge.telemetry import read_snapshot
from tests.sitsedge.conftest import replace
from tests.sitsedge.test_end_to_end import READY_S, Deployed
from tests.support.processes import of_state

COMMANDS = 12
DEADLINE_MS = 5000
POLL_S = 0.05


@pytest.fixture
def deferred(mill: Path) -> Path:
    """The example at twenty frames a second, so that the prover keeps up on any machine."""
    replace(mill, "  proof: inline", "  proof: deferred")
    replace(mill, "publish_hz: 100", "publish_hz: 20")
    replace(mill.parent / "gate.yaml", "proof: inline", "proof: deferred")
    return mill


@pytest.fixture
def system(deferred: Path, tmp_path: Path) -> Iterator[Deployed]:
    replace(deferred, "  proof: deferred", f"  proof: deferred\n  proof_deadline_ms: {DEADLINE_MS}")
    replace(deferred.parent / "gate.yaml", "proof: deferred", f"proof: deferred\nproof_deadline_ms: {DEADLINE_MS}")
    made = Deployed(deferred, tmp_path / "s")
    yield made
    made.stop()


def until(system: Deployed, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_S
    while not condition():
        if system.process.poll() is not None:
            raise AssertionError(system.process.communicate())
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


def gate_proofs(system: Deployed) -> dict[str, Any]:
    proofs: dict[str, Any] = system.last("gate")["proofs"]
    return proofs


def pid(system: Deployed, name: str) -> int:
    """Of a running process; 0 while it is being started again."""
    snapshot = read_snapshot(system.state / "run", name)
    return snapshot.pid if snapshot is not None and snapshot.alive and snapshot.state == "running" else 0


def pile_up(system: Deployed) -> None:
    """Until several jobs wait on disk: provers are killed as soon as they run."""

    def several() -> bool:
        prover = pid(system, "prover")
        if prover:
            os.kill(prover, signal.SIGKILL)
        return int(system.last("sitsd")["proofs"]["queued"]) >= 5

    until(system, several)


def sitsctl(system: Deployed, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "sitsedge.cli.entry", *arguments, "--state-dir", str(system.state)]
    done = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, timeout=60, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def records(state: Path, side: str, kind: RecordKind) -> list[Any]:
    ledger = Ledger.open_readonly(state / "ledger" / side / "ledger.db")
    try:
        leaves = [leaf for leaf in ledger.iterate() if leaf.kind is kind]
    finally:
        ledger.close()
    parse = parse_command if kind is RecordKind.COMMAND else None
    return [parse(leaf.data, None).command if parse else parse_record(leaf.data).record for leaf in leaves]


@pytest.mark.timeout(300)  # three lives of a prover on a machine that may be busy
def test_proofs_follow_a_killed_prover_is_replaced_and_overdue_proofs_end_the_claim(system: Deployed) -> None:
    system.wait("gate", "accepted", COMMANDS)
    until(system, lambda: gate_proofs(system)["received"] > 0)
    status = sitsctl(system, "status")
    assert status["verified"] is True
    assert status["healthy"] is True
    assert "prover" in status["processes"]

    # killed in the middle of its work: several jobs wait, the first is being proven
    first = pid(system, "prover")
    os.kill(first, signal.SIGSTOP)
    until(system, lambda: gate_proofs(system)["owed"] >= 5)
    os.kill(first, signal.SIGCONT)
    os.kill(first, signal.SIGKILL)
    until(system, lambda: pid(system, "prover") not in (0, first))
    before = gate_proofs(system)["received"]
    until(system, lambda: gate_proofs(system)["received"] > before + 5)
    # on a machine slow enough the new prover came too late for the first deadline; then people are asked already
    until(system, lambda: system.last("gate")["verified"] is True)
    if gate_proofs(system)["hold"]:
        assert sitsctl(system, "mode", "AUTO", "--approved-by", "anna", "--approved-by", "boris")["ok"] is True

    # one that does nothing any more: the deadline ends the claim and the mode
    second = pid(system, "prover")
    os.kill(second, signal.SIGSTOP)
    until(system, lambda: system.last("gate")["verified"] is False)
    until(system, lambda: system.last("gate")["mode"] == "ADVISORY")
    status = sitsctl(system, "status")
    assert (status["verified"], status["verified_reason"]) == (False, "proof-deadline")
    proofs = status["processes"]["gate"]["proofs"]
    assert proofs["owed"] > 0
    assert proofs["oldest_age_ms"] > DEADLINE_MS
    until(system, lambda: system.last("sitsd")["refused"].get("proof-backlog", 0) > 0)

    # cleared: the claim returns by itself, the mode only with people
    os.kill(second, signal.SIGCONT)
    until(system, lambda: system.last("gate")["verified"] is True)
    assert system.last("gate")["mode"] == "ADVISORY"
    assert gate_proofs(system)["late"] > 0
    status = sitsctl(system, "status")
    assert (status["lane"], status["healthy"]) == ("hold", False), "quiet until people approve"
    assert gate_proofs(system)["owed"] == 0
    assert sitsctl(system, "mode", "AUTO", "--approved-by", "anna", "--approved-by", "boris")["ok"] is True
    system.wait("gate", "accepted", int(system.last("gate")["accepted"]) + COMMANDS)

    code, _, err = system.stop()
    assert code == 0, err
    assert "the prover ended with -9" in err
    assert "verified is withdrawn: proof-deadline" in err
    assert "verified again" in err
    assert of_state(system.state) == {}
    report = verify(system.state / "ledger")
    assert report.ok, report.findings
    assert report.proofs_checked == report.accepted
    assert report.proofs_owed == 0
    assert report.proofs_late > 0
    commands = records(system.state, "gate", RecordKind.COMMAND)
    assert {command.proof_kind for command in commands} == {ProofKind.COMMITMENT}
    words = [(record.code, record.verified) for record in records(system.state, "gate", RecordKind.PROOF_STATUS)]
    assert words[-2:] == [("proof-deadline", False), ("cleared", True)]
    assert verify(system.state / "ledger", proofs=2, engine="py-ecc").ok


@pytest.mark.slow
def test_a_stop_that_waits_for_proofs_sends_no_commands(deferred: Path, tmp_path: Path) -> None:
    system = Deployed(deferred, tmp_path / "s")
    system.wait("gate", "accepted", COMMANDS)
    assert sitsctl(system, "status")["processes"]["prover"]["pace"]["proof_ms"] > 0
    os.kill(pid(system, "prover"), signal.SIGSTOP)
    until(system, lambda: gate_proofs(system)["owed"] >= 5)
    code, _, err = system.stop()
    assert code == 0, err
    assert "waiting for" in err
    assert "proofs still owed" in err
    refusals = records(system.state, "gate", RecordKind.REFUSAL)
    assert len([one for one in refusals if one.code == "mode"]) <= 2, "at most what a busy machine still had on its way"
    skipped = records(system.state, "device", RecordKind.CYCLE_REFUSED)
    assert [one.code for one in skipped if one.code in ("mode", "unanswered")] == []
    report = verify(system.state / "ledger")
    assert report.ok, report.findings
    assert report.proofs_owed >= 5


@pytest.mark.parametrize(
    ("victim", "damaged"),
    [
        ("sitsd", False),
        pytest.param("sitsd", True, marks=pytest.mark.slow),
        pytest.param("gate", False, marks=pytest.mark.slow),
        pytest.param("gate", True, marks=pytest.mark.slow),
    ],
)
def test_a_kill_leaves_jobs_that_the_next_start_finishes(
    deferred: Path, tmp_path: Path, victim: str, damaged: bool
) -> None:
    state = tmp_path / "s"
    system = Deployed(deferred, state)
    system.wait("gate", "accepted", COMMANDS)
    pile_up(system)
    os.kill(pid(system, victim), signal.SIGKILL)
    system.process.communicate(timeout=60)
    assert system.process.returncode == 3
    assert of_state(state) == {}
    queue = ProofQueue(state / "proofs" / "queue.db", capacity=10_000)
    assert queue.counts().total >= 5
    queue.close()
    if damaged:
        path = state / "proofs" / "queue.db"
        path.write_bytes(b"\0" * path.stat().st_size)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    again = Deployed(deferred, state)
    until(again, lambda: gate_is_new(again) and gate_proofs(again)["received"] >= 5)
    code, _, err = again.stop()
    assert code == 0, err
    report = verify(state / "ledger")
    assert report.ok, report.findings
    assert report.proofs_checked == report.accepted
    assert len(report.epochs) == 2
    alarms = [record.code for record in records(state, "device", RecordKind.ALARM) if isinstance(record, Alarm)]
    assert ("proof-queue-damaged" in alarms) is damaged


def gate_is_new(system: Deployed) -> bool:
    """The snapshots of the life before are still there until the new processes write theirs."""
    return all(pid(system, name) for name in ("gate", "sitsd", "prover"))
