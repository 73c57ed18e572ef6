"""Enrolment: bind EK certificate → EK → AK → device record, once, with a person.

Device                                   Verifier
``request(tpm)``            ──────────►  ``challenge(request, …)``: EK chain, EK and AK templates, then a secret
                                         encrypted to the EK and bound to the AK's name (``credential``)
``answer(tpm, challenge)``  ──────────►  ``Pending.finish(answer, …)``: the right secret makes a signed record

Only ``request`` and ``answer`` touch a TPM. ``enrol_locally`` plays both roles in one call, for a device whose
operator holds the policy key. ``enrol_files`` carries the three messages as files, ``paper`` as lines to type.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from attest import structures
from attest.cose import Signer
from attest.errors import AttestError
from attest.evidence.credential import SECRET_BYTES, Credential, make_credential
from attest.evidence.ek import EK_KINDS, EkKind, parse_ek
from attest.evidence.ekcert import EkIdentity, check_ek
from attest.evidence.errors import EnrolError
from attest.evidence.record import DeviceRecord
from attest.structures import AK_ATTRIBUTES, Ak, Ek


class EnrollingTpm(Protocol):
    """The part of a ``TpmDevice`` that enrolment needs."""

    def ek(self, kind: EkKind = "rsa2048", /) -> Ek:
        """Endorsement key and certificates."""
        ...

    def ak(self) -> Ak:
        """Attestation key."""
        ...

    def activate(self, *, credential: bytes, secret: bytes, ek: EkKind = "rsa2048") -> bytes:
        """TPM2_ActivateCredential."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """What a device sends to be enrolled."""

    ek_public: bytes
    ek_certificates: tuple[bytes, ...]
    ak_public: bytes


@dataclass(frozen=True, slots=True)
class Pending:
    """The verifier's memory between challenge and answer: no secret, only the hash of the one that must come back."""

    request: Request
    identity: EkIdentity
    answer_sha256: bytes

    def finish(
        self,
        answer: bytes,
        *,
        device_id: str,
        policy_signer: Signer,
        enrolled_by: str,
        now_ns: int,
        replaces: bytes = b"",
    ) -> bytes:
        """The signed record if ``answer`` is the secret. Raises ``EnrolError`` (``credential``).

        ``replaces`` is the id of the record of the machine that this one takes over from (revoke that one as well).
        """
        if not hmac.compare_digest(hashlib.sha256(answer).digest(), self.answer_sha256):
            raise EnrolError("credential", found="another secret", expected="the one encrypted to this EK for this AK")
        record = DeviceRecord(
            device_id=device_id,
            tpm_kind=self.identity.kind,
            ek_chain=self.identity.chain,
            ek_name=parse_ek(self.request.ek_public).name,
            ak_name=structures.object_name(self.request.ak_public),
            ak_public=self.request.ak_public,
            enrolled_ns=now_ns,
            enrolled_by=enrolled_by,
            manufacturer=self.identity.manufacturer or "unknown",
            replaces=replaces,
        )
        return record.sign(policy_signer)


def request(tpm: EnrollingTpm) -> Request:
    """Device: the AK, and the first EK that has a certificate (RSA-2048, P-256, P-384)."""
    ek = next((found for found in map(partial(_ek, tpm), EK_KINDS) if found and found.certificates), None) or tpm.ek()
    return Request(ek_public=ek.public, ek_certificates=ek.certificates, ak_public=tpm.ak().public)


def _ek(tpm: EnrollingTpm, kind: EkKind) -> Ek | None:
    """None for a key this TPM cannot make: P-384 is optional (PC Client Platform TPM Profile §4.4)."""
    try:
        return tpm.ek(kind)
    except AttestError as error:
        if kind == "rsa2048" or error.code != "tpm-refused":
            raise
        return None


def challenge(
    wish: Request,
    *,
    ca_roots: Sequence[bytes],
    now_ns: int,
    random: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[Credential, Pending]:
    """Verifier: check EK chain and key templates, and make the credential. Raises ``EnrolError``."""
    ek = parse_ek(wish.ek_public)
    ak = structures.parse_ecc_public(wish.ak_public)
    # A key that signs anything handed to it could sign a made-up quote: only a restricted one will do.
    if ak.attributes != AK_ATTRIBUTES:
        raise EnrolError(
            "ak-template", found=f"attributes 0x{ak.attributes:08x}", expected=f"0x{AK_ATTRIBUTES:08x} (restricted)"
        )
    identity = check_ek(ek, wish.ek_certificates, ca_roots=ca_roots, now_ns=now_ns)
    value = random(SECRET_BYTES)
    credential = make_credential(ek, ak_name=structures.object_name(wish.ak_public), value=value, random=random)
    return credential, Pending(request=wish, identity=identity, answer_sha256=hashlib.sha256(value).digest())


def answer(tpm: EnrollingTpm, credential: Credential) -> bytes:
    """Device: TPM2_ActivateCredential."""
    return tpm.activate(credential=credential.blob, secret=credential.secret, ek=credential.ek)


def enrol_locally(
    tpm: EnrollingTpm,
    *,
    policy_signer: Signer,
    ca_roots: Sequence[bytes],
    device_id: str,
    enrolled_by: str,
    now_ns: int,
) -> bytes:
    """Both roles in one call, by the same credential protocol; returns the signed device record."""
    wish = request(tpm)
    credential, pending = challenge(wish, ca_roots=ca_roots, now_ns=now_ns)
    return pending.finish(
        answer(tpm, credential),
        device_id=device_id,
        policy_signer=policy_signer,
        enrolled_by=enrolled_by,
        now_ns=now_ns,
    )
