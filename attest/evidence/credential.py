"""MakeCredential in software (TPM 2.0 Library Part 1 §24, Part 3 §12.6): the verifier's half of enrolment.

A secret is encrypted so that only the TPM that holds the EK can read it, and only for an object with exactly the
given name. A device that answers with the secret has shown that this AK lives in the TPM of that EK.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from attest.evidence.ek import EkKind, EkPublic
from attest.evidence.errors import EnrolError
from attest.structures import tpm2b, u32

SECRET_BYTES: Final = 32
_AES_BLOCK: Final = 16
_LABEL: Final = b"IDENTITY\0"
_HASHES: Final = {"sha256": hashes.SHA256, "sha384": hashes.SHA384}


@dataclass(frozen=True, slots=True)
class Credential:
    """A challenge to one EK.

    ``blob``: TPMS_ID_OBJECT bytes (TPM2B integrity ‖ encrypted identity). ``secret``: the seed, under RSA-OAEP or as
    the TPMS_ECC_POINT of an ephemeral key. ``ek``: which of the device's EKs opens it.
    """

    blob: bytes
    secret: bytes
    ek: EkKind = "rsa2048"


def make_credential(ek: EkPublic, *, ak_name: bytes, value: bytes, random: Callable[[int], bytes]) -> Credential:
    """Encrypt ``value`` (at most 32 bytes) to the EK and bind it to ``ak_name``. ``random`` gives fresh bytes."""
    if len(value) > SECRET_BYTES:
        raise EnrolError("credential", found=f"{len(value)} bytes", expected=f"at most {SECRET_BYTES}")
    hash_bits = 8 * hashlib.new(ek.hash_name).digest_size
    seed, secret = _seed(ek, random)
    symmetric = kdfa(seed, label=b"STORAGE", context=ak_name, bits=ek.aes_bits, hash_name=ek.hash_name)
    identity = _cfb_encrypt(symmetric, tpm2b(value))
    integrity_key = kdfa(seed, label=b"INTEGRITY", context=b"", bits=hash_bits, hash_name=ek.hash_name)
    integrity = hmac.digest(integrity_key, identity + ak_name, ek.hash_name)
    return Credential(blob=tpm2b(integrity) + identity, secret=secret, ek=ek.kind)


def _seed(ek: EkPublic, random: Callable[[int], bytes]) -> tuple[bytes, bytes]:
    """A fresh seed and how it reaches the EK: RSA-OAEP (Part 1 annex B.10.3) or one-pass ECDH (annex C.6.1)."""
    size = hashlib.new(ek.hash_name).digest_size
    if isinstance(ek.key, rsa.RSAPublicKey):
        seed, algorithm = random(size), _HASHES[ek.hash_name]()
        return seed, ek.key.encrypt(seed, padding.OAEP(padding.MGF1(algorithm), algorithm, _LABEL))
    width = ek.key.curve.key_size // 8
    # Reduced from twice the width: no bias that matters, and the same randomness gives the same challenge in tests.
    scalar = int.from_bytes(random(2 * width), "big") % (_ORDERS[ek.key.curve.name] - 1) + 1
    ephemeral = ec.derive_private_key(scalar, ek.key.curve)
    ours, theirs = ephemeral.public_key().public_numbers(), ek.key.public_numbers()
    ours_x, theirs_x = (number.x.to_bytes(width, "big") for number in (ours, theirs))
    shared = ephemeral.exchange(ec.ECDH(), ek.key)
    seed = kdfe(shared, label=_LABEL, ours=ours_x, theirs=theirs_x, bits=8 * size, hash_name=ek.hash_name)
    return seed, tpm2b(ours_x) + tpm2b(ours.y.to_bytes(width, "big"))


_ORDERS: Final = {  # SEC 2 §2.4.2, §2.5.1
    "secp256r1": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "secp384r1": int(
        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973", 16
    ),
}


def kdfa(key: bytes, *, label: bytes, context: bytes, bits: int, hash_name: str = "sha256") -> bytes:
    """KDFa (Part 1 §11.4.10.2; SP 800-108 in counter mode). ``bits``: a multiple of 8, at most the hash's own."""
    assert bits % 8 == 0
    assert bits <= 8 * hashlib.new(hash_name).digest_size
    message = u32(1) + label + b"\0" + context + u32(bits)
    return hmac.digest(key, message, hash_name)[: bits // 8]


def kdfe(shared: bytes, *, label: bytes, ours: bytes, theirs: bytes, bits: int, hash_name: str) -> bytes:
    """KDFe (Part 1 §11.4.10.3; SP 800-56A) over the x coordinate of the shared point; ``label`` with its NUL."""
    assert bits <= 8 * hashlib.new(hash_name).digest_size
    return hashlib.new(hash_name, u32(1) + shared + label + ours + theirs).digest()[: bits // 8]


def _cfb_encrypt(key: bytes, plain: bytes) -> bytes:
    """AES in full-block CFB with a zero IV (SP 800-38A §6.3), as the TPM uses it; the key is never used twice."""
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - one block at a time, to build CFB
    previous, out = bytes(_AES_BLOCK), b""
    for start in range(0, len(plain), _AES_BLOCK):
        chunk = plain[start : start + _AES_BLOCK]
        previous = bytes(a ^ b for a, b in zip(chunk, block.update(previous), strict=False))
        out += previous
    return out
