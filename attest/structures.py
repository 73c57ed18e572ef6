"""TPM 2.0 structures as bytes, read and written without a TPM (TPM 2.0 Library Part 2, rev. 1.59).

Only the forms this product makes or accepts exist: TPMT_PUBLIC of an RSA-2048 storage key (EK) and of a P-256
signing key (AK, command key), TPMS_ATTEST of a quote with one SHA-256 PCR selection and of a creation,
TPMT_SIGNATURE of ECDSA with SHA-256.
Everything else is refused with ``StructureError``; so are trailing bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from attest.errors import AttestError

ALG_RSA: Final = 0x0001
ALG_AES: Final = 0x0006
ALG_SHA256: Final = 0x000B
ALG_SHA384: Final = 0x000C
ALG_NULL: Final = 0x0010
ALG_ECDSA: Final = 0x0018
ALG_ECC: Final = 0x0023
ALG_CFB: Final = 0x0043
CURVE_P256: Final = 0x0003
CURVE_P384: Final = 0x0004

GENERATED: Final = 0xFF544347  # TPM_GENERATED_VALUE: only a TPM may sign a structure that starts with it
ST_ATTEST_QUOTE: Final = 0x8018
ST_ATTEST_CREATION: Final = 0x801A
RH_ENDORSEMENT: Final = 0x4000000B

PCR_COUNT: Final = 24  # PC Client Platform TPM Profile §4.6: PCR 0..23, three selection bytes
DIGEST_BYTES: Final = 32
MAX_STRUCTURE_BYTES: Final = 2048  # the largest here, an RSA public area, has 314

# TPMA_OBJECT, Part 2 §8.3
FIXED_TPM: Final = 1 << 1
FIXED_PARENT: Final = 1 << 4
SENSITIVE_DATA_ORIGIN: Final = 1 << 5
USER_WITH_AUTH: Final = 1 << 6
ADMIN_WITH_POLICY: Final = 1 << 7
NO_DA: Final = 1 << 10
RESTRICTED: Final = 1 << 16
DECRYPT: Final = 1 << 17
SIGN: Final = 1 << 18

EK_ATTRIBUTES: Final = FIXED_TPM | FIXED_PARENT | SENSITIVE_DATA_ORIGIN | ADMIN_WITH_POLICY | RESTRICTED | DECRYPT
# A key that only its policy opens, for its owner and for administration alike.
COMMAND_KEY_ATTRIBUTES: Final = FIXED_TPM | FIXED_PARENT | SENSITIVE_DATA_ORIGIN | ADMIN_WITH_POLICY | NO_DA | SIGN
AK_ATTRIBUTES: Final = FIXED_TPM | FIXED_PARENT | SENSITIVE_DATA_ORIGIN | USER_WITH_AUTH | NO_DA | RESTRICTED | SIGN
# PolicySecret(TPM_RH_ENDORSEMENT): TCG EK Credential Profile 2.x, template L-1
EK_POLICY: Final = bytes.fromhex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
# PolicyOR(PolicySecret(endorsement), PolicyAuthorizeNV(0x01c07f02)) with SHA-384: the profile's PolicyB, template H-3
EK_POLICY_B_SHA384: Final = bytes.fromhex(
    "b26e7d28d11a50bc53d882bcf5fd3a1a074148bb35d3b4e4cb1c0ad9bde419cacb47ba09699646150f9fc000f3f80e12"
)
# No policy hashes to this, so it authorises nothing; it makes our AK's template unlike anybody else's.
AK_MARKER: Final = hashlib.sha256(b"sits-attestation-key-v1").digest()


class StructureError(AttestError):
    """Bytes that are not the TPM structure they should be. Code ``tpm-structure``."""

    def __init__(self, *, found: str, expected: str) -> None:
        super().__init__("tpm-structure", found=found, expected=expected)


@dataclass(frozen=True, slots=True)
class Ek:
    """An endorsement key: TPMT_PUBLIC bytes and the certificates (DER, leaf first) found in the TPM's NV."""

    public: bytes
    certificates: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Ak:
    """An attestation key: persistent handle, name (nameAlg ‖ digest) and TPMT_PUBLIC bytes."""

    handle: int
    name: bytes
    public: bytes


@dataclass(frozen=True, slots=True)
class Quote:
    """What TPM2_Quote returned: TPMS_ATTEST bytes and TPMT_SIGNATURE bytes."""

    attest: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class RsaPublic:
    """A parsed TPMT_PUBLIC of an RSA-2048 key."""

    attributes: int
    policy: bytes
    exponent: int
    modulus: bytes


@dataclass(frozen=True, slots=True)
class EccPublic:
    """A parsed TPMT_PUBLIC of a P-256 ECDSA key; ``x`` and ``y`` have 32 bytes each."""

    attributes: int
    policy: bytes
    x: bytes
    y: bytes

    @property
    def point(self) -> bytes:
        """The uncompressed point, 65 bytes."""
        return b"\x04" + self.x + self.y


@dataclass(frozen=True, slots=True)
class QuoteInfo:
    """A parsed TPMS_ATTEST of type quote."""

    qualified_signer: bytes
    extra_data: bytes
    clock_ms: int
    reset_count: int
    restart_count: int
    clock_safe: bool
    firmware_version: int
    pcrs: tuple[int, ...]
    pcr_digest: bytes


@dataclass(frozen=True, slots=True)
class CreationInfo:
    """A parsed TPMS_ATTEST of type creation: this TPM made the object of that name."""

    extra_data: bytes
    object_name: bytes


class Reader:
    """Big-endian fields of one structure, each length checked against what is left."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        if len(data) > MAX_STRUCTURE_BYTES:
            raise StructureError(found=f"{what} of {len(data)} bytes", expected=f"at most {MAX_STRUCTURE_BYTES}")
        self._data = data
        self._at = 0
        self._what = what

    def octets(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        end = self._at + size
        if end > len(self._data):
            found = f"{self._what}: {len(self._data) - self._at} bytes at offset {self._at}"
            raise StructureError(found=found, expected=f"{size}")
        chunk = self._data[self._at : end]
        self._at = end
        return chunk

    def number(self, size: int) -> int:
        """An unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.octets(size), "big")

    def sized(self, most: int) -> bytes:
        """A TPM2B: two length bytes, then at most ``most`` bytes."""
        size = self.number(2)
        if size > most:
            raise self.error(f"a buffer of {size} bytes", f"at most {most}")
        return self.octets(size)

    def expect(self, size: int, value: int, name: str) -> None:
        """A field that has one allowed value."""
        found = self.number(size)
        if found != value:
            raise self.error(f"{name} 0x{found:0{2 * size}x}", f"0x{value:0{2 * size}x}")

    def done(self) -> None:
        """Refuse trailing bytes."""
        if self._at != len(self._data):
            raise self.error(f"{len(self._data) - self._at} bytes after the end", "none")

    def error(self, found: str, expected: str) -> StructureError:
        """The error for this structure."""
        return StructureError(found=f"{self._what}: {found}", expected=expected)


def u16(number: int) -> bytes:
    """Two bytes, big-endian."""
    return number.to_bytes(2, "big")


def u32(number: int) -> bytes:
    """Four bytes, big-endian."""
    return number.to_bytes(4, "big")


def tpm2b(data: bytes) -> bytes:
    """A TPM2B of ``data``."""
    return u16(len(data)) + data


def rsa_template(*, modulus: bytes = bytes(256)) -> bytes:
    """TPMT_PUBLIC of the RSA-2048 EK, template L-1 (TCG EK Credential Profile §B.3.3); zeros make the template."""
    head = u16(ALG_RSA) + u16(ALG_SHA256) + u32(EK_ATTRIBUTES) + tpm2b(EK_POLICY)
    parameters = u16(ALG_AES) + u16(128) + u16(ALG_CFB) + u16(ALG_NULL) + u16(2048) + u32(0)
    return head + parameters + tpm2b(modulus)


def ak_template(*, x: bytes = b"", y: bytes = b"") -> bytes:
    """TPMT_PUBLIC of our AK: restricted ECDSA P-256/SHA-256 signing key; without a point, the template."""
    head = u16(ALG_ECC) + u16(ALG_SHA256) + u32(AK_ATTRIBUTES) + tpm2b(AK_MARKER)
    parameters = u16(ALG_NULL) + u16(ALG_ECDSA) + u16(ALG_SHA256) + u16(CURVE_P256) + u16(ALG_NULL)
    return head + parameters + tpm2b(x) + tpm2b(y)


def parse_rsa_public(data: bytes) -> RsaPublic:
    """Parse the TPMT_PUBLIC of an RSA-2048 storage key with AES-128-CFB. Raises ``StructureError``."""
    reader = Reader(data, "RSA public area")
    reader.expect(2, ALG_RSA, "type")
    reader.expect(2, ALG_SHA256, "name algorithm")
    attributes = reader.number(4)
    policy = reader.sized(64)
    for size, value, name in (
        (2, ALG_AES, "symmetric algorithm"),
        (2, 128, "symmetric key bits"),
        (2, ALG_CFB, "symmetric mode"),
        (2, ALG_NULL, "scheme"),
        (2, 2048, "key bits"),
    ):
        reader.expect(size, value, name)
    exponent = reader.number(4) or 65537  # Part 2 §12.2.3.5: zero stands for 2^16 + 1
    modulus = reader.sized(256)
    reader.done()
    if len(modulus) != 256 or modulus[0] < 0x80:
        raise reader.error(f"a modulus of {8 * len(modulus)} bits or less", "2048 bits")
    return RsaPublic(attributes, policy, exponent, modulus)


def parse_ecc_public(data: bytes) -> EccPublic:
    """Parse the TPMT_PUBLIC of a P-256 ECDSA-SHA256 key. Raises ``StructureError``."""
    reader = Reader(data, "ECC public area")
    reader.expect(2, ALG_ECC, "type")
    reader.expect(2, ALG_SHA256, "name algorithm")
    attributes = reader.number(4)
    policy = reader.sized(64)
    for value, name in (
        (ALG_NULL, "symmetric algorithm"),
        (ALG_ECDSA, "scheme"),
        (ALG_SHA256, "scheme hash"),
        (CURVE_P256, "curve"),
        (ALG_NULL, "KDF"),
    ):
        reader.expect(2, value, name)
    x, y = reader.sized(32), reader.sized(32)
    reader.done()
    return EccPublic(attributes, policy, x.rjust(32, b"\0"), y.rjust(32, b"\0"))


def object_name(public: bytes) -> bytes:
    """The name of an object whose nameAlg is SHA-256 (Part 1 §16): 0x000b ‖ SHA-256(TPMT_PUBLIC)."""
    return u16(ALG_SHA256) + hashlib.sha256(public).digest()


def primary_qualified_name(hierarchy: int, name: bytes) -> bytes:
    """The qualified name of a primary object (Part 1 §26.5): it shows under which hierarchy it lies."""
    return u16(ALG_SHA256) + hashlib.sha256(u32(hierarchy) + name).digest()


def parse_quote(data: bytes) -> QuoteInfo:
    """Parse a TPMS_ATTEST of type quote (Part 2 §10.12.8). Raises ``StructureError``.

    The magic is not judged here: a verifier names that check of its own.
    """
    reader = Reader(data, "attest structure")
    reader.octets(4)
    reader.expect(2, ST_ATTEST_QUOTE, "type")
    signer = reader.sized(66)
    extra = reader.sized(64)
    clock, reset, restart = reader.number(8), reader.number(4), reader.number(4)
    safe = reader.number(1)
    if safe > 1:
        raise reader.error(f"a yes/no of {safe}", "0 or 1")
    firmware = reader.number(8)
    reader.expect(4, 1, "number of PCR selections")
    reader.expect(2, ALG_SHA256, "PCR bank")
    reader.expect(1, PCR_COUNT // 8, "selection bytes")
    selection = reader.octets(PCR_COUNT // 8)
    digest = reader.sized(DIGEST_BYTES)
    reader.done()
    return QuoteInfo(
        qualified_signer=signer,
        extra_data=extra,
        clock_ms=clock,
        reset_count=reset,
        restart_count=restart,
        clock_safe=bool(safe),
        firmware_version=firmware,
        pcrs=tuple(pcr for pcr in range(PCR_COUNT) if selection[pcr // 8] >> (pcr % 8) & 1),
        pcr_digest=digest,
    )


def parse_creation(data: bytes) -> CreationInfo:
    """Parse a TPMS_ATTEST of type creation (Part 2 §10.12.7), object named by SHA-256. Raises ``StructureError``."""
    reader = Reader(data, "creation structure")
    reader.octets(4)
    reader.expect(2, ST_ATTEST_CREATION, "type")
    reader.sized(66)  # qualified signer
    extra = reader.sized(64)
    reader.octets(8 + 4 + 4)  # clock, reset count, restart count: the quote's are judged
    if reader.number(1) > 1:
        raise reader.error("a yes/no above 1", "0 or 1")
    reader.octets(8)  # firmware version
    name = reader.sized(2 + DIGEST_BYTES)
    reader.sized(DIGEST_BYTES)  # creation hash
    reader.done()
    return CreationInfo(extra, name)


def quote_magic(data: bytes) -> int:
    """The first four bytes of an attest structure; 0 where there are none."""
    return int.from_bytes(data[:4], "big") if len(data) >= 4 else 0


def parse_ecdsa_signature(data: bytes) -> tuple[int, int]:
    """r and s of a TPMT_SIGNATURE of ECDSA with SHA-256 (Part 2 §11.3.4). Raises ``StructureError``."""
    reader = Reader(data, "signature")
    reader.expect(2, ALG_ECDSA, "signature algorithm")
    reader.expect(2, ALG_SHA256, "signature hash")
    r, s = reader.sized(32), reader.sized(32)
    reader.done()
    return int.from_bytes(r, "big"), int.from_bytes(s, "big")


def pcr_selection(pcrs: Iterable[int]) -> bytes:
    """The three selection bytes of a set of PCRs. Raises ``StructureError`` for one outside 0..23."""
    bits = bytearray(PCR_COUNT // 8)
    for pcr in pcrs:
        if not 0 <= pcr < PCR_COUNT:
            raise StructureError(found=f"PCR {pcr}", expected=f"0..{PCR_COUNT - 1}")
        bits[pcr // 8] |= 1 << (pcr % 8)
    return bytes(bits)


def composite_digest(values: Mapping[int, bytes]) -> bytes:
    """SHA-256 over the PCR values in ascending order, as TPM2_Quote makes it (Part 1 §17.6)."""
    return hashlib.sha256(b"".join(values[pcr] for pcr in sorted(values))).digest()


def extend(value: bytes, digest: bytes) -> bytes:
    """The PCR after an extend: SHA-256(value ‖ digest)."""
    return hashlib.sha256(value + digest).digest()
