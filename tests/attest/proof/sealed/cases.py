"""One small sealed circuit, y = max(0, x0 + 2·x1 - x2), with a box whose edges need both distances, one, or none."""

from __future__ import annotations

from functools import cache

from attest.proof import Circuit, CircuitBuilder, Curve, Interval
from attest.proof.sealed import LinearRelation, SealedCircuit, seal

BOX = (Interval(-5, 14), Interval(-8, 7), Interval(3, 3))
"""Width 19 needs both distances, 15 ends at a power of two, 0 is one value."""
LIMITS = (Interval(-10, 40),)
BALANCE = LinearRelation("balance", ((0, 1), (1, 1)), (), low=-9, high=17)
"""Within the box x0 + x1 reaches -13 … 21, so both bounds bind."""
TRIM = LinearRelation("trim", ((0, -2),), ((0, 3),), high=40)
RELATIONS = (BALANCE, TRIM)
X = (6, -3, 3)
"""x0 + 2·x1 - x2 = -3, hence y = 0; balance 3; trim -12."""
X_OTHER = (4, -3, 3)
"""Another input with the same output."""
CTX = bytes(range(31))
SALT = bytes(range(100, 131))


def model(x: tuple[int, ...]) -> int:
    return max(0, x[0] + 2 * x[1] - x[2])


@cache
def open_circuit() -> Circuit:
    builder = CircuitBuilder(n_inputs=3, n_outputs=1)
    a, b, c = builder.inputs()
    builder.add_out(0, builder.relu_shift(a + 2 * b - c, Interval(-5 - 16 - 3, 14 + 14 - 3)))
    return builder.finish()


@cache
def sealed(curve: Curve = Curve.BN254) -> SealedCircuit:
    return seal(open_circuit(), box=BOX, output_limits=LIMITS, relations=RELATIONS, curve=curve)
