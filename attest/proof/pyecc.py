"""The pairing equation on py_ecc's optimised BN128; no code in common with the Rust core.

py_ecc does not check that a G2 point lies in the prime-order subgroup (the twist has a large cofactor), so
:func:`g2_in_subgroup` does.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attest.proof import bn254
from attest.proof.errors import KEY_LINT, ProofRefused
from attest.proof.keys import Proof, VerificationKey


def _load_bn128() -> Any:
    """py_ecc raises the interpreter's recursion limit to 100,000 on import; a deeply nested JSON text anywhere in the
    process then overflows the C stack (seen) instead of raising RecursionError. So the limit is put back."""
    limit = sys.getrecursionlimit()
    try:
        return importlib.import_module("py_ecc.optimized_bn128")
    finally:
        sys.setrecursionlimit(limit)


bn128 = _load_bn128()

_Point = Any
"""py_ecc's projective points: a tuple of three field elements, untyped in the library."""


@dataclass(frozen=True, slots=True)
class PreparedKey:
    """Points in py_ecc's form; ``alpha_beta`` is the Miller loop of (β, α)."""

    ic: tuple[_Point, ...]
    gamma: _Point
    delta: _Point
    alpha_beta: Any

    @property
    def n_public(self) -> int:
        return len(self.ic) - 1


def _g1(point: bn254.G1Point) -> _Point:
    return bn128.FQ(point.x), bn128.FQ(point.y), bn128.FQ.one()


def _g2(point: bn254.G2Point) -> _Point:
    return bn128.FQ2(list(point.x)), bn128.FQ2(list(point.y)), bn128.FQ2.one()


def g2_in_subgroup(point: bn254.G2Point) -> bool:
    """Whether r · point is infinity."""
    return bool(bn128.is_inf(bn128.multiply(_g2(point), bn254.R)))


def prepare(key: VerificationKey) -> PreparedKey:
    """Raises :class:`ProofRefused` (``key-lint``) if a G2 point is outside the subgroup."""
    for name, point in (("beta", key.beta), ("gamma", key.gamma), ("delta", key.delta)):
        if not g2_in_subgroup(point):
            raise ProofRefused(KEY_LINT, found=f"{name} outside the subgroup", expected="points of prime order")
    return PreparedKey(
        ic=tuple(_g1(point) for point in key.ic),
        gamma=_g2(key.gamma),
        delta=_g2(key.delta),
        alpha_beta=_miller(_g2(key.beta), _g1(key.alpha)),
    )


def _miller(q: _Point, p: _Point) -> Any:
    return bn128.pairing(q, p, final_exponentiate=False)


def pairing_holds(key: PreparedKey, signals: Sequence[int], proof: Proof) -> bool:
    """e(-A, B) · e(α, β) · e(IC(x), γ) · e(C, δ) = 1 with one final exponentiation."""
    statement = key.ic[0]
    for point, signal in zip(key.ic[1:], signals, strict=True):
        statement = bn128.add(statement, bn128.multiply(point, signal))
    product = (
        key.alpha_beta
        * _miller(_g2(proof.b), bn128.neg(_g1(proof.a)))
        * _miller(key.gamma, statement)
        * _miller(key.delta, _g1(proof.c))
    )
    return bool(bn128.final_exponentiate(product) == bn128.FQ12.one())
