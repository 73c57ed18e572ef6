"""Every recorded boot parses, replays and verifies; changed ones do not, or differ in words that no digest covers."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from attest.boot import banks, efi, eventlog, ima, logformat
from attest.boot import event_types as types
from attest.boot.errors import EventLogError, ImaError, PcrFileError
from attest.boot.replay import parse_pcrs, replay
from tests.attest.boot import captures, fuzz_eventlog, made
from tests.attest.boot.captures import Capture, load

STRIDE = 7  # of flipped bytes; the fuzzer takes all


@pytest.fixture(scope="module", params=captures.NAMES)
def capture(request: pytest.FixtureRequest, fixtures_dir: Path) -> Capture:
    return load(fixtures_dir, request.param)


def test_capture_verifies(capture: Capture) -> None:
    result = replay(capture.log, pcrs=parse_pcrs(capture.pcrs), ima_list=capture.ima)
    assert result.ok
    assert set(result.matched) == set(result.computed[banks.SHA256]) | {ima.PCR_IMA}
    assert result.mismatched == result.missing == result.unexplained == result.misdescribed == ()
    assert result.ima is not None
    assert not result.ima.padded
    without_tpm = capture.name == "aarch64-direct"  # its IMA began before the TPM's driver
    assert result.ima.matched == (0 if without_tpm else 1)


def test_capture_is_written_back_to_the_same_bytes(capture: Capture) -> None:
    assert captures.write(logformat.read(capture.log)) == capture.log


def test_every_event_of_a_capture_is_read(capture: Capture) -> None:
    log = eventlog.parse(capture.log)
    assert all("bytes)" not in event.describe() for event in log.events)
    assert all(event.measured is not False for event in log.events)


def test_no_capture_verifies_with_the_values_of_another(capture: Capture, fixtures_dir: Path) -> None:
    for name in set(captures.NAMES) - {capture.name}:
        other = load(fixtures_dir, name)
        assert not replay(capture.log, pcrs=parse_pcrs(other.pcrs)).ok
        assert not replay(other.log, pcrs=parse_pcrs(capture.pcrs)).ok


def test_truncations_are_refused_or_mismatch(capture: Capture) -> None:
    values = parse_pcrs(capture.pcrs)
    log = logformat.read(capture.log)
    whole = [len(captures.header(log.banks))]  # ends between events, which only the values can tell
    for record in log.records:
        whole.append(whole[-1] + len(captures.record_bytes(record, log.banks)))
    assert whole.pop() == len(capture.log)
    for cut in sorted({*range(0, len(capture.log), STRIDE), *whole}):
        try:
            assert not replay(capture.log[:cut], pcrs=values).ok, cut
        except EventLogError:
            continue


def test_a_flipped_byte_is_refused_mismatches_or_lies_in_words(capture: Capture) -> None:
    """The words are those that the profile has no digest for: a replay must not depend on them in anything."""
    values = parse_pcrs(capture.pcrs)
    accepted = []
    for at in range(0, len(capture.log), STRIDE):
        raw = bytearray(capture.log)
        raw[at] ^= 1 << (at % 8)
        try:
            if replay(bytes(raw), pcrs=values).ok:
                assert fuzz_eventlog.unvouched(capture.log, bytes(raw)), at
                accepted.append(at)
        except EventLogError:
            continue
    assert len(accepted) < len(capture.log) / STRIDE / 4


def test_every_flipped_bit_of_a_digest_mismatches(capture: Capture) -> None:
    values = parse_pcrs(capture.pcrs)
    for record in logformat.read(capture.log).records:
        at = capture.log.index(record.digests[0] + len(record.data).to_bytes(4, "little"))
        raw = bytearray(capture.log)
        raw[at + record.number % 32] ^= 0x10
        assert not replay(bytes(raw), pcrs=values).ok


def test_reordered_events_mismatch(capture: Capture) -> None:
    rng = random.Random(1)
    values = parse_pcrs(capture.pcrs)
    for _ in range(40):
        swapped = captures.reorder(capture.log, rng)
        assert swapped is not None
        assert not replay(swapped, pcrs=values).ok


def test_wrong_algorithm_identifiers_are_refused(capture: Capture) -> None:
    values = parse_pcrs(capture.pcrs)
    identifier = banks.SHA256.to_bytes(2, "little")
    places = [m.start() for m in re.finditer(re.escape(identifier), capture.log)]
    header = places[0]
    for other in (0, 4, 0x0C, 0x0D, 0x12, 0x27, 0xFFFF):
        for place in (header, *places[1:8]):
            raw = capture.log[:place] + other.to_bytes(2, "little") + capture.log[place + 2 :]
            try:
                assert not replay(raw, pcrs=values).ok
            except (EventLogError, PcrFileError):
                continue


def test_a_log_whose_bank_is_renamed_throughout_does_not_verify(capture: Capture) -> None:
    log = logformat.read(capture.log)
    for other in (banks.SM3_256, banks.SHA3_256):
        renamed = captures.write(logformat.FullLog((other,), log.records, 0, True))
        with pytest.raises(PcrFileError):
            replay(renamed, pcrs=parse_pcrs(capture.pcrs))
        values = parse_pcrs(capture.pcrs.replace(b"sha256", banks.NAMES[other].encode()))
        assert not replay(renamed, pcrs=values).ok


def test_every_changed_byte_of_imas_list_is_refused_or_mismatches(capture: Capture) -> None:
    values = parse_pcrs(capture.pcrs)
    for at in range(len(capture.ima)):
        raw = bytearray(capture.ima)
        raw[at] ^= 0x21
        for changed in (bytes(raw), capture.ima[:at], capture.ima + capture.ima[:at]):
            if changed == capture.ima:
                continue
            with pytest.raises(ImaError):
                replay(capture.log, pcrs=values, ima_list=changed)


def test_a_list_of_another_boot_does_not_belong(fixtures_dir: Path) -> None:
    one, other = load(fixtures_dir, "x86_64-uki-nosb"), load(fixtures_dir, "x86_64-uki-secureboot")
    result = replay(one.log, pcrs=parse_pcrs(one.pcrs), ima_list=other.ima)
    assert not result.ok
    assert ima.PCR_IMA in result.mismatched


def test_mutations_by_the_fuzzer(fixtures_dir: Path) -> None:
    rng = random.Random(5)
    pool = fuzz_eventlog.seeds(fixtures_dir)
    words = {fuzz_eventlog.attempt(pool, rng) for _ in range(600)}
    assert {"event-log", "mismatch", "ima-list", "same"} >= words - {"words only", "ima prefix", "ima mismatch"}
    assert {"event-log", "mismatch", "ima-list"} <= words


@pytest.mark.parametrize("name", made.logs())
def test_fuzzer_knows_its_own_seeds(name: str) -> None:
    log = made.logs()[name]
    full = logformat.read(log)
    values = {bank: eventlog.view(full, bank).replay() for bank in full.banks}
    assert fuzz_eventlog.try_log(fuzz_eventlog.Seed(log, values, made.ima_list()), log) == "same"


# --- the second opinion: tpm2-tools -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def opinion(capture: Capture, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if shutil.which("tpm2_eventlog") is None:
        pytest.skip("SKIPPED: tpm2-tools are not installed; this test needs tpm2_eventlog")
    folder = tmp_path_factory.mktemp("opinion")
    (folder / "log").write_bytes(capture.log)
    done = subprocess.run(["tpm2_eventlog", "log"], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    parsed = YAML(typ="safe", pure=True).load(done.stdout)
    assert isinstance(parsed, dict)
    return parsed


def test_tpm2_eventlog_agrees_on_the_header(capture: Capture, opinion: dict[str, Any]) -> None:
    (spec,) = opinion["events"][0]["SpecID"]
    listed = list(spec["Algorithms"])
    log = logformat.read(capture.log)
    assert [entry["algorithmId"] for entry in listed] == [banks.NAMES[bank] for bank in log.banks]
    assert [entry["digestSize"] for entry in listed] == [banks.SIZES[bank] for bank in log.banks]


def test_tpm2_eventlog_agrees_on_every_field_of_every_event(capture: Capture, opinion: dict[str, Any]) -> None:
    log = logformat.read(capture.log)
    theirs = opinion["events"][1:]
    assert len(theirs) == len(log.records)
    for record, entry in zip(log.records, theirs, strict=True):
        assert entry["EventNum"] == record.number
        assert entry["PCRIndex"] == record.pcr
        assert entry["EventType"] == types.type_name(record.kind)
        assert entry["DigestCount"] == len(log.banks)
        ours = [
            {"AlgorithmId": banks.NAMES[bank], "Digest": digest.hex()}
            for bank, digest in zip(log.banks, record.digests, strict=True)
        ]
        assert entry["Digests"] == ours
        assert entry["EventSize"] == len(record.data)
        _agree_on_data(record, entry["Event"])


def _agree_on_data(record: logformat.Record, event: Any) -> None:
    data, kind = record.data, record.kind
    if kind in (types.EV_EFI_VARIABLE_DRIVER_CONFIG, types.EV_EFI_VARIABLE_BOOT, types.EV_EFI_VARIABLE_AUTHORITY):
        variable = efi.variable(data)
        assert variable is not None
        assert (event["VariableName"], event["UnicodeName"]) == (str(variable.guid), variable.name)
        assert event["UnicodeNameLength"] == len(variable.name)
        assert event["VariableDataLength"] == len(variable.value)
        assert event.get("VariableData", "") == variable.value.hex()
    elif kind == types.EV_EFI_PLATFORM_FIRMWARE_BLOB:
        blob = efi.blob(data)
        assert blob == ("", event["BlobBase"], event["BlobLength"])
    elif kind == types.EV_EFI_BOOT_SERVICES_APPLICATION:
        base, length, link, size = (int.from_bytes(data[i : i + 8], "little") for i in range(0, 32, 8))
        assert (event["ImageLocationInMemory"], event["ImageLengthInMemory"]) == (base, length)
        assert (event["ImageLinkTimeAddress"], event["LengthOfDevicePath"]) == (link, size)
        assert event["DevicePath"] == data[32:].hex()
        assert efi.image_path(data)
    elif kind == types.EV_EFI_ACTION:
        assert event == data.decode("ascii")
    elif kind == types.EV_IPL:
        text = event["String"].strip().strip('"').replace("\\0", "\0")
        assert text.rstrip("\0").encode() == data.rstrip(b"\0")
    else:
        assert event == data.hex()


def test_tpm2_eventlog_agrees_on_the_pcrs(capture: Capture, opinion: dict[str, Any]) -> None:
    result = replay(capture.log)
    theirs = {int(pcr): value for pcr, value in opinion["pcrs"]["sha256"].items()}
    assert theirs == {pcr: int.from_bytes(value, "big") for pcr, value in result.computed[banks.SHA256].items()}


@pytest.mark.parametrize("algorithms", [(), (banks.SHA1, banks.SHA256), (banks.SHA256, banks.SHA384, banks.SHA512)])
def test_tpm2_eventlog_replays_made_logs_alike(algorithms: tuple[int, ...], tmp_path: Path) -> None:
    """Without a startup locality, which tpm2-tools 5.4 does not replay (later ones do)."""
    if shutil.which("tpm2_eventlog") is None:
        pytest.skip("SKIPPED: tpm2-tools are not installed; this test needs tpm2_eventlog")
    log = made.full_log(algorithms, None) if algorithms else made.legacy_log()
    (tmp_path / "log").write_bytes(log)
    done = subprocess.run(
        ["tpm2_eventlog", "log"], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    text = done.stdout[done.stdout.index("\npcrs:") :]
    found: dict[str, dict[int, str]] = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"  (\w+):", line):
            found[match[1]] = {}
        elif match := re.fullmatch(r"    (\d+) *: 0x([0-9a-f]+)", line):
            found[next(reversed(found))][int(match[1])] = match[2]
    ours = replay(log).computed
    assert found == {banks.NAMES[b]: {pcr: v.hex() for pcr, v in held.items()} for b, held in ours.items()}


def test_pcr_files_of_captures_have_one_bank(capture: Capture) -> None:
    assert set(json.loads(capture.pcrs)) == {"sha256"}
