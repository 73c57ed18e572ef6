"""A stand-in for the appliance's other processes: real ledgers with real signatures, and snapshots that stay fresh."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from attest.command import (
    Alarm,
    Command,
    CommandHeader,
    CycleRefused,
    EpochOpened,
    GateKey,
    Mode,
    ModeChange,
    ProofKind,
    ReadBack,
    Receipt,
    Record,
    Refusal,
    SessionKey,
    TimeQuality,
    sign_command,
    sign_record,
)
from attest.ledger import Ledger, RecordKind
from fieldbus.opcua import TrustList, create_identity
from sitsedge.telemetry import write_snapshot

MODULE, DEPLOYMENT = hashlib.sha256(b"module").digest(), hashlib.sha256(b"deployment").digest()
SCALES = (0.0005, 0.001)
BEAT_S = 0.4
HELD_S = 10.0


class StandIn:
    """``STATE`` of a deployment whose processes are this test: what they say is changed with ``says``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("pki", "run", "logs", "server", "ledger/gate", "ledger/device"):
            (root / name).mkdir(parents=True)
        self.gate_ledger = root / "ledger" / "gate" / "ledger.db"
        self.device_ledger = root / "ledger" / "device" / "ledger.db"
        self.gate_key = GateKey.create(root / "gate.key")
        self.session = SessionKey.generate()
        self.gate = Ledger.open(self.gate_ledger, origin="sits/t/gate/g", signer=self.gate_key)
        self.device = Ledger.open(self.device_ledger, origin="sits/t/device/d", signer=self.session)
        self.snapshots: dict[str, dict[str, Any]] = {}
        self.requests: list[dict[str, Any]] = []
        self.sequence = 0
        self._silent: set[str] = set()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._says_at_first()
        self._beat = threading.Thread(target=self._beating, daemon=True)
        self._control = threading.Thread(target=self._answering, daemon=True)

    def _says_at_first(self) -> None:
        self.says(
            "gate",
            mode="AUTO",
            epoch=1,
            accepted=0,
            refused={},
            alarms={},
            verify={"p50_ms": 1.2, "p99_ms": 2.0},
            write={"p50_ms": 0.4, "p99_ms": 0.6},
            plc_connected=True,
            auto_active=True,
            attestation_mode="tpm2",
            attestation={"phase": "attested", "reason": None, "tpm_kind": "swtpm", "expires_ns": 1},
            ceiling="AUTO",
            ceiling_reason=None,
            verified=True,
            verified_reason=None,
            proofs={"policy": "inline", "owed": 0, "oldest_age_ms": None, "received": 0, "hold": False, "late": 0},
        )
        self.says("sitsd", cycles=100, accepted=100, refused={}, superseded=0, kernel_dropped=0, mode="AUTO")

    def start(self) -> StandIn:
        """Begin to speak; and answer at the gate's control socket."""
        self._ready = threading.Event()
        self._beat.start()
        self._control.start()
        assert self._ready.wait(HELD_S)
        return self

    def stop(self) -> None:
        """Fall silent."""
        self._end.set()
        self._beat.join()
        self._control.join()
        self.gate.close()
        self.device.close()

    def says(self, name: str, **data: Any) -> None:
        """What a process says from now on, beside what it said before."""
        with self._lock:
            self.snapshots[name] = self.snapshots.get(name, {}) | data
            write_snapshot(self.root / "run", name, "running", self.snapshots[name])

    def dies(self, name: str) -> None:
        """Its last snapshot stays; nobody with its process identifier is there."""
        with self._lock:
            self._silent.add(name)
            path = self.root / "run" / f"{name}.json"
            body = json.loads(path.read_text()) | {"pid": 2**22 + 1}
            path.write_text(json.dumps(body))

    def lives(self, name: str) -> None:
        """It is back."""
        self._silent.discard(name)
        self.says(name)

    def _beating(self) -> None:
        while not self._end.wait(BEAT_S):
            with self._lock:
                for name, data in self.snapshots.items():
                    if name not in self._silent:
                        # a loop that gets frames counts them
                        data["cycles"] = data.get("cycles", 0) + (40 if name == "sitsd" else 0)
                        write_snapshot(self.root / "run", name, "running", data)

    def _answering(self) -> None:
        """The control socket as the gate has it: one line each way."""
        path = self.root / "run" / "gate-control.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(str(path))
            server.listen()
            server.settimeout(0.1)
            self._ready.set()
            while not self._end.is_set():
                try:
                    channel, _ = server.accept()
                except TimeoutError:
                    continue
                with channel, channel.makefile("rwb") as stream:
                    request = json.loads(stream.readline())
                    self.requests.append(request)
                    down = request["to"] in ("OFF", "SHADOW", "ADVISORY", "SUPERVISED")
                    answer = {"ok": down, "from": "AUTO", "to": request["to"], "code": "mode-up", "expected": "lower"}
                    stream.write(json.dumps(answer).encode() + b"\n")

    # --- records -------------------------------------------------------------------------------------------------

    def record(self, record: Record) -> int:
        """Into the gate's ledger, signed by the gate."""
        index = self.gate.append(RecordKind(record.KIND), sign_record(record, self.gate_key))
        self.gate.commit()
        return index

    def cycle_refused(self, code: str, found: str, expected: str) -> None:
        """Into the device's ledger."""
        record = CycleRefused("d", 1, 0, code, found, expected, 1, time.time_ns())
        self.device.append(RecordKind.CYCLE_REFUSED, sign_record(record, self.session))
        self.device.commit()

    def epoch(self) -> int:
        now = time.time_ns()
        return self.record(
            EpochOpened(
                "g", "d", 1, bytes(32), b"nonce", self.session.public, MODULE, DEPLOYMENT, bytes(32), b"", b"", b"",
                now, now + 10**12, b"\0\x0b" + bytes(32), "swtpm", "mill-boot v1", 1, None,
            )
        )  # fmt: skip

    def command(self, outputs: tuple[int, int] = (100, -200), state: ReadBack = ReadBack.OK) -> tuple[int, bytes]:
        """An accepted command with its receipt: its index in the gate's ledger, and its bytes."""
        self.sequence += 1
        now = time.time_ns()
        header = CommandHeader(1, "d", "g", 1, self.sequence, now, now, MODULE, DEPLOYMENT, Mode.AUTO)
        data = sign_command(
            Command(header, (1, 2, 3), outputs, ProofKind.GROTH16_BN254, bytes(128), TimeQuality.NTP), self.session
        )
        index = self.gate.append(RecordKind.COMMAND, data)
        digest = hashlib.sha256(data).digest()
        receipt = Receipt("g", 1, self.sequence, digest, outputs, outputs, outputs, state, True, now, now, now)
        self.record(receipt)
        return index, data

    def refusal(self, code: str = "replay") -> int:
        return self.record(Refusal("g", 1, 7, code, 7, "sequence 7", "above 7", bytes(32), b"", time.time_ns()))

    def alarm(self, code: str, found: str = "found", expected: str = "expected") -> int:
        return self.record(Alarm("g", 1, 7, code, found, expected, time.time_ns()))

    def mode(self, old: Mode, new: Mode) -> int:
        return self.record(ModeChange("g", old, new, ("anna", "boris"), "by hand", time.time_ns()))

    # --- the server's side ---------------------------------------------------------------------------------------

    def server_config(self, port: int, **more: Any) -> Path:
        """The server's file, with an application certificate made for it."""
        pki = self.root / "pki"
        create_identity(pki, "appliance", application_uri="urn:sits-edge:t:appliance", hosts=("127.0.0.1",))
        limits = ((-0.33, 0.33), (-0.85, 0.85))
        config: dict[str, Any] = {
            "version": 1, "deployment": "t", "profile": "development", "device_id": "d", "gate_id": "g",
            "period_ms": 10.0, "has_plc": True, "curve": "bn254",
            "endpoint": f"opc.tcp://127.0.0.1:{port}/sits", "bind": "127.0.0.1", "port": port, "hosts": ["127.0.0.1"],
            "policies": ["Basic256Sha256", "Aes256_Sha256_RsaPss"], "limits": {},
            "certificate": "pki/appliance.der", "private_key": "pki/appliance.key.pem",
            "trusted": "pki/appliance-trusted", "users": "server/users.json",
            "device": {"manufacturer": "SITS Edge", "model": "test"}, "machine": None,
            "inputs": [],
            "outputs": [
                {"name": name, "unit": unit, "scale": scale, "low": low, "high": high}
                for name, unit, scale, (low, high) in zip(
                    ("gap_correction", "speed_trim"), ("mm", "%"), SCALES, limits, strict=True
                )
            ],
            "processes": ["sitsd", "gate"], "certificates": {"appliance": "pki/appliance.der"},
            "gate_ledger": "ledger/gate/ledger.db", "device_ledger": "ledger/device/ledger.db",
            "gate_control": "run/gate-control.sock", "state_file": "server/memory.json",
            "run_dir": "run", "log_dir": "logs",
        }  # fmt: skip
        path = self.root / "server-config.json"
        path.write_text(json.dumps(config | more))
        return path

    def client(self, name: str) -> Path:
        """A trusted application; its folder holds ``name.der`` and ``name.key.pem``."""
        folder = self.root / "clients"
        identity = create_identity(folder, name, application_uri=f"urn:test:{name}")
        TrustList(self.root / "pki" / "appliance-trusted").add(identity.certificate)
        return folder


def own_pid() -> int:
    """Whose process identifier the snapshots carry."""
    return os.getpid()
