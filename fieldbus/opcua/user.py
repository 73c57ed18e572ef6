"""User name and password for a session, the password in a file or a credential of the service manager."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fieldbus.opcua.errors import OpcUaError

PASSWORD_BYTES_MAX = 1_024
NAME_MAX = 128


@dataclass(frozen=True, slots=True)
class UserCredential:
    """``password_file``: a file only its owner can read (0600), one line; or ``credential:NAME``, which systemd puts
    into ``$CREDENTIALS_DIRECTORY``. Read anew at each connect, so a changed password needs no restart."""

    name: str
    password_file: str

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_MAX:
            raise ValueError(f"a user name has 1 to {NAME_MAX} characters")

    @property
    def path(self) -> Path:
        """The file; raises OpcUaError ``credential-missing`` without a service manager."""
        kind, separator, name = self.password_file.partition(":")
        if kind != "credential" or not separator:
            return Path(self.password_file)
        folder = os.environ.get("CREDENTIALS_DIRECTORY")
        if not folder or not name or "/" in name or name.startswith("."):
            raise OpcUaError(
                "credential-missing",
                found=f"no credential {name!r}",
                expected="a credential of the service manager",
                hint="LoadCredential= in the unit, or a file of mode 0600",
            )
        return Path(folder) / name

    @contextmanager
    def password(self) -> Iterator[bytearray]:
        """The password's bytes, wiped afterwards. Raises OpcUaError ``password-unreadable``, ``password-permissions``,
        ``password-format``."""
        buffer = bytearray(PASSWORD_BYTES_MAX + 2)
        try:
            size = self._read_into(buffer)
            while size and buffer[size - 1] in b"\r\n":
                size -= 1
            if not 0 < size <= PASSWORD_BYTES_MAX or b"\n" in buffer[:size]:
                raise OpcUaError(
                    "password-format",
                    found=f"{self.path}: no line, several, or over {PASSWORD_BYTES_MAX} bytes",
                    expected="one line",
                )
            secret = buffer[:size]
            try:
                yield secret
            finally:
                secret[:] = bytes(len(secret))
        finally:
            buffer[:] = bytes(len(buffer))

    def _read_into(self, buffer: bytearray) -> int:
        path = self.path
        try:
            with path.open("rb", buffering=0) as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                if mode & 0o077 and not self.password_file.startswith("credential:"):  # those may carry an ACL
                    raise OpcUaError(
                        "password-permissions",
                        found=f"{path} with mode {mode:04o}",
                        expected="0600: readable by its owner only",
                        hint=f"chmod 600 {path}",
                    )
                return file.readinto(buffer) or 0
        except OSError as error:
            raise OpcUaError(
                "password-unreadable", found=f"{path}: {error.strerror}", expected="a readable password file"
            ) from error
