"""S7 types and times, system state lists."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.s7 import szl, times
from fieldbus.s7.errors import S7Error
from fieldbus.s7.values import DataType, TypeSpec, decode_value, encode_value

NS = 10**9
BERLIN = times.zone("Europe/Berlin")
SECONDS = st.integers(631_152_000, 3_786_912_000 - 1)  # 1990 to 2089
BACK: dict[DataType, st.SearchStrategy[bool | int | float | str]] = {
    DataType.BOOL: st.booleans(),
    DataType.BYTE: st.integers(0, 255),
    DataType.WORD: st.integers(0, 2**16 - 1),
    DataType.INT: st.integers(-(2**15), 2**15 - 1),
    DataType.DINT: st.integers(-(2**31), 2**31 - 1),
    DataType.LINT: st.integers(-(2**63), 2**63 - 1),
    DataType.REAL: st.floats(width=32, allow_nan=False, allow_infinity=False),
    DataType.LREAL: st.floats(allow_nan=False, allow_infinity=False),
    DataType.TIME: st.integers(-(2**31), 2**31 - 1),
    DataType.S5TIME: st.integers(0, 999).map(lambda count: count * 10),
    DataType.CHAR: st.characters(max_codepoint=127),
    DataType.WCHAR: st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)),
    DataType.DTL: st.integers(0, 4_102_444_800 * NS),
    DataType.LDT: st.integers(0, 4_102_444_800 * NS),
    DataType.DATE_AND_TIME: SECONDS.map(lambda second: second * NS + 123_000_000),
    DataType.STRING: st.text(st.characters(max_codepoint=127), max_size=12),
    DataType.WSTRING: st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=12),
}


@given(st.data(), st.sampled_from(sorted(BACK)))
def test_every_type_reads_back_what_was_written(data: st.DataObject, kind: DataType) -> None:
    value = data.draw(BACK[kind])
    spec = TypeSpec(kind, 12 if kind in (DataType.STRING, DataType.WSTRING) else 0)
    raw = encode_value(spec, value)
    assert len(raw) == spec.size
    assert decode_value(spec, raw) == value


@pytest.mark.parametrize(
    ("spec", "raw", "code"),
    [
        (TypeSpec(DataType.DTL), bytes.fromhex("07ea0d1d010f1e2d00000000"), "date"),
        (TypeSpec(DataType.DTL), bytes.fromhex("07ea0b1d010f1e2d3b9aca00"), "dtl-range"),
        (TypeSpec(DataType.DTL), bytes(12), "dtl-range"),
        (TypeSpec(DataType.DATE_AND_TIME), bytes.fromhex("2a11291526205310"), "bcd-time"),
        (TypeSpec(DataType.DATE_AND_TIME), bytes(8), "bcd-time"),
        (TypeSpec(DataType.S5TIME), b"\x4a\x00", "s5time"),
        (TypeSpec(DataType.S5TIME), b"\x0a\x00", "s5time"),
        (TypeSpec(DataType.DATE), b"\xff\xff", "date"),
        (TypeSpec(DataType.TIME_OF_DAY), b"\x05\x26\x5c\x00", "time-of-day"),
        (TypeSpec(DataType.STRING, 4), b"\x05\x01abcd", "string-length"),
        (TypeSpec(DataType.STRING, 4), b"\x04\x05abcd", "string-length"),
        (TypeSpec(DataType.STRING, 4), b"\x04\x01\xb5bcd", "character"),
        (TypeSpec(DataType.WSTRING, 1), bytes.fromhex("00010001d800"), "character"),
        (TypeSpec(DataType.INT), b"\x01", "data-length"),
    ],
)
def test_value_that_breaks_a_rule_is_refused_by_it(spec: TypeSpec, raw: bytes, code: str) -> None:
    with pytest.raises(S7Error) as caught:
        decode_value(spec, raw)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("spec", "value", "code"),
    [
        (TypeSpec(DataType.REAL), math.nan, "value-range"),
        (TypeSpec(DataType.REAL), 1e39, "value-range"),
        (TypeSpec(DataType.INT), 2**15, "value-range"),
        (TypeSpec(DataType.INT), True, "value-type"),
        (TypeSpec(DataType.BOOL), 1, "value-type"),
        (TypeSpec(DataType.STRING, 2), "abc", "value-range"),
        (TypeSpec(DataType.CHAR), "µ", "character"),
        (TypeSpec(DataType.S5TIME), 11, "s5time"),
        (TypeSpec(DataType.DATE), 1, "value-type"),
    ],
)
def test_value_that_the_type_cannot_have_is_never_written(spec: TypeSpec, value: object, code: str) -> None:
    with pytest.raises(S7Error) as caught:
        encode_value(spec, value)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_local_time_of_a_cpu_is_not_taken_for_utc() -> None:
    raw = bytes.fromhex("2611291526205310")
    utc, local = times.date_and_time(raw, dt.UTC), times.date_and_time(raw, BERLIN)
    assert utc - local == 3_600 * NS
    assert utc == int(dt.datetime(2026, 11, 29, 15, 26, 20, tzinfo=dt.UTC).timestamp()) * NS + 531_000_000


def test_hour_that_summer_time_skipped_is_refused() -> None:
    with pytest.raises(S7Error, match="time-gap"):
        times.date_and_time(bytes.fromhex("2603290230000001"), BERLIN)


def test_clock_that_was_reset_to_2000_gives_that_time_and_the_freshness_check_judges_it() -> None:
    stamp = times.date_and_time(bytes.fromhex("0001010000000007"), dt.UTC)
    assert stamp == 946_684_800 * NS


def test_dtl_keeps_nanoseconds() -> None:
    assert times.dtl(bytes.fromhex("07ea0b1d010f1e2d075bcd15"), dt.UTC) % NS == 123_456_789


def test_unknown_zone_is_refused() -> None:
    with pytest.raises(S7Error, match="time-zone"):
        times.zone("../../etc/passwd")


def state_list(modes: int, stamp: str = "2611291526205310") -> bytes:
    record = bytes.fromhex("4302ff") + bytes((modes,)) + bytes(8) + bytes.fromhex(stamp)
    return bytes.fromhex("0424000000140001") + record


@pytest.mark.parametrize(
    ("modes", "mode"),
    [(0x48, szl.CpuMode.RUN), (0x84, szl.CpuMode.STOP), (0x6A, szl.CpuMode.HOLD), (0, szl.CpuMode.OTHER)],
)
def test_cpu_state_says_mode_cause_and_time(modes: int, mode: szl.CpuMode) -> None:
    state = szl.cpu_state(szl.assemble((state_list(modes),)), dt.UTC)
    assert state.mode is mode
    assert state.event == "mode transition from STARTUP to RUN"
    assert state.t_ns is not None


def test_clock_that_was_never_set_gives_no_time() -> None:
    assert szl.cpu_state(szl.assemble((state_list(0x48, "00" * 8),)), dt.UTC).t_ns is None


def test_diagnostic_buffer_comes_in_parts_and_unknown_events_have_no_text() -> None:
    entries = "4304ff84000000000000000026112915262053104a00" + "ff84000000000000000026112915262053 10".replace(" ", "")
    data = bytes.fromhex("00a0000000140002" + entries)
    found = szl.diagnostic_buffer(szl.assemble((data[:20], data[20:])), dt.UTC)
    assert [entry.event for entry in found] == [
        "STOP by a programming device or SFB 20",
        "stop event or mode transition",
    ]
    assert found[0].coming


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes.fromhex("04240000001400 01".replace(" ", "")), "szl-length"),
        (bytes.fromhex("0424000000000001"), "szl-length"),
        (bytes.fromhex("0425000000140001") + bytes(20), "szl-id"),
        (bytes.fromhex("0424000000020001") + bytes(2), "szl-record"),
        (bytes.fromhex("0424000000140000"), "szl-record"),
    ],
)
def test_list_that_is_not_as_its_id_says_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(S7Error) as caught:
        szl.cpu_state(szl.assemble((data,)), dt.UTC)
    assert caught.value.code == code
    assert szl.interpret((data,), dt.UTC) == szl.Unreadable(code) or code == "szl-id"


def test_list_of_too_many_bytes_is_refused() -> None:
    with pytest.raises(S7Error, match="szl-size"):
        szl.assemble((bytes(70_000),))


def test_names_and_order_number() -> None:
    order = bytes.fromhex("00110001001c0001") + b"\0\x01" + b"6ES7 315-2EH14-0AB0".ljust(20) + bytes(6)
    assert szl.order_number(szl.assemble((order,))) == "6ES7 315-2EH14-0AB0"
    names = bytes.fromhex("001c000000220001") + b"\0\x01" + b"Line 3".ljust(32, b"\0")
    assert szl.names(szl.assemble((names,))) == {1: "Line 3"}
    with pytest.raises(S7Error, match="szl-text"):
        szl.names(szl.assemble((names.replace(b"Line", b"Li\x07e"),)))
