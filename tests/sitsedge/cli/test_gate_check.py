"""``sitsctl gate check`` against an S7 controller."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fieldbus.opcua import create_identity, load_identity
from sitsedge.cli.main import app
from sitsedge.modules import Bundle, ModuleStore
from tests.sitsedge.conftest import copy_mill
from tests.support.block_plcs import s7_layout

GATE = """version: 1
outputs:
  - {{name: gap_correction, unit: mm, limits: [-0.3, 0.3], node: Gap, applied_node: Gap, plc_type: REAL}}
  - {{name: speed_trim, unit: "%", limits: [-0.3, 0.3], node: Speed, applied_node: Speed, {typed}}}
plc: {{protocol: s7, address: 127.0.0.1, port: {port}, layout: block.xml}}
source_age_ms_max: 25.0
decision_age_ms_max: 25.0
future_ms_max: 2.0
"""


@pytest.fixture
def state(tmp_path: Path, mill_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder in which the mill's module is active."""
    for name in ("trust", "modules", "run", "pki"):
        (tmp_path / "state" / name).mkdir(parents=True)
    monkeypatch.setattr(ModuleStore, "load_active", lambda _: mill_bundle)
    return tmp_path / "state"


def ask(config: Path, state: Path) -> tuple[int, dict[str, Any], str]:
    arguments = ["gate", "check", "--config", str(config), "--state-dir", str(state), "--output", "json"]
    result = CliRunner().invoke(app, arguments)
    said = json.loads(result.stdout)
    return result.exit_code, said, str(said.get("error", ""))


def test_the_gates_certificate_is_made_before_the_first_deploy_and_the_plc_is_asked_without_a_module(
    tmp_path: Path,
) -> None:
    config, state = copy_mill(tmp_path / "mill"), tmp_path / "state"
    code, _, err = ask(config, state)
    assert (code, "copy the PLC's certificate to" in err) == (3, True), err
    made = load_identity(state / "pki" / "gate.der", state / "pki" / "gate.key.pem")
    create_identity(tmp_path, "plc", application_uri="urn:tests:plc")
    shutil.copy(tmp_path / "plc.der", state / "pki" / "plc.der")
    code, _, err = ask(config, state)
    assert (code, "connection-refused" in err) == (3, True), err
    assert load_identity(made.certificate_path, made.key_path).thumbprint == made.thumbprint


def test_the_block_is_compared_and_nothing_is_written(state: Path, tmp_path: Path) -> None:
    config = copy_mill(tmp_path / "mill")
    text = config.read_text(encoding="utf-8")
    config.write_text(text[: text.index("simulation:")], encoding="utf-8")
    command = [sys.executable, "-m", "tests.support.block_plcs", "s7"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout is not None
        port = int(controller.stdout.readline())
        (config.parent / "gate.yaml").write_text(
            GATE.format(port=port, typed="plc_type: INT, plc_scale: 0.001"), encoding="utf-8"
        )
        code, _, err = ask(config, state)
        assert code == 2
        assert "block.xml: No such file" in err
        (config.parent / "block.xml").write_bytes(s7_layout())
        code, data, err = ask(config, state)
        assert code == 0, err
        assert data["applied"] == {"gap_correction": 0.0, "speed_trim": 0.0}
        assert (data["ok"], data["auto_active"], data["protocol"]) == (True, False, "s7")
        controller.communicate("")
    code, _, err = ask(config, state)
    assert (code, "connect-failed" in err) == (3, True)
