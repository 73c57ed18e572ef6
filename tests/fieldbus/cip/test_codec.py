"""EtherNet/IP telegrams and CIP messages: encode and decode are each other's inverse; what replies must match."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.cip import encapsulation as enip
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity, KeySwitch, ListedIdentity, Mode
from fieldbus.cip.message import Reply, Request
from fieldbus.cip.path import Key, Logical, LogicalKind, Port, Symbol, decode_path, encode_path, to_object, to_tag
from fieldbus.cip.replies import Refused, Replies, SymbolEntry, Symbols, TagValues, said
from fieldbus.cip.services import Multiple, asked, join
from fieldbus.cip.types import BY_NAME, Elementary, decode_values, encode_value, packed_bools
from tests.fieldbus.fuzz_vendor import fuzz

U8, U16, U32 = st.integers(0, 0xFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)
SEGMENTS = st.one_of(
    st.builds(Symbol, NAMES),
    st.builds(Logical, st.sampled_from(LogicalKind), U8),
    st.builds(Logical, st.sampled_from(LogicalKind), U16, st.just(2)),
    st.builds(Logical, st.sampled_from((LogicalKind.INSTANCE, LogicalKind.MEMBER)), U32, st.just(4)),
    st.builds(Port, st.integers(1, 14), st.binary(min_size=1, max_size=1)),
    st.builds(Port, st.integers(15, 0xFFFF), st.binary(min_size=2, max_size=15)),
    st.builds(Key, U16, U16, U16, U8, U8),
)
PATHS = st.lists(SEGMENTS, max_size=6).map(tuple)
MESSAGES = st.one_of(
    st.builds(Request, st.integers(1, 127), PATHS, st.binary(max_size=20)),
    st.builds(Reply, st.integers(1, 127), U8, st.lists(U16, max_size=3).map(tuple), st.binary(max_size=20)),
)
IDENTITIES = st.builds(Identity, U16, U16, U16, U8, U8, U16, U32, NAMES)
BODIES = st.one_of(
    st.builds(enip.Telegram, st.just(enip.REGISTER), st.builds(enip.Register, U16), U32, st.just(0)),
    st.builds(enip.Telegram, st.just(enip.SEND_RR_DATA), st.builds(enip.Unconnected, MESSAGES, U16), U32, U32),
    st.builds(enip.Telegram, st.just(enip.SEND_UNIT_DATA), st.builds(enip.Connected, U32, U16, MESSAGES), U32),
    st.builds(
        enip.Telegram,
        st.just(enip.LIST_IDENTITY),
        st.lists(st.builds(ListedIdentity, U16, st.binary(min_size=16, max_size=16), IDENTITIES, U8), max_size=2).map(
            lambda items: enip.Identities(tuple(items))
        ),
    ),
)


@given(BODIES)
@settings(max_examples=80)
def test_what_is_encoded_decodes_to_the_same(telegram: enip.Telegram) -> None:
    data = enip.encode(telegram)
    assert enip.decode(data) == telegram
    assert enip.telegram_length(data) == len(data)


@given(PATHS)
@settings(max_examples=80)
def test_paths_decode_to_the_same(path: tuple[Symbol, ...]) -> None:
    assert decode_path(encode_path(path)) == path


@given(st.binary(max_size=80))
@settings(max_examples=100)
def test_any_bytes_give_a_telegram_or_the_one_error(data: bytes) -> None:
    try:
        value = enip.decode(data)
    except CipError:
        return
    assert enip.decode(enip.encode(value)) == value


def test_short_fuzz_run_finds_nothing_and_reaches_much() -> None:
    reached = fuzz("cip", 2_000, seed=1)
    assert reached["decoded"] > 150
    assert len(reached) > 30, sorted(reached)


def test_tag_names_become_paths() -> None:
    path = to_tag("Program:Main.Pump[3].Grid[1,300]")
    assert path == (
        Symbol("Program:Main"),
        Symbol("Pump"),
        Logical(LogicalKind.MEMBER, 3),
        Symbol("Grid"),
        Logical(LogicalKind.MEMBER, 1),
        Logical(LogicalKind.MEMBER, 300, 2),
    )


@pytest.mark.parametrize("text", ["", "a..b", "a[", "a[]", "a[-1]", "a[x]", "1a", "a b", "ä", "a[9999999999]"])
def test_name_that_no_tag_has_is_refused(text: str) -> None:
    with pytest.raises(CipError, match="tag-name"):
        to_tag(text)


@given(
    st.data(), st.sampled_from([kind for kind in BY_NAME.values() if kind.letter in "bhiqBHIQ" and kind.name != "BOOL"])
)
@settings(max_examples=60)
def test_integers_of_every_type(data: st.DataObject, kind: Elementary) -> None:
    bits = 8 * kind.size
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.letter.islower() else (0, (1 << bits) - 1)
    value = data.draw(st.integers(low, high))
    assert decode_values(kind, encode_value(kind, value)) == (value,)
    for outside in (low - 1, high + 1):
        with pytest.raises(CipError, match="value-range"):
            encode_value(kind, outside)


@pytest.mark.parametrize(("kind", "value"), [("BOOL", 1), ("DINT", True), ("DINT", 1.0), ("REAL", "1")])
def test_value_of_another_type_is_never_written(kind: str, value: bool | int | float | str) -> None:
    with pytest.raises(CipError, match="value-type"):
        encode_value(BY_NAME[kind], value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_real_that_is_no_number_is_never_written(value: float) -> None:
    with pytest.raises(CipError, match="value-range"):
        encode_value(BY_NAME["REAL"], value)


def test_packed_bools_come_lowest_bit_first() -> None:
    bools = packed_bools(b"\x05\x00\x00\x80")
    assert [index for index, value in enumerate(bools) if value] == [0, 2, 31]


READ = Request(0x4C, to_tag("Temp"), b"\x01\x00")


def test_reply_to_another_service_is_not_matched() -> None:
    with pytest.raises(CipError, match="reply-service"):
        said(READ, Reply(0x4D))


def test_refusal_is_said_in_words() -> None:
    assert said(READ, Reply(0x4C, 0xFF, (0x2105,))) == Refused(
        0xFF, (0x2105,), "general error: elements beyond the end of the tag"
    )


def test_each_answer_of_a_multiple_packet_is_read_against_its_request() -> None:
    both = Request(0x0A, to_object(2, 1), join((READ, READ)))
    assert isinstance(asked(both), Multiple)
    answers = join((Reply(0x4C, data=b"\xca\x00\x00\x00\xac\x41"), Reply(0x4C, 5)))
    found = said(both, Reply(0x0A, 0x1E, data=answers))
    assert isinstance(found, Replies)
    assert found.items[0].said == TagValues("REAL", (21.5,))
    assert isinstance(found.items[1].said, Refused)
    with pytest.raises(CipError, match="multiple-count"):
        said(both, Reply(0x0A, data=join((Reply(0x4C, 5),))))


def test_symbols_with_dimensions() -> None:
    ask = Request(0x55, to_object(0x6B, 0), b"\x03\x00\x01\x00\x02\x00\x08\x00")
    entry = b"\x07\0\0\0\x04\0Grid\xc4\x40\x02\0\0\0\x03\0\0\0\0\0\0\0"
    assert said(ask, Reply(0x55, 6, (), entry)) == Symbols((SymbolEntry(7, "Grid", 0x40C4, (2, 3, 0)),), True)


@pytest.mark.parametrize(
    ("status", "mode", "key", "faults"),
    [
        (0x3060, Mode.RUN, KeySwitch.REMOTE, (False, False)),
        (0x3160, Mode.RUN, KeySwitch.REMOTE, (True, False)),
        (0x1060, Mode.RUN, KeySwitch.RUN, (False, False)),
        (0x2070, Mode.PROGRAM, KeySwitch.PROGRAM, (False, False)),
        (0x0450, Mode.FAULTED, KeySwitch.UNKNOWN, (False, True)),
        (0x0860, Mode.FAULTED, KeySwitch.UNKNOWN, (False, True)),
        (0x0030, Mode.UNKNOWN, KeySwitch.UNKNOWN, (False, False)),
    ],
)
def test_status_word_says_mode_key_and_faults(
    status: int, mode: Mode, key: KeySwitch, faults: tuple[bool, bool]
) -> None:
    identity = Identity(1, 14, 54, 20, 11, status, 1, "1756-L61")
    assert (identity.mode, identity.key_switch) == (mode, key)
    assert (identity.minor_fault, identity.major_fault) == faults
