"""Alarms in the address space: instances, events and the methods of OPC 10000-9.

Acknowledge, Confirm and AddComment are for operators. Conditions cannot be disabled: what goes wrong with the
machine is not for a client to hide.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from asyncua import ua

from fieldbus.opcua.server import Access, Role
from sitsedge.server.alarms import Finding
from sitsedge.server.condition import COMMENT_CHARACTERS_MAX, Answer, Condition
from sitsedge.server.eventfilter import Event
from sitsedge.server.events import SYSTEM_EVENT, EventSender, condition_fields, event_fields
from sitsedge.server.model import ConditionNodes

SUPERTYPES_MAX: Final = 16
SYSTEM_CLASS: Final = ua.NodeId(ua.ObjectIds.SystemConditionClassType)
ANYONE: Final = "(application)"

log = logging.getLogger(__name__)
_Act = Callable[[Condition, bytes, str, str, int], Answer]


class AlarmServer:
    """The conditions of one server. Make one with :meth:`attach`."""

    def __init__(self, server: Any, conditions: Mapping[str, Condition], sender: EventSender, access: Access) -> None:
        self._server = server
        self._conditions = conditions
        self._sender = sender
        self._access = access
        self._ids: dict[str, ua.NodeId] = {}
        self._names: dict[ua.NodeId, str] = {}
        self._types: dict[str, tuple[ua.NodeId, ...]] = {}
        self._variables: dict[str, dict[str, ua.NodeId]] = {}
        self._shown: dict[str, dict[str, ua.Variant]] = {}
        self._source = ua.NodeId(ua.ObjectIds.Server)
        self._source_name = "Server"
        self.changed = False
        """Set by whatever has to be remembered; whoever saves it clears it."""

    @classmethod
    async def attach(
        cls,
        server: Any,
        nodes: Mapping[str, ConditionNodes],
        conditions: Mapping[str, Condition],
        *,
        source: ua.NodeId,
        sender: EventSender,
        access: Access,
    ) -> AlarmServer:
        """Take over the condition instances of the model, by name of the alarm; their events come from ``source``."""
        own = cls(server, conditions, sender, access)
        own._source = source
        own._source_name = (await server.get_node(source).read_browse_name()).Name
        for name, known in nodes.items():
            if name not in conditions:
                continue
            own._ids[name], own._names[known.node_id] = known.node_id, name
            own._types[name] = await supertypes(server, known.type_id)
            own._variables[name] = {path.replace(".", "/"): node_id for path, node_id in known.variables.items()}
        for name in own._ids:
            await own._show(name)
        own._link()
        return own

    async def apply(self, findings: Mapping[str, Finding], now_ns: int) -> None:
        """Take over what is known now; events for what changed."""
        for name, finding in findings.items():
            condition = self._conditions.get(name)
            if condition is None:
                continue
            before = condition.message
            if condition.judge(finding, now_ns):
                log.log(logging.WARNING if condition.active else logging.INFO, "alarm %s", _line(condition))
                await self._publish(name)
            elif condition.message != before and name in self._ids:
                await self._show(name)

    async def report(
        self,
        types: tuple[ua.NodeId, ...],
        *,
        message: str,
        severity: int,
        t_ns: int,
        more: Mapping[str, ua.Variant] | None = None,
    ) -> None:
        """An event that is no condition; ``types``: its own and its supertypes, ``more``: fields of its own type."""
        fields = event_fields(types[0], self._source, self._source_name, message=message, severity=severity, t_ns=t_ns)
        await self._sender.send(Event(types, None, fields | dict(more or {})))

    async def _publish(self, name: str) -> None:
        self.changed = True
        if name in self._ids:
            await self._show(name)
            await self._sender.send(self._event(name))

    def _event(self, name: str) -> Event:
        types = self._types[name]
        fields = condition_fields(self._conditions[name], types[0], self._source, self._source_name, SYSTEM_CLASS)
        return Event(types, self._ids[name], fields)

    async def _show(self, name: str) -> None:
        """The instance's variables follow the newest event (5.5.2: a client may also read them)."""
        event = self._event(name)
        shown = self._shown.setdefault(name, {})
        for path, node_id in self._variables[name].items():
            variant = event.fields.get(path)
            if variant is not None and shown.get(path) != variant:
                shown[path] = variant
                await self._server.write_attribute_value(node_id, ua.DataValue(variant))

    def _link(self) -> None:
        acts: dict[int, _Act] = {
            ua.ObjectIds.AcknowledgeableConditionType_Acknowledge: Condition.acknowledge,
            ua.ObjectIds.AcknowledgeableConditionType_Confirm: Condition.confirm,
            ua.ObjectIds.ConditionType_AddComment: Condition.add_comment,
        }
        for number, act in acts.items():
            self._offer(ua.NodeId(number), Role.OPERATOR, self._method(act))
        for number in (ua.ObjectIds.ConditionType_Enable, ua.ObjectIds.ConditionType_Disable):
            self._offer(ua.NodeId(number), Role.OPERATOR, _unsupported)
        for number in (ua.ObjectIds.ConditionType_ConditionRefresh, ua.ObjectIds.ConditionType_ConditionRefresh2):
            self._offer(ua.NodeId(number), Role.OBSERVER, self._refresh)

    def _offer(self, method: ua.NodeId, role: Role, callback: Any) -> None:
        self._access.require(method, role)
        self._server.link_method(self._server.get_node(method), callback)

    def _method(self, act: _Act) -> Any:
        async def called(condition_id: ua.NodeId, *arguments: ua.Variant) -> ua.StatusCode:
            name = self._names.get(condition_id)
            if name is None:
                return ua.StatusCode(ua.StatusCodes.BadNodeIdUnknown)
            asked = _remark(arguments)
            if asked is None:
                return ua.StatusCode(ua.StatusCodes.BadInvalidArgument)
            caller = self._access.caller()
            answer = act(self._conditions[name], *asked, caller.name or ANYONE, time.time_ns())
            if answer is Answer.GOOD:
                log.info("%s: %s by %s", act.__name__, name, caller.name)
                await self._publish(name)
            return ua.StatusCode(getattr(ua.StatusCodes, answer.value))

        return called

    async def _refresh(self, parent: ua.NodeId, *arguments: ua.Variant) -> ua.StatusCode:
        """ConditionRefresh and ConditionRefresh2 (5.5.7, 5.5.8): every retained condition again, between two marks."""
        numbers = [argument.Value for argument in arguments]
        if not 1 <= len(numbers) <= 2 or not all(type(number) is int for number in numbers):
            return ua.StatusCode(ua.StatusCodes.BadInvalidArgument)
        subscription = self._sender.subscriptions.get(numbers[0])
        if subscription is None:
            return ua.StatusCode(ua.StatusCodes.BadSubscriptionIdInvalid)
        item = numbers[1] if len(numbers) == 2 else None
        if item is not None and item not in subscription.monitored_item_srv._monitored_items:
            return ua.StatusCode(ua.StatusCodes.BadMonitoredItemIdInvalid)
        await self._mark(ua.ObjectIds.RefreshStartEventType, numbers[0], item)
        for name in self._ids:
            if self._conditions[name].retain:
                await self._sender.send(self._event(name), only=numbers[0], item=item)
        await self._mark(ua.ObjectIds.RefreshEndEventType, numbers[0], item)
        return ua.StatusCode()

    async def _mark(self, number: int, subscription: int, item: int | None) -> None:
        kind = ua.NodeId(number)
        server = ua.NodeId(ua.ObjectIds.Server)
        fields = event_fields(kind, server, "Server", message="ConditionRefresh", severity=1, t_ns=time.time_ns())
        await self._sender.send(Event((kind, *SYSTEM_EVENT), None, fields), only=subscription, item=item)


async def _unsupported(condition_id: ua.NodeId, *arguments: ua.Variant) -> ua.StatusCode:
    return ua.StatusCode(ua.StatusCodes.BadNotSupported)


def _remark(arguments: tuple[ua.Variant, ...]) -> tuple[bytes, str] | None:
    """EventId and comment; ``None`` for anything else. An absent comment is an empty one."""
    if len(arguments) != 2:
        return None
    event_id, comment = arguments[0].Value, arguments[1].Value
    words = "" if comment is None else comment.Text if isinstance(comment, ua.LocalizedText) else None
    words = "" if words is None and isinstance(comment, ua.LocalizedText) else words
    if not isinstance(event_id, bytes) or words is None or len(words) > COMMENT_CHARACTERS_MAX:
        return None
    return event_id, words


async def supertypes(server: Any, type_id: ua.NodeId) -> tuple[ua.NodeId, ...]:
    """A type and its supertypes, itself first."""
    found = [type_id]
    while len(found) < SUPERTYPES_MAX:
        parents = await server.get_node(found[-1]).get_references(
            ua.ObjectIds.HasSubtype, ua.BrowseDirection.Inverse, ua.NodeClass.Unspecified
        )
        if not parents:
            break
        found.append(parents[0].NodeId)
    return tuple(found)


def _line(condition: Condition) -> str:
    state = "active" if condition.active else "gone"
    return f"{condition.spec.name} {state}: {condition.message or condition.spec.meaning}"
