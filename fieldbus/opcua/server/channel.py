"""One secure channel: Hello, OpenSecureChannel, requests, in this order and within bounds. asyncua 2.1.0.

Rules, each kept before asyncua decodes anything (``shape`` walks the bytes first):

1. Hello comes first and once, with buffers no smaller than the protocol allows.
2. A channel is opened once and then renewed; its nonce has the policy's length, its token a bounded life.
3. Without security it answers GetEndpoints and FindServers only; asyncua opens such a channel though none is offered.
4. One session at a time, made and used with the channel's own certificate and the session's own token; until it is
   active, a message is one chunk.
5. An answer larger than either side takes is replaced by a fault.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from asyncua import ua
from asyncua.common.connection import SecureConnection
from asyncua.common.utils import ServiceError
from asyncua.crypto.security_policies import SecurityPolicyNone
from asyncua.server.internal_session import SessionState
from asyncua.server.uaprocessor import UaProcessor
from asyncua.ua.ua_binary import nodeid_from_binary, struct_from_binary, struct_to_binary, uatcp_to_binary
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa

from fieldbus.opcua.server import shape
from fieldbus.opcua.server.limits import CHUNK_BYTES_MIN, Limits
from fieldbus.opcua.server.signin import password_of

if TYPE_CHECKING:
    from fieldbus.opcua.server.guard import GuardedInternalServer
    from fieldbus.opcua.server.session import GuardedSession
    from fieldbus.opcua.server.transport import Transport

_log = logging.getLogger(__name__)

CERTIFICATE_BYTES_MAX = 8_192
RSA_BITS_MIN, RSA_BITS_MAX = 2_048, 4_096
"""What both policies allow (OPC 10000-7, Basic256Sha256 and Aes256_Sha256_RsaPss limits)."""

RSA_EXPONENT_BITS_MAX = 32
"""A longer public exponent only makes each verification slower."""

TOKEN_GRACE = 1.25
"""A channel's token is used for a quarter of its life beyond its end (OPC 10000-4, 5.5.2)."""

Code = ua.StatusCodes
Services = ua.ObjectIds

_WITHOUT_SECURITY = frozenset(
    {Services.GetEndpointsRequest_Encoding_DefaultBinary, Services.FindServersRequest_Encoding_DefaultBinary}
)
_WITHOUT_SESSION = _WITHOUT_SECURITY | {
    Services.CreateSessionRequest_Encoding_DefaultBinary,
    Services.CloseSessionRequest_Encoding_DefaultBinary,
    Services.ActivateSessionRequest_Encoding_DefaultBinary,
}


_PUBLISHING = frozenset(
    {Services.PublishRequest_Encoding_DefaultBinary, Services.CreateSubscriptionRequest_Encoding_DefaultBinary}
)


class Refused(Exception):
    """The peer broke the protocol: it is told why and cut off."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class GuardedConnection(SecureConnection):  # type: ignore[misc]
    """Rule 2."""

    def __init__(self, policy: Any, transport_limits: Any, limits: Limits) -> None:
        super().__init__(policy, transport_limits)
        self._guard = limits
        self._valid_until: float | None = None

    def open(self, params: Any, server: Any) -> Any:
        """Open or renew; raises Refused."""
        renewing = params.RequestType == ua.SecurityTokenRequestType.Renew
        if renewing != self._open:
            raise Refused(Code.BadSecurityChecksFailed, "a channel is issued once and then renewed")
        length = self.security_policy.secure_channel_nonce_length
        if length and len(params.ClientNonce or b"") != length:
            raise Refused(Code.BadNonceInvalid, f"a nonce of {len(params.ClientNonce or b'')} bytes, not {length}")
        asked = params.RequestedLifetime
        params.RequestedLifetime = min(max(asked, self._guard.channel_ms_min), self._guard.channel_ms_max)
        self._valid_until = time.monotonic() + params.RequestedLifetime * TOKEN_GRACE / 1000.0
        return super().open(params, server)

    def expired(self, now: float) -> bool:
        """Whether the newest token's life, with its grace, has passed unrenewed."""
        return self._valid_until is not None and now > self._valid_until

    def gathering(self) -> bool:
        """Whether a message has begun of which chunks are missing."""
        return bool(self._incoming_parts)

    def _check_sym_header(self, security_hdr: Any) -> None:
        if security_hdr.TokenId == 0:  # asyncua's "no next token", which it would take for one
            raise Refused(Code.BadSecureChannelTokenUnknown, "token 0")
        super()._check_sym_header(security_hdr)


class GuardedProcessor(UaProcessor):  # type: ignore[misc]
    """The rules of this module for one connection."""

    iserver: GuardedInternalServer
    session: GuardedSession | None

    def __init__(self, iserver: GuardedInternalServer, transport: Transport, limits: Any) -> None:
        super().__init__(iserver, transport, limits)
        self._guard = iserver.guard
        self._connection = GuardedConnection(SecurityPolicyNone(), self._limits, iserver.guard)
        self._greeted = False
        self.opened_at = 0.0
        self.end_reason = "its connection ended"

    @property
    def secured(self) -> bool:
        """Whether the channel is open under one of the offered policies."""
        return bool(self._connection.is_open()) and self._connection.security_policy.URI != SecurityPolicyNone.URI

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate (DER), which its channel was opened with."""
        found = self._connection.security_policy.peer_certificate if self.secured else None
        return bytes(found) if found else None

    @property
    def connection(self) -> GuardedConnection:
        """The channel."""
        connection: GuardedConnection = self._connection
        return connection

    def active(self) -> bool:
        """Whether a session is activated on this channel."""
        return self.session is not None and bool(self.session.is_activated())

    # --- messages ---

    async def process(self, header: Any, body: Any) -> bool:
        """One chunk; False ends the connection. Raises Refused and what asyncua's decryption raises."""
        kind = header.MessageType
        if kind == ua.MessageType.Hello:
            return self._hello(body)
        if not self._greeted:
            raise Refused(Code.BadTcpMessageTypeInvalid, "no Hello")
        if kind == ua.MessageType.SecureOpen:
            self._check_opening(header, body)
        elif kind not in (ua.MessageType.SecureMessage, ua.MessageType.SecureClose):
            raise Refused(Code.BadTcpMessageTypeInvalid, f"message type {kind!r}")
        elif not self._connection.is_open():
            raise Refused(Code.BadSecureChannelIdInvalid, "no open channel")
        elif header.ChunkType != ua.ChunkType.Single and not self.active():
            raise Refused(Code.BadTcpMessageTooLarge, "a message in chunks before a session is active")
        return bool(await super().process(header, body))

    def _hello(self, body: Any) -> bool:
        if self._greeted:
            raise Refused(Code.BadTcpMessageTypeInvalid, "a second Hello")
        shape.check(ua.Hello, bytes(body), self._guard)
        hello = struct_from_binary(ua.Hello, body)
        if min(hello.ReceiveBufferSize, hello.SendBufferSize) < CHUNK_BYTES_MIN:
            raise Refused(Code.BadTcpNotEnoughResources, f"buffers under {CHUNK_BYTES_MIN} bytes")
        self._greeted = True
        ack = self._limits.create_acknowledge_and_set_limits(hello)
        self._transport.write(uatcp_to_binary(ua.MessageType.Acknowledge, ack))
        return True

    def _check_opening(self, header: Any, body: Any) -> None:
        """Look at the certificate before any private key is used."""
        if not self.iserver.may_shake_hands(str(self.name[0]) if self.name else ""):
            raise Refused(Code.BadTcpServerTooBusy, "too many handshakes at once")
        data = bytes(body)[: header.body_size]
        shape.check(ua.AsymmetricAlgorithmHeader, data, self._guard, whole=False)
        opening = struct_from_binary(ua.AsymmetricAlgorithmHeader, body.copy(header.body_size))
        if self._connection.is_open():
            if opening.SecurityPolicyURI != self._connection.security_policy.URI:
                raise Refused(Code.BadSecurityPolicyRejected, "another policy at renewal")
            if self.secured and opening.SenderCertificate != self.certificate:
                raise Refused(Code.BadCertificateInvalid, "another certificate at renewal")
        if opening.SecurityPolicyURI == SecurityPolicyNone.URI:
            return
        certificate = opening.SenderCertificate or b""
        if len(certificate) > CERTIFICATE_BYTES_MAX:
            raise Refused(Code.BadCertificateInvalid, f"a certificate of {len(certificate)} bytes")
        key = x509.load_der_x509_certificate(certificate).public_key()
        if not isinstance(key, rsa.RSAPublicKey) or not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
            raise Refused(Code.BadCertificateInvalid, "no RSA key of 2048 to 4096 bits")
        if key.public_numbers().e.bit_length() > RSA_EXPONENT_BITS_MAX:
            raise Refused(Code.BadCertificateInvalid, "an RSA exponent over 32 bits")

    def open_secure_channel(self, algohdr: Any, seqhdr: Any, body: Any) -> None:
        """As asyncua's, after a look at the bytes."""
        shape.check(ua.OpenSecureChannelRequest, bytes(body), self._guard)
        super().open_secure_channel(algohdr, seqhdr, body)

    async def process_message(self, seqhdr: Any, body: Any) -> bool:
        """One request; what does not decode ends the connection, as what follows cannot be trusted either."""
        data = bytes(body)
        number = shape.check_request(data, self._guard)
        if not self.secured and number not in _WITHOUT_SECURITY:
            raise Refused(Code.BadSecurityPolicyRejected, "without security only endpoints are told")
        copy = body.copy()
        nodeid_from_binary(copy)
        header = struct_from_binary(ua.RequestHeader, copy)
        if number is None:
            self._fault(header, seqhdr, Code.BadServiceUnsupported)
            return True
        if number not in _WITHOUT_SECURITY and number != Services.CreateSessionRequest_Encoding_DefaultBinary:
            if self.session is None or header.AuthenticationToken != self.session.auth_token:
                self._fault(header, seqhdr, Code.BadSessionIdInvalid)
                return True
            if number not in _WITHOUT_SESSION and self.session.state is SessionState.Closed:
                self._fault(header, seqhdr, Code.BadSessionClosed)
                return True
        return await super().process_message(seqhdr, body) is not False

    async def _process_message(self, typeid: Any, requesthdr: Any, seqhdr: Any, body: Any) -> Any:
        number = typeid.Identifier
        if number == Services.CreateSessionRequest_Encoding_DefaultBinary:
            return await self._create_session(requesthdr, seqhdr, body)
        if number == Services.ActivateSessionRequest_Encoding_DefaultBinary:
            return await self._activate_session(requesthdr, seqhdr, body)
        if number == Services.BrowseNextRequest_Encoding_DefaultBinary:
            return await self._browse_next(requesthdr, seqhdr, body)
        if number in _PUBLISHING:
            self._drop_stale_results()
        return await super()._process_message(typeid, requesthdr, seqhdr, body)

    def _drop_stale_results(self) -> None:
        own = set(self.session.own_subscriptions()) if self.session is not None else set()
        for number in [number for number in self._publish_results_subs if number not in own]:
            del self._publish_results_subs[number]

    # --- sessions ---

    async def _create_session(self, requesthdr: Any, seqhdr: Any, body: Any) -> bool:
        """Rule 4. A session that was closed makes room for another on the same channel."""
        params = struct_from_binary(ua.CreateSessionParameters, body)
        if self.session is not None and self.session.state is not SessionState.Closed:
            raise ServiceError(Code.BadTooManySessions)
        if not 32 <= len(params.ClientNonce or b"") <= 128:
            raise ServiceError(Code.BadNonceInvalid)
        certificate = self.certificate
        assert certificate is not None  # process_message let only secured channels through
        self.session = self.iserver.open_session(str(self.name), certificate, params)
        result = await self.session.create_session(params, sockname=self.sockname)
        self.session_last_activity = time.monotonic()
        policy = self._connection.security_policy
        result.MaxRequestMessageSize = self._guard.message_bytes
        result.ServerCertificate = policy.host_certificate
        result.ServerSignature.Signature = policy.asymmetric_cryptography.signature(certificate + params.ClientNonce)
        result.ServerSignature.Algorithm = policy.AsymmetricSignatureURI
        response = ua.CreateSessionResponse()
        response.Parameters = result
        self.send_response(requesthdr.RequestHandle, seqhdr, response)
        return True

    async def _activate_session(self, requesthdr: Any, seqhdr: Any, body: Any) -> bool:
        """The client signs the server's nonce; then the user, if one signs in."""
        params = struct_from_binary(ua.ActivateSessionParameters, body)
        session = self.session
        assert session is not None  # process_message compared its token
        if session.state is SessionState.Closed:
            raise ServiceError(Code.BadSessionClosed)
        if not self.iserver.may_activate(session.application_uri):
            raise ServiceError(Code.BadTooManyOperations)
        policy = self._connection.security_policy
        try:
            policy.asymmetric_cryptography.verify(
                policy.host_certificate + session.nonce, params.ClientSignature.Signature or b""
            )
        except InvalidSignature:
            raise ServiceError(Code.BadApplicationSignatureInvalid) from None
        certificate = self.certificate
        assert certificate is not None
        self.iserver.application(certificate, label="the client certificate")
        grant = await self._grant(params.UserIdentityToken, session)
        params.UserIdentityToken = ua.AnonymousIdentityToken()  # the password goes no further
        result = session.activate_session(params, certificate)
        session.grant = grant
        self.session_last_activity = time.monotonic()
        response = ua.ActivateSessionResponse()
        response.Parameters = result
        self.send_response(requesthdr.RequestHandle, seqhdr, response)
        return True

    async def _grant(self, token: Any, session: Any) -> Any:
        if isinstance(token, ua.ExtensionObject) and token.TypeId.is_null():
            return None  # an empty token is an anonymous one (OPC 10000-4, 5.6.3)
        if isinstance(token, ua.AnonymousIdentityToken):
            return None
        sign_in = self.iserver.sign_in
        if sign_in is None or not isinstance(token, ua.UserNameIdentityToken):
            raise ServiceError(Code.BadIdentityTokenRejected)

        def password() -> bytearray:
            return password_of(
                token,
                nonce=session.nonce,
                key=self.iserver.private_key,
                policy_uri=self._connection.security_policy.URI,
            )

        return await sign_in.check(token.UserName or "", password, session.application_uri)

    async def _browse_next(self, requesthdr: Any, seqhdr: Any, body: Any) -> bool:
        session = self.session
        if session is None or not session.is_activated():
            raise ServiceError(Code.BadSessionNotActivated)
        session.touch()
        self.session_last_activity = time.monotonic()
        params = struct_from_binary(ua.BrowseNextParameters, body)
        response = ua.BrowseNextResponse()
        response.Parameters.Results = await session.browse_next(params)
        self.send_response(requesthdr.RequestHandle, seqhdr, response)
        return True

    async def close(self) -> None:
        """As asyncua's; the session is told what its connection ended of."""
        if self.session is not None:
            self.session.end_reason = self.session.end_reason or self.end_reason
        await super().close()

    async def _session_watchdog_loop(self) -> None:
        """Until it is cancelled: a session watches over its own time, by the server's pace."""
        await asyncio.get_running_loop().create_future()

    def _should_close_session_on_transport_loss(self) -> bool:
        return self.session is not None

    # --- answers ---

    def _fault(self, requesthdr: Any, seqhdr: Any, code: int) -> None:
        response = ua.ServiceFault()
        response.ResponseHeader.ServiceResult = ua.StatusCode(code)
        self.send_response(requesthdr.RequestHandle, seqhdr, response)

    def send_response(
        self, requesthandle: Any, seqhdr: Any, response: Any, msgtype: Any = ua.MessageType.SecureMessage
    ) -> None:
        """Rule 5."""
        response.ResponseHeader.RequestHandle = requesthandle
        data = struct_to_binary(response)
        if len(data) > self._answer_bytes_max():
            response = ua.ServiceFault()
            response.ResponseHeader.RequestHandle = requesthandle
            response.ResponseHeader.ServiceResult = ua.StatusCode(Code.BadResponseTooLarge)
            data = struct_to_binary(response)
        self._transport.write(
            self._connection.message_to_binary(data, message_type=msgtype, request_id=seqhdr.RequestId)
        )

    def _answer_bytes_max(self) -> int:
        """Chunks the client takes times their size, or its message size, or ours; 0 stands for no limit."""
        stated = self._limits
        most = stated.max_message_size or self._guard.message_bytes
        if stated.max_chunk_count:
            most = min(most, stated.max_chunk_count * (stated.max_send_buffer - 512))
        return int(most)

    def get_publish_request(self, subscription_id: Any) -> Any:
        """A waiting Publish request, none while the client does not read."""
        if not self._transport.writable:
            self._publish_results_subs[subscription_id] = True
            return None
        return super().get_publish_request(subscription_id)

    def publish_request_limit(self, subscription_count: int) -> int:
        """Publish requests that may wait."""
        return self._guard.publish_requests
