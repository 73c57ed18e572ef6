"""BN254 in plain integers: constants and the canonical point encodings of docs/interfaces.md.

The curve is alt_bn128 of EIP-196/EIP-197: E: y² = x³ + 3 over F_p, twist E': y² = x³ + 3/(9 + i) over F_p[i].
Decoders accept exactly one encoding of each point and check the curve equation; G1 has cofactor 1, membership of G2
points in the subgroup is checked where curve arithmetic is at hand (:mod:`attest.proof.pyecc`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

P: Final = 21888242871839275222246405745257275088696311157297823662689037894645226208583
"""Modulus of the base field."""
R: Final = 21888242871839275222246405745257275088548364400416034343698204186575808495617
"""Order of the groups; modulus of the scalar field."""

G1_BYTES: Final = 32
G2_BYTES: Final = 64

_FLAGS: Final = 0b1100_0000
_SMALLER: Final = 0b1000_0000
_LARGER: Final = 0b1100_0000
_INFINITY: Final = 0b0100_0000
_HALF: Final = (P - 1) // 2

Fp2 = tuple[int, int]
"""(real, imaginary)."""


class PointFault(ValueError):
    """Bytes or coordinates that are not a point; the text says why."""


@dataclass(frozen=True, slots=True)
class G1Point:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class G2Point:
    x: Fp2
    y: Fp2


def _mul2(a: Fp2, b: Fp2) -> Fp2:
    return (a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P


def _inverse2(a: Fp2) -> Fp2:
    norm = pow(a[0] * a[0] + a[1] * a[1], -1, P)
    return a[0] * norm % P, -a[1] * norm % P


_TWIST_B: Final = _mul2((3, 0), _inverse2((9, 1)))


def _twist_rhs(x: Fp2) -> Fp2:
    cube = _mul2(_mul2(x, x), x)
    return (cube[0] + _TWIST_B[0]) % P, (cube[1] + _TWIST_B[1]) % P


def _sqrt(a: int) -> int | None:
    """Root for p = 3 mod 4."""
    root = pow(a, (P + 1) // 4, P)
    return root if root * root % P == a else None


def _sqrt2(a: Fp2) -> Fp2 | None:
    """Root in F_p[i] by the norm: x0² = (a0 ± |a|)/2, x1 = a1/(2·x0)."""
    if a[1] == 0:
        root = _sqrt(a[0])
        if root is not None:
            return root, 0
        root = _sqrt(-a[0] % P)
        return None if root is None else (0, root)
    norm = _sqrt((a[0] * a[0] + a[1] * a[1]) % P)
    if norm is None:
        return None
    half = (P + 1) // 2
    for sign in (norm, -norm):
        x0 = _sqrt((a[0] + sign) * half % P)
        if x0:
            return x0, a[1] * pow(2 * x0, -1, P) % P
    return None


def _is_larger2(y: Fp2) -> bool:
    return (y[1] if y[1] else y[0]) > _HALF


def g1_on_curve(x: int, y: int) -> bool:
    return 0 <= x < P and 0 <= y < P and (y * y - x * x * x - 3) % P == 0


def g2_on_curve(x: Fp2, y: Fp2) -> bool:
    return all(0 <= c < P for c in (*x, *y)) and _mul2(y, y) == _twist_rhs(x)


def _split(data: bytes) -> tuple[int, bytes]:
    return data[0] & _FLAGS, bytes([data[0] & ~_FLAGS & 0xFF]) + data[1:]


def _coordinate(data: bytes) -> int:
    value = int.from_bytes(data, "big")
    if value >= P:
        raise PointFault("coordinate not below the field modulus")
    return value


def _is_infinity(flag: int, rest: bytes) -> bool:
    if flag == _INFINITY and not any(rest):
        return True
    if flag not in (_SMALLER, _LARGER):
        raise PointFault("flag bits or infinity encoding not allowed here")
    return False


def g1_decompress(data: bytes) -> G1Point | None:
    """The point of 32 bytes, ``None`` for infinity; :class:`PointFault` otherwise."""
    if len(data) != G1_BYTES:
        raise PointFault(f"{len(data)} bytes, expected {G1_BYTES}")
    flag, rest = _split(data)
    if _is_infinity(flag, rest):
        return None
    x = _coordinate(rest)
    y = _sqrt((x * x * x + 3) % P)
    if y is None:
        raise PointFault("not on the curve")
    return G1Point(x, y if (y > _HALF) == (flag == _LARGER) else P - y)


def g2_decompress(data: bytes) -> G2Point | None:
    """The point of 64 bytes, ``None`` for infinity; :class:`PointFault` otherwise. Not checked for the subgroup."""
    if len(data) != G2_BYTES:
        raise PointFault(f"{len(data)} bytes, expected {G2_BYTES}")
    flag, rest = _split(data)
    if _is_infinity(flag, rest):
        return None
    x = (_coordinate(rest[32:]), _coordinate(rest[:32]))
    y = _sqrt2(_twist_rhs(x))
    if y is None:
        raise PointFault("not on the curve")
    if _is_larger2(y) != (flag == _LARGER):
        y = (-y[0] % P, -y[1] % P)
    return G2Point(x, y)


def g1_compress(point: G1Point) -> bytes:
    data = bytearray(point.x.to_bytes(32, "big"))
    data[0] |= _LARGER if point.y > _HALF else _SMALLER
    return bytes(data)


def g2_compress(point: G2Point) -> bytes:
    data = bytearray(point.x[1].to_bytes(32, "big") + point.x[0].to_bytes(32, "big"))
    data[0] |= _LARGER if _is_larger2(point.y) else _SMALLER
    return bytes(data)
