"""From a user token to a user (OPC 10000-4, 7.40): decryption, nonce, password, delays."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asyncua import ua
from asyncua.common.utils import ServiceError
from asyncua.crypto import uacrypto
from asyncua.crypto.security_policies import SecurityPolicyAes256Sha256RsaPss, SecurityPolicyBasic256Sha256

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.server.throttle import Throttle
from fieldbus.opcua.server.users import PASSWORD_BYTES_MAX, User, UserBook, erase

_log = logging.getLogger(__name__)

PARALLEL_MAX = 2
"""Passwords checked at one time: each takes 32 MiB and a processor."""

SECRET_BLOCKS_MAX = 4
"""RSA blocks of one encrypted password: length, password of at most 256 bytes and nonce fit into two of 2048 bits."""

_DECRYPTION: dict[str, tuple[str, Callable[[Any, bytes], bytes]]] = {
    SecurityPolicyBasic256Sha256.URI: (
        SecurityPolicyBasic256Sha256.AsymmetricEncryptionURI,
        uacrypto.decrypt_rsa_oaep,
    ),
    SecurityPolicyAes256Sha256RsaPss.URI: (
        SecurityPolicyAes256Sha256RsaPss.AsymmetricEncryptionURI,
        uacrypto.decrypt_rsa_oaep_sha256,
    ),
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A sign-in: the name, and the entry's salt, which changes with the password."""

    name: str
    salt: bytes


class SignIn:
    """Checks user names and passwords for one server."""

    __slots__ = ("_book", "_gate", "_locks", "_throttle")

    def __init__(self, book: UserBook, throttle: Throttle | None = None) -> None:
        self._book = book
        self._throttle = throttle if throttle is not None else Throttle()
        self._gate = asyncio.Semaphore(PARALLEL_MAX)
        self._locks: dict[str, asyncio.Lock] = {}

    async def check(self, name: str, password: Callable[[], bytearray], application: str) -> Grant:
        """The grant of a right password; ServiceError Bad_UserAccessDenied, or what ``password`` raises, else.

        ``password`` is asked for once it is this attempt's turn, as decrypting is work, too, and overwritten.

        One application's attempts go one after another, so that two at once are not two free guesses. The answer
        does not say whether the name, the password or the delay was the reason; the log names known users only, as
        a password is easily typed where the name belongs.
        """
        async with self._locks.setdefault(application, asyncio.Lock()):
            known = name if self._book.user(name) is not None else "an unknown name"
            wait = self._throttle.wait_s(name, application)
            if wait > 0.0:
                _log.warning("sign-in of %s at %s comes %.1f s too early", known, application, wait)
                raise ServiceError(ua.StatusCodes.BadUserAccessDenied)
            self._throttle.begin(name, application)
            secret = password()
            try:
                # Shielded: who hangs up frees no place for one more hash beside the one that still runs.
                user = await asyncio.shield(asyncio.ensure_future(self._verify(name, secret)))
            finally:
                erase(secret)
            if user is None:
                _log.warning("refused to sign in %s at %s", known, application)
                raise ServiceError(ua.StatusCodes.BadUserAccessDenied)
            self._throttle.succeeded(name, application)
            _log.info("%s signed in at %s", name, application)
            return Grant(name, user.salt)

    async def _verify(self, name: str, password: bytearray) -> User | None:
        try:
            self._book.refresh()
        except OpcUaError as error:
            _log.error("nobody can sign in: %s", error)
        async with self._gate:
            return await asyncio.to_thread(self._book.verify, name, password)


def password_of(token: Any, *, nonce: bytes, key: Any, policy_uri: str) -> bytearray:
    """The password of a UserNameIdentityToken encrypted under the channel's policy; the caller erases it.

    Raises ServiceError Bad_IdentityTokenInvalid for every defect alike: another algorithm or none, a wrong length,
    another nonce (an old token played again).
    """
    algorithm, decrypt = _DECRYPTION[policy_uri]
    blob = token.Password or b""
    block = key.key_size // 8
    if token.EncryptionAlgorithm != algorithm or not blob or len(blob) % block or len(blob) > SECRET_BLOCKS_MAX * block:
        raise ServiceError(ua.StatusCodes.BadIdentityTokenInvalid)
    clear = bytearray()
    try:
        for start in range(0, len(blob), block):
            clear += decrypt(key, blob[start : start + block])
        (length,) = struct.unpack_from("<I", clear) if len(clear) >= 4 else (0,)
        size = length - len(nonce)
        end = 4 + length  # open62541 fills the last block with zeros
        if not 0 <= size <= PASSWORD_BYTES_MAX or clear[4 + size : end] != nonce or any(clear[end:]):
            raise ServiceError(ua.StatusCodes.BadIdentityTokenInvalid)
        return clear[4 : 4 + size]
    except ValueError:
        raise ServiceError(ua.StatusCodes.BadIdentityTokenInvalid) from None
    finally:
        erase(clear)
