"""snarkjs layout: round trips, the layout itself, strict import."""

from __future__ import annotations

import json

import pytest

from attest.proof import Curve, Groth16Prover, ProofRefused, snarkjs
from attest.proof.bn254 import P, R
from attest.proof.errors import LayoutError
from tests.attest.proof.support import CTX, Toy

Json = dict[str, object]


@pytest.fixture(scope="module")
def proof(prover: Groth16Prover) -> bytes:
    return prover.prove((3, -5), CTX).proof


def test_proof_round_trips_and_has_the_layout(proof: bytes) -> None:
    text = snarkjs.export_proof(proof, curve=Curve.BN254)
    assert snarkjs.import_proof(text) == (Curve.BN254, proof)
    body = json.loads(text)
    assert (body["protocol"], body["curve"]) == ("groth16", "bn128")
    assert body["pi_a"][2] == body["pi_c"][2] == "1"
    assert body["pi_b"][2] == ["1", "0"]
    x, y = int(body["pi_a"][0]), int(body["pi_a"][1])
    assert (y * y - x**3 - 3) % P == 0


def test_public_signals_round_trip() -> None:
    signals = [0, 1, R - 5, int.from_bytes(CTX, "big")]
    assert snarkjs.import_public(snarkjs.export_public(signals, curve=Curve.BN254), curve=Curve.BN254) == signals


def test_verification_key_round_trips(toy: Toy) -> None:
    text = snarkjs.export_verification_key(toy.verification_key)
    assert snarkjs.import_verification_key(text) == toy.verification_key
    body = json.loads(text)
    assert body["nPublic"] == 4
    assert len(body["IC"]) == 5


@pytest.mark.parametrize("signal", [-1, R, R + 1])
def test_export_refuses_a_signal_outside_the_field(signal: int) -> None:
    with pytest.raises(ProofRefused):
        snarkjs.export_public([signal], curve=Curve.BN254)


@pytest.mark.parametrize(
    "text", ['["-1"]', f'["{R}"]', '["01"]', '["0x1"]', "[1]", '["1e3"]', "{}", "[", '["٣"]', '[""]']
)
def test_import_refuses_public_signals(text: str) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_public(text, curve=Curve.BN254)


def changed(text: str, **members: object) -> str:
    body = json.loads(text)
    body.update(members)
    return json.dumps({k: v for k, v in body.items() if v is not None})


@pytest.mark.parametrize(
    "members",
    [
        {"pi_a": None},
        {"pi_a": ["1", "2"]},
        {"pi_a": ["1", "3", "1"]},
        {"pi_a": ["1", "2", "0"]},
        {"pi_a": [str(1 + P), "2", "1"]},
        {"pi_b": [["1", "2"], ["3", "4"], ["1", "0"]]},
        {"pi_b": [["1", "2"], ["3", "4"]]},
        {"pi_b": [["1"], ["3", "4"], ["1", "0"]]},
        {"pi_c": "1"},
        {"protocol": "plonk"},
        {"curve": "bls12381"},
    ],
)
def test_import_refuses_a_proof(proof: bytes, members: Json) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_proof(changed(snarkjs.export_proof(proof, curve=Curve.BN254), **members))


@pytest.mark.parametrize(
    "members", [{"nPublic": 3}, {"nPublic": True}, {"nPublic": 10**9}, {"IC": []}, {"vk_beta_2": 1}]
)
def test_import_refuses_a_key(toy: Toy, members: Json) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_verification_key(changed(snarkjs.export_verification_key(toy.verification_key), **members))


def test_import_lints_a_key(toy: Toy) -> None:
    text = snarkjs.export_verification_key(toy.verification_key)
    forged = changed(text, vk_delta_2=json.loads(text)["vk_gamma_2"])
    with pytest.raises(ProofRefused) as caught:
        snarkjs.import_verification_key(forged)
    assert caught.value.code == "key-lint"


@pytest.mark.parametrize("text", ["", "[]", "[" * 100000, " " * (snarkjs.TEXT_CHARS_MAX + 1)])
def test_import_refuses_text(text: str) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_proof(text)
