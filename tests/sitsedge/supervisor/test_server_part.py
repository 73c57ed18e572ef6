"""The supervisor's part of the OPC UA server: its file, its certificate, and a server that dies and comes back."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from typer.testing import CliRunner

from fieldbus.opcua import CertificateError, OpcUaError, TrustList, create_identity, load_certificate, load_identity
from sitsedge.cli.main import app
from sitsedge.config import load_model
from sitsedge.config.server import ServerBlock
from sitsedge.errors import SitsError
from sitsedge.gate.control import request_mode, request_step_down
from sitsedge.modules import Bundle
from sitsedge.server.config import ServerConfig
from sitsedge.server.modelconfig import alarms_of, model_config
from sitsedge.supervisor.children import Child, Children, last_words
from sitsedge.supervisor.prepare import _certificates, application_identity, check_ports, load_files
from sitsedge.supervisor.revival import RESTART_S, Revival
from sitsedge.supervisor.serverpart import check_server_files, server_config, server_words
from sitsedge.supervisor.state import StateDir
from tests.sitsedge.conftest import EXAMPLE, free_port

CHILD = "import time, sys\nsys.stderr.write('out of words')\nsys.exit(3)\n"
POLL_S = 0.02


def with_server(deployment: Path, *more: str) -> Path:
    """The same deployment with a server of its own."""
    lines = ["", "server:", f"  endpoint: opc.tcp://localhost:{free_port(socket.SOCK_STREAM)}/sits", *more, ""]
    deployment.write_text(deployment.read_text(encoding="utf-8") + "\n".join(lines), encoding="utf-8")
    return deployment


def test_the_servers_file_fits_its_schema_and_the_model(mill: Path, mill_bundle: Bundle, tmp_path: Path) -> None:
    machine = "  machine: {name: Stand 7, manufacturer: M, serial_number: '7', product_instance_uri: 'urn:m:7'}"
    path = with_server(mill, "  hosts: [edge-1.example]", machine)
    deployment, gate, _ = load_files(path)
    state = StateDir(tmp_path / "s")
    state.create()
    written = tmp_path / "server-config.json"
    written.write_text(json.dumps(server_config(deployment, gate, mill_bundle, path, state)))
    config = load_model(written, ServerConfig)
    assert (config.processes, config.has_plc, config.bind) == (["sitsd", "gate"], True, "127.0.0.1")
    assert [(item.name, item.low, item.high) for item in config.outputs] == [
        ("gap_correction", -0.33, 0.33),  # the gate's limits, not the module's wider ones
        ("speed_trim", -0.85, 0.85),
    ]
    model = model_config(config)
    model.check()
    assert model.machine is not None
    assert "BridgeDown" not in {condition.name for condition in model.conditions}
    assert "PlcUnreachable" in {condition.name for condition in model.conditions}


def test_a_bridged_deployment_without_a_plc_has_other_alarms(mill_bundle: Bundle, tmp_path: Path) -> None:
    for name in ("deployment.yaml", "gate.yaml"):
        shutil.copy(EXAMPLE.parent / "pump" / name, tmp_path / name)
    path = with_server(tmp_path / "deployment.yaml")
    deployment, gate, _ = load_files(path)
    state = StateDir(tmp_path / "s")
    state.create()
    written = tmp_path / "server-config.json"
    written.write_text(json.dumps(server_config(deployment, gate, mill_bundle, path, state)))
    config = load_model(written, ServerConfig)
    assert (config.processes, config.has_plc, sorted(config.certificates)) == (
        ["sitsd", "gate", "bridge"],
        False,
        ["appliance", "bridge"],
    )
    alarms = {spec.name for spec in alarms_of(config)}
    assert "BridgeDown" in alarms
    assert not alarms & {"PlcUnreachable", "NotApplied", "HeartbeatLost", "ProverDown", "LaneWithdrawn"}


def test_a_development_profile_makes_a_certificate_for_every_name(mill: Path, tmp_path: Path) -> None:
    path = with_server(mill, "  hosts: [edge-1.example, 10.0.0.9]")
    deployment, gate, _ = load_files(path)
    state = StateDir(tmp_path / "s")
    state.create()
    _certificates(deployment, gate, state, path.parent)
    identity = load_identity(state.pki / "appliance.der", state.pki / "appliance.key.pem")
    assert identity.application_uri == "urn:sits-edge:rolling-mill:appliance"
    names = load_certificate(identity.certificate_path).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["localhost", "edge-1.example"]
    assert [str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)] == ["10.0.0.9", "127.0.0.1"]


def test_of_a_plants_own_plc_only_the_certificate_is_needed(mill: Path, tmp_path: Path) -> None:
    deployment, gate, _ = load_files(mill)
    state = StateDir(tmp_path / "s")
    state.create()
    plc = create_identity(tmp_path, "plc", application_uri="urn:tests:plc")
    shutil.copy(plc.certificate_path, state.pki / "plc.der")
    with pytest.raises(CertificateError, match="file-unreadable"):
        _certificates(deployment, gate, state, mill.parent)  # the simulated PLC is ours, and needs its key
    _certificates(deployment.model_copy(update={"simulation": None}), gate, state, mill.parent)
    assert (state.pki / "gate.der").exists()
    assert not (state.pki / "plc.key.pem").exists()


def test_ports_are_each_for_one_thing_and_addresses_our_own(mill: Path) -> None:
    deployment, gate, _ = load_files(mill)
    assert gate.plc is not None
    port = urlsplit(gate.plc.endpoint).port
    for block, code in (
        ({"endpoint": f"opc.tcp://localhost:{port}"}, "port-twice"),
        ({"endpoint": f"opc.tcp://edge:{port}", "bind": "0.0.0.0"}, "port-twice"),
        ({"endpoint": "opc.tcp://192.0.2.1:4840"}, "address-unknown"),  # RFC 5737: nobody's
    ):
        changed = deployment.model_copy(update={"server": ServerBlock.model_validate(block)})
        with pytest.raises(SitsError, match=code):
            check_ports(changed, gate)


def test_a_missing_certificate_in_production_says_what_to_do(mill: Path, tmp_path: Path) -> None:
    deployment = load_files(mill)[0].model_copy(update={"profile": "production"})
    with pytest.raises(CertificateError, match=r"install .*appliance\.der") as caught:
        application_identity(deployment, StateDir(tmp_path), "appliance")
    assert caught.value.code == "file-unreadable"


def test_who_can_come_in_is_said_before_somebody_tries(mill: Path, tmp_path: Path) -> None:
    assert server_words(load_files(mill)[0], mill, StateDir(tmp_path / "s")) == ["OPC UA server none"]
    path = with_server(mill)
    deployment, _, _ = load_files(path)
    state = StateDir(tmp_path / "s")
    state.create()
    nobody = server_words(deployment, path, state)
    assert ["connect" in nobody[1], "sign in" in nobody[2]] == [True, True]
    scada = create_identity(tmp_path / "c", "scada", application_uri="urn:plant:scada")
    TrustList(state.appliance_trusted).add(scada.certificate)
    assert [word.partition(":")[0] for word in server_words(deployment, path, state)[1:]] == [
        "nobody can sign in to it"
    ]  # fmt: skip


def test_the_last_words_are_whole_lines(tmp_path: Path) -> None:
    child = Child("server", None, tmp_path / "server.stderr")  # type: ignore[arg-type]
    line = json.dumps({"level": "warning", "msg": "x" * 150}) + "\n"
    (tmp_path / "server.log").write_text(line * 100)
    assert last_words(child, tmp_path) == "no message"


def test_a_book_of_users_that_others_can_read_stops_the_start(mill: Path, tmp_path: Path) -> None:
    path = with_server(mill)
    deployment, _, _ = load_files(path)
    state = StateDir(tmp_path / "s")
    state.create()
    check_server_files(deployment, path, state)  # none yet: it is made
    state.users.write_text('{"version": 1, "users": {}, "applications": {}}')
    state.users.chmod(0o644)
    with pytest.raises(OpcUaError, match="users-permissions"):
        check_server_files(deployment, path, state)
    command = ["deploy", "--config", str(path), "--state-dir", str(state.root), "--dry-run"]
    tried = CliRunner().invoke(app, command)
    assert (tried.exit_code != 0, "users-permissions" in tried.stderr) == (True, True)


def test_a_server_that_dies_is_started_again_ever_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    (tmp_path / "run").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "dying_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: list[str] = []
    children = Children(tmp_path / "run", tmp_path / "logs")
    revival = Revival(children, "server", "dying_child", [], said.append)
    revival.start()
    for times, wait_s in enumerate((0.5, 1.0, 2.0), start=1):
        while len(said) < times:
            children.check()  # the end of this process is nobody's emergency
            revival.check()
            now += 0.0001
            signal.sigtimedwait([], POLL_S)
        assert said[-1] == f"the server ended with 3: out of words; starting it again in {wait_s:.1f} s"
        now += wait_s + RESTART_S
        revival.check()
    children.stop_all()


def test_only_down_is_asked_for(tmp_path: Path) -> None:
    asked = []

    def answer(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            ready.set()
            for _ in range(2):
                channel, _ = server.accept()
                with channel, channel.makefile("rwb") as stream:
                    asked.append(json.loads(stream.readline()))
                    stream.write(b'{"ok": true}\n')

    ready = threading.Event()
    path = tmp_path / "c.sock"
    thread = threading.Thread(target=answer, args=(path,))
    thread.start()
    assert ready.wait(10)
    request_step_down(path, "OFF", "r")
    request_mode(path, "OFF", [], "r")
    thread.join()
    assert [request.get("only_down") for request in asked] == [True, None]
