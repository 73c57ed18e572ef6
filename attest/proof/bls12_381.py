"""BLS12-381 in plain integers: constants and the compressed point encodings that its users share.

Parameters and encodings of draft-irtf-cfrg-pairing-friendly-curves (4.2.1 and appendix C): E: y² = x³ + 4 over F_p,
twist E': y² = x³ + 4(1 + i) over F_p[i]. Flags are the three top bits: compressed (always 1 here), infinity, larger y.
Unlike BN254, E has a cofactor: a point of E can lie outside G1, so G1 needs a subgroup check too.
"""

from __future__ import annotations

from typing import Final

from attest.proof.points import Fp2, G1Point, G2Point, PairingCurve, PointFault

P: Final = int("1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16)
"""Modulus of the base field."""
R: Final = int("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001", 16)
"""Order of the groups; modulus of the scalar field."""

G1_BYTES: Final = 48
G2_BYTES: Final = 96

CURVE: Final = PairingCurve(
    p=P,
    r=R,
    b=4,
    twist_b=(4, 4),
    g1_generator=G1Point(
        int("17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb", 16),
        int("08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1", 16),
    ),
    g2_generator=G2Point(
        (
            int("024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8", 16),
            int("13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e", 16),
        ),
        (
            int("0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801", 16),
            int("0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be", 16),
        ),
    ),
    coordinate_bytes=G1_BYTES,
    flag_mask=0b1110_0000,
    smaller=0b1000_0000,
    larger=0b1010_0000,
    infinity=0b1100_0000,
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
