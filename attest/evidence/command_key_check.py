"""The check of a command key: made in the quoting TPM, for this epoch, and open to approved boot states only."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest import structures
from attest.evidence.claims import Evidence, qualifying_data
from attest.evidence.verdict import Checklist
from attest.structures import COMMAND_KEY_ATTRIBUTES, GENERATED, StructureError

_EXPECTED = "a key made in this TPM for this epoch, under the plant's sealing policy"


def check_command_key(checks: Checklist, evidence: Evidence | None, nonce: bytes, policy: bytes | None) -> bytes:
    """24. ``policy``: the authPolicy the key must carry; the key's point (65 bytes), empty where there is none.

    A key that is shown although none is demanded fails: nobody says what its policy should be.
    """
    name = "command-key"
    if evidence is None:
        return b""
    key = evidence.command_key
    if key is None or policy is None:
        found = f"{'none' if key is None else 'one'} shown"
        checks.judge(name, (key is None) is (policy is None), found=found, expected=_EXPECTED if policy else "none")
        return b""
    fault, point = _judge(evidence, key.public, key.attest, key.signature, nonce=nonce, policy=policy)
    found = fault or f"{structures.object_name(key.public).hex()}, certified by the AK"
    checks.judge(name, fault is None, found=found, expected=_EXPECTED)
    return point


def _judge(
    evidence: Evidence, public: bytes, attest: bytes, signature: bytes, *, nonce: bytes, policy: bytes
) -> tuple[str | None, bytes]:
    try:
        parsed = structures.parse_ecc_public(public)
        creation = structures.parse_creation(attest)
        r, s = structures.parse_ecdsa_signature(signature)
        ak = structures.parse_ecc_public(evidence.ak_public)
        by = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), ak.point)
        by.verify(encode_dss_signature(r, s), attest, ec.ECDSA(hashes.SHA256()))
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), parsed.point)
    except StructureError as error:
        return error.found, b""
    except InvalidSignature:
        return "a certificate that the AK did not sign", b""
    except ValueError:
        return "a key that is no point of P-256", b""
    wanted = qualifying_data(
        nonce=nonce,
        session_public=evidence.session_public,
        module_digest=evidence.module_digest,
        deployment_digest=evidence.deployment_digest,
    )
    for ok, fault in (
        (structures.quote_magic(attest) == GENERATED, "a structure that was not made inside a TPM"),
        (creation.object_name == structures.object_name(public), "a certificate of another key"),
        (creation.extra_data == wanted, "a certificate for another epoch"),
        (parsed.attributes == COMMAND_KEY_ATTRIBUTES, f"attributes 0x{parsed.attributes:08x}"),
        (parsed.policy == policy, f"policy {parsed.policy.hex()}, expected {policy.hex()}"),
    ):
        if not ok:
            return fault, b""
    return None, parsed.point
