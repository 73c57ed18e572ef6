"""Ed25519 keys: the session key that lives in memory, and key files for gate and policy."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from attest import cose
from attest.command.errors import CommandError

_KEY_FILE_BYTES_MAX: Final = 4096  # a PKCS #8 PEM of Ed25519 has 119
_KEY_FILE_MODE: Final = 0o600


class SessionKey:
    """An Ed25519 key (RFC 8032) that exists only in this process's memory, one per epoch.

    ``public`` is the raw 32-byte key and ``kid`` its SHA-256. ``erase`` drops the only reference to the
    private key, so that OpenSSL clears and frees it; signing afterwards raises ``CommandError``.
    """

    __slots__ = ("_private", "kid", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private: Ed25519PrivateKey | None = private
        self.public: bytes = private.public_key().public_bytes_raw()
        self.kid: bytes = cose.key_id(self.public)

    @classmethod
    def generate(cls) -> SessionKey:
        """A fresh key from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate())

    def sign(self, data: bytes, /) -> bytes:
        """64 bytes of Ed25519 signature over ``data``."""
        if self._private is None:
            raise CommandError("key-erased", found="a key that was erased", expected="a live session key")
        return self._private.sign(data)

    def erase(self) -> None:
        """Forget the private key; idempotent."""
        self._private = None

    def __repr__(self) -> str:
        return f"SessionKey(kid={self.kid.hex()[:16]})"


class GateKey(SessionKey):
    """An Ed25519 key kept in a PKCS #8 PEM file that only its owner may read."""

    __slots__ = ()

    @classmethod
    def create(cls, path: Path) -> GateKey:
        """Generate a key and write it to a new file with mode 0600; never overwrites."""
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _KEY_FILE_MODE)
        except OSError as error:
            raise _file_error(path, str(error.strerror), "a new file in a writable folder") from error
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(pem)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # Half a key would be taken for a damaged one from now on.
            path.unlink(missing_ok=True)
            raise
        return cls(key)

    @classmethod
    def load(cls, path: Path) -> GateKey:
        """Read a key file; refuses one that others can read, links, and other key types."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                pem = file.read(_KEY_FILE_BYTES_MAX + 1)
        except OSError as error:
            raise _file_error(path, str(error.strerror), "a readable key file") from error
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077:
            mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
            raise _file_error(path, mode, "a regular file of mode 0600", hint="chmod 600 it")
        if len(pem) > _KEY_FILE_BYTES_MAX:
            raise _file_error(path, f"over {_KEY_FILE_BYTES_MAX} bytes", "a PKCS #8 PEM")
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise _file_error(path, "no unencrypted PKCS #8 PEM", "an Ed25519 private key") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise _file_error(path, type(key).__name__, "an Ed25519 private key")
        return cls(key)


def _file_error(path: Path, found: str, expected: str, *, hint: str = "") -> CommandError:
    return CommandError("key-file", found=f"{path}: {found}", expected=expected, hint=hint)
