"""Boot logs made here, of every format, bank and event type, so that tests do not depend on recordings alone."""

from __future__ import annotations

import datetime
import functools
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from attest.boot import banks, efi, ima
from attest.boot import event_types as types
from attest.boot.logformat import FullLog, Record
from attest.structures import composite_digest
from tests.attest.boot import captures
from tests.attest.boot.captures import u32

GLOBAL = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
SECURITY = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
OWNER = UUID("77fa9abd-0359-4d32-bd60-28f4e78f784b")
ESP = UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
END = b"\x7f\xff\x04\0"


@functools.cache
def certificate(name: str) -> bytes:
    """A self-signed certificate with this common name, DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(begin + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def variable(guid: UUID, name: str, value: bytes) -> bytes:
    sizes = len(name).to_bytes(8, "little") + len(value).to_bytes(8, "little")
    return guid.bytes_le + sizes + utf16(name) + value


def signature_list(kind: UUID, *entries: bytes) -> bytes:
    body = b"".join(OWNER.bytes_le + entry for entry in entries)
    return kind.bytes_le + u32(28 + len(body)) + u32(0) + u32(16 + len(entries[0])) + body


def node(kind: int, sub: int, body: bytes) -> bytes:
    return bytes([kind, sub]) + (4 + len(body)).to_bytes(2, "little") + body


def file_path(name: str) -> bytes:
    return node(4, 4, utf16(name + "\0")) + END


def boot_option(description: str, path: bytes, *, active: bool = True, extra: bytes = b"") -> bytes:
    return u32(active) + len(path).to_bytes(2, "little") + utf16(description + "\0") + path + extra


def image(path: bytes) -> bytes:
    return b"".join(n.to_bytes(8, "little") for n in (0x1000, 0x2000, 0, len(path))) + path


def gpt(*names: str) -> bytes:
    head = bytearray(92)
    head[:8] = b"EFI PART"
    head[56:72] = OWNER.bytes_le
    head[84:88] = u32(128)
    entries = b"".join(
        ESP.bytes_le + OWNER.bytes_le + (2048).to_bytes(8, "little") + (4095).to_bytes(8, "little") + bytes(8)
        + utf16(name).ljust(72, b"\0")
        for name in names
    )  # fmt: skip
    return bytes(head) + len(names).to_bytes(8, "little") + entries


def tagged(tag: int, data: bytes) -> bytes:
    return u32(tag) + u32(len(data)) + data


@functools.cache
def boot() -> tuple[tuple[int, int, bytes, bytes | None], ...]:
    """(PCR, type, data, what is hashed; None: the data) of a boot that uses every common event type."""
    return (
        (0, types.EV_S_CRTM_VERSION, utf16("1.0\0"), None),
        (0, types.EV_EFI_PLATFORM_FIRMWARE_BLOB, bytes(8) + (4096).to_bytes(8, "little"), b"firmware"),
        (0, types.EV_EFI_PLATFORM_FIRMWARE_BLOB2, b"\3abc" + bytes(16), b"more firmware"),
        (0, types.EV_POST_CODE, b"POST CODE", None),
        (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG, variable(GLOBAL, "SecureBoot", b"\1"), None),
        (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG,
         variable(GLOBAL, "PK", signature_list(efi.CERT_X509, certificate("plant PK"))), None),
        (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG,
         variable(SECURITY, "db", signature_list(efi.CERT_X509, certificate("plant db"))), None),
        (7, types.EV_EFI_VARIABLE_DRIVER_CONFIG,
         variable(SECURITY, "dbx", signature_list(efi.CERT_SHA256, bytes(32), b"\1" * 32)), None),
        (7, types.EV_SEPARATOR, bytes(4), None),
        (7, types.EV_EFI_VARIABLE_AUTHORITY, variable(SECURITY, "db", OWNER.bytes_le + certificate("plant db")), None),
        (1, types.EV_EFI_VARIABLE_BOOT, variable(GLOBAL, "BootOrder", b"\1\0\0\0"), b"\1\0\0\0"),
        (1, types.EV_EFI_VARIABLE_BOOT2, variable(GLOBAL, "Boot0001", boot_option("Linux", file_path("l.efi"))), None),
        (1, types.EV_EFI_HANDOFF_TABLES, bytes(8), b"tables"),
        (2, types.EV_EFI_BOOT_SERVICES_DRIVER, image(node(2, 1, bytes(8)) + END), b"driver"),
        (4, types.EV_EFI_ACTION, b"Calling EFI Application from Boot Option", None),
        (4, types.EV_EFI_BOOT_SERVICES_APPLICATION, image(file_path("\\EFI\\BOOT\\BOOTX64.EFI")), b"program"),
        (5, types.EV_EFI_GPT_EVENT, gpt("esp", "root"), None),
        (6, types.EV_COMPACT_HASH, b"vendor", None),
        (8, types.EV_IPL, b"grub_cmd: linux /vmlinuz\0", b"linux /vmlinuz"),
        (9, types.EV_EVENT_TAG, tagged(0x8F3B22EC, b"Linux initrd\0"), b"initrd"),
        (11, types.EV_IPL, utf16(".linux\0"), b".linux\0"),
        (11, types.EV_IPL, utf16(".linux\0"), b"the kernel"),
        (12, types.EV_IPL, utf16("quiet\0"), None),
        (14, types.EV_IPL, b"MokList\0", b"keys"),
    )  # fmt: skip


def full_log(algorithms: tuple[int, ...], locality: int | None = 3) -> bytes:
    records: list[Record] = []
    if locality is not None:
        zeros = tuple(bytes(banks.SIZES[a]) for a in algorithms)
        records.append(Record(1, 0, types.EV_NO_ACTION, zeros, b"StartupLocality\0" + bytes([locality])))
    for pcr, kind, data, hashed in boot():
        digests = tuple(banks.digest(a, data if hashed is None else hashed) for a in algorithms)
        records.append(Record(len(records) + 1, pcr, kind, digests, data))
    return captures.write(FullLog(algorithms, tuple(records), locality or 0, True))


def legacy_log(spec_id: bytes = b"") -> bytes:
    events = [(p, k, banks.digest(banks.SHA1, data if h is None else h), data) for p, k, data, h in boot()]
    return captures.legacy(events, spec_id)


LEGACY_SPEC_ID = b"Spec ID Event02\0" + bytes(4) + bytes([2, 1, 0, 2, 0])


@functools.cache
def logs() -> dict[str, bytes]:
    """One log of every format and some choices of banks."""
    return {
        "sha256": full_log((banks.SHA256,), None),
        "sha1-sha256": full_log((banks.SHA1, banks.SHA256)),
        "four-banks": full_log((banks.SHA1, banks.SHA256, banks.SHA384, banks.SHA512), 4),
        "sha384": full_log((banks.SHA384,), 0),
        "legacy": legacy_log(),
        "legacy-header": legacy_log(LEGACY_SPEC_ID),
    }


def ima_entry(template: str, data: bytes, *, pcr: int = 10, digest: bytes | None = None, old: bytes = b"") -> bytes:
    listed = banks.digest(banks.SHA1, old or data) if digest is None else digest
    size = b"" if template == "ima" else u32(len(data))
    return u32(pcr) + listed + u32(len(template)) + template.encode() + size + data


def ima_fields(*fields: bytes) -> bytes:
    return b"".join(u32(len(field)) + field for field in fields)


def aggregate(digest: bytes = b"\7" * 32) -> bytes:
    return ima_entry("ima-sig", ima_fields(b"sha256:\0" + digest, b"boot_aggregate\0", b""))


def ima_file(name: str = "/bin/sh", digest: bytes = b"\5" * 32) -> bytes:
    return ima_entry("ima-ng", ima_fields(b"sha256:\0" + digest, name.encode() + b"\0"))


def ima_list() -> bytes:
    """A list with several templates and a violation."""
    old = b"\3" * 20 + u32(4) + b"/old"
    violation = ima_entry("ima-ng", ima_fields(b"sha256:\0" + bytes(32), b"/open\0"), digest=bytes(20))
    v2 = ima_entry("ima-sigv2", ima_fields(b"verity:sha256:\0" + b"\6" * 32, b"/v\0", b"\x03\2sig"))
    buffer = ima_entry("ima-buf", ima_fields(b"sha256:\0" + b"\4" * 32, b"kexec-cmdline\0", b"quiet"))
    hashed = b"\3" * 20 + b"/old".ljust(256, b"\0")
    return aggregate() + ima_file() + ima_entry("ima", old, old=hashed) + violation + v2 + buffer


def ima_values(bank: int = banks.SHA256, *, padded: bool = False) -> list[bytes]:
    """PCR 10 after each number of entries of ``ima_list``."""
    return list(ima.parse(ima_list()).values(bank, padded=padded))


def quote(pcrs: dict[int, bytes]) -> bytes:
    """TPMS_ATTEST of a quote over these PCRs (TPM 2.0 Part 2 §10.12.12)."""
    select = sum(1 << pcr for pcr in pcrs).to_bytes(3, "little")
    selection = (1).to_bytes(4, "big") + (0x000B).to_bytes(2, "big") + b"\3" + select
    digest = composite_digest(pcrs)
    head = (0xFF544347).to_bytes(4, "big") + (0x8018).to_bytes(2, "big")
    signer = (34).to_bytes(2, "big") + b"\0\x0b" + bytes(32)
    clock = bytes(8) + bytes(8) + b"\1"
    return head + signer + bytes(2) + clock + bytes(8) + selection + len(digest).to_bytes(2, "big") + digest
