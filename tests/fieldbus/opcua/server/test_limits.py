"""What one client may take, and that it touches nothing of another's: asyncua's client, a server in another process."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from asyncua import Client, ua

from fieldbus.opcua import Identity
from tests.fieldbus.opcua.server.shop import LIMITS, Shop, call, node_id

People = dict[str, Identity]


def item(name: str, *, handle: int = 1, queue: int = 1, **changes: Any) -> ua.MonitoredItemCreateRequest:
    request = ua.MonitoredItemCreateRequest()
    request.ItemToMonitor = ua.ReadValueId(NodeId=node_id(name), AttributeId=ua.AttributeIds.Value)
    request.MonitoringMode = ua.MonitoringMode.Reporting
    request.RequestedParameters = ua.MonitoringParameters(ClientHandle=handle, QueueSize=queue)
    for key, value in changes.items():
        setattr(request.RequestedParameters, key, value)
    return request


async def subscribe(client: Client, **changes: Any) -> Any:
    """A subscription made by its services alone: no publish loop runs."""
    params = ua.CreateSubscriptionParameters(
        RequestedPublishingInterval=100.0, RequestedLifetimeCount=100, RequestedMaxKeepAliveCount=10
    )
    for key, value in changes.items():
        setattr(params, key, value)
    request = ua.CreateSubscriptionRequest(Parameters=params)
    response = await client.uaclient.session._send_request(request)
    return ua.ua_binary.struct_from_binary(ua.CreateSubscriptionResponse, response).Parameters


async def watch(client: Client, subscription: int, *items: Any) -> list[Any]:
    params = ua.CreateMonitoredItemsParameters(SubscriptionId=subscription, ItemsToCreate=list(items))
    results: list[Any] = await client.uaclient.session.create_monitored_items(params)
    return results


async def publish(client: Client, *acknowledge: tuple[int, int]) -> Any:
    acks = [ua.SubscriptionAcknowledgement(SubscriptionId=sub, SequenceNumber=number) for sub, number in acknowledge]
    request = ua.PublishRequest(Parameters=ua.PublishParameters(SubscriptionAcknowledgements=acks))
    response = await client.uaclient.session._send_request(request, timeout=20)
    return ua.ua_binary.struct_from_binary(ua.PublishResponse, response)


async def refused(what: Any) -> str:
    with pytest.raises(ua.UaStatusCodeError) as error:
        await what
    return type(error.value).__name__


async def test_intervals_and_counts_are_revised_and_the_answer_says_so(shop: Shop, people: People) -> None:
    async with shop.session(people["screen"]) as client:
        tiny = await subscribe(
            client, RequestedPublishingInterval=0.0, RequestedLifetimeCount=0, RequestedMaxKeepAliveCount=0
        )
        huge = await subscribe(
            client,
            RequestedPublishingInterval=float("inf"),
            RequestedLifetimeCount=2**32 - 1,
            RequestedMaxKeepAliveCount=2**32 - 1,
        )
        assert tiny.RevisedPublishingInterval == huge.RevisedPublishingInterval == LIMITS.publishing_ms_min
        assert tiny.RevisedMaxKeepAliveCount == huge.RevisedMaxKeepAliveCount == LIMITS.keep_alive_max
        assert tiny.RevisedLifetimeCount == huge.RevisedLifetimeCount == LIMITS.lifetime_max
        nothing, much = await watch(client, tiny.SubscriptionId, item("Count", queue=0), item("Count", queue=10**9))
        assert (nothing.RevisedQueueSize, much.RevisedQueueSize) == (1, LIMITS.queue_size)
        assert nothing.RevisedSamplingInterval == LIMITS.publishing_ms_min
        change = ua.MonitoredItemModifyRequest(MonitoredItemId=much.MonitoredItemId)
        change.RequestedParameters = ua.MonitoringParameters(QueueSize=0, SamplingInterval=0.0)
        unknown = ua.MonitoredItemModifyRequest(MonitoredItemId=999_999)
        params = ua.ModifyMonitoredItemsParameters(SubscriptionId=tiny.SubscriptionId, ItemsToModify=[change, unknown])
        good, bad = await client.uaclient.session.modify_monitored_items(params)
        assert (good.RevisedQueueSize, good.RevisedSamplingInterval) == (1, LIMITS.publishing_ms_min)
        assert bad.StatusCode.name == "BadMonitoredItemIdInvalid"


async def test_sessions_subscriptions_and_items_are_counted(shop: Shop, people: People) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(shop.session(people["evil"]))
            for _ in range(LIMITS.sessions_per_application)
        ]
        with pytest.raises(ua.uaerrors.BadTooManySessions):
            await (await shop.client(people["evil"])).connect()
        other = await stack.enter_async_context(shop.session(people["screen"]))  # room is left for others
        told = (await call(other, "Connections"))[0][1][0]
        assert int(told[0]) > LIMITS.sessions_per_application
        assert told.count("@urn:tests:evil") == LIMITS.sessions_per_application
        assert "@urn:tests:screen" in told
        first = await subscribe(clients[0])
        assert await refused(_twice(clients[0])) == "BadTooManySubscriptions"
        wanted = [item("Count", handle=number) for number in range(LIMITS.items_per_subscription + 1)]
        statuses = [result.StatusCode.name for result in await watch(clients[0], first.SubscriptionId, *wanted)]
        assert statuses == ["Good"] * LIMITS.items_per_subscription + ["BadTooManyMonitoredItems"]
        second = await subscribe(other)
        results = await watch(other, second.SubscriptionId, *wanted)
        left = LIMITS.items - LIMITS.items_per_subscription
        assert [result.StatusCode.is_good() for result in results].count(True) == left
    async with shop.session(people["evil"]) as again:  # what a gone client held is free again
        third = await subscribe(again)
        results = await watch(again, third.SubscriptionId, *wanted)
        assert [result.StatusCode.is_good() for result in results].count(True) == LIMITS.items_per_subscription


async def _twice(client: Client) -> None:
    await subscribe(client)
    await subscribe(client)


async def test_a_foreign_session_touches_no_subscription_or_item_of_another(shop: Shop, people: People) -> None:
    async with shop.session(people["screen"]) as victim, shop.session(people["evil"]) as evil:
        number = (await subscribe(victim)).SubscriptionId
        (mine,) = await watch(victim, number, item("Count", handle=7))
        session, one = evil.uaclient.session, [number]
        (status,) = await session.delete_subscriptions(one)
        assert status.name == "BadSubscriptionIdInvalid"
        transfer = ua.TransferSubscriptionsParameters(SubscriptionIds=one, SendInitialValues=True)
        (transferred,) = await session.transfer_subscriptions(transfer)
        assert transferred.StatusCode.name == "BadSubscriptionIdInvalid"
        mode = ua.SetPublishingModeRequest()
        mode.Parameters = ua.SetPublishingModeParameters(PublishingEnabled=False, SubscriptionIds=one)
        body = await session._send_request(mode)
        answer = ua.ua_binary.struct_from_binary(ua.SetPublishingModeResponse, body)
        assert [status.name for status in answer.Parameters.Results] == ["BadSubscriptionIdInvalid"]
        ids = [mine.MonitoredItemId]
        change = ua.MonitoredItemModifyRequest(MonitoredItemId=ids[0])
        attempts = [
            session.update_subscription(ua.ModifySubscriptionParameters(SubscriptionId=number)),
            watch(evil, number, item("Count")),
            session.modify_monitored_items(
                ua.ModifyMonitoredItemsParameters(SubscriptionId=number, ItemsToModify=[change])
            ),
            session.delete_monitored_items(
                ua.DeleteMonitoredItemsParameters(SubscriptionId=number, MonitoredItemIds=ids)
            ),
            session.set_monitoring_mode(
                ua.SetMonitoringModeParameters(
                    SubscriptionId=number, MonitoringMode=ua.MonitoringMode.Disabled, MonitoredItemIds=ids
                )
            ),
            session._send_request(
                ua.RepublishRequest(
                    Parameters=ua.RepublishParameters(SubscriptionId=number, RetransmitSequenceNumber=1)
                )
            ),
        ]
        assert [await refused(attempt) for attempt in attempts] == ["BadSubscriptionIdInvalid"] * len(attempts)
        assert await refused(publish(evil, (number, 1))) == "BadNoSubscription"
        await subscribe(evil)
        stolen = asyncio.ensure_future(publish(evil, (number, 1)))
        got = await publish(victim)
        (notification,) = got.Parameters.NotificationMessage.NotificationData
        assert got.Parameters.SubscriptionId == number
        assert [value.ClientHandle for value in notification.MonitoredItems] == [7]
        answer = await stolen
        assert answer.Parameters.SubscriptionId != number
        assert [status.name for status in answer.Parameters.Results] == ["BadSubscriptionIdInvalid"]
        kept = await publish(victim, (number, 77))
        assert [status.name for status in kept.Parameters.Results] == ["BadSequenceNumberUnknown"]
        assert kept.Parameters.AvailableSequenceNumbers == [1]  # nobody else acknowledged it


async def test_a_queue_that_overflows_says_so(shop: Shop, people: People) -> None:
    async with shop.session(people["screen"]) as client:
        number = (await subscribe(client, RequestedPublishingInterval=1_000.0)).SubscriptionId
        await watch(client, number, item("Counter", queue=3))
        values: list[Any] = []
        while not values or values[0].StatusCode is None or not values[0].StatusCode.value & 0x480:
            answer = await publish(client)
            data = answer.Parameters.NotificationMessage.NotificationData
            values = [value.Value for value in data[0].MonitoredItems] if data else []
        assert len(values) == 3
        assert [value.StatusCode.value & 0x480 for value in values] == [0x480, 0, 0]
        numbers = [value.Value.Value for value in values]
        assert numbers == sorted(numbers)


async def test_publish_requests_beyond_the_limit_push_out_the_oldest(shop: Shop, people: People) -> None:
    async with shop.session(people["evil"]) as client:
        await subscribe(client, RequestedPublishingInterval=60_000.0)
        await publish(client)  # the first answer comes at once
        waiting = [asyncio.ensure_future(publish(client)) for _ in range(LIMITS.publish_requests + 50)]
        results = await asyncio.gather(*waiting[:50], return_exceptions=True)
        assert {type(result).__name__ for result in results} == {"BadTooManyPublishRequests"}
        assert not any(future.done() for future in waiting[50:])
        for future in waiting[50:]:
            future.cancel()


async def test_operations_of_one_request_are_counted_and_browsing_goes_on_in_pieces(shop: Shop, people: People) -> None:
    async with shop.session(people["screen"]) as client:
        session = client.uaclient.session
        read = ua.ReadValueId(NodeId=node_id("Count"), AttributeId=ua.AttributeIds.Value)
        assert await refused(session.read(ua.ReadParameters(NodesToRead=[read] * 51))) == "BadTooManyOperations"
        assert await refused(session.read(ua.ReadParameters())) == "BadNothingToDo"
        big = ua.ReadValueId(NodeId=node_id("Big"), AttributeId=ua.AttributeIds.Value)
        assert await refused(session.read(ua.ReadParameters(NodesToRead=[big] * 50))) == "BadResponseTooLarge"
        part = ua.ReadValueId(NodeId=node_id("Profile"), AttributeId=ua.AttributeIds.Value, IndexRange="0")
        (ranged,) = await session.read(ua.ReadParameters(NodesToRead=[part]))
        assert ranged.StatusCode.name == "BadIndexRangeInvalid"
        capability = client.get_node(ua.ObjectIds.Server_ServerCapabilities_OperationLimits_MaxNodesPerRead)
        assert await capability.read_value() == LIMITS.nodes_per_read
        whole = await client.get_node(node_id("Shop")).get_children_descriptions()
        assert len(whole) == 15  # asyncua's client follows continuation points by itself
        points = []
        for _ in range(LIMITS.continuation_points + 1):
            browse = ua.BrowseDescription(
                NodeId=node_id("Shop"), ReferenceTypeId=ua.NodeId(33), IncludeSubtypes=True, ResultMask=63
            )
            (result,) = await session.browse(ua.BrowseParameters(NodesToBrowse=[browse]))
            assert len(result.References) == LIMITS.references_per_node
            points.append(result.ContinuationPoint)
        nexts = [ua.BrowseNextParameters(ReleaseContinuationPoints=False, ContinuationPoints=[one]) for one in points]
        oldest, *others = [(await session.browse_next(params))[0] for params in nexts]
        assert oldest.StatusCode.name == "BadContinuationPointInvalid"
        assert [len(result.References) for result in others] == [LIMITS.references_per_node] * 2


async def test_a_filter_that_cannot_be_judged_is_refused(shop: Shop, people: People) -> None:
    deadband = ua.DataChangeFilter(Trigger=ua.DataChangeTrigger.StatusValue, DeadbandType=1, DeadbandValue=0.5)
    percent = ua.DataChangeFilter(Trigger=ua.DataChangeTrigger.StatusValue, DeadbandType=2, DeadbandValue=5.0)
    endless = ua.DataChangeFilter(Trigger=ua.DataChangeTrigger.StatusValue, DeadbandType=1, DeadbandValue=float("nan"))
    fields = [ua.SimpleAttributeOperand(BrowsePath=[ua.QualifiedName("Message")], AttributeId=ua.AttributeIds.Value)]
    hidden = [ua.SimpleAttributeOperand(BrowsePath=[ua.QualifiedName("__class__")], AttributeId=13)]
    both = [ua.ElementOperand(Index=1), ua.ElementOperand(Index=1)]
    doubling = ua.ContentFilter(
        Elements=[
            ua.ContentFilterElement(FilterOperator=ua.FilterOperator.And, FilterOperands=both),
            ua.ContentFilterElement(FilterOperator=ua.FilterOperator.IsNull, FilterOperands=fields),
        ]
    )
    async with shop.session(people["evil"]) as client:
        number = (await subscribe(client)).SubscriptionId
        found = await watch(
            client,
            number,
            item("Setpoint", Filter=deadband),
            item("Text", Filter=deadband),
            item("Setpoint", Filter=percent),
            item("Setpoint", Filter=endless),
            item("Setpoint", Filter=ua.EventFilter(SelectClauses=fields)),
            event(),
            event(Filter=ua.EventFilter(SelectClauses=hidden)),
            event(Filter=ua.EventFilter(SelectClauses=fields, WhereClause=doubling)),
            event(Filter=ua.EventFilter(SelectClauses=fields)),
        )
    assert [result.StatusCode.name for result in found] == [
        "Good",
        "BadFilterNotAllowed",
        "BadMonitoredItemFilterUnsupported",
        "BadDeadbandFilterInvalid",
        "BadFilterNotAllowed",
        "BadEventFilterInvalid",
        "BadEventFilterInvalid",
        "BadFilterOperandInvalid",
        "Good",
    ]


def event(**changes: Any) -> ua.MonitoredItemCreateRequest:
    request = item("Shop", **changes)
    request.ItemToMonitor = ua.ReadValueId(NodeId=ua.NodeId(2253), AttributeId=ua.AttributeIds.EventNotifier)
    return request
