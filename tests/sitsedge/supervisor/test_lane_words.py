"""What the supervisor says of the deferred lane: each thing once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sitsedge.errors import SitsError
from sitsedge.supervisor import session as module
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import END_COMMANDS


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def session(tmp_path: Path, said: list[str]) -> Session:
    state = StateDir(tmp_path / "s")
    state.create()
    return Session(tmp_path / "deployment.yaml", state, SessionOptions(), say=said.append)


def gate(session: Session, reason: str | None, *, hold: bool) -> None:
    data: dict[str, Any] = {"verified_reason": reason, "proofs": {"policy": "deferred", "hold": hold}}
    write_snapshot(session.state.run, "gate", "running", data)
    session._watch.verified()
    session._watch.verified()


def test_a_withdrawal_and_its_end_are_said_once_each(session: Session, said: list[str]) -> None:
    gate(session, None, hold=False)
    assert said == []
    gate(session, "proof-backlog", hold=True)
    assert len(said) == 1
    assert "verified is withdrawn: proof-backlog" in said[0]
    gate(session, None, hold=True)
    assert len(said) == 2
    assert "until people confirm a mode" in said[1]


def test_an_approval_that_ends_the_withdrawal_asks_for_nothing_more(session: Session, said: list[str]) -> None:
    gate(session, "proof-deadline", hold=True)
    gate(session, None, hold=False)
    assert said[1:] == ["verified again"]


def test_a_prover_that_cannot_keep_up_is_said_once(session: Session, said: list[str]) -> None:
    pace = {"proof_ms": 12.5, "period_ms": 10.0, "threads": 1, "keeps_up": False}
    write_snapshot(session.state.run, "prover", "ready", {"pace": pace})
    session._watch.prover()
    session._watch.prover()
    assert len(said) == 1
    assert "prover-slow: a proof takes 12.5 ms, a command comes every 10.0 ms" in said[0]


def test_a_prover_that_keeps_up_or_has_not_measured_is_not_mentioned(session: Session, said: list[str]) -> None:
    for pace in ({}, {"proof_ms": 2.5, "period_ms": 10.0, "threads": 1, "keeps_up": True}):
        write_snapshot(session.state.run, "prover", "ready", {"pace": pace})
        session._watch.prover()
    assert said == []


def test_a_stop_ends_the_commands_before_it_asks_for_man(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    def signalled(name: str, number: object) -> None:
        done.append((name, number))
        write_snapshot(session.state.run, "sitsd", "running", {"ending": True, "pending": 0})

    def asked(_: Path, to: str, names: list[str], reason: str) -> None:
        done.append((to, names, reason))
        raise SitsError("gate-unreachable", found="no gate", expected="one")

    for name in ("gate", "sitsd", "prover"):
        write_snapshot(session.state.run, name, "running", {"proofs": {"policy": "deferred", "owed": 5}})
    monkeypatch.setattr(session._children, "signal", signalled)
    monkeypatch.setattr(module, "request_mode", asked)
    session.stop()
    assert done == [("sitsd", END_COMMANDS), ("OFF", [], "stop")]


def test_a_stop_with_nothing_owed_waits_for_nobody(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gate", "sitsd", "prover"):
        write_snapshot(session.state.run, name, "running", {"proofs": {"policy": "deferred", "owed": 0}})
    asked: list[object] = []
    monkeypatch.setattr(module, "request_mode", lambda *rest: asked.append(rest))
    session.stop()
    assert asked == []
