"""UEFI programs made byte by byte, so that every rule of the parser can be broken alone."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FILE_ALIGNMENT = 512
PE_AT = 0x80
OPTIONAL_AT = PE_AT + 24
DIRECTORIES = 16
TABLE_AT = OPTIONAL_AT + 112 + 8 * DIRECTORIES
CHECKSUM_AT = OPTIONAL_AT + 64
CERTIFICATE_ENTRY_AT = OPTIONAL_AT + 112 + 8 * 4
STUB = b"#### LoaderInfo: systemd-stub 252.39-1 ####"


@dataclass(frozen=True, slots=True)
class Fields:
    """Header fields that a test may set wrong."""

    machine: int = 0x8664
    magic: int = 0x20B
    directories: int = DIRECTORIES
    headers: int = 1024


def program(
    sections: Mapping[str, bytes], *, fields: Fields | None = None, trailer: bytes = b"", order: Sequence[str] = ()
) -> bytes:
    """A PE32+ file. ``order``: names in the order of their data in the file; ``trailer``: bytes behind them."""
    head = Fields() if fields is None else fields
    places: dict[str, int] = {}
    body = b""
    for name in order or list(sections):
        places[name] = head.headers + len(body)
        body += sections[name].ljust(-(-len(sections[name]) // FILE_ALIGNMENT) * FILE_ALIGNMENT, b"\0")
    table, address = b"", 0x1000
    for name, data in sections.items():
        size = -(-len(data) // FILE_ALIGNMENT) * FILE_ALIGNMENT
        table += name.encode().ljust(8, b"\0") + struct.pack("<IIII", len(data), address, size, places[name])
        table += struct.pack("<IIHHI", 0, 0, 0, 0, 0x40000040)
        address += -(-max(len(data), 1) // 0x1000) * 0x1000
    optional = struct.pack("<HBBIIIII", head.magic, 0, 0, 0, 0, 0, 0, 0)
    optional += struct.pack(
        "<QIIHHHHHHIIIIHH", 0, 0x1000, FILE_ALIGNMENT, 0, 0, 0, 0, 0, 0, 0, address, head.headers, 0, 10, 0
    )
    optional += struct.pack("<QQQQII", 0, 0, 0, 0, 0, head.directories) + bytes(8 * DIRECTORIES)
    coff = struct.pack("<HHIIIHH", head.machine, len(sections), 0, 0, 0, len(optional), 0x22E)
    start = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", PE_AT)
    whole = start.ljust(PE_AT, b"\0") + b"PE\0\0" + coff + optional + table
    assert len(whole) <= 1024
    return whole.ljust(1024, b"\0") + body + trailer


def kernel(text: bytes = b"a kernel") -> bytes:
    """A small program to start."""
    return program({".text": text})


def unified(contents: Mapping[str, bytes] | None = None, *, stub: bytes = STUB, order: Sequence[str] = ()) -> bytes:
    """A unified kernel image with systemd's mark; ``contents`` adds to or replaces its sections."""
    sections = {
        ".text": b"stub code",
        ".sdmagic": stub,
        ".osrel": b"ID=test\n",
        ".cmdline": b"quiet\n",
        ".linux": kernel(),
        ".initrd": b"an initrd",
    }
    sections |= contents or {}
    return program({name: data for name, data in sections.items() if data}, order=order)


def put(data: bytes, at: int, new: bytes) -> bytes:
    """``data`` with some bytes replaced."""
    return data[:at] + new + data[at + len(new) :]
