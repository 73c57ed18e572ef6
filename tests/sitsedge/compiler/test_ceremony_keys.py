"""``module build --keys``: the bundle's keys are the ceremony's, and its config says whose."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from attest.proof import Curve, ceremony
from attest.proof.ceremony import CeremonyError
from attest.proof.ceremony_folder import CeremonyFolder
from sitsedge.cli.main import app
from sitsedge.compiler import build, compile_model
from sitsedge.modules import PublisherTrust, read_bundle
from sitsedge.modules.profile import require_ceremony_keys
from tests.attest.proof.support import toy_circuit
from tests.sitsedge.compiler.nets import random_onnx

LIMITS = """version: 1
inputs:
  - {name: a, unit: mm, scale: 0.1, range: [-10, 10]}
outputs:
  - {name: y, unit: mm, scale: 0.1, limits: [-90, 90]}
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("tiny")
    model = random_onnx(4, (1, 2, 1), mean=[0], deviation=[4])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "limits.yaml").write_text(LIMITS, encoding="utf-8")
    (folder / "data.csv").write_text("a\n" + "\n".join(f"{v / 10}" for v in range(-100, 101)), encoding="utf-8")
    return folder / "model.onnx", folder / "data.csv", folder / "limits.yaml"


@pytest.fixture(scope="module")
def phase1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("phase1") / "pot"
    ceremony.new_phase1(path, curve=Curve.BN254, power=8)
    ceremony.contribute(path, name="ann")
    return path


@pytest.fixture(scope="module")
def folder(sources: tuple[Path, Path, Path], phase1: Path, tmp_path_factory: pytest.TempPathFactory) -> CeremonyFolder:
    circuit = compile_model(*sources).circuit
    made = CeremonyFolder.create(tmp_path_factory.mktemp("c") / "ceremony", circuit=circuit, phase1=phase1)
    for name in ("vendor", "operator", "auditor"):
        ceremony.contribute(made.transcript, name=name)
    return made


def test_the_bundle_has_the_ceremony_s_keys(
    sources: tuple[Path, Path, Path], folder: CeremonyFolder, tmp_path: Path
) -> None:
    signer = Ed25519PrivateKey.generate()
    build(*sources, tmp_path / "bundle", signer=signer, ceremony=folder)
    bundle = read_bundle(tmp_path / "bundle", PublisherTrust((signer.public_key(),)))
    keys = folder.verify()
    assert (bundle.config.proof.contributors, bundle.config.proof.development) == (3, False)
    assert bundle.verification_key == keys.verification_key
    assert bundle.proving_key == keys.proving_key
    proof = bundle.report["proof"]
    assert (proof["development_key"], proof["contributors"]) == (False, 3)
    assert [(c["name"], c["hash"]) for c in proof["contributions"]] == [
        (c.name, c.hash.hex()) for c in keys.contributors
    ]
    assert proof["phase1"]["sha256"] == keys.phase1.sha256.hex()
    require_ceremony_keys("production", bundle.config)


def test_a_ceremony_of_another_circuit_gives_no_bundle(
    sources: tuple[Path, Path, Path], phase1: Path, tmp_path: Path
) -> None:
    other = CeremonyFolder.create(tmp_path / "other", circuit=toy_circuit().encode(), phase1=phase1)
    ceremony.contribute(other.transcript, name="vendor")
    with pytest.raises(CeremonyError) as refused:
        build(*sources, tmp_path / "bundle", signer=Ed25519PrivateKey.generate(), ceremony=other)
    assert refused.value.code == "setup-circuit"
    assert not (tmp_path / "bundle").exists()


def test_a_ceremony_without_contributors_gives_no_bundle(
    sources: tuple[Path, Path, Path], phase1: Path, tmp_path: Path
) -> None:
    circuit = compile_model(*sources).circuit
    empty = CeremonyFolder.create(tmp_path / "empty", circuit=circuit, phase1=phase1)
    with pytest.raises(CeremonyError) as refused:
        build(*sources, tmp_path / "bundle", signer=Ed25519PrivateKey.generate(), ceremony=empty)
    assert refused.value.code == "setup-empty"
    assert not (tmp_path / "bundle").exists()


def test_the_command_says_whose_keys(sources: tuple[Path, Path, Path], folder: CeremonyFolder, tmp_path: Path) -> None:
    model, data, limits = map(str, sources)
    build_words = ["module", "build", model, "--calibration", data, "--limits", limits]
    build_words += ["--key", str(tmp_path / "publisher.key")]
    done = CliRunner().invoke(app, [*build_words, "--out", str(tmp_path / "a"), "--keys", str(folder.path)])
    assert (done.exit_code, "from a ceremony of 3 contributors" in done.stdout) == (0, True), done.output
    done = CliRunner().invoke(app, [*build_words, "--out", str(tmp_path / "b")])
    assert (done.exit_code, "development: nobody else contributed" in done.stdout) == (0, True), done.output
    done = CliRunner().invoke(app, [*build_words, "--out", str(tmp_path / "c"), "--keys", str(tmp_path)])
    assert (done.exit_code, "a ceremony folder" in done.stderr) == (2, True)
