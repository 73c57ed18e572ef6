"""SecureClient: a supervised OPC UA client that writes and reads named tags over an encrypted, pinned channel."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from asyncua import Client, ua
from asyncua.crypto.security_policies import SecurityPolicyBasic256Sha256

from fieldbus.opcua.certificates import Identity, check_validity, load_certificate
from fieldbus.opcua.discovery import refuse_other_server
from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS, status_error, transport_error
from fieldbus.opcua.nodes import ResolvedNode, resolve
from fieldbus.opcua.subscription import SubscriptionOptions, ValueSubscription
from fieldbus.opcua.values import ReadResult, TagValue, WriteResult, from_data_value, to_variant

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

SESSION_MS = 60_000
"""How long a server keeps our session if we vanish: long enough for a hiccup, short enough to free its slots."""


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """Waits between attempts double from ``first_s`` to ``max_s``, each shortened by up to half at random so
    that several clients do not return in step."""

    first_s: float = 0.2
    max_s: float = 10.0
    health_s: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.first_s <= self.max_s and self.health_s > 0):
            raise ValueError("reconnect times must be positive and first_s at most max_s")


class SecureClient:
    """One server, its tags, and a connection that comes back by itself.

    ``tags``: name → browse path from the Objects folder, ``"Folder/Object/Variable"``, every element in
    ``namespace_uri`` (whose index is asked of the server on every connect). ``server_certificate`` is pinned:
    a server without that very key is never talked to. While the connection is down every call fails at once
    with ``not-connected``; nothing is queued, so nothing old is ever written late.
    """

    def __init__(
        self,
        url: str,
        *,
        identity: Identity,
        server_certificate: Path,
        namespace_uri: str,
        tags: Mapping[str, str],
        deadline_s: float = 2.0,
        reconnect: ReconnectPolicy | None = None,
    ) -> None:
        if not deadline_s > 0:
            raise ValueError("deadline_s must be positive")
        self._url = url
        self._identity = identity
        self._server_certificate = server_certificate
        self._namespace_uri = namespace_uri
        self._tags = dict(tags)
        self._deadline_s = deadline_s
        self._reconnect = reconnect or ReconnectPolicy()
        self._client: Any = None
        self._nodes: dict[str, ResolvedNode] = {}
        self._lost = asyncio.Event()
        self._changed = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._closing = False
        self._subscriptions: list[ValueSubscription] = []
        self.connects_total = 0
        """Successful connects, the first included."""
        self.last_error: OpcUaError | None = None
        """Why the last (re)connect failed; None while connected."""

    @property
    def connected(self) -> bool:
        """True while a session is up as far as is known."""
        return self._client is not None

    @property
    def missing(self) -> tuple[str, ...]:
        """Tags that the connected server does not have."""
        return tuple(tag for tag in self._tags if tag not in self._nodes) if self.connected else ()

    async def connect(self) -> None:
        """Connect once, within ``deadline_s``, and keep connected from then on.

        Raises OpcUaError (``connection-refused``, ``deadline``, ``untrusted-certificate``,
        ``certificate-expired``, ``security-checks-failed``, ``namespace-missing``, ``node-missing`` with the
        tag and path, …) or CertificateError for our own files; then nothing is left running.
        """
        if self._supervisor is not None:
            raise OpcUaError("already-connected", found="a second connect", expected="one per client")
        await self._connect_once()
        if self.missing:
            paths = ", ".join(f"{tag} ({self._tags[tag]})" for tag in self.missing)
            await self._drop()
            raise OpcUaError(
                "node-missing",
                found=f"no node for {paths}",
                expected=f"the browse path under Objects in {self._namespace_uri}",
                hint="compare the path with the server's address space",
            )
        self._supervisor = asyncio.create_task(self._supervise(), name="opcua-supervisor")

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until connected; False after ``timeout_s``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.connected:
                    self._changed.clear()
                    await self._changed.wait()
        return self.connected

    async def close(self) -> None:
        """Close subscriptions, session and channel; a second call does nothing."""
        supervisor, self._supervisor = self._supervisor, None
        self._closing = True
        self._lost.set()
        while supervisor is not None and not supervisor.done():
            # Again and again: inside a connection attempt the library may swallow a cancellation.
            supervisor.cancel()
            await asyncio.wait([supervisor], timeout=CLOSE_S_MAX)
        for subscription in self._subscriptions:
            await subscription.close()
        self._subscriptions.clear()
        await self._drop()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def write_many(self, values: Mapping[str, TagValue]) -> tuple[WriteResult, ...]:
        """Write all ``values`` (tag → value) in one Write service call; one status per tag, in order.

        Types must be the variables' own. Raises OpcUaError before anything is sent: ``not-connected``,
        ``unknown-tag``, ``node-missing``, ``value-type``, ``value-range``; or after: ``deadline``,
        ``connection-lost`` (outcome unknown: read back), ``access-denied``, ….
        """
        client = self._require()
        params = ua.WriteParameters()
        for tag, value in values.items():
            node = self._node(tag)
            item = ua.WriteValue()
            item.NodeId = node.node_id
            item.AttributeId = ua.AttributeIds.Value
            # Value alone: many PLCs refuse a write that brings its own status or timestamp.
            item.Value = ua.DataValue(to_variant(tag, value, node.variant_type), StatusCode=None)
            params.NodesToWrite.append(item)
        results = await self._call(client.uaclient.session.write(params), doing="writing")
        return tuple(WriteResult(tag, int(status.value)) for tag, status in zip(values, results, strict=True))

    async def read_many(self, tags: Sequence[str]) -> tuple[ReadResult, ...]:
        """Read all ``tags`` in one Read service call, with status and both timestamps. Raises as write_many."""
        client = self._require()
        params = ua.ReadParameters()
        params.TimestampsToReturn = ua.TimestampsToReturn.Both
        for tag in tags:
            item = ua.ReadValueId()
            item.NodeId = self._node(tag).node_id
            item.AttributeId = ua.AttributeIds.Value
            params.NodesToRead.append(item)
        results = await self._call(client.uaclient.session.read(params), doing="reading")
        return tuple(from_data_value(tag, value) for tag, value in zip(tags, results, strict=True))

    async def subscribe(self, tags: Sequence[str], options: SubscriptionOptions | None = None) -> ValueSubscription:
        """Have the server push changes of ``tags``; see ``ValueSubscription``. Raises as write_many."""
        client = self._require()
        nodes = {tag: self._node(tag).node_id for tag in tags}
        subscription = ValueSubscription(tuple(tags), options or SubscriptionOptions())
        await self._call(subscription.start(client.uaclient.session, nodes), doing="subscribing")
        self._subscriptions.append(subscription)
        return subscription

    def _require(self) -> Any:
        if self._client is None:
            raise OpcUaError(
                "not-connected",
                found=f"no connection to {self._url}" + (f": {self.last_error}" if self.last_error else ""),
                expected="a connected client",
                hint="the connection is retried by itself",
            )
        return self._client

    def _node(self, tag: str) -> ResolvedNode:
        node = self._nodes.get(tag)
        if node is not None:
            return node
        if tag in self._tags:
            raise OpcUaError(
                "node-missing",
                found=f"no node at {self._tags[tag]} on the server now",
                expected=f"tag {tag}",
                hint="the server was restarted with another address space",
            )
        raise OpcUaError("unknown-tag", found=repr(tag), expected=f"one of {', '.join(self._tags)}")

    async def _call(self, call: Awaitable[_T], *, doing: str) -> _T:
        """Await a service call; its failures become OpcUaErrors, and a dead connection is noticed."""
        try:
            async with asyncio.timeout(self._deadline_s):
                return await call
        except ua.UaStatusCodeError as error:
            if error.code in _SESSION_GONE:
                self._lost.set()
            raise status_error(int(error.code), doing=doing) from error
        except TimeoutError as error:
            raise transport_error(error, doing=doing, url=self._url) from error
        except PEER_ERRORS as error:
            self._lost.set()
            raise transport_error(error, doing=doing, url=self._url) from error

    async def _connect_once(self) -> None:
        """One attempt: certificates, channel, session, namespace, nodes, subscriptions."""
        check_validity(self._identity.certificate, label=str(self._identity.certificate_path))
        server_certificate = load_certificate(self._server_certificate)
        check_validity(server_certificate, label=str(self._server_certificate))
        client = Client(self._url, timeout=self._deadline_s, watchdog_intervall=self._reconnect.health_s)
        client.name = client.description = "SITS Edge"
        client.application_uri = self._identity.application_uri
        client.session_timeout = SESSION_MS
        self._lost = asyncio.Event()
        client.connection_lost_callback = _setter(self._lost)
        established = done = False
        try:
            async with asyncio.timeout(self._deadline_s):
                await client.set_security(
                    SecurityPolicyBasic256Sha256,
                    certificate=self._identity.certificate_path,
                    private_key=self._identity.key_path,
                    server_certificate=str(self._server_certificate),
                    mode=ua.MessageSecurityMode.SignAndEncrypt,
                )
                await client.connect()
                established = True
                nodes = await resolve(client, self._namespace_uri, self._tags)
                self._subscriptions = [item for item in self._subscriptions if not item.closed]
                for subscription in self._subscriptions:
                    found = {tag: nodes[tag].node_id for tag in subscription.tags if tag in nodes}
                    await subscription.start(client.uaclient.session, found)
                done = True
        except ua.UaStatusCodeError as error:
            if error.code == ua.StatusCodes.BadSecurityChecksFailed:
                await refuse_other_server(self._url, server_certificate, deadline_s=self._deadline_s)
            raise status_error(int(error.code), doing=f"connecting to {self._url}") from error
        except ConnectionRefusedError as error:
            raise transport_error(error, doing="connecting", url=self._url) from error
        except PEER_ERRORS as error:
            await refuse_other_server(self._url, server_certificate, deadline_s=self._deadline_s)
            raise transport_error(error, doing="connecting", url=self._url) from error
        finally:
            if established and not done:
                await _shut(client)
            elif not done:
                client.disconnect_socket()
        self._client, self._nodes = client, nodes
        self.connects_total += 1
        self.last_error = None
        self._changed.set()

    async def _drop(self) -> None:
        client, self._client = self._client, None
        self._nodes = {}
        if client is not None:
            await _shut(client)

    async def _supervise(self) -> None:
        """Until cancelled: wait for a loss, then try again with growing waits."""
        while not self._closing:
            await self._lost.wait()
            if self._closing:
                return
            self.last_error = OpcUaError(
                "connection-lost", found=f"the connection to {self._url} broke", expected="a working one"
            )
            await self._drop()
            wait_s = self._reconnect.first_s
            while not self.connected and not self._closing:
                try:
                    await self._connect_once()
                except OpcUaError as error:
                    self.last_error = error
                    _log.warning("reconnect failed: %s", error)
                    await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, no secret
                    wait_s = min(wait_s * 2, self._reconnect.max_s)
            if self.missing:
                _log.warning("after the reconnect the server lacks %s", ", ".join(self.missing))


_SESSION_GONE = frozenset(
    {
        ua.StatusCodes.BadSessionIdInvalid,
        ua.StatusCodes.BadSessionClosed,
        ua.StatusCodes.BadSecureChannelIdInvalid,
        ua.StatusCodes.BadSecureChannelClosed,
        ua.StatusCodes.BadConnectionClosed,
        ua.StatusCodes.BadServerHalted,
        ua.StatusCodes.BadShutdown,
    }
)

CLOSE_S_MAX = 1.0
"""A peer that does not answer the goodbye is left after this long."""


def _setter(event: asyncio.Event) -> Any:
    async def lost(_: Exception) -> None:
        event.set()

    return lost


async def _shut(client: Any) -> None:
    """Close session, channel and socket as far as the peer lets us."""
    try:
        async with asyncio.timeout(CLOSE_S_MAX):
            await client.disconnect()
    except PEER_ERRORS:
        client.disconnect_socket()
