"""Our client against servers that are not ours: node-opcua, and open62541 where it was built."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fieldbus.opcua import (
    Deadband,
    DeadbandKind,
    Identity,
    ItemOptions,
    PolicyChoice,
    ReconnectPolicy,
    SubscriptionOptions,
    Trigger,
    UserCredential,
    ValueSubscription,
)
from tests.fieldbus.opcua.support import MakeClient, Wild, free_port
from tests.support import open62541
from tests.support.peers import npm_peer

BAD_SENSOR = 0x808C0000
BAD_NO_COMMUNICATION = 0x80310000
BAD_OUT_OF_SERVICE = 0x808D0000
BAD_NODE_UNKNOWN = 0x80340000
WATCHFUL = ReconnectPolicy(first_s=0.05, max_s=0.5, health_s=0.5, verify_s=0.2)


async def until(subscription: ValueSubscription, tag: str, wanted: Any) -> list[tuple[str, Any]]:
    """What came, as (tag, value or bad status), up to and with ``wanted`` for ``tag``."""
    seen: list[tuple[str, Any]] = []
    async with asyncio.timeout(30):
        while (tag, wanted) not in seen:
            values = await subscription.get(10.0)
            seen += [(item.tag, item.value if item.value is not None else item.status) for item in values]
    return seen


@pytest.fixture(scope="module")
def node_opcua(plant: dict[str, Identity]) -> Iterator[Wild]:
    peer = npm_peer("node-opcua")
    node, installation, program = peer.node, peer.folder, peer.recipe / "server.cjs"
    folder = plant["plc"].certificate_path.parent
    server = Wild(folder, free_port(), command=(node, str(program), str(installation)))
    server.start()
    yield server
    server.stop()


async def test_node_opcua_turns_1_ms_into_50_and_that_breaks_the_claim(
    node_opcua: Wild, make_wild_client: MakeClient
) -> None:
    options = SubscriptionOptions(publishing_ms=1, sampling_ms=1, latency_ms_max=20)
    async with make_wild_client(node_opcua, policy=PolicyChoice.STRONGEST) as client:
        assert client._connection.client.security_policy.URI.endswith("Aes256_Sha256_RsaPss")
        subscription = await client.subscribe(["gap"], options)
        assert subscription.revisions.publishing_ms == 50.0
        texts = {item.code: item.text for item in client.findings}
        assert {"latency-claim", "publishing-revised"} <= set(texts)
        assert "50 ms publishing" in texts["latency-claim"]
        await asyncio.to_thread(node_opcua.do, "write Gap 1.5")
        await until(subscription, "gap", 1.5)


async def test_node_opcua_does_deadbands_and_triggers_as_asked(node_opcua: Wild, make_wild_client: MakeClient) -> None:
    items = {
        "gap": ItemOptions(deadband=Deadband(DeadbandKind.PERCENT, 1.0)),
        "speed": ItemOptions(trigger=Trigger.STATUS_VALUE_TIMESTAMP),
        "level": ItemOptions(deadband=Deadband(DeadbandKind.PERCENT, 1.0)),
    }
    await asyncio.to_thread(node_opcua.do, "write Level 100", "write Speed 5")
    async with make_wild_client(node_opcua) as client:
        subscription = await client.subscribe(
            ["gap", "speed", "level"], SubscriptionOptions(publishing_ms=50, item_queue=50, items=items)
        )
        assert set(subscription.refused) == {"gap"}
        seen = await until(subscription, "level", 100.0)
        for line in ("write Level 101.5", "write Speed 5", "write Level 103", "write Speed 6"):
            await asyncio.to_thread(node_opcua.do, line)
            await asyncio.sleep(0.12)  # its own sampling needs a look between two values
        seen = await until(subscription, "speed", 6.0)
        assert ("level", 101.5) not in seen
        assert ("level", 103.0) in seen
        assert subscription.filtered_total == 0
        assert subscription.deadband_ignored == {}
        assert [value for tag, value in seen if tag == "speed"][-2:] == [5.0, 6.0]
        await asyncio.to_thread(node_opcua.do, "write Level 103 BadSensorFailure")
        await until(subscription, "level", BAD_SENSOR)


@pytest.mark.slow  # the default suite has users, tokens and cuts with other servers
async def test_node_opcua_with_a_user_short_tokens_and_a_cut_connection(
    node_opcua: Wild, make_wild_client: MakeClient, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"correct horse\n")
    path.chmod(0o600)
    user = UserCredential("anna", str(path))
    async with make_wild_client(node_opcua, user=user, token_lifetime_s=1.0, reconnect=WATCHFUL) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=50))
        value = 100.0
        async with asyncio.timeout(30):
            while client._connection.client.renewals_total < 1:
                value += 1.0
                await asyncio.to_thread(node_opcua.do, f"write Gap {value}")
                await until(subscription, "gap", value)
        assert client.connects_total == 1
        await asyncio.to_thread(node_opcua.do, "cut")
        await until(subscription, "gap", BAD_NO_COMMUNICATION)
        await asyncio.to_thread(node_opcua.do, "write Gap 7")
        await until(subscription, "gap", 7.0)
        await asyncio.to_thread(node_opcua.do, "state 3")
        await until(subscription, "gap", BAD_OUT_OF_SERVICE)
        await asyncio.to_thread(node_opcua.do, "state 0")
        await until(subscription, "gap", 7.0)


OPEN62541_TAGS = {"force": "Mill/force", "count": "Mill/count", "on": "Mill/on"}


async def test_open62541_as_server(plant: dict[str, Identity], make_wild_client: MakeClient) -> None:
    folder, port = plant["plc"].certificate_path.parent, free_port()
    options = (
        *(f"port={port}", "uri=urn:tests:plc", f"cert={folder / 'plc.der'}", f"key={folder / 'plc.key.pem'}"),
        *(f"trust={folder / 'bridge.der'}", "namespace=urn:tests:mill", "before=3", "publish-min=5", "queue-max=100"),
    )
    with open62541.running("server", *options) as peer:
        here = Wild(folder, port)
        items = {
            "force": ItemOptions(deadband=Deadband(DeadbandKind.ABSOLUTE, 0.5), queue=1_000),
            "count": ItemOptions(deadband=Deadband(DeadbandKind.PERCENT, 1.0)),
        }
        async with make_wild_client(
            here, tags=OPEN62541_TAGS, policy=PolicyChoice.STRONGEST, reconnect=WATCHFUL, token_lifetime_s=1.0
        ) as client:
            assert client._connection.client.security_policy.URI.endswith("Aes256_Sha256_RsaPss")
            subscription = await client.subscribe(
                list(OPEN62541_TAGS), SubscriptionOptions(publishing_ms=1, sampling_ms=1, items=items, latency_ms_max=5)
            )
            assert subscription.revisions.publishing_ms == 5.0
            assert {"latency-claim", "deadband-no-range", "queue-revised"} <= {item.code for item in client.findings}
            await until(subscription, "force", 22.25)
            await asyncio.to_thread(peer.tell, "set force 22.5")
            await asyncio.to_thread(peer.tell, "set force 24")
            assert ("force", 22.5) not in await until(subscription, "force", 24.0)
            await asyncio.to_thread(peer.tell, "remove on")
            await until(subscription, "on", BAD_NODE_UNKNOWN)
            await asyncio.to_thread(peer.tell, "add on")
            await until(subscription, "on", True)
            value = 100.0
            async with asyncio.timeout(30):
                while client._connection.client.renewals_total < 1:
                    value += 1.0
                    await asyncio.to_thread(peer.tell, f"set force {value}")
                    await until(subscription, "force", value)
            assert client.connects_total == 1
