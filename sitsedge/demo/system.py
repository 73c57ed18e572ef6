"""The live system that attacks run against: plant, gate and loop as deployed, with an attacker on both links."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from attest.command import CycleRefused, GateRules, parse_record
from attest.errors import AttestError
from attest.ledger import Ledger, RecordKind
from sitsedge.config.deployment import Deployment
from sitsedge.config.sources import UadpSource
from sitsedge.demo.relay import FrameRelay, GateRelay
from sitsedge.errors import SitsError
from sitsedge.gate.control import request_mode
from sitsedge.gate.link import GateLink, Message
from sitsedge.gate.rules import gate_rules
from sitsedge.loop.epoch import ledger_head
from sitsedge.modules import Bundle
from sitsedge.supervisor.bootline import BootVerdict
from sitsedge.supervisor.session import Session, SessionOptions
from sitsedge.supervisor.state import StateDir
from sitsedge.telemetry import read_snapshot

SETTLE_COMMANDS = 50
RECOVERY_COMMANDS = 20
RECOVERY_S = 30.0
APPROVERS = ("anna.example", "boris.example")
POLL_S = 0.05


class LiveSystem:
    """A deployed system in which loop and gate, and plant and loop, reach each other through relays."""

    def __init__(self, config: Path, state: StateDir, *, say: Callable[[str], None]) -> None:
        self.state = state
        self.scratch = state.run / "attack"
        relay_socket = state.run / "relay.sock"
        self._port = _free_udp_port()
        options = SessionOptions(gate_socket=relay_socket, publish_port=self._port)
        self.session = Session(config, state, options, say=say)
        self._relay_socket = relay_socket
        self.boot: BootVerdict | None = None

    def __enter__(self) -> LiveSystem:
        prepared = self.session.prepare()
        try:
            source = prepared.deployment.source
            if not isinstance(source, UadpSource):
                raise SitsError("demo-source", found=source.protocol, expected="the rolling-mill example")
            self.scratch.mkdir(exist_ok=True)
            self.relay = GateRelay(self._relay_socket, self.state.gate_socket)
            self.frames = FrameRelay(listen=(source.address, self._port), target=(source.address, source.port))
            self.boot = self.session.verify_boot()
            self.session.start()
            self.session.wait_for_commands(SETTLE_COMMANDS)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self.session.stop()
        for part in ("relay", "frames"):
            if hasattr(self, part):
                getattr(self, part).close()

    @property
    def deployment(self) -> Deployment:
        """The deployment file's content."""
        assert self.session.prepared is not None
        return self.session.prepared.deployment

    @property
    def bundle(self) -> Bundle:
        """The active module: an attacker on the device can read it."""
        assert self.session.prepared is not None
        return self.session.prepared.bundle

    @property
    def gate_rules(self) -> GateRules:
        """The rules the gate runs with: configuration is no secret."""
        assert self.session.prepared is not None
        return gate_rules(self.session.prepared.gate, self.deployment, self.bundle.config)

    @property
    def tcti(self) -> str:
        """The TPM."""
        assert self.session.prepared is not None
        assert self.session.prepared.tpm is not None
        return self.session.prepared.tpm.tcti

    @property
    def loop_pid(self) -> int:
        """The honest loop's process."""
        snapshot = self.session.loop_snapshot()
        assert snapshot is not None
        return snapshot.pid

    def send_raw(self, command: bytes) -> Message | None:
        """Send bytes as a command over a connection of the attacker's own."""
        link = GateLink(self.state.gate_socket)
        try:
            message = {"t": "command", "command": command, "sent_mono_ns": time.monotonic_ns()}
            return link.ask(message, answers=("receipt", "refused"))
        finally:
            link.close()

    def ledger_head(self, witnessed: int) -> Message:
        """Tree head of the device's ledger as it is now."""
        return ledger_head(self.state.device_ledger, witnessed)

    def ledger_size(self, name: str) -> int:
        """Records in one ledger now."""
        ledger = Ledger.open_readonly(self.state.ledger / name / "ledger.db")
        try:
            return ledger.size
        finally:
            ledger.close()

    def newest_evidence(self) -> bytes:
        """Evidence that opened an epoch, as the device keeps it on its disk."""
        ledger = Ledger.open_readonly(self.state.device_ledger)
        try:
            leaf = ledger.last(RecordKind.EVIDENCE)
        finally:
            ledger.close()
        if leaf is None:
            raise SitsError("demo-idle", found="no evidence in the ledger", expected="an epoch that was opened")
        return leaf.data

    def wait_device_refusal(self, code: str, since: int, *, timeout_s: float) -> tuple[str, str, bytes | None]:
        """Code, text and bytes of the loop's own refusal record with ``code``, appended after ``since``."""
        deadline = time.monotonic() + timeout_s
        other = "no-refusal"
        while time.monotonic() < deadline:
            ledger = Ledger.open_readonly(self.state.device_ledger)
            try:
                leaves = [leaf for leaf in ledger.iterate(since) if leaf.kind is RecordKind.CYCLE_REFUSED]
            finally:
                ledger.close()
            for leaf in leaves:
                record = parse_record(leaf.data).record
                assert isinstance(record, CycleRefused)
                other = record.code
                if record.code == code:
                    return record.code, record.found, leaf.data
            time.sleep(POLL_S)
        return other, "", None

    def recorded(self, name: str, data: bytes, *, timeout_s: float = 5.0) -> int | None:
        """Index of a record in one ledger, waiting for it to become durable."""
        deadline = time.monotonic() + timeout_s
        start = 0
        while True:
            ledger = Ledger.open_readonly(self.state.ledger / name / "ledger.db")
            try:
                for leaf in ledger.iterate(start):
                    start = leaf.index + 1
                    if leaf.data == data:
                        return leaf.index
            finally:
                ledger.close()
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_S)

    def gate_signed(self, record: bytes) -> bool:
        """Whether a refusal really is the gate's: its signature verifies with the gate's key."""
        assert self.session.prepared is not None
        try:
            parse_record(record).verify(self.session.prepared.gate_key.public)
        except AttestError:
            return False
        return True

    def approve_auto(self) -> None:
        """Two people approve AUTO again, if an incident stepped the mode down; the machine has to be attested first."""
        deadline = time.monotonic() + RECOVERY_S
        while True:
            answer = request_mode(self.state.gate_control, "AUTO", list(APPROVERS), "demonstration goes on")
            if answer["ok"] or answer["code"] != "mode-attestation" or time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
        if not answer["ok"]:
            snapshot = read_snapshot(self.state.run, "gate")
            raise SitsError("demo-mode", found=str(answer), expected="AUTO", hint=f"last seen: {snapshot}")

    def wait_recovered(self) -> bool:
        """Whether the honest loop is accepted again."""
        before = self.session.loop_snapshot()
        accepted = int(before.data.get("accepted", 0)) if before is not None else 0
        try:
            self.session.wait_for_commands(accepted + RECOVERY_COMMANDS, timeout_s=RECOVERY_S)
        except SitsError:
            return False
        return True


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
