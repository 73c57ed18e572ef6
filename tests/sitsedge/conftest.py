"""Fixtures for the appliance's tests: a real module built once, and a deployment on ports of its own."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sitsedge.compiler import build
from sitsedge.modules import Bundle, PublisherTrust, read_bundle
from sitsedge.supervisor.keys import write_public

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "rolling-mill"


@pytest.fixture(scope="session")
def mill_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The rolling-mill module, built from its ONNX file: bundle folder, its publisher's public key."""
    key = Ed25519PrivateKey.generate()
    folder = tmp_path_factory.mktemp("module")
    out, public = folder / "bundle", folder / "publisher.pub"
    build(EXAMPLE / "model.onnx", EXAMPLE / "calibration.csv", EXAMPLE / "limits.yaml", out, signer=key, name="mill")
    write_public(key.public_key().public_bytes_raw(), public)
    return out, public


@pytest.fixture(scope="session")
def mill_bundle(mill_files: tuple[Path, Path]) -> Bundle:
    """The same module, read and verified."""
    out, public = mill_files
    return read_bundle(out, PublisherTrust.from_files([public]))


def free_port(kind: socket.SocketKind) -> int:
    """A port nobody listens on now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def mill(tmp_path: Path) -> Path:
    """A copy of the rolling-mill example on free ports; returns its deployment file."""
    return copy_mill(tmp_path / "mill")


def copy_mill(folder: Path) -> Path:
    """Copy the example into a new folder, with ports that are free now; its deployment file."""
    folder.mkdir()
    for name in ("model.onnx", "calibration.csv", "limits.yaml", "deployment.yaml", "gate.yaml"):
        shutil.copy(EXAMPLE / name, folder / name)
    replace(folder / "deployment.yaml", "port: 14840", f"port: {free_port(socket.SOCK_DGRAM)}")
    replace(folder / "gate.yaml", "127.0.0.1:14841", f"127.0.0.1:{free_port(socket.SOCK_STREAM)}")
    return folder / "deployment.yaml"


def replace(path: Path, old: str, new: str) -> None:
    """Replace text that must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
