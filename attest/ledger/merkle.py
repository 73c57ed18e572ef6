"""The Merkle tree of RFC 9162 §2.1 (the same as RFC 6962 §2.1) over SHA-256.

Proofs are made over an abstract tree: a function that gives the hash of a perfect subtree, so that a store
decides what it keeps and what it computes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from attest.ledger.errors import LedgerError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()  # RFC 9162 §2.1.1
SIZE_MAX: Final = 2**63 - 1  # an SQLite rowid; also bounds every proof to 63 hashes and some
PROOF_HASHES_MAX: Final = 128

Perfect: TypeAlias = Callable[[int, int], bytes]
"""``perfect(level, index)`` is the hash of the ``2**level`` leaves from ``index << level``."""


def leaf_hash(data: bytes) -> bytes:
    """Hash of one leaf: SHA-256(0x00 ‖ data)."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of one inner node: SHA-256(0x01 ‖ left ‖ right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class CompactRange:
    """The roots of the perfect subtrees that make up the first ``size`` leaves, largest first.

    Enough to append and to give the root; at most 63 hashes.
    """

    __slots__ = ("hashes", "size")

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        if size < 0 or len(hashes) != size.bit_count():
            raise LedgerError("ledger-range", found=f"{len(hashes)} hashes", expected=f"those of size {size}")
        self.size = size
        self.hashes = list(hashes)

    def append(self, leaf: bytes) -> list[tuple[int, int, bytes]]:
        """Add a leaf hash; returns the inner nodes it completed as (level, index, hash), lowest first."""
        hashes, left_over = self.hashes, self.size
        node, level, completed = leaf, 0, []
        while left_over & 1:
            node = node_hash(hashes.pop(), node)
            left_over >>= 1
            level += 1
            completed.append((level, self.size >> level, node))
        hashes.append(node)
        self.size += 1
        return completed

    def root(self) -> bytes:
        """Root of the whole tree."""
        if not self.hashes:
            return EMPTY_ROOT
        root = self.hashes[-1]
        for node in reversed(self.hashes[:-1]):
            root = node_hash(node, root)
        return root


def range_root(perfect: Perfect, start: int, end: int) -> bytes:
    """Root over the leaves ``start..end-1``, a subtree of RFC 9162's recursion."""
    count = end - start
    if count == 0:
        return EMPTY_ROOT
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return perfect(level, start >> level)
    split = start + _split(count)
    return node_hash(range_root(perfect, start, split), range_root(perfect, split, end))


def inclusion_proof(perfect: Perfect, index: int, size: int) -> list[bytes]:
    """PATH(index, D[size]) of RFC 9162 §2.1.3.1. Raises ``LedgerError`` (``ledger-range``)."""
    if not 0 <= index < size:
        raise LedgerError("ledger-range", found=f"index {index}", expected=f"0..{size - 1}")
    start, end, path = 0, size, []
    while end - start > 1:
        split = start + _split(end - start)
        if index < split:
            path.append(range_root(perfect, split, end))
            end = split
        else:
            path.append(range_root(perfect, start, split))
            start = split
    path.reverse()
    return path


def consistency_proof(perfect: Perfect, old: int, new: int) -> list[bytes]:
    """PROOF(old, D[new]) of RFC 9162 §2.1.4.1; empty for ``old`` 0 or ``new``. Raises ``LedgerError``."""
    if not 0 <= old <= new:
        raise LedgerError("ledger-range", found=f"sizes {old} and {new}", expected="old <= new")
    if old in (0, new):
        return []
    start, end, whole, path = 0, new, True, []
    while old != end:
        split = start + _split(end - start)
        if old <= split:
            path.append(range_root(perfect, split, end))
            end = split
        else:
            path.append(range_root(perfect, start, split))
            start, whole = split, False
    if not whole:
        path.append(range_root(perfect, start, end))
    path.reverse()
    return path


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """RFC 9162 §2.1.3.2. Raises ``LedgerError`` (``merkle-proof``) if ``leaf`` is not at ``index``."""
    _check_proof(proof)
    if not 0 <= index < size <= SIZE_MAX:
        raise _refused(f"index {index} of {size}", "an index below the size")
    node, last, position = leaf, size - 1, index
    for sibling in proof:
        if last == 0:
            raise _refused("a proof that is too long", "one hash per level")
        if position & 1 or position == last:
            node = node_hash(sibling, node)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            node = node_hash(node, sibling)
        position >>= 1
        last >>= 1
    if last != 0:
        raise _refused("a proof that is too short", "one hash per level")
    if node != root:
        raise _refused(f"root {node.hex()}", root.hex())


def verify_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """RFC 9162 §2.1.4.2. Raises ``LedgerError`` (``merkle-proof``) if the new tree does not extend the old."""
    _check_proof(proof)
    if not 0 <= old <= new <= SIZE_MAX:
        raise _refused(f"size {new} after {old}", "a tree that only grows")
    if old in (0, new):
        if proof:
            raise _refused(f"{len(proof)} hashes", "an empty proof")
        if old == 0 and old_root != EMPTY_ROOT:
            raise _refused(f"root {old_root.hex()} of an empty tree", EMPTY_ROOT.hex())
        if old == new and old_root != new_root:
            raise _refused(f"root {new_root.hex()} at size {new}", old_root.hex())
        return
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        raise _refused("an empty proof", "at least one hash")
    position, last = old - 1, new - 1
    while position & 1:
        position >>= 1
        last >>= 1
    old_node = new_node = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise _refused("a proof that is too long", "one hash per level")
        if position & 1 or position == last:
            old_node, new_node = node_hash(sibling, old_node), node_hash(sibling, new_node)
            while not position & 1 and position:
                position >>= 1
                last >>= 1
        else:
            new_node = node_hash(new_node, sibling)
        position >>= 1
        last >>= 1
    if last != 0:
        raise _refused("a proof that is too short", "one hash per level")
    if old_node != old_root:
        raise _refused(f"old root {old_node.hex()}", old_root.hex())
    if new_node != new_root:
        raise _refused(f"new root {new_node.hex()}", new_root.hex())


def _split(count: int) -> int:
    """The largest power of two below ``count`` (RFC 9162's k)."""
    return 1 << ((count - 1).bit_length() - 1)


def _check_proof(proof: Sequence[bytes]) -> None:
    if len(proof) > PROOF_HASHES_MAX or any(len(node) != HASH_BYTES for node in proof):
        raise _refused(f"{len(proof)} hashes", f"at most {PROOF_HASHES_MAX} of {HASH_BYTES} bytes")


def _refused(found: str, expected: str) -> LedgerError:
    return LedgerError("merkle-proof", found=found, expected=expected)
