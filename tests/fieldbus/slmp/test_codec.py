"""SLMP frames, devices and word values."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.slmp import frame
from fieldbus.slmp import model as slmp
from fieldbus.slmp.client import clock_ns
from fieldbus.slmp.devices import NUMBER_MAX, Device, Series
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.values import WordOrder, WordType, decode_words, encode_words, words_of
from fieldbus.slmp.wire import DataCode
from tests.fieldbus.fuzz_vendor import fuzz

WORDS = st.sampled_from(("D", "W", "SD", "R", "TN", "SW"))
BITS = st.sampled_from(("X", "Y", "M", "B", "SM", "L", "TS"))
SHORT = st.integers(0, 999_999)
WORD_DEVICES, BIT_DEVICES = st.builds(Device, WORDS, SHORT), st.builds(Device, BITS, SHORT)
U16, U32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF)
LONG = st.booleans()
BODIES = st.one_of(
    st.builds(slmp.ReadBatch, WORD_DEVICES | BIT_DEVICES, st.integers(1, 960), st.just(False), LONG),
    st.builds(slmp.ReadBatch, BIT_DEVICES, st.integers(1, 7_168), st.just(True), LONG),
    st.builds(slmp.WriteWords, WORD_DEVICES, st.lists(U16, min_size=1, max_size=8).map(tuple), LONG),
    st.builds(slmp.WriteBits, BIT_DEVICES, st.lists(st.booleans(), min_size=1, max_size=9).map(tuple), LONG),
    st.builds(slmp.ReadRandom, st.lists(WORD_DEVICES, min_size=1, max_size=4).map(tuple), st.just(()), LONG),
    st.builds(
        slmp.WriteRandom, st.just(()), st.lists(st.tuples(WORD_DEVICES, U32), min_size=1, max_size=4).map(tuple), LONG
    ),
    st.builds(
        slmp.WriteRandomBits, st.lists(st.tuples(BIT_DEVICES, st.booleans()), min_size=1, max_size=4).map(tuple), LONG
    ),
    st.builds(slmp.SelfTest, st.text("ABC019", min_size=1, max_size=20).map(str.encode)),
    st.just(slmp.ReadModel()),
    st.just(slmp.ClearError()),
    st.builds(slmp.RemoteRun, st.sampled_from((1, 3)), st.integers(0, 2)),
    st.builds(slmp.RemoteControl, st.sampled_from((0x1002, 0x1003, 0x1005, 0x1006)), U16),
)
ROUTES = st.builds(slmp.Route, st.integers(0, 255), st.integers(0, 255), U16, st.integers(0, 255))
SERIALS = st.none() | U16
CODES = st.sampled_from(DataCode)
ERRORS = st.none() | st.builds(slmp.ErrorInfo, ROUTES, U16, U16)
FRAMES = st.one_of(
    st.builds(slmp.Request, BODIES, SERIALS, ROUTES, U16, CODES),
    st.builds(slmp.Reply, st.just(0), st.binary(max_size=20), SERIALS, ROUTES, CODES),
    st.builds(slmp.Reply, st.integers(1, 0xFFFF), st.just(b""), SERIALS, ROUTES, CODES, ERRORS),
)


@given(FRAMES)
@settings(max_examples=150)
def test_what_is_encoded_decodes_to_the_same(value: slmp.Frame) -> None:
    data = frame.encode(value)
    assert frame.decode(data) == value
    assert frame.telegram_length(data) == len(data)


@given(st.binary(max_size=60))
@settings(max_examples=100)
def test_any_bytes_give_a_frame_or_the_one_error(data: bytes) -> None:
    try:
        value = frame.decode(data)
    except SlmpError:
        return
    assert frame.decode(frame.encode(value)) == value


def test_short_fuzz_run_finds_nothing_and_reaches_much() -> None:
    reached = fuzz("slmp", 2_000, seed=1)
    assert reached["decoded"] > 150
    assert len(reached) > 20, sorted(reached)


@pytest.mark.parametrize(
    ("text", "series", "kind", "number"),
    [
        ("X1F", Series.Q, "X", 0x1F),
        ("X10", Series.IQ_F, "X", 8),
        ("Y17", Series.IQ_R, "Y", 0x17),
        ("D100", Series.Q, "D", 100),
        ("W1A", Series.L, "W", 0x1A),
        ("SD203", Series.Q, "SD", 203),
        ("SB1F", Series.Q, "SB", 0x1F),
        ("BA0", Series.Q, "B", 0xA0),
        ("TN5", Series.Q, "TN", 5),
        ("ZR7", Series.Q, "ZR", 7),
    ],
)
def test_names_of_devices_by_series(text: str, series: Series, kind: str, number: int) -> None:
    device = Device.named(text, series)
    assert device == Device(kind, number)
    assert device.name(series) == text


@pytest.mark.parametrize(
    ("text", "series", "code"),
    [
        ("X18", Series.IQ_F, "device-radix"),
        ("D1F", Series.Q, "device-radix"),
        ("QQ1", Series.Q, "device-name"),
        ("D", Series.Q, "device-name"),
        ("d1", Series.Q, "device-name"),
        ("V1", Series.IQ_F, "device-unknown"),
        (f"D{NUMBER_MAX + 1}", Series.Q, "device-number"),
    ],
)
def test_name_that_the_series_has_not_is_refused(text: str, series: Series, code: str) -> None:
    with pytest.raises(SlmpError) as caught:
        Device.named(text, series)
    assert caught.value.code == code


def test_digits_whose_radix_is_not_certain_are_neither_read_nor_written() -> None:
    request = slmp.Request(slmp.ReadBatch(Device("X", 8), 1, bits=True), data_code=DataCode.ASCII)
    with pytest.raises(SlmpError, match="radix-unknown"):
        frame.encode(request, Series.IQ_F)
    with pytest.raises(SlmpError, match="radix-unknown"):
        frame.decode(frame.encode(request), Series.IQ_F)


NUMBERS = {
    WordType.UINT: st.integers(0, 2**16 - 1),
    WordType.INT: st.integers(-(2**15), 2**15 - 1),
    WordType.UDINT: st.integers(0, 2**32 - 1),
    WordType.DINT: st.integers(-(2**31), 2**31 - 1),
    WordType.REAL: st.floats(width=32, allow_nan=False, allow_infinity=False),
    WordType.LREAL: st.floats(allow_nan=False, allow_infinity=False),
}


@given(st.data(), st.sampled_from(sorted(NUMBERS)), st.sampled_from(WordOrder))
def test_words_read_back_what_was_written(data: st.DataObject, kind: WordType, order: WordOrder) -> None:
    value = data.draw(NUMBERS[kind])
    words = encode_words(kind, value, order)
    assert len(words) == words_of(kind)
    assert decode_words(kind, words, order) == value


def test_word_order_is_declared() -> None:
    assert decode_words(WordType.DINT, (1, 0)) == 1
    assert decode_words(WordType.DINT, (1, 0), WordOrder.HIGH_FIRST) == 65_536
    assert decode_words(WordType.TEXT, (0x4148, 0x0000)) == "HA"


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (WordType.INT, 2**15, "value-range"),
        (WordType.REAL, float("nan"), "value-range"),
        (WordType.INT, 1.0, "value-type"),
        (WordType.INT, True, "value-type"),
        (WordType.TEXT, "a", "value-type"),
    ],
)
def test_value_that_the_words_cannot_have_is_never_written(kind: WordType, value: object, code: str) -> None:
    with pytest.raises(SlmpError) as caught:
        encode_words(kind, value)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_words_that_are_no_value_are_refused() -> None:
    for kind, words, code in ((WordType.REAL, (1,), "word-count"), (WordType.TEXT, (0xB5B5,), "character")):
        with pytest.raises(SlmpError) as caught:
            decode_words(kind, words)
        assert caught.value.code == code
    with pytest.raises(SlmpError, match="text-length"):
        words_of(WordType.TEXT, 0)


def test_clock_of_both_families() -> None:
    expected = int(dt.datetime(2026, 11, 29, 15, 26, 20, tzinfo=dt.UTC).timestamp()) * 10**9
    assert clock_ns((0x2611, 0x2915, 0x2620, 0x2000, 0, 0, 0), Series.Q, dt.UTC) == expected
    assert clock_ns((2026, 11, 29, 15, 26, 20, 0), Series.IQ_R, dt.UTC) == expected
    for words, series in (((0x2A11, 0, 0, 0), Series.Q), ((2026, 13, 1, 0, 0, 0, 0), Series.IQ_R)):
        with pytest.raises(SlmpError, match="clock-value"):
            clock_ns(words, series, dt.UTC)
