"""The certificate of a command key: made by a real simulated TPM, judged by the verifier without one."""

from __future__ import annotations

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric import ec

from attest import structures
from attest.evidence.claims import parse_evidence, qualifying_data
from attest.evidence.command_key_check import check_command_key
from attest.evidence.verdict import Checklist
from attest.policies import sealing_policy
from attest.tpm import Sealing, TpmDevice
from attest.tpm.approval import authority_point
from attest.tpm.templates import SIGNER_ATTRIBUTES
from tests.attest.evidence.cases import HONEST
from tests.attest.evidence.forge import SESSION

AUTHORITY = authority_point(ec.derive_private_key(7, ec.SECP256R1()).public_key())
OTHER = authority_point(ec.derive_private_key(8, ec.SECP256R1()).public_key())


def test_the_verifier_knows_the_attributes_of_the_sealed_key() -> None:
    assert SIGNER_ATTRIBUTES == structures.COMMAND_KEY_ATTRIBUTES


def test_a_certificate_of_the_tpm_passes_for_its_policy_and_no_other(device: TpmDevice) -> None:
    sealing, ak = Sealing(device, AUTHORITY), device.ak()
    qualifying = qualifying_data(
        nonce=HONEST.nonce,
        session_public=SESSION.public,
        module_digest=HONEST.module,
        deployment_digest=HONEST.deployment,
    )
    key = sealing.certify_key(qualifying)
    claims, _ = parse_evidence(HONEST.evidence())
    evidence = replace(claims, ak_public=ak.public, command_key=key)

    def point(policy: bytes, nonce: bytes = HONEST.nonce) -> bytes:
        return check_command_key(Checklist(("command-key",)), evidence, nonce, policy)

    assert point(sealing_policy(AUTHORITY, ak.name)) == b"\x04" + sealing.create_key().point
    assert point(sealing_policy(OTHER, ak.name)) == b""
    assert point(sealing_policy(AUTHORITY, ak.name), bytes(32)) == b""
    assert device.handles_in_use() == {"transient": 0, "loaded sessions": 0}
