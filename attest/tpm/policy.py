"""Policy digests computed without a TPM (TPM 2.0 Library Part 3 §23; Part 1 §19.7), equal to a trial session's.

Every function takes the digest so far (32 zero bytes at the start) and gives the next one; SHA-256 throughout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from attest.structures import ALG_SHA256, DIGEST_BYTES, composite_digest, pcr_selection, u16, u32

START: Final = bytes(DIGEST_BYTES)
CC_POLICY_NV: Final = 0x149
CC_POLICY_SECRET: Final = 0x151
CC_SIGN: Final = 0x15D
CC_UNSEAL: Final = 0x15E
CC_POLICY_AUTHORIZE: Final = 0x16A
CC_POLICY_COMMAND_CODE: Final = 0x16C
CC_POLICY_PCR: Final = 0x17F
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


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
