"""An asyncua server that only trusted applications can use.

Rules, and where each is enforced:

1. Basic256Sha256 with SignAndEncrypt is the only policy offered.
2. CreateSession: the client certificate is in the trust list, inside its term, and carries the
   application URI that the client states (certificate validator).
3. ActivateSession: the certificate *of the secure channel* is checked again, because asyncua compares it
   with none; a channel without certificate (which asyncua 2.1 opens for discovery although no such policy
   is offered) is refused here, so it can ask for endpoints and nothing else (user manager).
4. Sessions never move to another channel. asyncua 2.1 attaches a live session to any channel that names
   its token before it checks who asks, and its tokens are small numbers: a foreigner on an unsecured
   channel could write with a trusted client's rights (internal server).
5. Write and Call need the right to write, by a list of their own (permission rules).
6. Messages, connections and idle channels are bounded.
"""

from __future__ import annotations

import logging
from typing import Any

from asyncua import Server, ua
from asyncua.common.utils import ServiceError
from asyncua.crypto.permission_rules import SimpleRoleRuleset, User, UserRole
from asyncua.server.internal_server import InternalServer
from cryptography import x509

from fieldbus.opcua.certificates import Identity, TrustList, application_uris
from fieldbus.opcua.errors import CertificateError

_log = logging.getLogger(__name__)

MESSAGE_BYTES_MAX = 1_048_576
"""One request or answer; asyncua's own limit of 100 MB is a way to fill the memory."""

CHUNKS_MAX = 32
CONNECTIONS_MAX = 64
ACTIVATION_S_MAX = 10.0
"""A connection without activated session is closed after this long."""

PUBLISHING_QUEUE_MAX = 1_000
SUBSCRIPTIONS_MAX = 64

_WRITING_SERVICES = frozenset(
    ua.NodeId(kind)
    for kind in (
        ua.ObjectIds.WriteRequest_Encoding_DefaultBinary,
        ua.ObjectIds.CallRequest_Encoding_DefaultBinary,
        ua.ObjectIds.HistoryUpdateRequest_Encoding_DefaultBinary,
    )
)

_REFUSALS = {
    "untrusted-certificate": ua.StatusCodes.BadCertificateUntrusted,
    "certificate-expired": ua.StatusCodes.BadCertificateTimeInvalid,
    "certificate-not-yet-valid": ua.StatusCodes.BadCertificateTimeInvalid,
}


class _TrustedUsers:
    """Rule 3: who is on the channel. The user's name is ``writer`` or ``reader``."""

    def __init__(self, trusted: TrustList, writers: TrustList) -> None:
        self._trusted = trusted
        self._writers = writers

    def get_user(
        self,
        iserver: Any,
        username: str | None = None,
        password: str | None = None,
        certificate: bytes | None = None,
    ) -> Any:
        """The user of a channel with this DER certificate, or None to refuse."""
        if not certificate:
            _log.warning("refused a session on a channel without certificate")
            return None
        try:
            parsed = x509.load_der_x509_certificate(certificate)
            self._trusted.check(parsed, label="the client certificate")
        except (CertificateError, ValueError) as error:
            _log.warning("refused a session: %s", error)
            return None
        return User(role=UserRole.User, name="writer" if self._may_write(parsed) else "reader")

    def _may_write(self, certificate: x509.Certificate) -> bool:
        try:
            self._writers.check(certificate, label="the client certificate")
        except CertificateError:
            return False
        return True


class _WriterRules(SimpleRoleRuleset):  # type: ignore[misc]
    """Rule 5, on top of asyncua's own (no node management for users)."""

    def check_validity(self, user: Any, action_type_id: Any, body: Any) -> bool:
        if action_type_id in _WRITING_SERVICES and user.name != "writer":
            return False
        return bool(super().check_validity(user, action_type_id, body))


class _BoundInternalServer(InternalServer):  # type: ignore[misc]
    """Rule 4: a session lives and dies with the channel it was made on."""

    def lookup_external_session(self, auth_token: Any) -> None:
        return None


async def secure_server(
    url: str,
    *,
    identity: Identity,
    trusted: TrustList,
    writers: TrustList | None = None,
    name: str = "SITS Edge",
) -> Any:
    """An initialised, not yet started ``asyncua.Server`` under the rules above.

    ``url``: ``opc.tcp://address:port/path`` to listen at. ``trusted``: applications that may connect and
    read. ``writers``: those that may also write (default: all trusted); variables must be writable besides.
    Add nodes, then ``async with server:``. The caller has checked ``identity`` by loading it.
    """
    internal = _BoundInternalServer(user_manager=_TrustedUsers(trusted, writers if writers is not None else trusted))
    internal.max_connections = CONNECTIONS_MAX
    internal.max_pending_activation_seconds = ACTIVATION_S_MAX
    internal.max_monitored_item_queue_size = PUBLISHING_QUEUE_MAX
    internal.max_subscriptions = SUBSCRIPTIONS_MAX
    server = Server(iserver=internal)
    server.set_server_name(name)
    server.limits.max_message_size = MESSAGE_BYTES_MAX
    server.limits.max_chunk_count = CHUNKS_MAX
    await server.init()
    await server.set_application_uri(identity.application_uri)
    server.set_endpoint(url)
    server.set_security_policy([ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt], permission_ruleset=_WriterRules())
    server.set_identity_tokens([ua.AnonymousIdentityToken])  # the application certificate is the identity
    server.set_certificate_validator(_validator(trusted))
    internal.allow_remote_admin = False
    await server.load_certificate(str(identity.certificate_path))
    await server.load_private_key(identity.key_path)
    return server


def _validator(trusted: TrustList) -> Any:
    async def validate(certificate: x509.Certificate, description: Any) -> None:
        """Rule 2."""
        try:
            trusted.check(certificate, label=f"the certificate of {description.ApplicationUri}")
        except CertificateError as error:
            _log.warning("refused a client: %s", error)
            raise ServiceError(_REFUSALS.get(error.code, ua.StatusCodes.BadSecurityChecksFailed)) from error
        if description.ApplicationUri not in application_uris(certificate):
            raise ServiceError(ua.StatusCodes.BadCertificateUriInvalid)

    return validate
