"""Boot event logs, strict: one bank of a log as a chain of measurements (TCG PC Client Platform Firmware Profile).

``parse`` takes logs with a SHA-256 bank, which is what quotes and policies are about; ``view`` gives any other bank of
a log that ``logformat.read`` took. SHA-1 logs can be read and explained; no policy can be met with one.

Replaying gives the PCR values that the log claims; whether the TPM holds them is another check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from attest.boot import banks, logformat, meaning
from attest.boot.errors import EventLogError
from attest.boot.event_types import (
    EV_EFI_HCRTM_EVENT,
    EV_IPL,
    EV_NO_ACTION,
    EV_SEPARATOR,
    EVENT_TYPES,
    type_name,
)
from attest.boot.logformat import MAX_EVENT_BYTES, MAX_EVENTS, MAX_LOG_BYTES, SPEC_ID, STARTUP_LOCALITY, FullLog
from attest.structures import DIGEST_BYTES

__all__ = [
    "EVENT_TYPES",
    "EV_IPL",
    "EV_NO_ACTION",
    "EV_SEPARATOR",
    "MAX_EVENTS",
    "MAX_EVENT_BYTES",
    "MAX_LOG_BYTES",
    "Event",
    "EventLog",
    "encode",
    "parse",
    "text_event",
    "view",
]

OWN_PREFIX: Final = meaning.OWN_PREFIX  # begins the text of every event that measured boot in software makes
ALG_SHA256: Final = banks.SHA256
_H_CRTM_LOCALITY: Final = 4


@dataclass(frozen=True, slots=True)
class Event:
    """One measurement: PCR, event type, the digest that was extended, and the data that describes it."""

    pcr: int
    kind: int
    digest: bytes
    data: bytes
    bank: int = banks.SHA256

    @property
    def extends(self) -> bool:
        """EV_NO_ACTION events inform and extend nothing."""
        return self.kind != EV_NO_ACTION

    @property
    def measured(self) -> bool | None:
        """Whether the data is what was extended: yes, no although the profile demands it, or None: something else."""
        return meaning.is_measured(self.pcr, self.kind, self.data, digest=self.digest, bank=self.bank)

    def describe(self) -> str:
        """Type and readable data, for people."""
        name = type_name(self.kind)
        text = meaning.describe(self.pcr, self.kind, self.data)
        return f"{name} {text}" if text else f"{name} ({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class EventLog:
    """One bank of a parsed log, without its header event."""

    events: tuple[Event, ...]
    startup_locality: int = 0
    bank: int = banks.SHA256

    def replay(self) -> dict[int, bytes]:
        """The value of every PCR the log extends, by index."""
        values: dict[int, bytes] = {}
        for event in self.events:
            if event.extends:
                before = values.get(event.pcr, self.initial(event.pcr))
                values[event.pcr] = banks.extend(self.bank, before, event.digest)
        return values

    def value(self, pcr: int) -> bytes:
        """The value this log claims for one PCR, extended or not."""
        return self.replay().get(pcr, self.initial(pcr))

    def initial(self, pcr: int) -> bytes:
        """A PCR's value after power-up; PCR 0's tells who started the TPM, an H-CRTM's event does so as well."""
        locality = self.startup_locality
        if pcr == 0 and locality == 0:
            first = next((event for event in self.events if event.pcr == 0 and event.extends), None)
            locality = _H_CRTM_LOCALITY if first is not None and first.kind == EV_EFI_HCRTM_EVENT else 0
        return banks.first_value(self.bank, pcr, locality=locality)

    def of(self, pcr: int) -> tuple[Event, ...]:
        """The events that extended one PCR, in order."""
        return tuple(event for event in self.events if event.pcr == pcr and event.extends)

    def misdescribed(self) -> Event | None:
        """The first event whose data is not what was extended, though it should be; data is what people read."""
        return next((event for event in self.events if event.extends and event.measured is False), None)

    def encode(self) -> bytes:
        """A log with the SHA-256 bank only, that ``parse`` reads back to the same value."""
        if self.bank != banks.SHA256:
            raise EventLogError(found=f"the bank {banks.NAMES[self.bank]}", expected="SHA-256")
        out = bytearray(_HEADER)
        if self.startup_locality:
            data = STARTUP_LOCALITY + bytes([self.startup_locality])
            out += _encode_event(Event(0, EV_NO_ACTION, bytes(DIGEST_BYTES), data))
        for event in self.events:
            out += _encode_event(event)
        return bytes(out)


def text_event(pcr: int, text: str) -> Event:
    """An EV_IPL event of ours: the data is UTF-8 text, the digest is SHA-256 of exactly that data."""
    data = text.encode("utf-8")
    return Event(pcr, EV_IPL, hashlib.sha256(data).digest(), data)


def parse(data: bytes) -> EventLog:
    """The SHA-256 bank of a whole log. Any bytes give an ``EventLog`` or an ``EventLogError``."""
    return view(logformat.read(data), banks.SHA256)


def view(log: FullLog, bank: int) -> EventLog:
    """One bank of a log. Raises ``EventLogError`` where the log has not this bank."""
    if bank not in log.banks:
        found = ", ".join(banks.NAMES[name] for name in log.banks)
        raise EventLogError(
            found=f"a log of the banks {found}", expected=f"the bank {banks.NAMES.get(bank, hex(bank))}"
        )
    position = log.banks.index(bank)
    events = tuple(
        Event(record.pcr, record.kind, record.digests[position], record.data, bank)
        for record in log.records
        if record.extends or not record.data.startswith(STARTUP_LOCALITY)
    )
    return EventLog(events, log.startup_locality, bank)


def encode(events: Iterable[Event]) -> bytes:
    """A log of these events."""
    return EventLog(tuple(events)).encode()


def _encode_event(event: Event) -> bytes:
    head = event.pcr.to_bytes(4, "little") + event.kind.to_bytes(4, "little") + (1).to_bytes(4, "little")
    digest = banks.SHA256.to_bytes(2, "little") + event.digest
    return head + digest + len(event.data).to_bytes(4, "little") + event.data


def _spec_id_header() -> bytes:
    bank = banks.SHA256.to_bytes(2, "little") + DIGEST_BYTES.to_bytes(2, "little")
    data = SPEC_ID + bytes(4) + bytes([0, 2, 0, 2]) + (1).to_bytes(4, "little") + bank + b"\0"
    head = bytes(4) + EV_NO_ACTION.to_bytes(4, "little") + bytes(20)
    return head + len(data).to_bytes(4, "little") + data


_HEADER: Final = _spec_id_header()
