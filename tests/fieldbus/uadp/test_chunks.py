"""Chunks: what is cut comes together again in any order; everything held is bounded."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.uadp import (
    Announcement,
    BuiltinType,
    Chunk,
    DataSetMessage,
    FieldEncoding,
    GroupHeader,
    MetaDataAnnouncement,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    Reassembler,
    UadpError,
    Variant,
    decode,
    encode,
    split,
)
from fieldbus.uadp.limits import ASSEMBLIES_MAX, ASSEMBLY_AGE_NS, ASSEMBLY_BYTES_MAX, CHUNKS_MAX, PAYLOAD_BYTES_MAX
from fieldbus.uadp.metadata import DataSetMetaData, FieldMetaData
from tests.fieldbus.uadp.strategies import PATIENT

PUBLISHER = PublisherId(PublisherIdType.UINT16, 2234)


def large(sequence: int = 1, size: int = 1_000, publisher: PublisherId = PUBLISHER) -> NetworkMessage:
    body = random.Random(sequence).randbytes(size)
    message = DataSetMessage(fields=(Variant(BuiltinType.BYTESTRING, body),), sequence=sequence)
    return NetworkMessage(publisher, group=GroupHeader(1, sequence=9), writer_ids=(5,), messages=(message,))


def metadata(fields: int) -> NetworkMessage:
    described = DataSetMetaData(name="demo", fields=tuple(FieldMetaData(f"field {n}") for n in range(fields)))
    return NetworkMessage(PUBLISHER, discovery=Announcement(3, MetaDataAnnouncement(5, described)))


def through_the_wire(messages: tuple[NetworkMessage, ...], size_max: int) -> list[NetworkMessage]:
    frames = [encode(message) for message in messages]
    assert max(map(len, frames)) <= size_max
    return [decode(frame) for frame in frames]


@settings(max_examples=40, **PATIENT)
@given(st.integers(60, 2_000), st.integers(0, 5_000), st.booleans(), st.randoms(use_true_random=False))
def test_chunks_in_any_order_are_the_message(size_max: int, size: int, announce: bool, rng: random.Random) -> None:
    message = metadata(size // 60) if announce else large(size=size)
    pieces = through_the_wire(split(message, size_max), size_max)
    rng.shuffle(pieces)
    together = Reassembler()
    results = [together.add(piece, 0) for piece in pieces]
    assert results[:-1] == [None] * (len(pieces) - 1)
    assert results[-1] == message
    assert (together.pending, together.pending_bytes, together.dropped) == (0, 0, 0)


def test_a_message_that_fits_stays_whole_and_passes_through() -> None:
    message = large(size=500)
    assert split(message, 1_400) == (message,)
    assert split(message, len(encode(message))) == (message,)
    assert len(split(message, len(encode(message)) - 1)) == 2
    assert Reassembler().add(message, 0) is message


def test_payloads_of_several_writers_interleave() -> None:
    messages = [large(number, 800, PublisherId(PublisherIdType.UINT16, number)) for number in range(4)]
    together = Reassembler()
    found = [
        together.add(piece, 0) for row in zip(*(split(item, 200) for item in messages), strict=True) for piece in row
    ]
    assert [item for item in found if item is not None] == messages


def test_a_repeated_chunk_is_harmless() -> None:
    first, *others = split(large(), 300)
    together = Reassembler()
    assert together.add(first, 0) is together.add(first, 0) is None
    assert [together.add(piece, 0) for piece in others][-1] == large()


def chunk(offset: int, data: bytes, total: int = 40) -> NetworkMessage:
    return NetworkMessage(PUBLISHER, chunk=Chunk(5, 1, offset, total, data))


CONTRADICTIONS: dict[str, tuple[NetworkMessage, ...]] = {
    "another-total": (chunk(0, bytes(10)), chunk(10, bytes(10), 41)),
    "another-content": (chunk(0, bytes(10)), chunk(0, b"x" * 10)),
    "another-size": (chunk(0, bytes(10)), chunk(10, bytes(11))),
    "between-two": (chunk(0, bytes(10)), chunk(5, bytes(10))),
    "two-last-ones": (chunk(30, bytes(10)), chunk(20, bytes(20))),
    "last-longer-than-the-others": (chunk(10, bytes(30)), chunk(0, bytes(10))),
    "last-longer-than-the-first": (chunk(0, bytes(10)), chunk(20, bytes(20))),
    "last-between-two": (chunk(35, bytes(5)), chunk(0, bytes(10))),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_chunks_that_contradict_each_other_drop_the_payload(name: str) -> None:
    first, second = CONTRADICTIONS[name]
    together = Reassembler()
    assert together.add(first, 0) is None
    with pytest.raises(UadpError, match="chunk-mismatch"):
        together.add(second, 0)
    assert (together.pending, together.pending_bytes, together.dropped) == (0, 0, 1)


def test_unfinished_payloads_are_bounded_in_number_bytes_and_age() -> None:
    together = Reassembler()
    for number in range(ASSEMBLIES_MAX + 5):
        together.add(split(large(number), 300)[0], 0)
    assert (together.pending, together.dropped) == (ASSEMBLIES_MAX, 5)
    together.add(split(large(100), 300)[0], ASSEMBLY_AGE_NS + 1)
    assert (together.pending, together.dropped) == (1, 5 + ASSEMBLIES_MAX)
    half = PAYLOAD_BYTES_MAX // 2 + 1
    for number in range(12):
        big = NetworkMessage(PUBLISHER, chunk=Chunk(5, number, 0, PAYLOAD_BYTES_MAX, bytes(half)))
        together.add(big, ASSEMBLY_AGE_NS + 1)
        assert together.pending_bytes <= ASSEMBLY_BYTES_MAX


def test_one_byte_chunks_are_bounded() -> None:
    together = Reassembler()
    for offset in range(CHUNKS_MAX):
        together.add(chunk(offset, b"x", 5_000), 0)
    with pytest.raises(UadpError, match="chunk-count"):
        together.add(chunk(CHUNKS_MAX, b"x", 5_000), 0)
    assert together.pending == 0


def test_a_payload_that_is_no_data_set_message_is_refused() -> None:
    together = Reassembler()
    together.add(chunk(0, b"\x07" * 10, 20), 0)
    with pytest.raises(UadpError, match="field-encoding"):
        together.add(chunk(10, b"\x07" * 10, 20), 0)
    assert together.pending == 0


UNSPLITTABLE: dict[str, tuple[str, NetworkMessage, int]] = {
    "two-messages": (
        "chunk-unsplittable",
        dataclasses.replace(large(), writer_ids=(1, 2), messages=large().messages * 2),
        300,
    ),
    "no-sequence": (
        "chunk-unsplittable",
        NetworkMessage(messages=(DataSetMessage(encoding=FieldEncoding.RAW, raw=bytes(500)),)),
        300,
    ),
    "no-room": ("chunk-size", large(), 20),
    "too-many": ("chunk-count", large(size=16_000), 37),
}


@pytest.mark.parametrize("name", UNSPLITTABLE)
def test_what_cannot_be_cut_is_refused(name: str) -> None:
    code, message, size_max = UNSPLITTABLE[name]
    with pytest.raises(UadpError) as caught:
        split(message, size_max)
    assert caught.value.code == code


@settings(max_examples=200, **PATIENT)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 12), st.integers(1, 40)), max_size=30))
def test_any_chunks_give_a_value_or_one_typed_error(rows: list[Any]) -> None:
    together = Reassembler()
    for sequence, offset, size, total in rows:
        if offset + size > total:
            continue
        with contextlib.suppress(UadpError):
            together.add(NetworkMessage(chunk=Chunk(None, sequence, offset, total, b"\x01" * size)), 0)
        assert together.pending <= 3
        assert together.pending_bytes <= 120
