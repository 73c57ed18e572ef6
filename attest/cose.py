"""COSE_Sign1 (RFC 9052 §4.2), the one signature envelope of every evidence format.

Profile: tagged (18); the protected header holds exactly alg (1), content type (3, text) and kid (4); the
unprotected header is empty; the payload is attached; everything is deterministic CBOR. Algorithms are EdDSA
on Ed25519 (-8, RFC 9053 §2.2) and ES256 (-7). The kid is SHA-256 of the public key: 32 bytes for Ed25519,
the uncompressed point (65 bytes) for P-256.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest import cbor
from attest.errors import AttestError

EDDSA: Final = -8
ES256: Final = -7

MAX_BYTES: Final = cbor.MAX_BYTES
_TAG_SIGN1: Final = 0xD2  # tag 18 in its one-byte form
_ALG, _CONTENT_TYPE, _KID = 1, 3, 4
_SIGNATURE_BYTES: Final = 64  # Ed25519 R‖S and P-256 r‖s alike
_PUBLIC_BYTES: Final = {EDDSA: 32, ES256: 65}
_MAX_CONTENT_TYPE: Final = 128
_MAX_PROTECTED: Final = 256  # alg, kid and the longest content type fit

# y coordinates (sign bit cleared) of the points of small order on edwards25519, with their non-canonical
# forms: under such a key one signature fits many messages.
_P: Final = 2**255 - 19
_ORDER_8_Y: Final = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL_ORDER_Y: Final = frozenset({0, 1, _P - 1, _P, _P + 1, _ORDER_8_Y, _P - _ORDER_8_Y})


class CoseError(AttestError):
    """A COSE object outside the profile or whose signature does not verify.

    Codes: ``cose-format``, ``cose-alg``, ``cose-content-type``, ``cose-kid``, ``cose-key``,
    ``cose-signature``.
    """


class Signer(Protocol):
    """Anything that signs with one key: a session key in memory, a key file, a TPM key."""

    @property
    def public(self) -> bytes:
        """Public key: 32 bytes for Ed25519, the 65-byte uncompressed point for P-256."""
        ...

    def sign(self, data: bytes, /) -> bytes:
        """64 bytes of signature over ``data``: R‖S (Ed25519) or r‖s (ES256)."""
        ...


class Ed25519Signer:
    """A ``Signer`` over a private key held by ``cryptography``."""

    __slots__ = ("_private", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Ed25519Signer:
        """A fresh key from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    def sign(self, data: bytes, /) -> bytes:
        """Ed25519 signature (RFC 8032 §5.1.6) over ``data``."""
        return self._private.sign(data)


@dataclass(frozen=True, slots=True)
class Sign1:
    """A parsed COSE_Sign1 whose signature nobody has checked yet; ``protected`` is the encoded header."""

    protected: bytes
    payload: bytes
    signature: bytes
    alg: int
    kid: bytes
    content_type: str


def algorithm_of(public: bytes) -> int:
    """The algorithm a public key is for, by its size. Raises ``CoseError`` (``cose-key``)."""
    alg = next((alg for alg, size in _PUBLIC_BYTES.items() if size == len(public)), None)
    if alg is None:
        raise CoseError(
            "cose-key", found=f"{len(public)} bytes", expected=" or ".join(map(str, _PUBLIC_BYTES.values()))
        )
    return alg


def key_id(public: bytes) -> bytes:
    """The kid of a public key."""
    return hashlib.sha256(public).digest()


def sign1(payload: bytes, *, signer: Signer, content_type: str, alg: int = EDDSA, external_aad: bytes = b"") -> bytes:
    """Sign ``payload`` and return the tagged COSE_Sign1. Raises ``CoseError``."""
    _check_public(signer.public, alg)
    if not 1 <= len(content_type) <= _MAX_CONTENT_TYPE:
        found = f"{len(content_type)} characters of content type"
        raise CoseError("cose-content-type", found=found, expected=f"1..{_MAX_CONTENT_TYPE}")
    protected = cbor.dumps({_ALG: alg, _CONTENT_TYPE: content_type, _KID: key_id(signer.public)})
    signature = signer.sign(_to_be_signed(protected, external_aad, payload))
    if len(signature) != _SIGNATURE_BYTES:
        raise CoseError("cose-signature", found=f"{len(signature)} bytes", expected=f"{_SIGNATURE_BYTES}")
    return bytes([_TAG_SIGN1]) + cbor.dumps([protected, {}, payload, signature])


def parse_sign1(data: bytes, *, content_type: str | None = None, max_bytes: int = MAX_BYTES) -> Sign1:
    """Parse a tagged COSE_Sign1 without checking its signature.

    ``content_type``, where given, is the only one accepted. Raises ``CoseError`` or ``CborError``.
    """
    if len(data) > max_bytes:
        raise CoseError("cose-format", found=f"{len(data)} bytes", expected=f"at most {max_bytes}")
    if data[:1] != bytes([_TAG_SIGN1]):
        raise CoseError("cose-format", found=f"first byte 0x{data[:1].hex() or '(none)'}", expected="tag 18 (0xd2)")
    parts = cbor.loads(data[1:], max_bytes=max_bytes, max_depth=2, max_items=16)
    if not isinstance(parts, tuple) or len(parts) != 4:
        raise CoseError("cose-format", found="another shape", expected="an array of four")
    protected, unprotected, payload, signature = parts
    if not isinstance(protected, bytes) or not isinstance(payload, bytes) or not isinstance(signature, bytes):
        raise CoseError("cose-format", found="parts of other types", expected="byte strings")
    if unprotected != {}:
        raise CoseError("cose-format", found="a filled unprotected header", expected="an empty map")
    if len(signature) != _SIGNATURE_BYTES:
        raise CoseError("cose-format", found=f"{len(signature)} bytes of signature", expected=f"{_SIGNATURE_BYTES}")
    alg, found_type, kid = _parse_protected(protected)
    if content_type is not None and found_type != content_type:
        raise CoseError("cose-content-type", found=found_type, expected=content_type)
    return Sign1(protected, payload, signature, alg, kid, found_type)


def verify(message: Sign1, *, public: bytes, external_aad: bytes = b"") -> None:
    """Check kid and signature against ``public``. Raises ``CoseError``."""
    _check_public(public, message.alg)
    expected_kid = key_id(public)
    if message.kid != expected_kid:
        raise CoseError("cose-kid", found=message.kid.hex(), expected=expected_kid.hex())
    signed = _to_be_signed(message.protected, external_aad, message.payload)
    try:
        if message.alg == EDDSA:
            Ed25519PublicKey.from_public_bytes(public).verify(message.signature, signed)
        else:
            half = _SIGNATURE_BYTES // 2
            r, s = (int.from_bytes(part, "big") for part in (message.signature[:half], message.signature[half:]))
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public)
            point.verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise CoseError(
            "cose-signature",
            found="a signature that does not verify",
            expected=f"one by key {expected_kid.hex()}",
        ) from error
    except ValueError as error:
        raise CoseError("cose-key", found="bytes that are no point", expected="a public key") from error


def _parse_protected(protected: bytes) -> tuple[int, str, bytes]:
    fields = cbor.Fields(cbor.loads(protected, max_bytes=_MAX_PROTECTED, max_depth=1, max_items=16), "protected header")
    alg = fields.integer(_ALG, low=-65536, high=0)
    if alg not in _PUBLIC_BYTES:
        raise CoseError("cose-alg", found=str(alg), expected="-8 (EdDSA) or -7 (ES256)")
    content_type = fields.text(_CONTENT_TYPE, high=_MAX_CONTENT_TYPE)
    kid = fields.octets(_KID, size=32)
    fields.done()
    return alg, content_type, kid


def _check_public(public: bytes, alg: int) -> None:
    size = _PUBLIC_BYTES.get(alg)
    if size is None:
        raise CoseError("cose-alg", found=str(alg), expected="-8 (EdDSA) or -7 (ES256)")
    if len(public) != size:
        raise CoseError("cose-key", found=f"{len(public)} bytes", expected=f"{size}")
    if alg == EDDSA and int.from_bytes(public, "little") & ((1 << 255) - 1) in _SMALL_ORDER_Y:
        raise CoseError("cose-key", found="a point of small order", expected="an Ed25519 public key")


def _to_be_signed(protected: bytes, external_aad: bytes, payload: bytes) -> bytes:
    return cbor.dumps(["Signature1", protected, external_aad, payload])
