"""Poseidon2: the published vectors, the round numbers, and that it is a permutation of the right shape."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.proof import Curve
from attest.proof.poseidon2 import (
    ALPHA,
    FULL_ROUNDS,
    PARTIAL_ROUNDS,
    SCALAR_MODULUS,
    WIDTH,
    external,
    internal,
    parameters,
    permute,
    secure_rounds,
)

CURVES = tuple(Curve)

PUBLISHED = {
    Curve.BN254: (
        0x0BB61D24DACA55EEBCB1929A82650F328134334DA98EA4F847F760054F4A3033,
        0x303B6F7C86D043BFCBCC80214F26A30277A15D3F74CA654992DEFE7FF8D03570,
        0x1ED25194542B12EEF8617361C3BA7C52E660B145994427CC86296242CF766EC8,
    ),
    Curve.BLS12_381: (
        0x1B152349B1950B6A8CA75EE4407B6E26CA5CCA5650534E56EF3FD45761FBF5F0,
        0x4C5793C87D51BDC2C08A32108437DC0000BD0275868F09EBC5F36919AF5B3891,
        0x1FC8ED171E67902CA49863159FE5BA6325318843D13976143B8125F08B50DC6B,
    ),
}
"""Images of (0, 1, 2): known-answer tests of the authors' reference implementation (HorizenLabs/poseidon2, commit
055bde3f4782731ba5f5ce5888a440a94327eaf3)."""

FIRST_CONSTANT = {
    Curve.BN254: 0x1D066A255517B7FD8BDDD3A93F7804EF7F8FCDE48BB4C37A59A09A1A97052816,
    Curve.BLS12_381: 0x6F007A551156B3A449E44936B7C093644A0ED33F33EACCC628E942E836C1A875,
}


@pytest.mark.parametrize("curve", CURVES)
def test_published_vector(curve: Curve) -> None:
    assert permute((0, 1, 2), curve) == PUBLISHED[curve]


@pytest.mark.parametrize("curve", CURVES)
def test_constants_of_the_published_generator(curve: Curve) -> None:
    p = parameters(curve)
    assert p.full[0][0] == FIRST_CONSTANT[curve]
    assert (len(p.full), len(p.partial)) == (FULL_ROUNDS, PARTIAL_ROUNDS)
    constants = [*p.partial, *(c for row in p.full for c in row)]
    assert all(0 <= c < p.modulus for c in constants)
    assert len(set(constants)) == len(constants)


@pytest.mark.parametrize("curve", CURVES)
def test_fifth_power_is_a_permutation_and_no_smaller_one_is(curve: Curve) -> None:
    order = SCALAR_MODULUS[curve] - 1
    assert math.gcd(ALPHA, order) == 1
    assert all(math.gcd(smaller, order) != 1 for smaller in range(2, ALPHA))


@pytest.mark.parametrize("curve", CURVES)
def test_rounds_are_the_cheapest_with_the_margin_of_the_papers(curve: Curve) -> None:
    """Two full rounds and 7.5 % of the partial ones more than the least; fewest boxes, then fewest full rounds."""
    modulus = SCALAR_MODULUS[curve]
    choices = []
    for full in range(4, 20, 2):
        for partial in range(1, 100):
            if secure_rounds(modulus, full, partial):
                with_margin = (full + 2, math.ceil(partial * 1.075))
                choices.append((WIDTH * with_margin[0] + with_margin[1], *with_margin))
                break
    assert min(choices)[1:] == (FULL_ROUNDS, PARTIAL_ROUNDS)


@pytest.mark.parametrize("curve", CURVES)
@given(data=st.data())
def test_linear_layers_are_their_matrices(curve: Curve, data: st.DataObject) -> None:
    r = SCALAR_MODULUS[curve]
    a, b, c = (data.draw(st.integers(0, r - 1)) for _ in range(3))
    assert external((a, b, c), r) == ((2 * a + b + c) % r, (a + 2 * b + c) % r, (a + b + 2 * c) % r)
    assert internal((a, b, c), r) == ((2 * a + b + c) % r, (a + 2 * b + c) % r, (a + b + 3 * c) % r)


@pytest.mark.parametrize("curve", CURVES)
def test_every_word_of_the_input_reaches_every_word_of_the_output(curve: Curve) -> None:
    base = permute((7, 8, 9), curve)
    for other in ((8, 8, 9), (7, 9, 9), (7, 8, 10)):
        assert all(x != y for x, y in zip(base, permute(other, curve), strict=True))
