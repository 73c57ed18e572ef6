"""Both formats of boot logs, all banks, and the rules of EV_NO_ACTION; one negative test per rule."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.boot import banks, eventlog, logformat
from attest.boot.errors import EventLogError
from attest.boot.event_types import EV_EFI_ACTION, EV_EFI_HCRTM_EVENT, EV_NO_ACTION, EV_SEPARATOR
from attest.boot.logformat import FullLog, Record, read
from tests.attest.boot import captures, made
from tests.attest.boot.captures import u32

BOTH = (banks.SHA1, banks.SHA256)


def no_action(data: bytes, *, pcr: int = 0, digest: int = 0) -> Record:
    return Record(1, pcr, EV_NO_ACTION, tuple(bytes([digest]) * banks.SIZES[a] for a in BOTH), data)


def extending(pcr: int = 0, kind: int = EV_SEPARATOR) -> Record:
    return Record(1, pcr, kind, tuple(banks.digest(a, bytes(4)) for a in BOTH), bytes(4))


def log(*records: Record) -> bytes:
    return captures.write(FullLog(BOTH, records, 0, True))


@pytest.mark.parametrize("name", made.logs())
def test_every_format_is_read_and_replays_in_every_bank(name: str) -> None:
    full = read(made.logs()[name])
    assert full.crypto_agile == (not name.startswith("legacy"))
    assert [record.number for record in full.records][-1] == len(full.records) - (name == "legacy")
    for bank in full.banks:
        view = eventlog.view(full, bank)
        values = {}
        for event in view.events:
            before = values.get(event.pcr, banks.first_value(bank, event.pcr, locality=full.startup_locality))
            values[event.pcr] = banks.digest(bank, before + event.digest)
        assert view.replay() == values
        assert {len(value) for value in values.values()} == {banks.SIZES[bank]}


def test_records_of_all_banks_are_kept_in_the_headers_order() -> None:
    full = read(made.full_log((banks.SHA512, banks.SHA1)))
    assert full.banks == (banks.SHA512, banks.SHA1)
    assert {tuple(map(len, record.digests)) for record in full.records} == {(64, 20)}


def test_a_log_without_sha256_is_read_but_never_parsed_for_a_policy() -> None:
    for name in ("sha384", "legacy", "legacy-header"):
        with pytest.raises(EventLogError) as caught:
            eventlog.parse(made.logs()[name])
        assert "sha256" in caught.value.expected


def test_another_bank_is_not_written() -> None:
    with pytest.raises(EventLogError):
        eventlog.view(read(made.logs()["sha384"]), banks.SHA384).encode()


def test_an_h_crtm_sets_the_first_value_of_pcr_0() -> None:
    first = extending(0, EV_EFI_HCRTM_EVENT)
    view = eventlog.parse(log(first, extending()))
    assert view.initial(0) == bytes(31) + b"\4"
    assert eventlog.parse(log(extending(), first)).initial(0) == bytes(32)
    assert eventlog.parse(log(no_action(b"StartupLocality\0\3"), first)).initial(0) == bytes(31) + b"\3"


def test_a_locality_of_zero_may_be_stated() -> None:
    assert read(log(no_action(b"StartupLocality\0\0"))).startup_locality == 0


def test_a_bank_that_openssl_has_not_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(banks, "_OPENSSL_NAMES", {banks.SM3_256: "no-such-hash"})
    for bank in (banks.SM3_256, banks.SHA3_256, 0x99):
        with pytest.raises(EventLogError):
            banks.digest(bank, b"")


SPEC = made.LEGACY_SPEC_ID
SEPARATOR = (0, EV_SEPARATOR, banks.digest(banks.SHA1, bytes(4)), bytes(4))
REFUSED = {
    "no-action-digest": log(no_action(b"x", digest=1)),
    "no-action-pcr": log(no_action(b"x", pcr=24)),
    "second-header": log(no_action(logformat.SPEC_ID)),
    "locality-stated-twice": log(no_action(b"StartupLocality\0\0"), no_action(b"StartupLocality\0\0")),
    "locality-after-pcr-0": log(extending(), no_action(b"StartupLocality\0\3")),
    "legacy-header-version": captures.legacy([SEPARATOR], SPEC[:20] + b"\0\3" + SPEC[22:]),
    "legacy-header-uintn": captures.legacy([SEPARATOR], SPEC[:23] + b"\4" + SPEC[24:]),
    "legacy-header-signature": captures.legacy([SEPARATOR], b"Spec ID Event01\0" + SPEC[16:]),
    "legacy-header-vendor": captures.legacy([SEPARATOR], SPEC[:-1] + b"\5"),
    "legacy-header-longer": captures.legacy([SEPARATOR], SPEC + b"\0"),
    "legacy-pcr": captures.legacy([(24, *SEPARATOR[1:])]),
    "legacy-no-action-digest": captures.legacy([SEPARATOR, (0, EV_NO_ACTION, b"\1" * 20, b"x")]),
    "legacy-truncated": captures.legacy([SEPARATOR])[:-1],
    "legacy-event-too-large": u32(0) + u32(4) + bytes(20) + u32(logformat.MAX_EVENT_BYTES + 1),
    "header-event-too-large": u32(0) + u32(3) + bytes(20) + u32(2**31),
    "too-many-events": captures.legacy([(0, EV_EFI_ACTION, bytes(20), b"")] * (logformat.MAX_EVENTS + 1)),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused(rule: str) -> None:
    with pytest.raises(EventLogError):
        read(REFUSED[rule])


def test_events_about_the_platform_as_a_whole_are_kept() -> None:
    full = read(log(no_action(b"SP800-155 Event3", pcr=0xFFFF_FFFF)))
    assert [record.data for record in full.records] == [b"SP800-155 Event3"]


@settings(max_examples=150)
@given(st.data())
def test_any_bytes_after_any_header_give_a_log_or_one_error(data: st.DataObject) -> None:
    head = data.draw(st.sampled_from([b"", made.logs()["four-banks"][:80], made.logs()["legacy-header"][:57]]))
    with contextlib.suppress(EventLogError):
        full = read(head + data.draw(st.binary(max_size=200)))
        assert all(len(record.digests) == len(full.banks) for record in full.records)
