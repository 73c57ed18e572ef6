"""The key file of a security group: what GetSecurityKeys answers (OPC 10000-14, 8.3.2), kept in a file of mode 0600.

    sits-pubsub-keys 1
    group mill
    policy PubSub-Aes256-CTR
    next-key-at 2026-11-30T03:00:00Z
    key-lifetime-s 3600
    key 7 <hexadecimal>
    key 8 <hexadecimal>

The first key is the current one, until ``next-key-at``; each further one is valid for ``key-lifetime-s`` after the one
before it. Without these two lines (they come together) keys do not expire by time. Tokens are consecutive. Key data:
signing key, encrypting key, key nonce. Lines of text rather than JSON, because they can be read out of one buffer that
is overwritten afterwards; a JSON parser would leave the keys behind in strings.
"""

from __future__ import annotations

import datetime as dt
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fieldbus.uadp.errors import SecurityError
from fieldbus.uadp.keys import TOKEN_ID_MAX, TOKENS_MAX, SecurityPolicy

MAGIC = "sits-pubsub-keys 1"
FILE_BYTES_MAX = 8_192
"""Five lines, and TOKENS_MAX keys of at most 68 bytes in hexadecimal: below 3 KiB."""

GROUP_CHARACTERS_MAX = 128
GROUP_RULE = f"1 to {GROUP_CHARACTERS_MAX} printable ASCII characters without spaces"
LIFETIME_S_MAX = 10 * 365 * 86_400
NS_PER_S = 1_000_000_000
POLICIES = {policy.uri.rpartition("#")[2]: policy for policy in SecurityPolicy}
"""``PubSub-Aes128-CTR`` and ``PubSub-Aes256-CTR``: the end of the profile's URI."""

_NIBBLES = [b"0123456789abcdef".find(code) if code in b"0123456789abcdef" else 0x1000 for code in range(256)]
_OTHERS, _CREDENTIAL_BITS = 0o077, 0o037
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(slots=True)
class KeyFile:
    """The contents of a key file. ``keys`` are overwritten by ``erase``, after which the object is of no use."""

    group: str
    policy: SecurityPolicy
    first_token_id: int
    keys: list[bytearray] = field(repr=False)
    next_key_at_ns: int | None = None
    lifetime_ns: int | None = None

    def erase(self) -> None:
        """Overwrite the keys."""
        for key in self.keys:
            key[:] = bytes(len(key))

    def ends_ns(self, token_id: int) -> int | None:
        """Unix ns at which the key of ``token_id`` gives way to the next; None: keys do not expire by time."""
        if self.next_key_at_ns is None or self.lifetime_ns is None:
            return None
        return self.next_key_at_ns + (token_id - self.first_token_id) * self.lifetime_ns

    def current(self, now_ns: int) -> int | None:
        """The token that a publisher uses at ``now_ns``; None after the end of the last one."""
        if self.next_key_at_ns is None or self.lifetime_ns is None or now_ns < self.next_key_at_ns:
            return self.first_token_id
        index = 1 + (now_ns - self.next_key_at_ns) // self.lifetime_ns
        return self.first_token_id + index if index < len(self.keys) else None


def make_keys(
    group: str,
    policy: SecurityPolicy,
    *,
    first_token_id: int = 1,
    count: int = 2,
    lifetime_s: int | None = None,
    now_ns: int = 0,
) -> KeyFile:
    """Fresh keys of the operating system's randomness, the first one current from ``now_ns`` on.

    Raises SecurityError ``key-group`` for an id that a key file cannot have.
    """
    if not _usual(group):
        found = repr(group) if len(group) <= GROUP_CHARACTERS_MAX else f"{len(group)} characters"
        raise SecurityError("key-group", found=found, expected=GROUP_RULE)
    keys = [bytearray(policy.key_data_bytes) for _ in range(count)]
    with Path("/dev/urandom").open("rb", buffering=0) as source:  # reads into our own buffer, so that it can be erased
        for key in keys:
            if source.readinto(key) != len(key):
                raise SecurityError("key-file", found="too little randomness", expected="/dev/urandom")
    if lifetime_s is None:
        return KeyFile(group, policy, first_token_id, keys)
    seconds = now_ns // NS_PER_S + lifetime_s
    return KeyFile(group, policy, first_token_id, keys, seconds * NS_PER_S, lifetime_s * NS_PER_S)


def read_key_file(path: Path, *, credential: bool = False) -> KeyFile:
    """Read and check a key file. ``credential``: systemd wrote it for this service, as root's with an access list for
    our user, which looks like mode 0440. Raises SecurityError ``key-file`` (missing, a link, readable by others,
    another owner's, not in the format) or ``key-size``; no message contains a part of a key.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(path, str(error.strerror), "a readable key file") from error
    buffer = bytearray(FILE_BYTES_MAX + 1)
    try:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            _check_owner(path, os.fstat(file.fileno()), _CREDENTIAL_BITS if credential else _OTHERS)
            size = file.readinto(buffer) or 0
        if size > FILE_BYTES_MAX:
            raise _refused(path, f"over {FILE_BYTES_MAX} bytes", "a key file")
        return parse_key_file(buffer, path.name, size=size)
    except OSError as error:
        raise _refused(path, str(error.strerror), "a readable key file") from error
    finally:
        buffer[:] = bytes(len(buffer))


def write_key_file(path: Path, contents: KeyFile) -> None:
    """Replace ``path`` as a whole, mode 0600: a reader sees the old file or the new one. Raises SecurityError
    ``key-file``.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    text = format_key_file(contents)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(text)
            os.fsync(file.fileno())
        part.rename(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _refused(path, str(error.strerror), "a writable folder") from error
    finally:
        text[:] = bytes(len(text))


def format_key_file(contents: KeyFile) -> bytearray:
    """The bytes of a key file; the caller overwrites them."""
    name = next(name for name, policy in POLICIES.items() if policy is contents.policy)
    lines = [MAGIC, f"group {contents.group}", f"policy {name}"]
    if contents.next_key_at_ns is not None and contents.lifetime_ns is not None:
        moment = dt.datetime.fromtimestamp(contents.next_key_at_ns // NS_PER_S, dt.UTC)
        lines += [f"next-key-at {moment.strftime(_TIME)}", f"key-lifetime-s {contents.lifetime_ns // NS_PER_S}"]
    out = bytearray("".join(line + "\n" for line in lines), "utf-8")
    for token_id, key in enumerate(contents.keys, contents.first_token_id):
        out += f"key {token_id} ".encode()
        for byte in key:
            out += b"0123456789abcdef"[byte >> 4 : (byte >> 4) + 1] + b"0123456789abcdef"[byte & 15 : (byte & 15) + 1]
        out += b"\n"
    return out


def parse_key_file(data: bytearray, name: str = "keys", *, size: int | None = None) -> KeyFile:
    """Strict and total; ``name`` is for messages, only the first ``size`` bytes count.

    Raises SecurityError as :func:`read_key_file`.
    """
    lines = _lines(data, len(data) if size is None else size, name)
    first_line = next(lines, None)
    if first_line is None or bytes(first_line) != MAGIC.encode():
        raise _refused(Path(name), "another first line", MAGIC)
    group = _word(next(lines, None), "group", name)
    policy = POLICIES.get(_word(next(lines, None), "policy", name))
    if policy is None:
        raise _refused(Path(name), "an unknown policy", " or ".join(POLICIES))
    if not _usual(group):
        raise _refused(Path(name), "an unusual group id", GROUP_RULE)
    line = next(lines, None)
    end_ns = lifetime_ns = None
    if line is not None and bytes(line[:12]) == b"next-key-at ":
        end_ns = _moment(_word(line, "next-key-at", name), name)
        lifetime_ns = _number(_word(next(lines, None), "key-lifetime-s", name), LIFETIME_S_MAX, name) * NS_PER_S
        line = next(lines, None)
    keys: list[bytearray] = []
    first = 0
    try:
        while line is not None:
            token_id = _key(line, policy, keys, name)
            first = first or token_id
            if token_id != first + len(keys) - 1:
                raise _refused(Path(name), f"token {token_id} out of order", "consecutive tokens")
            line = next(lines, None)
        if not keys:
            raise _refused(Path(name), "no key", f"1 to {TOKENS_MAX} keys")
    except SecurityError:
        for key in keys:
            key[:] = bytes(len(key))
        raise
    return KeyFile(group, policy, first, keys, end_ns, lifetime_ns)


def _usual(group: str) -> bool:
    """Whether a group id is one that every tool can write."""
    return group.isascii() and group.isprintable() and " " not in group and 1 <= len(group) <= GROUP_CHARACTERS_MAX


def _lines(data: bytearray, size: int, name: str) -> Iterator[memoryview]:
    view, start = memoryview(data), 0
    while start < size:
        end = data.find(b"\n", start, size)
        if end < 0:
            raise _refused(Path(name), "a last line without its end", "a line feed after every line")
        yield view[start:end]
        start = end + 1


def _word(line: memoryview | None, keyword: str, name: str) -> str:
    """What follows ``keyword`` and one space; not for lines with keys."""
    prefix = keyword.encode() + b" "
    if line is None or bytes(line[: len(prefix)]) != prefix or len(line) == len(prefix):
        raise _refused(Path(name), f"no line {keyword!r} where one belongs", f"{keyword} …")
    try:
        return bytes(line[len(prefix) :]).decode("ascii")
    except UnicodeDecodeError:
        raise _refused(Path(name), f"a {keyword} that is not ASCII", "ASCII") from None


def _number(text: str, most: int, name: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or text[0] == "0" or int(text) > most:
        raise _refused(Path(name), "an unusual number", f"1 … {most}")
    return int(text)


def _moment(text: str, name: str) -> int:
    try:
        moment = dt.datetime.strptime(text, _TIME).replace(tzinfo=dt.UTC)
    except ValueError:
        raise _refused(Path(name), "an unusual time", "a time such as 2026-11-30T03:00:00Z") from None
    if moment.strftime(_TIME) != text or moment.year < 1970:
        raise _refused(Path(name), "an unusual time", "a time such as 2026-11-30T03:00:00Z")
    return int(moment.timestamp()) * NS_PER_S


def _key(line: memoryview, policy: SecurityPolicy, keys: list[bytearray], name: str) -> int:
    """Append the key of a ``key`` line, digit by digit so that no copy of it is left; its token id."""
    if bytes(line[:4]) != b"key ":
        raise _refused(Path(name), "a line that is no key", "key TOKEN HEX")
    if len(keys) >= TOKENS_MAX:
        raise _refused(Path(name), f"over {TOKENS_MAX} keys", f"at most {TOKENS_MAX}")
    at = 4
    while at < len(line) and at < 16 and line[at] != 32:
        at += 1
    token_id = _number(_word(line[:at], "key", name), TOKEN_ID_MAX, name)
    digits = line[at + 1 :]
    if len(digits) != 2 * policy.key_data_bytes:
        raise SecurityError(
            "key-size",
            found=f"{name}: {len(digits) / 2:g} bytes for token {token_id}",
            expected=str(policy.key_data_bytes),
        )
    key = bytearray(policy.key_data_bytes)
    keys.append(key)
    wrong = 0
    for index, (high, low) in enumerate(zip(digits[::2], digits[1::2], strict=True)):
        value = _NIBBLES[high] << 4 | _NIBBLES[low]
        wrong |= value
        key[index] = value & 0xFF
    if wrong > 0xFF:
        raise _refused(Path(name), f"a key of token {token_id} that is not hexadecimal", "lower-case digits")
    return token_id


def _check_owner(path: Path, status: os.stat_result, forbidden: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise _refused(path, "no regular file", "a regular file of mode 0600")
    if mode & (forbidden if status.st_uid == 0 else _OTHERS):
        raise _refused(path, f"mode {mode:04o}", "a regular file of mode 0600", hint="chmod 600 it")
    if status.st_uid not in (os.geteuid(), 0):
        raise _refused(path, f"a file of user {status.st_uid}", f"one of user {os.geteuid()} or 0")


def _refused(path: Path, found: str, expected: str, *, hint: str = "") -> SecurityError:
    return SecurityError("key-file", found=f"{path.name}: {found}", expected=expected, hint=hint)
