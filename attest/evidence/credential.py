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
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from attest.evidence.errors import EnrolError
from attest.structures import RsaPublic, tpm2b, u32

SECRET_BYTES: Final = 32
_SEED_BYTES: Final = 32  # size of the EK's name algorithm digest
_AES_BLOCK: Final = 16
_OAEP_LABEL: Final = b"IDENTITY\0"


@dataclass(frozen=True, slots=True)
class Credential:
    """``blob``: TPMS_ID_OBJECT bytes (TPM2B integrity ‖ encrypted identity); ``secret``: the seed under RSA-OAEP."""

    blob: bytes
    secret: bytes


def make_credential(ek: RsaPublic, *, ak_name: bytes, value: bytes, random: Callable[[int], bytes]) -> Credential:
    """Encrypt ``value`` (at most 32 bytes) to the EK and bind it to ``ak_name``. ``random`` gives fresh bytes."""
    if len(value) > SECRET_BYTES:
        raise EnrolError("credential", found=f"{len(value)} bytes", expected=f"at most {SECRET_BYTES}")
    seed = random(_SEED_BYTES)
    key = rsa.RSAPublicNumbers(ek.exponent, int.from_bytes(ek.modulus, "big")).public_key()
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=_OAEP_LABEL)
    encrypted_seed = key.encrypt(seed, oaep)
    symmetric = kdfa(seed, label=b"STORAGE", context=ak_name, bits=128)
    identity = _cfb_encrypt(symmetric, tpm2b(value))
    integrity_key = kdfa(seed, label=b"INTEGRITY", context=b"", bits=256)
    integrity = hmac.digest(integrity_key, identity + ak_name, "sha256")
    return Credential(blob=tpm2b(integrity) + identity, secret=encrypted_seed)


def kdfa(key: bytes, *, label: bytes, context: bytes, bits: int) -> bytes:
    """KDFa with SHA-256 (Part 1 §11.4.10.2; SP 800-108 in counter mode). ``bits`` is a multiple of 8, at most 256."""
    assert bits % 8 == 0
    assert bits <= 256
    message = u32(1) + label + b"\0" + context + u32(bits)
    return hmac.new(key, message, hashlib.sha256).digest()[: bits // 8]


def _cfb_encrypt(key: bytes, plain: bytes) -> bytes:
    """AES in full-block CFB with a zero IV (SP 800-38A §6.3), as the TPM uses it; the key is never used twice."""
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - one block at a time, to build CFB
    previous, out = bytes(_AES_BLOCK), b""
    for start in range(0, len(plain), _AES_BLOCK):
        chunk = plain[start : start + _AES_BLOCK]
        previous = bytes(a ^ b for a, b in zip(chunk, block.update(previous), strict=False))
        out += previous
    return out
