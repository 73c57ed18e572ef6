"""IMA's measurement list as the kernel shows it in ``binary_runtime_measurements``, and PCR 10 by prefix match.

An entry is PCR (u32), SHA-1 of the template data (20 bytes, whatever the bank), template name (u32 length, text) and
the template data (u32 length, then fields of u32 length each), little-endian as x86-64 and aarch64 write it; the old
``ima`` template has neither the outer length nor one for its digest (Linux, Documentation/security/IMA-templates.rst
and security/integrity/ima/ima_fs.c). Every entry's SHA-1 is computed again, so a changed entry is refused.

The list grows while it is read: read PCR 10 first, the list second, and match the value against every prefix. What
comes after the matched prefix is vouched for by nothing. Two ways of extending a SHA-256 bank exist and both are
tried: the bank's own hash of the template data (Linux 5.8 and later) and the SHA-1 padded with zeros (before).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from attest.boot import banks
from attest.boot.errors import ImaError

PCR_IMA: Final = 10  # CONFIG_IMA_MEASURE_PCR_IDX of every distribution; a policy's own pcr= is not for attestation
MAX_LIST_BYTES: Final = 16 * 1024 * 1024  # tens of thousands of files; a stock desktop measures a few thousand
MAX_ENTRIES: Final = 65_536
MAX_TEMPLATE_BYTES: Final = 64 * 1024  # the largest are certificates and kexec command lines (ima-buf)
MAX_PATH_BYTES: Final = 4096 + 1  # PATH_MAX and the closing NUL

BOOT_AGGREGATE: Final = "boot_aggregate"
_SHA1_BYTES: Final = 20
_NAME_BYTES_MAX: Final = 15  # IMA_TEMPLATE_NAME_LEN, without the NUL
_OLD_NAME_FIELD: Final = 256  # IMA_EVENT_NAME_LEN_MAX + 1: what the template "ima" hashes of a name
_OLD: Final = "ima"
_FIELDS: Final = {
    "ima-ng": ("d-ng", "n-ng"),
    "ima-sig": ("d-ng", "n-ng", "sig"),
    "ima-ngv2": ("d-ngv2", "n-ng"),
    "ima-sigv2": ("d-ngv2", "n-ng", "sig"),
    "ima-buf": ("d-ng", "n-ng", "buf"),
    "ima-modsig": ("d-ng", "n-ng", "sig", "d-modsig", "modsig"),
}
_DIGEST_BYTES: Final = {"md5": 16, "sha224": 28, "rmd160": 20, "sm3": 32, "wp512": 64} | {
    name: banks.SIZES[algorithm] for algorithm, name in banks.NAMES.items()
}
_DIGEST_TYPES: Final = (b"ima", b"verity")  # what a d-ngv2 digest is of


@dataclass(frozen=True, slots=True)
class ImaEntry:
    """One measured file (or buffer): what was measured, and what the kernel extended for it."""

    template: str
    template_digest: bytes  # SHA-1 as listed; zeros: a violation (the file was open for writing)
    hashed: bytes  # what the template digest is the hash of
    algorithm: str
    digest: bytes
    path: str
    signature: bytes = b""

    @property
    def violation(self) -> bool:
        """The kernel could not vouch for this file and extended ones: nothing vouches for its name either."""
        return not any(self.template_digest)

    def measured(self, bank: int, *, padded: bool) -> bytes:
        """The digest that was extended into ``bank``; ``padded`` as Linux before 5.8 did."""
        size = banks.SIZES[bank]
        width = _SHA1_BYTES if padded else size
        if self.violation:
            value = b"\xff" * width
        else:
            value = self.template_digest if padded else banks.digest(bank, self.hashed)
        return value[:size].ljust(size, b"\0")


@dataclass(frozen=True, slots=True)
class ImaLog:
    """A parsed list. The first entry is ``boot_aggregate``: what IMA saw of the PCRs when it began."""

    entries: tuple[ImaEntry, ...]

    @property
    def aggregate(self) -> ImaEntry:
        """The entry that ties this list to the boot before it."""
        return self.entries[0]

    def values(self, bank: int, *, padded: bool = False) -> Iterator[bytes]:
        """PCR 10 after no entry, after one, after two, …"""
        value = banks.first_value(bank, PCR_IMA)
        yield value
        for entry in self.entries:
            value = banks.extend(bank, value, entry.measured(bank, padded=padded))
            yield value


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """The first ``entries`` of a list are what PCR 10 holds; ``padded``: extended as Linux before 5.8 did."""

    entries: int
    padded: bool


def match(log: ImaLog, value: bytes, *, bank: int = banks.SHA256) -> PrefixMatch | None:
    """How many of the list's first entries PCR 10 = ``value`` vouches for; None where it is no prefix of this list."""
    for padded in (False, True):
        for count, prefix in enumerate(log.values(bank, padded=padded)):
            if prefix == value:
                return PrefixMatch(count, padded)
    return None


def boot_aggregate(values: Mapping[int, bytes], algorithm: str) -> bytes:
    """What ``boot_aggregate`` must be: the hash of PCR 0..9 of the bank ``algorithm``, 0..7 for SHA-1 (Linux 5.8).

    Raises ``ImaError`` where a value is missing.
    """
    pcrs = range(8 if algorithm == banks.NAMES[banks.SHA1] else 10)
    missing = [pcr for pcr in pcrs if pcr not in values]
    if missing or algorithm not in banks.IDS:
        found = f"no value of PCR {missing[0]}" if missing else f"the hash {algorithm}"
        raise ImaError(found=found, expected=f"PCR 0..{len(pcrs) - 1} in the bank of the boot aggregate")
    return banks.digest(banks.IDS[algorithm], b"".join(values[pcr] for pcr in pcrs))


def aggregate_fault(log: ImaLog, matched: int, values: Mapping[int, Mapping[int, bytes]]) -> str | None:
    """Why this list does not belong to the boot whose PCRs are ``values`` (bank → PCR → value); None where it does.

    ``matched`` entries of the list are vouched for by PCR 10. An aggregate of zeros says that IMA began without a
    TPM; then nothing was ever extended, and the list vouches for nothing.
    """
    entry = log.aggregate
    if not any(entry.digest):
        return None if matched == 0 else "a boot aggregate of zeros, though PCR 10 was extended"
    if matched == 0:
        return "PCR 10 was never extended, though IMA saw a TPM"
    try:
        expected = boot_aggregate(values.get(banks.IDS.get(entry.algorithm, 0), {}), entry.algorithm)
    except ImaError as error:
        return error.found
    return None if entry.digest == expected else f"boot aggregate {entry.digest.hex()}, from the PCRs {expected.hex()}"


def parse(data: bytes) -> ImaLog:
    """Parse a whole list. Any bytes give an ``ImaLog`` or an ``ImaError``."""
    if len(data) > MAX_LIST_BYTES:
        raise ImaError(found=f"{len(data)} bytes", expected=f"at most {MAX_LIST_BYTES}")
    reader = _Reader(data, 0, len(data))
    entries: list[ImaEntry] = []
    while not reader.at_end:
        if len(entries) >= MAX_ENTRIES:
            raise ImaError(found=f"over {MAX_ENTRIES} entries", expected=f"at most {MAX_ENTRIES}")
        entries.append(_parse_entry(reader))
    if not entries or entries[0].path != BOOT_AGGREGATE or entries[0].violation:
        found = entries[0].path if entries else "an empty list"
        raise ImaError(found=found, expected=f"{BOOT_AGGREGATE} as the first entry")
    return ImaLog(tuple(entries))


class _Reader:
    """Little-endian fields of ``data[at:end]`` with a bounds check each."""

    __slots__ = ("_data", "_end", "at")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data = data
        self.at = at
        self._end = end

    @property
    def at_end(self) -> bool:
        return self.at == self._end

    def octets(self, size: int, name: str) -> bytes:
        if size > self._end - self.at:
            raise ImaError(found=f"{self._end - self.at} bytes at offset {self.at} for {name}", expected=str(size))
        chunk = self._data[self.at : self.at + size]
        self.at += size
        return chunk

    def number(self, name: str, high: int) -> int:
        value = int.from_bytes(self.octets(4, name), "little")
        if value > high:
            raise ImaError(found=f"{name} {value} at offset {self.at - 4}", expected=f"at most {high}")
        return value

    def sized(self, name: str, high: int) -> bytes:
        return self.octets(self.number(f"length of {name}", high), name)


def _parse_entry(reader: _Reader) -> ImaEntry:
    start = reader.at
    pcr = reader.number("PCR", 0xFFFF_FFFF)
    if pcr != PCR_IMA:
        raise ImaError(found=f"PCR {pcr} at offset {start}", expected=f"PCR {PCR_IMA}")
    listed = reader.octets(_SHA1_BYTES, "template digest")
    name = reader.sized("template name", _NAME_BYTES_MAX)
    template = name.decode("ascii", errors="backslashreplace")
    parts: Callable[[_Reader], tuple[str, bytes, bytes, bytes, bytes]]
    if template == _OLD:
        parts = _parse_old
    elif template in _FIELDS:
        fields = _FIELDS[template]

        def parts(reader: _Reader) -> tuple[str, bytes, bytes, bytes, bytes]:
            return _parse_fields(reader, fields)
    else:
        raise ImaError(found=f"template {template!r} at offset {start}", expected=f"{_OLD}, {', '.join(_FIELDS)}")
    algorithm, digest, path, signature, hashed = parts(reader)
    entry = ImaEntry(template, listed, hashed, algorithm, digest, _text(path), signature)
    if not entry.violation and hashlib.sha1(hashed, usedforsecurity=False).digest() != listed:
        raise ImaError(found=f"template data at offset {start} that is not {listed.hex()}", expected="its SHA-1")
    if entry.violation and any(digest):
        raise ImaError(found=f"a violation with digest {digest.hex()} at offset {start}", expected="zeros")
    return entry


def _parse_old(reader: _Reader) -> tuple[str, bytes, bytes, bytes, bytes]:
    digest = reader.octets(_SHA1_BYTES, "digest")
    path = reader.sized("name", _OLD_NAME_FIELD - 1)
    return "sha1", digest, path, b"", digest + path.ljust(_OLD_NAME_FIELD, b"\0")


def _parse_fields(reader: _Reader, names: tuple[str, ...]) -> tuple[str, bytes, bytes, bytes, bytes]:
    size = reader.number("length of template data", MAX_TEMPLATE_BYTES)
    start = reader.at
    hashed = reader.octets(size, "template data")
    inner = _Reader(hashed, 0, size)
    fields = {name: inner.sized(name, MAX_TEMPLATE_BYTES) for name in names}
    if not inner.at_end:
        raise ImaError(found=f"{size - inner.at} more bytes at offset {start + inner.at}", expected="none")
    algorithm, digest = _digest_field(fields[names[0]], start, typed=names[0] == "d-ngv2")
    path = fields["n-ng"]
    if not path.endswith(b"\0") or b"\0" in path[:-1] or len(path) > MAX_PATH_BYTES:
        raise ImaError(found=f"a name at offset {start} that does not end in one NUL", expected="a name and a NUL")
    return algorithm, digest, path[:-1], fields.get("sig", b""), hashed


def _digest_field(field: bytes, offset: int, *, typed: bool) -> tuple[str, bytes]:
    """``[type:]algorithm:`` NUL digest."""
    label, _, digest = field.partition(b"\0")
    kind, _, rest = label.partition(b":") if typed else (b"ima", b"", label)
    algorithm = rest.removesuffix(b":").decode("ascii", errors="backslashreplace")
    known = _DIGEST_BYTES.get(algorithm)
    if not rest.endswith(b":") or kind not in _DIGEST_TYPES or known != len(digest):
        raise ImaError(
            found=f"digest field {label!r} of {len(digest)} bytes at offset {offset}", expected="a known hash"
        )
    return algorithm, digest


def _text(path: bytes) -> str:
    text = path.decode("utf-8", errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
