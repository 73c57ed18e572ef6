"""Message security of UADP (OPC 10000-14, 7.2.4.4.3): AES-CTR with HMAC-SHA256, keys by token, nonces used once.

A ``SecureReader`` turns a protected datagram into the plain one inside it, a ``SecureWriter`` the reverse; decoder,
encoder and layouts know nothing of keys. Not safe for use by several threads: contexts are kept and reset.
"""

from __future__ import annotations

import hmac
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from struct import Struct

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hmac import HMAC

from fieldbus.uadp import flags
from fieldbus.uadp.errors import SecurityError
from fieldbus.uadp.header import Header, read_header
from fieldbus.uadp.limits import MESSAGE_BYTES_MAX
from fieldbus.uadp.model import PublisherId, SecurityHeader
from fieldbus.uadp.nonces import NonceMemory, NonceWindow

NONCE_BYTES = 8
"""MessageNonce: 4 random bytes, then a UInt32 that counts the publisher's messages under one key."""
SIGNATURE_BYTES = 32
_SIGNING_KEY_BYTES, _KEY_NONCE_BYTES, _RANDOM_BYTES = 32, 4, 4
_FIRST_BLOCK = (1).to_bytes(4, "big")  # the block counter of AES-CTR starts at 1 and is big-endian
_COUNT_MAX = 2**32 - 1

_SECURITY = Struct(f"<BIB{NONCE_BYTES}s")

TOKENS_MAX = 16
"""Keys held at a time: the current one, a past one and what a key service hands out ahead."""

PUBLISHERS_MAX = 256
"""Publishers whose nonces are remembered under one key; all of them hold the group's key."""


class SecurityPolicy(Enum):
    """The PubSub policies of OPC 10000-7: profile URI and bytes of the AES key."""

    AES128_CTR = ("http://opcfoundation.org/UA/SecurityPolicy#PubSub-Aes128-CTR", 16)
    AES256_CTR = ("http://opcfoundation.org/UA/SecurityPolicy#PubSub-Aes256-CTR", 32)

    @property
    def uri(self) -> str:
        return self.value[0]

    @property
    def key_data_bytes(self) -> int:
        """Bytes of one key as GetSecurityKeys returns it: signing key, encrypting key, key nonce."""
        return _SIGNING_KEY_BYTES + self.value[1] + _KEY_NONCE_BYTES


class SecurityMode(Enum):
    """What a security group demands of every message; more or less than that is refused."""

    SIGN = "sign"
    SIGN_AND_ENCRYPT = "sign-and-encrypt"


class GroupKey:
    """One key of a security group, held only inside the cryptographic library's contexts.

    The caller overwrites the key data it passed; ``erase`` drops the contexts, which the library then overwrites.
    """

    __slots__ = ("_cipher", "_key_nonce", "_mac")

    def __init__(self, policy: SecurityPolicy, key_data: bytes | bytearray) -> None:
        """``key_data`` as GetSecurityKeys returns it (8.3.2, table 154). Raises SecurityError ``key-size``."""
        if len(key_data) != policy.key_data_bytes:
            raise SecurityError("key-size", found=f"{len(key_data)} bytes", expected=f"{policy.key_data_bytes}")
        split = len(key_data) - _KEY_NONCE_BYTES
        signing, encrypting = bytearray(key_data[:_SIGNING_KEY_BYTES]), bytearray(key_data[_SIGNING_KEY_BYTES:split])
        self._key_nonce = bytes(key_data[split:])
        self._mac: HMAC | None = HMAC(signing, hashes.SHA256())
        # Decryption in counter mode is encryption: one context, set to each message's counter, serves both.
        self._cipher = Cipher(algorithms.AES(encrypting), modes.CTR(bytes(16))).encryptor()
        for copy in (signing, encrypting):  # the contexts have their own copies now
            copy[:] = bytes(len(copy))

    def signature(self, data: bytes) -> bytes:
        """HMAC-SHA256 over ``data``."""
        if self._mac is None:
            raise SecurityError("key-erased", found="an erased key", expected="a key in use")
        mac = self._mac.copy()
        mac.update(data)
        return mac.finalize()

    def crypt(self, data: bytes, nonce: bytes) -> bytes:
        """AES-CTR of ``data`` with counter block key nonce ‖ ``nonce`` ‖ 1, which is its own inverse."""
        self._cipher.reset_nonce(self._key_nonce + nonce + _FIRST_BLOCK)
        return self._cipher.update(data)

    @property
    def erased(self) -> bool:
        return self._mac is None

    def erase(self) -> None:
        """Make the key unusable and free its contexts."""
        self._mac = None
        self._cipher = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor()
        self._key_nonce = bytes(_KEY_NONCE_BYTES)


class KeyRing:
    """Keys of one security group by SecurityTokenId. The oldest ones give way beyond TOKENS_MAX.

    A ring belongs to one reader or one writer: a reader erases what its publishers no longer use.
    """

    __slots__ = ("_keys", "policy")

    def __init__(self, policy: SecurityPolicy) -> None:
        self.policy = policy
        self._keys: OrderedDict[int, GroupKey] = OrderedDict()

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(self._keys)

    def install(self, first_token_id: int, key_data: Iterable[bytes | bytearray]) -> None:
        """Add keys with consecutive ids, as GetSecurityKeys hands them out; a known id keeps its key."""
        for token_id, data in enumerate(key_data, first_token_id):
            if not 1 <= token_id <= _COUNT_MAX:
                raise SecurityError("token-id", found=str(token_id), expected="1 … 4294967295")
            if token_id not in self._keys:
                self._keys[token_id] = GroupKey(self.policy, data)
            while len(self._keys) > TOKENS_MAX:
                self.forget(next(iter(self._keys)))

    def get(self, token_id: int) -> GroupKey | None:
        return self._keys.get(token_id)

    def forget(self, token_id: int) -> None:
        """Erase one key."""
        key = self._keys.pop(token_id, None)
        if key is not None:
            key.erase()

    def forget_all_but(self, token_id: int) -> None:
        """Erase every other key, as a publisher's forced key reset demands."""
        for other in self.token_ids:
            if other != token_id:
                self.forget(other)

    def erase(self) -> None:
        """Erase all keys."""
        for token_id in self.token_ids:
            self.forget(token_id)


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


class SecureReader:
    """Opens the messages of one security group."""

    __slots__ = ("_memory", "_mode", "_ring", "_seen", "_shape", "current_token")

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
        self.current_token = 0

    def open(self, data: bytes) -> Opened:
        """The message inside ``data``. The steps, each with its refusal (SecurityError unless it is malformed):

        1. header: UadpError as ``decode`` raises it; ``unsecured`` where it has no SecurityHeader or is not signed
        2. ``security-mode``: encrypted exactly where the group demands it
        3. ``token-unknown``: the key is in the ring
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
        key = self._ring.get(security.token_id)
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
            self._ring.forget_all_but(security.token_id)
        if security.token_id > self.current_token:
            # The key before this one stays for messages that are late, or publishers that have not changed yet.
            for token_id in [known for known in self._ring.token_ids if known < self.current_token]:
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
        """Use another key from now on. Raises ``token-unknown``, or ``token-reused`` for an older one.

        Going back would count nonces anew under a key that has been used with them.
        """
        if self._ring.get(token_id) is None:
            raise SecurityError("token-unknown", found=str(token_id), expected=str(list(self._ring.token_ids)))
        if token_id < self._token_id or (token_id == self._token_id and self._count):
            raise SecurityError("token-reused", found=str(token_id), expected=f"one after {self._token_id}")
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
