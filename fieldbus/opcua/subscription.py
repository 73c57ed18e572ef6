"""Values that a server pushes, handed over through a bounded queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncua import ua

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.failures import PEER_ERRORS
from fieldbus.opcua.values import ReadResult, from_data_value

ITEMS_PER_PUBLISH_MAX = 1_000
LIFETIME_COUNT = 1_000
KEEP_ALIVE_COUNT = 10
BAD_MONITORED_ITEM = 0x80420000  # Bad_MonitoredItemIdInvalid: the server would not monitor this tag


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """What to ask of the server: times in ms; ``item_queue`` values it keeps per tag between publishes;
    ``hand_over`` values kept here before the oldest is dropped and counted."""

    publishing_ms: float = 100.0
    sampling_ms: float = 0.0
    item_queue: int = 1
    hand_over: int = 1_024

    def __post_init__(self) -> None:
        if not (self.publishing_ms > 0 and self.sampling_ms >= 0 and self.item_queue >= 1 and self.hand_over >= 1):
            raise ValueError("subscription times and queue lengths must be positive")


class ValueSubscription:
    """Values in order of arrival. Survives reconnects: the client re-creates it on the new session.

    After a reconnect the server sends current values first; what changed in between is lost, and values older
    than a consumer wants must be judged by ``t_source_ns``.
    """

    def __init__(self, tags: tuple[str, ...], options: SubscriptionOptions) -> None:
        self._tags = tags
        self._options = options
        self._queue: deque[ReadResult] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self._id: int | None = None
        self._session: Any = None
        self.overflow_total = 0
        """Values dropped here because nobody took them."""
        self.server_overflow_total = 0
        """Values that carried the server's overflow bit: it dropped some before this one."""
        self.refused: dict[str, int] = {}
        """Tags the server would not monitor, with its StatusCode."""
        self.revised_publishing_ms = 0.0
        """What the server made of ``publishing_ms``."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Monitored tags."""
        return self._tags

    async def start(self, session: Any, nodes: Mapping[str, Any]) -> None:
        """Create subscription and monitored items on ``session`` (called by the client, also after a reconnect).

        ``nodes``: NodeId of each tag that resolves; the others are listed in ``refused``.
        """
        options = self._options
        params = ua.CreateSubscriptionParameters()
        params.RequestedPublishingInterval = options.publishing_ms
        params.RequestedLifetimeCount = LIFETIME_COUNT
        params.RequestedMaxKeepAliveCount = KEEP_ALIVE_COUNT
        params.MaxNotificationsPerPublish = ITEMS_PER_PUBLISH_MAX
        params.PublishingEnabled = True
        created = await session.create_subscription(params, self._on_publish)
        self._session, self._id = session, created.SubscriptionId
        self.revised_publishing_ms = float(created.RevisedPublishingInterval)
        self.refused = {tag: BAD_MONITORED_ITEM for tag in self._tags if tag not in nodes}
        requests = [_item_request(handle, nodes[tag], options) for handle, tag in enumerate(self._tags) if tag in nodes]
        if not requests:
            return
        items = ua.CreateMonitoredItemsParameters()
        items.SubscriptionId = self._id
        items.TimestampsToReturn = ua.TimestampsToReturn.Both
        items.ItemsToCreate = requests
        results = await session.create_monitored_items(items)
        for request, result in zip(requests, results, strict=True):
            if not result.StatusCode.is_good():
                self.refused[self._tags[request.RequestedParameters.ClientHandle]] = result.StatusCode.value

    def _on_publish(self, result: Any) -> None:
        for notification in result.NotificationMessage.NotificationData or ():
            if isinstance(notification, ua.DataChangeNotification):
                for item in notification.MonitoredItems:
                    self._take(item.ClientHandle, item.Value)

    def _take(self, handle: int, data_value: Any) -> None:
        if self._closed or not 0 <= handle < len(self._tags):
            return
        value = from_data_value(self._tags[handle], data_value)
        # OPC 10000-4, 7.39: InfoType DataValue (bits 10-11 = 01) with the Overflow bit (7).
        if value.status & 0x0C00 == 0x0400 and value.status & 0x0080:
            self.server_overflow_total += 1
        if len(self._queue) >= self._options.hand_over:
            self._queue.popleft()
            self.overflow_total += 1
        self._queue.append(value)
        self._ready.set()

    async def get(self, timeout_s: float) -> list[ReadResult]:
        """All values waiting, oldest first; waits up to ``timeout_s`` for the first, [] if none came.

        Raises OpcUaError ``closed`` after ``close``.
        """
        if not self._queue and not self._closed:
            self._ready.clear()
            try:
                await asyncio.wait_for(self._ready.wait(), timeout_s)
            except TimeoutError:
                return []
        if self._closed:
            raise OpcUaError("closed", found="a closed subscription", expected="an open one")
        values = list(self._queue)
        self._queue.clear()
        return values

    async def close(self) -> None:
        """Delete the subscription on the server if it is still reachable; wakes a waiting ``get``."""
        if self._closed:
            return
        self._closed = True
        self._ready.set()
        session, identifier = self._session, self._id
        self._session = self._id = None
        if session is None or identifier is None:
            return
        try:
            await session.delete_subscriptions([identifier])
        except PEER_ERRORS:
            return  # the connection is gone, and the subscription with it

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self._closed


def _item_request(handle: int, node_id: Any, options: SubscriptionOptions) -> Any:
    request = ua.MonitoredItemCreateRequest()
    request.ItemToMonitor.NodeId = node_id
    request.ItemToMonitor.AttributeId = ua.AttributeIds.Value
    request.MonitoringMode = ua.MonitoringMode.Reporting
    request.RequestedParameters.ClientHandle = handle
    request.RequestedParameters.SamplingInterval = options.sampling_ms
    request.RequestedParameters.QueueSize = options.item_queue
    request.RequestedParameters.DiscardOldest = True
    return request
