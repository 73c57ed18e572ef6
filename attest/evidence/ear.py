"""A verdict as an EAT Attestation Result (draft-ietf-rats-ear-04): what a relying party that knows no SITS can read.

The trustworthiness vector uses the values of AR4SI (draft-ietf-rats-ar4si §2.3): 2 affirms, 32 and 33 warn, 96 to 99
contraindicate, 99 where cryptography failed. A claim is 0 (nothing to say) where its checks could not be made. Our own
checks travel whole in ``ear_verifier_claims``. The draft is not yet an RFC: the profile tag names its version.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from attest import jsontext
from attest.cose import Signer
from attest.evidence.verdict import NOT_MADE, Check, Verdict

PROFILE: Final = "tag:ietf.org,2026:rats/ear#04"
DEVELOPER: Final = "SITS Edge"
SUBMODULE: Final = "sits-edge"
NS_PER_S: Final = 1_000_000_000

NONE, AFFIRMING, WARNING, CONTRAINDICATED = "none", "affirming", "warning", "contraindicated"
_SAYS_NOTHING: Final = 0
_RECOGNISED: Final = 2
_SIMULATED: Final = 32  # a TPM made of software protects nothing: genuine protocol, no genuine hardware
_UNRECOGNISED: Final = 97
_FAILED: Final = 96
_CRYPTO: Final = 99
_TIERS: Final = ((96, CONTRAINDICATED), (32, WARNING), (2, AFFIRMING))

VECTOR: Final[Mapping[str, tuple[tuple[str, int], ...]]] = {
    "instance-identity": (
        ("signature", _CRYPTO),
        ("record-signature", _CRYPTO),
        ("quote-signature", _CRYPTO),
        ("record-id", _UNRECOGNISED),
        ("record-revocation", _FAILED),
        ("ak-name", _UNRECOGNISED),
        ("command-key", _UNRECOGNISED),
    ),
    "configuration": (
        ("deployment-digest", _FAILED),
        ("boot-policy-validity", _FAILED),
        ("boot-policy-version", _FAILED),
    ),
    "executables": (
        ("quote-qualifying", _CRYPTO),
        ("quote-pcr-digest", _CRYPTO),
        ("event-log-replay", _FAILED),
        ("ima-log", _FAILED),
        ("application-measurement", _FAILED),
        ("boot-policy-signature", _CRYPTO),
        ("boot-policy", _FAILED),
        ("module-digest", _FAILED),
    ),
    "hardware": (("quote-magic", _CRYPTO), ("tpm-kind", _UNRECOGNISED), ("reset-count", _FAILED)),
}
"""Which checks speak for which claim, and the value of the first that failed."""


def attestation_result(
    verdict: Verdict, evidence: bytes, *, nonce: bytes, policy: bytes, build: str, now_ns: int
) -> dict[str, Any]:
    """The claims set (JSON names of the draft's §3) of a verdict over ``evidence``.

    ``policy`` is the signed boot policy the verdict was made with, ``build`` the verifier's version.
    """
    by_name = {check.name: check for check in verdict.checks}
    vector = {claim: _value(claim, rules, by_name, verdict) for claim, rules in VECTOR.items()}
    return {
        "eat_profile": PROFILE,
        "iat": now_ns // NS_PER_S,
        "eat_nonce": _base64url(nonce),
        "ear_verifier_id": {"developer": DEVELOPER, "build": build},
        "submods": {
            SUBMODULE: {
                "ear_status": _status(vector, verdict),
                "ear_trustworthiness_vector": vector,
                "ear_appraisal_policy_ids": [f"urn:sits:boot-policy:sha256:{hashlib.sha256(policy).hexdigest()}"],
                "ear_attester_claims": _attester_claims(verdict, evidence),
                "ear_verifier_claims": {
                    "urn:sits:checks": [
                        {
                            "number": check.number,
                            "name": check.name,
                            "ok": check.ok,
                            "found": check.found,
                            "expected": check.expected,
                        }
                        for check in verdict.checks
                    ]
                },
            }
        },
    }


def sign_jwt(claims: Mapping[str, Any], signer: Signer) -> str:
    """The claims set as a JWT (RFC 7519) in compact JWS form (RFC 7515 §3.1), EdDSA (RFC 8037)."""
    header = {"alg": "EdDSA", "typ": "JWT", "kid": hashlib.sha256(signer.public).hexdigest()}
    signed = ".".join(
        _base64url(jsontext.dumps(part, separators=(",", ":")).encode()) for part in (header, dict(claims))
    )
    return f"{signed}.{_base64url(signer.sign(signed.encode()))}"


def _value(claim: str, rules: tuple[tuple[str, int], ...], by_name: Mapping[str, Check], verdict: Verdict) -> int:
    made = [(by_name[name], value) for name, value in rules if name in by_name]
    failed = next((value for check, value in made if not check.ok and check.found != NOT_MADE), None)
    if failed is not None:
        return failed
    if not made or any(not check.ok for check, _ in made):
        return _SAYS_NOTHING
    if claim == "hardware" and verdict.tpm_kind != "hardware":
        return _SIMULATED
    return _RECOGNISED


def _status(vector: Mapping[str, int], verdict: Verdict) -> str:
    """The worst tier of the vector; a verdict that does not hold is never better than contraindicated."""
    if not verdict.ok:
        return CONTRAINDICATED
    worst = max(vector.values())
    return next((tier for least, tier in _TIERS if worst >= least), NONE)


def _attester_claims(verdict: Verdict, evidence: bytes) -> dict[str, Any]:
    claims: dict[str, Any] = {"urn:sits:evidence-sha256": hashlib.sha256(evidence).hexdigest()}
    if verdict.ok:
        claims |= {
            "urn:sits:device-id": verdict.device_id,
            "urn:sits:tpm-kind": verdict.tpm_kind,
            "urn:sits:session-key": _base64url(verdict.session_public),
            "urn:sits:boot-state": verdict.boot_state,
            "bootcount": verdict.reset_count,
        }
    return claims


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
