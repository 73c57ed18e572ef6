"""UEFI's structures in boot events, read for people: variables, signature lists, boot options, device paths, GPT.

Sources: UEFI 2.10 (§3.1.3 load options, §5.3 GPT, §10.3 device paths, §32.4.1 signature lists) and TCG PC Client
Platform Firmware Profile 1.06, §10.2. Reading is total: what is not of the expected form gives None, and the caller
shows the bytes as they are. Nothing here decides whether a machine is trusted.
"""

from __future__ import annotations

import hashlib
import ipaddress
import warnings
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from cryptography import x509
from cryptography.x509.oid import NameOID

NAME_CHARS_MAX: Final = 512  # longer variable names do not exist
NODES_MAX: Final = 64
SIGNATURES_MAX: Final = 8192  # dbx of 2026 has some hundreds
PARTITIONS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 200

CERT_X509: Final = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
CERT_SHA256: Final = UUID("c1c41626-504c-4092-aca9-41f936934328")
SHIM_LOCK: Final = UUID("605dab50-e046-4300-abb6-3dd810dd8b23")
_ESP: Final = UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
_GPT_HEADER_BYTES: Final = 92
_END_OF_PATH: Final = b"\x7f\xff"


@dataclass(frozen=True, slots=True)
class Variable:
    """UEFI_VARIABLE_DATA: the vendor's GUID, the name and the value."""

    guid: UUID
    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Signature:
    """One entry of a signature database: ``kind`` certificate, hash or other, a text, SHA-256 of the entry's data."""

    kind: str
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class BootOption:
    """EFI_LOAD_OPTION: a boot entry."""

    active: bool
    description: str
    path: str


@dataclass(frozen=True, slots=True)
class Partition:
    """An entry of a GUID partition table; blocks as on the disk."""

    kind: UUID
    unique: UUID
    first: int
    last: int
    name: str


@dataclass(frozen=True, slots=True)
class Gpt:
    """UEFI_GPT_DATA: the disk's GUID and its used partitions."""

    disk: UUID
    partitions: tuple[Partition, ...]


def utf16(data: bytes) -> str | None:
    """UTF-16LE text without its closing NULs, or None."""
    try:
        return data.decode("utf-16-le").rstrip("\0")
    except UnicodeDecodeError:
        return None


def guid(data: bytes) -> UUID:
    """An EFI_GUID, 16 bytes."""
    return UUID(bytes_le=data)


def variable(data: bytes) -> Variable | None:
    """UEFI_VARIABLE_DATA, exactly."""
    if len(data) < 32:
        return None
    chars, size = int.from_bytes(data[16:24], "little"), int.from_bytes(data[24:32], "little")
    if chars > NAME_CHARS_MAX or 32 + 2 * chars + size != len(data):
        return None
    name = utf16(data[32 : 32 + 2 * chars])
    return None if name is None else Variable(guid(data[:16]), name, data[32 + 2 * chars :])


def signatures(value: bytes) -> tuple[Signature, ...] | None:
    """The entries of concatenated EFI_SIGNATURE_LISTs; empty for an empty variable."""
    found: list[Signature] = []
    at = 0
    while at < len(value):
        head = value[at : at + 28]
        size, header, each = (int.from_bytes(head[i : i + 4], "little") for i in (16, 20, 24))
        body = size - 28 - header
        if len(head) < 28 or at + size > len(value) or each <= 16 or body < 0 or body % each:
            return None
        if len(found) + body // each > SIGNATURES_MAX:
            return None
        start = at + 28 + header
        found += [_signature(guid(head[:16]), value[i + 16 : i + each]) for i in range(start, at + size, each)]
        at += size
    return tuple(found)


def _signature(kind: UUID, data: bytes) -> Signature:
    sha256 = hashlib.sha256(data).hexdigest()
    if kind == CERT_X509:
        return Signature("certificate", f"certificate {certificate_name(data) or 'that cannot be read'}", sha256)
    if kind == CERT_SHA256:
        return Signature("hash", f"hash {data.hex()}", sha256)
    return Signature("other", f"entry of kind {kind} with {len(data)} bytes", sha256)


def certificate_name(der: bytes) -> str | None:
    """The subject's common name, or the whole subject; None for what is no certificate."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # firmware vendors' certificates break rules that matter to nobody here
            subject = x509.load_der_x509_certificate(der).subject
            names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            text = str(names[0].value) if names else subject.rfc4514_string()
    except (ValueError, TypeError, x509.InvalidVersion):
        return None
    return printable(text)


def boot_option(value: bytes) -> BootOption | None:
    """EFI_LOAD_OPTION of a variable Boot####."""
    if len(value) < 6:
        return None
    size = int.from_bytes(value[4:6], "little")
    end = next((i for i in range(6, len(value) - 1, 2) if value[i : i + 2] == b"\0\0"), None)
    if end is None or end + 2 + size > len(value):
        return None
    description, path = utf16(value[6:end]), device_path(value[end + 2 : end + 2 + size], listed=True)
    if description is None or path is None:
        return None
    return BootOption(bool(value[0] & 1), printable(description), path)


def image_path(data: bytes) -> str | None:
    """The device path of UEFI_IMAGE_LOAD_EVENT; empty where the firmware gave none."""
    if len(data) < 32 or int.from_bytes(data[24:32], "little") != len(data) - 32:
        return None
    return device_path(data[32:])


def blob(data: bytes) -> tuple[str, int, int] | None:
    """UEFI_PLATFORM_FIRMWARE_BLOB or its second form with a description: description, address, length."""
    size = 0 if len(data) == 16 else 1 + data[0] if data else 0
    if len(data) != size + 16:
        return None
    name = printable(data[1:size].decode("utf-8", errors="backslashreplace").rstrip("\0"))
    return name, int.from_bytes(data[size : size + 8], "little"), int.from_bytes(data[size + 8 :], "little")


def gpt(data: bytes) -> Gpt | None:
    """UEFI_GPT_DATA, exactly."""
    if len(data) < _GPT_HEADER_BYTES + 8 or data[:8] != b"EFI PART":
        return None
    count = int.from_bytes(data[_GPT_HEADER_BYTES : _GPT_HEADER_BYTES + 8], "little")
    size = int.from_bytes(data[84:88], "little")
    if count > PARTITIONS_MAX or size < 128 or _GPT_HEADER_BYTES + 8 + count * size != len(data):
        return None
    partitions: list[Partition] = []
    for at in range(_GPT_HEADER_BYTES + 8, len(data), size):
        entry = data[at : at + size]
        name = utf16(entry[56:128])
        first, last = int.from_bytes(entry[32:40], "little"), int.from_bytes(entry[40:48], "little")
        partitions.append(Partition(guid(entry[:16]), guid(entry[16:32]), first, last, printable(name or "")))
    return Gpt(guid(data[56:72]), tuple(partitions))


def partition_text(entry: Partition) -> str:
    """A partition in a few words."""
    kind = "EFI system partition" if entry.kind == _ESP else f"partition of type {entry.kind}"
    return f"{kind} {entry.name!r} at {entry.first}..{entry.last}"


def device_path(data: bytes, *, listed: bool = False) -> str | None:
    """A device path as text, its nodes joined by slashes; ``listed``: the first of several, which boot entries have."""
    nodes: list[str] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 2 : at + 4], "little")
        if size < 4 or at + size > len(data) or len(nodes) >= NODES_MAX:
            return None
        if data[at : at + 2] == _END_OF_PATH:
            return "/".join(nodes) if listed or at + size == len(data) else None
        nodes.append(_node(data[at], data[at + 1], data[at + 4 : at + size]))
        at += size
    return None if nodes else ""


def _node(kind: int, sub: int, body: bytes) -> str:
    """One node in the UEFI text form (§10.6) where it is common, else numbers and bytes."""
    match kind, sub, len(body):
        case 1, 1, 2:
            return f"Pci({body[1]:#x},{body[0]:#x})"
        case 2, 1, 8:
            uid = int.from_bytes(body[4:], "little")
            return f"PciRoot({uid:#x})" if body[:4] == b"\xd0\x41\x03\x0a" else f"Acpi({body[:4].hex()},{uid:#x})"
        case 3, 2, 4:
            return f"Scsi({int.from_bytes(body[:2], 'little'):#x},{int.from_bytes(body[2:], 'little'):#x})"
        case 3, 5, 2:
            return f"USB({body[0]:#x},{body[1]:#x})"
        case 3, 11, 33:
            return f"MAC({body[:6].hex(':')})"
        case 3, 12, (15 | 23):
            return f"IPv4({ipaddress.IPv4Address(body[4:8])})"
        case 3, 18, 6:
            return f"Sata({int.from_bytes(body[:2], 'little'):#x})"
        case 3, 23, 12:
            return f"NVMe({int.from_bytes(body[:4], 'little'):#x})"
        case 3, 24, _:
            return f"Uri({printable(body.decode('utf-8', errors='backslashreplace'))})"
        case 4, 1, 38:
            return f"HD({int.from_bytes(body[:4], 'little')},{_disk_signature(body)})"
        case 4, 3, size if size >= 16:
            return f"VenMedia({guid(body[:16])})"
        case 4, 4, _:
            return printable(utf16(body) or body.hex()).replace("\\", "/").strip("/")
        case 4, 6, 16:
            return f"FvFile({guid(body)})"
        case 4, 7, 16:
            return f"Fv({guid(body)})"
        case 4, 8, 20:
            return f"Offset({int.from_bytes(body[4:12], 'little'):#x},{int.from_bytes(body[12:], 'little'):#x})"
        case 5, 1, size if size >= 4:
            return f"BBS({printable(body[4:].decode('utf-8', errors='backslashreplace').rstrip(chr(0)))})"
        case _:
            return f"Path({kind},{sub},{body.hex()})"[:TEXT_CHARS_MAX]


def _disk_signature(body: bytes) -> str:
    return f"GPT,{guid(body[20:36])}" if body[37] == 2 else f"MBR,{body[20:24][::-1].hex()}"


def printable(text: str) -> str:
    """Text that is safe on a terminal and of bounded length."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:TEXT_CHARS_MAX])
    return safe[:TEXT_CHARS_MAX]
