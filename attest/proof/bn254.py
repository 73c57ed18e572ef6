"""BN254 in plain integers: constants and the canonical point encodings of docs/interfaces.md.

The curve is alt_bn128 of EIP-196/EIP-197: E: y² = x³ + 3 over F_p, twist E': y² = x³ + 3/(9 + i) over F_p[i]. Flags are
the two top bits: 10 smaller y, 11 larger y, 01 infinity. G1 has cofactor 1: every point of E is in the group.
"""

from __future__ import annotations

from typing import Final

from attest.proof.points import Fp2, G1Point, G2Point, PairingCurve, PointFault

P: Final = 21888242871839275222246405745257275088696311157297823662689037894645226208583
"""Modulus of the base field."""
R: Final = 21888242871839275222246405745257275088548364400416034343698204186575808495617
"""Order of the groups; modulus of the scalar field."""

G1_BYTES: Final = 32
G2_BYTES: Final = 64

CURVE: Final = PairingCurve(
    p=P,
    r=R,
    b=3,
    twist_b=(
        19485874751759354771024239261021720505790618469301721065564631296452457478373,
        266929791119991161246907387137283842545076965332900288569378510910307636690,
    ),
    g1_generator=G1Point(1, 2),
    g2_generator=G2Point(
        (
            10857046999023057135944570762232829481370756359578518086990519993285655852781,
            11559732032986387107991004021392285783925812861821192530917403151452391805634,
        ),
        (
            8495653923123431417604973247489272438418190587263600148770280649306958101930,
            4082367875863433681332203403145435568316851327593401208105741076214120093531,
        ),
    ),
    coordinate_bytes=G1_BYTES,
    flag_mask=0b1100_0000,
    smaller=0b1000_0000,
    larger=0b1100_0000,
    infinity=0b0100_0000,
)

g1_on_curve = CURVE.g1_on_curve
g2_on_curve = CURVE.g2_on_curve
g1_decompress = CURVE.g1_decompress
g2_decompress = CURVE.g2_decompress
g1_compress = CURVE.g1_compress
g2_compress = CURVE.g2_compress

__all__ = [
    "CURVE",
    "G1_BYTES",
    "G2_BYTES",
    "Fp2",
    "G1Point",
    "G2Point",
    "P",
    "PairingCurve",
    "PointFault",
    "R",
    "g1_compress",
    "g1_decompress",
    "g1_on_curve",
    "g2_compress",
    "g2_decompress",
    "g2_on_curve",
]
