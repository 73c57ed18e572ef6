"""Predicted boots: the captured ones again from their parts, the stub's rules, and what cannot be predicted."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attest.boot import eventlog, pe, predict, stub
from attest.boot.event_types import EV_EFI_BOOT_SERVICES_APPLICATION, EV_IPL, EV_NO_ACTION
from attest.boot.eventlog import Event, EventLog
from attest.command import GateKey
from sitsedge.cli.main import app
from tests.attest.boot.programs import STUB, kernel, program, unified

UKIS = ("x86_64-uki-nosb", "x86_64-uki-secureboot")
NEWER = b"#### LoaderInfo: systemd-stub 257.13-1 ####"
DIRECT = ("x86_64-direct-crb", "aarch64-direct")


def capture(fixtures: Path, name: str) -> tuple[EventLog, dict[int, bytes]]:
    """A captured log and the values the TPM held."""
    log = eventlog.parse((fixtures / "boot" / f"{name}.eventlog.bin").read_bytes())
    held = json.loads((fixtures / "boot" / f"{name}.pcrs.json").read_bytes())["sha256"]
    return log, {int(pcr): bytes.fromhex(value) for pcr, value in held.items()}


def parts(log: EventLog) -> predict.Boot:
    """The boot a captured log shows, taken apart: what cannot be seen in a digest is left empty."""
    programs = [event.digest for event in log.of(4) if event.kind == EV_EFI_BOOT_SERVICES_APPLICATION]
    image = log.of(11)
    sections = tuple((event.data.decode("utf-16-le").rstrip("\0"), event.digest) for event in image[1::2])
    return predict.Boot(tuple(programs), "", log.of(9)[-1].digest, sections)


@pytest.mark.parametrize("name", [*UKIS, *DIRECT])
def test_captured_boot_from_its_parts(fixtures_dir: Path, name: str) -> None:
    log, held = capture(fixtures_dir, name)
    boot = parts(log)
    predicted = predict.predict(boot, reference=log)
    assert predicted.value(4) == held[4]
    assert predicted.value(11) == held[11]
    options, initrd = predicted.of(9)
    assert initrd == log.of(9)[1]
    assert options.data == log.of(9)[0].data
    assert [event.describe() for event in predicted.of(4)] == [event.describe() for event in log.of(4)]
    for pcr in (0, 1, 2, 3, 5, 6, 7, 12):
        assert predicted.value(pcr) == held[pcr]


@pytest.mark.parametrize("name", UKIS)
def test_firmware_that_starts_the_image_first_needs_no_reference(fixtures_dir: Path, name: str) -> None:
    log, held = capture(fixtures_dir, name)
    predicted = predict.predict(parts(log))
    assert (predicted.value(4), predicted.value(11)) == (held[4], held[11])


@pytest.mark.parametrize(("name", "secure", "inner"), [(UKIS[0], False, True), (UKIS[1], True, False)])
def test_state_of_a_captured_boot(fixtures_dir: Path, name: str, secure: bool, inner: bool) -> None:
    log, _ = capture(fixtures_dir, name)
    assert predict.secure_boot_in(log) == secure
    assert predict.inner_kernel_in(log) == inner
    boot = predict.uki_boot(unified(), secure_boot=secure)
    assert len(boot.programs) == len(parts(log).programs)


def test_direct_boot_has_no_inner_kernel(fixtures_dir: Path) -> None:
    assert predict.inner_kernel_in(capture(fixtures_dir, DIRECT[0])[0]) is None


def measured(image: bytes, *, secure_boot: bool = False, passed: str | None = None) -> EventLog:
    """The predicted log of one image."""
    return predict.predict(predict.uki_boot(image, secure_boot=secure_boot, passed=passed))


def test_sections_are_measured_name_then_contents_in_the_stubs_order() -> None:
    order = [".initrd", ".cmdline", ".linux", ".text", ".sdmagic", ".osrel"]
    expected = []
    contents = ((".linux", kernel()), (".osrel", b"ID=test\n"), (".cmdline", b"quiet\n"), (".initrd", b"an initrd"))
    for name, data in contents:
        expected += [hashlib.sha256(name.encode() + b"\0").digest(), hashlib.sha256(data).digest()]
    assert [event.digest for event in measured(unified()).of(11)] == expected
    assert [event.digest for event in measured(unified(order=order)).of(11)] == expected


def test_signature_of_the_measurements_is_not_measured() -> None:
    assert measured(unified({".pcrsig": b"{}"})).value(11) == measured(unified()).value(11)
    assert measured(unified({".pcrpkey": b"PEM"})).value(11) != measured(unified()).value(11)


@pytest.mark.parametrize(
    ("section", "version", "counts"),
    [
        (".uname", 252, False),
        (".uname", 257, True),
        (".sbat", 252, False),
        (".sbat", 258, True),
        (".profile", 252, False),
        (".splash", 252, True),
        (".splash", 257, True),
    ],
)
def test_stub_measures_the_sections_of_its_version(section: str, version: int, counts: bool) -> None:
    mark = b"#### LoaderInfo: systemd-stub %d ####" % version
    plain, more = measured(unified(stub=mark)), measured(unified({section: b"more"}, stub=mark))
    assert (plain.value(11) != more.value(11)) == counts


@pytest.mark.parametrize("text", [b"#### LoaderInfo: systemd-stub 251 ####", b"#### LoaderInfo: systemd-stub 256 ####"])
def test_stub_whose_order_is_not_known_is_refused(text: bytes) -> None:
    with pytest.raises(predict.PredictError, match="252, or 257 and later"):
        measured(unified(stub=text))


def test_image_of_another_stub_is_refused() -> None:
    with pytest.raises(predict.PredictError, match="without systemd's stub"):
        measured(unified(stub=b"#### LoaderInfo: systemd-boot 252 ####"))


def test_stub_without_its_mark_is_known_by_what_it_tells_the_system() -> None:
    told = "systemd-stub 252.39".encode("utf-16-le")
    image = unified({".text": b"code" + told + b"code", ".sdmagic": b""})
    assert measured(image).value(11) == measured(unified()).value(11)


def test_image_without_kernel_is_refused() -> None:
    with pytest.raises(predict.PredictError, match="without a kernel"):
        measured(unified({".linux": b""}))


def test_command_line_is_tidied_as_the_stub_does() -> None:
    for text in (b"a  b", b" a  b \n", b"\ta  b\n\n", b"a\t\nb\0rest"):
        log = measured(unified({".cmdline": text}))
        expected = (text.split(b"\0")[0].decode().replace("\t", " ").replace("\n", " ").rstrip() + "\0").encode(
            "utf-16-le"
        )
        assert log.of(9)[0].digest == hashlib.sha256(expected).digest()


def test_newer_stub_takes_spaces_in_front_away_too() -> None:
    image = unified({".cmdline": b"\n a \n"}, stub=NEWER)
    assert measured(image).of(9)[0].digest == hashlib.sha256("a\0".encode("utf-16-le")).digest()


@pytest.mark.parametrize("section", [".ucode", ".profile", ".dtbauto", ".hwids", ".efifw"])
def test_sections_that_the_machine_chooses_from_are_refused(section: str) -> None:
    with pytest.raises(predict.PredictError, match=f"a section {section}"):
        measured(unified({section: b"more"}, stub=NEWER))


def archive(name: str, contents: bytes) -> bytes:
    """What cpio's own reader finds in one of the stub's archives, checked field by field."""
    made = stub._archive(name, contents)
    assert len(made) % 4 == 0
    at, found = 0, []
    while at < len(made):
        fields = [int(made[at + 6 + 8 * k : at + 14 + 8 * k], 16) for k in range(13)]
        assert made[at : at + 6] == b"070701"
        path = made[at + 110 : at + 110 + fields[11]]
        start = at + (110 + fields[11] + 3) // 4 * 4
        found.append((path, fields[1], made[start : start + fields[6]]))
        at = start + (fields[6] + 3) // 4 * 4
    assert found[0] == (b".extra\0", 0o040555, b"")
    assert found[1] == (b".extra/" + name.encode() + b"\0", 0o100444, contents)
    assert found[2:] == [(b"TRAILER!!!\0", 0, b"")]
    return made


def test_sections_that_are_handed_on_lie_behind_the_initrd() -> None:
    signature, key = archive("tpm2-pcr-signature.json", b"{}"), archive("tpm2-pcr-public-key.pem", b"PEM")
    release = archive("os-release", b"ID=test\n")
    more = {".initrd": b"12345", ".pcrsig": b"{}", ".pcrpkey": b"PEM"}
    for mark, expected in (
        (STUB, b"12345\0\0\0" + signature + key),
        (NEWER, b"12345\0\0\0" + signature + key + release),
    ):
        assert measured(unified(more, stub=mark)).of(9)[1].digest == hashlib.sha256(expected).digest()
    assert measured(unified({".initrd": b"12345"})).of(9)[1].digest == hashlib.sha256(b"12345").digest()
    bare = measured(unified({".initrd": b""}, stub=NEWER))
    assert bare.of(9)[1].digest == hashlib.sha256(release).digest()
    assert len(measured(unified({".initrd": b""})).of(9)) == 1


def test_command_line_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(predict.PredictError, match="not ASCII"):
        measured(unified({".cmdline": b"\xc3\xa4"}))


def test_command_line_of_a_boot_entry_counts_without_secure_boot_only() -> None:
    image = unified()
    text = "quiet debug\0".encode("utf-16-le")
    passed = measured(image, passed="quiet debug")
    assert [event.digest for event in passed.of(12)] == [hashlib.sha256(text).digest()]
    assert passed.of(9)[0].digest == hashlib.sha256(text).digest()
    secure = measured(image, secure_boot=True, passed="quiet debug")
    assert secure.value(12) == bytes(32)
    assert secure.value(9) == measured(image).value(9)
    bare = unified({".cmdline": b""})
    assert measured(bare, secure_boot=True, passed="quiet debug").value(12) == passed.value(12)


@pytest.mark.parametrize("options", ["x" * (stub.MAX_OPTIONS_CHARS + 1), "a\0b"])
def test_load_options_that_no_kernel_takes_are_refused(options: str) -> None:
    with pytest.raises(predict.PredictError, match="load options"):
        predict.kernel_boot(kernel(), initrd=None, options=options)


@pytest.mark.parametrize("passed", [" quiet", "quiet ", "quiet\n", "a\tb", "x" * 5000])
def test_command_line_of_a_boot_entry_that_the_stub_would_tidy_is_refused(passed: str) -> None:
    with pytest.raises(predict.PredictError):
        measured(unified(), passed=passed)


def test_update_replaces_the_old_kernel_and_nothing_else(fixtures_dir: Path) -> None:
    log, held = capture(fixtures_dir, UKIS[0])
    image = unified()
    predicted = predict.predict(predict.uki_boot(image, secure_boot=False), reference=log)
    assert [event.digest for event in predicted.of(4)[-2:]] == [pe.parse(image).digest, pe.parse(kernel()).digest]
    assert predicted.of(4)[:-2] == log.of(4)[:-2]
    assert [event.pcr for event in predicted.events] == [event.pcr for event in log.events]
    for pcr in (0, 1, 2, 3, 5, 6, 7):
        assert predicted.value(pcr) == held[pcr]


def test_moving_from_a_kernel_to_a_unified_image(fixtures_dir: Path) -> None:
    log, _ = capture(fixtures_dir, DIRECT[0])
    boot = predict.uki_boot(unified(), secure_boot=predict.secure_boot_in(log))
    predicted = predict.predict(boot, reference=log)
    assert predicted.value(11) == predict.predict(boot).value(11)
    assert predicted.of(4)[0].data == log.of(4)[0].data


def test_boot_loader_that_measures_files_is_refused(fixtures_dir: Path) -> None:
    log, _ = capture(fixtures_dir, UKIS[0])
    text = b"grub_cmd: linux /vmlinuz"
    for pcr in (9, 11, 12):
        other = EventLog((*log.events, Event(pcr, EV_IPL, hashlib.sha256(b"file").digest(), text)))
        with pytest.raises(predict.PredictError, match="GRUB"):
            predict.predict(parts(log), reference=other)


def test_log_of_no_uefi_boot_is_refused() -> None:
    with pytest.raises(predict.PredictError, match="no program"):
        predict.predict(predict.kernel_boot(kernel(), initrd=None, options=""), reference=EventLog(()))
    with pytest.raises(predict.PredictError, match="Secure Boot"):
        predict.secure_boot_in(EventLog(()))


def test_events_that_extend_nothing_stay_where_they_are(fixtures_dir: Path) -> None:
    log, held = capture(fixtures_dir, UKIS[0])
    informed = EventLog((Event(4, EV_NO_ACTION, bytes(32), b"information"), *log.events))
    predicted = predict.predict(parts(log), reference=informed)
    assert predicted.events[0] == informed.events[0]
    assert predicted.value(4) == held[4]
    assert not predict.secure_boot_in(EventLog(tuple(event for event in log.events if event.pcr == 7)))


def test_state_of_secure_boot_is_read_from_its_own_variable(fixtures_dir: Path) -> None:
    log, _ = capture(fixtures_dir, UKIS[1])
    others = [event for event in log.of(7) if b"S\0e\0c\0u\0r\0e\0B" not in event.data]
    with pytest.raises(predict.PredictError, match="Secure Boot"):
        predict.secure_boot_in(EventLog(tuple(others)))


def test_cli_predicts_a_state_that_a_policy_can_allow(fixtures_dir: Path, tmp_path: Path) -> None:
    capture_log = fixtures_dir / "boot" / f"{UKIS[1]}.eventlog.bin"
    (tmp_path / "new.efi").write_bytes(unified())
    GateKey.create(tmp_path / "policy.key")
    run = CliRunner().invoke
    words = [
        "attest",
        "predict",
        "--uki",
        str(tmp_path / "new.efi"),
        "--from-log",
        str(capture_log),
        "--output",
        "json",
    ]
    words += ["--out-log", str(tmp_path / "new.bin"), "--out-pcrs", str(tmp_path / "new.json")]
    predicted = run(app, words)
    assert predicted.exit_code == 0, predicted.output
    data = json.loads(predicted.stdout)
    assert data["whole_boot"]
    image = eventlog.parse((tmp_path / "new.bin").read_bytes())
    assert {int(pcr): value for pcr, value in data["pcrs"].items()} | {12: "00" * 32} == {
        pcr: image.value(pcr).hex() for pcr in (*range(8), 9, 11, 12)
    }
    again = run(app, ["attest", "replay", str(tmp_path / "new.bin"), "--pcrs", str(tmp_path / "new.json")])
    assert again.exit_code == 0, again.output
    words = ["attest", "policy", "make", "--name", "p", "--key", str(tmp_path / "policy.key"), "--state", "update"]
    words += ["--log", str(tmp_path / "new.bin"), "--pcrs", str(tmp_path / "new.json"), "--pcr", "4,7,9,11,12"]
    made = run(app, [*words, "--out", str(tmp_path / "policy.cose")])
    assert made.exit_code == 0, made.output


def test_cli_predicts_a_kernel_with_initrd(tmp_path: Path) -> None:
    (tmp_path / "vmlinuz").write_bytes(kernel())
    (tmp_path / "initrd").write_bytes(b"initrd")
    words = ["attest", "predict", "--kernel", str(tmp_path / "vmlinuz"), "--initrd", str(tmp_path / "initrd")]
    result = CliRunner().invoke(app, [*words, "--cmdline", "quiet initrd=initrd"])
    assert result.exit_code == 0, result.output
    boot = predict.kernel_boot(kernel(), initrd=b"initrd", options="quiet initrd=initrd")
    for pcr in (4, 9):
        assert predict.predict(boot).value(pcr).hex() in result.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "--uki or --kernel"),
        (["--uki", "x", "--kernel", "x"], "--uki or --kernel"),
        (["--uki", "x", "--initrd", "x"], "carries its initrd"),
        (["--kernel", "x"], "--cmdline"),
        (["--uki", "x"], "--secure-boot"),
    ],
)
def test_cli_asks_for_what_it_needs(words: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["attest", "predict", *words])
    assert result.exit_code == 2
    assert text in result.stderr


def test_cli_names_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(program({".text": b"x"})[:100])
    result = CliRunner().invoke(app, ["attest", "predict", "--uki", str(tmp_path / "x"), "--secure-boot", "off"])
    assert result.exit_code == 2
    assert "uefi-image" in result.stderr
