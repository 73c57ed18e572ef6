"""Compiled machine code on disk, bound to the digest of its source, the wasmtime version and the configuration.

A cache file is native code, so it is only read from a folder that nobody else can write, never through a
link, and only when its header names exactly this module and configuration and its payload has the digest
the header says. Anything else is ignored and compiled again; wasmtime itself checks version and CPU features.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from sitsedge.sandbox.errors import SandboxError

_MAGIC = b"SITSCWA1"
CODE_BYTES_MAX = 256 << 20
"""Largest cache file read: about ten times the machine code of the largest module accepted."""


class CodeCache:
    """Cache folder ``directory``, created with mode 0700. Raises ``SandboxError`` when others may write it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = directory.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise SandboxError(
                "sandbox-cache",
                found=f"cache folder {directory} owned by {info.st_uid}, mode {info.st_mode & 0o7777:o}",
                expected="a folder of this user that nobody else can write",
                hint=f"chmod 700 {directory}, or choose another cache_dir",
            )
        self._directory = directory

    def _header(self, digest: bytes, configuration: str) -> bytes:
        return _MAGIC + hashlib.sha256(digest + configuration.encode()).digest()

    def _path(self, header: bytes) -> Path:
        return self._directory / f"{header[len(_MAGIC) :].hex()}.cwasm"

    def load(self, digest: bytes, configuration: str) -> bytes | None:
        """Machine code for this module and configuration, or None when there is none that can be trusted."""
        header = self._header(digest, configuration)
        try:
            descriptor = os.open(self._path(header), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            trusted = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022
            if not trusted or info.st_size > CODE_BYTES_MAX:
                return None
            data = file.read(CODE_BYTES_MAX)
        payload = data[len(header) + 32 :]
        if data[: len(header)] != header or hashlib.sha256(payload).digest() != data[len(header) :][:32]:
            return None
        return payload

    def store(self, digest: bytes, configuration: str, payload: bytes) -> None:
        """Write the code atomically with mode 0600."""
        header = self._header(digest, configuration)
        descriptor, temporary = tempfile.mkstemp(dir=self._directory, prefix=".new-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(header + hashlib.sha256(payload).digest() + payload)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._path(header))
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
