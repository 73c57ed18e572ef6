"""Subscriptions against a server in another process that misbehaves when told to."""

from __future__ import annotations

import asyncio
import itertools
import signal
from typing import Any

import pytest

from fieldbus.opcua import (
    Deadband,
    DeadbandKind,
    Identity,
    ItemOptions,
    ReconnectPolicy,
    SecureClient,
    SubscriptionOptions,
    Trigger,
    ValueSubscription,
)
from tests.fieldbus.opcua.support import WILD_TAGS as TAGS
from tests.fieldbus.opcua.support import MakeClient, Wild

FAST = ReconnectPolicy(first_s=0.02, max_s=0.1, health_s=0.4, verify_s=0.1)
CALM = ReconnectPolicy(first_s=0.02, max_s=0.1, health_s=30.0, verify_s=30.0)
NODES = ReconnectPolicy(first_s=0.02, max_s=0.1, health_s=30.0, verify_s=0.1)
"""A loaded machine may not answer for longer than 0.4 s, and that is a reconnect: only where it matters."""

BAD_NO_COMMUNICATION = 0x80310000
BAD_DATA_LOST = 0x809D0000
BAD_OUT_OF_SERVICE = 0x808D0000
BAD_NODE_UNKNOWN = 0x80340000
BAD_FILTER = 0x80450000
OVERFLOW = 0x0480


async def until(subscription: ValueSubscription, tag: str, wanted: Any) -> list[tuple[str, Any]]:
    """What came, as (tag, value or bad status), up to and with ``wanted`` for ``tag``."""
    seen: list[tuple[str, Any]] = []
    async with asyncio.timeout(30):
        while (tag, wanted) not in seen:
            values = await subscription.get(10.0)
            seen += [(item.tag, item.value if item.value is not None else item.status) for item in values]
    return seen


async def write(wild: Wild, *lines: str) -> None:
    await asyncio.to_thread(wild.do, *(f"write {line}" for line in lines))


fresh = itertools.count(1000)


async def settled(wild: Wild, subscription: ValueSubscription, tag: str = "gap") -> None:
    """A value that only now exists has come: everything before it has, too."""
    value = float(next(fresh))
    await write(wild, f"{TAGS[tag].rpartition('/')[2]} {value}")
    await until(subscription, tag, value)


async def test_deadbands_queues_and_triggers_are_the_tags_own(wild: Wild, make_wild_client: MakeClient) -> None:
    items = {
        "gap": ItemOptions(deadband=Deadband(DeadbandKind.ABSOLUTE, 0.5), queue=5),
        "speed": ItemOptions(trigger=Trigger.STATUS_VALUE_TIMESTAMP, queue=3, discard_oldest=False),
        "level": ItemOptions(deadband=Deadband(DeadbandKind.PERCENT, 1.0, here=True), queue=5),
    }
    await write(wild, "Gap 1", "Speed 5", "Level 100")
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(
            ["gap", "speed", "level"], SubscriptionOptions(publishing_ms=10, items=items)
        )
        first: set[str] = set()
        while len(first) < 3:
            first |= {item.tag for item in await subscription.get(10)}
        assert [subscription.revisions.items[tag].queue for tag in TAGS] == [5, 3, 5]
        # asyncua has absolute deadbands, and takes percentages without knowing them: 1 % of 0 … 200 is 2.
        await write(wild, "Gap 1.25", "Speed 5", "Level 101.5")
        await write(wild, "Gap 2.5", "Speed 6", "Level 103")
        seen = await until(subscription, "level", 103.0)
        assert ("gap", 1.25) not in seen
        assert ("gap", 2.5) in seen
        assert ("level", 101.5) not in seen
        assert subscription.filtered_total == 1
        assert [value for tag, value in seen if tag == "speed"][-2:] == [5.0, 6.0]
        assert subscription.findings == ()
        assert client.findings == ()


async def test_a_deadband_in_percent_without_a_range_is_refused_by_name(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    percent = Deadband(DeadbandKind.PERCENT, 1.0)
    here = Deadband(DeadbandKind.PERCENT, 1.0, here=True, span=100.0)
    items = {"gap": ItemOptions(deadband=percent), "speed": ItemOptions(deadband=here)}
    await write(wild, "Speed 5")
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(
            ["gap", "speed", "level"], SubscriptionOptions(publishing_ms=10, items=items)
        )
        assert set(subscription.refused) == {"gap"}
        codes = {item.code: item.text for item in client.findings}
        assert set(codes) == {"deadband-no-range", "deadband-here", "item-refused"}
        assert codes["deadband-no-range"].endswith("gap")
        await write(wild, "Speed 5.5", "Speed 7")
        assert ("speed", 5.5) not in await until(subscription, "speed", 7.0)


async def test_a_deadband_the_server_refuses_is_refused_unless_it_may_be_done_here(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    await asyncio.to_thread(wild.do, "set refuse_deadbands 1", "write Speed 5")
    items = {
        "gap": ItemOptions(deadband=Deadband(DeadbandKind.ABSOLUTE, 1.0)),
        "speed": ItemOptions(deadband=Deadband(DeadbandKind.ABSOLUTE, 1.0, here=True)),
    }
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(["gap", "speed"], SubscriptionOptions(publishing_ms=10, items=items))
        assert subscription.refused == {"gap": BAD_FILTER}
        assert {item.code for item in subscription.findings} == {"deadband-refused", "deadband-here", "item-refused"}
        await write(wild, "Speed 5.5", "Speed 7")
        seen = await until(subscription, "speed", 7.0)
        assert ("gap", BAD_FILTER) in seen
        assert ("speed", 5.5) not in seen


async def test_a_server_that_ignores_its_deadband_is_found_out(wild: Wild, make_wild_client: MakeClient) -> None:
    items = {"level": ItemOptions(deadband=Deadband(DeadbandKind.PERCENT, 10.0))}
    await write(wild, "Level 100")
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(["level"], SubscriptionOptions(publishing_ms=10, items=items))
        await until(subscription, "level", 100.0)
        await write(wild, "Level 101")
        await until(subscription, "level", 101.0)
        assert subscription.deadband_ignored == {"level": 1}
        assert [item.code for item in subscription.findings] == ["deadband-ignored"]


async def test_revised_intervals_are_judged_against_the_latency_claim(wild: Wild, make_wild_client: MakeClient) -> None:
    await asyncio.to_thread(wild.do, "set publishing_ms 50", "set sampling_ms 50", "set queue_max 2")
    options = SubscriptionOptions(publishing_ms=1, sampling_ms=1, item_queue=10, latency_ms_max=20)
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(["gap"], options)
        revised = subscription.revisions
        assert (revised.publishing_ms, revised.latency_ms, revised.items["gap"].queue) == (50.0, 100.0, 2)
        texts = {item.code: item.text for item in client.findings}
        assert set(texts) == {"latency-claim", "publishing-revised", "sampling-revised", "queue-revised"}
        assert "100 ms old" in texts["latency-claim"]
        assert "50 ms sampling + 50 ms publishing" in texts["latency-claim"]
        kept = await client.subscribe(
            ["gap"], SubscriptionOptions(publishing_ms=50, sampling_ms=50, latency_ms_max=100)
        )
        assert kept.findings == ()


async def test_overflow_bits_and_values_nobody_took_are_counted_by_tag(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    async with make_wild_client(wild) as client:
        options = SubscriptionOptions(publishing_ms=10, item_queue=10, hand_over=4)
        subscription = await client.subscribe(["gap", "speed"], options)
        await settled(wild, subscription)
        await write(wild, f"Gap -1 {OVERFLOW}", "Speed -2", "Gap -3", "Speed -4", "Gap -5", "Speed -6")
        async with asyncio.timeout(30):
            while subscription.overflow_total < 2:
                await asyncio.sleep(0.005)
        assert subscription.overflows == {"gap": 1}
        assert sum(subscription.dropped.values()) == 2
        assert [item.code for item in subscription.findings] == ["queue-overflow"]


async def test_a_notification_that_is_missing_is_asked_for_again_in_order(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=10, item_queue=10))
        await settled(wild, subscription)
        await asyncio.to_thread(wild.do, "set drop 1", "write Gap -1")
        # No data follows: the keep-alive's number is what shows the loss, instead of masking it.
        assert await until(subscription, "gap", -1.0) == [("gap", -1.0)]
        assert (subscription.missed_total, client.publisher_counts.republished_total) == (1, 1)
        assert subscription.losses == {}


async def test_a_notification_that_is_gone_makes_values_bad_and_then_current(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(["gap", "speed"], SubscriptionOptions(publishing_ms=10))
        await settled(wild, subscription)
        await asyncio.to_thread(wild.do, "set drop 1", "set forget 1", "write Gap -2")
        seen = await until(subscription, "gap", -2.0)
        assert ("gap", BAD_DATA_LOST) in seen
        assert ("speed", BAD_DATA_LOST) in seen
        assert subscription.losses == {"data-lost": 1}
        assert client.publisher_counts.lost_total == 1
        assert client.connects_total == 1


async def test_a_notification_that_comes_twice_is_taken_once(wild: Wild, make_wild_client: MakeClient) -> None:
    async with make_wild_client(wild) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=10, item_queue=10))
        await settled(wild, subscription)
        await asyncio.to_thread(wild.do, "set repeat 1", "write Gap -3")
        seen = await until(subscription, "gap", -3.0)
        async with asyncio.timeout(30):
            while subscription.duplicates_total < 1:
                await asyncio.sleep(0.005)
        assert (seen, await subscription.get(0.0)) == ([("gap", -3.0)], [])


@pytest.mark.parametrize(
    ("command", "reason", "policy"),
    [
        ("end", "silent", FAST),
        ("status 0x800A0000", "expired", CALM),
        ("status 0x002D0000", "transferred", CALM),
        pytest.param("set mute 1", "silent", FAST, marks=pytest.mark.slow),
    ],
)
async def test_a_subscription_that_the_server_ended_is_made_anew(
    wild: Wild, make_wild_client: MakeClient, command: str, reason: str, policy: ReconnectPolicy
) -> None:
    async with make_wild_client(wild, reconnect=policy) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=10))
        await settled(wild, subscription)
        await asyncio.to_thread(wild.do, command)
        assert (await until(subscription, "gap", BAD_NO_COMMUNICATION))[-1] == ("gap", BAD_NO_COMMUNICATION)
        await asyncio.to_thread(wild.do, "set mute 0")
        await settled(wild, subscription)
        assert reason in subscription.losses
        assert client.connects_total == 1 or policy is FAST


async def test_a_server_that_says_it_is_out_of_service_has_no_good_values(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    async with make_wild_client(wild, reconnect=FAST) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=10))
        await settled(wild, subscription)
        await asyncio.to_thread(wild.do, "state 4")
        await until(subscription, "gap", BAD_OUT_OF_SERVICE)
        assert not client.in_service
        assert [item.code for item in client.findings] == ["server-state"]
        await write(wild, "Gap -1")
        await asyncio.to_thread(wild.do, "level 1", "state 0")  # running, but without data
        async with asyncio.timeout(30):
            while [item.code for item in client.findings] != ["service-level"]:
                await asyncio.sleep(0.01)
        assert not client.in_service
        assert await subscription.get(0.0) == []
        await asyncio.to_thread(wild.do, "level 100")  # degraded: said, not acted upon
        await until(subscription, "gap", -1.0)
        assert client.in_service
        assert [item.code for item in client.findings] == ["service-level"]


async def test_a_node_that_goes_and_comes_back_is_taken_up_without_a_reconnect(
    wild: Wild, make_wild_client: MakeClient
) -> None:
    async with make_wild_client(wild, reconnect=NODES) as client:
        subscription = await client.subscribe(["gap", "speed"], SubscriptionOptions(publishing_ms=10))
        await settled(wild, subscription, "speed")
        await asyncio.to_thread(wild.do, "remove Speed")
        await until(subscription, "speed", BAD_NODE_UNKNOWN)
        assert client.missing == ("speed",)
        await settled(wild, subscription)  # the other one goes on
        await asyncio.to_thread(wild.do, "add Speed Moved", "write Speed 77")
        await until(subscription, "speed", 77.0)
        assert (client.missing, client.connects_total, subscription.refused) == ((), 1, {})
        await asyncio.to_thread(wild.do, "remove Speed", "add Speed")
        await settled(wild, subscription, "speed")


async def test_values_are_bad_at_once_when_the_server_is_unplugged(wild: Wild, make_wild_client: MakeClient) -> None:
    """Without FIN: the process is stopped, so only its silence tells."""
    assert wild.process is not None
    async with make_wild_client(wild, reconnect=FAST) as client:
        subscription = await client.subscribe(["gap", "speed"], SubscriptionOptions(publishing_ms=10))
        await settled(wild, subscription)
        wild.process.send_signal(signal.SIGSTOP)
        try:
            seen = await until(subscription, "speed", BAD_NO_COMMUNICATION)
        finally:
            wild.process.send_signal(signal.SIGCONT)
        assert ("gap", BAD_NO_COMMUNICATION) in seen
        assert await client.wait_connected(30)
        await settled(wild, subscription)
        await asyncio.to_thread(wild.do, "cut")
        await until(subscription, "gap", BAD_NO_COMMUNICATION)
        await settled(wild, subscription)


async def test_a_stale_burst_is_gated_by_source_time(wild: Wild, make_wild_client: MakeClient) -> None:
    async with make_wild_client(wild) as client:
        options = SubscriptionOptions(publishing_ms=200, item_queue=100, source_age_ms_max=2_000)
        subscription = await client.subscribe(["gap"], options)
        await settled(wild, subscription)
        await write(wild, *(f"Gap {-100 - age} 0 {age}" for age in range(12, 2, -1)), "Gap -50")
        seen = await until(subscription, "gap", -50.0)
        assert len(seen) + subscription.stale_total == 11
        assert subscription.stale_total >= 8  # at most one publish cuts the burst in two


async def test_a_dead_server_and_a_refused_item_hold_up_nobody(
    wild: Wild, make_wild_client: MakeClient, plant: dict[str, Identity]
) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    tags = TAGS | {"nosuch": "Mill/Nosuch"}
    async with (
        await asyncio.start_server(mute, "127.0.0.1", 0) as dead,
        make_wild_client(wild, tags=tags, missing_ok=True) as client,
    ):
        other = SecureClient(
            f"opc.tcp://127.0.0.1:{dead.sockets[0].getsockname()[1]}/",
            identity=plant["bridge"],
            server_certificate=plant["plc"].certificate_path,
            namespace_uri="urn:tests:mill",
            tags=TAGS,
            deadline_s=0.2,
        )
        subscription = await client.subscribe(["nosuch", "gap"], SubscriptionOptions(publishing_ms=10))
        attempt = asyncio.create_task(other.connect())
        await settled(wild, subscription)
        assert not attempt.done()
        with pytest.raises(Exception, match="deadline"):
            await attempt
        assert set(subscription.refused) == {"nosuch"}
        assert client.missing == ("nosuch",)
