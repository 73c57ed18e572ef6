"""The two formats of boot logs, as bytes (TCG PC Client Platform Firmware Profile 1.06, §10.2 and §10.4.5).

Crypto-agile: one TCG_PCR_EVENT with a SHA-1 field of zeros carries the Spec ID structure, then each TCG_PCR_EVENT2 has
one digest for each bank that the header names. Legacy (TPM 1.2, or firmware told to measure in SHA-1): TCG_PCR_EVENT
throughout, with or without a Spec ID Event00/02 in front. Sizes and counts are checked before anything is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.boot import banks
from attest.boot.errors import EventLogError
from attest.boot.event_types import EV_NO_ACTION
from attest.structures import PCR_COUNT

MAX_LOG_BYTES: Final = 1024 * 1024  # firmware reserves 64 KiB by default; real ones with large dbx stay below 256
MAX_EVENTS: Final = 4096
MAX_EVENT_BYTES: Final = 256 * 1024  # a dbx variable is the largest event there is
MAX_ALGORITHMS: Final = 8

STARTUP_LOCALITY: Final = b"StartupLocality\0"
SPEC_ID: Final = b"Spec ID Event03\0"
_SPEC_ID_LEGACY: Final = (b"Spec ID Event00\0", b"Spec ID Event02\0")  # BIOS and UEFI with a TPM 1.2
_SPEC_ID_ANY: Final = b"Spec ID Event"
_LOCALITIES: Final = (0, 3, 4)  # 3: Startup from locality 3, 4: the H-CRTM (Part 1 §34.2)
_NO_PCR: Final = 0xFFFF_FFFF  # of events that inform about the platform as a whole
_SHA1_BYTES: Final = banks.SIZES[banks.SHA1]


@dataclass(frozen=True, slots=True)
class Record:
    """One event as it stands in the log. ``digests`` follow the order of ``FullLog.banks``."""

    number: int  # from 0; a header is number 0
    pcr: int
    kind: int
    digests: tuple[bytes, ...]
    data: bytes

    @property
    def extends(self) -> bool:
        """EV_NO_ACTION events inform and extend nothing."""
        return self.kind != EV_NO_ACTION


@dataclass(frozen=True, slots=True)
class FullLog:
    """A log with all its banks (TPM algorithm identifiers, in the header's order), without its header."""

    banks: tuple[int, ...]
    records: tuple[Record, ...]
    startup_locality: int
    crypto_agile: bool


def read(data: bytes) -> FullLog:
    """Read a whole log of either format. Any bytes give a ``FullLog`` or an ``EventLogError``."""
    if len(data) > MAX_LOG_BYTES:
        raise EventLogError(found=f"{len(data)} bytes", expected=f"at most {MAX_LOG_BYTES}")
    reader = Reader(data)
    sizes = _read_header(reader)
    count = 0 if reader.at == 0 else 1
    agile = sizes is not None
    sizes = sizes or {banks.SHA1: _SHA1_BYTES}
    records: list[Record] = []
    locality: int | None = None
    while not reader.at_end:
        if len(records) >= MAX_EVENTS:
            raise EventLogError(found=f"over {MAX_EVENTS} events", expected=f"at most {MAX_EVENTS}")
        record = _read_event(reader, sizes, count, agile=agile)
        if not record.extends:
            locality = _no_action(record, records, locality)
        records.append(record)
        count += 1
    return FullLog(tuple(sizes), tuple(records), locality or 0, agile)


class Reader:
    """Little-endian fields with a bounds check each."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at == len(self._data)

    def octets(self, size: int, name: str) -> bytes:
        end = self.at + size
        if end > len(self._data):
            found = f"{len(self._data) - self.at} bytes at offset {self.at} for {name}"
            raise EventLogError(found=found, expected=f"{size}")
        chunk = self._data[self.at : end]
        self.at = end
        return chunk

    def number(self, size: int, name: str) -> int:
        return int.from_bytes(self.octets(size, name), "little")

    def event_data(self, start: int) -> bytes:
        size = self.number(4, "event size")
        if size > MAX_EVENT_BYTES:
            found = f"an event of {size} bytes at offset {start}"
            raise EventLogError(found=found, expected=f"at most {MAX_EVENT_BYTES}")
        return self.octets(size, "event data")


def _read_header(reader: Reader) -> dict[int, int] | None:
    """Read a header event; the digest size of each bank in its order, or None before events of the legacy format."""
    pcr, kind = reader.number(4, "header PCR"), reader.number(4, "header event type")
    digest = reader.octets(_SHA1_BYTES, "header digest")
    if kind != EV_NO_ACTION:
        reader.at = 0
        return None
    if pcr != 0 or any(digest):
        raise EventLogError(found=f"a header for PCR {pcr} with digest {digest.hex()}", expected="PCR 0 and zeros")
    inner = Reader(reader.event_data(0))
    signature = inner.octets(len(SPEC_ID), "Spec ID signature")
    if signature != SPEC_ID and signature not in _SPEC_ID_LEGACY:
        raise EventLogError(found=f"signature {signature!r}", expected=f"{SPEC_ID!r}")
    legacy = signature != SPEC_ID
    inner.number(4, "platform class")
    minor, major = inner.number(1, "minor version"), inner.number(1, "major version")
    if (major, minor) not in (((1, 2), (1, 21), (2, 0)) if legacy else ((2, 0),)):
        raise EventLogError(found=f"spec version {major}.{minor}", expected="2.0")
    inner.number(1, "errata")
    uintn = inner.number(1, "uintn size")
    if uintn not in ((0, 1, 2) if legacy else (1, 2)):  # reserved, zero, in the BIOS structure
        raise EventLogError(found=f"uintn size {uintn}", expected="1 or 2")
    sizes = None if legacy else _read_algorithms(inner)
    inner.octets(inner.number(1, "vendor info size"), "vendor info")
    if not inner.at_end:
        raise EventLogError(found=f"more than the {inner.at} bytes of a header", expected="none")
    return sizes


def _read_algorithms(reader: Reader) -> dict[int, int]:
    count = reader.number(4, "number of algorithms")
    if not 1 <= count <= MAX_ALGORITHMS:
        raise EventLogError(found=f"{count} algorithms", expected=f"1..{MAX_ALGORITHMS}")
    sizes: dict[int, int] = {}
    for _ in range(count):
        algorithm, size = reader.number(2, "algorithm"), reader.number(2, "digest size")
        if algorithm in sizes or banks.SIZES.get(algorithm) != size:
            raise EventLogError(
                found=f"algorithm 0x{algorithm:04x} with {size} bytes", expected="known banks, each once"
            )
        sizes[algorithm] = size
    return sizes


def _read_event(reader: Reader, sizes: dict[int, int], number: int, *, agile: bool) -> Record:
    start = reader.at
    pcr, kind = reader.number(4, "PCR"), reader.number(4, "event type")
    if pcr >= PCR_COUNT and (kind != EV_NO_ACTION or pcr != _NO_PCR):
        raise EventLogError(found=f"PCR {pcr} at offset {start}", expected=f"0..{PCR_COUNT - 1}")
    digests = _read_digests(reader, sizes, start) if agile else (reader.octets(_SHA1_BYTES, "digest"),)
    return Record(number, pcr, kind, digests, reader.event_data(start))


def _read_digests(reader: Reader, sizes: dict[int, int], start: int) -> tuple[bytes, ...]:
    count = reader.number(4, "number of digests")
    if count != len(sizes):
        raise EventLogError(found=f"{count} digests at offset {start}", expected=f"{len(sizes)}, one for each bank")
    digests: dict[int, bytes] = {}
    for _ in range(count):
        algorithm = reader.number(2, "digest algorithm")
        if algorithm not in sizes or algorithm in digests:
            raise EventLogError(
                found=f"digest algorithm 0x{algorithm:04x} at offset {start}", expected="each bank once"
            )
        digests[algorithm] = reader.octets(sizes[algorithm], "digest")
    return tuple(digests[algorithm] for algorithm in sizes)


def _no_action(record: Record, before: list[Record], locality: int | None) -> int | None:
    """The rules of EV_NO_ACTION (§10.4.5): digests of zeros, one header, one startup locality; the locality so far.

    The Startup Locality event sets PCR 0's first value, so it must come before PCR 0 is extended, once.
    """
    if any(any(digest) for digest in record.digests):
        raise EventLogError(found=f"EV_NO_ACTION with a digest as event {record.number}", expected="zeros")
    if record.data.startswith(_SPEC_ID_ANY):
        raise EventLogError(found=f"a second header as event {record.number}", expected="one, in front")
    if not record.data.startswith(STARTUP_LOCALITY):
        return locality
    value = record.data[len(STARTUP_LOCALITY) :]
    if len(value) != 1 or value[0] not in _LOCALITIES:
        raise EventLogError(found=f"startup locality {value.hex() or '(none)'}", expected="0, 3 or 4")
    if record.pcr != 0 or locality is not None or any(other.pcr == 0 and other.extends for other in before):
        raise EventLogError(found="a late or second startup locality", expected="one, before PCR 0 is extended")
    return value[0]
