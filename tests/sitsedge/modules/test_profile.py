"""A production profile has no development key anywhere: supervisor, gate and loop each refuse it by themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sitsedge.config import load_deployment
from sitsedge.errors import SitsError
from sitsedge.gate.main import GateProcess
from sitsedge.modules import ModuleStore, PublisherTrust, write_bundle
from sitsedge.modules.profile import require_ceremony_keys
from sitsedge.supervisor.prepare import ensure_module
from sitsedge.supervisor.state import StateDir
from tests.sitsedge.modules import bundles


@pytest.fixture
def production(mill: Path) -> Path:
    """The example's deployment file as a production one."""
    text = mill.read_text().replace("profile: development", "profile: production")
    text = text.replace("  fields:", "  unsecured_because: a test has no network\n  fields:")
    mill.write_text(text.replace("allow_simulated: true", "allow_simulated: false").split("simulation:")[0])
    return mill


@pytest.fixture
def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def state(tmp_path: Path, signer: Ed25519PrivateKey) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.create()
    public = signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (made.trust / "publisher.pub").write_bytes(public)
    return made


def bundle(path: Path, signer: Ed25519PrivateKey, contributors: int) -> Path:
    parts = bundles.layers()
    config = bundles.config(parts, proof__contributors=contributors, proof__development=contributors == 0)
    write_bundle(path, config, parts, signer=signer)
    return path


def store(state: StateDir) -> ModuleStore:
    return ModuleStore(state.modules, PublisherTrust.from_files([state.trust / "publisher.pub"]))


def quiet(_: str) -> None:
    """What the supervisor says is of no interest here."""


def test_the_rule() -> None:
    parts = bundles.layers()
    development = bundles.config(parts)
    require_ceremony_keys("development", development)
    require_ceremony_keys("production", bundles.config(parts, proof__contributors=1, proof__development=False))
    with pytest.raises(SitsError) as refused:
        require_ceremony_keys("production", development)
    assert refused.value.code == "development-key"
    assert "module build --keys" in refused.value.hint


def test_the_supervisor_activates_no_development_key(
    production: Path, state: StateDir, signer: Ed25519PrivateKey, tmp_path: Path
) -> None:
    deployment = load_deployment(production)
    with pytest.raises(SitsError) as refused:
        ensure_module(deployment, production, state, say=quiet, bundle=bundle(tmp_path / "dev", signer, 0))
    assert refused.value.code == "development-key"
    assert store(state).active() is None
    made = ensure_module(deployment, production, state, say=quiet, bundle=bundle(tmp_path / "ceremony", signer, 2))
    assert store(state).active() == made.digest


def test_a_production_profile_builds_no_module(production: Path, state: StateDir) -> None:
    said: list[str] = []
    with pytest.raises(SitsError) as refused:
        ensure_module(load_deployment(production), production, state, say=said.append)
    assert refused.value.code == "development-key"
    assert said == []


@pytest.fixture
def active(state: StateDir, signer: Ed25519PrivateKey, tmp_path: Path) -> StateDir:
    """A development key got into the store some other way."""
    modules = store(state)
    modules.activate(modules.import_bundle(bundle(tmp_path / "dev", signer, 0)))
    return state


def test_the_gate_refuses_a_development_key(production: Path, active: StateDir) -> None:
    with pytest.raises(SitsError) as refused:
        GateProcess(production, active, "tpm2")
    assert refused.value.code == "development-key"


def test_the_loop_refuses_a_development_key(production: Path, active: StateDir) -> None:
    words = ["-m", "sitsedge.loop.main", "--config", str(production), "--state-dir", str(active.root)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "development-key" in done.stderr
