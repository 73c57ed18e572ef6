"""The keys of the recorded frames: token 7, signing 00..1f, AES 40.., key nonce a0a1a2a3. For tests only."""

from __future__ import annotations

from fieldbus.uadp import KeyRing, SecurityPolicy

TOKEN_ID = 7


def key_data(policy: SecurityPolicy, salt: int = 0) -> bytes:
    """Signing key, AES key and key nonce; another ``salt`` gives other keys."""
    aes_bytes = policy.key_data_bytes - 36
    aes = bytes(range(0x40, 0x40 + aes_bytes))
    return bytes((salt,)) + bytes(range(1, 32)) + aes + bytes.fromhex("a0a1a2a3")


def ring(policy: SecurityPolicy, *, tokens: int = 1) -> KeyRing:
    """Keys TOKEN_ID, TOKEN_ID + 1, …"""
    keys = KeyRing(policy)
    keys.install(TOKEN_ID, [key_data(policy, salt) for salt in range(tokens)])
    return keys
