"""Events and conditions as a client sees them (OPC 10000-5, 6.4 and OPC 10000-9, 5.5 to 5.8), and how they are sent."""

from __future__ import annotations

import datetime as dt
import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from asyncua import ua

from sitsedge.server.condition import Condition
from sitsedge.server.eventfilter import Event, FilterUnclear

EFFECTIVE: Final = {True: "Active", False: "Inactive"}
SYSTEM_EVENT: Final = (ua.NodeId(ua.ObjectIds.SystemEventType), ua.NodeId(ua.ObjectIds.BaseEventType))
"""A type with its supertypes."""

UNCLEAR_MAX: Final = 256  # items with a filter nobody understands that are remembered, so that each is logged once
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

log = logging.getLogger(__name__)


def moment(t_ns: int) -> dt.datetime:
    """A time of ours as asyncua takes it, to the microsecond."""
    return _EPOCH + dt.timedelta(microseconds=t_ns // 1000)


def text(value: str) -> ua.Variant:
    """A LocalizedText without a locale."""
    return ua.Variant(ua.LocalizedText(value), ua.VariantType.LocalizedText)


def event_fields(
    event_type: ua.NodeId, source: ua.NodeId, source_name: str, *, message: str, severity: int, t_ns: int
) -> dict[str, ua.Variant]:
    """The fields of BaseEventType, with an EventId of its own."""
    when = ua.Variant(moment(t_ns), ua.VariantType.DateTime)
    return {
        "EventId": ua.Variant(uuid.uuid4().bytes, ua.VariantType.ByteString),
        "EventType": ua.Variant(event_type, ua.VariantType.NodeId),
        "SourceNode": ua.Variant(source, ua.VariantType.NodeId),
        "SourceName": ua.Variant(source_name, ua.VariantType.String),
        "Time": when,
        "ReceiveTime": when,
        "Message": text(message),
        "Severity": ua.Variant(severity, ua.VariantType.UInt16),
    }


def _two_state(name: str, value: bool, words: tuple[str, str], t_ns: int) -> dict[str, ua.Variant]:
    """A TwoStateVariable: its text, ``Id`` and, once it has changed, when (OPC 10000-9, 5.2)."""
    fields = {name: text(words[value]), f"{name}/Id": ua.Variant(value, ua.VariantType.Boolean)}
    if t_ns:
        fields[f"{name}/TransitionTime"] = ua.Variant(moment(t_ns), ua.VariantType.DateTime)
    return fields


def condition_fields(
    condition: Condition, event_type: ua.NodeId, source: ua.NodeId, source_name: str, class_id: ua.NodeId
) -> dict[str, ua.Variant]:
    """All fields of an alarm's newest event. It has no branches, and is always enabled."""
    c = condition
    fields = event_fields(
        event_type,
        source,
        source_name,
        message=c.message or c.spec.meaning,
        severity=max(1, c.severity),
        t_ns=c.t_event_ns,
    )
    fields["EventId"] = ua.Variant(c.event_id, ua.VariantType.ByteString)
    when = ua.Variant(moment(c.t_event_ns), ua.VariantType.DateTime)
    fields |= {
        "ConditionClassId": ua.Variant(class_id, ua.VariantType.NodeId),
        "ConditionClassName": text("SystemConditionClassType"),
        "ConditionName": ua.Variant(c.spec.name, ua.VariantType.String),
        "BranchId": ua.Variant(ua.NodeId(), ua.VariantType.NodeId),
        "Retain": ua.Variant(c.retain, ua.VariantType.Boolean),
        "Quality": ua.Variant(ua.StatusCode(ua.StatusCodes.Good), ua.VariantType.StatusCode),
        "Quality/SourceTimestamp": when,
        "LastSeverity": ua.Variant(c.last_severity, ua.VariantType.UInt16),
        "LastSeverity/SourceTimestamp": when,
        "Comment": text(c.comment),
        "Comment/SourceTimestamp": ua.Variant(moment(c.t_comment_ns), ua.VariantType.DateTime),
        "ClientUserId": ua.Variant(c.user, ua.VariantType.String),
        "InputNode": ua.Variant(ua.NodeId(), ua.VariantType.NodeId),
        "NormalState": ua.Variant(ua.NodeId(), ua.VariantType.NodeId),
        "SuppressedOrShelved": ua.Variant(False, ua.VariantType.Boolean),
    }
    fields |= _two_state("EnabledState", True, ("Disabled", "Enabled"), 0)
    fields |= _two_state("AckedState", c.acked, ("Unacknowledged", "Acknowledged"), c.t_acked_ns)
    fields |= _two_state("ConfirmedState", c.confirmed, ("Unconfirmed", "Confirmed"), c.t_confirmed_ns)
    fields |= _two_state("ActiveState", c.active, ("Inactive", "Active"), c.t_active_ns)
    fields["ActiveState/EffectiveDisplayName"] = text(EFFECTIVE[c.active])
    fields["EnabledState/EffectiveDisplayName"] = text(_effective(c))
    return fields


def _effective(condition: Condition) -> str:
    words = [EFFECTIVE[condition.active]]
    words += [] if condition.acked else ["Unacknowledged"]
    words += [] if condition.confirmed else ["Unconfirmed"]
    return " | ".join(words)


class EventSender:
    """Puts events into the queues of every subscription that monitors one of the emitting nodes.

    asyncua's own way raises what a client's filter provokes into the caller, and compares types for equality
    (:mod:`sitsedge.server.eventfilter`), so the queues are filled here.
    """

    def __init__(self, server: Any, emitting: Sequence[ua.NodeId]) -> None:
        self._service = server.iserver.subscription_service
        self._emitting = tuple(emitting)
        self._unclear: set[tuple[int, int]] = set()

    @property
    def subscriptions(self) -> Mapping[int, Any]:
        """Live subscriptions by their identifier."""
        subscriptions: Mapping[int, Any] = self._service.subscriptions
        return subscriptions

    async def send(self, event: Event, *, only: int | None = None, item: int | None = None) -> None:
        """To every subscription, or to one, or to one of its items (for a refresh)."""
        chosen = list(self.subscriptions) if only is None else [only]
        for number in chosen:
            subscription = self.subscriptions.get(number)
            if subscription is None:
                continue
            items = subscription.monitored_item_srv
            for node in self._emitting:
                for identifier in tuple(items._monitored_events.get(node, ())):
                    if item is None or item == identifier:
                        await self._put(subscription, number, identifier, event)

    async def _put(self, subscription: Any, number: int, identifier: int, event: Event) -> None:
        data = subscription.monitored_item_srv._monitored_items.get(identifier)
        if data is None or data.mode == ua.MonitoringMode.Disabled or not isinstance(data.filter, ua.EventFilter):
            return
        try:
            if not event.passes(data.filter.WhereClause):
                return
        except FilterUnclear as unclear:
            # An alarm that nobody asked for does less harm than one that nobody gets.
            if (number, identifier) not in self._unclear and len(self._unclear) < UNCLEAR_MAX:
                self._unclear.add((number, identifier))
                log.warning("a client's event filter is not understood (%s): it gets every event", unclear)
        fields = ua.EventFieldList()
        fields.ClientHandle = data.client_handle
        fields.EventFields = event.select(data.filter.SelectClauses)
        await subscription.enqueue_event(identifier, fields, data.queue_size)
