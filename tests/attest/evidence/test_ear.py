"""Verdicts as EAT Attestation Results: what holds affirms, what fails contraindicates, a simulated TPM only warns."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.evidence.ear import SUBMODULE, VECTOR, attestation_result, sign_jwt
from attest.evidence.verify import CHECKS
from tests.attest.evidence.cases import CASES
from tests.attest.evidence.forge import NOW_NS, POLICY, POLICY_SIGNER, RECORD, Case, digest, signer

TIERS = {"affirming", "warning", "contraindicated"}


def result(case: Case) -> dict[str, Any]:
    return attestation_result(
        case.verdict(), case.evidence(), nonce=case.expected_nonce, policy=case.policy, build="test", now_ns=NOW_NS
    )


def appraisal(case: Case) -> dict[str, Any]:
    made: dict[str, Any] = result(case)["submods"][SUBMODULE]
    return made


def test_a_simulated_tpm_warns() -> None:
    made = appraisal(Case())
    assert made["ear_status"] == "warning"
    assert made["ear_trustworthiness_vector"] == {
        "instance-identity": 2,
        "configuration": 2,
        "executables": 2,
        "hardware": 32,
    }
    assert made["ear_attester_claims"]["urn:sits:tpm-kind"] == "swtpm"


def test_a_hardware_tpm_affirms() -> None:
    record = replace(RECORD, tpm_kind="hardware")
    policy = replace(POLICY, tpm_kinds=("hardware",)).sign(POLICY_SIGNER)
    claims = {"tpm_kind": "hardware", "record_id": record.record_id}
    made = appraisal(Case(record=record.sign(POLICY_SIGNER), policy=policy, claims=claims))
    assert made["ear_status"] == "affirming"
    assert set(made["ear_trustworthiness_vector"].values()) == {2}


@pytest.mark.parametrize("name", [name for name, (_, failed) in CASES.items() if failed])
def test_what_does_not_hold_is_contraindicated_and_names_no_device(name: str) -> None:
    made = appraisal(CASES[name][0])
    assert made["ear_status"] == "contraindicated"
    assert "urn:sits:device-id" not in made["ear_attester_claims"]
    assert max(made["ear_trustworthiness_vector"].values()) in (0, 32, 96, 97, 99)
    failed = [check["name"] for check in made["ear_verifier_claims"]["urn:sits:checks"] if not check["ok"]]
    assert tuple(failed) == CASES[name][1]


def test_a_check_that_could_not_be_made_affirms_nothing() -> None:
    vector = appraisal(CASES["format-empty"][0])["ear_trustworthiness_vector"]
    assert vector["executables"] == vector["instance-identity"] == vector["hardware"] == 0


def test_every_check_speaks_for_a_claim_or_for_the_message_alone() -> None:
    spoken = [name for rules in VECTOR.values() for name, _ in rules]
    assert len(set(spoken)) == len(spoken)
    assert set(CHECKS) - set(spoken) == {"format", "nonce", "pcr-selection"}


def test_claims_of_the_message() -> None:
    made = result(Case())
    assert made["eat_profile"] == "tag:ietf.org,2026:rats/ear#04"
    assert made["iat"] == NOW_NS // 10**9
    assert base64.urlsafe_b64decode(made["eat_nonce"] + "=") == digest("nonce")
    assert made["ear_verifier_id"] == {"developer": "SITS Edge", "build": "test"}


def test_a_jwt_verifies_with_the_key_and_nothing_else() -> None:
    by = signer("verifier")
    token = sign_jwt(result(Case()), by)
    head, body, signature = token.split(".")

    def decode(part: str) -> bytes:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    assert json.loads(decode(head))["alg"] == "EdDSA"
    assert json.loads(decode(body)) == result(Case())
    Ed25519PublicKey.from_public_bytes(by.public).verify(decode(signature), f"{head}.{body}".encode())
