"""The running appliance with its server: foreign clients look, verify and step down; a dead server harms nobody."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attest.command import ModeChange, parse_command, parse_record
from attest.ledger import Ledger, RecordKind, parse_checkpoint, verify_inclusion
from attest.ledger.merkle import leaf_hash
from fieldbus.opcua import create_identity
from sitsedge.supervisor.keys import read_public
from sitsedge.telemetry import read_snapshot
from tests.sitsedge.conftest import free_port
from tests.support.opcua_peers import Peer, asyncua_peer, node_opcua_peer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # a module is built, a machine enrolled, then it begins

READY_S = 120.0
POLL_S = 0.05
PASSWORD = b"correct horse battery"
APPLIANCE = "ns=1;s=Appliance"


class Whole:
    """``sitsctl deploy`` of the rolling mill with ``server:``, and what its processes say."""

    def __init__(self, mill: Path, root: Path) -> None:
        self.state = root / "s"
        self.clients = root / "clients"
        self.url = f"opc.tcp://localhost:{free_port(socket.SOCK_STREAM)}/sits"
        with mill.open("a", encoding="utf-8") as file:
            file.write(f"\nserver:\n  endpoint: {self.url}\n")
        client = create_identity(self.clients, "scada", application_uri="urn:test:scada")
        self.sitsctl("server", "trust", "add", str(client.certificate_path))
        reading, writing = os.pipe()
        os.write(writing, PASSWORD)
        os.close(writing)
        descriptor = ["--password-fd", str(reading)]
        self.sitsctl("server", "users", "set", "olga", "--role", "operator", *descriptor, pass_fds=(reading,))
        os.close(reading)
        command = [sys.executable, "-m", "sitsedge.cli.entry", "deploy", "--config", str(mill)]
        self.process = subprocess.Popen(
            [*command, "--state-dir", str(self.state)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def sitsctl(self, *arguments: str, **options: Any) -> None:
        command = [sys.executable, "-m", "sitsedge.cli.entry", *arguments, "--state-dir", str(self.state)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60, **options)

    def until(self, name: str, happened: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.communicate()
            snapshot = read_snapshot(self.state / "run", name)
            if snapshot is not None and snapshot.alive and happened(snapshot.data):
                return snapshot.data
            time.sleep(POLL_S)
        raise AssertionError(f"{name}: {read_snapshot(self.state / 'run', name)}")

    def connect(self, make: Callable[[], Peer]) -> Peer:
        peer = make()
        peer.ask(
            "connect", url=self.url, policy="Aes256_Sha256_RsaPss", folder=str(self.clients), name="scada",
            server=str(self.state / "pki" / "appliance.der"), user="olga", password=PASSWORD.decode(),
        )  # fmt: skip
        return peer

    def stop(self) -> str:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        return errors


@pytest.fixture
def whole(mill: Path, tmp_path: Path) -> Iterator[Whole]:
    running = Whole(mill, tmp_path)
    yield running
    running.stop()


@pytest.mark.parametrize("make", [asyncua_peer, node_opcua_peer])
def test_seen_verified_and_stepped_down_from_outside(whole: Whole, make: Callable[[], Peer]) -> None:
    whole.until("sitsd", lambda data: data.get("accepted", 0) >= 100)
    whole.until("server", lambda data: data["state"] == "running" and data["looks"] > 2)
    peer = whole.connect(make)
    names = ["Mode", "LastCommand.Record", "LastCommand.Proof", "LastCommand.State", "Epoch.TpmSimulated"]
    answer = peer.ask("read", ids=[f"{APPLIANCE}.{name}" for name in names])
    mode, record, proof, state, simulated = answer["values"]
    assert (answer["status"], mode, state, simulated) == (["Good"] * 5, 4, "ok", True)
    command = parse_command(bytes.fromhex(record["hex"]), None)
    assert command.command.proof == bytes.fromhex(proof["hex"])

    fetched = peer.ask(
        "call", object=APPLIANCE, method=f"{APPLIANCE}.FetchRecord", args=[["text", "gate"], ["uint64", 9]]
    )
    data, size, path, note = fetched["outputs"]
    signed = parse_checkpoint(bytes.fromhex(note["hex"]))
    assert signed.signed_by([read_public(whole.state / "trust" / "gate.pub")]) is not None
    hashes = [bytes.fromhex(item["hex"]) for item in path]
    verify_inclusion(leaf_hash(bytes.fromhex(data["hex"])), 9, size, hashes, signed.checkpoint.root)

    args = [["int32", 2], ["text", "strip breaks"]]
    assert peer.ask("call", object=APPLIANCE, method=f"{APPLIANCE}.StepDown", args=args)["outputs"] == [4, 2]
    whole.until("gate", lambda data: data["mode"] == "ADVISORY")
    args = [["int32", 4], ["text", "and up again"]]
    assert peer.ask("call", object=APPLIANCE, method=f"{APPLIANCE}.StepDown", args=args)["status"] == "BadInvalidState"
    peer.end()
    errors = whole.stop()
    assert "Traceback" not in errors
    ledger = Ledger.open_readonly(whole.state / "ledger" / "gate" / "ledger.db")
    changes = [parse_record(leaf.data).record for leaf in ledger.iterate() if leaf.kind is RecordKind.MODE_CHANGE]
    ledger.close()
    reasons = [change.reason for change in changes if isinstance(change, ModeChange)]
    assert "operator olga over OPC UA (urn:test:scada): strip breaks" in reasons


def test_a_killed_server_comes_back_and_the_loop_does_not_notice(whole: Whole) -> None:
    whole.until("sitsd", lambda data: data.get("accepted", 0) >= 50)
    whole.until("server", lambda data: data["state"] == "running")
    snapshot = read_snapshot(whole.state / "run", "server")
    assert snapshot is not None
    before = whole.until("sitsd", lambda _: True)
    os.kill(snapshot.pid, signal.SIGKILL)
    whole.until("server", lambda data: data["pid"] != snapshot.pid and data["state"] == "running")
    after = whole.until("sitsd", lambda data: data["accepted"] > before["accepted"] + 50)
    assert whole.until("gate", lambda _: True)["mode"] == "AUTO"
    assert after["epoch"] == before["epoch"]
    assert "the server ended with -9" in whole.stop()


def test_a_loop_that_hangs_is_shown(whole: Whole) -> None:
    whole.until("sitsd", lambda data: data.get("accepted", 0) >= 50)
    whole.until("server", lambda data: data["state"] == "running" and data["looks"] > 2 and not data["alarms"])
    loop = read_snapshot(whole.state / "run", "sitsd")
    assert loop is not None
    os.kill(loop.pid, signal.SIGSTOP)
    try:
        data = whole.until("server", lambda data: {"LoopDown", "HeartbeatLost"} <= set(data["alarms"]))
        assert data["device_health"] == "failure"
    finally:
        os.kill(loop.pid, signal.SIGCONT)
    whole.until("server", lambda data: not {"LoopDown", "HeartbeatLost"} & set(data["alarms"]))
