"""Small files that commands read and write: bounded, named in errors, never overwritten by accident."""

from __future__ import annotations

import os
from pathlib import Path

from attest.files import FileError, named


def read_at_most(path: Path, high: int) -> bytes:
    """The whole file. Raises ``FileError``, also (``file-size``) where it has more than ``high`` bytes."""
    with named(path), path.open("rb") as stream:
        data = stream.read(high + 1)
    if len(data) > high:
        raise FileError("file-size", found=f"{path}: more than {high} bytes", expected=f"at most {high}")
    return data


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
