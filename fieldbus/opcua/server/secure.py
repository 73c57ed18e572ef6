"""``secure_server``: everything of this room put together.

Rules, and where each is enforced:

1. Basic256Sha256 and Aes256_Sha256_RsaPss, SignAndEncrypt (Sign only where asked), nothing without security
   (``channel``: an unsecured channel can ask for endpoints and nothing else).
2. CreateSession: the channel's own certificate, in the trust list, inside its term, with the application URI that the
   client states (``guard``); looked at again while the connection lives (``listener``).
3. ActivateSession: proof of the key, the trust list once more, then user name and password (``signin``).
4. A session is used on its channel, with its token, and touches its own subscriptions only (``channel``, ``session``).
5. Without a user book the ``writers`` write and call. With one, a node needs a rule, and what changes something
   needs a named user of the role at an application of the ``writers`` (``roles``, ``session``).
6. Written values have the variable's type and rank, are finite, good and of today (``writes``).
7. Everything is counted and bounded (``limits``), the bytes before they are decoded (``shape``, ``transport``).
"""

from __future__ import annotations

import datetime as dt
import logging
import socket
from dataclasses import dataclass
from typing import Any

from asyncua import Server, ua
from asyncua.crypto import security_policies, uacrypto
from asyncua.crypto.security_policies import SecurityPolicyFactory

from fieldbus.opcua.certificates import Identity, TrustList
from fieldbus.opcua.server.guard import GuardedInternalServer, WriterRules
from fieldbus.opcua.server.limits import Limits
from fieldbus.opcua.server.listener import GuardedBinaryServer
from fieldbus.opcua.server.users import UserBook

_log = logging.getLogger(__name__)

_POLICIES = (
    ua.SecurityPolicyType.Aes256Sha256RsaPss_SignAndEncrypt,
    ua.SecurityPolicyType.Basic256Sha256_SignAndEncrypt,
)
_SIGN_ONLY = (ua.SecurityPolicyType.Aes256Sha256RsaPss_Sign, ua.SecurityPolicyType.Basic256Sha256_Sign)


class GuardedServer(Server):  # type: ignore[misc]
    """asyncua's server on the guarded listener."""

    async def start(self) -> None:
        """Listen; raises OSError where the address is not to be had."""
        uacrypto.check_certificate(self.iserver.certificate, self._application_uri, socket.gethostname())
        await self._setup_server_nodes()
        await self.iserver.start()
        address, port = self._get_bind_socket_info()
        self.bserver = GuardedBinaryServer(self.iserver, address, port, self.limits)
        self.bserver.set_policies(self._policies)
        try:
            await self.bserver.start()
        except OSError:
            await self.iserver.stop()
            raise

    def _set_endpoints(self, policy: Any, mode: Any, level: int) -> None:
        """As asyncua's, but passwords are always encrypted under the endpoint's policy, not in Sign mode only."""
        super()._set_endpoints(policy, mode, level)
        for token in self.iserver.endpoints[-1].UserIdentityTokens:
            if token.TokenType == ua.UserTokenType.UserName:
                token.SecurityPolicyUri = policy.URI


@dataclass(frozen=True, slots=True)
class Product:
    """Whose server it is. No build date: nobody recorded one."""

    uri: str = "urn:sits-edge"
    manufacturer: str = "SITS Edge"
    name: str = "SITS Edge"
    version: str = ""


async def secure_server(
    url: str,
    *,
    identity: Identity,
    trusted: TrustList,
    writers: TrustList | None = None,
    users: UserBook | None = None,
    limits: Limits | None = None,
    name: str = "SITS Edge",
    product: Product | None = None,
    sign_only: bool = False,
) -> Any:
    """An initialised, not yet started ``asyncua.Server`` under the rules above.

    ``url``: ``opc.tcp://address:port/path`` to listen at. ``trusted``: applications that may connect and read.
    ``writers``: those that may also change something (default: all trusted); variables must be writable besides.
    ``users``: names, passwords and roles; without a book nobody signs in and the writers write and call.
    ``product``: what BuildInfo and the application's description say (OPC 10000-5, 12.5).
    ``sign_only``: also offer channels that are signed but not encrypted, for networks that are watched.
    Add nodes and rules (``Access.of(server).require``), then ``async with server:``. The caller has checked
    ``identity`` by loading it.
    """
    limits = limits if limits is not None else Limits()
    internal = GuardedInternalServer(trusted=trusted, writers=writers, users=users, limits=limits)
    server = GuardedServer(iserver=internal)
    server.set_server_name(name)
    product = product if product is not None else Product()
    server.product_uri, server.manufacturer_name = product.uri, product.manufacturer
    server.limits.max_message_size = limits.message_bytes
    server.limits.max_chunk_count = limits.chunks
    server.limits.max_recv_buffer = server.limits.max_send_buffer = limits.chunk_bytes
    await server.init()
    await internal.tell_limits()
    await server.set_build_info(
        product.uri, product.manufacturer, product.name, product.version, "", dt.datetime.fromtimestamp(0, dt.UTC)
    )
    await server.set_application_uri(identity.application_uri)
    server.set_endpoint(url)
    policies = [*_POLICIES, *(_SIGN_ONLY if sign_only else ())]
    server.set_security_policy(policies, permission_ruleset=WriterRules(by_node=users is not None))
    tokens = [ua.AnonymousIdentityToken, *([ua.UserNameIdentityToken] if users is not None else [])]
    server.set_identity_tokens(tokens)  # anonymous: the application certificate is the identity
    await server.load_certificate(str(identity.certificate_path))
    await server.load_private_key(identity.key_path)
    return server


async def reload_identity(server: Any, identity: Identity) -> None:
    """Use a renewed certificate and key for new channels; living ones go on with the old.

    The caller has checked ``identity`` by loading it; its application URI is the old one.
    """
    await server.load_certificate(str(identity.certificate_path))
    await server.load_private_key(identity.key_path)
    certificate = server.iserver.certificate
    der = uacrypto.der_from_x509(certificate)
    for endpoint in server.iserver.endpoints:
        endpoint.ServerCertificate = der
    fresh = []
    for kind in server._security_policy:
        policy, mode, _ = security_policies.SECURITY_POLICY_TYPE_MAP[kind]
        fresh.append(
            SecurityPolicyFactory(
                policy, mode, certificate, server.iserver.private_key, permission_ruleset=server._permission_ruleset
            )
        )
    server._policies = fresh
    if server.bserver is not None:
        server.bserver.set_policies(fresh)


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """One client: its application, the user that signed in (or empty), where from."""

    application_uri: str
    user: str
    address: str


@dataclass(frozen=True, slots=True)
class Figures:
    """What a running server holds; connections it refused or cut off and sessions it lost, by reason; how often its
    event loop was held up, and at most how long (s).
    """

    connections: int
    sessions: tuple[SessionFigures, ...]
    subscriptions: int
    items: int
    refused: dict[str, int]
    lost: dict[str, int]
    stalls: int
    stall_s_max: float


def figures(server: Any) -> Figures:
    """For snapshots of a server made by ``secure_server``; all zero before it is started."""
    internal, listener = server.iserver, server.bserver
    sessions = tuple(
        SessionFigures(session.application_uri, session.grant.name if session.grant else "", session.name)
        for session in internal._external_sessions.values()
        if session.is_activated()
    )
    service = internal.subscription_service
    return Figures(
        connections=0 if listener is None else len(listener.clients),
        sessions=sessions,
        subscriptions=len(service.subscriptions),
        items=service.items(),
        refused={} if listener is None else dict(listener.counts),
        lost={} if listener is None else dict(listener.lost),
        stalls=0 if listener is None else listener.stalls,
        stall_s_max=internal.pace.longest.late_s,
    )
