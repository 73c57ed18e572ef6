"""asyncua's client, held to limits and to one clock.

What is different from ``asyncua.Client``, and why:

1. Security tokens age by the monotonic clock of this machine. asyncua 2.1 compares the *server's* time of issue with
   our wall clock, so clocks that are apart by more than a token's life break the connection at its renewal.
2. Chunks, messages and declared lengths are bounded before anything is kept, and answers are walked over before they
   are decoded (``answers``); asyncua waits for whatever length a header states and takes messages of any size, and
   takes the limits it shall obey from the server's answer.
3. A failed renewal of the channel ends the connection at once, and absurd token lifetimes are refused.
4. Nothing runs by itself: no supervisor, no stale watchdog, no publish loop. ``SecureClient`` has its own.
5. A password is read where it is needed, encrypted, and wiped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from asyncua import Client, ua
from asyncua.client.ua_client import UaClient, UASocketProtocol
from asyncua.client.ua_session import UaSession
from asyncua.common.connection import SecureConnection, TransportLimits
from asyncua.common.shortcuts import Shortcuts
from asyncua.crypto import security_policies, uacrypto
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa

from fieldbus.opcua.answers import check_answer
from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS
from fieldbus.opcua.user import UserCredential

CHUNK_BYTES_MAX = 65_535
"""Largest chunk, as we tell the server; a header that states more is none of its."""

CHUNK_BYTES_MIN = 8_192
"""What every peer must be able to receive (OPC 10000-6, 7.1.2.3)."""

MESSAGE_BYTES_MAX = 4_194_304
"""One answer: a thousand notifications with strings, in chunks of any allowed size."""

CHUNKS_MAX = MESSAGE_BYTES_MAX // CHUNK_BYTES_MIN + 1
HEADER_BYTES = 8
TOKEN_S_MIN = 1.0
"""A server that grants shorter tokens would have us renew all the time."""

TOKEN_RENEW_AT = 0.75
TOKEN_ACCEPT_UNTIL = 1.25
"""Parts of a token's life: when to renew it, how long its messages are still taken (OPC 10000-4, 5.6.2.1)."""

PASSWORD_POLICIES = frozenset(
    {
        security_policies.SecurityPolicyBasic256Sha256.URI,
        security_policies.SecurityPolicyAes128Sha256RsaOaep.URI,
        security_policies.SecurityPolicyAes256Sha256RsaPss.URI,
    }
)
"""RSA-OAEP; the older ones pad with PKCS #1 v1.5."""


class _Connection(SecureConnection):  # type: ignore[misc]
    """Rules 1 and 2."""

    def __init__(self, security_policy: Any, limits: TransportLimits) -> None:
        super().__init__(security_policy, limits)
        self._issued_s = 0.0
        self._previous_until_s = 0.0

    def set_channel(self, params: Any, request_type: Any, client_nonce: bytes) -> None:
        """As asyncua's, and note when the token came."""
        if params.SecurityToken.RevisedLifetime < TOKEN_S_MIN * 1_000:
            raise ua.UaError(f"a token lifetime of {params.SecurityToken.RevisedLifetime} ms")
        if request_type == ua.SecurityTokenRequestType.Issue:
            self._issued_s = time.monotonic()
        super().set_channel(params, request_type, client_nonce)

    def revolve_tokens(self) -> None:
        """As asyncua's; from here on the old token's messages are taken for a while only."""
        lifetime_s = self.security_token.RevisedLifetime / 1_000
        self._previous_until_s = self._issued_s + lifetime_s * TOKEN_ACCEPT_UNTIL
        self._issued_s = time.monotonic()
        super().revolve_tokens()

    def _check_sym_header(self, security_hdr: Any) -> None:
        previous = security_hdr.TokenId == self.prev_security_token.TokenId
        if previous and security_hdr.TokenId not in (self.security_token.TokenId, self.next_security_token.TokenId):
            if time.monotonic() > self._previous_until_s:
                raise ua.UaError(f"a message under token {security_hdr.TokenId}, which has ended")
            return
        super()._check_sym_header(security_hdr)

    def receive_from_header_and_body(self, header: Any, body: Any) -> Any:
        """As asyncua's, but a server's Acknowledge cannot lift our limits."""
        message = super().receive_from_header_and_body(header, body)
        if header.MessageType == ua.MessageType.Acknowledge:
            if message.ReceiveBufferSize < CHUNK_BYTES_MIN:
                raise ua.UaError(f"a server that takes chunks of {message.ReceiveBufferSize} bytes")
            ours = our_limits()
            ours.max_send_buffer = min(int(message.ReceiveBufferSize), CHUNK_BYTES_MAX)
            self._limits = ours
        return message


def our_limits() -> TransportLimits:
    """What we take and send."""
    return TransportLimits(CHUNK_BYTES_MAX, CHUNK_BYTES_MAX, CHUNKS_MAX, MESSAGE_BYTES_MAX)


class _Protocol(UASocketProtocol):  # type: ignore[misc]
    """Rule 2 for lengths that are only declared."""

    def __init__(self, timeout: float, security_policy: Any) -> None:
        super().__init__(timeout, security_policy=security_policy)
        self.receive_buffer: bytes | None = None
        self._connection = _Connection(security_policy, our_limits())

    def data_received(self, data: bytes) -> None:
        """Walk the declared sizes first; nothing is kept for a header that states an impossible one."""
        pending = self.receive_buffer + data if self.receive_buffer else data
        self.receive_buffer = None
        start = 0
        while len(pending) - start >= HEADER_BYTES:
            size = int.from_bytes(pending[start + 4 : start + 8], "little")
            if not HEADER_BYTES < size <= CHUNK_BYTES_MAX:
                self.logger.error("a chunk of %d bytes declared", size)
                self.disconnect_socket()
                return
            start += size
        self._process_received_data(pending)

    def _process_received_message(self, msg: Any) -> None:
        """Walk over an answer before anybody decodes it."""
        if isinstance(msg, ua.Message):
            check_answer(bytes(msg.body()))
        super()._process_received_message(msg)


class _Session(UaSession):  # type: ignore[misc]
    """Rule 4: ``Publisher`` sends the Publish requests."""

    def ensure_publish_loop(self) -> None:
        """Not asyncua's."""


class _UaClient(UaClient):  # type: ignore[misc]
    def __init__(self, timeout: float, on_lost: Callable[[], None]) -> None:
        super().__init__(timeout)
        self.session = _Session(self)
        self._on_lost = on_lost

    def _make_protocol(self) -> UASocketProtocol:
        protocol = _Protocol(self._timeout, self.security_policy)
        protocol.pre_request_hook = self._pre_request_hook
        protocol.on_connection_lost = self._on_transport_lost
        protocol.is_session_closing = self._is_session_closing
        self.protocol = protocol
        return protocol

    def _on_transport_lost(self, _exc: Exception | None) -> None:
        super()._on_transport_lost(_exc)
        self._on_lost()


class ChannelClient(Client):  # type: ignore[misc]
    """One connection; ``on_lost`` is called, once or more, when its socket or its security ends."""

    def __init__(
        self, url: str, *, deadline_s: float, on_lost: Callable[[], None], user: UserCredential | None = None
    ) -> None:
        super().__init__(url, timeout=deadline_s)
        self.uaclient = _UaClient(deadline_s, on_lost)
        self.uaclient.pre_request_hook = self._wait_until_ready
        self.nodes = Shortcuts(self.uaclient.session)
        self.max_messagesize = MESSAGE_BYTES_MAX
        self.max_chunkcount = CHUNKS_MAX
        self._on_lost = on_lost
        self._user = user
        self._username = None if user is None else user.name
        self.renewals_total = 0
        """Renewals of the secure channel's token."""

    def secure(
        self, policy: type[Any], *, certificate: x509.Certificate, key: rsa.RSAPrivateKey, server: x509.Certificate
    ) -> None:
        """Sign and encrypt under ``policy`` from the next connect on; ``key`` stays in memory as asyncua holds it."""
        self.security_policy = policy(server, certificate, key, ua.MessageSecurityMode.SignAndEncrypt)
        self.uaclient.set_security(self.security_policy)

    async def connect(self, **_: Any) -> None:
        """Socket, channel, session; raises what ``PEER_ERRORS`` lists."""
        self.uaclient.clear_disconnect_request()
        await self._connect_sequence()

    async def _renew_channel_loop(self) -> None:
        """Rule 3; asyncio sleeps by the monotonic clock."""
        while True:
            await asyncio.sleep(max(self.secure_channel_timeout / 1_000, TOKEN_S_MIN) * TOKEN_RENEW_AT)
            try:
                await self.open_secure_channel(renew=True)
                self.uaclient.revolve_security_token()
            except PEER_ERRORS:
                self._on_lost()
                return
            self.renewals_total += 1

    def _add_user_auth(self, params: Any, username: str | None, password: str | None) -> None:
        """Rule 5 (OPC 10000-4, 7.41.4: UserNameIdentityToken)."""
        assert self._user is not None
        offered = [item for item in self._policy_ids if item.TokenType == ua.UserTokenType.UserName]
        if not offered:
            raise OpcUaError(
                "identity-rejected",
                found="an endpoint without user names",
                expected="a server that takes a user name and password",
                hint="take the user out of the configuration, or let the server offer user names",
            )
        uri = offered[0].SecurityPolicyUri or self.security_policy.URI
        token = ua.UserNameIdentityToken()
        token.UserName, token.PolicyId = username, offered[0].PolicyId
        if uri not in PASSWORD_POLICIES and uri != security_policies.SecurityPolicyNone.URI:
            raise OpcUaError("user-policy", found=uri, expected="a password under RSA-OAEP, or no cipher of its own")
        with self._user.password() as password_bytes:
            if uri == security_policies.SecurityPolicyNone.URI:
                token.Password = bytes(password_bytes)  # the channel encrypts it
            else:
                server_nonce = bytes(self._server_nonce or b"")
                length = (len(password_bytes) + len(server_nonce)).to_bytes(4, "little")
                secret = bytearray(length + password_bytes + server_nonce)
                peer = uacrypto.x509_from_der(self.security_policy.peer_certificate).public_key()
                token.Password, token.EncryptionAlgorithm = security_policies.encrypt_asymmetric(
                    peer,
                    bytes(secret),
                    uri,  # the cipher takes bytes only: this copy is left to the allocator
                )
                secret[:] = bytes(len(secret))
        params.UserIdentityToken = token
