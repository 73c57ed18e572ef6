"""IMA's list: every template, prefix match in both ways of extending, the boot aggregate; a negative test per rule."""

from __future__ import annotations

import contextlib
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.boot import banks, ima
from attest.boot.errors import ImaError
from attest.boot.ima import ImaLog, PrefixMatch, aggregate_fault, boot_aggregate, match, parse
from tests.attest.boot import made
from tests.attest.boot.captures import u32
from tests.attest.boot.made import aggregate, ima_entry, ima_fields, ima_file, ima_list

LOG = parse(ima_list())


def test_every_template_is_read() -> None:
    read = [(entry.template, entry.algorithm, entry.path, entry.violation) for entry in LOG.entries]
    assert read == [
        ("ima-sig", "sha256", "boot_aggregate", False),
        ("ima-ng", "sha256", "/bin/sh", False),
        ("ima", "sha1", "/old", False),
        ("ima-ng", "sha256", "/open", True),
        ("ima-sigv2", "sha256", "/v", False),
        ("ima-buf", "sha256", "kexec-cmdline", False),
    ]
    assert LOG.entries[4].signature == b"\x03\2sig"
    assert LOG.aggregate.digest == b"\7" * 32


@pytest.mark.parametrize("bank", [banks.SHA1, banks.SHA256, banks.SHA384])
@pytest.mark.parametrize("padded", [False, True])
def test_every_prefix_matches(bank: int, padded: bool) -> None:
    for count, value in enumerate(made.ima_values(bank, padded=padded)):
        found = match(LOG, value, bank=bank)
        # nothing extended, or SHA-1 itself, looks the same either way
        assert found == PrefixMatch(count, padded and count > 0 and bank != banks.SHA1)
    assert match(LOG, b"\1" * banks.SIZES[bank], bank=bank) is None


def test_what_the_kernel_extends() -> None:
    """The bank's own hash since Linux 5.8, SHA-1 with zeros before; ones for a violation."""
    entry, violation = LOG.entries[1], LOG.entries[3]
    data = ima_fields(b"sha256:\0" + b"\5" * 32, b"/bin/sh\0")
    assert entry.measured(banks.SHA256, padded=False) == hashlib.sha256(data).digest()
    assert entry.measured(banks.SHA256, padded=True) == hashlib.sha1(data).digest() + bytes(12)
    assert violation.measured(banks.SHA256, padded=False) == b"\xff" * 32
    assert violation.measured(banks.SHA256, padded=True) == b"\xff" * 20 + bytes(12)


def test_the_old_template_hashes_a_padded_name() -> None:
    digest = LOG.entries[2].measured(banks.SHA1, padded=False)
    assert digest == hashlib.sha1(b"\3" * 20 + b"/old" + bytes(252)).digest()


@pytest.mark.parametrize(("algorithm", "count"), [("sha1", 8), ("sha256", 10), ("sha384", 10)])
def test_the_boot_aggregate_covers_the_boots_pcrs(algorithm: str, count: int) -> None:
    bank = banks.IDS[algorithm]
    values = {pcr: bytes([pcr]) * banks.SIZES[bank] for pcr in range(24)}
    expected = hashlib.new(algorithm, b"".join(values[pcr] for pcr in range(count))).digest()
    assert boot_aggregate(values, algorithm) == expected
    log = parse(ima_entry("ima-ng", ima_fields(algorithm.encode() + b":\0" + expected, b"boot_aggregate\0")))
    assert aggregate_fault(log, 1, {bank: values}) is None
    fault = aggregate_fault(log, 1, {bank: values | {3: bytes(banks.SIZES[bank])}})
    assert fault is not None
    assert expected.hex() in fault
    assert "no value of PCR 5" in str(aggregate_fault(log, 1, {bank: {p: v for p, v in values.items() if p != 5}}))
    assert "no value" in str(aggregate_fault(log, 1, {}))


def test_an_aggregate_in_a_hash_without_a_bank_cannot_be_judged() -> None:
    log = parse(ima_entry("ima-ng", ima_fields(b"md5:\0" + b"\1" * 16, b"boot_aggregate\0")))
    values = {banks.SHA256: dict.fromkeys(range(10), bytes(32))}
    assert aggregate_fault(log, 1, values) is not None
    with pytest.raises(ImaError):
        boot_aggregate(values[banks.SHA256], "md5")


def test_an_aggregate_of_zeros_goes_with_nothing_extended() -> None:
    without, with_tpm = parse(aggregate(bytes(32))), parse(aggregate())
    assert aggregate_fault(without, 0, {}) is None
    assert "zeros" in str(aggregate_fault(without, 1, {}))
    assert "never extended" in str(aggregate_fault(with_tpm, 0, {}))


def field_entry(template: str, *fields: bytes) -> bytes:
    return aggregate() + ima_entry(template, ima_fields(*fields))


GOOD = b"sha256:\0" + bytes(31) + b"\1"
REFUSED = {
    "empty": b"",
    "first-entry": ima_file(),
    "first-entry-violation": ima_entry("ima-ng", ima_fields(b"sha256:\0" + bytes(32), b"boot_aggregate\0"),
                                       digest=bytes(20)),
    "pcr": aggregate() + ima_entry("ima-ng", ima_fields(GOOD, b"/a\0"), pcr=11),
    "template-unknown": aggregate() + ima_entry("evm-sig", ima_fields(GOOD, b"/a\0")),
    "template-name-length": aggregate() + u32(10) + bytes(20) + u32(16) + b"x" * 16,
    "template-digest": aggregate() + ima_entry("ima-ng", ima_fields(GOOD, b"/a\0"), digest=b"\1" * 20),
    "template-too-long": aggregate() + u32(10) + bytes(20) + u32(6) + b"ima-ng" + u32(ima.MAX_TEMPLATE_BYTES + 1),
    "truncated": ima_list()[:-1],
    "cut-in-the-head": aggregate() + u32(10) + bytes(3),
    "field-missing": field_entry("ima-sig", GOOD, b"/a\0"),
    "field-too-many": field_entry("ima-ng", GOOD, b"/a\0", b""),
    "field-beyond": aggregate() + ima_entry("ima-ng", u32(99) + GOOD),
    "name-without-nul": field_entry("ima-ng", GOOD, b"/a"),
    "name-two-nuls": field_entry("ima-ng", GOOD, b"/a\0b\0"),
    "name-too-long": field_entry("ima-ng", GOOD, b"a" * ima.MAX_PATH_BYTES + b"\0"),
    "digest-unknown": field_entry("ima-ng", b"crc32:\0" + bytes(4), b"/a\0"),
    "digest-size": field_entry("ima-ng", b"sha256:\0" + b"\1" * 31, b"/a\0"),
    "digest-colon": field_entry("ima-ng", b"sha256\0" + b"\1" * 32, b"/a\0"),
    "digest-type": field_entry("ima-ngv2", b"fs:sha256:\0" + b"\1" * 32, b"/a\0"),
    "violation-with-a-digest": aggregate() + ima_entry("ima-ng", ima_fields(GOOD, b"/a\0"), digest=bytes(20)),
    "old-name-too-long": aggregate() + u32(10) + b"\1" * 20 + u32(3) + b"ima" + bytes(20) + u32(256) + bytes(256),
    "too-large": bytes(ima.MAX_LIST_BYTES + 1),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_refused(rule: str) -> None:
    with pytest.raises(ImaError):
        parse(REFUSED[rule])


def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ima, "MAX_ENTRIES", 3)
    assert len(parse(aggregate() + 2 * ima_file()).entries) == 3
    with pytest.raises(ImaError):
        parse(aggregate() + 3 * ima_file())


def test_names_are_safe_to_print() -> None:
    (_, entry) = parse(aggregate() + ima_entry("ima-ng", ima_fields(GOOD, b"/a\x1b[31m\xff\n\0"))).entries
    assert entry.path == "/a\\x1b[31m\\xff\\n"


@given(st.binary(max_size=300))
def test_any_bytes_give_a_list_or_one_error(data: bytes) -> None:
    for candidate in (data, aggregate() + data):
        with contextlib.suppress(ImaError):
            assert isinstance(parse(candidate), ImaLog)


UNVOUCHED = range(ima_list().index(b"/open") - 48, ima_list().index(b"/open") + 6)  # the violation's data


@given(st.integers(0, len(ima_list()) - 1).filter(lambda at: at not in UNVOUCHED), st.integers(1, 255))
def test_a_changed_list_is_refused(at: int, mask: int) -> None:
    """An entry is bound by its SHA-1, and its head by the rules; a violation's data is bound to nothing."""
    raw = bytearray(ima_list())
    raw[at] ^= mask
    with pytest.raises(ImaError):
        parse(bytes(raw))


def test_reordered_entries_match_no_longer() -> None:
    swapped = ImaLog((LOG.entries[0], LOG.entries[2], LOG.entries[1], *LOG.entries[3:]))
    assert match(swapped, made.ima_values()[3]) is None
