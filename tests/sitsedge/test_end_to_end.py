"""The main job whole: real processes, a real simulated TPM, OPC UA, UADP, proofs, ledgers, and an orderly end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attest.ledger import Ledger, RecordKind
from attest.ledger.audit import extract, verify
from attest.proof import PyEccVerifier, key_hash
from sitsedge.telemetry import read_snapshot
from tests.support.processes import of_state

READY_S = 90.0
COMMANDS = 30
POLL_S = 0.05


class Deployed:
    """One ``sitsctl deploy`` in the background."""

    def __init__(self, config: Path, state: Path, *more: str) -> None:
        self.state = state
        command = [sys.executable, "-m", "sitsedge.cli.entry", "deploy", "--config", str(config)]
        self.process = subprocess.Popen(
            [*command, "--state-dir", str(state), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait(self, name: str, key: str, least: int) -> dict[str, Any]:
        """Until the snapshot of a process shows ``key`` at ``least``."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(self.process.communicate())
            snapshot = read_snapshot(self.state / "run", name)
            # A snapshot of an earlier run is still there until the new process writes its own.
            if snapshot is not None and snapshot.alive and int(snapshot.data.get(key) or 0) >= least:
                return snapshot.data
            time.sleep(POLL_S)
        raise AssertionError(f"{name}.{key} stayed below {least}: {read_snapshot(self.state / 'run', name)}")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code, stdout, stderr after a signal."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def last(self, name: str) -> dict[str, Any]:
        snapshot = read_snapshot(self.state / "run", name)
        assert snapshot is not None
        return snapshot.data


@pytest.fixture
def deployed(mill: Path, tmp_path: Path) -> Iterator[Deployed]:
    system = Deployed(mill, tmp_path / "s")
    yield system
    system.stop()


def test_from_frame_to_plc_and_back_to_manual(deployed: Deployed) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)
    code, out, err = deployed.stop()
    assert code == 0, err
    assert out.startswith("Verified: [OK] DeviceID=TPM2:0x81000001 | ModelSHA256=")
    assert "PolicySig=valid" in out
    assert "TPM=swtpm" in out
    assert "ProofKey=development" in out
    assert of_state(deployed.state) == {}
    assert deployed.last("sitsd")["kernel"] in ("relaxed-simd", "simd128")

    plant = deployed.last("plant")
    assert plant["mode"] == "MAN"
    assert plant["requests_refused"] == 0

    report = verify(deployed.state / "ledger")
    assert report.ok, report.findings
    assert report.accepted >= COMMANDS
    assert report.proofs_checked == report.accepted
    assert all(summary.closed for summary in report.ledgers.values())

    ledger = Ledger.open_readonly(deployed.state / "ledger" / "device" / "ledger.db")
    newest = ledger.last(RecordKind.COMMAND)
    assert newest is not None
    command = extract(ledger, newest.index)
    ledger.close()
    key = next((deployed.state / "ledger" / "anchors" / "modules").glob("*/verification_key.bin")).read_bytes()
    PyEccVerifier(key, vk_sha256=key_hash(key)).verify(command.inputs, command.outputs, command.ctx, command.proof)

    audit_without_the_appliance(deployed.state / "ledger")
    prove_again_for_the_archive(deployed.state, newest.index)
    show_a_third_party(deployed.state)


def prove_again_for_the_archive(state: Path, newest: int) -> None:
    """The newest commands again on BLS12-381, by the documented commands, verified by both engines."""
    out = state / "archive"

    def sitsctl(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "sitsedge.cli.entry", "proof", *arguments, "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    made = sitsctl("archive", str(state), str(out), "--from", str(newest - 4), "--to", str(newest))
    assert made["curve"] == "bls12-381"
    assert made["development_key"] is True
    assert made["commands"] >= 1
    for engine in ("native", "py-ecc"):
        checked = sitsctl("verify-archive", str(out), "--ledger", str(state), "--engine", engine)
        assert checked["ok"], checked["findings"]
        assert checked["ledger_compared"]
        assert checked["proofs_checked"] == made["commands"]


def show_a_third_party(state: Path) -> None:
    """Three commands with their inputs sealed, verified with the export alone by both engines, and one opened."""
    out, opening = state / "sealed", state / "opening.cbor"

    def audit(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "sitsedge.cli.entry", "audit", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return answer

    made = audit("export", "--sealed", str(state), str(out), "--records", "3", "--output", "json")
    assert made["commands"] == 3
    name = next((out / "commands").iterdir()).stem
    audit("open", str(state / "sealed.openings"), str(state), name, str(opening))
    gate_key = str(state / "ledger" / "anchors" / "gate.pub")
    for engine in ("native", "py-ecc"):
        trusted = ["--gate-key", gate_key, "--vk-sha256", made["vk_sha256"], "--engine", engine]
        checked = audit("verify-sealed", str(out), *trusted, "--opening", str(opening), "--output", "json")
        assert checked["ok"], checked["findings"]
        assert (checked["proofs_checked"], checked["openings_checked"]) == (3, 1)


def audit_without_the_appliance(ledger_dir: Path) -> None:
    """The audit must run where neither the Rust core nor any device library can be imported."""
    absent = ("attest._native", "tpm2_pytss", "asyncua", "wasmtime", "onnx", "onnxruntime", "numpy", "sitsedge")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}));"
        f"from attest.ledger.__main__ import main; sys.exit(main([{str(ledger_dir)!r}, '--proofs', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"]
    assert report["engine"] == "py-ecc"
    assert report["proofs_checked"] == 1


def test_the_plant_keeps_the_last_applied_value_in_manual(deployed: Deployed) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)
    deployed.stop(signal.SIGINT)
    plant = deployed.last("plant")
    ledger = Ledger.open_readonly(deployed.state / "ledger" / "gate" / "ledger.db")
    applied = [leaf for leaf in ledger.iterate() if leaf.kind is RecordKind.RECEIPT]
    ledger.close()
    assert applied
    assert plant["mode"] == "MAN"
    assert plant["applied_sequence"] > 0


def test_a_dead_loop_ends_the_deployment_and_the_plc_falls_back(deployed: Deployed) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)
    os.kill(int(deployed.last("sitsd")["pid"]), signal.SIGKILL)
    out, err = deployed.process.communicate(timeout=60)
    assert deployed.process.returncode == 3, out
    assert "child-died" in err
    assert of_state(deployed.state) == {}
    report = verify(deployed.state / "ledger")
    assert report.ok, report.findings  # a crash leaves a shorter tail, never a broken ledger


def test_a_stopped_loop_is_noticed_by_gate_and_plc(deployed: Deployed) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)
    pid = int(deployed.last("sitsd")["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        deployed.wait("plant", "watchdog_trips", 1)
        deadline = time.monotonic() + READY_S
        while not deployed.last("gate")["alarms"].get("heartbeat-lost"):
            assert time.monotonic() < deadline
            time.sleep(POLL_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    before = int(deployed.last("gate")["accepted"])
    deployed.wait("gate", "accepted", before + COMMANDS)  # and it goes on by itself


def test_a_dead_tpm_is_restarted_and_the_plant_notices_nothing(deployed: Deployed) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)
    ours = [pid for pid, command in of_state(deployed.state).items() if command.startswith("/usr/bin/swtpm")]
    assert len(ours) == 1
    os.kill(ours[0], signal.SIGKILL)
    before = int(deployed.last("gate")["accepted"])
    deployed.wait("gate", "accepted", before + COMMANDS)
    code, _, err = deployed.stop()
    assert code == 0, err
    assert "the simulated TPM died" in err
    assert of_state(deployed.state) == {}
    assert verify(deployed.state / "ledger", proofs=1).ok


def test_a_restart_continues_the_ledgers_and_epochs(mill: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    for round_number in (1, 2):
        system = Deployed(mill, state)
        system.wait("sitsd", "accepted", COMMANDS)
        code, _, err = system.stop()
        assert code == 0, err
        report = verify(state / "ledger", proofs=5)
        assert report.ok, report.findings
        assert system.last("gate")["alarms"] == {}  # checkpoints extend what the gate vouched for before the restart
        assert [epoch.number for epoch in report.epochs] == list(range(1, round_number + 1))


def test_a_killed_supervisor_leaves_nothing_running(mill: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    for _ in range(2):  # the second time on a used state folder
        system = Deployed(mill, state, "--attestation-mode", "tpm2", "--verify-on-boot", "true")
        system.wait("sitsd", "accepted", COMMANDS)
        system.process.kill()
        system.process.communicate()
        deadline = time.monotonic() + 30
        while of_state(state):
            assert time.monotonic() < deadline, of_state(state)
            time.sleep(POLL_S)
    report = verify(state / "ledger", proofs=1)
    assert report.ok, report.findings


@pytest.mark.parametrize("seconds", [0.5, 1.5, 3.0])
def test_an_interrupted_start_stops_at_once_and_leaves_nothing(mill: Path, tmp_path: Path, seconds: float) -> None:
    system = Deployed(mill, tmp_path / "s")
    try:
        system.process.wait(seconds)
    except subprocess.TimeoutExpired:
        system.process.send_signal(signal.SIGINT)
    out, err = system.process.communicate(timeout=60)
    assert system.process.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert "running; state" not in err
    assert of_state(tmp_path / "s") == {}


def test_an_incident_outlives_a_restart(mill: Path, tmp_path: Path) -> None:
    state = tmp_path / "s"
    (state / "keys").mkdir(parents=True)
    (state / "keys" / "incident").write_text("security incident: proof-statement")
    system = Deployed(mill, state)
    system.wait("sitsd", "accepted", COMMANDS)
    gate = system.last("gate")
    assert gate["mode"] == "ADVISORY"
    assert system.last("plant")["requests_taken"] == 0
    system.stop()


def test_without_attestation_everything_says_so(mill: Path, tmp_path: Path) -> None:
    system = Deployed(mill, tmp_path / "s", "--attestation-mode", "none")
    system.wait("sitsd", "accepted", COMMANDS)
    gate = system.last("gate")
    code, out, err = system.stop()
    assert code == 0, err
    assert out.startswith("Verified: [NOT ATTESTED]")
    assert "[OK]" not in out
    assert gate["attestation_mode"] == "none"
    report = verify(tmp_path / "s" / "ledger", proofs=1)
    assert {epoch.tpm_kind for epoch in report.epochs} == {"none"}


def test_status_and_mode_while_running(deployed: Deployed) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)

    def sitsctl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sitsedge.cli.entry", *arguments, "--state-dir", str(deployed.state)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    status = json.loads(sitsctl("status", "--output", "json").stdout)
    assert status["running"] is True
    assert set(status["processes"]) >= {"sitsd", "gate", "plant"}
    assert "frame to PLC acknowledged" in sitsctl("watch", "--for", "0.6").stdout
    assert sitsctl("mode", "SHADOW", "--reason", "test").returncode == 0
    refused = sitsctl("mode", "AUTO", "--approved-by", "anna", "--output", "json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["code"] == "mode-approval"
    deployed.wait("plant", "scans", 1)
    assert sitsctl("mode", "AUTO", "--approved-by", "anna", "--approved-by", "boris").returncode == 0
    before = int(deployed.last("gate")["accepted"])
    deployed.wait("gate", "accepted", before + COMMANDS)
