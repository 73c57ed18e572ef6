"""The internal server: who is trusted, how many sessions, what is guarded. Written against asyncua 2.1.0."""

from __future__ import annotations

import contextvars
import functools
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any

from asyncua import ua
from asyncua.common.node import Node
from asyncua.common.utils import ServiceError
from asyncua.crypto.permission_rules import SimpleRoleRuleset, User, UserRole
from asyncua.server.address_space import MethodService
from asyncua.server.internal_server import InternalServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from fieldbus.opcua.certificates import TrustList, application_uris
from fieldbus.opcua.errors import CertificateError
from fieldbus.opcua.server.limits import Limits
from fieldbus.opcua.server.pace import Pace
from fieldbus.opcua.server.rate import Rates
from fieldbus.opcua.server.roles import Access
from fieldbus.opcua.server.session import GuardedSession
from fieldbus.opcua.server.signin import SignIn
from fieldbus.opcua.server.subscriptions import GuardedSubscriptions
from fieldbus.opcua.server.users import UserBook
from fieldbus.opcua.server.views import GuardedViews

_log = logging.getLogger(__name__)

Code = ua.StatusCodes
Services = ua.ObjectIds

_WRITING_SERVICES = frozenset(
    ua.NodeId(kind)
    for kind in (Services.WriteRequest_Encoding_DefaultBinary, Services.CallRequest_Encoding_DefaultBinary)
)

_REFUSALS = {
    "untrusted-certificate": Code.BadCertificateUntrusted,
    "certificate-expired": Code.BadCertificateTimeInvalid,
    "certificate-not-yet-valid": Code.BadCertificateTimeInvalid,
}


class TrustedUsers:
    """Who is on the channel, by its certificate. The user's name is ``writer`` or ``reader``."""

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


class WriterRules(SimpleRoleRuleset):  # type: ignore[misc]
    """On top of asyncua's own (no node management for users): without a user book, the writers write and call."""

    def __init__(self, *, by_node: bool) -> None:
        super().__init__()
        self._by_node = by_node
        self._permission_dict[UserRole.User].add(ua.NodeId(Services.BrowseNextRequest_Encoding_DefaultBinary))

    def check_validity(self, user: Any, action_type_id: Any, body: Any) -> bool:
        if not self._by_node and action_type_id in _WRITING_SERVICES and user.name != "writer":
            return False
        return bool(super().check_validity(user, action_type_id, body))


class _Methods(MethodService):  # type: ignore[misc]
    """Callbacks that are no coroutines run in a thread; there, too, ``Access.caller`` must work."""

    async def _run_method(self, func: Callable[..., Any], parent: Any, *args: Any) -> Any:
        context = contextvars.copy_context()
        return await super()._run_method(
            func if inspect.iscoroutinefunction(func) else functools.partial(context.run, func), parent, *args
        )


class GuardedInternalServer(InternalServer):  # type: ignore[misc]
    """asyncua's internal server with the parts exchanged that let too much through."""

    def __init__(
        self, *, trusted: TrustList, writers: TrustList | None, users: UserBook | None, limits: Limits
    ) -> None:
        self.trusted = trusted
        self.users = users
        self.guard = limits
        self.pace = Pace()
        self.access = Access()
        self.sign_in = SignIn(users) if users is not None else None
        super().__init__(user_manager=TrustedUsers(trusted, writers if writers is not None else trusted))
        self.method_service = _Methods(self.aspace)
        self.view_service = GuardedViews(self.aspace)
        self.subscription_service = GuardedSubscriptions(self.aspace, self, limits)
        self.isession.subscription_service = self.subscription_service
        self.allow_remote_admin = False
        self.min_session_timeout_ms = limits.session_ms_min
        self.max_session_timeout_ms = limits.session_ms_max
        self.max_subscriptions = limits.subscriptions
        self.max_monitored_item_queue_size = limits.queue_size
        self.max_connections = limits.connections
        self.note_lost: Callable[[GuardedSession, str], None] = _unheard
        """Told of a session that its client did not close, and of what it ended; the listener's."""
        self._activations = Rates(per_s=limits.activations_per_s, burst=8 * limits.activations_per_s)
        self._handshakes = Rates(per_s=limits.handshakes_per_s, burst=2 * limits.handshakes_per_s)

    def may_shake_hands(self, address: str) -> bool:
        """Whether one more OpenSecureChannel from there is within the rate."""
        return self._handshakes.take(address, time.monotonic())

    def may_activate(self, application_uri: str) -> bool:
        """Whether one more ActivateSession of this application is within the rate."""
        return self._activations.take(application_uri, time.monotonic())

    async def tell_limits(self) -> None:
        """Put the limits where clients read them (OPC 10000-5, 6.3.2 and 6.3.11), in place of asyncua's 10 000."""
        for path, value in _told(self.guard):
            node = Node(self.isession, ua.NodeId(getattr(Services, f"Server_ServerCapabilities_{path}")))
            await node.write_value(value)

    def lookup_external_session(self, auth_token: Any) -> None:
        """None: a session lives and dies with the channel it was made on.

        asyncua 2.1 attaches a live session to any channel that names its token before it checks who asks.
        """
        return

    def open_session(self, name: str, certificate: bytes, params: Any) -> GuardedSession:
        """A new session for the application with this channel certificate (DER).

        Raises ServiceError: not trusted, outside its term, another certificate or URI stated than the channel's,
        too many sessions.
        """
        parsed = self.application(certificate, label=f"the certificate of {params.ClientDescription.ApplicationUri}")
        if params.ClientCertificate != certificate:
            raise ServiceError(Code.BadCertificateInvalid)
        uri = params.ClientDescription.ApplicationUri
        if uri not in application_uris(parsed):
            raise ServiceError(Code.BadCertificateUriInvalid)
        sessions = list(self._external_sessions.values())
        thumbprint = parsed.fingerprint(hashes.SHA256())
        own = sum(session.thumbprint == thumbprint for session in sessions)
        if len(sessions) >= self.guard.sessions or own >= self.guard.sessions_per_application:
            raise ServiceError(Code.BadTooManySessions)
        return GuardedSession(self, name, application_uri=uri, thumbprint=thumbprint)

    def session_of(self, session_id: ua.NodeId) -> GuardedSession | None:
        """The living session with this identifier."""
        living: list[GuardedSession] = list(self._external_sessions.values())
        return next((session for session in living if session.session_id == session_id), None)

    def application(self, certificate: bytes, *, label: str) -> x509.Certificate:
        """The trusted certificate, or ServiceError."""
        try:
            parsed = x509.load_der_x509_certificate(certificate)
            self.trusted.check(parsed, label=label)
        except ValueError:
            raise ServiceError(Code.BadCertificateInvalid) from None
        except CertificateError as error:
            _log.warning("refused a client: %s", error)
            raise ServiceError(_REFUSALS.get(error.code, Code.BadSecurityChecksFailed)) from error
        return parsed


def _unheard(_session: GuardedSession, _reason: str) -> None:
    """Before there is a listener nobody has a session."""


def _told(limits: Limits) -> list[tuple[str, Any]]:
    operations = {
        "MaxNodesPerRead": limits.nodes_per_read,
        "MaxNodesPerWrite": limits.nodes_per_write,
        "MaxNodesPerMethodCall": limits.methods_per_call,
        "MaxNodesPerBrowse": limits.nodes_per_browse,
        "MaxNodesPerRegisterNodes": limits.nodes_per_register,
        "MaxNodesPerTranslateBrowsePathsToNodeIds": limits.nodes_per_translate,
        "MaxMonitoredItemsPerCall": limits.items_per_call,
    }
    told = [(f"OperationLimits_{name}", ua.Variant(value, ua.VariantType.UInt32)) for name, value in operations.items()]
    return [
        *told,
        ("MaxArrayLength", ua.Variant(limits.array_length, ua.VariantType.UInt32)),
        ("MaxStringLength", ua.Variant(limits.string_bytes, ua.VariantType.UInt32)),
        ("MaxBrowseContinuationPoints", ua.Variant(limits.continuation_points, ua.VariantType.UInt16)),
        ("MinSupportedSampleRate", ua.Variant(limits.publishing_ms_min, ua.VariantType.Double)),
    ]
