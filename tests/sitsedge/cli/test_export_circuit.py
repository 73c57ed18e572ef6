"""``sitsctl proof export-circuit``: files for circom's tools, from a circuit file and from a bundle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from attest.proof import Curve
from attest.proof.r1cs import write_r1cs, write_wtns
from attest.proof.witness import witness
from sitsedge.cli.main import app
from sitsedge.modules import oci
from sitsedge.modules.bundle import write_bundle
from tests.attest.proof.support import CTX, model, toy_circuit
from tests.attest.proof.trapdoor import Trapdoor
from tests.sitsedge.modules import bundles

X = (3, -5)


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["proof", "export-circuit", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def circuit_file(tmp_path: Path) -> Path:
    path = tmp_path / "toy.circuit"
    path.write_bytes(toy_circuit().encode())
    return path


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[Path, Path]:
    """A signed bundle whose circuit and key are real; its publisher's key file."""
    signer = Ed25519PrivateKey.generate()
    parts = bundles.layers()
    parts |= {"circuit": toy_circuit().encode(), "verification_key": Trapdoor.make(Curve.BN254, 4).key().encode()}
    assert set(parts) == set(oci.LAYERS)
    write_bundle(tmp_path / "bundle", bundles.config(parts), parts, signer=signer)
    trust = tmp_path / "publisher.pub"
    trust.write_bytes(signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return tmp_path / "bundle", trust


@pytest.mark.parametrize("curve", list(Curve), ids=[curve.text for curve in Curve])
def test_a_circuit_and_a_witness_on_either_curve(circuit_file: Path, tmp_path: Path, curve: Curve) -> None:
    out = tmp_path / "out"
    code, text = run(circuit_file, out, "--curve", curve.text, "--inputs=3,-5", "--ctx", CTX.hex())
    assert code == 0, text
    assert curve.text in text
    circuit = toy_circuit(curve)
    assert {path.name for path in out.iterdir()} == {"circuit.r1cs", "circuit.sym", "witness.wtns", "public.json"}
    assert (out / "circuit.r1cs").read_bytes() == write_r1cs(circuit)
    assert (out / "witness.wtns").read_bytes() == write_wtns(circuit, witness(circuit, X, CTX))
    r = curve.parameters.r
    public = [str(v % r) for v in (*X, model(X), int.from_bytes(CTX, "big"))]
    assert json.loads((out / "public.json").read_text()) == public


def test_a_bundle_gives_its_key_too(bundle: tuple[Path, Path], tmp_path: Path) -> None:
    folder, trust = bundle
    code, text = run(folder, tmp_path / "out", "--trust", trust)
    assert code == 0, text
    assert json.loads((tmp_path / "out" / "verification_key.json").read_text())["nPublic"] == 4
    code, _ = run(folder, tmp_path / "moved", "--trust", trust, "--curve", "bls12-381")
    assert code == 0
    assert not (tmp_path / "moved" / "verification_key.json").exists()  # the key is the other curve's


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--inputs=a"], 2, "--inputs a"),
        (["--inputs=1,,2"], 2, "--inputs"),
        (["--ctx", "00"], 2, "--ctx 00"),
        (["--curve", "bn128"], 2, "curve-unknown"),
        (["--inputs=1"], 3, "input-count"),
        (["--inputs=1000,0"], 3, "witness-range"),
    ],
)
def test_wrong_options(circuit_file: Path, tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    found, text = run(circuit_file, tmp_path / "out", *arguments)
    assert (found, words in text) == (code, True), text
    assert not (tmp_path / "out").exists()


def test_wrong_sources(bundle: tuple[Path, Path], tmp_path: Path) -> None:
    folder, _ = bundle
    assert run(folder, tmp_path / "out")[0] == 2
    assert run(tmp_path / "nothing", tmp_path / "out")[0] == 3
    other = tmp_path / "other"
    other.write_bytes(b"SITSR1C1")
    code, text = run(other, tmp_path / "out")
    assert (code, "circuit-format" in text) == (3, True)
