"""Message security of UADP (OPC 10000-14, 7.2.4.4.3): AES-CTR with HMAC-SHA256, keys by token, nonces used once.

A ``SecureReader`` turns a protected datagram into the plain one inside it, a ``SecureWriter`` the reverse; decoder,
encoder and layouts know nothing of keys. Not safe for use by several threads: contexts are kept and reset.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from fieldbus.uadp import flags
from fieldbus.uadp.errors import SecurityError
from fieldbus.uadp.header import Header, read_header
from fieldbus.uadp.keys import SIGNATURE_BYTES, KeyRing, SecurityMode
from fieldbus.uadp.limits import MESSAGE_BYTES_MAX
from fieldbus.uadp.model import PublisherId, SecurityHeader
from fieldbus.uadp.nonces import NonceMemory, NonceWindow

NONCE_BYTES = 8
"""MessageNonce: 4 random bytes, then a UInt32 that counts the publisher's messages under one key."""
_RANDOM_BYTES = 4
_COUNT_MAX = 2**32 - 1
_SECURITY = Struct(f"<BIB{NONCE_BYTES}s")

PUBLISHERS_MAX = 256
"""Publishers whose nonces are remembered under one key; all of them hold the group's key."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What was inside a protected message: the same message without protection, and the header it had."""

    data: bytes
    security: SecurityHeader


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where the parts of one header shape are, so that the next message of a writer needs no walk.

    An optimisation only: a message fits whose every byte before the SecurityHeader equals that of the message the
    shape was made from, but for numbers that may be anything (NetworkMessageNumber, SequenceNumber, timestamp).
    """

    prefix: bytes
    ids_at: int
    ids: bytes
    publisher: PublisherId | None
    security_at: int
    payload_at: int
    first: SecurityHeader | None
    again: bool

    @classmethod
    def of(cls, data: bytes, header: Header) -> _Shape:
        """The shape of ``data``; not for other messages (``again``) where a part must be looked at each time."""
        tail = 8 if header.timestamp is not None else 0
        ids_bytes = 0 if header.writer_ids is None else 2 * len(header.writer_ids) + (not header.chunked)
        ids_at = header.security_at - tail - ids_bytes
        group = header.group
        free = 2 * sum([item is not None for item in (group.network_message_number, group.sequence)]) if group else 0
        nonce = header.security.nonce if header.security is not None else b""
        return cls(
            data[: ids_at - free],
            ids_at,
            data[ids_at : ids_at + ids_bytes],
            header.publisher,
            header.security_at,
            header.payload_at,
            header.security,
            header.promoted is None and header.picoseconds is None and len(nonce) == NONCE_BYTES,
        )

    def fits(self, data: bytes) -> bool:
        """True where ``data`` has this shape and its SecurityHeader is of the usual size without reserved bits."""
        return (
            self.again
            and data.startswith(self.prefix)
            and data.startswith(self.ids, self.ids_at)
            and self.payload_at <= len(data) <= MESSAGE_BYTES_MAX
            and not data[self.security_at] & (flags.SECURITY_RESERVED | flags.FOOTER)
            and data[self.security_at + 5] == NONCE_BYTES
        )

    def security(self, data: bytes) -> SecurityHeader | None:
        """The SecurityHeader of ``data``, which fits or is the message the shape was made from."""
        if not self.again:
            return self.first
        bits, token_id, _, nonce = _SECURITY.unpack_from(data, self.security_at)
        return SecurityHeader(
            token_id,
            nonce,
            bits & flags.SIGNED != 0,
            bits & flags.ENCRYPTED != 0,
            bits & flags.FORCE_KEY_RESET != 0,
        )


@dataclass(frozen=True, slots=True)
class ReplayMark:
    """What a reader must not forget over a restart: tokens below ``oldest`` are used up, ``current_token`` is the
    newest one seen, ``tops`` the newest counted nonce of one publisher by token."""

    oldest: int
    current_token: int
    tops: tuple[tuple[int, int], ...] = ()


class SecureReader:
    """Opens the messages of one security group."""

    __slots__ = ("_memory", "_mode", "_oldest", "_ring", "_seen", "_shape", "current_token")

    def __init__(self, ring: KeyRing, mode: SecurityMode, *, counted_nonces: bool = True) -> None:
        """``counted_nonces``: the publishers count the nonce's sequence number, as the standard orders.

        open62541 (seen with 1.5.7) always sends 1. For such publishers pass False: then whole nonces are
        remembered, a bounded number of them, and only the freshness of timestamps stops an older replay.
        """
        self._ring = ring
        self._mode = mode
        self._memory: Callable[[], NonceWindow | NonceMemory] = NonceWindow if counted_nonces else NonceMemory
        self._seen: dict[int, dict[PublisherId | None, NonceWindow | NonceMemory]] = {}
        self._shape: _Shape | None = None
        self._oldest = 0  # an erased key that is handed out again must not let old messages in again
        self.current_token = 0

    def mark(self, publisher: PublisherId | None) -> ReplayMark:
        """What ``resume`` takes after a restart, for the messages of ``publisher``."""
        tops = []
        for token_id, publishers in self._seen.items():
            window = publishers.get(publisher)
            if isinstance(window, NonceWindow) and window.top:
                tops.append((token_id, window.top))
        return ReplayMark(self._oldest, self.current_token, tuple(tops))

    def resume(self, mark: ReplayMark, publisher: PublisherId | None) -> None:
        """Go on where an earlier reader of the group was: neither its used-up tokens nor counted nonces of
        ``publisher`` up to its newest come in again. Nonces that are not counted cannot be remembered this way.
        """
        self._oldest = max(self._oldest, mark.oldest)
        self.current_token = max(self.current_token, mark.current_token)
        if self._memory is NonceWindow:
            for token_id, top in mark.tops:
                self._seen.setdefault(token_id, {})[publisher] = NonceWindow(top)

    def open(self, data: bytes) -> Opened:
        """The message inside ``data``. The steps, each with its refusal (SecurityError unless it is malformed):

        1. header: UadpError as ``decode`` raises it; ``unsecured`` where it has no SecurityHeader or is not signed
        2. ``security-mode``: encrypted exactly where the group demands it
        3. ``token-unknown``: the key is in the ring, and not one that was used up before
        4. ``nonce-length``
        5. ``signature``: HMAC-SHA256 over all that precedes it, compared in constant time
        6. ``nonce-replayed``: first seen under this key from this publisher
        7. a forced key reset, being authentic, erases the other keys; a newer token becomes the current one, and
           keys older than the one before it are erased
        8. the payload is decrypted
        """
        shape = self._shape
        if shape is None or not shape.fits(data):
            shape = self._shape = _Shape.of(data, read_header(data))
        security = shape.security(data)
        if security is None or not security.signed:
            raise SecurityError(
                "unsecured", found="a message without signature", expected=f"{self._mode.value}", offset=0
            )
        if security.encrypted is not (self._mode is SecurityMode.SIGN_AND_ENCRYPT):
            found = "encrypted" if security.encrypted else "signed only"
            raise SecurityError("security-mode", found=found, expected=self._mode.value, offset=shape.security_at)
        key = self._ring.get(security.token_id) if security.token_id >= self._oldest else None
        if key is None:
            raise SecurityError(
                "token-unknown",
                found=f"token {security.token_id}",
                expected=f"one of {list(self._ring.token_ids)}",
                hint="fetch keys from the security key service",
                offset=shape.security_at,
            )
        if len(security.nonce) != NONCE_BYTES:
            raise SecurityError("nonce-length", found=f"{len(security.nonce)} bytes", expected=str(NONCE_BYTES))
        end = len(data) - SIGNATURE_BYTES
        if end < shape.payload_at or not hmac.compare_digest(key.signature(data[:end]), data[end:]):
            raise SecurityError("signature", found="another signature", expected=f"that of key {security.token_id}")
        self._once(shape, security)
        self._rotate(security)
        payload = data[shape.payload_at : end]
        if security.encrypted:
            payload = key.crypt(payload, security.nonce)
        return Opened(_plain_head(data, shape.security_at) + payload, security)

    def _once(self, shape: _Shape, security: SecurityHeader) -> None:
        publishers = self._seen.setdefault(security.token_id, {})
        window = publishers.get(shape.publisher)
        if window is None:
            if len(publishers) >= PUBLISHERS_MAX:
                raise SecurityError(
                    "publishers-too-many", found=str(shape.publisher), expected=f"at most {PUBLISHERS_MAX} per key"
                )
            window = publishers[shape.publisher] = self._memory()
        if not window.first_time(security.nonce):
            raise SecurityError(
                "nonce-replayed",
                found=f"nonce {security.nonce.hex()} of {shape.publisher} again or too old",
                expected="each message once",
                offset=shape.security_at,
            )

    def _rotate(self, security: SecurityHeader) -> None:
        if security.force_key_reset:
            self._oldest = security.token_id
            self._ring.forget_all_but(security.token_id)
        if security.token_id > self.current_token:
            # The key before this one stays for messages that are late, or publishers that have not changed yet.
            self._oldest = max(self._oldest, self.current_token)
            for token_id in [known for known in self._ring.token_ids if known < self._oldest]:
                self._ring.forget(token_id)
            self.current_token = security.token_id
        if len(self._seen) > 1:
            for token_id in [known for known in self._seen if self._ring.get(known) is None]:
                del self._seen[token_id]  # its key is gone, so nothing under it can be accepted again


class SecureWriter:
    """Seals the messages of one publisher; counts nonces anew under each key."""

    __slots__ = ("_count", "_mode", "_random", "_ring", "_token_id")

    def __init__(
        self,
        ring: KeyRing,
        mode: SecurityMode,
        token_id: int,
        *,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """``token_id``: the key to begin with. ``random`` gives the nonce's random part; tests pin it."""
        self._ring, self._mode, self._random = ring, mode, random
        self._token_id, self._count = token_id, 0
        self.rotate(token_id)

    def rotate(self, token_id: int) -> None:
        """Use another key from now on and erase the one before.

        Raises SecurityError ``token-unknown``, or ``token-reused`` for an older one or the same.
        Going back would count nonces anew under a key that has been used with them.
        """
        if self._ring.get(token_id) is None:
            raise SecurityError("token-unknown", found=str(token_id), expected=str(list(self._ring.token_ids)))
        if token_id < self._token_id or (token_id == self._token_id and self._count):
            raise SecurityError("token-reused", found=str(token_id), expected=f"one after {self._token_id}")
        if token_id != self._token_id:
            self._ring.forget(self._token_id)
        self._token_id, self._count = token_id, 0

    def seal(self, data: bytes, *, force_key_reset: bool = False) -> bytes:
        """The protected form of ``data``, a plain message. Raises UadpError, or SecurityError ``already-secured``,
        ``key-exhausted`` (2^32 - 1 messages under one key), ``token-unknown`` (erased), ``message-too-long``.
        """
        header = read_header(data)
        if header.security is not None and (header.security.signed or header.security.encrypted):
            raise SecurityError("already-secured", found="a protected message", expected="a plain one")
        key = self._ring.get(self._token_id)
        if key is None:
            raise SecurityError("token-unknown", found=str(self._token_id), expected=str(list(self._ring.token_ids)))
        if self._count >= _COUNT_MAX:
            raise SecurityError("key-exhausted", found=f"{self._count} messages", expected="a new key before")
        if len(data) + SIGNATURE_BYTES + NONCE_BYTES + 8 > MESSAGE_BYTES_MAX:
            raise SecurityError("message-too-long", found=f"{len(data)} bytes", expected="room for the signature")
        self._count += 1
        nonce = self._random(_RANDOM_BYTES) + self._count.to_bytes(4, "little")
        encrypt = self._mode is SecurityMode.SIGN_AND_ENCRYPT
        payload = data[header.payload_at :]
        bits = flags.SIGNED | (flags.ENCRYPTED if encrypt else 0) | (flags.FORCE_KEY_RESET if force_key_reset else 0)
        out = (
            _secured_head(data, header)
            + bytes((bits,))
            + self._token_id.to_bytes(4, "little")
            + bytes((NONCE_BYTES,))
            + nonce
            + (key.crypt(payload, nonce) if encrypt else payload)
        )
        return out + key.signature(out)


def _plain_head(data: bytes, security_at: int) -> bytes:
    """The headers without the SecurityHeader, in the shortest form."""
    ext1 = data[1] & ~flags.SECURITY
    if ext1:
        return data[:1] + bytes((ext1,)) + data[2:security_at]
    return bytes((data[0] & ~flags.EXTENDED_1,)) + data[2:security_at]


def _secured_head(data: bytes, header: Header) -> bytes:
    if data[0] & flags.EXTENDED_1:
        return data[:1] + bytes((data[1] | flags.SECURITY,)) + data[2 : header.security_at]
    return bytes((data[0] | flags.EXTENDED_1, flags.SECURITY)) + data[1 : header.security_at]
