"""A sealed circuit's keys come from a ceremony like any other's, full-size coefficients and all."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest.proof import Curve, NativeVerifier, ceremony, key_hash
from attest.proof.ceremony_folder import CeremonyFolder
from attest.proof.sealed import Salt
from attest.proof.sealed.format import encode
from attest.proof.sealed.prover import SealedProver, verify_sealed
from tests.attest.proof.sealed.cases import CTX, SALT, X, model, sealed


@pytest.mark.parametrize("curve", [Curve.BN254, pytest.param(Curve.BLS12_381, marks=pytest.mark.slow)])
def test_sealed_proofs_under_keys_of_a_ceremony(curve: Curve, tmp_path: Path) -> None:
    circuit = encode(sealed(curve))
    ceremony.new_phase1(tmp_path / "phase1", curve=curve, power=ceremony.power_for(circuit))
    ceremony.contribute(tmp_path / "phase1", name="ann")
    folder = CeremonyFolder.create(tmp_path / "sealed", circuit=circuit, phase1=tmp_path / "phase1")
    ceremony.contribute(folder.transcript, name="auditor")
    keys = folder.verify(circuit)
    proof = SealedProver(circuit, keys.proving_key).prove(X, Salt(SALT), CTX)
    assert proof.outputs == (model(X),)
    verifier = NativeVerifier(keys.verification_key, vk_sha256=key_hash(keys.verification_key))
    verify_sealed(verifier, proof.commitment, proof.outputs, CTX, proof.proof)
