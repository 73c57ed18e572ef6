"""The policy authority's P-256 key in files: it approves boot states (``approval``). No TPM needed.

It is another key than the plant's policy key, which is Ed25519: no TPM verifies that.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from attest.tpm.approval import authority_point
from attest.tpm.errors import SealError

_MODE: Final = 0o600
_MAX_BYTES: Final = 4096  # a PKCS #8 PEM of a P-256 key has 241


def create_authority(path: Path) -> ec.EllipticCurvePrivateKey:
    """A new key in a new file of mode 0600. Raises ``SealError`` (``seal-key-file``); never overwrites."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _fault(path, str(error.strerror), "a new file in a writable folder") from error
    return key


def load_authority(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key in a file that only its owner may read. Raises ``SealError`` (``seal-key-file``)."""
    pem, mode = _read(path)
    if mode & 0o077:
        raise _fault(path, f"mode {mode:04o}", "mode 0600", hint="chmod 600 it")
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise _fault(path, "no unencrypted PKCS #8 PEM", "a P-256 private key") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _fault(path, "another kind of key", "a P-256 private key")
    return key


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """What devices get: SubjectPublicKeyInfo, PEM."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def load_authority_point(path: Path) -> bytes:
    """x ‖ y of a public key file. Raises ``SealError`` (``seal-key-file``, ``seal-authority``)."""
    try:
        key = load_pem_public_key(_read(path)[0])
    except ValueError as error:
        raise _fault(path, "no public key PEM", "a P-256 public key") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise _fault(path, "another kind of key", "a P-256 public key")
    return authority_point(key)


def _read(path: Path) -> tuple[bytes, int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _fault(path, "no regular file", "a key file")
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise _fault(path, str(error.strerror), "a readable key file") from error
    if len(data) > _MAX_BYTES:
        raise _fault(path, f"over {_MAX_BYTES} bytes", "a PEM")
    return data, stat.S_IMODE(status.st_mode)


def _fault(path: Path, found: str, expected: str, *, hint: str = "") -> SealError:
    return SealError("seal-key-file", found=f"{path}: {found}", expected=expected, hint=hint)
