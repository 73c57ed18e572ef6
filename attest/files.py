"""Faults of the operating system as typed errors that name the file, for commands whose files people move around."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attest.errors import AttestError

MISSING: Final = "file-missing"
KIND: Final = "file-kind"
EXISTS: Final = "file-exists"
FULL: Final = "disk-full"
OTHER: Final = "file"
ADVICE: Final = {
    MISSING: ("a file that is there", "check the path"),
    KIND: ("a file, not a folder", "check the path"),
    EXISTS: ("a new file", "give another name, or move the old file away"),
    FULL: ("free space", "free space there or write elsewhere with another path; what was there before is unchanged"),
    OTHER: ("files that can be read and made", "check permissions and the medium"),
}
"""What is expected and what to do, by code. ``disk-full`` and ``file`` are the environment's faults, others usage."""

_CODES: Final = {
    errno.ENOENT: MISSING,
    errno.EISDIR: KIND,
    errno.ENOTDIR: KIND,
    errno.EEXIST: EXISTS,
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
}
_MIB: Final = 1 << 20


class FileError(AttestError):
    """Codes: ``file-missing``, ``file-kind`` (a folder for a file), ``file-exists``, ``disk-full``, ``file``."""


def no_space(path: Path, needed: int | None = None) -> tuple[str, str]:
    """Found and expected of a full disk at ``path``; ``needed`` in bytes where it is known."""
    found = f"{path}: no space left"
    with suppress(OSError):  # the fault is the full disk; how much is free is told where the system says it
        found += f" ({_size(shutil.disk_usage(path.parent).free)} free)"
    return found, "free space" if needed is None else f"about {_size(needed)} free"


@contextmanager
def named(path: Path, error: type[AttestError] = FileError, needed: int | None = None) -> Iterator[None]:
    """Turns an OSError into ``error``, naming the file it came with or else ``path``."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise typed(fault, path, error, needed) from fault


def typed(fault: OSError, path: Path, error: type[AttestError] = FileError, needed: int | None = None) -> AttestError:
    """``fault`` as a typed error."""
    code = _CODES.get(fault.errno or 0, OTHER)
    expected, hint = ADVICE[code]
    where = Path(fault.filename) if isinstance(fault.filename, str) else path
    found = f"{where}: {fault.strerror or fault}"
    if code == FULL:
        found, expected = no_space(path, needed)
    return error(code, found=found, expected=expected, hint=hint)


def require(path: Path, *, folder: bool = False) -> None:
    """``path`` is a file, or a ``folder``. Raises :class:`FileError` ``file-missing``, ``file-kind``, ``file``."""
    with named(path):
        path.stat()
    if path.is_dir() is not folder:
        wanted = "a folder" if folder else "a file"
        raise FileError(KIND, found=f"{path}: not {wanted}", expected=wanted, hint="check the path")


def wrong_use(error: FileError) -> dict[str, object]:
    """What ``python -m attest.…`` prints of a path that is not what it was given as, with exit code 2."""
    return {"ok": False, "failed": error.code, "found": error.found, "expected": error.expected}


def _size(count: int) -> str:
    return f"{count} bytes" if count < _MIB else f"{count / _MIB:.1f} MiB"
