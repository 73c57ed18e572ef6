"""Policy digests computed without a TPM (TPM 2.0 Library Part 3 §23; Part 1 §19.7), equal to a trial session's.

The functions named ``policy_…`` of one TPM command take the digest so far (32 zero bytes at the start) and give the
next one; SHA-256 throughout. The last four are the policy that sealed objects of a device carry: a verifier computes
it again, so it lives beside ``structures`` and not in the room of the device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from attest.structures import (
    ALG_ECC,
    ALG_ECDSA,
    ALG_NULL,
    ALG_SHA256,
    CURVE_P256,
    DIGEST_BYTES,
    SIGN,
    USER_WITH_AUTH,
    composite_digest,
    object_name,
    pcr_selection,
    tpm2b,
    u16,
    u32,
)

START: Final = bytes(DIGEST_BYTES)
CC_POLICY_NV: Final = 0x149
CC_POLICY_SECRET: Final = 0x151
CC_SIGN: Final = 0x15D
CC_UNSEAL: Final = 0x15E
CC_POLICY_AUTHORIZE: Final = 0x16A
CC_POLICY_COMMAND_CODE: Final = 0x16C
CC_POLICY_PCR: Final = 0x17F
POINT_BYTES: Final = 64  # x ‖ y of a P-256 key
_REFERENCE_PREFIX: Final = b"sits-seal-v1"
EO_UNSIGNED_LE: Final = 0x0009  # the index's value is at most the operand (Part 2 §6.8)


def policy_pcr(digest: bytes, values: Mapping[int, bytes]) -> bytes:
    """PolicyPCR: these PCRs of the SHA-256 bank have these values."""
    bits = pcr_selection(values)
    selection = u32(1) + u16(ALG_SHA256) + bytes([len(bits)]) + bits
    return _hash(digest + u32(CC_POLICY_PCR) + selection + composite_digest(values))


def policy_nv(digest: bytes, *, name: bytes, operand: bytes, operation: int) -> bytes:
    """PolicyNV at offset 0: the content of the index named ``name`` compares so with ``operand``."""
    return _hash(digest + u32(CC_POLICY_NV) + _hash(operand + u16(0) + u16(operation)) + name)


def policy_command_code(digest: bytes, code: int) -> bytes:
    """PolicyCommandCode: only for this command."""
    return _hash(digest + u32(CC_POLICY_COMMAND_CODE) + u32(code))


def policy_secret(digest: bytes, *, name: bytes, reference: bytes = b"") -> bytes:
    """PolicySecret: whoever knows the password of the entity named ``name``."""
    return _hash(_hash(digest + u32(CC_POLICY_SECRET) + name) + reference)


def policy_authorize(*, key_name: bytes, reference: bytes) -> bytes:
    """PolicyAuthorize: any policy that the key named ``key_name`` signed for ``reference``; what was before goes."""
    return _hash(_hash(START + u32(CC_POLICY_AUTHORIZE) + key_name) + reference)


def authorized_digest(approved: bytes, *, reference: bytes) -> bytes:
    """aHash: what the authority signs so that ``approved`` satisfies PolicyAuthorize for ``reference``."""
    return _hash(approved + reference)


def policy_reference(device: bytes) -> bytes:
    """policyRef of everything sealed on the device whose AK has the name ``device``."""
    return hashlib.sha256(_REFERENCE_PREFIX + device).digest()


def authority_public(authority: bytes) -> bytes:
    """TPMT_PUBLIC of the policy authority's ECDSA P-256 key (x ‖ y), to be loaded for checking signatures only."""
    half = POINT_BYTES // 2
    head = u16(ALG_ECC) + u16(ALG_SHA256) + u32(USER_WITH_AUTH | SIGN) + tpm2b(b"")
    parameters = u16(ALG_NULL) + u16(ALG_ECDSA) + u16(ALG_SHA256) + u16(CURVE_P256) + u16(ALG_NULL)
    return head + parameters + tpm2b(authority[:half]) + tpm2b(authority[half:])


def authority_name(authority: bytes) -> bytes:
    """The TPM name of the authority's key (x ‖ y)."""
    return object_name(authority_public(authority))


def sealing_policy(authority: bytes, device: bytes) -> bytes:
    """The policy that sealed objects carry, PolicyAuthorize(authority, policyRef); it never changes."""
    return policy_authorize(key_name=authority_name(authority), reference=policy_reference(device))


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
