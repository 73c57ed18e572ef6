"""Public signals: [x_0 … x_{n-1}, y_0 … y_{m-1}, ctx] as field elements, one encoding per value."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Final

from attest.proof.circuit import Curve
from attest.proof.errors import SIGNAL_COUNT, SIGNAL_RANGE, ProofRefused

CTX_BYTES: Final = 31
"""248 bits: always below r, on both curves."""
VALUE_MIN: Final = -(1 << 63)
VALUE_MAX: Final = (1 << 63) - 1
"""Inputs and outputs are 64-bit integers, far below r/2, so v and r - |v| never meet another value."""


def require_count(found: int, n_public: int) -> None:
    """Raises :class:`ProofRefused` (``signal-count``)."""
    if found != n_public:
        raise ProofRefused(SIGNAL_COUNT, found=f"{found} public signals", expected=f"{n_public}")


def require_canonical(signals: Sequence[int], *, curve: Curve) -> None:
    """Raises :class:`ProofRefused` (``signal-range``) unless 0 <= signal < r for every signal."""
    r = curve.parameters.r
    for i, signal in enumerate(signals):
        if not 0 <= index(signal) < r:
            raise ProofRefused(SIGNAL_RANGE, found=f"signal {i} = {signal}", expected="0 <= signal < r")


def to_signals(inputs: Sequence[int], outputs: Sequence[int], ctx: bytes, *, n_public: int, curve: Curve) -> list[int]:
    """The field elements of a command: a negative value v becomes r - |v|.

    Raises :class:`ProofRefused`: ``signal-count`` first, then ``signal-range`` (a value outside 64 bits, a context
    that is not 31 bytes long).
    """
    require_count(len(inputs) + len(outputs) + 1, n_public)
    r, signals = curve.parameters.r, []
    for i, value in enumerate((*inputs, *outputs)):
        if not VALUE_MIN <= index(value) <= VALUE_MAX:
            raise ProofRefused(SIGNAL_RANGE, found=f"value {i} = {value}", expected="a signed 64-bit integer")
        signals.append(index(value) % r)
    if len(ctx) != CTX_BYTES:
        raise ProofRefused(SIGNAL_RANGE, found=f"a ctx of {len(ctx)} bytes", expected=f"{CTX_BYTES}")
    return [*signals, int.from_bytes(ctx, "big")]
