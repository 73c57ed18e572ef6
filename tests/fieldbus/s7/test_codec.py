"""S7 telegrams: encode and decode are each other's inverse; what replies must match."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.capture.dialogues import JobResult, S7Dialogue
from fieldbus.s7 import cotp, pdu
from fieldbus.s7 import model as s7
from fieldbus.s7.errors import S7Error
from tests.fieldbus.fuzz_vendor import fuzz

U16 = st.integers(0, 0xFFFF)
ITEMS = st.builds(
    s7.Item,
    st.sampled_from([area for area in s7.Area if area not in (s7.Area.COUNTERS, s7.Area.TIMERS)]),
    U16,
    U16,
    st.sampled_from(s7.ItemType),
    U16,
    st.integers(0, 7),
)
NUMBERED = st.builds(s7.Item, st.sampled_from((s7.Area.COUNTERS, s7.Area.TIMERS)), U16, U16, st.just(s7.ItemType.TIMER))
POINTERS = st.lists(ITEMS | NUMBERED, min_size=1, max_size=20).map(tuple)
DATA = st.builds(
    s7.DataItem,
    st.just(0xFF),
    st.sampled_from([kind for kind in s7.Transport if kind is not s7.Transport.NULL]),
    st.binary(max_size=40),
)
BITS = st.builds(lambda bit: s7.DataItem(0xFF, s7.Transport.BIT, bytes((bit,)), 1), st.booleans())
NOTHING = st.builds(s7.DataItem, st.sampled_from((0x05, 0x0A)), st.just(s7.Transport.NULL), st.just(b""))
REPLIES = st.lists(DATA | BITS | NOTHING, min_size=1, max_size=20).map(tuple)
BODIES = st.one_of(
    st.builds(s7.Setup, U16, U16, U16),
    st.builds(s7.ReadReply, REPLIES),
    st.builds(s7.WriteReply, st.lists(st.integers(0, 255), min_size=1, max_size=20).map(tuple)),
)
TELEGRAMS = st.one_of(
    st.builds(s7.Job, U16, st.builds(s7.ReadRequest, POINTERS)),
    st.builds(s7.Ack, U16, st.just(0), BODIES),
    st.builds(s7.Ack, U16, U16, st.none(), st.booleans()),
    st.builds(s7.UserData, U16, st.just(False), st.just(4), st.just(1), st.just(0), st.builds(s7.SzlRequest, U16, U16)),
    st.builds(cotp.Disconnect, U16, U16, st.integers(0, 255)),
)


@given(TELEGRAMS)
@settings(max_examples=80)
def test_what_is_encoded_decodes_to_the_same(telegram: s7.Telegram) -> None:
    data = pdu.encode(telegram)
    assert pdu.decode(data) == telegram
    assert cotp.telegram_length(data) == len(data)


@given(st.binary(max_size=80))
@settings(max_examples=100)
def test_any_bytes_give_a_telegram_or_the_one_error(data: bytes) -> None:
    try:
        value = pdu.decode(data)
    except S7Error:
        return
    assert pdu.decode(pdu.encode(value)) == value


def test_short_fuzz_run_finds_nothing_and_reaches_much() -> None:
    reached = fuzz("s7", 2_000, seed=1)
    assert reached["decoded"] > 150
    assert reached["meaning JobResult"] > 10
    assert len(reached) > 30, sorted(reached)


def test_optimised_block_is_refused_by_name() -> None:
    request = bytearray(pdu.encode(s7.Job(1, s7.ReadRequest((s7.Item(s7.Area.DATA_BLOCK, 0, 1, block=1),)))))
    request[21] = 0xB2  # symbolic addressing in place of an S7-Any pointer
    with pytest.raises(S7Error, match="optimised-block"):
        pdu.decode(bytes(request))


def test_reply_with_another_number_of_items_is_not_matched() -> None:
    dialogue = S7Dialogue()
    item = s7.Item(s7.Area.FLAGS, 0, 1)
    dialogue.read(pdu.encode(s7.Job(7, s7.ReadRequest((item, item)))))
    reply = s7.ReadReply((s7.DataItem(0xFF, s7.Transport.BYTE, b"\1"),))
    with pytest.raises(S7Error, match="reply-items"):
        dialogue.read(pdu.encode(s7.Ack(7, 0, reply)))


def test_reply_that_names_an_error_says_so_in_words() -> None:
    dialogue = S7Dialogue()
    found = dialogue.read(pdu.encode(s7.Ack(7, 0x8104, None))).meaning
    assert found == JobResult("context not supported", ())
