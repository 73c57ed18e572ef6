"""Verification keys and proofs as values: strict decoding without any curve library.

Source of the lint: evidence rules §3; why γ = δ is fatal: the last two pairings of the equation then fold into one and
C can be chosen to cancel the statement, so anybody forges proofs without a witness.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from attest.proof import bn254
from attest.proof.circuit import SIGNALS_MAX, Curve
from attest.proof.errors import KEY_HASH, KEY_LINT, PROOF_POINT, ProofRefused

VK_MAGIC: Final = b"SITSVK01"
PROOF_BYTES: Final = 2 * bn254.G1_BYTES + bn254.G2_BYTES
PUBLIC_MAX: Final = 2 * SIGNALS_MAX + 1
"""Inputs and outputs each at their limit, and ctx."""

_HEADER: Final = struct.Struct(">8sBI")
_G1_GENERATOR_X: Final = 1
_G2_GENERATOR_X: Final = (
    10857046999023057135944570762232829481370756359578518086990519993285655852781,
    11559732032986387107991004021392285783925812861821192530917403151452391805634,
)
"""Generators of EIP-196 and EIP-197; comparing x refuses the negated generator as well."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A, B, C of Groth16; on the curve, never infinity."""

    a: bn254.G1Point
    b: bn254.G2Point
    c: bn254.G1Point

    def encode(self) -> bytes:
        return bn254.g1_compress(self.a) + bn254.g2_compress(self.b) + bn254.g1_compress(self.c)

    @classmethod
    def decode(cls, data: bytes) -> Proof:
        """128 bytes; raises :class:`ProofRefused` (``proof-point``)."""
        expected = "128 bytes: canonical points on the curve, none at infinity"
        if len(data) != PROOF_BYTES:
            raise ProofRefused(PROOF_POINT, found=f"{len(data)} bytes", expected=expected)
        try:
            a, b, c = (
                bn254.g1_decompress(data[:32]),
                bn254.g2_decompress(data[32:96]),
                bn254.g1_decompress(data[96:]),
            )
        except bn254.PointFault as fault:
            raise ProofRefused(PROOF_POINT, found=str(fault), expected=expected) from fault
        if a is None or b is None or c is None:
            raise ProofRefused(PROOF_POINT, found="a point at infinity", expected=expected)
        return cls(a, b, c)


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """``ic`` has one point for the constant and one per public signal."""

    alpha: bn254.G1Point
    beta: bn254.G2Point
    gamma: bn254.G2Point
    delta: bn254.G2Point
    ic: tuple[bn254.G1Point, ...]

    @property
    def n_public(self) -> int:
        return len(self.ic) - 1

    def encode(self) -> bytes:
        g2 = b"".join(bn254.g2_compress(point) for point in (self.beta, self.gamma, self.delta))
        ic = b"".join(bn254.g1_compress(point) for point in self.ic)
        return _HEADER.pack(VK_MAGIC, Curve.BN254, self.n_public) + bn254.g1_compress(self.alpha) + g2 + ic

    @classmethod
    def decode(cls, data: bytes) -> VerificationKey:
        """Decodes and lints; raises :class:`ProofRefused` (``key-lint``). Subgroups are left to the verifier."""
        ic_at = _HEADER.size + bn254.G1_BYTES + 3 * bn254.G2_BYTES
        if len(data) < ic_at:
            raise _lint(f"{len(data)} bytes", f"at least {ic_at}")
        magic, curve, n_public = _HEADER.unpack_from(data)
        if magic != VK_MAGIC or curve != Curve.BN254:
            raise _lint(f"magic {magic!r}, curve {curve}", f"{VK_MAGIC!r}, curve 1 (BN254)")
        if not 1 <= n_public <= PUBLIC_MAX:
            raise _lint(f"{n_public} public signals", f"1 to {PUBLIC_MAX}")
        if len(data) != ic_at + (n_public + 1) * bn254.G1_BYTES:
            raise _lint(f"{len(data)} bytes", f"{ic_at + (n_public + 1) * bn254.G1_BYTES} for {n_public} signals")
        g2_at = [_HEADER.size + bn254.G1_BYTES + i * bn254.G2_BYTES for i in range(3)]
        beta, gamma, delta = (_g2(data[at : at + bn254.G2_BYTES]) for at in g2_at)
        alpha = _g1(data[_HEADER.size : _HEADER.size + bn254.G1_BYTES])
        ic = tuple(_g1(data[at : at + bn254.G1_BYTES]) for at in range(ic_at, len(data), bn254.G1_BYTES))
        key = cls(alpha, beta, gamma, delta, ic)
        key.lint()
        return key

    def lint(self) -> None:
        """Raises :class:`ProofRefused` (``key-lint``) for a key under which proofs mean nothing."""
        if self.gamma.x == self.delta.x:
            raise _lint("gamma = delta up to sign", "gamma and delta independent: else anyone forges proofs")
        if any(point.x == _G2_GENERATOR_X for point in (self.beta, self.gamma, self.delta)):
            raise _lint("a generator as beta, gamma or delta", "points nobody knows the logarithm of")
        if any(point.x == _G1_GENERATOR_X for point in (self.alpha, *self.ic)):
            raise _lint("a generator as alpha or IC", "points nobody knows the logarithm of")
        if len({point.x for point in self.ic}) != len(self.ic):
            raise _lint("two IC points equal up to sign", "distinct IC points: else two signals can trade places")


def _lint(found: str, expected: str) -> ProofRefused:
    return ProofRefused(
        KEY_LINT, found=found, expected=expected, hint="the verification key must come from an honest setup"
    )


def _g1(data: bytes) -> bn254.G1Point:
    try:
        point = bn254.g1_decompress(data)
    except bn254.PointFault as fault:
        raise _lint(f"a G1 point {fault}", "canonical points on the curve") from fault
    if point is None:
        raise _lint("a point at infinity", "no point at infinity")
    return point


def _g2(data: bytes) -> bn254.G2Point:
    try:
        point = bn254.g2_decompress(data)
    except bn254.PointFault as fault:
        raise _lint(f"a G2 point {fault}", "canonical points on the curve") from fault
    if point is None:
        raise _lint("a point at infinity", "no point at infinity")
    return point


def key_hash(verification_key: bytes) -> bytes:
    """SHA-256 of the binary key: what a bundle pins."""
    return hashlib.sha256(verification_key).digest()


def require_key_hash(verification_key: bytes, pinned: bytes) -> None:
    """Raises :class:`ProofRefused` (``key-hash``) unless the key is the pinned one."""
    found = key_hash(verification_key)
    if found != pinned:
        raise ProofRefused(
            KEY_HASH,
            found=found.hex(),
            expected=pinned.hex(),
            hint="the key file is not the one the bundle pins",
        )
