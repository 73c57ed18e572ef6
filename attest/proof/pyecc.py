"""The pairing equation on py_ecc's optimised curves; no code in common with the Rust core.

py_ecc does not check that a point lies in the prime-order subgroup (both twists have a large cofactor, and so has
BLS12-381's G1), so :meth:`Pairing.g1_in_subgroup` and :meth:`Pairing.g2_in_subgroup` do, by the definition: r·P = 0.
"""

from __future__ import annotations

import importlib
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from attest.proof.circuit import Curve
from attest.proof.errors import KEY_LINT, PROOF_POINT, ProofRefused
from attest.proof.keys import Proof, VerificationKey
from attest.proof.points import G1Point, G2Point

BATCH_SCALAR_BITS: Final = 128
"""A batch with a false statement passes with a chance of 2^-128 (Bellare, Garay and Rabin 1998, small exponents)."""

_MODULES: Final = {Curve.BN254: "py_ecc.optimized_bn128", Curve.BLS12_381: "py_ecc.optimized_bls12_381"}

_Point = Any
"""py_ecc's projective points: a tuple of three field elements, untyped in the library."""


def _load(name: str) -> Any:
    """py_ecc raises the interpreter's recursion limit to 100,000 on import; a deeply nested JSON text anywhere in the
    process then overflows the C stack (seen) instead of raising RecursionError. So the limit is put back."""
    limit = sys.getrecursionlimit()
    try:
        return importlib.import_module(name)
    finally:
        sys.setrecursionlimit(limit)


@dataclass(frozen=True, slots=True)
class Pairing:
    """Groups and pairing of one curve; ``lib`` is py_ecc's module for it."""

    curve: Curve
    lib: Any

    def g1(self, point: G1Point) -> _Point:
        return self.lib.FQ(point.x), self.lib.FQ(point.y), self.lib.FQ.one()

    def g2(self, point: G2Point) -> _Point:
        return self.lib.FQ2(list(point.x)), self.lib.FQ2(list(point.y)), self.lib.FQ2.one()

    def g1_in_subgroup(self, point: G1Point) -> bool:
        """Whether r · point is infinity; true for every point of BN254, whose cofactor is 1."""
        if self.curve is Curve.BN254:
            return True
        return bool(self.lib.is_inf(self.lib.multiply(self.g1(point), self.curve.parameters.r)))

    def g2_in_subgroup(self, point: G2Point) -> bool:
        """Whether r · point is infinity."""
        return bool(self.lib.is_inf(self.lib.multiply(self.g2(point), self.curve.parameters.r)))

    def combine(self, points: Sequence[_Point], scalars: Sequence[int]) -> _Point:
        """Σ scalar · point, at least one."""
        first, *rest = (self.lib.multiply(point, scalar) for point, scalar in zip(points, scalars, strict=True))
        for term in rest:
            first = self.lib.add(first, term)
        return first

    def miller(self, q: _Point, p: _Point) -> Any:
        return self.lib.pairing(q, p, final_exponentiate=False)

    def is_one(self, product: Any) -> bool:
        """Whether a product of Miller loops is 1 after the final exponentiation."""
        return bool(self.lib.final_exponentiate(product) == self.lib.FQ12.one())


@cache
def pairing(curve: Curve) -> Pairing:
    return Pairing(curve, _load(_MODULES[curve]))


bn128 = pairing(Curve.BN254).lib


@dataclass(frozen=True, slots=True)
class PreparedKey:
    """Points in py_ecc's form; ``alpha_beta`` is the Miller loop of (β, α)."""

    pairing: Pairing
    ic: tuple[_Point, ...]
    gamma: _Point
    delta: _Point
    alpha_beta: Any

    @property
    def curve(self) -> Curve:
        return self.pairing.curve

    @property
    def n_public(self) -> int:
        return len(self.ic) - 1


def g2_in_subgroup(point: G2Point, curve: Curve = Curve.BN254) -> bool:
    """Whether r · point is infinity."""
    return pairing(curve).g2_in_subgroup(point)


def prepare(key: VerificationKey) -> PreparedKey:
    """Raises :class:`ProofRefused` (``key-lint``) if a point is outside its subgroup."""
    engine = pairing(key.curve)
    g1_points = {"alpha": key.alpha} | {f"IC[{i}]": point for i, point in enumerate(key.ic)}
    outside = [name for name, point in g1_points.items() if not engine.g1_in_subgroup(point)]
    g2_points = {"beta": key.beta, "gamma": key.gamma, "delta": key.delta}
    outside += [name for name, point in g2_points.items() if not engine.g2_in_subgroup(point)]
    if outside:
        raise ProofRefused(KEY_LINT, found=f"{outside[0]} outside the subgroup", expected="points of prime order")
    return PreparedKey(
        pairing=engine,
        ic=tuple(engine.g1(point) for point in key.ic),
        gamma=engine.g2(key.gamma),
        delta=engine.g2(key.delta),
        alpha_beta=engine.miller(engine.g2(key.beta), engine.g1(key.alpha)),
    )


def require_subgroup(curve: Curve, proof: Proof) -> None:
    """Raises :class:`ProofRefused` (``proof-point``) unless A, B and C lie in their groups."""
    engine = pairing(curve)
    for name, inside in (
        ("A", engine.g1_in_subgroup(proof.a)),
        ("B", engine.g2_in_subgroup(proof.b)),
        ("C", engine.g1_in_subgroup(proof.c)),
    ):
        if not inside:
            raise ProofRefused(PROOF_POINT, found=f"{name} outside the subgroup", expected="points of prime order")


def pairing_holds(key: PreparedKey, signals: Sequence[int], proof: Proof) -> bool:
    """e(-A, B) · e(α, β) · e(IC(x), γ) · e(C, δ) = 1 with one final exponentiation."""
    engine = key.pairing
    product = (
        key.alpha_beta
        * engine.miller(engine.g2(proof.b), engine.lib.neg(engine.g1(proof.a)))
        * engine.miller(key.gamma, engine.combine(key.ic, (1, *signals)))
        * engine.miller(key.delta, engine.g1(proof.c))
    )
    return engine.is_one(product)


def batch_holds(key: PreparedKey, statements: Sequence[tuple[Sequence[int], Proof]]) -> bool:
    """Whether a random linear combination of the statements' equations holds (each a list of signals and a proof).

    One Miller loop a proof and three for all; the coefficients come from the operating system, so that whoever made
    the proofs cannot arrange for errors to cancel.
    """
    engine, r = key.pairing, key.curve.parameters.r
    weights = [1 + secrets.randbelow((1 << BATCH_SCALAR_BITS) - 1) for _ in statements]
    columns = zip(*((1, *signals) for signals, _ in statements), strict=True)
    sums = [sum(w * s for w, s in zip(weights, column, strict=True)) % r for column in columns]
    product = (
        key.alpha_beta ** sum(weights)
        * engine.miller(key.gamma, engine.combine(key.ic, sums))
        * engine.miller(key.delta, engine.combine([engine.g1(proof.c) for _, proof in statements], weights))
    )
    for weight, (_, proof) in zip(weights, statements, strict=True):
        a = engine.lib.multiply(engine.g1(proof.a), weight)
        product *= engine.miller(engine.g2(proof.b), engine.lib.neg(a))
    return engine.is_one(product)
