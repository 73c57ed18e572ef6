"""The tree against a direct transcription of RFC 9162's definitions, and against liars."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.ledger import LedgerError, verify_consistency, verify_inclusion
from attest.ledger.merkle import (
    EMPTY_ROOT,
    CompactRange,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    range_root,
)

LEAVES = [leaf_hash(bytes([i])) for i in range(130)]


def mth(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162 §2.1.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def perfect(level: int, index: int) -> bytes:
    return mth(LEAVES[index << level : (index + 1) << level])


def test_known_roots_of_rfc_6962_test_data() -> None:
    """Roots published with the certificate-transparency test data (inputs "", 00, 10, 2021, …)."""
    data = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    tree = CompactRange()
    for item in data:
        tree.append(leaf_hash(bytes.fromhex(item)))
    assert tree.root().hex() == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_every_size_has_the_root_of_the_definition() -> None:
    tree = CompactRange()
    for size in range(len(LEAVES)):
        assert tree.root() == mth(LEAVES[:size]) == range_root(perfect, 0, size)
        for level, index, node in tree.append(LEAVES[size]):
            assert node == perfect(level, index)


@given(st.integers(1, 130).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size))), st.data())
def test_inclusion(case: tuple[int, int], data: st.DataObject) -> None:
    index, size = case
    root, proof = mth(LEAVES[:size]), inclusion_proof(perfect, index, size)
    verify_inclusion(LEAVES[index], index, size, proof, root)
    lies = [
        (LEAVES[(index + 1) % 130], index, size, proof, root),
        (LEAVES[index], index, size, [*proof, root], root),
        (LEAVES[index], index, size, proof, EMPTY_ROOT),
        (LEAVES[index], index, size, [b"short"], root),
        (LEAVES[index], size, size, proof, root),
    ]
    if proof:
        lies.append((LEAVES[index], index, size, proof[:-1], root))
        at = data.draw(st.integers(0, len(proof) - 1))
        lies.append((LEAVES[index], index, size, [*proof[:at], EMPTY_ROOT, *proof[at + 1 :]], root))
    for lie in lies:
        with pytest.raises(LedgerError, match="merkle-proof"):
            verify_inclusion(*lie)


@given(st.integers(0, 130).flatmap(lambda new: st.tuples(st.integers(0, new), st.just(new))), st.data())
def test_consistency(case: tuple[int, int], data: st.DataObject) -> None:
    old, new = case
    old_root, new_root = mth(LEAVES[:old]), mth(LEAVES[:new])
    proof = consistency_proof(perfect, old, new)
    verify_consistency(old, old_root, new, new_root, proof)
    other = hashlib.sha256(b"other").digest()
    lies = [(old, old_root, new, new_root, [*proof, other])]
    if old:
        lies += [(old, other, new, new_root, proof), (old, old_root, new, other, proof)]
        lies += [(new + 1, old_root, new, new_root, proof)]
    else:
        lies += [(0, other, new, new_root, proof)]
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        lies += [(old, old_root, new, new_root, proof[:-1]), (old, old_root, new, new_root, [])]
        lies += [(old, old_root, new, new_root, [*proof[:at], other, *proof[at + 1 :]])]
    for lie in lies:
        with pytest.raises(LedgerError, match="merkle-proof"):
            verify_consistency(*lie)


def test_impossible_questions() -> None:
    for ask in (
        lambda: inclusion_proof(perfect, 5, 5),
        lambda: consistency_proof(perfect, 6, 5),
        lambda: CompactRange(3, [b"x" * 32]),
    ):
        with pytest.raises(LedgerError, match="ledger-range"):
            ask()
