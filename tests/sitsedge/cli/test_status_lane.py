"""``sitsctl status`` of a deferred lane, and the progress of a long ``audit verify``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from attest.ledger.audit import Progress
from sitsedge.cli import audit_commands, status
from sitsedge.cli.audit_commands import LOG_EVERY_S, TERMINAL_EVERY_S, ProgressNotes
from sitsedge.cli.main import app
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import write_snapshot

SLOW = {"proof_ms": 12.5, "period_ms": 10.0, "threads": 1, "keeps_up": False}


def state_of(path: Path, *, policy: str = "deferred", verified: bool = True, hold: bool = False) -> StateDir:
    state = StateDir(path / "s")
    state.create()
    reason = None if verified else "proof-backlog"
    data: dict[str, Any] = {"verified": verified, "verified_reason": reason, "proofs": {"policy": policy, "hold": hold}}
    write_snapshot(state.run, "gate", "running", data)
    write_snapshot(state.run, "sitsd", "running", {})
    write_snapshot(state.run, "prover", "running", {"pace": SLOW})
    return state


@pytest.mark.parametrize(
    ("what", "lane", "code"),
    [
        ({}, "running", 0),
        ({"verified": False, "hold": True}, "withdrawn", 1),
        ({"hold": True}, "hold", 1),
        ({"policy": "inline"}, "none", 0),
        ({"policy": "off", "verified": False}, "none", 0),
    ],
)
def test_a_lane_that_takes_no_commands_is_unhealthy(tmp_path: Path, what: dict[str, Any], lane: str, code: int) -> None:
    state = state_of(tmp_path, **what)
    done = CliRunner().invoke(app, ["status", "--state-dir", str(state.root), "--output", "json"])
    answer = json.loads(done.stdout)
    assert (answer["lane"], answer["healthy"], done.exit_code) == (lane, code == 0, code)


def test_people_see_the_lane_and_a_prover_that_is_too_slow(tmp_path: Path) -> None:
    printed = Console(width=200, force_terminal=False)
    with printed.capture() as shown:
        printed.print(status.render(state_of(tmp_path, hold=True)))
    assert "ON HOLD" in shown.get()
    assert "TOO SLOW: 12.5 ms a proof, 10.0 ms a cycle" in shown.get()


@pytest.mark.parametrize(("terminal", "every_s"), [(True, TERMINAL_EVERY_S), (False, LOG_EVERY_S)])
def test_progress_is_noted_at_most_so_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, every_s: float
) -> None:
    now = [100.0]
    monkeypatch.setattr(audit_commands.time, "monotonic", lambda: now[0])
    notes = ProgressNotes(terminal=terminal)
    for step in range(40):  # four intervals in tenths
        now[0] = 100.0 + step * every_s / 10
        notes(Progress(step, 40, step // 2))
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 3
    assert lines[0] == "sitsctl: audit: 10 of 40 records read, 5 proofs checked"
