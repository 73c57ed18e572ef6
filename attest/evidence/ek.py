"""Endorsement keys by the templates of the TCG EK Credential Profile 2.x, as a verifier without a TPM sees them.

L-1 (RSA-2048) and L-2 (P-256) are named with SHA-256 and wrap with AES-128, H-3 (P-384) with SHA-384 and AES-256.
Another key could decrypt for somebody who is no TPM, so every field but the key itself must be the template's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from attest import structures
from attest.evidence.errors import EnrolError
from attest.structures import (
    ALG_AES,
    ALG_CFB,
    ALG_ECC,
    ALG_NULL,
    ALG_SHA256,
    ALG_SHA384,
    CURVE_P256,
    CURVE_P384,
    EK_POLICY_B_SHA384,
    Reader,
    StructureError,
)

EkKind = Literal["rsa2048", "p256", "p384"]
EK_KINDS: Final[tuple[EkKind, ...]] = ("rsa2048", "p256", "p384")
_EXPONENT: Final = 65537


@dataclass(frozen=True, slots=True)
class EkPublic:
    """A parsed EK: what is encrypted to it, with which hash and how many bits of AES; ``name`` as the TPM has it."""

    kind: EkKind
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    hash_name: Literal["sha256", "sha384"]
    aes_bits: int
    name: bytes


@dataclass(frozen=True, slots=True)
class _Curve:
    kind: EkKind
    curve: ec.EllipticCurve
    number: int
    name_algorithm: int
    hash_name: Literal["sha256", "sha384"]
    aes_bits: int
    attributes: int
    policy: bytes

    @property
    def size(self) -> int:
        return self.curve.key_size // 8


_CURVES: Final = {
    ALG_SHA256: _Curve(
        "p256", ec.SECP256R1(), CURVE_P256, ALG_SHA256, "sha256", 128, structures.EK_ATTRIBUTES, structures.EK_POLICY
    ),
    ALG_SHA384: _Curve(
        "p384",
        ec.SECP384R1(),
        CURVE_P384,
        ALG_SHA384,
        "sha384",
        256,
        structures.EK_ATTRIBUTES | structures.USER_WITH_AUTH,
        EK_POLICY_B_SHA384,
    ),
}


def parse_ek(public: bytes) -> EkPublic:
    """The EK of a TPMT_PUBLIC. Raises ``StructureError``, or ``EnrolError`` (``ek-template``) for another template."""
    if public[:2] == structures.u16(ALG_ECC):
        return _parse_ecc(public)
    parsed = structures.parse_rsa_public(public)
    _require(parsed.attributes, parsed.policy, structures.EK_ATTRIBUTES, structures.EK_POLICY, "L-1")
    if parsed.exponent != _EXPONENT:
        raise EnrolError("ek-template", found=f"the exponent {parsed.exponent}", expected=str(_EXPONENT))
    key = rsa.RSAPublicNumbers(parsed.exponent, int.from_bytes(parsed.modulus, "big")).public_key()
    return EkPublic("rsa2048", key, "sha256", 128, structures.object_name(public))


def _parse_ecc(public: bytes) -> EkPublic:
    reader = Reader(public, "ECC public area")
    reader.expect(2, ALG_ECC, "type")
    name_algorithm = reader.number(2)
    known = _CURVES.get(name_algorithm)
    if known is None:
        raise reader.error(f"name algorithm 0x{name_algorithm:04x}", "SHA-256 or SHA-384")
    attributes, policy = reader.number(4), reader.sized(64)
    for value, field in (
        (ALG_AES, "symmetric algorithm"),
        (known.aes_bits, "symmetric key bits"),
        (ALG_CFB, "symmetric mode"),
        (ALG_NULL, "scheme"),
        (known.number, "curve"),
        (ALG_NULL, "KDF"),
    ):
        reader.expect(2, value, field)
    x, y = reader.sized(known.size), reader.sized(known.size)
    reader.done()
    _require(attributes, policy, known.attributes, known.policy, "L-2" if known.kind == "p256" else "H-3")
    point = b"\x04" + x.rjust(known.size, b"\0") + y.rjust(known.size, b"\0")
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(known.curve, point)
    except ValueError as error:
        raise StructureError(found="a point that is not on the curve", expected=f"a point of {known.kind}") from error
    name = structures.u16(name_algorithm) + hashlib.new(known.hash_name, public).digest()
    return EkPublic(known.kind, key, known.hash_name, known.aes_bits, name)


def _require(attributes: int, policy: bytes, wanted: int, wanted_policy: bytes, template: str) -> None:
    if attributes != wanted or policy != wanted_policy:
        raise EnrolError("ek-template", found=f"attributes 0x{attributes:08x}", expected=f"the EK template {template}")
