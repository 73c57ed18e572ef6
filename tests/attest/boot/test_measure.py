"""Measured boot in software: deterministic, once per power-up, and honest about what changed afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from attest.boot import eventlog, measure
from attest.boot.errors import MeasureError
from attest.boot.eventlog import Event, EventLog, text_event
from attest.boot.measure import SOFTWARE_PCRS, SystemState, measure_software
from attest.structures import extend
from attest.tpm import Swtpm, TpmDevice

STATE = SystemState("Linux 6.1 x86_64", "quiet", {"attest": b"\1" * 32, "sitsedge": b"\2" * 32})
CHANGED = SystemState("Linux 6.1 x86_64", "quiet", {"attest": b"\1" * 32, "sitsedge": b"\3" * 32})


class MemoryBank:
    """PCRs in memory that can lose power and can die after a number of extends."""

    def __init__(self) -> None:
        self.dies_after = 1_000
        self.extends = 0
        self.power_up()

    def power_up(self) -> None:
        self.values = {pcr: bytes(32) for pcr in range(24)}

    def read_pcrs(self, pcrs: Iterable[int]) -> dict[int, bytes]:
        return {pcr: self.values[pcr] for pcr in pcrs}

    def extend(self, pcr: int, digest: bytes) -> None:
        if self.dies_after == 0:
            raise ConnectionError("power lost")
        self.dies_after -= 1
        self.extends += 1
        self.values[pcr] = extend(self.values[pcr], digest)

    def holds(self, log: bytes) -> bool:
        parsed = eventlog.parse(log)
        return all(self.values[pcr] == parsed.value(pcr) for pcr in SOFTWARE_PCRS)


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "boot.log"


def test_measures_into_a_real_tpm_once(device: TpmDevice, swtpm: Swtpm, log_path: Path) -> None:
    log = measure_software(device, log_path=log_path, state=STATE)
    values = device.read_pcrs(range(24))
    assert {pcr: values[pcr] for pcr in SOFTWARE_PCRS} == eventlog.parse(log).replay()
    assert measure_software(device, log_path=log_path, state=STATE) == log
    assert device.read_pcrs(range(24)) == values
    swtpm.stop()
    swtpm.start()
    device.close()
    again = TpmDevice(swtpm.tcti)
    assert measure_software(again, log_path=log_path, state=STATE) == log
    assert again.read_pcrs(range(24)) == values
    again.close()


def test_events_carry_what_they_measure() -> None:
    events = STATE.events(firmware_measured=False)
    assert [(event.pcr, event.data.decode()) for event in events] == [
        (11, "sits:kernel Linux 6.1 x86_64"),
        (12, "sits:cmdline quiet"),
        (13, f"sits:component attest sha256:{'01' * 32}"),
        (13, f"sits:component sitsedge sha256:{'02' * 32}"),
    ]
    assert all(event == text_event(event.pcr, event.data.decode()) for event in events)


def test_other_machine_state_after_power_up_starts_a_new_log(log_path: Path) -> None:
    bank = MemoryBank()
    measure_software(bank, log_path=log_path, state=STATE)
    bank.power_up()
    log = measure_software(bank, log_path=log_path, state=CHANGED)
    assert eventlog.parse(log).events == CHANGED.events(firmware_measured=False)
    assert bank.holds(log)


def test_component_changed_after_boot_is_measured_again(log_path: Path) -> None:
    bank = MemoryBank()
    first = measure_software(bank, log_path=log_path, state=STATE)
    second = measure_software(bank, log_path=log_path, state=CHANGED)
    events = eventlog.parse(second).events
    assert events[:-1] == eventlog.parse(first).events
    assert events[-1].data == f"sits:component sitsedge sha256:{'03' * 32}".encode()
    assert bank.holds(second)
    assert measure_software(bank, log_path=log_path, state=CHANGED) == second
    back = measure_software(bank, log_path=log_path, state=STATE)
    assert len(eventlog.parse(back).events) == len(events) + 1, "changing back does not undo the change"


@pytest.mark.parametrize("extends", range(5))
def test_power_to_the_process_lost_between_extends(log_path: Path, extends: int) -> None:
    bank = MemoryBank()
    bank.dies_after = extends
    if extends < 4:
        with pytest.raises(ConnectionError):
            measure_software(bank, log_path=log_path, state=STATE)
    else:
        measure_software(bank, log_path=log_path, state=STATE)
    bank.dies_after = 1_000
    log = measure_software(bank, log_path=log_path, state=STATE)
    assert bank.holds(log)
    assert bank.extends == 4


@pytest.mark.parametrize("saved", [None, b"garbage", EventLog((text_event(11, "another"),)).encode()])
def test_foreign_pcr_values_are_refused(log_path: Path, saved: bytes | None) -> None:
    bank = MemoryBank()
    bank.extend(12, b"\7" * 32)
    if saved is not None:
        log_path.write_bytes(saved)
    with pytest.raises(MeasureError) as caught:
        measure_software(bank, log_path=log_path, state=STATE)
    assert caught.value.code == "boot-measure"
    assert "restart" in caught.value.hint
    assert bank.extends == 1


def test_firmware_log_is_kept_and_only_the_application_added(log_path: Path) -> None:
    firmware = EventLog((Event(0, 8, b"\5" * 32, b"crtm"), text_event(13, "sysext")), startup_locality=3)
    bank = MemoryBank()
    bank.values[0] = bytes(31) + b"\3"
    for event in firmware.events:
        bank.extend(event.pcr, event.digest)
    log = measure_software(bank, log_path=log_path, state=STATE, firmware_log=firmware.encode())
    parsed = eventlog.parse(log)
    assert parsed.events[:2] == firmware.events
    assert parsed.startup_locality == 3
    assert {event.pcr for event in parsed.events[2:]} == {13}
    assert parsed.replay() == {pcr: bank.values[pcr] for pcr in (0, 13)}
    assert measure_software(bank, log_path=log_path, state=STATE, firmware_log=firmware.encode()) == log


def test_firmware_log_of_another_boot_is_not_ours(log_path: Path) -> None:
    bank = MemoryBank()
    measure_software(bank, log_path=log_path, state=STATE)
    bank.power_up()
    firmware = EventLog((Event(0, 8, b"\5" * 32, b"crtm"),)).encode()
    log = measure_software(bank, log_path=log_path, state=STATE, firmware_log=firmware)
    assert {event.pcr for event in eventlog.parse(log).events[1:]} == {13}


def test_component_digest_sees_names_sizes_and_contents(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "sub").mkdir(parents=True)
    (package / "a.py").write_text("a = 1\n")
    (package / "sub" / "b.py").write_text("b = 1\n")
    seen = {measure.component_digest([package])}
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_bytes(b"cache")
    (package / "_native.abi3.so").write_bytes(b"native")
    assert measure.component_digest([package]) in seen, "caches and the native extension do not count here"
    (package / "a.py").write_text("a = 2\n")
    seen.add(measure.component_digest([package]))
    (package / "a.py").rename(package / "c.py")
    seen.add(measure.component_digest([package]))
    (package / "empty.py").touch()
    seen.add(measure.component_digest([package]))
    assert len(seen) == 4
    native = package / "_native.abi3.so"
    before = measure.component_digest([native])
    native.write_bytes(b"other!")
    assert measure.component_digest([native]) != before


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_MAX_FILES", 1)
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    with pytest.raises(MeasureError):
        measure.component_digest([tmp_path])


def test_this_machine_is_measured_the_same_way_twice(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("x = 1\n")
    components = {"m": [tmp_path]}
    assert measure.current_state(components) == measure.current_state(components)
    assert {"attest", "fieldbus", "sitsedge"} <= set(measure.installed_components())


def test_firmware_log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure.read_firmware_log(tmp_path / "absent") is None
    (tmp_path / "empty").touch()
    assert measure.read_firmware_log(tmp_path / "empty") is None
    (tmp_path / "log").write_bytes(b"log")
    assert measure.read_firmware_log(tmp_path / "log") == b"log"

    def refuse(_: Path) -> bytes:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(MeasureError) as caught:
        measure.read_firmware_log(tmp_path / "log")
    assert "root" in caught.value.hint


def test_log_that_cannot_be_written_measures_nothing(tmp_path: Path) -> None:
    bank = MemoryBank()
    with pytest.raises(MeasureError) as caught:
        measure_software(bank, log_path=tmp_path / "absent" / "boot.log", state=STATE)
    assert "nothing was measured" in caught.value.hint
    assert bank.extends == 0


def test_file_that_cannot_be_read_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(MeasureError) as caught:
        measure.component_digest([tmp_path])
    assert "a.py: Permission denied" in caught.value.found
