"""UEFI programs (PE32+): the digest that firmware measures and signs, and the sections of a unified kernel image.

Sources: Microsoft PE Format (headers, section table, attribute certificate table); Windows Authenticode Portable
Executable Signature Format, "Calculating the PE Image Hash"; TCG PC Client Platform Firmware Profile §3.3.4.5 (PCR 4
holds that hash). Strict: only what a loader accepts without guessing is taken, so a file that hashes here has one
meaning. Nothing is copied but the sections asked for.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from attest.errors import AttestError

MAX_IMAGE_BYTES: Final = 512 * 1024 * 1024  # a unified kernel image with a large initrd has under 200 MiB
MAX_SECTIONS: Final = 96  # the Windows loader's limit, which firmware follows
MACHINES: Final = {0x8664: "x86_64", 0xAA64: "aarch64"}

_DOS_HEADER_BYTES: Final = 64
_PE_OFFSET_AT: Final = 0x3C
_FILE_HEADER_BYTES: Final = 24  # signature and COFF file header
_SECTION_BYTES: Final = 40
_PE32_PLUS: Final = 0x020B
_CHECKSUM_AT: Final = 64  # within the optional header
_HEADERS_SIZE_AT: Final = 60
_IMAGE_SIZE_AT: Final = 56
_DIRECTORIES_AT: Final = 112
_DIRECTORY_BYTES: Final = 8
_DIRECTORIES_MAX: Final = 16
_CERTIFICATES: Final = 4  # the directory entry of the attribute certificate table
_CERTIFICATE_ALIGNMENT: Final = 8


class ImageError(AttestError):
    """A file that is no UEFI program, or one that loaders read in different ways. Code ``uefi-image``."""

    def __init__(self, *, found: str, expected: str) -> None:
        super().__init__("uefi-image", found=found, expected=expected)


@dataclass(frozen=True, slots=True)
class Section:
    """One section: its name, where it lies in the file, and how many bytes it has in memory."""

    name: str
    offset: int
    file_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Image:
    """A parsed program. ``digest`` is the Authenticode SHA-256.

    Signing changes it only where the signer pads the file: to eight bytes, behind the sections. Predict from the
    signed file.
    """

    machine: str
    digest: bytes
    sections: tuple[Section, ...]
    signed: bool
    data: bytes

    def section(self, name: str) -> bytes | None:
        """A section as the loader puts it into memory (zeros where the file has less), or None."""
        found = [section for section in self.sections if section.name == name]
        if not found:
            return None
        if len(found) > 1:
            raise ImageError(found=f"{len(found)} sections {name}", expected="one (an image with profiles is not read)")
        size = min(found[0].file_bytes, found[0].memory_bytes)
        return self.data[found[0].offset : found[0].offset + size].ljust(found[0].memory_bytes, b"\0")


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the parts that the digest skips or orders by lie in the file."""

    machine: str
    checksum: int
    certificate_entry: int
    headers_end: int
    certificate_bytes: int
    sections: tuple[Section, ...]


def parse(data: bytes) -> Image:
    """Parse one program. Any bytes give an ``Image`` or an ``ImageError``."""
    if len(data) > MAX_IMAGE_BYTES:
        raise ImageError(found=f"{len(data)} bytes", expected=f"at most {MAX_IMAGE_BYTES}")
    layout = _layout(data)
    return Image(
        machine=layout.machine,
        digest=_authenticode(data, layout),
        sections=layout.sections,
        signed=layout.certificate_bytes > 0,
        data=data,
    )


def _number(data: bytes, offset: int, size: int, name: str) -> int:
    if offset + size > len(data):
        raise ImageError(found=f"the file ends before its {name}", expected=f"{size} bytes at offset {offset}")
    return int.from_bytes(data[offset : offset + size], "little")


def _layout(data: bytes) -> _Layout:
    if data[:2] != b"MZ":
        raise ImageError(found=f"a file that begins with {data[:2].hex() or 'nothing'}", expected="MZ")
    start = _number(data, _PE_OFFSET_AT, 4, "offset of the PE header")
    if start < _DOS_HEADER_BYTES:
        # Linux's kernels keep their own header between the two, none puts the PE header into the DOS header.
        raise ImageError(found=f"a PE header at offset {start}", expected=f"at {_DOS_HEADER_BYTES} or later")
    if data[start : start + 4] != b"PE\0\0":
        raise ImageError(found=f"no PE signature at offset {start}", expected="one")
    machine = _number(data, start + 4, 2, "machine")
    if machine not in MACHINES:
        raise ImageError(found=f"machine 0x{machine:04x}", expected=" or ".join(MACHINES.values()))
    count = _number(data, start + 6, 2, "number of sections")
    if not 1 <= count <= MAX_SECTIONS:
        raise ImageError(found=f"{count} sections", expected=f"1..{MAX_SECTIONS}")
    optional = start + _FILE_HEADER_BYTES
    table = optional + _number(data, start + 20, 2, "size of the optional header")
    magic = _number(data, optional, 2, "optional header")
    if magic != _PE32_PLUS:
        raise ImageError(found=f"optional header 0x{magic:04x}", expected=f"0x{_PE32_PLUS:04x} (PE32+)")
    directories = _number(data, optional + _DIRECTORIES_AT - 4, 4, "number of directories")
    end = optional + _DIRECTORIES_AT + _DIRECTORY_BYTES * directories
    if not _CERTIFICATES < directories <= _DIRECTORIES_MAX or end > table:
        raise ImageError(found=f"{directories} directories", expected=f"{_CERTIFICATES + 1}..{_DIRECTORIES_MAX}")
    headers_end = _number(data, optional + _HEADERS_SIZE_AT, 4, "size of headers")
    if not table + count * _SECTION_BYTES <= headers_end <= len(data):
        raise ImageError(
            found=f"headers of {headers_end} bytes", expected="room for the section table, inside the file"
        )
    entry = optional + _DIRECTORIES_AT + _DIRECTORY_BYTES * _CERTIFICATES
    memory = _number(data, optional + _IMAGE_SIZE_AT, 4, "size of the image")
    if memory > MAX_IMAGE_BYTES:
        raise ImageError(found=f"an image of {memory} bytes in memory", expected=f"at most {MAX_IMAGE_BYTES}")
    return _Layout(
        machine=MACHINES[machine],
        checksum=optional + _CHECKSUM_AT,
        certificate_entry=entry,
        headers_end=headers_end,
        certificate_bytes=_certificates(data, entry, headers_end),
        sections=_sections(data, table, count=count, headers_end=headers_end, memory=memory),
    )


def _certificates(data: bytes, entry: int, headers_end: int) -> int:
    """The size of the signatures, which lie at the very end of the file; 0 where there are none."""
    offset, size = _number(data, entry, 4, "certificate table"), _number(data, entry + 4, 4, "certificate table")
    if offset == size == 0:
        return 0
    if offset < headers_end or offset % _CERTIFICATE_ALIGNMENT or size == 0 or offset + size != len(data):
        found = f"a certificate table of {size} bytes at offset {offset}"
        raise ImageError(found=found, expected=f"one that ends with the file ({len(data)} bytes), aligned")
    return size


def _sections(data: bytes, table: int, *, count: int, headers_end: int, memory: int) -> tuple[Section, ...]:
    sections: list[Section] = []
    for at in range(table, table + count * _SECTION_BYTES, _SECTION_BYTES):
        raw = data[at : at + 8].rstrip(b"\0")
        if not raw.isascii() or not raw.decode("ascii").isprintable():
            raise ImageError(found=f"a section named {raw!r}", expected="printable ASCII")
        memory_bytes, address = _number(data, at + 8, 4, "section"), _number(data, at + 12, 4, "section")
        file_bytes, offset = _number(data, at + 16, 4, "section"), _number(data, at + 20, 4, "section")
        if file_bytes and (offset < headers_end or offset + file_bytes > len(data)):
            raise ImageError(
                found=f"section {raw.decode('ascii')} at {offset}..{offset + file_bytes}",
                expected="behind the headers and inside the file",
            )
        if address + memory_bytes > memory:
            raise ImageError(found=f"section {raw.decode('ascii')} outside the image", expected=f"{memory} bytes of it")
        sections.append(Section(raw.decode("ascii"), offset, file_bytes, memory_bytes))
    total = sum(section.memory_bytes for section in sections)
    if total > memory:  # sections that lie over one another would let a small file ask for any amount of memory
        raise ImageError(found=f"sections of {total} bytes in memory", expected=f"at most the image's {memory}")
    return tuple(sections)


def _authenticode(data: bytes, layout: _Layout) -> bytes:
    """Headers without checksum and certificate entry, sections in file order, what follows without the certificates."""
    view = memoryview(data)
    digest = hashlib.sha256()
    digest.update(view[: layout.checksum])
    digest.update(view[layout.checksum + 4 : layout.certificate_entry])
    digest.update(view[layout.certificate_entry + _DIRECTORY_BYTES : layout.headers_end])
    hashed = layout.headers_end
    for section in sorted(layout.sections, key=lambda section: section.offset):
        if not section.file_bytes:
            continue
        if section.offset != hashed:
            # The rule counts bytes instead of positions, so a gap or an overlap would be hashed wrongly by everybody.
            raise ImageError(
                found=f"section {section.name} at offset {section.offset}", expected=f"{hashed}, behind the one before"
            )
        digest.update(view[section.offset : section.offset + section.file_bytes])
        hashed += section.file_bytes
    end = len(data) - layout.certificate_bytes
    if hashed > end:
        raise ImageError(found="sections that reach into the certificate table", expected="sections before it")
    digest.update(view[hashed:end])
    return digest.digest()
