"""What events say in words, whether the words were measured, and UEFI's structures behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.boot import banks, efi, meaning
from attest.boot import event_types as types
from attest.boot.eventlog import Event
from tests.attest.boot import made
from tests.attest.boot.made import END, GLOBAL, SECURITY, node, utf16, variable


def described(pcr: int, kind: int, data: bytes) -> str:
    return Event(pcr, kind, bytes(32), data).describe()


CERTIFICATE = made.certificate("plant db")
HASHES = made.signature_list(efi.CERT_SHA256, bytes(32), b"\1" * 32)
CERTIFICATES = made.signature_list(efi.CERT_X509, CERTIFICATE)
WORDS = {
    "secure-boot": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b"\1"), "SecureBoot: on"),
    "secure-boot-off": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b"\0"), ": off"),
    "secure-boot-empty": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b""), ": empty"),
    "empty-list": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "db", b""), "variable db: empty"),
    "db": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "db", CERTIFICATES), "db: certificate plant db"),
    "dbx": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "dbx", HASHES), "variable dbx: 2 hashes"),
    "mixed": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG,
              variable(SECURITY, "db", CERTIFICATES + made.signature_list(efi.CERT_SHA256, bytes(32))),
              "certificate plant db; 1 hash"),
    "broken-list": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(SECURITY, "db", b"\1\2"), "variable db: 0102"),
    "broken-variable": (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, b"short", "(5 bytes)"),
    "authority": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(SECURITY, "db", bytes(16) + CERTIFICATE),
                  "authority db: certificate plant db"),
    "authority-hash": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(SECURITY, "db", bytes(16) + b"\2" * 32),
                       f"authority db: hash {'02' * 32}"),
    "authority-shim": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(efi.SHIM_LOCK, "Shim", CERTIFICATE),
                       "authority Shim: certificate plant db"),
    "authority-switch": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(efi.SHIM_LOCK, "MokListTrusted", b"\1"), ": on"),
    "authority-off": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(efi.SHIM_LOCK, "MokListTrusted", b"\0"), ": off"),
    "authority-text": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(efi.SHIM_LOCK, "SbatLevel", b"sbat,1,2\n"),
                       "authority SbatLevel: sbat,1,2"),
    "authority-empty": (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(efi.SHIM_LOCK, "x", b""), "authority x: empty"),
    "boot-order": (1, types.EV_EFI_VARIABLE_BOOT, variable(GLOBAL, "BootOrder", b"\1\0\x0a\0"),
                   "variable BootOrder: Boot0001, Boot000A"),
    "boot-entry": (1, types.EV_EFI_VARIABLE_BOOT,
                   variable(GLOBAL, "Boot0001", made.boot_option("Linux", made.file_path("\\EFI\\l.efi"))),
                   "variable Boot0001: 'Linux' EFI/l.efi"),
    "boot-entry-inactive": (1, types.EV_EFI_VARIABLE_BOOT,
                            variable(GLOBAL, "Boot0001", made.boot_option("L", END, active=False)), "(inactive)"),
    "boot-entry-with-data": (1, types.EV_EFI_VARIABLE_BOOT,
                             variable(GLOBAL, "Boot0001", made.boot_option("L", made.file_path("a") + END, extra=b"x")),
                             "'L' a"),
    "boot-entry-broken": (1, types.EV_EFI_VARIABLE_BOOT, variable(GLOBAL, "Boot0001", b"\1\0\0"), "Boot0001: 010000"),
    "other-variable": (1, types.EV_EFI_VARIABLE_BOOT, variable(GLOBAL, "Timeout", b"abc"), "variable Timeout: abc"),
    "program": (4, types.EV_EFI_BOOT_SERVICES_APPLICATION, made.image(made.file_path("\\k.efi")), "program: k.efi"),
    "program-without-path": (4, types.EV_EFI_BOOT_SERVICES_APPLICATION, made.image(b""), "program: without a path"),
    "program-broken": (4, types.EV_EFI_BOOT_SERVICES_APPLICATION, bytes(40), "(40 bytes)"),
    "runtime-driver": (2, types.EV_EFI_RUNTIME_SERVICES_DRIVER, made.image(made.file_path("d")), "runtime driver: d"),
    "separator": (0, types.EV_SEPARATOR, b"\xff" * 4, "end of the firmware's part"),
    "separator-error": (0, types.EV_SEPARATOR, b"disk failed", "error while starting: disk failed"),
    "blob": (0, types.EV_EFI_PLATFORM_FIRMWARE_BLOB, bytes(8) + b"\x10" + bytes(7), "firmware volume at 0x0: 16 bytes"),
    "blob-described": (0, types.EV_EFI_PLATFORM_FIRMWARE_BLOB2, b"\4PEI\0" + bytes(16), "firmware PEI at 0x0"),
    "blob-text": (0, types.EV_POST_CODE, b"POST CODE", "'POST CODE'"),
    "gpt": (5, types.EV_EFI_GPT_EVENT, made.gpt("esp"), "EFI system partition 'esp' at 2048..4095"),
    "gpt-empty": (5, types.EV_EFI_GPT_EVENT, made.gpt(), "no partitions"),
    "gpt-broken": (5, types.EV_EFI_GPT_EVENT, bytes(120), "(120 bytes)"),
    "initrd": (9, types.EV_EVENT_TAG, made.tagged(0x8F3B22EC, b"Linux initrd\0"), "EV_EVENT_TAG initrd: Linux initrd"),
    "options": (9, types.EV_EVENT_TAG, made.tagged(0x8F3B22ED, b"x"), "kernel command line: x"),
    "tag": (9, types.EV_EVENT_TAG, made.tagged(7, b"\xff"), "tag 0x00000007: 1 bytes"),
    "tag-broken": (9, types.EV_EVENT_TAG, b"\1\2", "(2 bytes)"),
    "version": (0, types.EV_S_CRTM_VERSION, utf16("1.2\0"), "firmware version: 1.2"),
    "version-bytes": (0, types.EV_S_CRTM_VERSION, bytes(2), "firmware version: 0000"),
    "action": (4, types.EV_EFI_ACTION, b"Calling", "EV_EFI_ACTION 'Calling'"),
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    pcr, kind, data, words = WORDS[name]
    text = described(pcr, kind, data)
    assert words in text
    assert text.startswith(types.type_name(kind))


PATHS = {
    "Pci(0x1,0x2)": node(1, 1, b"\2\1"),
    "PciRoot(0x0)": node(2, 1, b"\xd0\x41\x03\x0a" + bytes(4)),
    "Acpi(00000000,0x1)": node(2, 1, bytes(4) + b"\1\0\0\0"),
    "Scsi(0x1,0x2)": node(3, 2, b"\1\0\2\0"),
    "USB(0x1,0x0)": node(3, 5, b"\1\0"),
    "MAC(02:00:00:00:00:01)": node(3, 11, b"\2\0\0\0\0\1" + bytes(27)),
    "IPv4(10.0.0.1)": node(3, 12, bytes(4) + b"\x0a\0\0\1" + bytes(7)),
    "Sata(0x3)": node(3, 18, b"\3" + bytes(5)),
    "NVMe(0x1)": node(3, 23, b"\1" + bytes(11)),
    "Uri(http://x)": node(3, 24, b"http://x"),
    "HD(2,GPT,00000000-0000-0000-0000-000000000000)": node(4, 1, b"\2" + bytes(36) + b"\2"),
    "HD(1,MBR,04030201)": node(4, 1, b"\1" + bytes(19) + b"\1\2\3\4" + bytes(13) + b"\1"),
    "VenMedia(00000000-0000-0000-0000-000000000000)": node(4, 3, bytes(16)),
    "a/b": node(4, 4, utf16("\\a\\b\0")),
    "FvFile(00000000-0000-0000-0000-000000000000)": node(4, 6, bytes(16)),
    "Fv(00000000-0000-0000-0000-000000000000)": node(4, 7, bytes(16)),
    "Offset(0x1,0x2)": node(4, 8, bytes(4) + b"\1" + bytes(7) + b"\2" + bytes(7)),
    "BBS(disk)": node(5, 1, bytes(4) + b"disk\0"),
    "Path(9,9,00)": node(9, 9, b"\0"),
    "Pci(0x0,0x0)/a": node(1, 1, bytes(2)) + node(4, 4, utf16("a")),
}


@pytest.mark.parametrize("text", PATHS)
def test_device_paths(text: str) -> None:
    assert efi.device_path(PATHS[text] + END) == text


BROKEN_PATHS = {
    "no-end": node(1, 1, bytes(2)),
    "node-size": b"\1\1\3\0",
    "node-longer": b"\1\1\xff\0" + END,
    "more-after-end": END + END,
    "too-many-nodes": node(1, 1, bytes(2)) * (efi.NODES_MAX + 1) + END,
    "cut": END[:3],
}


@pytest.mark.parametrize("rule", BROKEN_PATHS)
def test_what_is_no_device_path(rule: str) -> None:
    assert efi.device_path(BROKEN_PATHS[rule]) is None


LIST = made.signature_list(efi.CERT_SHA256, bytes(32))
BROKEN_LISTS = {
    "cut-head": LIST[:27],
    "cut-body": LIST[:-1],
    "entry-size": LIST[:24] + b"\x10\0\0\0" + LIST[28:],
    "size-too-small": LIST[:16] + b"\x1b\0\0\0" + LIST[20:],
    "header-beyond": LIST[:20] + b"\xff\0\0\0" + LIST[24:],
    "uneven": LIST[:24] + b"\x31\0\0\0" + LIST[28:],
    "too-many": made.signature_list(efi.CERT_SHA256, *([b"\0"] * (efi.SIGNATURES_MAX + 1))),
}


@pytest.mark.parametrize("rule", BROKEN_LISTS)
def test_what_is_no_signature_list(rule: str) -> None:
    assert efi.signatures(BROKEN_LISTS[rule]) is None


def test_entries_of_other_kinds_and_broken_certificates_are_named() -> None:
    (other,) = efi.signatures(made.signature_list(made.OWNER, b"abc")) or ()
    (broken,) = efi.signatures(made.signature_list(efi.CERT_X509, b"abc")) or ()
    assert (other.kind, other.text) == ("other", f"entry of kind {made.OWNER} with 3 bytes")
    assert broken.text == "certificate that cannot be read"


def test_what_is_no_partition_table() -> None:
    whole = made.gpt("esp")
    for broken in (
        whole[:-1],
        whole[:84] + bytes(4) + whole[88:],
        whole[:92] + b"\xff" + whole[93:],
        b"\0" + whole[1:],
    ):
        assert efi.gpt(broken) is None


BROKEN_VARIABLES = {
    "short": bytes(31),
    "name-too-long": bytes(16) + b"\xff" * 8 + bytes(8),
    "size": variable(GLOBAL, "a", b"b")[:-1],
    "name-encoding": bytes(16) + b"\1" + bytes(7) + bytes(8) + b"\0\xd8",
}


@pytest.mark.parametrize("rule", BROKEN_VARIABLES)
def test_what_is_no_variable(rule: str) -> None:
    assert efi.variable(BROKEN_VARIABLES[rule]) is None


BROKEN_OPTIONS = {
    "short": bytes(5),
    "no-description-end": bytes(6) + b"ab",
    "path-beyond": made.boot_option("L", END)[:-1],
    "description-encoding": bytes(4) + b"\4\0" + b"\0\xd8" + bytes(2) + END,
    "path": bytes(4) + b"\4\0" + b"a\0" + bytes(2) + b"\1\1\0\0",
}


@pytest.mark.parametrize("rule", BROKEN_OPTIONS)
def test_what_is_no_boot_option(rule: str) -> None:
    assert efi.boot_option(BROKEN_OPTIONS[rule]) is None


@given(st.binary(max_size=300), st.integers(0, 15), st.sampled_from(sorted(types.EVENT_TYPES)))
def test_any_event_is_described_in_one_safe_line(data: bytes, pcr: int, kind: int) -> None:
    text = described(pcr, kind, data)
    assert text.isprintable()
    assert len(text) <= meaning.LINE_CHARS_MAX + 40


@given(st.integers(0, 2**31), st.sampled_from([data for _, _, data, _ in made.boot()]), st.integers(0, 255))
def test_changed_structures_are_described_too(at: int, data: bytes, value: int) -> None:
    raw = bytearray(data or b"\0")
    raw[at % len(raw)] = value
    for _, kind, _, _ in made.boot():
        assert described(7, kind, bytes(raw)).isprintable()


@pytest.mark.parametrize("event", made.boot(), ids=[f"{p}-{types.type_name(k)}" for p, k, _, _ in made.boot()])
def test_what_was_measured_is_known(event: tuple[int, int, bytes, bytes | None]) -> None:
    pcr, kind, data, hashed = event
    whole = kind in (types.EV_EFI_VARIABLE_BOOT, types.EV_EFI_VARIABLE_AUTHORITY) or hashed is None
    covers = whole or hashed in (b"linux /vmlinuz", b".linux\0")
    digest = banks.digest(banks.SHA256, data if hashed is None else hashed)
    assert Event(pcr, kind, digest, data).measured is (True if covers else None)


CONTRADICTED = (
    types.EV_SEPARATOR,
    types.EV_S_CRTM_VERSION,
    types.EV_EFI_ACTION,
    types.EV_EFI_GPT_EVENT,
    types.EV_EFI_VARIABLE_DRIVER_CONFIG,
    types.EV_EFI_VARIABLE_BOOT,
    types.EV_EFI_VARIABLE_BOOT2,
    types.EV_EFI_VARIABLE_AUTHORITY,
)


@pytest.mark.parametrize("kind", CONTRADICTED)
def test_data_that_contradicts_its_digest_is_found(kind: int) -> None:
    assert Event(7, kind, bytes(32), variable(GLOBAL, "SecureBoot", b"\1")).measured is False


def test_words_of_older_shims_and_of_unmeasured_types_contradict_nothing() -> None:
    shim = variable(efi.SHIM_LOCK, "Shim", b"x")
    assert Event(7, types.EV_EFI_VARIABLE_AUTHORITY, bytes(32), shim).measured is None
    assert Event(4, types.EV_EFI_BOOT_SERVICES_APPLICATION, bytes(32), b"").measured is None
    assert Event(8, types.EV_IPL, bytes(32), b"grub_cmd: x").measured is None
    assert Event(11, types.EV_IPL, bytes(32), b"\xff\xfe\x00\xd8").measured is None
    assert Event(13, types.EV_IPL, bytes(32), b"sits:component x").measured is False


def test_a_separator_may_tell_an_error() -> None:
    digest = banks.digest(banks.SHA256, b"\1\0\0\0")
    assert Event(0, types.EV_SEPARATOR, digest, b"disk failed").measured is True
