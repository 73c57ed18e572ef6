"""A deployment whose TPM fails at the start, hangs while it runs, and comes back; real processes throughout."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attest.boot.policy import parse_policy
from attest.command import GateKey, parse_record, sign_record
from attest.ledger import Ledger, RecordKind
from attest.ledger.audit import verify
from sitsedge.cli import status
from sitsedge.gate.control import request_mode
from sitsedge.gate.evidence import last_record
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir, read_mark
from sitsedge.telemetry import read_snapshot
from tests.sitsedge.conftest import replace

WAIT_S = 90.0
COMMANDS = 30
PEOPLE = ["anna", "boris"]


class Running:
    """A deployment in this process's hands, as ``sitsctl deploy`` keeps one."""

    def __init__(self, config: Path, state: Path) -> None:
        self.said: list[str] = []
        self.state = StateDir(state)
        self.session = Session(config, self.state, SessionOptions(), say=self.said.append)

    def data(self, name: str) -> dict[str, Any]:
        snapshot = read_snapshot(self.state.run, name)
        return {} if snapshot is None else snapshot.data

    def until(self, holds: Callable[[], bool]) -> None:
        """Keep the deployment as ``deploy`` does until ``holds``."""
        deadline = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < deadline, (self.said, self.data("gate"), self.data("sitsd"))
            self.session.check()
            time.sleep(0.05)

    def more_commands(self) -> None:
        before = int(self.data("gate")["accepted"])
        self.until(lambda: int(self.data("gate")["accepted"]) >= before + COMMANDS)

    def newer_epoch(self) -> None:
        before = int(self.data("gate")["epoch"])
        self.until(lambda: int(self.data("gate")["epoch"] or 0) > before)

    def alarms(self) -> list[str]:
        ledger = Ledger.open_readonly(self.state.gate_ledger)
        try:
            leaves = [leaf for leaf in ledger.iterate() if leaf.kind is RecordKind.ALARM]
        finally:
            ledger.close()
        return [str(getattr(parse_record(leaf.data).record, "code", "")) for leaf in leaves]


def test_a_failed_boot_verification_caps_the_mode_until_one_succeeds(mill: Path, tmp_path: Path) -> None:
    running = Running(mill, tmp_path / "s")
    with running.session as session:
        prepared = session.prepare()
        assert prepared.swtpm is not None
        prepared.swtpm.stop()
        verdict = session.verify_boot()
        assert not verdict.ok
        assert verdict.line.startswith("Verified: [FAILED] DeviceID=unavailable")
        assert "Failed=tpm-unreachable" in verdict.line
        assert "Mode<=ADVISORY" in verdict.line
        assert "TPM=swtpm" in verdict.line
        reason = read_mark(running.state.attestation_failed)
        assert reason is not None
        assert reason.startswith("tpm-unreachable")

        session.start()  # check() brings the TPM back; what failed at the start stays failed
        session.wait_for_commands(COMMANDS)
        gate = running.data("gate")
        assert gate["mode"] == "ADVISORY"
        assert gate["ceiling"] == "ADVISORY"
        assert reason in gate["ceiling_reason"]
        assert gate["alarms"]["attestation-at-boot"] == 1
        refused = request_mode(running.state.gate_control, "AUTO", PEOPLE, "test")
        assert refused["code"] == "mode-attestation"
        assert running.data("plant")["requests_taken"] == 0
    assert running.alarms() == ["attestation-at-boot"]

    again = Running(mill, tmp_path / "s")
    with again.session as session:
        session.prepare()
        assert session.verify_boot().ok
        assert read_mark(again.state.attestation_failed) is None

    remember_newer_policy(again.state)  # then an older one is no verified boot, as the gate will say as well
    older = Running(mill, tmp_path / "s")
    with older.session as session:
        session.prepare()
        verdict = session.verify_boot()
        assert verdict.verdict is not None
        assert verdict.verdict.failed is not None
        assert verdict.verdict.failed.name == "boot-policy-version"
        assert "Verified: [FAILED]" in verdict.line


def remember_newer_policy(state: StateDir) -> None:
    """An epoch in the gate's ledger under a later boot policy than the one that lies in its trust folder."""
    policy, _ = parse_policy((state.trust / "boot-policy.cose").read_bytes())
    newer = dataclasses.replace(policy, version=policy.version + 1).sign(GateKey.load(state.keys / "policy.key"))
    digest = hashlib.sha256(newer).digest()
    (state.anchors / "boot-policies" / f"{digest.hex()}.cose").write_bytes(newer)
    key = GateKey.load(state.keys / "gate.key")
    opened = last_record(state.gate_ledger, RecordKind.EPOCH_OPENED, key)
    with contextlib.closing(Ledger.open_readonly(state.gate_ledger)) as known:
        origin = known.origin
    ledger = Ledger.open(state.gate_ledger, origin=origin, signer=key)
    record = dataclasses.replace(opened, epoch=opened.epoch + 1, policy_digest=digest)
    ledger.append(RecordKind.EPOCH_OPENED, sign_record(record, key))
    ledger.commit()
    ledger.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_tpm_that_hangs_past_the_epoch_returns_the_plant_calmly_and_is_used_again(mill: Path, tmp_path: Path) -> None:
    replace(mill, "epoch_s_max: 3600", "epoch_s_max: 16")
    running = Running(mill, tmp_path / "s")
    with running.session as session:
        prepared = session.prepare()
        assert session.verify_boot().ok
        session.start()
        session.wait_for_commands(COMMANDS)
        assert prepared.swtpm is not None
        pid = prepared.swtpm.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            running.until(lambda: running.data("gate")["attestation"]["phase"] == "overdue")
            assert running.data("gate")["mode"] == "AUTO"
            assert status.as_data(running.state)["healthy"] is False
            running.more_commands()  # the epoch is good until its end
            running.until(lambda: running.data("gate")["mode"] == "ADVISORY")
            running.until(lambda: running.data("plant")["mode"] == "MAN")
            assert running.data("plant")["watchdog_trips"] == 0  # no abrupt trip: it keeps the last applied value
            running.until(lambda: running.data("sitsd")["attestation"]["failing"] >= 1)
            refused = request_mode(running.state.gate_control, "AUTO", PEOPLE, "test")
            assert refused["code"] == "mode-attestation"
        finally:
            os.kill(pid, signal.SIGCONT)
        running.until(lambda: running.data("gate")["attestation"]["phase"] == "attested")
        running.more_commands()
        assert running.data("gate")["mode"] == "ADVISORY"
        assert request_mode(running.state.gate_control, "AUTO", PEOPLE, "test")["ok"]
        running.until(lambda: running.data("plant")["mode"] == "AUTO")
        running.more_commands()
    assert [code for code in running.alarms() if code.startswith("attestation")][:2] == [
        "attestation-overdue",
        "attestation-ended",
    ]
    report = verify(running.state.ledger, proofs=5)
    assert report.ok, report.findings  # nothing that was acknowledged is missing on either side


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_tpm_that_is_killed_and_one_that_hangs_for_a_while_are_not_noticed_by_the_plant(
    mill: Path, tmp_path: Path
) -> None:
    replace(mill, "epoch_s_max: 3600", "epoch_s_max: 60\n  reattest_s: 2")
    running = Running(mill, tmp_path / "s")
    with running.session as session:
        prepared = session.prepare()
        session.verify_boot()
        session.start()
        session.wait_for_commands(COMMANDS)
        swtpm = prepared.swtpm
        assert swtpm is not None
        for number in (signal.SIGSTOP, signal.SIGKILL):
            pid = swtpm.pid
            assert pid is not None
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                running.until(lambda: running.data("sitsd")["attestation"]["failing"] >= 1)
            running.more_commands()
            if number == signal.SIGSTOP:
                os.kill(pid, signal.SIGCONT)
            running.newer_epoch()
        assert running.data("gate")["mode"] == "AUTO"
        assert running.data("plant")["watchdog_trips"] == 0
        assert running.data("sitsd")["attestation"]["error"] is None
    assert [code for code in running.alarms() if code.startswith("attestation")] == []
    report = verify(running.state.ledger, proofs=5)
    assert report.ok, report.findings
