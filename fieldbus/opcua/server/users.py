"""The book of users: names, roles, scrypt hashes (RFC 7914); roles of applications that nobody signed in at.

Format (JSON, mode 0600, no other keys): ``{"version": 1, "users": {NAME: {"role": ROLE, "salt": HEX, "hash":
HEX}}, "applications": {APPLICATION_URI: ROLE}}``. The scrypt parameters belong to the version and not to the
entry: every guess costs the same, for a known name and for an unknown one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.server.roles import Role

VERSION = 1
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
"""32 MiB and some 80 ms a guess: what a small machine can spare for a sign-in, and a guesser cannot."""

SCRYPT_BYTES_MAX = 64 * 1024 * 1024
SALT_BYTES = 16
HASH_BYTES = 32
PASSWORD_BYTES_MIN = 10
PASSWORD_BYTES_MAX = 256
"""Also bounds what a sign-in may carry."""

USERS_MAX = 256
BOOK_BYTES_MAX = 131_072
URI_CHARS_MAX = 256
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class User:
    """One entry. ``salt`` is new with every password, so it tells whether the password has changed since."""

    role: Role
    salt: bytes
    hash: bytes


class UserBook:
    """Users and roles. One loaded from a file follows that file: see ``refresh``."""

    __slots__ = ("_applications", "_dummy", "_path", "_seen", "_users")

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._applications: dict[str, Role] = {}
        self._dummy = User(Role.OBSERVER, secrets.token_bytes(SALT_BYTES), secrets.token_bytes(HASH_BYTES))
        self._path: Path | None = None
        self._seen: tuple[int, int, int] | None = None

    @classmethod
    def load(cls, path: Path) -> UserBook:
        """Read a book; raises OpcUaError ``users-unreadable``, ``users-permissions`` or ``users-format``."""
        book = cls()
        book._path = path
        book.refresh()
        return book

    def refresh(self) -> None:
        """Read the file again if it is another one than last time; raises as ``load`` and then knows nobody."""
        if self._path is None:
            return
        try:
            now = self._path.stat()
            seen = (now.st_ino, now.st_mtime_ns, now.st_size)
            if seen == self._seen:
                return
            self._users, self._applications, self._seen = {}, {}, None
            self._users, self._applications = _parse(_read(self._path), self._path)
            self._seen = seen
        except OSError as error:
            self._users, self._applications, self._seen = {}, {}, None
            raise OpcUaError(
                "users-unreadable", found=f"{self._path}: {error.strerror}", expected="a readable user book"
            ) from error

    def save(self, path: Path) -> None:
        """Write the book whole or not at all, mode 0600; raises OpcUaError ``users-unwritable``."""
        entries = {
            name: {"role": str(user.role), "salt": user.salt.hex(), "hash": user.hash.hex()}
            for name, user in sorted(self._users.items())
        }
        applications = {uri: str(role) for uri, role in sorted(self._applications.items())}
        body = {"version": VERSION, "users": entries, "applications": applications}
        text = json.dumps(body, indent=1, allow_nan=False) + "\n"
        fresh = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(path)
            except OSError:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise OpcUaError(
                "users-unwritable", found=f"{path}: {error.strerror}", expected="a writable folder"
            ) from error

    def set(self, name: str, password: bytearray, role: Role) -> None:
        """Add a user or give it a new password and role. ``password`` (UTF-8) is overwritten with zeros.

        Raises OpcUaError ``user-name``, ``password-length`` or ``users-full``.
        """
        try:
            _check_name(name)
            if not PASSWORD_BYTES_MIN <= len(password) <= PASSWORD_BYTES_MAX:
                raise OpcUaError(
                    "password-length",
                    found=f"{len(password)} bytes",
                    expected=f"{PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX} bytes",
                )
            if name not in self._users and len(self._users) >= USERS_MAX:
                raise OpcUaError("users-full", found=f"{len(self._users)} users", expected=f"at most {USERS_MAX}")
            salt = secrets.token_bytes(SALT_BYTES)
            self._users[name] = User(role, salt, _scrypt(password, salt))
        finally:
            erase(password)

    def remove(self, name: str) -> None:
        """Take a user out; raises OpcUaError ``user-unknown``."""
        if self._users.pop(name, None) is None:
            raise OpcUaError("user-unknown", found=repr(name), expected="a name of the book")

    def set_application(self, uri: str, role: Role) -> None:
        """The role of sessions of this application without a user; raises OpcUaError ``application-uri``."""
        _check_uri(uri)
        if uri not in self._applications and len(self._applications) >= USERS_MAX:
            raise OpcUaError("users-full", found=f"{len(self._applications)}", expected=f"at most {USERS_MAX}")
        self._applications[uri] = role

    def remove_application(self, uri: str) -> None:
        """Back to the default role; raises OpcUaError ``application-unknown``."""
        if self._applications.pop(uri, None) is None:
            raise OpcUaError("application-unknown", found=repr(uri), expected="an application of the book")

    def users(self) -> dict[str, Role]:
        """Names and roles."""
        return {name: user.role for name, user in sorted(self._users.items())}

    def applications(self) -> dict[str, Role]:
        """Application URIs and roles."""
        return dict(sorted(self._applications.items()))

    def application_role(self, uri: str) -> Role:
        """Of a session without a user: what the book says, else observer."""
        return self._applications.get(uri, Role.OBSERVER)

    def user(self, name: str) -> User | None:
        """The entry of a name."""
        return self._users.get(name)

    def verify(self, name: str, password: bytearray) -> User | None:
        """The entry if the password is right. Takes the same time for an unknown name. Zeros ``password``."""
        try:
            user = self._users.get(name, self._dummy)
            right = hmac.compare_digest(_scrypt(password, user.salt), user.hash)
            return user if right and user is not self._dummy else None
        finally:
            erase(password)


def erase(secret: bytearray) -> None:
    """Overwrite with zeros, in place."""
    secret[:] = bytes(len(secret))


def _scrypt(password: bytearray, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password, salt=salt, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=SCRYPT_BYTES_MAX, dklen=HASH_BYTES
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise OpcUaError(
            "user-name",
            found=repr(name[:80]),
            expected="1 to 64 of A-Z a-z 0-9 . _ @ -, beginning with one of A-Z a-z 0-9",
        )


def _check_uri(uri: str) -> None:
    if not 1 <= len(uri) <= URI_CHARS_MAX or not uri.isprintable() or " " in uri:
        raise OpcUaError("application-uri", found=repr(uri[:80]), expected="an application URI")


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
            raise OpcUaError(
                "users-permissions",
                found=f"{path} with mode {stat.S_IMODE(status.st_mode):04o}, owner {status.st_uid}",
                expected="a file of this user with mode 0600",
                hint=f"chmod 600 {path}",
            )
        data = file.read(BOOK_BYTES_MAX + 1)
    if len(data) > BOOK_BYTES_MAX:
        raise _malformed(path, f"over {BOOK_BYTES_MAX} bytes")
    return data


def _malformed(path: Path, found: str) -> OpcUaError:
    return OpcUaError("users-format", found=f"{path}: {found}", expected=f"a user book of version {VERSION}")


def _parse(data: bytes, path: Path) -> tuple[dict[str, User], dict[str, Role]]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise _malformed(path, "a key twice")
        return result

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, "no JSON") from error
    if not isinstance(value, dict) or set(value) != {"version", "users", "applications"}:
        raise _malformed(path, "other keys")
    if type(value["version"]) is not int or value["version"] != VERSION:
        raise _malformed(path, "another version")
    users, applications = value["users"], value["applications"]
    if not isinstance(users, dict) or not isinstance(applications, dict):
        raise _malformed(path, "no table of users or of applications")
    if len(users) > USERS_MAX or len(applications) > USERS_MAX:
        raise _malformed(path, f"over {USERS_MAX} entries")
    try:
        for name in users:
            _check_name(name)
        for uri in applications:
            _check_uri(uri)
    except OpcUaError as error:
        raise _malformed(path, f"{error.code} {error.found}") from error
    roles = {uri: _role(role, path) for uri, role in applications.items()}
    return {name: _user(entry, path) for name, entry in users.items()}, roles


def _role(value: object, path: Path) -> Role:
    for role in Role:
        if value == role.value:
            return role
    raise _malformed(path, "an unknown role")


def _user(entry: object, path: Path) -> User:
    if not isinstance(entry, dict) or set(entry) != {"role", "salt", "hash"}:
        raise _malformed(path, "a user with other keys")
    return User(
        _role(entry["role"], path), _hex(entry["salt"], SALT_BYTES, path), _hex(entry["hash"], HASH_BYTES, path)
    )


def _hex(value: object, size: int, path: Path) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{2 * size}}}", value):
        raise _malformed(path, f"no {size} bytes in lower-case hex")
    return bytes.fromhex(value)
