"""Keys of a security group (OPC 10000-14, 7.2.4.4.3 and 8.3.2): policies, one key, the keys held by token."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hmac import HMAC

from fieldbus.uadp.errors import SecurityError

SIGNATURE_BYTES = 32
TOKEN_ID_MAX = 2**32 - 1
_SIGNING_KEY_BYTES, _KEY_NONCE_BYTES = 32, 4
_FIRST_BLOCK = (1).to_bytes(4, "big")  # the block counter of AES-CTR starts at 1 and is big-endian

TOKENS_MAX = 16
"""Keys held at a time: the current one, a past one and what a key service hands out ahead."""


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
        view = memoryview(key_data)  # slices of it are no copies
        signing, encrypting = bytearray(view[:_SIGNING_KEY_BYTES]), bytearray(view[_SIGNING_KEY_BYTES:split])
        self._key_nonce = bytes(view[split:])
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
    """Keys of one security group by SecurityTokenId. At most TOKENS_MAX of them.

    A ring belongs to one reader or one writer, which erases what is used up.
    """

    __slots__ = ("_keys", "policy")

    def __init__(self, policy: SecurityPolicy) -> None:
        self.policy = policy
        self._keys: dict[int, GroupKey] = {}

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(self._keys)

    def install(self, first_token_id: int, key_data: Iterable[bytes | bytearray]) -> None:
        """Add keys with consecutive ids from the current one on, as GetSecurityKeys hands them out.

        A known id keeps its key. Where there is no room, keys from before ``first_token_id`` give way; keys too far
        ahead are left for a later call. Raises SecurityError ``token-id``, ``key-size``.
        """
        for token_id, data in enumerate(key_data, first_token_id):
            if not 1 <= token_id <= TOKEN_ID_MAX:
                raise SecurityError("token-id", found=str(token_id), expected=f"1 … {TOKEN_ID_MAX}")
            if token_id in self._keys:
                continue
            key = GroupKey(self.policy, data)
            oldest = min(self._keys, default=token_id)
            if len(self._keys) >= TOKENS_MAX and oldest < first_token_id:
                self.forget(oldest)
            if len(self._keys) < TOKENS_MAX:
                self._keys[token_id] = key

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
