"""``sitsctl status`` says how the machine is attested: simulated TPMs, faults, and modes out of reach."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sitsedge.cli import status
from sitsedge.cli.main import app
from sitsedge.config import load_deployment
from sitsedge.errors import SitsError
from sitsedge.supervisor.prepare import check_ima
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import Snapshot, write_snapshot
from tests.sitsedge.conftest import replace


def state_of(path: Path, *, loop: dict[str, Any] | None = None, **gate: Any) -> StateDir:
    state = StateDir(path / "s")
    state.create()
    write_snapshot(state.run, "gate", "running", {"verified": True, "attestation_mode": "tpm2"} | gate)
    write_snapshot(state.run, "sitsd", "running", loop or {})
    return state


def shown(state: StateDir) -> str:
    printed = Console(width=200, force_terminal=False)
    with printed.capture() as out:
        printed.print(status.render(state))
    return out.get()


@pytest.mark.parametrize(
    ("phase", "code"),
    [("waiting", 0), ("attested", 0), ("overdue", 1), ("ended", 1), ("failed", 1)],
)
def test_a_machine_whose_attestation_is_late_or_failed_is_unhealthy(tmp_path: Path, phase: str, code: int) -> None:
    state = state_of(tmp_path, attestation={"phase": phase, "reason": "why", "tpm_kind": "hardware"})
    done = CliRunner().invoke(app, ["status", "--state-dir", str(state.root), "--output", "json"])
    assert (json.loads(done.stdout)["attestation"], done.exit_code) == (phase, code)
    assert (f"{phase.upper()}: why" in shown(state)) is (phase != "attested")


@pytest.mark.parametrize(
    ("phase", "verified"), [("attested", True), ("overdue", True), ("ended", False), ("failed", False)]
)
def test_nothing_is_verified_once_the_attestation_ended(tmp_path: Path, phase: str, verified: bool) -> None:
    state = state_of(tmp_path, attestation={"phase": phase, "reason": "why", "tpm_kind": "hardware"})
    data = status.as_data(state)
    assert data["verified"] is verified
    assert (f"the machine is not attested now: {phase}" in shown(state)) is not verified


@pytest.mark.parametrize(("kind", "said"), [("swtpm", True), ("hardware", False)])
def test_a_simulated_tpm_is_always_named(tmp_path: Path, kind: str, said: bool) -> None:
    state = state_of(tmp_path, attestation={"phase": "attested", "reason": None, "tpm_kind": kind})
    assert ("SIMULATED TPM" in shown(state)) is said


def test_faults_of_re_attestation_and_the_ceiling_are_shown(tmp_path: Path) -> None:
    state = state_of(
        tmp_path,
        loop={"attestation": {"failing": 3, "error": "tpm-deadline: no answer", "since_ns": 1}},
        ceiling="ADVISORY",
        ceiling_reason="attestation failed at start: tpm-deadline",
        attestation_mode="tpm2-resident",
    )
    text = shown(state)
    assert "failing: tpm-deadline: no answer" in text
    assert "ADVISORY: attestation failed at start" in text
    assert "commands signed in the TPM" in text


def test_a_list_of_files_needs_the_kernel_s_own_tpm(mill: Path, tmp_path: Path) -> None:
    check_ima(load_deployment(mill), "swtpm")
    replace(mill, "allow_simulated: true", "allow_simulated: true\n  ima: true")
    deployment = load_deployment(mill)
    for kind in ("swtpm", "hardware"):
        with pytest.raises(SitsError, match="attestation-ima"):
            check_ima(deployment, kind, listed=tmp_path / "none")
    listed = tmp_path / "list"
    listed.touch()
    check_ima(deployment, "hardware", listed=listed)


@pytest.mark.parametrize(
    ("said", "age_s", "word"),
    [
        ("starting", 1.0, "starting"),
        ("starting", 40.0, "starting for 40 s"),
        ("starting", 61.0, "silent for 61 s"),
        ("running", 40.0, "silent for 40 s"),
    ],
)
def test_a_slow_start_is_no_silence_unless_it_never_ends(said: str, age_s: float, word: str) -> None:
    assert status.health(Snapshot("server", said, os.getpid(), age_s, {})) == word
