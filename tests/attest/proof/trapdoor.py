"""Keys whose secrets the test knows, and proofs simulated with them: any statement, true or false, without a prover.

With α, β, γ, δ and the exponents k_i of IC known, C = (a·b - αβ - γ·Σ k_i x_i) / δ completes any a and b (the
zero-knowledge simulator of Groth 2016, theorem 2). So the verifiers can be tested alone, without the Rust core.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from attest.proof import Curve, pyecc
from attest.proof.keys import Proof, VerificationKey
from attest.proof.points import G1Point, G2Point


@dataclass(frozen=True, slots=True)
class Trapdoor:
    """Secrets of a key; ``k`` has one exponent for the constant and one per public signal."""

    curve: Curve
    alpha: int
    beta: int
    gamma: int
    delta: int
    k: tuple[int, ...]

    @classmethod
    def make(cls, curve: Curve, n_public: int, seed: int = 1) -> Trapdoor:
        rng, r = random.Random(seed), curve.parameters.r
        alpha, beta, gamma, delta = (rng.randrange(2, r) for _ in range(4))
        return cls(curve, alpha, beta, gamma, delta, tuple(rng.randrange(2, r) for _ in range(n_public + 1)))

    def g1(self, scalar: int) -> G1Point:
        lib = pyecc.pairing(self.curve).lib
        x, y = lib.normalize(lib.multiply(lib.G1, scalar % self.curve.parameters.r))
        return G1Point(int(x.n), int(y.n))

    def g2(self, scalar: int) -> G2Point:
        lib = pyecc.pairing(self.curve).lib
        x, y = (
            (int(c.coeffs[0]), int(c.coeffs[1]))
            for c in lib.normalize(lib.multiply(lib.G2, scalar % self.curve.parameters.r))
        )
        return G2Point(x, y)

    def key(self) -> VerificationKey:
        g2 = [self.g2(scalar) for scalar in (self.beta, self.gamma, self.delta)]
        return VerificationKey(self.g1(self.alpha), *g2, tuple(self.g1(k) for k in self.k), self.curve)

    def prove(self, signals: Sequence[int], seed: int = 2) -> bytes:
        """A proof of any statement."""
        rng, r = random.Random(seed), self.curve.parameters.r
        a, b = rng.randrange(1, r), rng.randrange(1, r)
        statement = self.k[0] + sum(k * x for k, x in zip(self.k[1:], signals, strict=True))
        c = (a * b - self.alpha * self.beta - self.gamma * statement) * pow(self.delta, -1, r)
        return Proof(self.g1(a), self.g2(b), self.g1(c), self.curve).encode()
