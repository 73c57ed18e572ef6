"""Patches: what two blobs share is found, any bytes give the blob or one typed error, and memory stays small."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.modules import BundleError, matching, patch
from sitsedge.modules.patch import apply_patch, encode_patch


class Bytes:
    """A source in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read(self, offset: int, length: int) -> bytes:
        assert 0 <= offset <= offset + length <= self.size
        return self.data[offset : offset + length]


def rebuilt(data: bytes, old: bytes, size: int) -> bytes:
    out = bytearray()
    apply_patch(data, Bytes(old), out.extend, size=size, what="layer")
    return bytes(out)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """An old blob and a new one that keeps, moves, repeats, drops and adds pieces of it."""
    old = random.Random(draw(st.integers(0, 1 << 32))).randbytes(draw(st.integers(0, 3000)))
    pieces = draw(
        st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 600), st.binary(max_size=40)), min_size=0, max_size=8)
    )
    return old, b"".join(old[at : at + length] + added for at, length, added in pieces)


@given(pairs(), st.sampled_from([64, 1000, matching.PIECE_BYTES]))
@settings(max_examples=100, deadline=None)
def test_what_comes_out_is_the_new_blob(pair: tuple[bytes, bytes], piece: int) -> None:
    old, new = pair
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(matching, "PIECE_BYTES", piece)
        data = encode_patch(matching.records(old, new))
        assert data == encode_patch(matching.records(old, new))
    assert rebuilt(data, old, len(new)) == new
    assert len(data) <= len(new) + len(new) // 100 + 64


def test_moved_pieces_are_found_wherever_they_went() -> None:
    old = random.Random(1).randbytes(20_000)
    new = b"x" + old[7001:20_000] + b"yz" + old[33:6000] + old[100:150]
    assert len(encode_patch(matching.records(old, new))) < 100
    assert len(encode_patch(matching.records(old, old[5:5 + 2 * matching.COPY_BYTES_MIN]))) < 32  # fmt: skip


def test_pieces_longer_than_the_encoder_s_own_are_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "PIECE_BYTES", 1000)
    old = random.Random(2).randbytes(5000)
    new = b"a" * 40 + old
    assert list(matching.records(old, new)) == [(b"a" * 40, 0, 5000)]


def test_a_run_of_one_byte_is_copied_though_all_its_windows_are_equal() -> None:
    assert len(encode_patch(matching.records(bytes(5000), bytes(4000) + b"x" + bytes(4999)))) < 64


def test_nothing_makes_nothing() -> None:
    data = encode_patch(matching.records(b"", b""))
    assert rebuilt(data, b"anything", 0) == b""


def test_colliding_hashes_cost_size_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash proposes, bytes decide."""
    monkeypatch.setattr(matching, "_FACTOR", 0)
    rng = random.Random(3)
    old, new = rng.randbytes(3000), rng.randbytes(500)
    assert rebuilt(encode_patch(matching.records(old, new)), old, 500) == new


OLD = bytes(range(200))


def record(added: bytes, offset: int, length: int) -> bytes:
    return struct.pack(">I", len(added)) + added + struct.pack(">II", offset, length)


GOOD = record(b"new", 10, 20) + record(b"", 100, 100) + record(b"end", 0, 0)
SIZE = 126


def deflated(raw: bytes) -> bytes:
    return zlib.compress(raw)


def test_the_good_patch_below_is_good() -> None:
    assert rebuilt(deflated(GOOD), OLD, SIZE) == b"new" + OLD[10:30] + OLD[100:] + b"end"


BROKEN: dict[str, tuple[bytes, int]] = {
    "empty": (b"", SIZE),
    "no-zlib-stream": (b"PK\x03\x04" + bytes(40), SIZE),
    "gzip": (b"\x1f\x8b\x08" + bytes(40), SIZE),
    "preset-dictionary": (b"\x78\xbb\x00\x00\x00\x01" + bytes(20), SIZE),
    "stream-cut-short": (deflated(GOOD)[:-6], SIZE),
    "checksum-cut-off": (deflated(GOOD)[:-1], SIZE),
    "checksum-wrong": (deflated(GOOD)[:-1] + b"\x00", SIZE),
    "bytes-after-the-stream": (deflated(GOOD) + b"\x00", SIZE),
    "stream-after-the-stream": (deflated(GOOD) * 2, SIZE),
    "record-after-the-last": (deflated(GOOD + record(b"more", 0, 0)), SIZE),
    "header-cut-short": (deflated(GOOD[:-2]), SIZE),
    "new-bytes-cut-short": (deflated(struct.pack(">I", SIZE) + b"x"), SIZE),
    "copy-from-behind-the-end": (deflated(record(b"", 200, 26)), 26),
    "copy-over-the-end": (deflated(record(b"", 190, 20)), 20),
    "copy-with-a-wrapping-offset": (deflated(record(b"", 0xFFFFFFFF, 20)), 20),
    "copy-too-short": (deflated(record(b"", 0, patch.COPY_BYTES_MIN - 1)), patch.COPY_BYTES_MIN - 1),
    "copies-nothing-in-the-middle": (deflated(record(b"a", 0, 0) + record(b"b", 0, 0)), 2),
    "copies-nothing-from-somewhere": (deflated(record(b"a", 1, 0)), 1),
    "record-without-content": (deflated(record(b"", 0, 0)), 1),
    "result-too-short": (deflated(GOOD), SIZE + 1),
    "result-too-long": (deflated(GOOD), SIZE - 1),
    "copy-too-long-for-the-result": (deflated(record(b"", 0, 100)), 50),
    "new-bytes-too-many-for-the-result": (deflated(record(bytes(100), 0, 0)), 50),
    "four-gibibytes-promised": (deflated(struct.pack(">I", 0xFFFFFFFF) + bytes(1000)), SIZE),
    "content-for-an-empty-blob": (deflated(record(b"x", 0, 0)), 0),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_refuses(rule: str) -> None:
    data, size = BROKEN[rule]
    with pytest.raises(BundleError) as refused:
        rebuilt(data, OLD, size)
    assert refused.value.code == "delta-patch"


def test_refuses_more_records_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = record(b"", 0, 16) * 5
    assert rebuilt(deflated(raw), OLD, 80) == OLD[:16] * 5
    monkeypatch.setattr(patch, "RECORDS_MAX", 4)
    with pytest.raises(BundleError) as refused:
        rebuilt(deflated(raw), OLD, 80)
    assert "over 4 records" in refused.value.found


def outcome(data: bytes, size: int) -> int | str:
    """The size of what comes out, or the code of the refusal."""
    try:
        return len(rebuilt(data, OLD, size))
    except BundleError as error:
        return error.code


@given(st.binary(max_size=300), st.integers(0, 500), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_the_size_asked_for_or_a_typed_error(data: bytes, size: int, inflated: bool) -> None:
    assert outcome(deflated(data) if inflated else data, size) in (size, "delta-patch")


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_changed_patches_give_the_size_asked_for_or_a_typed_error(data: st.DataObject) -> None:
    raw = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(deflated(bytes(raw)), SIZE) in (SIZE, "delta-patch")


def test_a_bomb_of_zeros_is_written_piece_by_piece() -> None:
    """Sixteen mebibytes from sixteen kibibytes: what was signed may be large, what is held at a time is not."""
    size = 16 << 20
    data = encode_patch(iter([(bytes(size), 0, 0)]))
    assert len(data) < 20_000
    written = 0

    def write(piece: bytes) -> None:
        nonlocal written
        written += len(piece)

    tracemalloc.start()
    try:
        apply_patch(data, Bytes(b""), write, size=size, what="layer")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written == size
    assert peak < 8 * patch.PIECE_BYTES
