"""Small files that commands read and write: bounded, named in errors, never overwritten by accident."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attest.cose import CoseError
from attest.files import FileError, named

HINTS = {
    "cose-format": "this is no signed file of SITS Edge, or only a part of one: check the path, copy it again",
    "cose-content-type": "this is a signed file of another kind: check the path",
    "cose-kid": "another key signed it: take the file or the public key that belongs to this plant",
    "cose-signature": "the file was changed after it was signed: take it from whoever signed it",
}
"""What to do, by code."""


def read_bounded(path: Path, high: int) -> bytes:
    """At most ``high`` + 1 bytes of a file, so that a parser can refuse what is larger. Raises ``FileError``."""
    with named(path), path.open("rb") as stream:
        return stream.read(high + 1)


def read_at_most(path: Path, high: int) -> bytes:
    """The whole file. Raises ``FileError``, also (``file-size``) where it has more than ``high`` bytes."""
    data = read_bounded(path, high)
    if len(data) > high:
        raise FileError("file-size", found=f"{path}: more than {high} bytes", expected=f"at most {high}")
    return data


@contextmanager
def signed_file(path: Path) -> Iterator[None]:
    """Names the file in what is wrong with the signed message it should hold. Raises ``CoseError``, same code."""
    try:
        yield
    except CoseError as error:
        hint = error.hint or HINTS.get(error.code, "give the file as it was signed")
        raise CoseError(error.code, found=f"{path}: {error.found}", expected=error.expected, hint=hint) from error


def put(path: Path, data: bytes) -> None:
    """Write a new file, readable by this user only. Raises ``FileError`` (``file-exists``, …); nothing half is left."""
    with named(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise


def replace(path: Path, data: bytes) -> None:
    """Write a file anew, at once: afterwards it is the old one or the new one. Raises ``FileError``."""
    beside = path.with_name(f".{path.name}.new")
    with named(path):
        beside.unlink(missing_ok=True)
    put(beside, data)
    with named(path):
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
