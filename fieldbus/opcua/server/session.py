"""A session that does what its channel's certificate and its user may, and touches nothing of another session.

asyncua 2.1.0 looks subscriptions up by number alone, counts nothing per request, and has no BrowseNext.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from asyncua import ua
from asyncua.common.callback import CallbackType, ServerItemCallback
from asyncua.common.utils import ServiceError
from asyncua.server.internal_session import InternalSession, SessionState

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.server import filters, writes
from fieldbus.opcua.server.roles import Caller, Role, calling
from fieldbus.opcua.server.signin import Grant
from fieldbus.opcua.server.subscriptions import revised, weight

if TYPE_CHECKING:
    from fieldbus.opcua.server.guard import GuardedInternalServer

_log = logging.getLogger(__name__)

TOKEN_BYTES = 32
"""asyncua's own session tokens are small numbers that count up."""

_REFRESH_METHODS = frozenset(
    ua.NodeId(kind)
    for kind in (ua.ObjectIds.ConditionType_ConditionRefresh, ua.ObjectIds.ConditionType_ConditionRefresh2)
)

Code = ua.StatusCodes


class GuardedSession(InternalSession):  # type: ignore[misc]
    """``application_uri`` and ``thumbprint`` are those of the channel's certificate."""

    def __init__(self, iserver: GuardedInternalServer, name: str, *, application_uri: str, thumbprint: bytes) -> None:
        super().__init__(iserver, iserver.aspace, iserver.subscription_service, name)
        self.session_id = ua.NodeId(secrets.token_bytes(TOKEN_BYTES), 1)
        self.auth_token = ua.NodeId(secrets.token_bytes(TOKEN_BYTES), 0)
        self.application_uri = application_uri
        self.thumbprint = thumbprint
        self.grant: Grant | None = None
        self._points: dict[bytes, tuple[list[Any], int]] = {}
        self.external = True
        self.end_reason = ""
        """Of what its connection ended, or that it was silent for too long; empty: its client closed it."""
        self.touch()
        self._began = self._last_activity
        iserver.register_external_session(self)

    # --- its life: by the server's pace, as time in which no request could be read is not its client's silence ---

    def touch(self) -> None:
        """A request came."""
        self._last_activity = self.iserver.pace.now()

    async def _timeout_loop(self) -> None:
        while self.state is not SessionState.Closed:
            timeout = self.session_timeout or 0.0
            left = timeout - (self.iserver.pace.now() - self._last_activity)
            if left <= 0.0:
                self.end_reason = self.end_reason or "no request within its timeout"
                await self.close_session(True)
                return
            await asyncio.sleep(min(left, max(timeout / 4, 0.1)))

    async def close_session(self, delete_subs: bool = True) -> None:
        """Ends it, and says why where its client did not ask for it."""
        if self.state is SessionState.Activated and self.end_reason:
            self.iserver.note_lost(self, self.end_reason)
        await super().close_session(delete_subs)

    def account(self, reason: str) -> str:
        """For the log: whose session, of what it ended, and how it had been."""
        user = self.grant.name if self.grant is not None else "nobody signed in"
        now = self.iserver.pace.now()
        return (
            f"the session of {user} at {self.application_uri} from {self.name}: {reason}; it lasted"
            f" {now - self._began:.0f} s, its last request came {now - self._last_activity:.1f} s before,"
            f" {len(self.own_subscriptions())} subscriptions, timeout {self.session_timeout or 0.0:.0f} s"
        )

    # --- who asks ---

    def caller(self) -> Caller:
        """Name and role in force now: a user taken from the book, or given another password, has none any more."""
        book = self.iserver.users
        if book is None:
            return Caller("", Role.OBSERVER, self.application_uri)
        try:
            book.refresh()
        except OpcUaError as error:
            _log.error("nobody has a role: %s", error)
        if self.grant is None:
            return Caller("", book.application_role(self.application_uri), self.application_uri)
        user = book.user(self.grant.name)
        if user is None or user.salt != self.grant.salt:
            return Caller("", Role.OBSERVER, self.application_uri)
        return Caller(self.grant.name, user.role, self.application_uri)

    def _may(self, node_id: Any, caller: Caller, *, writes: bool) -> bool:
        access = self.iserver.access
        if node_id in _REFRESH_METHODS and not writes:
            return True  # tells this session's own subscription again what is so
        if self.iserver.users is None and not access.knows(node_id):
            return True  # without a book the list of writers decides, see ``guard``
        return bool(access.allows(node_id, caller, writes=writes, writer=self.user.name == "writer"))

    def _count(self, items: list[Any] | None, most: int) -> None:
        if not items:
            raise ServiceError(Code.BadNothingToDo)
        if len(items) > most:
            raise ServiceError(Code.BadTooManyOperations)

    # --- values and methods ---

    async def read(self, params: Any) -> list[Any]:
        """Attributes; an index range is refused, where asyncua answers with the whole array."""
        self._count(params.NodesToRead, self.iserver.guard.nodes_per_read)
        results: list[Any] = await super().read(params)
        room = self.iserver.guard.message_bytes
        for index, item in enumerate(params.NodesToRead):
            if item.IndexRange:
                results[index] = ua.DataValue(StatusCode=ua.StatusCode(Code.BadIndexRangeInvalid))
            room -= weight(results[index])
            if room < 0:
                raise ServiceError(Code.BadResponseTooLarge)
        return results

    async def write(self, params: Any) -> list[Any]:
        """Values, each item on its own, after the listeners before writes had a look at all of them."""
        self._count(params.NodesToWrite, self.iserver.guard.nodes_per_write)
        dispatch = self.iserver.callback_service.dispatch
        await dispatch(CallbackType.PreWrite, ServerItemCallback(params, None, self.user, self.external))
        caller, now = self.caller(), dt.datetime.now(dt.UTC)
        results: list[Any] = []
        for item in params.NodesToWrite:
            code: int | None = int(Code.BadUserAccessDenied)
            if self._may(item.NodeId, caller, writes=True):
                code = writes.refusal(item, self.aspace, self.iserver.guard, now=now)
            if code is None:
                self._tell_of("writes", item.NodeId, caller)
                one = ua.WriteParameters(NodesToWrite=[item])
                results += await self.iserver.attribute_service.write(one, user=self.user)
            else:
                results.append(ua.StatusCode(code))
        await dispatch(CallbackType.PostWrite, ServerItemCallback(params, results, self.user, self.external))
        return results

    async def call(self, params: list[Any]) -> list[Any]:
        """Methods, each by its own rule; inside one, ``Access.caller`` tells who called."""
        self._count(params, self.iserver.guard.methods_per_call)
        results: list[Any] = []
        for method in params:
            caller = self.caller()
            if not self._may(method.MethodId, caller, writes=False):
                results.append(ua.CallMethodResult(StatusCode=ua.StatusCode(Code.BadUserAccessDenied)))
            elif method.MethodId in _REFRESH_METHODS and not self._refreshes_own(method):
                results.append(ua.CallMethodResult(StatusCode=ua.StatusCode(Code.BadSubscriptionIdInvalid)))
            else:
                self._tell_of("calls", method.MethodId, caller)
                with calling(caller):
                    results += await super().call([method])
        return results

    def _tell_of(self, what: str, node_id: Any, caller: Caller) -> None:
        """For the record: who changed something, not to what value."""
        if self.iserver.access.changes(node_id):
            who = caller.name or "nobody signed in"
            _log.info("%s (%s) at %s %s %s", who, caller.role, caller.application_uri, what, node_id.to_string())

    def _refreshes_own(self, method: Any) -> bool:
        arguments = method.InputArguments or []
        return bool(arguments) and isinstance(arguments[0].Value, int) and self._own(arguments[0].Value) is not None

    # --- browsing ---

    async def browse(self, params: Any) -> list[Any]:
        """References, at most as many in one answer as asked for and allowed; the rest by BrowseNext."""
        limits = self.iserver.guard
        self._count(params.NodesToBrowse, limits.nodes_per_browse)
        asked = params.RequestedMaxReferencesPerNode or limits.references_per_node
        size = min(asked, limits.references_per_node, limits.references_per_answer // len(params.NodesToBrowse))
        results: list[Any] = self.iserver.view_service.browse(params)
        older = list(self._points)
        for result in results:
            self._cut(result, max(size, 1), older)
        return results

    def _cut(self, result: Any, size: int, older: list[bytes]) -> None:
        """Leave ``size`` references and keep the rest; points of older requests make room for it."""
        rest = result.References[size:]
        if not rest:
            return
        if len(self._points) >= self.iserver.guard.continuation_points:
            if not older:
                result.References = []
                result.StatusCode = ua.StatusCode(Code.BadNoContinuationPoints)
                return
            del self._points[older.pop(0)]
        result.References = result.References[:size]
        result.ContinuationPoint = secrets.token_bytes(16)
        self._points[result.ContinuationPoint] = (rest, size)

    async def browse_next(self, parameters: Any) -> list[Any]:
        """The rest of a Browse; a point serves once."""
        self._count(parameters.ContinuationPoints, self.iserver.guard.continuation_points)
        results = []
        for point in parameters.ContinuationPoints:
            result = ua.BrowseResult()
            found = self._points.pop(point, None)
            if found is None:
                result.StatusCode = ua.StatusCode(Code.BadContinuationPointInvalid)
            elif not parameters.ReleaseContinuationPoints:
                result.References = found[0]
                self._cut(result, found[1], [])
            results.append(result)
        return results

    async def translate_browsepaths_to_nodeids(self, params: list[Any]) -> list[Any]:
        """As asyncua's, which fails on an empty path."""
        self._count(params, self.iserver.guard.nodes_per_translate)
        if any(not path.RelativePath.Elements for path in params):
            raise ServiceError(Code.BadNothingToDo)
        if sum(len(path.RelativePath.Elements) for path in params) > self.iserver.guard.path_elements:
            raise ServiceError(Code.BadTooManyOperations)
        results: list[Any] = await super().translate_browsepaths_to_nodeids(params)
        return results

    # --- subscriptions: own ones only; another's number is as unknown as one that never was ---

    def _own(self, number: int) -> Any:
        subscription = self.subscription_service.subscriptions.get(number)
        return subscription if subscription is not None and subscription.session_id == self.session_id else None

    def _require(self, number: int) -> Any:
        subscription = self._own(number)
        if subscription is None:
            raise ServiceError(Code.BadSubscriptionIdInvalid)
        return subscription

    def own_subscriptions(self) -> list[int]:
        """Numbers of this session's subscriptions."""
        return [number for number in self.subscription_service.subscriptions if self._own(number) is not None]

    async def create_subscription(self, params: Any, callback: Any, request_callback: Any = None) -> Any:
        """With revised intervals and counts."""
        if len(self.own_subscriptions()) >= self.iserver.guard.subscriptions_per_session:
            raise ServiceError(Code.BadTooManySubscriptions)
        revised(params, self.iserver.guard)
        return await super().create_subscription(params, callback, request_callback)

    def modify_subscription(self, params: Any) -> Any:
        """Answers with the values in force, which stay as created (asyncua changes none)."""
        self._require(params.SubscriptionId)
        return super().modify_subscription(params)

    async def delete_subscriptions(self, ids: list[int]) -> list[Any]:
        """Own ones; the rest is unknown."""
        return await self._each_own(ids, lambda number: self.subscription_service.delete_subscriptions([number]))

    async def set_publishing_mode(self, params: Any) -> list[Any]:
        """Own ones; the rest is unknown."""

        def one(number: int) -> Any:
            mode = ua.SetPublishingModeParameters(PublishingEnabled=params.PublishingEnabled, SubscriptionIds=[number])
            return self.subscription_service.set_publishing_mode(mode)

        return await self._each_own(params.SubscriptionIds, one)

    async def _each_own(self, ids: list[int], act: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = []
        for number in ids:
            if self._own(number) is None:
                results.append(ua.StatusCode(Code.BadSubscriptionIdInvalid))
            else:
                results += await act(number)
        return results

    async def transfer_subscriptions(self, params: Any, callback: Any) -> list[Any]:
        """No subscription changes its session, as no session changes its channel."""
        return [
            ua.TransferResult(StatusCode=ua.StatusCode(Code.BadSubscriptionIdInvalid)) for _ in params.SubscriptionIds
        ]

    def republish(self, params: Any) -> Any:
        """A message not acknowledged yet."""
        return self._require(params.SubscriptionId).republish(params.RetransmitSequenceNumber)

    def publish(self, acks: Iterable[Any] | None = None) -> tuple[int, list[Any]]:
        """Acknowledge; the number of own subscriptions and one status per acknowledgement."""
        own = self.own_subscriptions()
        if not own:
            raise ServiceError(Code.BadNoSubscription)
        results = []
        for ack in acks or []:
            subscription = self._own(ack.SubscriptionId)
            if subscription is None:
                results.append(ua.StatusCode(Code.BadSubscriptionIdInvalid))
            elif ack.SequenceNumber not in subscription._not_acknowledged_results:
                results.append(ua.StatusCode(Code.BadSequenceNumberUnknown))
            else:
                subscription.publish([ack.SequenceNumber])
                results.append(ua.StatusCode())
        return len(own), results

    # --- monitored items ---

    async def create_monitored_items(self, params: Any) -> list[Any]:
        """Each on its own: filter judged, queue clamped, room left."""
        limits = self.iserver.guard
        subscription = self._require(params.SubscriptionId)
        self._count(params.ItemsToCreate, limits.items_per_call)
        service = subscription.monitored_item_srv
        room = min(
            limits.items_per_subscription - len(service._monitored_items),
            limits.items - self.subscription_service.items(),
        )
        results: list[Any] = []
        for item in params.ItemsToCreate:
            code = self._item_refusal(item) if room > 0 else int(Code.BadTooManyMonitoredItems)
            if code is not None:
                results.append(ua.MonitoredItemCreateResult(StatusCode=ua.StatusCode(code)))
                continue
            item.RequestedParameters.QueueSize = self._queue(item.RequestedParameters.QueueSize, item.ItemToMonitor)
            one = ua.CreateMonitoredItemsParameters(SubscriptionId=params.SubscriptionId, ItemsToCreate=[item])
            (result,) = await service.create_monitored_items(one)
            room -= 1 if result.StatusCode.is_good() else 0
            results.append(result)
        await self._tell(CallbackType.ItemSubscriptionCreated, params, results)
        return results

    def _item_refusal(self, item: Any) -> int | None:
        item.RequestedParameters.Filter = item.RequestedParameters.Filter or None  # an empty object is no filter
        if item.ItemToMonitor.IndexRange:
            return int(Code.BadIndexRangeInvalid)
        return filters.refusal(item.RequestedParameters.Filter, item.ItemToMonitor, self.aspace)

    def _queue(self, asked: int, read_value: Any) -> int:
        most = self.iserver.guard.queue_size
        least = most if read_value.AttributeId == ua.AttributeIds.EventNotifier else 1
        return int(min(asked or least, most))

    async def modify_monitored_items(self, params: Any) -> list[Any]:
        """Filter, queue and client's handle of own items, judged as at creation."""
        subscription = self._require(params.SubscriptionId)
        self._count(params.ItemsToModify, self.iserver.guard.items_per_call)
        results = [self._modify(subscription, item) for item in params.ItemsToModify]
        await self._tell(CallbackType.ItemSubscriptionModified, params, results)
        return results

    def _modify(self, subscription: Any, change: Any) -> Any:
        known = subscription.monitored_item_srv._monitored_items.get(change.MonitoredItemId)
        if known is None:
            return ua.MonitoredItemModifyResult(StatusCode=ua.StatusCode(Code.BadMonitoredItemIdInvalid))
        asked = change.RequestedParameters
        asked.Filter = asked.Filter or None
        code = filters.refusal(asked.Filter, known.read_value_id, self.aspace)
        if code is not None:
            return ua.MonitoredItemModifyResult(StatusCode=ua.StatusCode(code))
        known.filter, known.client_handle = asked.Filter, asked.ClientHandle
        if known.where_clause_evaluator is not None:
            known.where_clause_evaluator.elements = asked.Filter.WhereClause.Elements
        known.queue_size = self._queue(asked.QueueSize, known.read_value_id)
        return ua.MonitoredItemModifyResult(
            RevisedSamplingInterval=subscription.data.RevisedPublishingInterval, RevisedQueueSize=known.queue_size
        )

    async def set_monitoring_mode(self, params: Any) -> list[Any]:
        """Of own items."""
        self._require(params.SubscriptionId)
        self._count(params.MonitoredItemIds, self.iserver.guard.items_per_call)
        results: list[Any] = await super().set_monitoring_mode(params)
        return results

    async def delete_monitored_items(self, params: Any) -> list[Any]:
        """Of own subscriptions."""
        self._require(params.SubscriptionId)
        self._count(params.MonitoredItemIds, self.iserver.guard.items_per_call)
        results: list[Any] = await super().delete_monitored_items(params)
        return results

    async def _tell(self, kind: Any, params: Any, results: list[Any]) -> None:
        await self.iserver.callback_service.dispatch(kind, ServerItemCallback(params, results, None, self.external))
