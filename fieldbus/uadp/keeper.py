"""The keys of one security group while they change: a key file read again when it is replaced, used-up keys erased.

A key is good from the moment it is in the file until ``overlap_s`` after its end by the file's schedule, or after the
first message under a newer key, whichever is earlier. A file that cannot be read leaves everything as it is and is
named in ``problem`` until one can be read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fieldbus.uadp.errors import SecurityError
from fieldbus.uadp.keyfile import KeyFile, read_key_file
from fieldbus.uadp.keys import GroupKey, KeyRing, SecurityPolicy

NS_PER_S = 1_000_000_000
OVERLAP_S = 10.0
_PROBE = b"the same key?"


@dataclass(frozen=True, slots=True)
class KeyEvent:
    """Something to tell people: ``keys-read``, ``keys-unread`` (old ones stay), ``key-dropped``, ``keys-expired``."""

    code: str
    text: str


class KeyKeeper:
    """Key file → ring of keys, for one thread."""

    def __init__(
        self,
        path: Path,
        *,
        group: str,
        policy: SecurityPolicy,
        now_ns: int,
        overlap_s: float = OVERLAP_S,
        credential: bool = False,
    ) -> None:
        """``credential``: as of ``read_key_file``.

        Raises SecurityError ``key-file``, ``key-size``, ``key-group`` or ``key-policy``.
        """
        self._path, self._credential = path, credential
        self._group = group
        self._overlap_ns = round(overlap_s * NS_PER_S)
        self._mark: tuple[int, ...] | None = None
        self._file: KeyFile | None = None
        self._newest_used = 0
        self._newest_since_ns = 0
        self._below = 0  # tokens below it are used up and do not come back
        self._told_expired = False
        self._current: int | None = None
        self.ring = KeyRing(policy)
        self.problem: str | None = None
        self._read(now_ns, self._stat())

    @property
    def current(self) -> int | None:
        """Token a publisher uses now, by the newest file that could be read, as of the last ``poll``."""
        return self._current

    @property
    def expired(self) -> bool:
        """True where no key is left: nothing can come in until the file has new ones."""
        return not self.ring.token_ids

    def poll(self, now_ns: int, *, used_token: int = 0) -> list[KeyEvent]:
        """Look at the file and the clock; some microseconds where nothing changed. ``used_token``: the newest one that
        a message was accepted under.
        """
        events: list[KeyEvent] = []
        mark = self._stat()
        if mark != self._mark:
            try:
                self._read(now_ns, mark)
                events.append(KeyEvent("keys-read", f"tokens {list(self.ring.token_ids)} of group {self._group}"))
            except SecurityError as error:
                self._mark = mark  # looked at; said once, and again when the file changes again
                self.problem = f"{error.code}: {error.found}"
                events.append(KeyEvent("keys-unread", f"{error}; the keys in use stay"))
        if used_token > self._newest_used:
            self._newest_used, self._newest_since_ns = used_token, now_ns
        events += [KeyEvent("key-dropped", f"token {token}") for token in self._drop(now_ns)]
        assert self._file is not None
        self._current = self._file.current(now_ns)
        if self.expired and not self._told_expired:
            events.append(KeyEvent("keys-expired", f"no key of group {self._group} is left"))
        self._told_expired = self.expired
        return events

    def summary(self) -> dict[str, object]:
        """Plain data for a snapshot; nothing secret."""
        assert self._file is not None
        last = self._file.first_token_id + len(self._file.keys) - 1
        return {
            "group": self._group,
            "tokens": list(self.ring.token_ids),
            "used_token": self._newest_used or None,
            "expires_ns": self._file.ends_ns(last),
            "problem": "keys-expired" if self.expired and self.problem is None else self.problem,
        }

    def erase(self) -> None:
        """Erase all keys."""
        self.ring.erase()

    def _stat(self) -> tuple[int, ...]:
        try:
            status = self._path.lstat()
        except OSError as error:
            return (error.errno or 0,)
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _read(self, now_ns: int, mark: tuple[int, ...]) -> None:
        """``mark`` is from before the reading: what is replaced meanwhile is read again."""
        contents = read_key_file(self._path, credential=self._credential)
        try:
            self._check(contents)
            self._install(contents)
        finally:
            contents.erase()
        self._file, self._mark, self.problem = contents, mark, None
        self._current = contents.current(now_ns)
        self._drop(now_ns)

    def _check(self, contents: KeyFile) -> None:
        name = self._path.name
        if contents.group != self._group:
            raise SecurityError("key-group", found=f"{name}: {contents.group}", expected=self._group)
        if contents.policy is not self.ring.policy:
            raise SecurityError("key-policy", found=f"{name}: {contents.policy.uri}", expected=self.ring.policy.uri)
        for token_id, data in enumerate(contents.keys, contents.first_token_id):
            known = self.ring.get(token_id)
            if known is not None:
                other = GroupKey(self.ring.policy, data)
                same = other.signature(_PROBE) == known.signature(_PROBE)
                other.erase()
                if not same:
                    raise SecurityError(
                        "key-changed",
                        found=f"{name}: another key for token {token_id}",
                        expected="the same key as before, or a new token",
                    )

    def _install(self, contents: KeyFile) -> None:
        first = max(contents.first_token_id, self._below)
        self.ring.install(first, contents.keys[first - contents.first_token_id :])

    def _drop(self, now_ns: int) -> list[int]:
        """Erase what is used up; the tokens."""
        assert self._file is not None
        below = self._below
        if self._newest_used and now_ns >= self._newest_since_ns + self._overlap_ns:
            below = max(below, self._newest_used)
        for token_id in self.ring.token_ids:
            end_ns = self._file.ends_ns(token_id)
            if end_ns is not None and now_ns >= end_ns + self._overlap_ns:
                below = max(below, token_id + 1)
        dropped = [token_id for token_id in self.ring.token_ids if token_id < below]
        for token_id in dropped:
            self.ring.forget(token_id)
        self._below = below
        return dropped
