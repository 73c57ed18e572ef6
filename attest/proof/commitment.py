"""What a command carries in place of a proof that follows: a commitment to the statement that will be proven.

Groth16 proofs are randomised, so the proof does not exist yet when the command is signed; the statement does. The
commitment fixes the key, every input, every output and the context: only a proof of exactly this command can follow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from attest.proof.circuit import Curve
from attest.proof.signals import to_signals

COMMITMENT_DOMAIN: Final = b"sits-deferred-1"
COMMITMENT_BYTES: Final = 32
_SIGNAL_BYTES: Final = 32  # the scalar fields of both curves have at most 255 bits


def statement_commitment(
    vk_sha256: bytes, inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, *, curve: Curve
) -> bytes:
    """SHA-256 of the domain, the key's hash (32 bytes) and the public signals, each 32 bytes big-endian.

    ``inputs`` and ``outputs`` are signed 64-bit integers, ``ctx`` 31 bytes; the signals are those of evidence rules §3,
    so a negative value depends on ``curve``. Raises :class:`~attest.proof.errors.ProofRefused` (``signal-range``).
    """
    signals = to_signals(inputs, outputs, ctx, n_public=len(inputs) + len(outputs) + 1, curve=curve)
    body = b"".join(signal.to_bytes(_SIGNAL_BYTES, "big") for signal in signals)
    return hashlib.sha256(COMMITMENT_DOMAIN + vk_sha256 + body).digest()
