"""How a ceremony's files appear: complete or not at all, never over another, and one contribution at a time."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attest.files import EXISTS, typed
from attest.proof.ceremony_errors import CeremonyError, native_errors

_TOKEN_BYTES = 4
"""Two processes that make one file must not share the name they make it under."""


def place(out: Path, write: Callable[[Path], None], *, replace: bool = False, needed: int | None = None) -> None:
    """``out`` appears complete or not at all; an existing one is left alone unless ``replace``.

    ``needed``: its size, as far as known. Raises :class:`CeremonyError`, every fault naming ``out``.
    """
    if not replace and out.exists():
        raise _exists(out)
    part = out.with_name(f"{out.name}.{secrets.token_hex(_TOKEN_BYTES)}.part")
    try:
        with native_errors(part, out, needed):
            write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        if replace:
            part.replace(out)
        else:
            _publish(part, out)
    except OSError as fault:
        fault.filename = None  # whatever name it carries is the part's
        raise typed(fault, out, CeremonyError, needed) from fault
    finally:
        part.unlink(missing_ok=True)


def _publish(part: Path, out: Path) -> None:
    """``out`` becomes ``part``, unless somebody made it in the meantime."""
    try:
        os.link(part, out)
    except FileExistsError:
        raise _exists(out) from None
    except OSError:  # A medium without hard links (FAT): the name is taken first, then filled.
        os.close(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        part.replace(out)


def _exists(out: Path) -> CeremonyError:
    return CeremonyError(
        EXISTS, found=f"{out} exists", expected="a new file", hint="give another name, or move the old file away"
    )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One change of ``path`` in place at a time: a second one, which would be lost or lose the first, is refused.

    Held by ``flock`` on the file itself, which ends with its process. A file that was replaced between opening and
    locking is opened again. Raises :class:`CeremonyError` ``file-busy``, and OSError.
    """
    while True:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CeremonyError(
                    "file-busy",
                    found=f"{path}: another contribution to it is being made",
                    expected="one contribution at a time",
                    hint="contribute again when that one is done",
                ) from error
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                yield
                return
