"""Replaying a log against a file of PCR values, IMA's list beside it; one negative test per rule."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.boot import banks, eventlog, ima, logformat
from attest.boot.errors import ImaError, PcrFileError
from attest.boot.eventlog import Event, EventLog
from attest.boot.replay import MAX_PCR_FILE_BYTES, PcrValues, parse_pcrs, replay
from tests.attest.boot import captures, made

LOG = made.logs()["sha1-sha256"]
FULL = logformat.read(LOG)
VALUES: dict[int, dict[int, bytes]] = {
    bank: {pcr: eventlog.view(FULL, bank).value(pcr) for pcr in range(24)} for bank in FULL.banks
}


def changed(bank: int, pcr: int, value: bytes | None) -> PcrValues:
    held = {pcr_: v for pcr_, v in VALUES[bank].items() if pcr_ != pcr}
    return VALUES | {bank: held if value is None else held | {pcr: value}}


@pytest.mark.parametrize("name", made.logs())
def test_a_log_matches_the_values_it_gives(name: str) -> None:
    log = made.logs()[name]
    values = replay(log).computed
    result = replay(log, pcrs=values)
    assert result.ok
    assert result.matched == tuple(sorted(next(iter(values.values()))))


def test_without_values_nothing_is_compared() -> None:
    result = replay(LOG)
    assert result.ok
    assert (result.matched, result.mismatched, result.compared) == ((), (), ())


def test_one_bank_of_several_is_enough_but_all_given_must_match() -> None:
    assert replay(LOG, pcrs={banks.SHA256: VALUES[banks.SHA256]}).compared == (banks.SHA256,)
    assert replay(LOG, pcrs=VALUES).compared == (banks.SHA1, banks.SHA256)
    for bank in FULL.banks:
        result = replay(LOG, pcrs=changed(bank, 4, bytes(banks.SIZES[bank])))
        assert (result.ok, result.mismatched) == (False, (4,))
        (difference,) = result.differences
        assert (difference.bank, difference.pcr, difference.found) == (bank, 4, bytes(banks.SIZES[bank]))


def test_a_bank_of_the_file_alone_is_not_compared() -> None:
    result = replay(made.logs()["sha256"], pcrs=replay(made.logs()["sha256"]).computed | {banks.SHA1: {0: bytes(20)}})
    assert result.ok
    assert result.compared == (banks.SHA256,)


def test_no_common_bank_is_an_error() -> None:
    with pytest.raises(PcrFileError) as caught:
        replay(made.logs()["sha384"], pcrs=VALUES)
    assert "sha384" in caught.value.expected


def test_digests_swapped_between_banks_do_not_match() -> None:
    """Two banks of one size, so that the log stays well formed."""
    algorithms = (banks.SHA256, banks.SHA3_256)
    log = made.full_log(algorithms)
    full, values = logformat.read(log), replay(log).computed
    for number in (0, 5, len(full.records) - 1):
        records = [
            dataclasses.replace(record, digests=record.digests[::-1]) if at == number else record
            for at, record in enumerate(full.records)
        ]
        swapped = captures.write(dataclasses.replace(full, records=tuple(records)))
        extends = full.records[number].extends
        assert replay(swapped, pcrs=values).ok is not extends  # the startup locality has zeros in both
    renamed = captures.write(dataclasses.replace(full, banks=algorithms[::-1]))
    assert not replay(renamed, pcrs=values).ok
    exchanged = dict(zip(algorithms, (values[banks.SHA3_256], values[banks.SHA256]), strict=True))
    assert not replay(log, pcrs=exchanged).ok


def test_a_value_that_is_missing_in_the_file_does_not_match() -> None:
    result = replay(LOG, pcrs=changed(banks.SHA256, 7, None))
    assert (result.ok, result.missing, result.mismatched) == (False, (7,), ())
    assert 7 not in result.matched


def test_an_extended_pcr_without_events_is_unexplained() -> None:
    for pcr, ok in ((3, False), (13, False), (10, True), (15, True), (16, True), (23, True)):
        result = replay(LOG, pcrs=changed(banks.SHA256, pcr, b"\1" * 32))
        assert (result.ok, result.unexplained) == (ok, () if ok else (pcr,))


def test_a_log_cut_to_nothing_matches_nothing() -> None:
    empty = eventlog.encode([])
    initial = {banks.SHA256: {pcr: EventLog(()).initial(pcr) for pcr in range(24)}}
    assert not replay(empty, pcrs=initial).ok
    assert replay(empty).ok


def test_an_event_that_says_something_else_than_was_extended_does_not_match() -> None:
    event = Event(4, eventlog.EV_SEPARATOR, banks.digest(banks.SHA256, b"x"), bytes(4))
    log = eventlog.encode([event])
    result = replay(log, pcrs=replay(log).computed)
    assert (result.ok, result.misdescribed, result.mismatched) == (False, (1,), ())


def test_misdescribed_events_are_numbered_as_in_the_file() -> None:
    wrong = Event(4, eventlog.EV_SEPARATOR, banks.digest(banks.SHA256, b"x"), bytes(4))
    fine = Event(4, eventlog.EV_SEPARATOR, banks.digest(banks.SHA256, bytes(4)), bytes(4))
    log = EventLog((Event(0, eventlog.EV_NO_ACTION, bytes(32), b"note"), fine, wrong), startup_locality=3).encode()
    assert replay(log).misdescribed == (4,)


# --- IMA ------------------------------------------------------------------------------------------------------------

BOOT = {pcr: bytes([pcr]) * 32 for pcr in range(10)}
BARE = eventlog.encode([])


def ima_case(*, entries: int | None = None, padded: bool = False) -> tuple[bytes, bytes, PcrValues]:
    """A log, a list whose aggregate belongs to its PCRs, and values with PCR 10 after ``entries`` entries."""
    values = {pcr: eventlog.view(FULL, banks.SHA256).value(pcr) for pcr in range(24)}
    listed = made.aggregate(ima.boot_aggregate(values, "sha256")) + made.ima_file() + made.ima_file("/bin/ls")
    steps = list(ima.parse(listed).values(banks.SHA256, padded=padded))
    return LOG, listed, {banks.SHA256: values | {10: steps[len(steps) - 1 if entries is None else entries]}}


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("entries", [1, 2, 3])
def test_a_prefix_of_the_list_matches(entries: int, padded: bool) -> None:
    log, listed, values = ima_case(entries=entries, padded=padded)
    result = replay(log, pcrs=values, ima_list=listed)
    assert result.ok
    assert result.ima is not None
    assert (result.ima.matched, result.ima.padded) == (entries, padded)
    assert 10 in result.matched


def test_a_list_that_pcr_10_does_not_hold_is_refused() -> None:
    log, listed, values = ima_case()
    result = replay(log, pcrs={banks.SHA256: values[banks.SHA256] | {10: b"\1" * 32}}, ima_list=listed)
    assert (result.ok, result.mismatched) == (False, (10,))
    assert result.ima is not None
    assert "no prefix" in str(result.ima.fault)


def test_a_list_of_another_boot_is_refused() -> None:
    log, _, values = ima_case()
    other = made.aggregate(b"\1" * 32) + made.ima_file()
    pcr_10 = list(ima.parse(other).values(banks.SHA256))[2]
    result = replay(log, pcrs={banks.SHA256: values[banks.SHA256] | {10: pcr_10}}, ima_list=other)
    assert (result.ok, result.mismatched) == (False, (10,))
    assert result.ima is not None
    assert "boot aggregate" in str(result.ima.fault)


def test_a_list_without_a_value_of_pcr_10_is_refused() -> None:
    log, listed, values = ima_case()
    without = {pcr: value for pcr, value in values[banks.SHA256].items() if pcr != 10}
    result = replay(log, pcrs={banks.SHA256: without}, ima_list=listed)
    assert not result.ok
    assert result.ima is not None
    assert result.ima.fault == "no value of PCR 10"


def test_banks_that_hold_different_prefixes_are_refused() -> None:
    log, listed, values = ima_case(entries=2)
    sha1 = dict(VALUES[banks.SHA1]) | {10: list(ima.parse(listed).values(banks.SHA1))[1]}
    result = replay(log, pcrs=dict(values) | {banks.SHA1: sha1}, ima_list=listed)
    assert not result.ok
    sha1[10] = list(ima.parse(listed).values(banks.SHA1))[2]
    assert replay(log, pcrs=dict(values) | {banks.SHA1: sha1}, ima_list=listed).ok


def test_without_values_the_aggregate_is_judged_by_the_log() -> None:
    log, listed, _ = ima_case()
    assert replay(log, ima_list=made.aggregate(bytes(32))).ok
    whole = EventLog(tuple(Event(pcr, 1, bytes(32), b"") for pcr in range(10))).encode()
    aggregate = ima.boot_aggregate(replay(whole).computed[banks.SHA256], "sha256")
    result = replay(whole, ima_list=made.aggregate(aggregate))
    assert result.ok
    assert result.ima is not None
    assert result.ima.matched is None
    assert not replay(whole, ima_list=listed).ok


def test_a_broken_list_is_an_error() -> None:
    with pytest.raises(ImaError):
        replay(LOG, ima_list=b"")


# --- files of PCR values --------------------------------------------------------------------------------------------

HEX = "00" * 32
REFUSED = {
    "empty": b"",
    "no-json": b"{",
    "no-utf-8": b"\xff",
    "nested": b"[" * 60_000,
    "no-object": b"[]",
    "no-bank": b"{}",
    "bank-unknown": json.dumps({"md5": {"0": HEX}}).encode(),
    "bank-twice": b'{"sha256": {}, "sha256": {}}',
    "bank-no-object": json.dumps({"sha256": [HEX]}).encode(),
    "pcr-twice": f'{{"sha256": {{"0": "{HEX}", "0": "{HEX}"}}}}'.encode(),
    "pcr-range": json.dumps({"sha256": {"24": HEX}}).encode(),
    "pcr-text": json.dumps({"sha256": {"x": HEX}}).encode(),
    "pcr-leading-zero": json.dumps({"sha256": {"00": HEX}}).encode(),
    "value-number": json.dumps({"sha256": {"0": 0}}).encode(),
    "value-size": json.dumps({"sha256": {"0": HEX[2:]}}).encode(),
    "value-of-another-bank": json.dumps({"sha1": {"0": HEX}}).encode(),
    "value-no-hex": json.dumps({"sha256": {"0": "zz" * 32}}).encode(),
    "value-spaces": json.dumps({"sha256": {"0": " " + HEX}}).encode(),
    "too-large": b" " * (MAX_PCR_FILE_BYTES + 1),
    "huge-number": b'{"sha256": {"0": ' + b"9" * 5000 + b"}}",
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused(rule: str) -> None:
    with pytest.raises(PcrFileError):
        parse_pcrs(REFUSED[rule])


def test_several_banks_and_the_writing_of_tpm2_tools_are_read() -> None:
    data = {"sha1": {"0": "0x" + "AB" * 20}, "sha256": {"23": HEX}, "sha384": {}}
    assert parse_pcrs(json.dumps(data).encode()) == {
        banks.SHA1: {0: b"\xab" * 20},
        banks.SHA256: {23: bytes(32)},
        banks.SHA384: {},
    }


@given(st.binary(max_size=80))
def test_any_bytes_give_values_or_one_error(data: bytes) -> None:
    try:
        values = parse_pcrs(data)
    except PcrFileError:
        return
    assert values
