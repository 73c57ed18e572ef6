"""Starts the source server and the bridge as the processes they are, and reads what the bridge sends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fieldbus.net import UdpReceiver
from fieldbus.uadp import DataSetSample, LayoutReader
from sitsedge.bridge.config import BridgeConfig
from sitsedge.config import load_model
from tests.sitsedge.bridge.source_server import NAMESPACE

ROOT = Path(__file__).resolve().parents[3]
TAGS = ("a", "b", "c")
WAIT_S = 30.0


def free_port() -> int:
    """A TCP port nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Source:
    """The source server's process."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.process: subprocess.Popen[str] | None = None

    def start(self, tags: tuple[str, ...] = TAGS) -> None:
        script = Path(__file__).with_name("source_server.py")
        command = [sys.executable, str(script), str(self.port), str(self.folder), *tags]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._expect("ready")

    def write(self, t_source_ns: int | None, **values: object) -> None:
        """Write Good values, or ``(value, status)`` pairs, at one source time."""
        rows = {tag: [*(v if isinstance(v, tuple) else (v, 0)), t_source_ns] for tag, v in values.items()}
        self.write_rows(rows)

    def write_rows(self, rows: dict[str, list[object]]) -> None:
        """Write ``tag: [value, status, t_source_ns]``."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(rows) + "\n")
        self.process.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def stop(self, *, kill: bool = False) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if kill:
            process.kill()
        process.communicate(timeout=WAIT_S)


def server_station(port: int, tags: tuple[str, ...] = TAGS) -> dict[str, Any]:
    """The source server as a station."""
    return {
        "name": "server",
        "protocol": "opcua",
        "endpoint": f"opc.tcp://127.0.0.1:{port}/",
        "namespace": NAMESPACE,
        "server_certificate": "source.der",
        "publishing_interval_ms": 10,
        "reconnect_ms_max": 200,
        "deadline_ms": 5000,
        "tags": [{"name": tag, "path": f"Plant/{tag}", "unit": "1"} for tag in tags],
    }


class Bridge:
    """The bridge's process, its configuration and what it sends."""

    def __init__(self, folder: Path, *stations: dict[str, Any]) -> None:
        """The first of ``stations`` is the trigger."""
        self.folder = folder
        self.receiver = UdpReceiver("127.0.0.1", 0)
        self.process: subprocess.Popen[str] | None = None
        self._reader: LayoutReader | None = None
        self.config: dict[str, Any] = {
            "version": 2,
            "stations": list(stations),
            "trigger": stations[0]["name"],
            "order": [tag["name"] for station in stations for tag in station["tags"]],
            "certificate": "bridge.der",
            "private_key": "bridge.key.pem",
            "source_age_ms_max": 5000,
            "poll_ms": 10,
            "send_to": {"port": self.receiver.address[1]},
            "run_dir": "run",
        }

    @property
    def station(self) -> dict[str, Any]:
        """The configuration of the one server."""
        station = self.config["stations"][0]
        assert isinstance(station, dict)
        return station

    def change(self, change: dict[str, object]) -> None:
        """Change keys of the file, or those of the server if they are there."""
        for key, value in change.items():
            of_server = key in ("namespace", "server_certificate", "trigger")
            (self.station if of_server else self.config)[key] = value

    def write_config(self) -> Path:
        (self.folder / "run").mkdir(exist_ok=True)
        path = self.folder / "bridge.json"
        path.write_text(json.dumps(self.config, indent=1), encoding="utf-8")
        return path

    def start(self) -> None:
        path = self.write_config()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sitsedge.bridge.main", "--config", str(path)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )

    def reader(self) -> LayoutReader:
        """Made once: on reading, the file is composed and checked."""
        if self._reader is None:
            self._reader = LayoutReader(load_model(self.folder / "bridge.json", BridgeConfig).layout())
        return self._reader

    def snapshot(self) -> dict[str, Any]:
        try:
            body = json.loads((self.folder / "run" / "bridge.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"state": "none"}
        assert isinstance(body, dict)
        return body

    def wait(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first snapshot of this process for which ``what`` holds."""
        end = time.monotonic() + WAIT_S
        assert self.process is not None
        while time.monotonic() < end:
            snapshot = self.snapshot()
            if len(snapshot.get("stations", ())) == 1:
                snapshot = {**snapshot["stations"][0], **snapshot}
            if snapshot.get("pid") == self.process.pid and what(snapshot):
                return snapshot
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)
        raise AssertionError(f"not reached: {self.snapshot()}")

    def running(self) -> dict[str, Any]:
        return self.wait(lambda s: s["state"] == "running")

    def samples(self, count: int) -> list[DataSetSample]:
        """The next ``count`` samples."""
        reader = self.reader()
        frames = [self.receiver.receive(WAIT_S) for _ in range(count)]
        return [reader.read(frame.data) for frame in frames if frame is not None]

    def quiet(self) -> bool:
        """Whether no datagram is waiting."""
        return self.receiver.receive(0.0) is None

    def stop(self) -> tuple[int, str]:
        """SIGTERM; exit code and what was written to stderr."""
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_S)
        return process.returncode, errors

    def ended(self) -> tuple[int, str]:
        """Exit code and stderr of a process that ends by itself."""
        process, self.process = self.process, None
        assert process is not None
        _, errors = process.communicate(timeout=WAIT_S)
        return process.returncode, errors

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate(timeout=WAIT_S)
        self.receiver.close()


MakeBridge = Callable[[Source], Bridge]
