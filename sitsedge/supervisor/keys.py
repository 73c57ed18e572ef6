"""Long-lived keys of a deployment: publisher, boot policy, gate. Ed25519 in PEM files of mode 0600."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from attest.command import GateKey
from sitsedge.errors import SitsError

KEY_BYTES_MAX = 4096


class KeyFileError(SitsError):
    """A key file that is missing or of another kind; code ``key-file``."""


def read_public(path: Path) -> bytes:
    """The 32 raw bytes of an Ed25519 public key in a PEM file. Raises :class:`KeyFileError`."""
    try:
        key = load_pem_public_key(path.read_bytes()[:KEY_BYTES_MAX])
    except (OSError, ValueError) as error:
        found = f"{path.name}: {getattr(error, 'strerror', None) or 'no PEM public key'}"
        raise KeyFileError("key-file", found=found, expected="a PEM public key") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError("key-file", found=f"{path.name}: {type(key).__name__}", expected="an Ed25519 public key")
    return key.public_bytes_raw()


def write_public(public: bytes, path: Path) -> None:
    """Write a raw Ed25519 public key as PEM."""
    key = Ed25519PublicKey.from_public_bytes(public)
    path.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def ensure_key(private: Path, public: Path, *, may_create: bool, what: str) -> GateKey:
    """Load a key, or make it where the profile allows; its public half is (re)written beside the trust anchors.

    Raises :class:`KeyFileError` when it is missing and may not be made here.
    """
    if not private.exists():
        if not may_create:
            raise KeyFileError(
                "key-file",
                found=f"no {private.name}",
                expected=f"the {what} key",
                hint="a production profile never makes its own keys: install it with mode 0600",
            )
        GateKey.create(private)
    key = GateKey.load(private)
    write_public(key.public, public)
    return key


def authority(private: Path, public: Path, *, development: bool, what: str) -> tuple[bytes, GateKey | None]:
    """The public key of a plant's authority, and the private one where a development profile keeps it here.

    A production device holds no key that could approve itself: its public key is installed, the private one stays with
    the people. Raises :class:`KeyFileError`.
    """
    if development:
        key = ensure_key(private, public, may_create=True, what=what)
        return key.public, key
    if private.exists():
        raise KeyFileError(
            "key-file",
            found=f"{private.name} on a device in production",
            expected=f"only the public key {public.name}",
            hint=f"keep the {what} key with the people who sign; remove it here",
        )
    if not public.exists():
        raise KeyFileError(
            "key-file",
            found=f"no {public.name}",
            expected=f"the {what} public key",
            hint="a production profile never makes its own keys: install the plant's public key",
        )
    return read_public(public), None


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key object itself, for the bundle signer. :func:`ensure_key` has checked the file."""
    key = load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(key, Ed25519PrivateKey)
    return key
