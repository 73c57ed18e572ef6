"""The identity object (class 1) and what its status says of a Logix controller's mode and faults.

Attributes: CIP Networks Library, volume 1, 5A-2. Key switch and mode: Rockwell 1756-RM003, "Status" of the
CONTROLLERDEVICE object, whose word the identity object repeats.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fieldbus.cip.errors import CipError
from fieldbus.cursor import Cursor


class Mode(StrEnum):
    """What a controller does. ``UNKNOWN`` where its status says nothing certain."""

    RUN = "run"
    PROGRAM = "program"
    FAULTED = "faulted"
    UNKNOWN = "unknown"


class KeySwitch(StrEnum):
    """Position of a controller's key switch."""

    RUN = "run"
    PROGRAM = "program"
    REMOTE = "remote"
    UNKNOWN = "unknown"


_EXTENDED_RUN, _EXTENDED_PROGRAM, _EXTENDED_MAJOR = 6, 7, 5
_KEYS = {1: KeySwitch.RUN, 2: KeySwitch.PROGRAM, 3: KeySwitch.REMOTE}


@dataclass(frozen=True, slots=True)
class Identity:
    """Attributes 1 to 7; ``extra`` keeps what a device adds to "get attributes all" (state and later ones)."""

    vendor: int
    device_type: int
    product: int
    major: int
    minor: int
    status: int
    serial: int
    name: str
    extra: bytes = b""

    @property
    def mode(self) -> Mode:
        """Mode by extended device status (bits 4-7) and major faults."""
        extended = self.status >> 4 & 15
        if extended == _EXTENDED_MAJOR or self.major_fault:
            return Mode.FAULTED
        return {_EXTENDED_RUN: Mode.RUN, _EXTENDED_PROGRAM: Mode.PROGRAM}.get(extended, Mode.UNKNOWN)

    @property
    def key_switch(self) -> KeySwitch:
        """Key switch by bits 12-13; only Logix controllers give them a meaning."""
        return _KEYS.get(self.status >> 12 & 3, KeySwitch.UNKNOWN)

    @property
    def minor_fault(self) -> bool:
        """Bits 8 and 9: a minor fault, recoverable or not."""
        return bool(self.status & 0x0300)

    @property
    def major_fault(self) -> bool:
        """Bits 10 and 11: a major fault, recoverable or not."""
        return bool(self.status & 0x0C00)


@dataclass(frozen=True, slots=True)
class ListedIdentity:
    """An identity item: the identity, the device's socket address as sent, its state."""

    version: int
    socket: bytes
    identity: Identity
    state: int


def decode_identity(data: bytes) -> Identity:
    """The answer to "get attributes all". Raises CipError ``truncated``, ``identity-name``."""
    cursor = Cursor(data, CipError, "little")
    return _with(_fields(cursor), cursor.rest())


def _with(identity: Identity, extra: bytes) -> Identity:
    head = (identity.vendor, identity.device_type, identity.product, identity.major, identity.minor)
    return Identity(*head, identity.status, identity.serial, identity.name, extra)


def _fields(cursor: Cursor) -> Identity:
    numbers = cursor.u16("vendor"), cursor.u16("device type"), cursor.u16("product code")
    revision = cursor.u8("major revision"), cursor.u8("minor revision")
    status, serial = cursor.u16("status"), cursor.u32("serial number")
    raw = cursor.raw(cursor.u8("length of name"), "product name")
    if not raw.isascii() or not raw.decode("ascii").isprintable():
        raise CipError("identity-name", found=raw.hex(), expected="printable ASCII")
    return Identity(*numbers, *revision, status, serial, raw.decode("ascii"))


def encode_identity(identity: Identity) -> bytes:
    """The bytes of "get attributes all"; raises OverflowError where a number does not fit."""
    numbers = (identity.vendor, identity.device_type, identity.product)
    name = identity.name.encode("ascii", "replace")
    head = b"".join(number.to_bytes(2, "little") for number in numbers) + bytes((identity.major, identity.minor))
    head += identity.status.to_bytes(2, "little") + identity.serial.to_bytes(4, "little")
    return head + len(name).to_bytes(1, "little") + name + identity.extra


def decode_listed(data: bytes) -> ListedIdentity:
    """One identity item of list identity."""
    cursor = Cursor(data, CipError, "little")
    version, socket = cursor.u16("version"), cursor.raw(16, "socket address")
    identity = _fields(cursor)
    state = cursor.u8("state")
    cursor.done("identity item")
    return ListedIdentity(version, socket, identity, state)


def encode_listed(item: ListedIdentity) -> bytes:
    """The bytes of an identity item."""
    return item.version.to_bytes(2, "little") + item.socket + encode_identity(item.identity) + bytes((item.state,))
