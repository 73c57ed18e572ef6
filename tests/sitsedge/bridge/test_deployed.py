"""What the bridge makes of a deployment file: every path of this machine, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitsedge.bridge.main import deployed
from sitsedge.config import ConfigError
from sitsedge.config.stations import OpcUaStation, S7Station
from tests.sitsedge.config.test_sources import GOOD, LAYOUT

SERVER = """\
    - name: historian
      protocol: opcua
      endpoint: opc.tcp://192.0.2.10:4840
      namespace: urn:plant
      next_server_certificate: next.der
      security_policy: strongest
      user: {name: edge, password_file: PASSWORD}
      renew: true
      tags:
        - {name: pressure, unit: bar, path: Line/Pressure, deadband: {kind: absolute, value: 0.01}}
"""
SECOND = SERVER.replace("historian", "archive").replace("pressure", "other")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gate.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "state.xml").write_text(LAYOUT, encoding="utf-8")
    (tmp_path / "next.der").write_bytes(b"")
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")
    return tmp_path


def write(folder: Path, server: str) -> Path:
    text = GOOD.replace("cycle: {period", f"{server}cycle: {{period").replace("temperature]", "temperature, pressure]")
    path = folder / "deployment.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("password", ["password", "credential:historian"])
def test_paths_are_those_of_this_machine(folder: Path, password: str) -> None:
    config = deployed(write(folder, SERVER.replace("PASSWORD", password)), folder / "s")
    assert (config.trigger, config.skew_ms_max, config.poll_ms) == ("press", 100.0, 20.0)
    assert config.order == ["speed", "running", "level", "ready", "temperature", "pressure"]
    press, server = config.stations[0], config.stations[3]
    assert isinstance(press, S7Station)
    assert isinstance(server, OpcUaStation)
    assert press.layouts[0].file == str(folder / "state.xml")
    assert server.server_certificate == str(folder / "s" / "pki" / "historian.der")
    assert server.next_server_certificate == str(folder / "next.der")
    assert server.user is not None
    kept = password.startswith("credential:")
    assert server.user.password_file == (password if kept else str(folder / "password"))
    assert config.certificate == str(folder / "s" / "pki" / "bridge.der")
    assert "secret" not in config.model_dump_json()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("password_file: PASSWORD", "password_file: nowhere", "mode 0600"),
        ("next.der", "other.der", "no such file 'other.der'"),
        ("value: 0.01", "value: -1.0", "a positive number"),
        (
            "security_policy: strongest",
            "security_policy: strongest\n      notify: status-value-timestamp",
            "'deadband'",
        ),
        ("namespace: urn:plant", "namespace: urn:plant\n      publishing_interval_ms: 201.0", "at most source_age"),
        ("bar, path", "tons, path", "one of the units"),
        ("path: Line/Pressure", "path: 'nsu=urn:x/Pressure'", "no ';' after the namespace"),
        ("path: Line/Pressure", "path: Line//Pressure", "an empty name"),
        (SERVER, SERVER + SECOND.replace("renew: true", "renew: false"), "'renew' the same"),
    ],
)
def test_a_server_that_cannot_be_meant_is_refused(folder: Path, old: str, new: str, words: str) -> None:
    assert old in SERVER
    text = SERVER.replace(old, new).replace("PASSWORD", "password")
    if "archive" in text:
        path = write(folder, text)
        path.write_text(path.read_text().replace("pressure]", "pressure, other]"), encoding="utf-8")
    else:
        path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        deployed(path, folder / "s")
    assert words in str(caught.value)
