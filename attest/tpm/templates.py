"""Public areas of the keys we make, as bytes. No TPM needed.

Each is a TPMT_PUBLIC whose last field, ``unique``, is what the TPM fills in. ``fixed`` is everything before it: a key
found in a TPM is of the template if it starts with ``fixed``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.evidence.ek import EkKind
from attest.structures import (
    ADMIN_WITH_POLICY,
    AK_ATTRIBUTES,
    AK_MARKER,
    ALG_AES,
    ALG_CFB,
    ALG_ECC,
    ALG_ECDSA,
    ALG_NULL,
    ALG_SHA256,
    ALG_SHA384,
    CURVE_P256,
    CURVE_P384,
    DECRYPT,
    EK_ATTRIBUTES,
    EK_POLICY,
    EK_POLICY_B_SHA384,
    FIXED_PARENT,
    FIXED_TPM,
    NO_DA,
    RESTRICTED,
    RH_ENDORSEMENT,
    SENSITIVE_DATA_ORIGIN,
    SIGN,
    USER_WITH_AUTH,
    rsa_template,
    tpm2b,
    u16,
    u32,
)

RH_OWNER: Final = 0x40000001
ALG_KEYEDHASH: Final = 0x0008
_RSA_BYTES: Final = 256
_P256_BYTES: Final = 32

_OWN: Final = FIXED_TPM | FIXED_PARENT  # never leaves this TPM
STORAGE_ATTRIBUTES: Final = _OWN | SENSITIVE_DATA_ORIGIN | USER_WITH_AUTH | NO_DA | RESTRICTED | DECRYPT
# No userWithAuth and adminWithPolicy: nothing but the policy opens these, in any role.
SIGNER_ATTRIBUTES: Final = _OWN | SENSITIVE_DATA_ORIGIN | ADMIN_WITH_POLICY | NO_DA | SIGN
SECRET_ATTRIBUTES: Final = _OWN | ADMIN_WITH_POLICY | NO_DA


@dataclass(frozen=True, slots=True)
class Template:
    """A primary key: the hierarchy it derives from, the fixed part of its public area and the initial ``unique``."""

    hierarchy: int
    fixed: bytes
    unique: bytes

    @property
    def public(self) -> bytes:
        """TPMT_PUBLIC for TPM2_CreatePrimary."""
        return self.fixed + self.unique

    @property
    def name_algorithm(self) -> bytes:
        """nameAlg, with which the key's name begins."""
        return self.fixed[2:4]


@dataclass(frozen=True, slots=True)
class EkTemplate:
    """An endorsement key of the TCG EK Credential Profile 2.x: where it and its certificate are kept."""

    template: Template
    handle: int
    certificate_nv: int
    by_policy: bool
    """Whether PolicySecret(endorsement) opens it (low range); else its own empty password does (high range)."""


def _ecc_fixed(*, name_hash: int, attributes: int, policy: bytes, key_bits: int, scheme: bytes, curve: int) -> bytes:
    symmetric = u16(ALG_AES) + u16(key_bits) + u16(ALG_CFB) if key_bits else u16(ALG_NULL)
    head = u16(ALG_ECC) + u16(name_hash) + u32(attributes) + tpm2b(policy)
    return head + symmetric + scheme + u16(curve) + u16(ALG_NULL)


_ECDSA_SHA256: Final = u16(ALG_ECDSA) + u16(ALG_SHA256)
_NO_SCHEME: Final = u16(ALG_NULL)
_ZERO_POINT: Final = tpm2b(bytes(_P256_BYTES)) * 2  # the low-range templates fill unique with zeros
_NO_POINT: Final = tpm2b(b"") * 2

EK: Final[dict[EkKind, EkTemplate]] = {
    "rsa2048": EkTemplate(  # L-1; the handle by TCG TPM v2.0 Provisioning Guidance §7.8
        Template(RH_ENDORSEMENT, rsa_template()[:-_RSA_BYTES], bytes(_RSA_BYTES)), 0x81010001, 0x01C00002, True
    ),
    "p256": EkTemplate(  # L-2
        Template(
            RH_ENDORSEMENT,
            _ecc_fixed(
                name_hash=ALG_SHA256,
                attributes=EK_ATTRIBUTES,
                policy=EK_POLICY,
                key_bits=128,
                scheme=_NO_SCHEME,
                curve=CURVE_P256,
            ),
            _ZERO_POINT,
        ),
        0x81010002,
        0x01C0000A,
        True,
    ),
    "p384": EkTemplate(  # H-3
        Template(
            RH_ENDORSEMENT,
            _ecc_fixed(
                name_hash=ALG_SHA384,
                attributes=EK_ATTRIBUTES | USER_WITH_AUTH,
                policy=EK_POLICY_B_SHA384,
                key_bits=256,
                scheme=_NO_SCHEME,
                curve=CURVE_P384,
            ),
            _NO_POINT,
        ),
        0x81010016,
        0x01C00016,
        False,
    ),
}
EK_CHAIN_NV: Final = range(0x01C00100, 0x01C00110)  # the profile allows more; nobody ships more than a few

AK: Final = Template(
    RH_ENDORSEMENT,
    _ecc_fixed(
        name_hash=ALG_SHA256,
        attributes=AK_ATTRIBUTES,
        policy=AK_MARKER,
        key_bits=0,
        scheme=_ECDSA_SHA256,
        curve=CURVE_P256,
    ),
    _NO_POINT,
)
STORAGE: Final = Template(  # the TCG's SRK of P-256, so that one that is there already serves
    RH_OWNER,
    _ecc_fixed(
        name_hash=ALG_SHA256,
        attributes=STORAGE_ATTRIBUTES,
        policy=b"",
        key_bits=128,
        scheme=_NO_SCHEME,
        curve=CURVE_P256,
    ),
    _ZERO_POINT,
)


def signer(policy: bytes) -> Template:
    """An ECDSA P-256 signing key that only ``policy`` opens; another policy is another key."""
    fixed = _ecc_fixed(
        name_hash=ALG_SHA256,
        attributes=SIGNER_ATTRIBUTES,
        policy=policy,
        key_bits=0,
        scheme=_ECDSA_SHA256,
        curve=CURVE_P256,
    )
    return Template(RH_OWNER, fixed, _NO_POINT)


def secret_public(policy: bytes) -> bytes:
    """TPMT_PUBLIC of a sealed secret that only ``policy`` opens."""
    head = u16(ALG_KEYEDHASH) + u16(ALG_SHA256) + u32(SECRET_ATTRIBUTES) + tpm2b(policy)
    return head + u16(ALG_NULL) + tpm2b(b"")
