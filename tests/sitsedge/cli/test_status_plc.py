"""``sitsctl status`` of the gate's PLC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sitsedge.cli import status
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import write_snapshot


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"plc_connected": None}, ()),
        ({"plc_connected": True, "auto_active": True, "plc": {"protocol": "opcua"}}, ("opcua, in AUTO",)),
        (
            {
                "plc_connected": False,
                "auto_active": False,
                "superseded": 7,
                "plc": {"protocol": "s7", "standstill": "CPU in stop"},
            },
            ("s7, NOT REACHED, DOES NOT RUN: CPU in stop ", "overtaken before they were written"),
        ),
    ],
)
def test_the_plc_is_named_with_what_is_wrong(data: dict[str, Any], words: tuple[str, ...], tmp_path: Path) -> None:
    state = StateDir(tmp_path / "s")
    state.create()
    write_snapshot(state.run, "gate", "running", data)
    write_snapshot(state.run, "sitsd", "running", {})
    console = Console(width=200, record=True)
    console.print(status.render(state))
    text = console.export_text()
    assert all(word in text for word in words)
    assert ("in AUTO" in text or "in MAN" in text) is bool(data["plc_connected"])
