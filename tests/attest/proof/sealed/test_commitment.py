"""The salted commitment: bound to every input, the salt, the length and the field; never without a salt."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.proof import Curve
from attest.proof.poseidon2 import SCALAR_MODULUS, permute
from attest.proof.sealed import Salt, SealedError, commit
from attest.proof.sealed.commitment import INPUT_MAX, INPUT_MIN, INPUTS_PER_ELEMENT, SALT_BYTES, TAG, pack
from tests.attest.proof.sealed.cases import SALT

CURVES = tuple(Curve)
INPUTS = st.lists(st.integers(INPUT_MIN, INPUT_MAX), min_size=1, max_size=40)


def refused(code: str) -> pytest.RaisesExc[SealedError]:
    return pytest.RaisesExc(SealedError, check=lambda error: error.code == code)


@pytest.mark.parametrize("curve", CURVES)
def test_construction_as_documented(curve: Curve) -> None:
    """17 inputs: salt and two elements, so the second permutation takes one element and a zero."""
    r, x = SCALAR_MODULUS[curve], list(range(-8, 9))
    low = sum((v + 32768) << (16 * i) for i, v in enumerate(x[:15]))
    high = sum((v + 32768) << (16 * i) for i, v in enumerate(x[15:]))
    state = permute((int.from_bytes(SALT, "big"), low, int.from_bytes(TAG + bytes([0, 0, 0, 17]), "big")), curve)
    expected = permute(((state[0] + high) % r, state[1], state[2]), curve)[0]
    assert commit(x, Salt(SALT), curve) == expected


GOLDEN = {
    Curve.BN254: 0x8C9F1D76F423F747E178D4CC6A3313EC95F7480C3AB9A77FE03DEE20F79B3CE,
    Curve.BLS12_381: 0x169DD16E8EC040AD943BEE91EA3AA36D26914937C7459449B9CCEB82EE84D61C,
}
"""Commitments in exports must open for as long as the exports are kept."""


@pytest.mark.parametrize("curve", CURVES)
def test_golden_commitment(curve: Curve) -> None:
    assert commit((6, -3, 3), Salt(SALT), curve) == GOLDEN[curve]


@settings(max_examples=50, deadline=None)
@given(x=INPUTS, data=st.data())
def test_every_input_counts(x: list[int], data: st.DataObject) -> None:
    other = list(x)
    at = data.draw(st.integers(0, len(x) - 1))
    other[at] = data.draw(st.integers(INPUT_MIN, INPUT_MAX).filter(lambda v: v != x[at]))
    assert pack(other) != pack(x)
    assert commit(other, Salt(SALT), Curve.BN254) != commit(x, Salt(SALT), Curve.BN254)


@given(x=INPUTS)
def test_packing_loses_nothing(x: list[int]) -> None:
    unpacked = [(element >> (16 * i) & 0xFFFF) - 32768 for element in pack(x) for i in range(INPUTS_PER_ELEMENT)]
    assert unpacked[: len(x)] == x
    assert set(unpacked[len(x) :]) <= {-32768}


def test_length_is_bound() -> None:
    """A further input of the least value packs to the same element."""
    assert pack([5]) == pack([5, INPUT_MIN])
    assert commit([5], Salt(SALT), Curve.BN254) != commit([5, INPUT_MIN], Salt(SALT), Curve.BN254)


def test_other_salt_other_commitment() -> None:
    assert commit([5], Salt(SALT), Curve.BN254) != commit([5], Salt(SALT[::-1]), Curve.BN254)


def test_fields_differ() -> None:
    assert commit([5], Salt(SALT), Curve.BN254) != commit([5], Salt(SALT), Curve.BLS12_381)


@pytest.mark.parametrize("data", [b"", bytes(SALT_BYTES), b"\xff" * SALT_BYTES, b"\x00"])
def test_unsalted(data: bytes) -> None:
    with refused("unsalted"):
        Salt(data)


@pytest.mark.parametrize("length", [1 + SALT_BYTES, SALT_BYTES - 1, 2, 32])
def test_salt_length(length: int) -> None:
    with refused("salt-length"):
        Salt(bytes(range(length)))


def test_salt_reused() -> None:
    salt = Salt.generate()
    assert len(salt.take()) == SALT_BYTES
    with refused("salt-reused"):
        salt.take()


def test_erased_salt_is_spent_and_gone() -> None:
    salt = Salt(SALT)
    salt.erase()
    assert salt.reveal() == bytes(SALT_BYTES)
    with refused("salt-reused"):
        salt.take()


def test_salt_is_not_printed() -> None:
    assert repr(Salt(SALT)) == str(Salt(SALT)) == "Salt(…)"


def test_salts_differ() -> None:
    assert len({Salt.generate().reveal() for _ in range(100)}) == 100


@pytest.mark.parametrize("value", [INPUT_MIN - 1, INPUT_MAX + 1, 1 << 64])
def test_input_range(value: int) -> None:
    with refused("input-range"):
        pack([0, value])


@pytest.mark.parametrize("count", [0, 1025])
def test_input_count(count: int) -> None:
    with refused("input-count"):
        pack([0] * count)
