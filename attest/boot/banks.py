"""PCR banks by TPM algorithm: names, digest sizes, hashing (TCG Algorithm Registry rev. 1.34, table 3)."""

from __future__ import annotations

import hashlib
from typing import Final

from attest.boot.errors import EventLogError

SHA1: Final = 0x0004
SHA256: Final = 0x000B
SHA384: Final = 0x000C
SHA512: Final = 0x000D
SM3_256: Final = 0x0012
SHA3_256: Final = 0x0027
SHA3_384: Final = 0x0028
SHA3_512: Final = 0x0029

NAMES: Final = {
    SHA1: "sha1",
    SHA256: "sha256",
    SHA384: "sha384",
    SHA512: "sha512",
    SM3_256: "sm3_256",
    SHA3_256: "sha3_256",
    SHA3_384: "sha3_384",
    SHA3_512: "sha3_512",
}
SIZES: Final = {SHA1: 20, SHA256: 32, SHA384: 48, SHA512: 64, SM3_256: 32, SHA3_256: 32, SHA3_384: 48, SHA3_512: 64}
IDS: Final = {name: algorithm for algorithm, name in NAMES.items()}

_OPENSSL_NAMES: Final = NAMES | {SM3_256: "sm3"}
_DRTM_PCRS: Final = range(17, 23)  # start as ones until a dynamic launch


def digest(bank: int, data: bytes) -> bytes:
    """The hash of ``data`` in this bank's algorithm. Raises ``EventLogError`` where this machine has none (SM3)."""
    if bank == SHA256:
        return hashlib.sha256(data).digest()
    try:
        return hashlib.new(_OPENSSL_NAMES[bank], data).digest()
    except (KeyError, ValueError) as error:
        raise EventLogError(
            found=f"the bank {NAMES.get(bank, hex(bank))}", expected="a hash that this machine's OpenSSL has"
        ) from error


def extend(bank: int, before: bytes, measured: bytes) -> bytes:
    """TPM2_PCR_Extend in this bank (TPM 2.0 Part 3 §22.2)."""
    return digest(bank, before + measured)


def first_value(bank: int, pcr: int, *, locality: int = 0) -> bytes:
    """A PCR's value after power-up (TPM 2.0 Part 1 §17.2; PC Client profile §3.3).

    ``locality`` is that of TPM2_Startup (4: an H-CRTM measured first); it is PCR 0's first value.
    """
    size = SIZES[bank]
    if pcr == 0:
        return locality.to_bytes(size, "big")
    return (b"\xff" if pcr in _DRTM_PCRS else b"\0") * size
