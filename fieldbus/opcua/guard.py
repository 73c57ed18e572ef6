"""What is watched while a connection is up, so that no value stays Good for longer than somebody stands behind it.

1. ServerStatus.State and ServiceLevel, each ``health_s``: no answer in that time ends the connection; a state other
   than Running, or a service level that says "no data", makes every tag bad until that is over (OPC 10000-5, 12.6;
   OPC 10000-4, 6.6.2.4.2).
2. Subscriptions: one that the server ended, gave away, or lets fall silent is made anew on the same session, with
   waits that grow; where that fails the connection is given up.
3. Nodes, each ``verify_s``: the browse paths are resolved again. A tag whose node is gone is bad at once, one whose
   node is back or another is monitored anew, both without touching the other tags.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS
from fieldbus.opcua.findings import Finding
from fieldbus.opcua.nodes import NodeTable, resolve
from fieldbus.opcua.policies import ReconnectPolicy
from fieldbus.opcua.publishing import Publisher
from fieldbus.opcua.subscription import ValueSubscription

_log = logging.getLogger(__name__)

RUNNING = 0
STATES = (
    "Running",
    "Failed",
    "NoConfiguration",
    "Suspended",
    "Shutdown",
    "Test",
    "CommunicationFault",
    "Unknown",
)
BAD_OUT_OF_SERVICE = 0x808D0000
SERVICE_NO_DATA = 1
"""Service levels up to this: maintenance, or no data."""

SERVICE_HEALTHY = 200
"""Service levels from this on are healthy; below it the server is degraded."""

TICKS = 4
"""Looks at the subscriptions in one ``health_s``."""


class Guard:
    """One connection's watch. ``table`` is the client's own and kept up to date; ``lost`` ends the connection."""

    def __init__(
        self,
        client: Any,
        publisher: Publisher,
        subscriptions: list[ValueSubscription],
        table: NodeTable,
        *,
        namespace_uri: str,
        tags: Mapping[str, str],
        policy: ReconnectPolicy,
        deadline_s: float,
        lost: Callable[[], None],
    ) -> None:
        self._client = client
        self._publisher = publisher
        self._subscriptions = subscriptions
        self._table = table
        self._nodes = table.found
        self._namespace_uri = namespace_uri
        self._tags = tags
        self._policy = policy
        self._deadline_s = deadline_s
        self._lost = lost
        self._work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._one_at_a_time = asyncio.Lock()
        self._waits: dict[ValueSubscription, tuple[float, float]] = {}
        self.state = RUNNING
        self.service_level: int | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._tasks = [
            asyncio.create_task(self._watch_server(), name="opcua-server-watch"),
            asyncio.create_task(self._watch_subscriptions(), name="opcua-subscription-watch"),
            asyncio.create_task(self._watch_nodes(), name="opcua-node-watch"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A watch that ends takes the connection with it: nothing stays unwatched."""
        if not task.cancelled():
            if task.exception() is not None:
                _log.error("%s failed", task.get_name(), exc_info=task.exception())
            self._lost()

    async def close(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def notice(self) -> None:
        """A subscription has something to say."""
        self._work.set()

    @property
    def in_service(self) -> bool:
        """False while the server itself says that its values are none."""
        level = self.service_level
        return self.state == RUNNING and (level is None or level > SERVICE_NO_DATA)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """``server-state``, ``service-level``."""
        found = []
        if self.state != RUNNING:
            name = STATES[self.state] if 0 <= self.state < len(STATES) else str(self.state)
            found.append(Finding("server-state", f"the server says it is not running but {name}"))
        if self.service_level is not None and self.service_level < SERVICE_HEALTHY:
            found.append(Finding("service-level", f"the server's service level is {self.service_level} of 255"))
        return tuple(found)

    # 1. The server

    async def _watch_server(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._policy.health_s)
                async with asyncio.timeout(self._policy.health_s):
                    await self.look()
        except PEER_ERRORS as error:
            _log.warning("the server does not answer: %s", type(error).__name__)
            self._lost()

    async def look(self) -> None:
        """Ask for state and service level once, and act on them."""
        parameters = ua.ReadParameters()
        for node in (ua.ObjectIds.Server_ServerStatus_State, ua.ObjectIds.Server_ServiceLevel):
            item = ua.ReadValueId()
            item.NodeId, item.AttributeId = ua.NodeId(node), ua.AttributeIds.Value
            parameters.NodesToRead.append(item)
        state, level = await self._client.uaclient.session.read(parameters)
        before = self.in_service
        self.state = _number(state, RUNNING)
        self.service_level = _number(level, None)
        if self.in_service == before:
            return
        for subscription in self._subscriptions:
            self.apply_to(subscription)
            if self.in_service:
                subscription.lost("server-back")

    def apply_to(self, subscription: ValueSubscription) -> None:
        """Hold or release a subscription according to the server's last word."""
        subscription.hold(None if self.in_service else BAD_OUT_OF_SERVICE)

    # 2. Subscriptions

    async def _watch_subscriptions(self) -> None:
        try:
            while True:
                self._work.clear()
                try:
                    async with asyncio.timeout(self._policy.health_s / TICKS):
                        await self._work.wait()
                except TimeoutError:
                    pass
                for subscription in self._subscriptions:
                    if subscription.silent(floor_s=self._policy.health_s):
                        subscription.lost("silent")
                for subscription in list(self._subscriptions):
                    if self._is_due(subscription):
                        await self._revive(subscription)
        except (*PEER_ERRORS, OpcUaError) as error:
            _log.warning("a subscription cannot be made anew: %s", error or type(error).__name__)
            self._lost()

    def _is_due(self, subscription: ValueSubscription) -> bool:
        """A server that ends a subscription again and again is asked for it more and more rarely."""
        if subscription.lost_reason is None or subscription.closed:
            return False
        now_s = time.monotonic()
        wait_s, last_s = self._waits.get(subscription, (0.0, now_s))
        return now_s >= last_s + wait_s

    async def _revive(self, subscription: ValueSubscription) -> None:
        now_s = time.monotonic()
        wait_s, last_s = self._waits.get(subscription, (0.0, float("-inf")))
        calm = now_s - last_s > wait_s + self._policy.max_s
        longer_s = self._policy.first_s if calm or not wait_s else min(wait_s * 2, self._policy.max_s)
        self._waits[subscription] = (longer_s, now_s)
        async with asyncio.timeout(self._deadline_s), self._one_at_a_time:
            await self.refresh()
            found = {tag: self._nodes[tag].node_id for tag in subscription.tags if tag in self._nodes}
            await subscription.start(self._publisher, self._client.uaclient.session, found)

    # 3. Nodes

    async def _watch_nodes(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._policy.verify_s)
                async with asyncio.timeout(self._deadline_s), self._one_at_a_time:
                    await self.refresh()
                    await self._pass_on()
        except (*PEER_ERRORS, OpcUaError) as error:
            _log.warning("the nodes cannot be resolved: %s", error or type(error).__name__)
            self._lost()

    async def refresh(self) -> None:
        """Resolve every browse path anew, into the client's own table."""
        self._table.take(await resolve(self._client, self._namespace_uri, self._tags))

    async def _pass_on(self) -> None:
        for subscription in list(self._subscriptions):
            if subscription.closed or subscription.lost_reason is not None:
                continue
            gone = [tag for tag in subscription.nodes if tag not in self._nodes]
            if gone:
                subscription.gone(gone)
            changed = {
                tag: self._nodes[tag].node_id
                for tag in subscription.tags
                if tag in self._nodes
                and (tag in subscription.refused or subscription.nodes.get(tag) != self._nodes[tag].node_id)
            }
            if changed:
                await subscription.extend(changed)


def _number(value: Any, default: Any) -> Any:
    """The integer in a DataValue, or ``default`` where the server does not tell."""
    content = value.Value.Value if value.Value is not None else None
    return int(content) if isinstance(content, int) and not isinstance(content, bool) else default
