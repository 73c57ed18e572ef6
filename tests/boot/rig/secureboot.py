"""Secure Boot keys of our own, put straight into the firmware's variable store, as a factory would.

The store is EDK II's: a firmware volume that holds a variable store header and variables with time-based
authentication (MdeModulePkg, Include/Guid/VariableFormat.h). With a PK in it the firmware is in user mode and Secure
Boot is on from the first boot.
"""

from __future__ import annotations

import datetime
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from attest.boot.event_types import EV_EFI_BOOT_SERVICES_APPLICATION
from attest.boot.eventlog import EventLog

_STORE: Final = UUID("aaf32c78-947b-439a-a180-2e144ec37792").bytes_le  # gEfiAuthenticatedVariableGuid
_STORE_HEADER_BYTES: Final = 28
_GLOBAL: Final = UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c")
_IMAGE_SECURITY: Final = UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")
_X509: Final = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
_OWNER: Final = UUID("5e7b2a06-0f6d-4a52-8f0d-51f5b007519e")  # ours: the rig's
_ATTRIBUTES: Final = 0x27  # non-volatile, boot services, run time, time-based authenticated
_ADDED: Final = 0x3F
_TIME: Final = struct.pack("<HBBBBBBIhBB", 2026, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)
_YEARS: Final = datetime.timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Key:
    """A signing key as the files that sbsign takes, and its certificate."""

    key: Path
    certificate: Path
    der: bytes


def make_key(name: str, folder: Path) -> Key:
    """A fresh RSA-2048 key with a self-signed certificate."""
    folder.mkdir(parents=True, exist_ok=True)
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(private.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start).not_valid_after(start + _YEARS)
    certificate = builder.sign(private, hashes.SHA256())
    key, public = folder / f"{name}.key", folder / f"{name}.pem"
    key.touch(mode=0o600)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(certificate.public_bytes(Encoding.PEM))
    return Key(key, public, certificate.public_bytes(Encoding.DER))


def emptied(store: bytes) -> bytes:
    """A formatted variable store without the variables in it."""
    start = store.index(_STORE)
    size = int.from_bytes(store[start + len(_STORE) : start + len(_STORE) + 4], "little")
    return store[: start + _STORE_HEADER_BYTES] + b"\xff" * (size - _STORE_HEADER_BYTES) + store[start + size :]


def enrol(store: bytes, *, platform: Key, exchange: Key, signing: Key) -> bytes:
    """An empty variable store with PK, KEK and db: Secure Boot on, only images signed by ``signing`` start."""
    start = store.index(_STORE)
    at = start + _STORE_HEADER_BYTES
    variables = b"".join(
        _variable(name, guid, key.der)
        for name, guid, key in (
            ("PK", _GLOBAL, platform),
            ("KEK", _GLOBAL, exchange),
            ("db", _IMAGE_SECURITY, signing),
        )
    )
    assert store[at : at + len(variables)] == b"\xff" * len(variables), "the store is not empty"
    return store[:at] + variables + store[at + len(variables) :]


def _variable(name: str, guid: UUID, certificate: bytes) -> bytes:
    text = (name + "\0").encode("utf-16-le")
    data = _signature_list(certificate)
    head = struct.pack("<HBBIQ", 0x55AA, _ADDED, 0, _ATTRIBUTES, 0) + _TIME
    head += struct.pack("<III", 0, len(text), len(data)) + guid.bytes_le
    variable = head + text + data
    return variable + b"\xff" * (-len(variable) % 4)


def _signature_list(certificate: bytes) -> bytes:
    size = 16 + len(certificate)
    return _X509.bytes_le + struct.pack("<III", 28 + size, 0, size) + _OWNER.bytes_le + certificate


def device_path_of(log: EventLog) -> bytes:
    """Where a boot loaded its first program from, as a device path."""
    event = next(event for event in log.of(4) if event.kind == EV_EFI_BOOT_SERVICES_APPLICATION)
    return event.data[32:]  # behind UEFI_IMAGE_LOAD_EVENT's four numbers


def add_boot_entry(store: bytes, *, path: bytes, options: str) -> bytes:
    """An empty variable store with one boot entry, first in the order, that passes a command line."""
    text = "rig\0".encode("utf-16-le")
    entry = struct.pack("<IH", 1, len(path)) + text + path + (options + "\0").encode("utf-16-le")
    at = store.index(_STORE) + _STORE_HEADER_BYTES
    variables = _plain_variable("Boot0007", entry) + _plain_variable("BootOrder", struct.pack("<H", 7))
    return store[:at] + variables + store[at + len(variables) :]


def _plain_variable(name: str, data: bytes) -> bytes:
    text = (name + "\0").encode("utf-16-le")
    head = struct.pack("<HBBIQ", 0x55AA, _ADDED, 0, 0x07, 0) + bytes(16)
    head += struct.pack("<III", 0, len(text), len(data)) + _GLOBAL.bytes_le
    variable = head + text + data
    return variable + b"\xff" * (-len(variable) % 4)
