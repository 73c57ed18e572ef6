"""The closed vocabularies of the command format (evidence rules §4, keys 12, 13 and 15)."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final


class Mode(IntEnum):
    """Operating mode, in rising order of what may reach the plant without a person."""

    OFF = 0
    SHADOW = 1
    ADVISORY = 2
    SUPERVISED = 3
    AUTO = 4


class ProofKind(IntEnum):
    """What key 14 of a command holds."""

    NONE = 0
    GROTH16_BN254 = 1
    GROTH16_BLS12_381 = 2
    COMMITMENT = 3


class TimeQuality(IntEnum):
    """How well the deciding clock was disciplined; a larger value is a better clock."""

    FREE = 0
    NTP = 1
    PTP_SW = 2
    PTP_HW = 3


class ProofPolicy(StrEnum):
    """What the gate demands of key 13."""

    INLINE = "inline"
    DEFERRED = "deferred"
    OFF = "off"


class ReadBack(StrEnum):
    """What the plant showed after a write; ``NOT_WRITTEN`` where the mode records without writing."""

    OK = "ok"
    NOT_APPLIED = "not-applied"
    PENDING = "pending"
    NOT_WRITTEN = "not-written"


PROOF_BYTES: Final = {
    ProofKind.NONE: 0,
    ProofKind.GROTH16_BN254: 128,  # compressed G1, G2, G1
    ProofKind.GROTH16_BLS12_381: 192,
    ProofKind.COMMITMENT: 32,  # SHA-256 of the statement whose proof follows (attest.proof.commitment)
}
INLINE_PROOFS: Final = frozenset({ProofKind.GROTH16_BN254, ProofKind.GROTH16_BLS12_381})
