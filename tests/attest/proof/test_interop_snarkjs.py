"""snarkjs accepts our proofs and keys; we accept those it made from our circuit. Both curves, in another process."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from attest.proof import Curve, Groth16Prover, NativeVerifier, ProofRefused, PyEccVerifier, key_hash, snarkjs
from attest.proof.keys import Proof, VerificationKey
from attest.proof.r1cs import write_r1cs, write_sym, write_wtns
from attest.proof.signals import to_signals
from attest.proof.witness import witness
from tests.attest.proof.bad_points import opposite_g1
from tests.attest.proof.support import CTX, Toy, model
from tests.support.snarkjs import Snarkjs, find_snarkjs

X = (3, -5)
Y = (model(X),)
NAMES = {Curve.BN254: "bn128", Curve.BLS12_381: "bls12381"}
POWER = 5
"""The toy's 20 rows and the 4 that snarkjs adds for public signals fit 2^5."""


@pytest.fixture(scope="module")
def peer() -> Snarkjs:
    return find_snarkjs()


def write_command(folder: Path, key: str, signals: list[int], proof: str, curve: Curve) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "verification_key.json").write_text(key, encoding="utf-8")
    (folder / "public.json").write_text(snarkjs.export_public(signals, curve=curve), encoding="utf-8")
    (folder / "proof.json").write_text(proof, encoding="utf-8")


def test_snarkjs_verifies_our_proof_under_our_key(
    peer: Snarkjs, toy: Toy, prover: Groth16Prover, tmp_path: Path
) -> None:
    proof = snarkjs.export_proof(prover.prove(X, CTX).proof, curve=toy.curve)
    key = snarkjs.export_verification_key(toy.verification_key)
    signals = to_signals(X, Y, CTX, n_public=4, curve=toy.curve)
    write_command(tmp_path, key, signals, proof, toy.curve)
    assert peer.verifies(tmp_path)
    signals[2] += 1
    write_command(tmp_path, key, signals, proof, toy.curve)
    assert not peer.verifies(tmp_path)


@dataclass(frozen=True, slots=True)
class Foreign:
    """What snarkjs made of our circuit and witness: texts in its layout."""

    curve: Curve
    key: str
    public: str
    proof: str


@pytest.fixture(scope="module")
def foreign(peer: Snarkjs, toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    """Our .r1cs and .wtns through snarkjs: its own phase 1, its set-up, its prover."""
    folder = tmp_path_factory.mktemp("foreign")
    r1cs, wtns = folder / "toy.r1cs", folder / "toy.wtns"
    r1cs.write_bytes(write_r1cs(toy.circuit))
    (folder / "toy.sym").write_text(write_sym(toy.circuit), encoding="utf-8")
    wtns.write_bytes(write_wtns(toy.circuit, witness(toy.circuit, X, CTX)))
    ptau = peer.powers_of_tau(NAMES[toy.curve], POWER, folder)
    zkey, key = peer.setup(r1cs, ptau, folder)
    assert "WITNESS IS CORRECT" in peer.run("wtns", "check", r1cs, wtns, cwd=folder)
    peer.run("groth16", "prove", zkey, wtns, "proof.json", "public.json", cwd=folder)
    texts = [path.read_text(encoding="utf-8") for path in (key, folder / "public.json", folder / "proof.json")]
    return Foreign(toy.curve, *texts)


@pytest.mark.parametrize("engine", [NativeVerifier, PyEccVerifier])
def test_we_verify_a_snarkjs_proof_of_our_circuit_and_refuse_it_altered(
    foreign: Foreign, engine: type[NativeVerifier] | type[PyEccVerifier]
) -> None:
    key = snarkjs.import_verification_key(foreign.key, fixed_gamma=True)
    curve, proof = snarkjs.import_proof(foreign.proof)
    signals = snarkjs.import_public(foreign.public, curve=curve)
    assert curve is foreign.curve
    assert signals == to_signals(X, Y, CTX, n_public=4, curve=curve)
    verifier = engine(key, vk_sha256=key_hash(key), fixed_gamma=True)
    verifier.verify_signals(signals, proof)
    verifier.verify(X, Y, CTX, proof)

    decoded = Proof.decode(proof, curve)
    altered = replace(decoded, c=opposite_g1(curve, decoded.c)).encode()
    wrong_output = [*signals[:2], signals[2] + 1, signals[3]]
    for refused_signals, refused_proof in ((signals, altered), (wrong_output, proof), (signals[::-1], proof)):
        with pytest.raises(ProofRefused) as caught:
            verifier.verify_signals(refused_signals, refused_proof)
        assert caught.value.code == "proof-pairing"


def test_a_snarkjs_key_is_no_product_key(foreign: Foreign) -> None:
    """Its γ is the generator: only interoperability takes it."""
    with pytest.raises(ProofRefused) as caught:
        snarkjs.import_verification_key(foreign.key)
    assert caught.value.code == "key-lint"
    key = VerificationKey.decode(snarkjs.import_verification_key(foreign.key, fixed_gamma=True), fixed_gamma=True)
    assert key.gamma == key.curve.parameters.g2_generator


def test_keys_and_proofs_of_snarkjs_come_back_as_it_wrote_them(foreign: Foreign) -> None:
    """Import, then export: equal but for the pairing it caches."""
    key = snarkjs.import_verification_key(foreign.key, fixed_gamma=True)
    written = json.loads(snarkjs.export_verification_key(key, fixed_gamma=True))
    original = json.loads(foreign.key)
    del original["vk_alphabeta_12"]
    assert written == original
    curve, proof = snarkjs.import_proof(foreign.proof)
    assert json.loads(snarkjs.export_proof(proof, curve=curve)) == json.loads(foreign.proof)
