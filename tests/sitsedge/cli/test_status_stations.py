"""``status`` shows each station of the bridge, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from sitsedge.cli.status import render
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import write_snapshot


def test_stations_are_shown_with_what_is_wrong(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.create()
    bad = {f"t{at}": "0x80310000" for at in range(6)}
    stations = [
        {"name": "press", "protocol": "s7", "state": "running", "connected": True, "samples": 12, "bad_tags": {}},
        {
            "name": "oven",
            "protocol": "cip",
            "state": "connecting",
            "connected": False,
            "last_error": "connect-failed: x",
        },
        {"name": "tank", "protocol": "slmp", "state": "degraded", "connected": True, "bad_tags": bad},
        {"name": "line", "protocol": "opcua", "state": "running", "connected": True, "dropped": {"incomplete": 9}},
        {"name": "belt", "protocol": "opcua", "state": "running", "samples": 90, "dropped": {"out-of-order": 2}},
    ]
    write_snapshot(state.run, "bridge", "degraded", {"stations": stations})
    console = Console(width=160, record=True, file=(tmp_path / "out").open("w", encoding="utf-8"))
    console.print(render(state))
    rows = {line.split()[1]: line for line in console.export_text().splitlines() if line.startswith("│")}
    assert "running" in rows["press"]
    assert "dropped 9 samples: without 'trigger'" in rows["line"]
    assert "dropped" not in rows["belt"]
    assert "connect-failed: x" in rows["oven"]
    assert "no good value: t0 0x80310000, t1 0x80310000, t2 0x80310000, t3 0x80310000 …" in rows["tank"]
