"""Verification keys and proofs as values: strict decoding without any curve library.

Source of the lint: evidence rules §3; why γ = δ is fatal: the last two pairings of the equation then fold into one and
C can be chosen to cancel the statement, so anybody forges proofs without a witness.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Final

from attest.proof.circuit import SIGNALS_MAX, Curve
from attest.proof.errors import KEY_HASH, KEY_LINT, PROOF_POINT, ProofRefused
from attest.proof.points import G1Point, G2Point, PairingCurve, PointFault

VK_MAGIC: Final = b"SITSVK01"
PUBLIC_MAX: Final = 2 * SIGNALS_MAX + 1
"""Inputs and outputs each at their limit, and ctx."""

_HEADER: Final = struct.Struct(">8sBI")


@dataclass(frozen=True, slots=True)
class Proof:
    """A, B, C of Groth16; on the curve, never infinity."""

    a: G1Point
    b: G2Point
    c: G1Point
    curve: Curve = Curve.BN254

    def encode(self) -> bytes:
        it = self.curve.parameters
        return it.g1_compress(self.a) + it.g2_compress(self.b) + it.g1_compress(self.c)

    @classmethod
    def decode(cls, data: bytes, curve: Curve = Curve.BN254) -> Proof:
        """128 bytes on BN254, 192 on BLS12-381; raises :class:`ProofRefused` (``proof-point``)."""
        it = curve.parameters
        expected = f"{it.proof_bytes} bytes: canonical points on the curve, none at infinity"
        if len(data) != it.proof_bytes:
            raise ProofRefused(PROOF_POINT, found=f"{len(data)} bytes", expected=expected)
        b_at, c_at = it.g1_bytes, it.g1_bytes + it.g2_bytes
        try:
            a, b, c = it.g1_decompress(data[:b_at]), it.g2_decompress(data[b_at:c_at]), it.g1_decompress(data[c_at:])
        except PointFault as fault:
            raise ProofRefused(PROOF_POINT, found=str(fault), expected=expected) from fault
        if a is None or b is None or c is None:
            raise ProofRefused(PROOF_POINT, found="a point at infinity", expected=expected)
        return cls(a, b, c, curve)


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """``ic`` has one point for the constant and one per public signal."""

    alpha: G1Point
    beta: G2Point
    gamma: G2Point
    delta: G2Point
    ic: tuple[G1Point, ...]
    curve: Curve = Curve.BN254

    @property
    def n_public(self) -> int:
        return len(self.ic) - 1

    def encode(self) -> bytes:
        it = self.curve.parameters
        g2 = b"".join(it.g2_compress(point) for point in (self.beta, self.gamma, self.delta))
        ic = b"".join(it.g1_compress(point) for point in self.ic)
        return _HEADER.pack(VK_MAGIC, self.curve, self.n_public) + it.g1_compress(self.alpha) + g2 + ic

    @staticmethod
    def curve_of(data: bytes) -> Curve:
        """The curve a binary key names; raises :class:`ProofRefused` (``key-lint``) if there is no whole header."""
        if len(data) < _HEADER.size:
            raise _lint(f"{len(data)} bytes", f"a header of {_HEADER.size}")
        magic, curve, _ = _HEADER.unpack_from(data)
        if magic != VK_MAGIC or curve not in list(Curve):
            raise _lint(f"magic {magic!r}, curve {curve}", f"{VK_MAGIC!r}, curve 1 (BN254) or 2 (BLS12-381)")
        return Curve(curve)

    @classmethod
    def decode(cls, data: bytes, *, fixed_gamma: bool = False) -> VerificationKey:
        """Decodes and lints; raises :class:`ProofRefused` (``key-lint``). Subgroups are left to the verifier."""
        curve, (_, _, n_public) = cls.curve_of(data), _HEADER.unpack_from(data)
        if not 1 <= n_public <= PUBLIC_MAX:
            raise _lint(f"{n_public} public signals", f"1 to {PUBLIC_MAX}")
        it = curve.parameters
        g2_at = [_HEADER.size + it.g1_bytes + i * it.g2_bytes for i in range(3)]
        ic_at = g2_at[-1] + it.g2_bytes
        size = ic_at + (n_public + 1) * it.g1_bytes
        if len(data) != size:
            raise _lint(f"{len(data)} bytes", f"{size} for {n_public} signals on {curve.text}")
        beta, gamma, delta = (_g2(it, data[at : at + it.g2_bytes]) for at in g2_at)
        alpha = _g1(it, data[_HEADER.size : _HEADER.size + it.g1_bytes])
        ic = tuple(_g1(it, data[at : at + it.g1_bytes]) for at in range(ic_at, len(data), it.g1_bytes))
        key = cls(alpha, beta, gamma, delta, ic, curve)
        key.lint(fixed_gamma=fixed_gamma)
        return key

    def lint(self, *, fixed_gamma: bool = False) -> None:
        """Raises :class:`ProofRefused` (``key-lint``) for a key under which proofs mean nothing.

        ``fixed_gamma`` accepts the generator as γ, as ceremonies after Bowe, Gabizon and Miers (2017) leave it: sound,
        but none of our own keys looks like that, so only interoperability asks for it. The x of ±P are equal, so
        comparing x refuses the negated point as well.
        """
        it = self.curve.parameters
        if self.gamma.x == self.delta.x:
            raise _lint("gamma = delta up to sign", "gamma and delta independent: else anyone forges proofs")
        secret = [self.beta, self.delta]
        if not (fixed_gamma and self.gamma == it.g2_generator):
            secret.append(self.gamma)
        if any(point.x == it.g2_generator.x for point in secret):
            raise _lint("a generator as beta, gamma or delta", "points nobody knows the logarithm of")
        if any(point.x == it.g1_generator.x for point in (self.alpha, *self.ic)):
            raise _lint("a generator as alpha or IC", "points nobody knows the logarithm of")
        if len({point.x for point in self.ic}) != len(self.ic):
            raise _lint("two IC points equal up to sign", "distinct IC points: else two signals can trade places")


def _lint(found: str, expected: str) -> ProofRefused:
    return ProofRefused(
        KEY_LINT, found=found, expected=expected, hint="the verification key must come from an honest setup"
    )


def _g1(it: PairingCurve, data: bytes) -> G1Point:
    try:
        point = it.g1_decompress(data)
    except PointFault as fault:
        raise _lint(f"a G1 point {fault}", "canonical points on the curve") from fault
    if point is None:
        raise _lint("a point at infinity", "no point at infinity")
    return point


def _g2(it: PairingCurve, data: bytes) -> G2Point:
    try:
        point = it.g2_decompress(data)
    except PointFault as fault:
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
