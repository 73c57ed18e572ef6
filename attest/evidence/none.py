"""Attestation mode ``none``: an object that says nothing vouches for the machine. Development profiles only.

It still binds nonce, session key, module and deployment by the session key's signature, so that the epoch protocol
stays the same; it shows neither which machine nor which boot state it came from, and says so.
"""

from __future__ import annotations

from typing import Final

from attest import cbor, cose
from attest.errors import AttestError
from attest.evidence import claims
from attest.evidence.verdict import Checklist, Verdict
from attest.structures import DIGEST_BYTES

CONTENT_TYPE: Final = "application/vnd.sits.evidence-none+cbor"
PROFILE: Final = "urn:sits:evidence-none:1"
KIND: Final = "none"
MAX_BYTES: Final = 4096
CHECKS: Final = ("format", "development-profile", "signature", "nonce", "module-digest", "deployment-digest")


def build_none(*, signer: cose.Signer, nonce: bytes, module_digest: bytes, deployment_digest: bytes) -> bytes:
    """The signed object. ``signer`` is the session key (Ed25519)."""
    payload = {
        claims.CNF: claims.session_confirmation(signer.public),
        claims.EAT_NONCE: nonce,
        claims.EAT_PROFILE: PROFILE,
        claims.MODULE_DIGEST: module_digest,
        claims.DEPLOYMENT_DIGEST: deployment_digest,
        claims.TPM_KIND: KIND,
    }
    return cose.sign1(cbor.dumps(payload), signer=signer, content_type=CONTENT_TYPE)


def verify_none(
    data: bytes, *, nonce: bytes, expected_module: bytes, expected_deployment: bytes, development_profile: bool
) -> Verdict:
    """Judge an object of ``build_none``; it never verifies outside a development profile."""
    checks = Checklist(CHECKS)
    expected_profile = "a development profile"
    found_profile = expected_profile if development_profile else "another profile"
    checks.judge("development-profile", development_profile, found=found_profile, expected=expected_profile)
    try:
        message = cose.parse_sign1(data, content_type=CONTENT_TYPE, max_bytes=MAX_BYTES)
        fields = cbor.Fields(cbor.loads(message.payload, max_bytes=MAX_BYTES, max_depth=4), "evidence")
        fields.text(claims.EAT_PROFILE, choices=(PROFILE,))
        fields.text(claims.TPM_KIND, choices=(KIND,))
        found_nonce = fields.octets(claims.EAT_NONCE, low=claims.NONCE_BYTES_MIN, high=claims.NONCE_BYTES_MAX)
        public = claims.parse_confirmation(fields)
        module = fields.octets(claims.MODULE_DIGEST, size=DIGEST_BYTES)
        deployment = fields.octets(claims.DEPLOYMENT_DIGEST, size=DIGEST_BYTES)
        fields.done()
    except AttestError as error:
        checks.judge("format", False, found=error.found, expected=error.expected)
        return Verdict(checks.checks("an object that can be read"))
    checks.judge("format", True, found=f"{len(data)} bytes of evidence without attestation", expected="the same")
    expected_signature = f"one by key {cose.key_id(public).hex()}"
    try:
        cose.verify(message, public=public)
    except cose.CoseError as error:
        checks.judge("signature", False, found=error.found, expected=expected_signature)
    else:
        checks.judge("signature", True, found="a signature that verifies", expected=expected_signature)
    checks.judge("nonce", found_nonce == nonce, found=found_nonce.hex(), expected=nonce.hex())
    checks.judge("module-digest", module == expected_module, found=module.hex(), expected=expected_module.hex())
    ok = deployment == expected_deployment
    checks.judge("deployment-digest", ok, found=deployment.hex(), expected=expected_deployment.hex())
    verdict = Verdict(checks.checks("an object that can be read"))
    return Verdict(verdict.checks, session_public=public, tpm_kind=KIND) if verdict.ok else verdict
