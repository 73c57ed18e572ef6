"""TCG2 event logs, strict: TCG PC Client Platform Firmware Profile rev. 1.05, §10.

A log is one legacy header event (TCG_PCR_EVENT with a SHA-1 field of zeros) that carries the Spec ID structure,
then crypto-agile events (TCG_PCR_EVENT2) with one digest for each bank the header names. Only the SHA-256 bank is
kept. Logs without the header (SHA-1 only, TPM 1.2 style) are refused: SHA-1 vouches for nothing any more.

Replaying gives the PCR values that the log claims; whether the TPM holds them is another check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from attest.boot.errors import EventLogError
from attest.structures import DIGEST_BYTES, PCR_COUNT, extend

MAX_LOG_BYTES: Final = 1024 * 1024  # firmware reserves 64 KiB by default; real ones with large dbx stay below 256
MAX_EVENTS: Final = 4096
MAX_EVENT_BYTES: Final = 256 * 1024  # a dbx variable is the largest event there is
MAX_ALGORITHMS: Final = 8

EV_NO_ACTION: Final = 0x00000003
EV_SEPARATOR: Final = 0x00000004
EV_IPL: Final = 0x0000000D
OWN_PREFIX: Final = b"sits:"  # begins the text of every event that measured boot in software makes

ALG_SHA256: Final = 0x000B
_DIGEST_SIZES: Final = {0x0004: 20, 0x000B: 32, 0x000C: 48, 0x000D: 64, 0x0012: 32}
_DIGEST_SIZES_SHA3: Final = {0x0027: 32, 0x0028: 48, 0x0029: 64}
_SPEC_ID: Final = b"Spec ID Event03\0"
_STARTUP_LOCALITY: Final = b"StartupLocality\0"
_LOCALITIES: Final = (0, 3, 4)  # 3: Startup from locality 3, 4: the H-CRTM (Part 1 §34.2)
_DRTM_PCRS: Final = range(17, 23)  # start as ones until a dynamic launch
_DESCRIPTION_CHARS: Final = 96

EVENT_TYPES: Final = {
    0x00000001: "EV_POST_CODE",
    EV_NO_ACTION: "EV_NO_ACTION",
    EV_SEPARATOR: "EV_SEPARATOR",
    0x00000005: "EV_ACTION",
    0x00000006: "EV_EVENT_TAG",
    0x00000007: "EV_S_CRTM_CONTENTS",
    0x00000008: "EV_S_CRTM_VERSION",
    0x00000009: "EV_CPU_MICROCODE",
    0x0000000A: "EV_PLATFORM_CONFIG_FLAGS",
    0x0000000B: "EV_TABLE_OF_DEVICES",
    0x0000000C: "EV_COMPACT_HASH",
    EV_IPL: "EV_IPL",
    0x0000000E: "EV_IPL_PARTITION_DATA",
    0x80000001: "EV_EFI_VARIABLE_DRIVER_CONFIG",
    0x80000002: "EV_EFI_VARIABLE_BOOT",
    0x80000003: "EV_EFI_BOOT_SERVICES_APPLICATION",
    0x80000004: "EV_EFI_BOOT_SERVICES_DRIVER",
    0x80000005: "EV_EFI_RUNTIME_SERVICES_DRIVER",
    0x80000006: "EV_EFI_GPT_EVENT",
    0x80000007: "EV_EFI_ACTION",
    0x80000008: "EV_EFI_PLATFORM_FIRMWARE_BLOB",
    0x80000009: "EV_EFI_HANDOFF_TABLES",
    0x8000000A: "EV_EFI_PLATFORM_FIRMWARE_BLOB2",
    0x8000000B: "EV_EFI_HANDOFF_TABLES2",
    0x8000000C: "EV_EFI_VARIABLE_BOOT2",
    0x80000010: "EV_EFI_HCRTM_EVENT",
    0x800000E0: "EV_EFI_VARIABLE_AUTHORITY",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One measurement: PCR, event type, SHA-256 digest that was extended, and the data that describes it."""

    pcr: int
    kind: int
    digest: bytes
    data: bytes

    @property
    def extends(self) -> bool:
        """EV_NO_ACTION events inform and extend nothing."""
        return self.kind != EV_NO_ACTION

    def describe(self) -> str:
        """Type and readable data, for people."""
        name = EVENT_TYPES.get(self.kind, f"event type 0x{self.kind:08x}")
        text = _readable(self.data)
        return f"{name} {text!r}" if text else f"{name} ({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class EventLog:
    """A parsed log, without its header event."""

    events: tuple[Event, ...]
    startup_locality: int = 0

    def replay(self) -> dict[int, bytes]:
        """The value of every PCR the log extends, by index."""
        values: dict[int, bytes] = {}
        for event in self.events:
            if event.extends:
                before = values.get(event.pcr, self.initial(event.pcr))
                values[event.pcr] = extend(before, event.digest)
        return values

    def value(self, pcr: int) -> bytes:
        """The value this log claims for one PCR, extended or not."""
        return self.replay().get(pcr, self.initial(pcr))

    def initial(self, pcr: int) -> bytes:
        """A PCR's value after power-up (TPM 2.0 Part 1 §17.2; PC Client profile §3.3)."""
        if pcr == 0:
            return self.startup_locality.to_bytes(DIGEST_BYTES, "big")
        return (b"\xff" if pcr in _DRTM_PCRS else b"\0") * DIGEST_BYTES

    def of(self, pcr: int) -> tuple[Event, ...]:
        """The events that extended one PCR, in order."""
        return tuple(event for event in self.events if event.pcr == pcr and event.extends)

    def misdescribed(self) -> Event | None:
        """The first event of ours (``text_event``) whose text is not what was extended; text is what people read."""
        ours = (event for event in self.events if event.kind == EV_IPL and event.data.startswith(OWN_PREFIX))
        return next((event for event in ours if event.digest != hashlib.sha256(event.data).digest()), None)

    def encode(self) -> bytes:
        """A log with the SHA-256 bank only, that ``parse`` reads back to the same value."""
        out = bytearray(_HEADER)
        if self.startup_locality:
            data = _STARTUP_LOCALITY + bytes([self.startup_locality])
            out += _encode_event(Event(0, EV_NO_ACTION, bytes(DIGEST_BYTES), data))
        for event in self.events:
            out += _encode_event(event)
        return bytes(out)


def text_event(pcr: int, text: str) -> Event:
    """An EV_IPL event of ours: the data is UTF-8 text, the digest is SHA-256 of exactly that data."""
    data = text.encode("utf-8")
    return Event(pcr, EV_IPL, hashlib.sha256(data).digest(), data)


def parse(data: bytes) -> EventLog:
    """Parse a whole log. Any bytes give an ``EventLog`` or an ``EventLogError``."""
    if len(data) > MAX_LOG_BYTES:
        raise EventLogError(found=f"{len(data)} bytes", expected=f"at most {MAX_LOG_BYTES}")
    reader = _Reader(data)
    sizes = _parse_header(reader)
    events: list[Event] = []
    locality = 0
    while not reader.at_end:
        if len(events) >= MAX_EVENTS:
            raise EventLogError(found=f"over {MAX_EVENTS} events", expected=f"at most {MAX_EVENTS}")
        event = _parse_event(reader, sizes)
        if event.kind == EV_NO_ACTION and event.data.startswith(_STARTUP_LOCALITY):
            locality = _locality(event, events, locality)
        else:
            events.append(event)
    return EventLog(tuple(events), locality)


def encode(events: Iterable[Event]) -> bytes:
    """A log of these events."""
    return EventLog(tuple(events)).encode()


class _Reader:
    """Little-endian fields with a bounds check each."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    @property
    def at(self) -> int:
        return self._at

    def octets(self, size: int, name: str) -> bytes:
        end = self._at + size
        if end > len(self._data):
            found = f"{len(self._data) - self._at} bytes at offset {self._at} for {name}"
            raise EventLogError(found=found, expected=f"{size}")
        chunk = self._data[self._at : end]
        self._at = end
        return chunk

    def number(self, size: int, name: str) -> int:
        return int.from_bytes(self.octets(size, name), "little")


def _parse_header(reader: _Reader) -> dict[int, int]:
    """The header event; returns the digest size of each bank, in the order of the header."""
    pcr, kind = reader.number(4, "header PCR"), reader.number(4, "header event type")
    digest = reader.octets(20, "header digest")
    if pcr != 0 or kind != EV_NO_ACTION or any(digest):
        raise EventLogError(
            found=f"a first event of type 0x{kind:08x} on PCR {pcr}", expected="the Spec ID header (EV_NO_ACTION)"
        )
    size = reader.number(4, "header event size")
    start = reader.at
    signature = reader.octets(len(_SPEC_ID), "Spec ID signature")
    if signature != _SPEC_ID:
        raise EventLogError(found=f"signature {signature!r}", expected=f"{_SPEC_ID!r}")
    reader.number(4, "platform class")
    minor, major = reader.number(1, "minor version"), reader.number(1, "major version")
    if (major, minor) != (2, 0):
        raise EventLogError(found=f"spec version {major}.{minor}", expected="2.0")
    reader.number(1, "errata")
    if reader.number(1, "uintn size") not in (1, 2):
        raise EventLogError(found="another uintn size", expected="1 or 2")
    sizes = _parse_algorithms(reader)
    reader.octets(reader.number(1, "vendor info size"), "vendor info")
    if reader.at - start != size:
        raise EventLogError(found=f"a header of {reader.at - start} bytes", expected=f"{size} as declared")
    return sizes


def _parse_algorithms(reader: _Reader) -> dict[int, int]:
    count = reader.number(4, "number of algorithms")
    if not 1 <= count <= MAX_ALGORITHMS:
        raise EventLogError(found=f"{count} algorithms", expected=f"1..{MAX_ALGORITHMS}")
    sizes: dict[int, int] = {}
    for _ in range(count):
        algorithm, size = reader.number(2, "algorithm"), reader.number(2, "digest size")
        known = _DIGEST_SIZES.get(algorithm) or _DIGEST_SIZES_SHA3.get(algorithm)
        if algorithm in sizes or known != size:
            raise EventLogError(
                found=f"algorithm 0x{algorithm:04x} with {size} bytes", expected="known banks, each once"
            )
        sizes[algorithm] = size
    if ALG_SHA256 not in sizes:
        raise EventLogError(found="no SHA-256 bank", expected="one")
    return sizes


def _parse_event(reader: _Reader, sizes: dict[int, int]) -> Event:
    start = reader.at
    pcr, kind = reader.number(4, "PCR"), reader.number(4, "event type")
    if pcr >= PCR_COUNT and kind != EV_NO_ACTION:
        raise EventLogError(found=f"PCR {pcr} at offset {start}", expected=f"0..{PCR_COUNT - 1}")
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
    size = reader.number(4, "event size")
    if size > MAX_EVENT_BYTES:
        raise EventLogError(found=f"an event of {size} bytes at offset {start}", expected=f"at most {MAX_EVENT_BYTES}")
    return Event(pcr, kind, digests[ALG_SHA256], reader.octets(size, "event data"))


def _locality(event: Event, before: list[Event], earlier: int) -> int:
    """The Startup Locality event sets PCR 0's first value, so it must come before PCR 0 is extended, once."""
    locality = event.data[len(_STARTUP_LOCALITY) :]
    if len(locality) != 1 or locality[0] not in _LOCALITIES:
        raise EventLogError(found=f"startup locality {locality.hex() or '(none)'}", expected="0, 3 or 4")
    if event.pcr != 0 or earlier or any(other.pcr == 0 and other.extends for other in before):
        raise EventLogError(found="a late or second startup locality", expected="one, before PCR 0 is extended")
    return locality[0]


def _encode_event(event: Event) -> bytes:
    head = event.pcr.to_bytes(4, "little") + event.kind.to_bytes(4, "little") + (1).to_bytes(4, "little")
    digest = ALG_SHA256.to_bytes(2, "little") + event.digest
    return head + digest + len(event.data).to_bytes(4, "little") + event.data


def _spec_id_header() -> bytes:
    bank = ALG_SHA256.to_bytes(2, "little") + DIGEST_BYTES.to_bytes(2, "little")
    data = _SPEC_ID + bytes(4) + bytes([0, 2, 0, 2]) + (1).to_bytes(4, "little") + bank + b"\0"
    head = bytes(4) + EV_NO_ACTION.to_bytes(4, "little") + bytes(20)
    return head + len(data).to_bytes(4, "little") + data


_HEADER: Final = _spec_id_header()


def _readable(data: bytes) -> str:
    for encoding in ("utf-8", "utf-16-le"):
        try:
            text = data.decode(encoding).rstrip("\0")
        except UnicodeDecodeError:
            continue
        if text and text.isprintable():
            return text[:_DESCRIPTION_CHARS]
    return ""
