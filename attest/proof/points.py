"""Points of a pairing-friendly curve in plain integers, and their one compressed encoding each.

E: y² = x³ + b over F_p with p = 3 mod 4, twist E': y² = x³ + b' over F_p[i], i² = -1. An encoding is the big-endian x
(imaginary part first on the twist) with flags in the top bits of the first byte that say which y is meant; "larger" is
the y above (p-1)/2, on the twist decided by the imaginary part where that is not zero. Decoders accept exactly one
encoding of each point and check the curve equation; membership of the subgroup of order r is checked where curve
arithmetic is at hand (:mod:`attest.proof.pyecc`).
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class PairingCurve:
    """Parameters of one curve, and the codec that follows from them.

    ``p`` and ``r`` are the moduli of base and scalar field, ``b`` and ``twist_b`` the constants of the two equations.
    ``flag_mask`` covers the flag bits of an encoding's first byte; the other three are their allowed values.
    """

    p: int
    r: int
    b: int
    twist_b: Fp2
    g1_generator: G1Point
    g2_generator: G2Point
    coordinate_bytes: int
    flag_mask: int
    smaller: int
    larger: int
    infinity: int

    @property
    def g1_bytes(self) -> int:
        return self.coordinate_bytes

    @property
    def g2_bytes(self) -> int:
        return 2 * self.coordinate_bytes

    @property
    def proof_bytes(self) -> int:
        """A, B and C."""
        return 2 * self.g1_bytes + self.g2_bytes

    def g1_on_curve(self, x: int, y: int) -> bool:
        return 0 <= x < self.p and 0 <= y < self.p and (y * y - self._rhs(x)) % self.p == 0

    def g2_on_curve(self, x: Fp2, y: Fp2) -> bool:
        return all(0 <= c < self.p for c in (*x, *y)) and self._mul2(y, y) == self._twist_rhs(x)

    def g1_decompress(self, data: bytes) -> G1Point | None:
        """The point of ``g1_bytes`` bytes, ``None`` for infinity; :class:`PointFault` otherwise."""
        if len(data) != self.g1_bytes:
            raise PointFault(f"{len(data)} bytes, expected {self.g1_bytes}")
        flag, rest = self._split(data)
        if self._is_infinity(flag, rest):
            return None
        x = self._coordinate(rest)
        y = self._sqrt(self._rhs(x))
        if y is None:
            raise PointFault("not on the curve")
        return G1Point(x, y if self._is_larger(y) == (flag == self.larger) else -y % self.p)

    def g2_decompress(self, data: bytes) -> G2Point | None:
        """The point of ``g2_bytes`` bytes, ``None`` for infinity; :class:`PointFault` otherwise."""
        if len(data) != self.g2_bytes:
            raise PointFault(f"{len(data)} bytes, expected {self.g2_bytes}")
        flag, rest = self._split(data)
        if self._is_infinity(flag, rest):
            return None
        x = (self._coordinate(rest[self.coordinate_bytes :]), self._coordinate(rest[: self.coordinate_bytes]))
        y = self._sqrt2(self._twist_rhs(x))
        if y is None:
            raise PointFault("not on the curve")
        if self._is_larger2(y) != (flag == self.larger):
            y = (-y[0] % self.p, -y[1] % self.p)
        return G2Point(x, y)

    def g1_compress(self, point: G1Point) -> bytes:
        data = bytearray(point.x.to_bytes(self.coordinate_bytes, "big"))
        data[0] |= self.larger if self._is_larger(point.y) else self.smaller
        return bytes(data)

    def g2_compress(self, point: G2Point) -> bytes:
        size = self.coordinate_bytes
        data = bytearray(point.x[1].to_bytes(size, "big") + point.x[0].to_bytes(size, "big"))
        data[0] |= self.larger if self._is_larger2(point.y) else self.smaller
        return bytes(data)

    def _split(self, data: bytes) -> tuple[int, bytes]:
        return data[0] & self.flag_mask, bytes([data[0] & ~self.flag_mask & 0xFF]) + data[1:]

    def _coordinate(self, data: bytes) -> int:
        value = int.from_bytes(data, "big")
        if value >= self.p:
            raise PointFault("coordinate not below the field modulus")
        return value

    def _is_infinity(self, flag: int, rest: bytes) -> bool:
        if flag == self.infinity and not any(rest):
            return True
        if flag not in (self.smaller, self.larger):
            raise PointFault("flag bits or infinity encoding not allowed here")
        return False

    def _is_larger(self, y: int) -> bool:
        return y > (self.p - 1) // 2

    def _is_larger2(self, y: Fp2) -> bool:
        return self._is_larger(y[1] if y[1] else y[0])

    def _rhs(self, x: int) -> int:
        return (x * x * x + self.b) % self.p

    def _twist_rhs(self, x: Fp2) -> Fp2:
        cube = self._mul2(self._mul2(x, x), x)
        return (cube[0] + self.twist_b[0]) % self.p, (cube[1] + self.twist_b[1]) % self.p

    def _mul2(self, a: Fp2, b: Fp2) -> Fp2:
        return (a[0] * b[0] - a[1] * b[1]) % self.p, (a[0] * b[1] + a[1] * b[0]) % self.p

    def _sqrt(self, a: int) -> int | None:
        """Root for p = 3 mod 4."""
        root = pow(a, (self.p + 1) // 4, self.p)
        return root if root * root % self.p == a else None

    def _sqrt2(self, a: Fp2) -> Fp2 | None:
        """Root in F_p[i] by the norm: x0² = (a0 ± |a|)/2, x1 = a1/(2·x0)."""
        if a[1] == 0:
            root = self._sqrt(a[0])
            if root is not None:
                return root, 0
            root = self._sqrt(-a[0] % self.p)
            return None if root is None else (0, root)
        norm = self._sqrt((a[0] * a[0] + a[1] * a[1]) % self.p)
        if norm is None:
            return None
        half = (self.p + 1) // 2
        for sign in (norm, -norm):
            x0 = self._sqrt((a[0] + sign) * half % self.p)
            if x0:
                return x0, a[1] * pow(2 * x0, -1, self.p) % self.p
        return None
