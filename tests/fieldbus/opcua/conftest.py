"""Certificates of a small plant and a PLC server process, for the OPC UA tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fieldbus.opcua import Identity, SecureClient, TrustList, create_identity

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("plc_server.py")
NAMESPACE = "urn:tests:mill"
TAGS = {
    "gap": "Mill/Request/Gap",
    "number": "Mill/Request/Number",
    "speed": "Mill/Request/Speed",
    "locked": "Mill/Locked",
    "broken": "Mill/Broken",
    "profile": "Mill/Profile",
    "counter": "Mill/Counter",
}


@dataclass
class Plc:
    """The server process of ``plc_server.py``; ``stop`` and ``start`` as often as a test likes."""

    folder: Path
    port: int
    process: subprocess.Popen[str] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"opc.tcp://127.0.0.1:{self.port}/"

    def start(self, *, padding: int = 0, drop_speed: bool = False) -> None:
        assert self.process is None
        extra = ["--drop-speed"] if drop_speed else []
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(self.port), str(self.folder), str(padding), *extra],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def stop(self, *, kill: bool = False) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if kill:
            process.kill()
        process.stdin.close()
        process.wait(timeout=20)
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def plant(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Identities: plc, gate (may write), bridge (may read), stranger (not trusted)."""
    folder = tmp_path_factory.mktemp("plant")
    identities = {
        name: create_identity(folder, name, application_uri=f"urn:tests:{name}", hosts=["127.0.0.1", "localhost"])
        for name in ("plc", "gate", "bridge", "stranger")
    }
    for name in ("gate", "bridge"):
        TrustList(folder / "trusted").add(identities[name].certificate)
    TrustList(folder / "writers").add(identities["gate"].certificate)
    return identities


@pytest.fixture
def folder(plant: dict[str, Identity], tmp_path: Path) -> Path:
    """A copy of the plant's folder that a test may change."""
    copy = tmp_path / "plant"
    shutil.copytree(plant["plc"].certificate_path.parent, copy)
    return copy


@pytest.fixture(scope="session")
def shared_plc(plant: dict[str, Identity]) -> Iterator[Plc]:
    """A server that tests only use, for those that need not restart it."""
    plc = Plc(plant["plc"].certificate_path.parent, free_port())
    plc.start()
    yield plc
    plc.stop()


@pytest.fixture
def own_plc(folder: Path) -> Iterator[Plc]:
    """A server of the test's own; not started."""
    plc = Plc(folder, free_port())
    yield plc
    plc.stop(kill=True)


MakeClient = Callable[..., SecureClient]


@pytest.fixture
def make_client(plant: dict[str, Identity]) -> MakeClient:
    """A client of ``plc``; keyword arguments replace those of SecureClient."""

    def make(plc: Plc, who: str = "gate", **changes: object) -> SecureClient:
        arguments: dict[str, object] = {
            "identity": plant[who],
            "server_certificate": plc.folder / "plc.der",
            "namespace_uri": NAMESPACE,
            "tags": TAGS,
            "deadline_s": 5.0,
        }
        return SecureClient(plc.url, **(arguments | changes))  # type: ignore[arg-type]

    return make
