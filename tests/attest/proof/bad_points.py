"""Points and encodings a verifier must refuse, on either curve, and where they sit in keys and proofs."""

from __future__ import annotations

from dataclasses import replace

from attest.proof import Curve, pyecc
from attest.proof.keys import Proof, VerificationKey
from attest.proof.points import G1Point, G2Point, PointFault

HEADER_BYTES = 13
G2_NAMES = ("beta", "gamma", "delta")


def g1_outside_subgroup(curve: Curve) -> G1Point:
    """On E but of another order: only BLS12-381 has such points (cofactor about 2^125)."""
    assert curve is Curve.BLS12_381
    it = curve.parameters
    for x in range(1, 50):
        data = bytearray(it.g1_bytes)
        data[-1], data[0] = x, it.smaller
        try:
            point = it.g1_decompress(bytes(data))
        except PointFault:
            continue
        if point is not None and not pyecc.pairing(curve).g1_in_subgroup(point):
            return point
    raise AssertionError("no point found")


def g2_outside_subgroup(curve: Curve) -> G2Point:
    """On the twist but of another order: the cofactors are so large that the first x does."""
    it = curve.parameters
    for x in range(1, 50):
        data = bytearray(it.g2_bytes)
        data[-1], data[0] = x, it.smaller
        try:
            point = it.g2_decompress(bytes(data))
        except PointFault:
            continue
        assert point is not None
        assert not pyecc.g2_in_subgroup(point, curve)
        return point
    raise AssertionError("no point found")


def opposite_g1(curve: Curve, point: G1Point) -> G1Point:
    return G1Point(point.x, curve.parameters.p - point.y)


def opposite_g2(curve: Curve, point: G2Point) -> G2Point:
    p = curve.parameters.p
    return G2Point(point.x, (-point.y[0] % p, -point.y[1] % p))


def with_g2(key: bytes, name: str, point: G2Point) -> bytes:
    """The binary key with beta, gamma or delta replaced, not linted."""
    it = VerificationKey.curve_of(key).parameters
    at = HEADER_BYTES + it.g1_bytes + it.g2_bytes * G2_NAMES.index(name)
    return key[:at] + it.g2_compress(point) + key[at + it.g2_bytes :]


def point_places(key: bytes) -> dict[str, tuple[int, int]]:
    """Offset and size of every kind of point in a binary key: alpha, the G2 points, first and second IC."""
    it = VerificationKey.curve_of(key).parameters
    places = {"alpha": (HEADER_BYTES, it.g1_bytes)}
    at = HEADER_BYTES + it.g1_bytes
    for name in G2_NAMES:
        places[name] = (at, it.g2_bytes)
        at += it.g2_bytes
    places["ic0"], places["ic1"] = (at, it.g1_bytes), (at + it.g1_bytes, it.g1_bytes)
    return places


def infinity(curve: Curve, size: int) -> bytes:
    return bytes([curve.parameters.infinity]) + bytes(size - 1)


def bad_proofs(proof: bytes, curve: Curve) -> dict[str, bytes]:
    """Proof bytes of which every one breaks one rule of the encoding or of membership."""
    it = curve.parameters
    g1, c_at = it.g1_bytes, it.g1_bytes + it.g2_bytes
    no_point = next(x for x in range(1, 99) if pow(x**3 + it.b, (it.p - 1) // 2, it.p) != 1)

    def with_x(x: int) -> bytes:
        return (x | it.smaller << 8 * (g1 - 1)).to_bytes(g1, "big")

    cases = {
        "empty": b"",
        "short": proof[:-1],
        "long": proof + b"\0",
        "other-curve-length": bytes(192 if len(proof) == 128 else 128),
        "a-infinity": infinity(curve, g1) + proof[g1:],
        "b-infinity": proof[:g1] + infinity(curve, it.g2_bytes) + proof[c_at:],
        "c-infinity": proof[:c_at] + infinity(curve, g1),
        "infinity-not-zero": bytes([it.infinity]) + bytes(g1 - 2) + b"\x01" + proof[g1:],
        "a-uncompressed-flag": bytes([proof[0] & ~it.flag_mask & 0xFF]) + proof[1:],
        "a-off-curve": with_x(no_point) + proof[g1:],
        "a-x-is-p": with_x(it.p) + proof[g1:],
        "a-x-plus-p": with_x(1 + it.p) + proof[g1:],
        "b-real-part-is-p": proof[: 2 * g1] + it.p.to_bytes(g1, "big") + proof[c_at:],
        "b-outside-subgroup": proof[:g1] + it.g2_compress(g2_outside_subgroup(curve)) + proof[c_at:],
        "all-zero": bytes(len(proof)),
        "all-ones": b"\xff" * len(proof),
    }
    if curve is Curve.BLS12_381:
        outside = it.g1_compress(g1_outside_subgroup(curve))
        cases["a-outside-subgroup"] = outside + proof[g1:]
        cases["c-outside-subgroup"] = proof[:c_at] + outside
        cases["infinity-larger-flag"] = bytes([it.infinity | it.larger]) + bytes(g1 - 1) + proof[g1:]
    return cases


def negated(proof: bytes, curve: Curve) -> bytes:
    """(-A, -B, C): another proof of the same statement."""
    found = Proof.decode(proof, curve)
    return replace(found, a=opposite_g1(curve, found.a), b=opposite_g2(curve, found.b)).encode()
