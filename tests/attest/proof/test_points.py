"""Point encodings of both curves: one encoding per point, every byte string judged, py_ecc as the second opinion."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc.bls import point_compression

from attest.proof import CircuitError, Curve, pyecc
from attest.proof.points import G1Point, G2Point, PointFault
from tests.attest.proof.bad_points import infinity, opposite_g1, opposite_g2
from tests.attest.proof.trapdoor import Trapdoor

CURVES = pytest.mark.parametrize("curve", list(Curve), ids=[curve.text for curve in Curve])
SCALARS = st.integers(1, 1 << 250)


@CURVES
def test_parameters_are_those_of_py_ecc(curve: Curve) -> None:
    it, lib = curve.parameters, pyecc.pairing(curve).lib
    assert (it.p, it.r) == (lib.field_modulus, lib.curve_order)
    assert (lib.FQ(it.b), lib.FQ2(list(it.twist_b))) == (lib.b, lib.b2)
    trapdoor = Trapdoor.make(curve, 1)
    assert (trapdoor.g1(1), trapdoor.g2(1)) == (it.g1_generator, it.g2_generator)
    assert it.g1_on_curve(it.g1_generator.x, it.g1_generator.y)
    assert it.g2_on_curve(it.g2_generator.x, it.g2_generator.y)


@CURVES
@settings(max_examples=15, deadline=None)
@given(scalar=SCALARS)
def test_points_and_their_opposites_round_trip(curve: Curve, scalar: int) -> None:
    it, trapdoor = curve.parameters, Trapdoor.make(curve, 1)
    g1, g2 = trapdoor.g1(scalar), trapdoor.g2(scalar)
    for p in (g1, opposite_g1(curve, g1)):
        assert it.g1_decompress(it.g1_compress(p)) == p
    for q in (g2, opposite_g2(curve, g2)):
        assert it.g2_decompress(it.g2_compress(q)) == q


@settings(max_examples=15, deadline=None)
@given(scalar=SCALARS)
def test_bls12_381_encodings_are_those_of_py_ecc(scalar: int) -> None:
    engine, trapdoor = pyecc.pairing(Curve.BLS12_381), Trapdoor.make(Curve.BLS12_381, 1)
    it, g1, g2 = Curve.BLS12_381.parameters, trapdoor.g1(scalar), trapdoor.g2(scalar)
    assert it.g1_compress(g1) == int(point_compression.compress_G1(engine.g1(g1))).to_bytes(48, "big")
    high, low = point_compression.compress_G2(engine.g2(g2))
    assert it.g2_compress(g2) == int(high).to_bytes(48, "big") + int(low).to_bytes(48, "big")


def g1_of(curve: Curve, data: bytes) -> G1Point | str | None:
    try:
        return curve.parameters.g1_decompress(data)
    except PointFault as fault:
        return str(fault)


def g2_of(curve: Curve, data: bytes) -> G2Point | str | None:
    try:
        return curve.parameters.g2_decompress(data)
    except PointFault as fault:
        return str(fault)


@CURVES
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_bytes_are_one_point_or_a_fault(curve: Curve, data: st.DataObject) -> None:
    """A point that decodes is on the curve and encodes to the very same bytes."""
    it = curve.parameters
    raw = data.draw(st.binary(min_size=it.g1_bytes, max_size=it.g1_bytes))
    found = g1_of(curve, raw)
    if isinstance(found, G1Point):
        assert it.g1_on_curve(found.x, found.y)
        assert it.g1_compress(found) == raw
    raw = data.draw(st.binary(min_size=it.g2_bytes, max_size=it.g2_bytes))
    two = g2_of(curve, raw)
    if isinstance(two, G2Point):
        assert it.g2_on_curve(two.x, two.y)
        assert it.g2_compress(two) == raw


@CURVES
def test_every_length_but_the_right_one_is_a_fault(curve: Curve) -> None:
    it = curve.parameters
    good_1, good_2 = it.g1_compress(it.g1_generator), it.g2_compress(it.g2_generator)
    for length in (0, 1, it.g1_bytes - 1, it.g1_bytes + 1):
        assert isinstance(g1_of(curve, good_2[:length]), str)
    for length in (0, it.g1_bytes, it.g2_bytes - 1):
        assert isinstance(g2_of(curve, good_2[:length]), str)
    assert isinstance(g2_of(curve, good_2 + b"\0"), str)
    assert isinstance(g1_of(curve, good_1 + b"\0"), str)


@CURVES
def test_flags_have_one_meaning(curve: Curve) -> None:
    """Of all flag patterns before the same x: two are the two points, the others are faults."""
    it = curve.parameters
    x = it.g1_compress(it.g1_generator)
    patterns = [flags for flags in range(256) if flags & ~it.flag_mask == 0]
    decoded = {flags: g1_of(curve, bytes([x[0] & ~it.flag_mask & 0xFF | flags]) + x[1:]) for flags in patterns}
    points = {flags for flags, found in decoded.items() if isinstance(found, G1Point)}
    assert points == {it.smaller, it.larger}
    assert None not in decoded.values()
    empty = {flags: g1_of(curve, bytes([flags]) + bytes(it.g1_bytes - 1)) for flags in patterns}
    assert [flags for flags, found in empty.items() if found is None] == [it.infinity]


@CURVES
def test_a_root_of_a_real_number_is_found_whether_it_is_real_or_imaginary(curve: Curve) -> None:
    """x on the twist with x³ + b' real: every real number is a square of F_p[i], so each of these is a point."""
    it = curve.parameters
    kinds = set()
    for x1 in range(1, 60):
        square = (x1**3 - it.twist_b[1]) * pow(3 * x1, -1, it.p) % it.p  # of x0, so that the imaginary part vanishes
        x0 = pow(square, (it.p + 1) // 4, it.p)
        if x0 * x0 % it.p != square:
            continue
        for x in ((x0, x1), (-x0 % it.p, x1)):
            data = bytearray(x[1].to_bytes(it.coordinate_bytes, "big") + x[0].to_bytes(it.coordinate_bytes, "big"))
            data[0] |= it.smaller
            point = it.g2_decompress(bytes(data))
            assert point is not None
            assert it.g2_on_curve(point.x, point.y)
            assert it.g2_compress(point) == bytes(data)
            kinds.add("real" if point.y[1] == 0 else "imaginary" if point.y[0] == 0 else "both")
    assert kinds == {"real", "imaginary"}


@CURVES
def test_infinity_is_told_from_a_point(curve: Curve) -> None:
    it = curve.parameters
    assert g1_of(curve, infinity(curve, it.g1_bytes)) is None
    assert g2_of(curve, infinity(curve, it.g2_bytes)) is None


@CURVES
def test_coordinates_are_below_the_modulus(curve: Curve) -> None:
    it = curve.parameters
    good = it.g2_compress(it.g2_generator)
    alias = (it.g2_generator.x[0] + it.p).to_bytes(it.coordinate_bytes, "big")
    assert "modulus" in str(g2_of(curve, good[: it.coordinate_bytes] + alias))
    top = it.p.to_bytes(it.coordinate_bytes, "big")
    assert "modulus" in str(g1_of(curve, bytes([top[0] | it.smaller]) + top[1:]))
    assert not it.g1_on_curve(it.g1_generator.x + it.p, it.g1_generator.y)
    assert not it.g2_on_curve(it.g2_generator.x, (it.g2_generator.y[0] - it.p, it.g2_generator.y[1]))


def test_curves_have_one_name_each() -> None:
    assert [Curve.named(curve.text) for curve in Curve] == list(Curve)
    with pytest.raises(CircuitError) as caught:
        Curve.named("bls12381")
    assert caught.value.code == "curve-unknown"
