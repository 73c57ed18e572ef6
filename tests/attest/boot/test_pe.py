"""UEFI programs: what firmware measures of them, agreement with sbsign, and every rule broken once."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.boot import pe
from tests.attest.boot.programs import (
    CERTIFICATE_ENTRY_AT,
    CHECKSUM_AT,
    OPTIONAL_AT,
    PE_AT,
    TABLE_AT,
    Fields,
    kernel,
    program,
    put,
)
from tests.boot.rig.secureboot import Key, make_key

PLAIN = program({".text": b"code" * 200, ".data": b"data"})
CERTIFICATE = b"certificates!" + bytes(3)


def signed(data: bytes = PLAIN) -> bytes:
    """With a certificate table at the end, as a signer leaves it."""
    return put(data, CERTIFICATE_ENTRY_AT, struct.pack("<II", len(data), len(CERTIFICATE))) + CERTIFICATE


def test_digest_skips_checksum_and_certificates_only() -> None:
    skipped = hashlib.sha256(
        PLAIN[:CHECKSUM_AT] + PLAIN[CHECKSUM_AT + 4 : CERTIFICATE_ENTRY_AT] + PLAIN[CERTIFICATE_ENTRY_AT + 8 :]
    ).digest()
    assert pe.parse(PLAIN).digest == skipped
    assert pe.parse(put(PLAIN, CHECKSUM_AT, b"\1\2\3\4")).digest == skipped
    assert pe.parse(signed()).digest == skipped
    assert pe.parse(signed()).signed
    assert not pe.parse(PLAIN).signed


@given(position=st.integers(0, len(PLAIN) - 1))
def test_every_other_byte_counts(position: int) -> None:
    changed = put(PLAIN, position, bytes([PLAIN[position] ^ 1]))
    skipped = range(CHECKSUM_AT, CHECKSUM_AT + 4)
    try:
        same = pe.parse(changed).digest == pe.parse(PLAIN).digest
    except pe.ImageError:
        return
    assert same == (position in skipped)


def test_sections_are_hashed_in_the_order_of_the_file() -> None:
    sections = {".one": b"1" * 600, ".two": b"2" * 600}
    there, back = program(sections), program(sections, order=[".two", ".one"])
    assert there != back
    for data in (there, back):
        hashed = data[:CHECKSUM_AT] + data[CHECKSUM_AT + 4 : CERTIFICATE_ENTRY_AT] + data[CERTIFICATE_ENTRY_AT + 8 :]
        assert pe.parse(data).digest == hashlib.sha256(hashed).digest()


def test_bytes_behind_the_sections_count() -> None:
    assert pe.parse(PLAIN + b"more").digest != pe.parse(PLAIN).digest


def test_section_is_as_long_as_in_memory() -> None:
    image = pe.parse(program({".text": b"abc"}))
    assert image.section(".text") == b"abc"
    assert image.section(".none") is None
    empty = put(program({".text": b"abc", ".bss": b""}), TABLE_AT + 40 + 8, struct.pack("<I", 5))
    assert pe.parse(empty).section(".bss") == bytes(5)
    longer = put(program({".text": b"abc"}), TABLE_AT + 8, struct.pack("<I", 700))
    assert pe.parse(longer).section(".text") == b"abc".ljust(700, b"\0")


def test_two_sections_of_one_name_are_refused_when_asked_for() -> None:
    twice = put(program({".text": b"a", ".data": b"b"}), TABLE_AT + 40, b".text\0\0\0")
    with pytest.raises(pe.ImageError, match="2 sections"):
        pe.parse(twice).section(".text")


RULES = {
    "no-mz": put(PLAIN, 0, b"ZM"),
    "empty": b"",
    "pe-header-inside-the-dos-header": put(PLAIN, 0x3C, struct.pack("<I", 32)),
    "pe-header-behind-the-end": put(PLAIN, 0x3C, struct.pack("<I", 1 << 30)),
    "no-pe-signature": put(PLAIN, PE_AT, b"NE\0\0"),
    "other-machine": program({".text": b"x"}, fields=Fields(machine=0x14C)),
    "no-sections": put(PLAIN, PE_AT + 6, b"\0\0"),
    "too-many-sections": put(PLAIN, PE_AT + 6, struct.pack("<H", 97)),
    "pe32": program({".text": b"x"}, fields=Fields(magic=0x10B)),
    "no-certificate-directory": program({".text": b"x"}, fields=Fields(directories=4)),
    "too-many-directories": program({".text": b"x"}, fields=Fields(directories=17)),
    "optional-header-too-short": put(PLAIN, PE_AT + 20, struct.pack("<H", 120)),
    "headers-without-the-table": put(PLAIN, OPTIONAL_AT + 60, struct.pack("<I", TABLE_AT)),
    "headers-behind-the-end": put(PLAIN, OPTIONAL_AT + 60, struct.pack("<I", len(PLAIN) + 1)),
    "certificates-not-at-the-end": signed() + b"\0" * 8,
    "certificates-not-aligned": put(PLAIN + bytes(4), CERTIFICATE_ENTRY_AT, struct.pack("<II", len(PLAIN) - 4, 8)),
    "certificates-without-size": put(PLAIN, CERTIFICATE_ENTRY_AT, struct.pack("<II", len(PLAIN), 0)),
    "certificates-over-a-section": put(PLAIN, CERTIFICATE_ENTRY_AT, struct.pack("<II", len(PLAIN) - 16, 16)),
    "section-in-the-headers": put(PLAIN, TABLE_AT + 20, struct.pack("<I", 512)),
    "section-behind-the-end": put(PLAIN, TABLE_AT + 20, struct.pack("<I", len(PLAIN))),
    "section-outside-the-image": put(PLAIN, TABLE_AT + 12, struct.pack("<I", 0x7FFFF000)),
    "image-too-large-in-memory": put(PLAIN, OPTIONAL_AT + 56, struct.pack("<I", 0x7FFFFFFF)),
    "sections-over-one-another": put(
        program({f".s{k}": bytes([k]) * 0x2000 for k in range(3)}), TABLE_AT + 8, struct.pack("<I", 0x6000)
    ),
    "section-behind-a-gap": put(PLAIN, TABLE_AT + 40 + 20, struct.pack("<I", 1024)),
    "section-name": put(PLAIN, TABLE_AT, b".t\xffxt"),
    "truncated": PLAIN[: TABLE_AT + 50],
}


@pytest.mark.parametrize("rule", RULES)
def test_image_refused(rule: str) -> None:
    with pytest.raises(pe.ImageError):
        pe.parse(RULES[rule])


def test_image_too_large_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pe, "MAX_IMAGE_BYTES", len(PLAIN) - 1)
    with pytest.raises(pe.ImageError, match="at most"):
        pe.parse(PLAIN)


@given(data=st.binary(max_size=2000), cut=st.integers(0, len(PLAIN)), at=st.integers(0, 1023))
def test_any_bytes_give_an_image_or_an_error(data: bytes, cut: int, at: int) -> None:
    for candidate in (data, PLAIN[:cut], put(PLAIN, at, data[:4]), b"MZ" + data):
        with contextlib.suppress(pe.ImageError):
            assert len(pe.parse(candidate).digest) == 32


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """A key to sign with."""
    return make_key("db", tmp_path_factory.mktemp("keys"))


@pytest.mark.skipif(shutil.which("sbsign") is None, reason="SKIPPED: needs sbsign (apt-get install sbsigntool)")
@pytest.mark.parametrize("image", [kernel(), PLAIN, PLAIN + b"12345678"], ids=["small", "two-sections", "trailer"])
def test_sbsign_signs_the_digest_that_we_compute(tmp_path: Path, key: Key, image: bytes) -> None:
    (tmp_path / "plain.efi").write_bytes(image)
    command = ["sbsign", "--key", key.key, "--cert", key.certificate, "--output", "signed.efi", "plain.efi"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    result = (tmp_path / "signed.efi").read_bytes()
    parsed = pe.parse(result)
    assert parsed.signed
    # SpcIndirectDataContent ends with the digest as an OCTET STRING of 32 bytes, in front of PKCS #7's certificates.
    assert b"\x04\x20" + pe.parse(image).digest in result[len(image) :]
    assert parsed.digest == pe.parse(image).digest
