"""TCG2 event logs: real captures replay, everything else is refused, nothing crashes the parser."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.boot import eventlog
from attest.boot.errors import EventLogError
from attest.boot.eventlog import EV_NO_ACTION, Event, EventLog, encode, parse, text_event

CAPTURES = ("aarch64-direct", "x86_64-direct-crb", "x86_64-uki-nosb", "x86_64-uki-secureboot")
IMA_PCR = 10  # extended by the running kernel, not by the firmware
ALG = (0x000B).to_bytes(2, "little")

events = st.builds(
    Event,
    pcr=st.integers(0, 23),
    kind=st.integers(0, 2**32 - 1).filter(lambda kind: kind != EV_NO_ACTION),
    digest=st.binary(min_size=32, max_size=32),
    data=st.binary(max_size=200),
)


@pytest.mark.parametrize("name", CAPTURES)
def test_real_log_replays_to_the_pcrs(fixtures_dir: Path, name: str) -> None:
    log = parse((fixtures_dir / "boot" / f"{name}.eventlog.bin").read_bytes())
    values = json.loads((fixtures_dir / "boot" / f"{name}.pcrs.json").read_text())["sha256"]
    for pcr in range(24):
        if pcr != IMA_PCR:
            assert log.value(pcr).hex() == values[str(pcr)], f"PCR {pcr}"


@pytest.mark.parametrize("name", CAPTURES)
def test_second_opinion_reads_what_we_write(fixtures_dir: Path, tmp_path: Path, name: str) -> None:
    if shutil.which("tpm2_eventlog") is None:
        pytest.skip("SKIPPED: tpm2-tools are not installed; this test needs tpm2_eventlog")
    log = parse((fixtures_dir / "boot" / f"{name}.eventlog.bin").read_bytes())
    own = EventLog((*log.events, text_event(13, "sits:component x sha256:00")))
    (tmp_path / "log").write_bytes(own.encode())
    output = subprocess.run(["tpm2_eventlog", "log"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^ +(\d+) *: 0x([0-9a-f]{64})$", output[output.index("pcrs:") :], re.MULTILINE)
    assert {int(pcr): bytes.fromhex(value) for pcr, value in lines} == own.replay()


@given(st.lists(events, max_size=20), st.sampled_from([0, 3, 4]))
def test_written_logs_read_back(items: list[Event], locality: int) -> None:
    log = EventLog(tuple(items), locality)
    assert parse(log.encode()) == log


@given(st.lists(events, max_size=20))
def test_replay_is_the_chain_of_extends(items: list[Event]) -> None:
    values = {pcr: (b"\xff" if 17 <= pcr <= 22 else b"\0") * 32 for pcr in range(24)}
    for event in items:
        values[event.pcr] = hashlib.sha256(values[event.pcr] + event.digest).digest()
    log = EventLog(tuple(items))
    assert {pcr: log.value(pcr) for pcr in range(24)} == values
    assert set(log.replay()) == {event.pcr for event in items}


@given(st.binary(max_size=400))
def test_any_bytes_give_a_log_or_one_error(data: bytes) -> None:
    for candidate in (data, encode([]) + data):
        with contextlib.suppress(EventLogError):
            log = parse(candidate)
            assert parse(log.encode()) == log


@settings(max_examples=300)
@given(data=st.data())
def test_mutated_log_never_crashes(data: st.DataObject) -> None:
    mutated = bytearray(firmware_like_log())
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(mutated)))
    for candidate in (bytes(mutated), bytes(mutated[:cut])):
        with contextlib.suppress(EventLogError):
            assert len(parse(candidate).events) <= len(candidate) // 50


def firmware_like_log() -> bytes:
    """A log as firmware writes it, made here so that fuzzing does not depend on recordings."""
    boot = [Event(pcr, 0x80000001, bytes([pcr]) * 32, b"variable" * 8) for pcr in (0, 7, 7, 1, 4, 5)]
    return EventLog((*boot, text_event(11, "kernel")), startup_locality=3).encode()


def test_every_truncation_is_refused_or_ends_between_events() -> None:
    data = encode([text_event(13, "a"), text_event(13, "b")])
    whole = {len(encode([])), len(encode([text_event(13, "a")])), len(data)}
    for cut in range(len(data) + 1):
        if cut in whole:
            parse(data[:cut])
        else:
            with pytest.raises(EventLogError):
                parse(data[:cut])


def _header(**changes: bytes) -> bytes:
    fields = {
        "pcr": bytes(4),
        "kind": (3).to_bytes(4, "little"),
        "digest": bytes(20),
        "size": (33).to_bytes(4, "little"),
        "signature": b"Spec ID Event03\0",
        "platform": bytes(4),
        "version": bytes([0, 2]),
        "errata": b"\0",
        "uintn": b"\2",
        "count": (1).to_bytes(4, "little"),
        "bank": ALG + (32).to_bytes(2, "little"),
        "vendor": b"\0",
    }
    assert b"".join(fields.values()) == encode([])
    fields.update(changes)
    return b"".join(fields.values())


def _event(**changes: bytes) -> bytes:
    fields = {
        "pcr": (13).to_bytes(4, "little"),
        "kind": (13).to_bytes(4, "little"),
        "count": (1).to_bytes(4, "little"),
        "algorithm": ALG,
        "digest": bytes(32),
        "size": (1).to_bytes(4, "little"),
        "data": b"x",
    }
    fields.update(changes)
    return b"".join(fields.values())


def _locality(value: bytes, pcr: int = 0) -> bytes:
    data = b"StartupLocality\0" + value
    return _event(
        pcr=pcr.to_bytes(4, "little"), kind=bytes([3, 0, 0, 0]), size=len(data).to_bytes(4, "little"), data=data
    )


def _u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


SHA1 = (4).to_bytes(2, "little") + (20).to_bytes(2, "little")
TWO_BANKS = {"size": _u32(37), "count": _u32(2), "bank": SHA1 + ALG + (32).to_bytes(2, "little")}
REFUSED = {
    "empty": b"",
    "header-sha1-only-log": _header(kind=_u32(8)),
    "header-pcr": _header(pcr=_u32(1)),
    "header-digest": _header(digest=b"\1" * 20),
    "header-signature": _header(signature=b"Spec ID Event02\0"),
    "header-version": _header(version=bytes([2, 1])),
    "header-uintn": _header(uintn=b"\3"),
    "header-size": _header(size=_u32(34)),
    "header-no-algorithm": _header(count=_u32(0)),
    "header-too-many-algorithms": _header(count=_u32(2**32 - 1)),
    "header-unknown-algorithm": _header(bank=b"\x99\x00\x20\x00"),
    "header-digest-size": _header(bank=ALG + b"\x14\x00"),
    "header-algorithm-twice": _header(count=_u32(2), bank=2 * (ALG + b"\x20\x00"), size=_u32(37)),
    "header-no-sha256": _header(bank=SHA1),
    "header-vendor-truncated": _header(vendor=b"\5"),
    "event-pcr": encode([]) + _event(pcr=_u32(24)),
    "event-digest-missing": encode([]) + _event(count=_u32(0)),
    "event-digest-count": encode([]) + _event(count=_u32(2**31)),
    "event-digest-algorithm": encode([]) + _event(algorithm=b"\x04\x00"),
    "event-digest-twice": _header(**TWO_BANKS) + _event(count=_u32(2), digest=bytes(32) + ALG + bytes(32)),
    "event-size": encode([]) + _event(size=_u32(2)),
    "event-too-large": encode([]) + _event(size=_u32(2**31)),
    "locality-value": encode([]) + _locality(b"\2"),
    "locality-missing": encode([]) + _locality(b""),
    "locality-pcr": encode([]) + _locality(b"\3", pcr=1),
    "locality-twice": encode([]) + _locality(b"\3") + _locality(b"\3"),
    "locality-late": encode([]) + _event(pcr=_u32(0)) + _locality(b"\3"),
    "log-too-large": encode([]) + bytes(eventlog.MAX_LOG_BYTES),
    "too-many-events": encode([]) + _event(size=_u32(0), data=b"") * (eventlog.MAX_EVENTS + 1),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused(rule: str) -> None:
    with pytest.raises(EventLogError):
        parse(REFUSED[rule])


def test_several_banks_are_read_and_sha256_kept() -> None:
    event = _event(count=_u32(2), algorithm=b"\x04\x00", digest=bytes(20) + ALG + b"\7" * 32)
    (parsed,) = parse(_header(**TWO_BANKS) + event).events
    assert parsed.digest == b"\7" * 32


def test_startup_locality_sets_the_first_value_of_pcr_0() -> None:
    log = parse(encode([]) + _locality(b"\4"))
    assert log.value(0) == bytes(31) + b"\4"
    assert log.replay() == {}


def test_no_action_events_extend_nothing() -> None:
    event = _event(kind=_u32(EV_NO_ACTION), pcr=_u32(2**32 - 1))
    log = parse(encode([]) + event)
    assert log.replay() == {}
    assert log.of(13) == ()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"sits:kernel", "EV_IPL 'sits:kernel'"),
        ("höhe".encode("utf-16-le"), "EV_IPL 'höhe'"),
        (b"\xff\xfe\x00\xd8", "EV_IPL (4 bytes)"),
        (b"", "EV_IPL (0 bytes)"),
    ],
)
def test_descriptions_are_readable(data: bytes, expected: str) -> None:
    assert Event(11, eventlog.EV_IPL, bytes(32), data).describe() == expected
    assert Event(11, 0x1234, bytes(32), b"").describe() == "event type 0x00001234 (0 bytes)"
