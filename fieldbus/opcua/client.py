"""SecureClient: a supervised OPC UA client that writes and reads named tags over an encrypted, pinned channel."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from asyncua import ua

from fieldbus.opcua.certificates import CertificateTerm, Identity, term
from fieldbus.opcua.connection import Connection, Target, open_connection
from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.establish import CLOSE_S_MAX, Peer, shut
from fieldbus.opcua.failures import PEER_ERRORS, SESSION_GONE, status_error, transport_error
from fieldbus.opcua.findings import Finding, named
from fieldbus.opcua.inspection import ServerFacts, describe
from fieldbus.opcua.nodes import ResolvedNode, absent_nodes
from fieldbus.opcua.options import SubscriptionOptions
from fieldbus.opcua.own_identity import REFUSED_CERTIFICATE, SharedIdentity
from fieldbus.opcua.policies import PolicyChoice, ReconnectPolicy
from fieldbus.opcua.publishing import PublisherCounts
from fieldbus.opcua.renewal import Renewal
from fieldbus.opcua.subscription import ValueSubscription
from fieldbus.opcua.user import UserCredential
from fieldbus.opcua.values import ReadResult, TagValue, WriteResult, from_data_value, to_variant

__all__ = ["ReconnectPolicy", "SecureClient"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

EXPIRY_WARNING_DAYS = 30
"""From when on an ending certificate is a finding: time for a person to carry a new one to the peer."""


class SecureClient:
    """One server, its tags, and a connection that comes back by itself.

    ``tags``: name → browse path from the Objects folder, ``"Folder/Object/Variable"``, each name in ``namespace_uri``
    unless it says ``nsu=URI;Name`` (see ``paths``); indices are asked of the server anew. ``server_certificate`` is
    pinned:
    a server without that very key is never talked to; ``next_server_certificate`` is one that it may have from some
    day on. While the connection is down every call fails at once with ``not-connected``; nothing is queued, so
    nothing old is ever written late. ``missing_ok``: the first connect need not find every tag either; what is
    missing is looked for every ``verify_s``, tags of a namespace that the server lacks too. ``renewal``: where the next
    certificate of our own lies or is made; clients that share one certificate are given one ``SharedIdentity`` instead.
    """

    def __init__(
        self,
        url: str,
        *,
        identity: Identity | SharedIdentity,
        server_certificate: Path,
        namespace_uri: str,
        tags: Mapping[str, str],
        deadline_s: float = 2.0,
        reconnect: ReconnectPolicy | None = None,
        policy: PolicyChoice = PolicyChoice.BASIC256SHA256,
        user: UserCredential | None = None,
        missing_ok: bool = False,
        next_server_certificate: Path | None = None,
        renewal: Renewal | None = None,
        token_lifetime_s: float = 3_600.0,
    ) -> None:
        if not deadline_s > 0 or not token_lifetime_s > 0:
            raise ValueError("deadline_s and token_lifetime_s must be positive")
        if isinstance(identity, SharedIdentity):
            if renewal is not None:
                raise ValueError("a shared identity has a renewal of its own")
        else:
            identity = SharedIdentity(identity, renewal)
        pins = (
            (server_certificate,) if next_server_certificate is None else (server_certificate, next_server_certificate)
        )
        self._url = url
        self._tags = dict(tags)
        self._deadline_s = deadline_s
        self._reconnect = reconnect or ReconnectPolicy()
        peer = Peer(url, policy, user, token_lifetime_s)
        self._target = Target(peer, pins, namespace_uri, self._tags, self._reconnect, deadline_s)
        self._own = identity.join()
        self._server_terms: tuple[CertificateTerm, ...] = ()
        self._missing_ok = missing_ok
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._prober: asyncio.Task[None] | None = None
        self._closing = False
        self._subscriptions: list[ValueSubscription] = []
        self._connected_s = float("-inf")
        self.connects_total = 0
        """Successful connects, the first included."""
        self.last_error: OpcUaError | None = None
        """Why the last (re)connect failed; None while connected."""

    @property
    def connected(self) -> bool:
        """True while a session is up as far as is known."""
        return self._connection is not None

    @property
    def in_service(self) -> bool:
        """True while connected to a server that says it is running and has data."""
        return self._connection is not None and self._connection.guard.in_service

    @property
    def missing(self) -> tuple[str, ...]:
        """Tags that the connected server does not have."""
        connection = self._connection
        return () if connection is None else tuple(tag for tag in self._tags if tag not in connection.nodes)

    @property
    def missing_namespaces(self) -> Mapping[str, str]:
        """Those of ``missing`` whose path goes through a namespace that the server lacks: tag → the URI."""
        return {} if self._connection is None else dict(self._connection.table.foreign)

    @property
    def publisher_counts(self) -> PublisherCounts:
        """Republished, lost and unknown notifications and faults, over all connections."""
        return self._target.counts

    @property
    def identity(self) -> Identity:
        """Who we are; another one after a renewal."""
        return self._own.current

    @property
    def certificates(self) -> tuple[CertificateTerm, ...]:
        """Our certificate, the server's pinned ones as of the last connect, and our next one: for snapshots."""
        own, *following = self._own.terms
        return (own, *self._server_terms, *following)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a person should know: the server's (see ``Guard``), the subscriptions' (see ``ValueSubscription``),
        ``node-missing``, ``namespace-missing``, ``certificate-expiry``, ``certificate-renewal``."""
        found = [] if self._connection is None else list(self._connection.guard.findings)
        for subscription in self._subscriptions:
            found += subscription.findings
        foreign = self.missing_namespaces
        if absent := [tag for tag in self.missing if tag not in foreign]:
            found.append(Finding("node-missing", f"the server has no node for {named(absent)}"))
        if foreign:
            lacking = named([f"{uri} of {tag}" for tag, uri in foreign.items()])
            found.append(Finding("namespace-missing", f"the server has no namespace {lacking}"))
        found += [
            Finding("certificate-expiry", f"the {item.label} certificate ends in {item.days_left} days")
            for item in self.certificates
            if item.days_left < EXPIRY_WARNING_DAYS
        ]
        return (*found, *self._own.findings)

    async def connect(self) -> None:
        """Connect once, within ``deadline_s``, and keep connected from then on.

        Raises OpcUaError (``connection-refused``, ``deadline``, ``untrusted-certificate``,
        ``certificate-expired``, ``security-checks-failed``, ``security-policy``, ``policy-downgrade``,
        ``identity-rejected``, ``namespace-missing``, ``node-missing`` or ``index-range`` with the tag and path, …) or
        CertificateError for our own files; then nothing is left running.
        """
        if self._supervisor is not None:
            raise OpcUaError("already-connected", found="a second connect", expected="one per client")
        await self._connect_once()
        if self.missing and not self._missing_ok:
            error = absent_nodes(
                {tag: self._tags[tag] for tag in self.missing}, self._target.namespace_uri, self.missing_namespaces
            )
            await self._drop()
            raise error
        self._supervisor = asyncio.create_task(self._supervise(), name="opcua-supervisor")
        if self._own.renewal is not None:
            self._prober = asyncio.create_task(self._probe_renewal(self._own.renewal), name="opcua-renewal")

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
        while supervisor is not None and not supervisor.done():
            # Again and again: inside a connection attempt the library may swallow a cancellation.
            supervisor.cancel()
            await asyncio.wait([supervisor], timeout=CLOSE_S_MAX)
        prober, self._prober = self._prober, None
        if prober is not None:
            prober.cancel()
            await asyncio.gather(prober, return_exceptions=True)
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
        session = self._require().client.uaclient.session
        params = ua.WriteParameters()
        for tag, value in values.items():
            node = self._node(tag)
            item = ua.WriteValue()
            item.NodeId = node.node_id
            item.AttributeId = ua.AttributeIds.Value
            # Value alone: many PLCs refuse a write that brings its own status or timestamp.
            item.Value = ua.DataValue(to_variant(tag, value, node.variant_type), StatusCode=None)
            params.NodesToWrite.append(item)
        results = await self._call(session.write(params), doing="writing")
        return tuple(WriteResult(tag, int(status.value)) for tag, status in zip(values, results, strict=True))

    async def read_many(self, tags: Sequence[str]) -> tuple[ReadResult, ...]:
        """Read all ``tags`` in one Read service call, with status and both timestamps. Raises as write_many."""
        session = self._require().client.uaclient.session
        params = ua.ReadParameters()
        params.TimestampsToReturn = ua.TimestampsToReturn.Both
        for tag in tags:
            item = ua.ReadValueId()
            item.NodeId = self._node(tag).node_id
            item.AttributeId = ua.AttributeIds.Value
            params.NodesToRead.append(item)
        results = await self._call(session.read(params), doing="reading")
        return tuple(from_data_value(tag, value) for tag, value in zip(tags, results, strict=True))

    async def describe(self) -> ServerFacts:
        """What the server says of itself and of the tags it has. Raises as write_many."""
        connection = self._require()
        call = describe(connection.client.uaclient.session, connection.nodes)
        return await self._call(call, doing="describing")

    async def subscribe(self, tags: Sequence[str], options: SubscriptionOptions | None = None) -> ValueSubscription:
        """Have the server push changes of ``tags``; see ``ValueSubscription``. Raises as write_many."""
        connection = self._require()
        nodes = {tag: self._node(tag).node_id for tag in tags if not (self._missing_ok and tag in self.missing)}
        subscription = ValueSubscription(tuple(tags), options or SubscriptionOptions())
        subscription.on_lost = self._notice
        connection.guard.apply_to(subscription)
        self._subscriptions[:] = [item for item in self._subscriptions if not item.closed]
        self._subscriptions.append(subscription)
        try:
            session = connection.client.uaclient.session
            await self._call(subscription.start(connection.publisher, session, nodes), doing="subscribing")
        except BaseException:
            self._subscriptions.remove(subscription)
            await subscription.close()
            raise
        return subscription

    def _notice(self) -> None:
        if self._connection is not None:
            self._connection.guard.notice()

    def _require(self) -> Connection:
        if self._connection is None:
            raise OpcUaError(
                "not-connected",
                found=f"no connection to {self._url}" + (f": {self.last_error}" if self.last_error else ""),
                expected="a connected client",
                hint="the connection is retried by itself",
            )
        return self._connection

    def _node(self, tag: str) -> ResolvedNode:
        node = self._require().nodes.get(tag)
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
        lost = self._require().lost
        try:
            async with asyncio.timeout(self._deadline_s):
                return await call
        except ua.UaStatusCodeError as error:
            if error.code in SESSION_GONE:
                lost.set()
            raise status_error(int(error.code), doing=doing) from error
        except TimeoutError as error:
            raise transport_error(error, doing=doing, url=self._url) from error
        except PEER_ERRORS as error:
            lost.set()
            raise transport_error(error, doing=doing, url=self._url) from error

    async def _connect_once(self) -> None:
        """One attempt: certificates, channel, session, namespace, nodes, subscriptions.

        With a next certificate of our own, the other one is tried where the first is refused or has ended.
        """
        await self._own.look()
        first, *others = self._own.choices()
        try:
            await self._connect_as(first)
            return
        except OpcUaError as error:
            if not others or error.code not in REFUSED_CERTIFICATE:
                raise
            self._own.refused(first)
        await self._connect_as(others[0])
        await self._own.accepted(others[0])

    async def _connect_as(self, identity: Identity) -> None:
        labels = ("server", "server-next")
        pins = self._target.pinned()
        self._server_terms = tuple(term(pin, label=label) for pin, label in zip(pins, labels, strict=False))
        self._subscriptions = [item for item in self._subscriptions if not item.closed]
        self._connection = await open_connection(self._target, identity, self._subscriptions)
        self._connected_s = time.monotonic()
        self.connects_total += 1
        self.last_error = None
        self._changed.set()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close(self._subscriptions)

    async def _supervise(self) -> None:
        """Until cancelled: wait for a loss, then try again with growing waits."""
        wait_s = 0.0
        while not self._closing and self._connection is not None:
            await self._connection.lost.wait()
            self.last_error = OpcUaError(
                "connection-lost", found=f"the connection to {self._url} broke", expected="a working one"
            )
            await self._drop()
            if time.monotonic() - self._connected_s > self._reconnect.max_s:
                wait_s = 0.0  # it was a good connection: the first attempt comes at once
            while not self.connected and not self._closing:
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, no secret
                wait_s = min(max(wait_s * 2, self._reconnect.first_s), self._reconnect.max_s)
                try:
                    await self._connect_once()
                except OpcUaError as error:
                    self.last_error = error
                    _log.warning("reconnect failed: %s", error)
            if self.missing:
                _log.warning("after the reconnect the server lacks %s", named(self.missing))

    async def _probe_renewal(self, renewal: Renewal) -> None:
        """Make the next certificate in time, and take it up once the server has accepted a session under it."""
        while True:
            try:
                following = await self._own.prepare()
                if following is not None and self.connected and not self._own.has_accepted:
                    await shut(await self._target.establish(following, on_lost=_ignore))
                    await self._own.accepted(following)
            except OpcUaError as error:
                _log.info("the next certificate waits: %s", error)
            await asyncio.sleep(renewal.probe_s)


def _ignore() -> None:
    """A probe's connection may end as it likes."""
