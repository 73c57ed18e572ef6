"""Subscriptions and monitored items that stay in bounds. Written against asyncua 2.1.0.

Different from asyncua's: a queue that overflows says so (OPC 10000-4, 7.22.1: info bits), Publish answers are bounded
in number and size, a deadband is measured from the value last reported and not from the last one seen (a slow drift is
reported), and a change of status is reported whatever the deadband.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import logging
import math
import time
from typing import Any

from asyncua import ua
from asyncua.common.utils import ServiceError
from asyncua.server.internal_subscription import InternalSubscription
from asyncua.server.monitored_item_service import MonitoredItemService
from asyncua.server.subscription_service import SubscriptionService

from fieldbus.opcua.server.limits import Limits

_log = logging.getLogger(__name__)

OVERFLOW_BITS = 0x0480
"""InfoType DataValue with Overflow (OPC 10000-4, 7.39.1)."""

LIFETIME_PER_KEEP_ALIVE = 3
VALUE_BYTES = 32
"""What one small value weighs in an answer, about."""


def weight(value: Any) -> int:
    """About how many bytes a value takes in an answer, without encoding it."""
    if isinstance(value, bytes | str):
        return VALUE_BYTES + len(value)
    if isinstance(value, list | tuple):
        return VALUE_BYTES + sum(weight(item) for item in value)
    if isinstance(value, ua.Variant):
        return weight(value.Value)
    if isinstance(value, ua.DataValue):
        return weight(value.Value)
    return VALUE_BYTES


def revised(params: Any, limits: Limits) -> None:
    """Clamp what CreateSubscription asks for, in place."""
    asked = params.RequestedPublishingInterval
    interval = asked if math.isfinite(asked) else limits.publishing_ms_min
    params.RequestedPublishingInterval = min(max(interval, limits.publishing_ms_min), limits.publishing_ms_max)
    keep_alive = min(params.RequestedMaxKeepAliveCount or limits.keep_alive_max, limits.keep_alive_max)
    params.RequestedMaxKeepAliveCount = keep_alive
    lifetime = max(params.RequestedLifetimeCount, LIFETIME_PER_KEEP_ALIVE * keep_alive)
    params.RequestedLifetimeCount = min(lifetime, max(limits.lifetime_max, LIFETIME_PER_KEEP_ALIVE))


class GuardedItems(MonitoredItemService):  # type: ignore[misc]
    """Data changes measured from the value last reported."""

    async def datachange_callback(self, handle: int, value: Any, error: Any = None) -> None:
        """Queue ``value`` where the item's mode and filter want it."""
        if error:
            await self.trigger_statuschange(error)
            return
        mid = self._monitored_datachange[handle]
        item = self._monitored_items[mid]
        if item.mode != ua.MonitoringMode.Reporting:
            return
        previous = item.mvalue.current_dvalue
        if previous is not None and not _reportable(previous, value, item.filter):
            return
        item.mvalue.set_current_datavalue(value)
        event = ua.MonitoredItemNotification()
        event.ClientHandle = item.client_handle
        event.Value = copy.copy(value)
        await self.isub.enqueue_datachange_event(mid, event, item.queue_size)

    async def _set_monitoring_mode(self, mode: Any, mid: int) -> Any:
        """Reporting begins with the value there is. Sampling alone reports nothing, as nothing can trigger it here."""
        item = self._monitored_items.get(mid)
        if item is None:
            return ua.StatusCode(ua.StatusCodes.BadMonitoredItemIdInvalid)
        before, item.mode = item.mode, mode
        begins = mode == ua.MonitoringMode.Reporting and before != mode
        if begins and item.callback_handle is not None:
            item.mvalue.current_dvalue = None
            read = item.read_value_id
            await self.trigger_datachange(item.callback_handle, read.NodeId, read.AttributeId)
        return ua.StatusCode()

    async def _trigger_event(self, event: Any, mid: int) -> None:
        """As asyncua's, but a field the event has not is null; there it is an error of whoever emits the event."""
        item = self._monitored_items.get(mid)
        if item is None or item.mode != ua.MonitoringMode.Reporting or not item.where_clause_evaluator.eval(event):
            return
        fields = ua.EventFieldList()
        fields.ClientHandle = item.client_handle
        fields.EventFields = [_event_field(event, clause) for clause in item.filter.SelectClauses]
        await self.isub.enqueue_event(mid, fields, item.queue_size)


def _event_field(event: Any, clause: Any) -> Any:
    path = [element.Name for element in clause.BrowsePath]
    name = "/".join(path) if path else ua.AttributeIds(clause.AttributeId).name
    kind = event.data_types.get(name)
    value = getattr(event, name, None) if kind is not None else None
    return ua.Variant(None) if value is None else ua.Variant(copy.deepcopy(value), kind)


def _reportable(old: Any, new: Any, filter_: Any) -> bool:
    if old.StatusCode != new.StatusCode:
        return True
    trigger = filter_.Trigger if filter_ is not None else ua.DataChangeTrigger.StatusValue
    if trigger == ua.DataChangeTrigger.Status:
        return False
    if trigger == ua.DataChangeTrigger.StatusValueTimestamp and (old.SourceTimestamp, old.SourcePicoseconds) != (
        new.SourceTimestamp,
        new.SourcePicoseconds,
    ):
        return True
    if old.Value == new.Value:
        return False
    if filter_ is None or filter_.DeadbandType != ua.DeadbandType.Absolute:
        return True
    before, now = (data.Value.Value if data.Value is not None else None for data in (old, new))
    if isinstance(before, int | float) and isinstance(now, int | float):
        return not abs(now - before) <= filter_.DeadbandValue  # NaN is never within
    return True


def is_number(value: Any) -> bool:
    """A value that a deadband can be measured on."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class GuardedSubscription(InternalSubscription):  # type: ignore[misc]
    """A subscription whose queues and answers are bounded."""

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._queued = self._taken = 0
        self._kept: dict[int, int] = {}
        self.monitored_item_srv: Any = GuardedItems(self, args[1])

    async def _subscription_loop(self) -> None:
        """One cycle an interval. Those that were missed are not made up for: asyncua's loop runs them all at once after
        it was held up, which spends the client's Publish requests on keep-alives and then its lifetime.
        """
        period = self.data.RevisedPublishingInterval / 1000.0
        due = time.monotonic()
        await self.publish_results()
        while not self._closing:
            due = max(due + period, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            await self.publish_results()

    async def _enqueue_event(self, mid: int, eventdata: Any, size: int, queue: dict[int, list[Any]]) -> None:
        waiting = queue.setdefault(mid, [])
        most = max(size, 1) if self._queued <= self._limits.queued_bytes else 1
        lost = len(waiting) >= most
        while len(waiting) >= most:
            self._queued -= _event_weight(waiting.pop(0))
        waiting.append(eventdata)
        self._queued += _event_weight(eventdata)
        # The oldest that is left carries the bit, as the discard-oldest policy wants; with a queue of one, where an
        # overflow is the normal case, no bit is set (OPC 10000-4, 7.22.1).
        if lost and size > 1 and isinstance(waiting[0], ua.MonitoredItemNotification):
            waiting[0].Value = _overflowed(waiting[0].Value)
        await self._trigger_publish()

    def _pop_triggered_datachanges(self, result: Any) -> None:
        taken = self._take(self._triggered_datachanges)
        if taken:
            result.NotificationMessage.NotificationData.append(ua.DataChangeNotification(MonitoredItems=taken))

    def _pop_triggered_events(self, result: Any) -> None:
        taken = self._take(self._triggered_events)
        if taken:
            result.NotificationMessage.NotificationData.append(ua.EventNotificationList(Events=taken))

    def _take(self, queue: dict[int, list[Any]]) -> list[Any]:
        """Events up to a quarter of a message or the count allowed, at least one, in the order of the items."""
        taken: list[Any] = []
        room = self._limits.message_bytes // 4
        while queue and len(taken) < self._limits.notifications_per_publish and room > 0:
            mid = next(iter(queue))
            event = queue[mid].pop(0)
            if not queue[mid]:
                del queue[mid]
            taken.append(event)
            room -= _event_weight(event)
        size = sum(map(_event_weight, taken))
        self._queued -= size
        self._taken += size
        return taken

    def _pop_publish_result(self) -> Any:
        self._taken = 0
        result = super()._pop_publish_result()
        kept = self._not_acknowledged_results
        self._kept[result.NotificationMessage.SequenceNumber] = self._taken
        self._kept = {number: size for number, size in self._kept.items() if number in kept}
        while len(kept) > 1 and sum(self._kept.values()) > self._limits.message_bytes:
            oldest = next(iter(kept))
            del kept[oldest], self._kept[oldest]
        result.AvailableSequenceNumbers = list(kept)
        result.MoreNotifications = bool(
            self._publishing_enabled and (self._triggered_datachanges or self._triggered_events)
        )
        return result

    def republish(self, nb: int) -> Any:
        """The kept message; ServiceError Bad_MessageNotAvailable for one that is not. It stays kept."""
        kept = self._not_acknowledged_results.get(nb)
        if kept is None:
            raise ServiceError(ua.StatusCodes.BadMessageNotAvailable)
        return kept.NotificationMessage


def _event_weight(event: Any) -> int:
    if isinstance(event, ua.MonitoredItemNotification):
        return weight(event.Value)
    return sum(weight(field) for field in event.EventFields)


def _overflowed(value: Any) -> Any:
    code = value.StatusCode.value if value.StatusCode is not None else 0
    return dataclasses.replace(value, StatusCode=ua.StatusCode(code | OVERFLOW_BITS))


class GuardedSubscriptions(SubscriptionService):  # type: ignore[misc]
    """Makes guarded subscriptions. Who owns which is the session's business, see ``session``."""

    def __init__(self, aspace: Any, iserver: Any, limits: Limits) -> None:
        super().__init__(aspace, iserver=iserver)
        self._iserver = iserver
        self._limits = limits

    async def create_subscription(
        self, params: Any, callback: Any, session_id: Any, request_callback: Any = None
    ) -> Any:
        """As asyncua's, with its own kind of subscription; ``params`` are already revised."""
        if request_callback is None:  # the server's own: no client takes anything
            return await super().create_subscription(params, callback, session_id, request_callback)
        if len(self.subscriptions) >= self._limits.subscriptions:
            raise ServiceError(ua.StatusCodes.BadTooManySubscriptions)
        self._sub_id_counter += 1
        number = self._sub_id_counter
        result = ua.CreateSubscriptionResult(
            SubscriptionId=number,
            RevisedPublishingInterval=params.RequestedPublishingInterval,
            RevisedLifetimeCount=params.RequestedLifetimeCount,
            RevisedMaxKeepAliveCount=params.RequestedMaxKeepAliveCount,
        )
        subscription = GuardedSubscription(
            result,
            self.aspace,
            callback,
            session_id,
            request_callback=request_callback,
            delete_callback=lambda: self._expired(number, session_id),
            no_acks_limit=self._limits.unacknowledged,
            max_queue_size=self._limits.queue_size,
            publishing_enabled=params.PublishingEnabled,
            limits=self._limits,
        )
        self.subscriptions[number] = subscription
        await subscription.start()
        return result

    def _expired(self, number: int, session_id: Any) -> None:
        self.subscriptions.pop(number, None)
        session = self._iserver.session_of(session_id)
        _log.warning(
            "subscription %d of %s ended: no Publish request within its lifetime",
            number,
            "a session that is gone" if session is None else f"{session.application_uri} from {session.name}",
        )

    def items(self) -> int:
        """Monitored items of all subscriptions."""
        return sum(len(sub.monitored_item_srv._monitored_items) for sub in self.subscriptions.values())

    async def trigger_event(self, event: Any, subscription_id: int | None = None) -> None:
        """As asyncua's, over a copy: a subscription made meanwhile must not break the loop."""
        if subscription_id is not None:
            await super().trigger_event(event, subscription_id)
            return
        if hasattr(event, "Retain") and hasattr(event, "NodeId"):
            if event.Retain:
                self._conditions[event.NodeId] = event
            else:
                self._conditions.pop(event.NodeId, None)
        for subscription in list(self.subscriptions.values()):
            await subscription.monitored_item_srv.trigger_event(event)
