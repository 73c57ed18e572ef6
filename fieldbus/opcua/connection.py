"""One established connection: session, publisher, guard and the nodes of the tags, opened and closed as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asyncua import ua
from cryptography import x509

from fieldbus.opcua.certificates import Identity, check_validity, load_certificate
from fieldbus.opcua.establish import Peer, establish, key_of, pinned_now, shut
from fieldbus.opcua.failures import PEER_ERRORS, status_error, transport_error
from fieldbus.opcua.guard import Guard
from fieldbus.opcua.nodes import NodeTable, ResolvedNode, resolve
from fieldbus.opcua.policies import ReconnectPolicy
from fieldbus.opcua.publishing import Publisher, PublisherCounts
from fieldbus.opcua.subscription import ValueSubscription


@dataclass(frozen=True, slots=True)
class Target:
    """A server and what is wanted of it; ``pins``: certificates it may have."""

    peer: Peer
    pins: tuple[Path, ...]
    namespace_uri: str
    tags: Mapping[str, str]
    policy: ReconnectPolicy
    deadline_s: float
    counts: PublisherCounts = field(default_factory=PublisherCounts)

    def pinned(self) -> list[x509.Certificate]:
        """The pinned certificates, read anew. Raises CertificateError."""
        return [load_certificate(pin) for pin in self.pins]

    async def establish(self, identity: Identity, *, on_lost: Callable[[], None]) -> Any:
        """A session as ``identity``, with every certificate checked first. Raises OpcUaError."""
        check_validity(identity.certificate, label=str(identity.certificate_path))
        key = key_of(identity)
        pins = self.pinned()
        server = await pinned_now(self.peer.url, pins, deadline_s=self.deadline_s)
        check_validity(server, label=str(self.pins[pins.index(server)]))
        return await establish(
            self.peer, identity=identity, key=key, server=server, deadline_s=self.deadline_s, on_lost=on_lost
        )


@dataclass(frozen=True, slots=True)
class Connection:
    """``lost`` is set when it has ended; ``table`` is kept up to date by ``guard``."""

    client: Any
    publisher: Publisher
    guard: Guard
    table: NodeTable
    lost: asyncio.Event

    @property
    def nodes(self) -> Mapping[str, ResolvedNode]:
        """The tags that the server has now."""
        return self.table.found

    async def close(self, subscriptions: list[ValueSubscription]) -> None:
        """End it; every tag is bad before anything is waited for."""
        for subscription in subscriptions:
            subscription.cut()
        await self.guard.close()
        await self.publisher.close()
        await shut(self.client)


async def open_connection(target: Target, identity: Identity, subscriptions: list[ValueSubscription]) -> Connection:
    """Connect, resolve every tag, make every subscription anew, begin to watch. Raises OpcUaError; then nothing is
    left open. ``subscriptions`` stays the caller's: the guard watches what is added to it later."""
    lost = asyncio.Event()
    client = await target.establish(identity, on_lost=lost.set)
    session = client.uaclient.session
    table = NodeTable()
    nodes = table.found
    publisher = Publisher(session, deadline_s=target.deadline_s, on_gone=lost.set, counts=target.counts)
    guard = Guard(
        client,
        publisher,
        subscriptions,
        table,
        namespace_uri=target.namespace_uri,
        tags=target.tags,
        policy=target.policy,
        deadline_s=target.deadline_s,
        lost=lost.set,
    )
    connection = Connection(client, publisher, guard, table, lost)
    done = False
    try:
        async with asyncio.timeout(target.deadline_s):
            table.take(await resolve(client, target.namespace_uri, target.tags))
            await guard.look()
            for subscription in subscriptions:
                guard.apply_to(subscription)
                found = {tag: nodes[tag].node_id for tag in subscription.tags if tag in nodes}
                await subscription.start(publisher, session, found)
            done = True
    except ua.UaStatusCodeError as error:
        raise status_error(int(error.code), doing=f"connecting to {target.peer.url}") from error
    except PEER_ERRORS as error:
        raise transport_error(error, doing="connecting", url=target.peer.url) from error
    finally:
        if not done:
            await connection.close(subscriptions)
    guard.start()
    return connection
