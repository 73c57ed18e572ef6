"""Durable, atomic writing: temporary name, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sitsedge.modules.errors import StoreError


def sync_folder(path: Path) -> None:
    """fsync a folder, so that a rename inside it survives a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Create ``path``, mode 0644, to be written piece by piece and synced at the end; the caller syncs the folder."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with os.fdopen(handle, "wb") as file:
        yield file
        file.flush()
        os.fsync(handle)


def write_file(path: Path, data: bytes) -> None:
    """Create ``path`` with ``data``, mode 0644, synced; the caller syncs the folder."""
    with new_file(path) as file:
        file.write(data)


def link_or_copy(source: Path, target: Path) -> None:
    """Make ``target`` another name of the file ``source``, or a synced copy where the file system has no such links.

    Files of the store are never written to, so a name more is as good as a copy and goes with its own folder.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        with new_file(target) as file, source.open("rb") as data:
            shutil.copyfileobj(data, file)


def replace_file(path: Path, data: bytes) -> None:
    """Replace ``path`` so that a reader or a power cut sees the old or the new content, never a mixture."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    write_file(temporary, data)
    temporary.rename(path)
    sync_folder(path.parent)


def write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    """Create the folder ``path`` with ``contents`` (relative name → bytes): all of it or nothing.

    Raises ``StoreError`` (``output-exists``) when ``path`` exists.
    """
    if os.path.lexists(path):
        raise StoreError("output-exists", found=str(path), expected="a new folder", hint="remove it or choose another")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        folders = {temporary}
        for name, data in contents.items():
            target = temporary / name
            target.parent.mkdir(parents=True, exist_ok=True)
            write_file(target, data)
            folders |= {parent for parent in target.parents if parent.is_relative_to(temporary)}
        for folder in sorted(folders, key=lambda f: len(f.parts), reverse=True):
            sync_folder(folder)
        temporary.chmod(0o755)
        temporary.rename(path)
        sync_folder(path.parent)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
