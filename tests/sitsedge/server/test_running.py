"""The running server process with real ledgers, seen by clients that somebody else wrote, in other processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asyncua import Client, ua

from attest.command import ReadBack, parse_command
from attest.ledger import parse_checkpoint, verify_inclusion
from attest.ledger.merkle import leaf_hash
from fieldbus.opcua import SecureClient, create_identity, load_identity
from fieldbus.opcua.server import Role, UserBook
from sitsedge.server.app import NICE, OOM_SCORE_ADJ, _policy_name, name_endpoints
from sitsedge.telemetry import read_snapshot
from tests.sitsedge.server.standin import SCALES, StandIn
from tests.support.opcua_peers import Peer, PeerError, asyncua_peer, node_opcua_peer

READY_S = 60.0
EVENT_S = 20.0
POLL_S = 0.05
PASSWORD = "correct horse battery"
ACKNOWLEDGE, CONFIRM, ADD_COMMENT, DISABLE, REFRESH = "i=9111", "i=9113", "i=9029", "i=9028", "i=3875"
CONDITION_TYPE, SYSTEM_EVENT = "i=2782", "i=2130"
FIELDS = [
    "EventId", "EventType", "SourceName", "Message", "Severity", "ConditionName", "Retain", "ActiveState.Id",
    "AckedState.Id", "ConfirmedState.Id", "Comment", "ClientUserId",
]  # fmt: skip
PEERS = {
    "asyncua-Basic256Sha256": (asyncua_peer, "Basic256Sha256"),
    "asyncua-Aes256": (asyncua_peer, "Aes256_Sha256_RsaPss"),
    "node-opcua-Basic256Sha256": (node_opcua_peer, "Basic256Sha256"),
    "node-opcua-Aes256": (node_opcua_peer, "Aes256_Sha256_RsaPss"),
}


def nid(path: str) -> str:
    return f"ns=1;s=Appliance.{path}"


class Server:
    """The process, and the appliance it looks at."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.there = StandIn(root).start()
        self.there.epoch()
        self.newest = self.there.command()
        self.there.gate.checkpoint()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"opc.tcp://127.0.0.1:{self.port}/sits"
        self.config = self.there.server_config(self.port)
        self.clients = self.there.client("control-room")
        book = UserBook()
        for name, role in (("olga", Role.OPERATOR), ("otto", Role.OBSERVER)):
            book.set(name, bytearray(PASSWORD.encode()), role)
        book.save(root / "server" / "users.json")
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "sitsedge.server.main", "--config", str(self.config)]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=(self.root / "stderr").open("wb"))

    def until(self, happened: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, (self.root / "stderr").read_text()
            snapshot = read_snapshot(self.root / "run", "server")
            if snapshot is not None and snapshot.pid == self.process.pid and happened(snapshot.data):
                return snapshot.data
            time.sleep(POLL_S)
        raise AssertionError(f"{snapshot}\n{(self.root / 'logs' / 'server.log').read_text()[-2000:]}")

    def ready(self) -> None:
        self.until(lambda data: data["state"] == "running")

    def looks(self, count: int = 2) -> None:
        """Until it has looked again at what was changed by now."""
        now = int(self.until(lambda _: True)["looks"])
        self.until(lambda data: data["looks"] >= now + count)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("sits-server") / "s")
    running.ready()
    yield running
    running.stop()
    running.there.stop()


def connect(to: Server, make: Callable[[], Peer], policy: str, user: str = "olga", **more: Any) -> Peer:
    peer = make()
    asked = {
        "url": to.url, "policy": policy, "folder": str(to.clients), "name": "control-room",
        "server": str(to.root / "pki" / "appliance.der"),
    } | ({"user": user, "password": PASSWORD} if user else {})  # fmt: skip
    try:
        peer.ask("connect", **(asked | more))
    except PeerError:
        peer.end()
        raise
    return peer


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in list(PEERS)[1:]]


@pytest.fixture(scope="module", params=[next(iter(PEERS)), *SLOW])
def peer(server: Server, request: pytest.FixtureRequest) -> Iterator[Peer]:
    connected = connect(server, *PEERS[request.param])
    yield connected
    connected.end()


def test_reads_mode_command_and_health(server: Server, peer: Peer) -> None:
    index, data = server.there.command(outputs=(150, -40))
    server.looks()
    paths = ["Mode", "Verified", "LastCommand.Sequence", "LastCommand.Record", "LastCommand.State", "DeviceHealth"]
    answer = peer.ask("read", ids=[*map(nid, paths), nid("LastCommand.Outputs.gap_correction")])
    assert answer["status"] == ["Good"] * 7
    mode, verified, sequence, record, state, health, gap = answer["values"]
    assert (mode, verified, state, health) == (4, True, "ok", 0)
    assert sequence == server.there.sequence
    assert bytes.fromhex(record["hex"]) == data
    assert gap == pytest.approx(150 * SCALES[0])
    assert index > 0
    build = peer.ask("read", ids=["i=2262", "i=2263", "i=2261"])["values"]  # BuildInfo: ProductUri, Manufacturer, Name
    assert build == ["urn:sits-edge", "SITS Edge", "test"]


DI_URI, OURS = "http://opcfoundation.org/UA/DI/", "urn:sits-edge:appliance"
DEVICE = f"nsu={DI_URI};DeviceSet/d"


async def test_our_own_client_follows_our_own_tree(server: Server) -> None:
    tags = {
        "mode": f"{DEVICE}/nsu={OURS};Mode",
        "latency": f"{DEVICE}/nsu={OURS};Latency/nsu={OURS};FrameToVerdict/nsu={OURS};P50",
        "serial": f"{DEVICE}/nsu={DI_URI};SerialNumber",
        "state": "nsu=http://opcfoundation.org/UA/;Server/nsu=http://opcfoundation.org/UA/;ServiceLevel",
    }
    client = SecureClient(
        server.url,
        identity=load_identity(server.clients / "control-room.der", server.clients / "control-room.key.pem"),
        server_certificate=server.root / "pki" / "appliance.der",
        namespace_uri="urn:sits-edge:t:appliance",
        tags=tags,
        deadline_s=READY_S,
    )
    async with client:
        mode, latency, serial, level = await client.read_many(list(tags))
        assert (mode.value, serial.value, level.good) == (4, "d", True)
        assert latency.good or latency.value is None  # nothing was measured here, and the node says so


async def test_whoever_asks_is_told_our_own_endpoints(server: Server) -> None:
    told = await Client(server.url.replace("127.0.0.1", "localhost")).connect_and_get_server_endpoints()
    assert {endpoint.EndpointUrl for endpoint in told} == {server.url}  # not the name that the client made up
    assert {endpoint.SecurityMode for endpoint in told} == {ua.MessageSecurityMode.SignAndEncrypt}
    policies = {endpoint.SecurityPolicyUri.rpartition("#")[2] for endpoint in told}
    assert policies == {"Basic256Sha256", "Aes256_Sha256_RsaPss"}
    assert {endpoint.Server.ProductUri for endpoint in told} == {"urn:sits-edge"}


def test_the_name_of_ours_that_a_client_used_is_answered_with() -> None:
    known = SimpleNamespace(iserver=SimpleNamespace())
    name_endpoints(known, "opc.tcp://edge-7:4840/sits", ["edge-7", "10.0.0.7", "fe80::7"])
    answer = known.iserver._mangle_endpoint_url
    assert answer("", "opc.tcp://10.0.0.7:4840/other") == "opc.tcp://10.0.0.7:4840/sits"
    assert answer("", "opc.tcp://[fe80::7]:1/") == "opc.tcp://[fe80::7]:4840/sits"
    for foreign in (None, "", "opc.tcp://evil:4840/sits", "opc.tcp://[", "nonsense"):
        assert answer("", foreign) == "opc.tcp://edge-7:4840/sits"


def test_policies_have_the_names_of_deployment_files() -> None:
    named = {_policy_name(kind) for kind in ua.SecurityPolicyType}
    assert {"Basic256Sha256", "Aes256_Sha256_RsaPss"} <= named


def test_any_record_is_verified_without_trusting_the_server(server: Server, peer: Peer) -> None:
    index, data = server.newest
    answer = peer.ask(
        "call", object=nid("")[:-1], method=nid("FetchRecord"), args=[["text", "gate"], ["uint64", index]]
    )
    assert answer["status"] == "Good"
    record, size, path, note = answer["outputs"]
    assert bytes.fromhex(record["hex"]) == data
    parse_command(data, None).verify(server.there.session.public)
    signed = parse_checkpoint(bytes.fromhex(note["hex"]))
    assert signed.signed_by([server.there.gate_key.public]) is not None
    assert signed.checkpoint.size == size
    proof = [bytes.fromhex(item["hex"]) for item in path]
    verify_inclusion(leaf_hash(data), index, size, proof, signed.checkpoint.root)


def test_the_proof_of_a_command(server: Server, peer: Peer) -> None:
    args = [["uint64", 1], ["uint64", 1]]
    answer = peer.ask("call", object=nid("")[:-1], method=nid("FetchProof"), args=args)
    assert answer["status"] == "Good"
    kind, proof, command = answer["outputs"]
    assert (kind, len(bytes.fromhex(proof["hex"]))) == (1, 128)
    assert bytes.fromhex(command["hex"]) == server.newest[1]


REFUSED = (
    ("FetchRecord", [["text", "gate"], ["uint64", 10**6]], "BadNotFound"),
    ("FetchRecord", [["text", "../gate"], ["uint64", 0]], "BadInvalidArgument"),
    ("FetchRecord", [["uint64", 1], ["uint64", 0]], "BadInvalidArgument"),
    ("FetchProof", [["uint64", 1], ["uint64", 10**6]], "BadNotFound"),
    ("FetchProof", [["uint64", 9], ["uint64", 1]], "BadNotFound"),
    ("StepDown", [["int32", 9], ["text", ""]], "BadOutOfRange"),
    ("StepDown", [["text", "OFF"], ["text", ""]], "BadInvalidArgument"),
    ("StepDown", [["int32", 4], ["text", "up"]], "BadInvalidState"),
)


def test_methods_refuse(server: Server, peer: Peer) -> None:
    for method, args, status in REFUSED:
        answer = peer.ask("call", object=nid("")[:-1], method=nid(method), args=args)
        assert (method, args, answer["status"], answer["outputs"]) == (method, args, status, [])


def wait_for(peer: Peer, name: str, **wanted: Any) -> dict[str, Any]:
    """The next event of this condition in this state; others are passed over."""
    deadline = time.monotonic() + EVENT_S
    while time.monotonic() < deadline:
        event = peer.ask("event", timeout=EVENT_S)["event"]
        assert event is not None, f"no event of {name}"
        if event["ConditionName"] == name and all(event[key] == value for key, value in wanted.items()):
            return dict(event)
    raise AssertionError(f"no event of {name} with {wanted}")


def test_an_alarm_is_raised_acknowledged_confirmed_and_gone(server: Server, peer: Peer) -> None:
    there = server.there
    number = peer.ask("subscribe", fields=FIELDS, type=CONDITION_TYPE)["subscription"]
    there.says("gate", plc_connected=False)
    raised = wait_for(peer, "PlcUnreachable", **{"ActiveState.Id": True, "AckedState.Id": False})
    assert raised["Severity"] == 850
    assert raised["Retain"] is True
    condition = raised["ConditionId"]
    assert peer.ask("read", ids=[nid("DeviceHealth")])["values"] == [1]
    assert peer.ask("read", ids=[nid("PlcAuto")])["status"] == ["BadNoData"]  # nobody knows now

    refreshed = peer.ask("call", object=CONDITION_TYPE, method=REFRESH, args=[["uint32", number]])
    assert refreshed["status"] == "Good"
    again = wait_for(peer, "PlcUnreachable")
    assert again["EventId"] == raised["EventId"]

    def act(method: str, comment: str, event_id: str = raised["EventId"]["hex"]) -> str:
        args = [["hex", event_id], ["localized", comment]]
        return str(peer.ask("call", object=condition, method=method, args=args)["status"])

    assert act(ACKNOWLEDGE, "", "00" * 16) == "BadEventIdUnknown"
    assert act(CONFIRM, "too soon") == "BadInvalidState"
    assert act(ACKNOWLEDGE, "on my way") == "Good"
    acked = wait_for(peer, "PlcUnreachable", **{"AckedState.Id": True})
    assert (acked["Comment"], acked["ClientUserId"], acked["ConfirmedState.Id"]) == ("on my way", "olga", False)
    assert act(ACKNOWLEDGE, "") == "BadConditionBranchAlreadyAcked"
    assert act(ADD_COMMENT, "cable") == "Good"
    assert act(CONFIRM, "replaced") == "Good"
    assert act(CONFIRM, "") == "BadConditionBranchAlreadyConfirmed"
    assert act(DISABLE, "") != "Good"
    wait_for(peer, "PlcUnreachable", **{"ConfirmedState.Id": True, "Comment": "replaced"})
    there.says("gate", plc_connected=True)
    gone = wait_for(peer, "PlcUnreachable", **{"ActiveState.Id": False})
    assert gone["Retain"] is False


@pytest.mark.slow
def test_refusals_are_events(server: Server) -> None:
    looking = connect(server, *PEERS["asyncua-Basic256Sha256"])
    try:
        looking.ask("subscribe", fields=[*FIELDS, "Code", "LedgerIndex"], type=SYSTEM_EVENT)
        index = server.there.refusal("replay")
        event = looking.ask("event", timeout=EVENT_S)["event"]
        looking.ask("call", object=nid("")[:-1], method=nid("StepDown"), args=[["int32", 4], ["text", "up"]])
        why = looking.ask("event", timeout=EVENT_S)["event"]
    finally:
        looking.end()
    assert why["Message"] == "StepDown to AUTO by olga is refused: mode-up: expected lower"
    assert event["Message"].startswith("refused replay: sequence 7, expected above 7")
    assert (event["Code"], event["LedgerIndex"], event["ConditionId"]) == ("replay", index, None)


def test_stepping_down_names_the_caller(server: Server, peer: Peer) -> None:
    server.there.requests.clear()
    answer = peer.ask(
        "call", object=nid("")[:-1], method=nid("StepDown"), args=[["int32", 2], ["text", "strip breaks"]]
    )
    assert (answer["status"], answer["outputs"]) == ("Good", [4, 2])
    (request,) = server.there.requests
    assert request["only_down"] is True
    assert (request["to"], request["approved_by"]) == ("ADVISORY", [])
    assert request["reason"].startswith("operator olga over OPC UA (urn:test:control-room): strip breaks")


@pytest.mark.slow
def test_every_field_of_every_alarm_type_can_be_asked_for(server: Server) -> None:
    looking = connect(server, *PEERS["asyncua-Basic256Sha256"], user="otto")
    try:
        looking.ask("alarms")
        server.there.says("gate", plc_connected=False)
        assert wait_for(looking, "PlcUnreachable")
    finally:
        server.there.says("gate", plc_connected=True)
        looking.end()


@pytest.mark.slow
def test_observers_look_and_change_nothing(server: Server) -> None:
    for user in ("otto", ""):
        looking = connect(server, *PEERS["asyncua-Basic256Sha256"], user=user)
        try:
            args = [["text", "gate"], ["uint64", 0]]
            assert looking.ask("call", object=nid("")[:-1], method=nid("FetchRecord"), args=args)["status"] == "Good"
            args = [["int32", 0], ["text", "no"]]
            refused = looking.ask("call", object=nid("")[:-1], method=nid("StepDown"), args=args)
            assert refused["status"] == "BadUserAccessDenied"
            args = [["hex", "00"], ["localized", ""]]
            refused = looking.ask("call", object="ns=1;s=Condition.GateDown", method=ACKNOWLEDGE, args=args)
            assert refused["status"] == "BadUserAccessDenied"
            assert looking.ask("write", id=nid("Mode"), int32=0)["status"] in ("BadUserAccessDenied", "BadNotWritable")
        finally:
            looking.end()


def test_a_lost_session_is_in_the_log_with_its_reason(server: Server) -> None:
    gone = connect(server, *PEERS["asyncua-Basic256Sha256"])
    before = server.until(lambda data: data["sessions"] > 0)["sessions_lost"]
    gone.kill()
    server.until(lambda data: sum(data["sessions_lost"].values()) > sum(before.values()))
    log = (server.root / "logs" / "server.log").read_text()
    assert "lost the session of olga at urn:test:control-room from ('127.0.0.1'" in log
    assert "timeout 600 s" in log


@pytest.mark.slow
def test_a_server_that_was_held_up_says_so_and_by_what(server: Server) -> None:
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)  # it is what is tested: nothing happens
    server.process.send_signal(signal.SIGCONT)
    data = server.until(lambda data: data["stalls"] > 0)
    assert data["stall_ms_max"] > 1500.0
    assert "held up for" in (server.root / "logs" / "server.log").read_text()
    connect(server, *PEERS["asyncua-Basic256Sha256"]).end()


OTHERS = ["unsecured", "untrusted", "wrong-password", "unknown-user"]


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("make", [asyncua_peer, node_opcua_peer])
def test_others_are_refused(server: Server, case: str, make: Callable[[], Peer]) -> None:
    more: dict[str, Any] = {
        "unsecured": {"policy": "None", "user": ""},
        "untrusted": {"name": "stranger"},
        "wrong-password": {"password": "wrong"},
        "unknown-user": {"user": "mallory"},
    }[case]
    if case == "untrusted" and not (server.clients / "stranger.der").exists():
        create_identity(server.clients, "stranger", application_uri="urn:test:stranger")
    asked = {"policy": "Basic256Sha256"} | more
    with pytest.raises(PeerError):
        connect(server, make, **asked).end()


def test_a_dead_process_is_shown_and_its_values_are_bad(server: Server, peer: Peer) -> None:
    server.there.dies("gate")
    server.until(lambda data: "GateDown" in data["alarms"])
    answer = peer.ask("read", ids=[nid("Mode"), nid("Processes.gate.State"), nid("DeviceHealth")])
    assert answer["status"][0].startswith("Bad")
    assert answer["values"][1:] == ["dead", 1]
    server.there.lives("gate")
    server.until(lambda data: "GateDown" not in data["alarms"])
    assert peer.ask("read", ids=[nid("Mode")]) == {"values": [4], "status": ["Good"]}


@pytest.mark.slow
def test_a_renewed_certificate_counts_without_a_restart(server: Server, tmp_path: Path) -> None:
    before = (server.root / "pki" / "appliance.der").read_bytes()
    create_identity(tmp_path, "appliance", application_uri="urn:sits-edge:t:appliance", hosts=("127.0.0.1",), days=10)
    for name in ("appliance.key.pem", "appliance.der"):  # the certificate last: it is what is looked at
        (tmp_path / name).replace(server.root / "pki" / name)
    server.until(lambda data: data["certificate_days"] == 9)
    server.looks(4)
    renewed = str(server.root / "pki" / "appliance.der")
    old = tmp_path / "old.der"
    old.write_bytes(before)
    with pytest.raises(PeerError):
        connect(server, *PEERS["asyncua-Aes256"], server=str(old)).end()
    connect(server, *PEERS["asyncua-Aes256"], server=renewed).end()
    server.until(lambda data: "CertificateExpiring" in data["alarms"])


@pytest.mark.slow
def test_alarms_outlive_a_restart_of_the_server(server: Server) -> None:
    server.there.alarm("security-incident", "proof-forged: pairing")
    server.there.says("gate", incident="security incident: proof-forged")
    server.until(lambda data: "SecurityIncident" in data["unacknowledged"])
    assert server.stop() == 0
    server.process = server.start()
    server.ready()
    data = server.until(lambda data: data["looks"] > 1)
    assert "SecurityIncident" in data["alarms"]
    assert "SecurityIncident" in data["unacknowledged"]
    snapshot = read_snapshot(server.root / "run", "server")
    assert snapshot is not None
    assert os.getpriority(os.PRIO_PROCESS, snapshot.pid) == max(NICE, os.getpriority(os.PRIO_PROCESS, 0))
    assert Path(f"/proc/{snapshot.pid}/oom_score_adj").read_text().strip() == str(OOM_SCORE_ADJ)


def test_a_command_that_is_not_applied(server: Server) -> None:
    server.there.alarm("not-applied", "applied sequence 3, AUTO True", "sequence 9 applied in AUTO")
    server.there.command(state=ReadBack.NOT_APPLIED)
    server.until(lambda data: "NotApplied" in data["alarms"])
    server.there.command()
    server.until(lambda data: "NotApplied" not in data["alarms"])
