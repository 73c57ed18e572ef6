"""BLS12-381 as a property of the bundle: the loop proves on it, the gate demands it, mixtures are refused by name."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.command import Accepted, CommandError, GateState, OpenEpoch, ProofKind, Refused, judge, sign_command
from attest.command import Mode as GateMode
from attest.proof import Curve, NativeVerifier, PyEccVerifier, key_hash
from attest.proof.circuit import curve_of, on_curve
from sitsedge.compiler import build
from sitsedge.modules import Bundle, PublisherTrust, read_bundle
from tests.sitsedge.conftest import EXAMPLE
from tests.sitsedge.loop.test_pipeline import Rig

FRAME_BYTES_MAX = 1500 - 42
"""One Ethernet frame without IP and UDP headers."""


@pytest.fixture(scope="module")
def bls_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The rolling-mill module with its proofs on BLS12-381."""
    key = Ed25519PrivateKey.generate()
    out = tmp_path_factory.mktemp("module") / "bundle"
    sources = (EXAMPLE / name for name in ("model.onnx", "calibration.csv", "limits.yaml"))
    build(*sources, out, signer=key, name="mill", curve=Curve.BLS12_381)
    return read_bundle(out, PublisherTrust((key.public_key(),)))


def patient(mill: Path, bundle: Bundle) -> Rig:
    """Ages are not what these tests are about, and a busy machine must not fail them."""
    rig = Rig(mill, bundle)
    ages = dict.fromkeys(("source_age_ms_max", "decision_age_ms_max", "decide_ms_max"), 60000)
    rig.rules = replace(rig.rules, **ages)
    return rig


@pytest.fixture
def rig(mill: Path, bls_bundle: Bundle) -> Rig:
    return patient(mill, bls_bundle)


def test_the_bundle_says_its_curve_everywhere(bls_bundle: Bundle, mill_bundle: Bundle) -> None:
    assert (bls_bundle.config.proof.curve, bls_bundle.config.proof.kind) == ("bls12-381", ProofKind.GROTH16_BLS12_381)
    for data in (bls_bundle.circuit, bls_bundle.proving_key, bls_bundle.verification_key):
        assert data[8] == Curve.BLS12_381
    assert curve_of(mill_bundle.circuit) is Curve.BN254
    assert on_curve(mill_bundle.circuit, Curve.BLS12_381) == bls_bundle.circuit
    assert bls_bundle.config.proof.constraints == mill_bundle.config.proof.constraints


def test_the_gate_accepts_the_loops_command_and_it_fits_one_frame(rig: Rig, bls_bundle: Bundle) -> None:
    assert rig.rules.proof_kind is ProofKind.GROTH16_BLS12_381
    decision = rig.run(rig.frame())
    verdict = rig.judge(decision.data, GateState(1))
    assert isinstance(verdict, Accepted), verdict
    assert verdict.proof_verified
    command = verdict.parsed.command
    assert (command.proof_kind, len(command.proof)) == (ProofKind.GROTH16_BLS12_381, 192)
    assert len(decision.data) <= FRAME_BYTES_MAX
    key = bls_bundle.verification_key
    for engine in (NativeVerifier, PyEccVerifier):
        engine(key, vk_sha256=key_hash(key)).verify(
            command.inputs, command.outputs, command.header.ctx(), command.proof
        )


def judged(rig: Rig, data: bytes, bundle: Bundle) -> Accepted | Refused:
    """By the rig's rules, with the key of ``bundle``."""
    opened = OpenEpoch(1, rig.epoch.device_id, rig.key.public, rig.bundle.digest, bytes(32), rig.epoch.expires_ns)
    key = bundle.verification_key
    verifier = NativeVerifier(key, vk_sha256=key_hash(key))
    return judge(data, rig.rules, GateState(1), opened, time.time_ns(), gate_mode=GateMode.AUTO, verifier=verifier)


@pytest.mark.parametrize("gate_curve", list(Curve), ids=[curve.text for curve in Curve])
def test_a_proof_of_the_other_kind_is_refused(
    mill: Path, mill_bundle: Bundle, bls_bundle: Bundle, gate_curve: Curve
) -> None:
    """A genuine proof of the right model on the other curve: not what this bundle's rules name."""
    own, other = (mill_bundle, bls_bundle) if gate_curve is Curve.BN254 else (bls_bundle, mill_bundle)
    gate, loop = patient(mill, own), patient(mill, other)
    loop.key = gate.key
    loop.epoch = replace(loop.epoch, key=gate.key, module_digest=own.digest)
    verdict = judged(gate, loop.run(loop.frame()).data, own)
    assert isinstance(verdict, Refused)
    assert (verdict.code, verdict.expected) == ("proof-kind", own.config.proof.kind.name)


def test_a_proof_under_the_name_of_the_other_kind_is_malformed(rig: Rig) -> None:
    """192 bytes called BN254 are malformed; 128 bytes called BLS12-381 too: the kind fixes the length."""
    parsed = rig.judge(rig.run(rig.frame()).data, GateState(1))
    assert isinstance(parsed, Accepted)
    command = parsed.parsed.command
    for kind, proof in (
        (ProofKind.GROTH16_BN254, command.proof),
        (ProofKind.GROTH16_BLS12_381, command.proof[:128]),
    ):
        with pytest.raises(CommandError) as caught:  # signing reads the command back as the gate would
            sign_command(replace(command, proof_kind=kind, proof=proof), rig.key)
        assert caught.value.code == "malformed"


def test_a_key_of_the_other_curve_at_the_gate_accepts_nothing(rig: Rig, mill_bundle: Bundle) -> None:
    verdict = judged(rig, rig.run(rig.frame()).data, mill_bundle)
    assert isinstance(verdict, Refused)
    assert verdict.code == "proof-point"
