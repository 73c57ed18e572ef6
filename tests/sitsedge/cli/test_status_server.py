"""``sitsctl status`` and the appliance's own OPC UA server: where it is, what it raises, when its certificate ends."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sitsedge.cli.status import as_data, render
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import write_snapshot

SERVER: dict[str, Any] = {
    "endpoint": "opc.tcp://edge:4840/sits", "device_health": "failure", "sessions": 2, "subscriptions": 3,
    "certificate_days": 12, "alarms": {"GateDown": "gate: silent [red]for long"},
    "unacknowledged": ["GateDown", "InputLimits"],
}  # fmt: skip


def shown(tmp_path: Path, **changed: Any) -> str:
    (tmp_path / "run").mkdir(exist_ok=True)
    write_snapshot(tmp_path / "run", "server", "running", SERVER | changed)
    page = io.StringIO()
    Console(width=160, file=page).print(render(StateDir(tmp_path)))
    return page.getvalue()


def test_what_people_should_see(tmp_path: Path) -> None:
    text = shown(tmp_path)
    for words in (
        "opc.tcp://edge:4840/sits",
        "2, 3 subscriptions",
        "good for 12 days",
        "gate: silent [red]for long (nobody has acknowledged it)",
        "gone; nobody has acknowledged it",
    ):
        assert words in text
    assert as_data(StateDir(tmp_path))["processes"]["server"]["health"] == "running"


@pytest.mark.parametrize(("days", "words"), [(-1, "ENDED"), (400, "good for 400 days"), (None, None)])
def test_the_certificate(tmp_path: Path, days: int | None, words: str | None) -> None:
    text = shown(tmp_path, certificate_days=days)
    assert ("certificate" in text) == (words is not None)
    assert (words or "") in text
