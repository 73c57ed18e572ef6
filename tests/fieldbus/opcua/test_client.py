"""SecureClient against a server in another process: service calls, quality, refusals, restarts."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from fieldbus.errors import FieldbusError
from fieldbus.opcua import (
    CertificateError,
    Identity,
    OpcUaError,
    ReconnectPolicy,
    SubscriptionOptions,
    TrustList,
    create_identity,
)
from fieldbus.opcua.nodes import TAGS_MAX
from tests.fieldbus.opcua.support import TAGS, MakeClient, Plc

BAD_SENSOR = 0x808C0000
BAD_ACCESS = 0x801F0000
BAD_TYPE = 0x80740000
FAST = ReconnectPolicy(first_s=0.05, max_s=0.2, health_s=0.2)


async def refusal(client: Any) -> FieldbusError:
    """The error of a connect that must fail; nothing may stay behind."""
    tasks = len(asyncio.all_tasks())
    with pytest.raises(FieldbusError) as caught:
        await client.connect()
    assert not client.connected
    await client.close()
    for _ in range(100):
        if len(asyncio.all_tasks()) <= tasks:
            break
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) <= tasks
    return caught.value


async def test_values_are_written_in_one_call_and_read_back(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc) as client:
        assert (client.connected, client.missing, client.connects_total) == (True, (), 1)
        results = await client.write_many({"gap": 2.25, "number": 7, "locked": 3.0})
        assert [(item.tag, item.good) for item in results] == [("gap", True), ("number", True), ("locked", False)]
        assert results[2].status == BAD_ACCESS
        before_ns = time.time_ns()
        read = await client.read_many(["number", "gap", "locked"])
        assert [item.value for item in read] == [7, 2.25, 1.0]
        assert all(item.good for item in read)
        assert all(item.t_server_ns is not None and item.t_server_ns < before_ns for item in read)
        locked = read[2].t_source_ns
        assert locked is not None
        assert locked <= before_ns


async def test_bad_quality_has_no_value_and_an_array_is_no_scalar(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc) as client:
        broken, profile = await client.read_many(["broken", "profile"])
    assert (broken.value, broken.status, broken.good) == (None, BAD_SENSOR, False)
    assert (profile.value, profile.status) == (None, BAD_TYPE)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"gap": "1.0"}, "value-type"),
        ({"gap": True}, "value-type"),
        ({"gap": None}, "value-type"),
        ({"gap": float("nan")}, "value-range"),
        ({"gap": float("inf")}, "value-range"),
        ({"number": 1.0}, "value-type"),
        ({"number": True}, "value-type"),
        ({"number": -1}, "value-range"),
        ({"number": 2**32}, "value-range"),
        ({"profile": 1.0}, "value-type"),
        ({"nosuch": 1.0}, "unknown-tag"),
    ],
)
async def test_a_value_that_is_not_the_variables_is_never_sent(
    shared_plc: Plc, make_client: MakeClient, values: dict[str, Any], code: str
) -> None:
    async with make_client(shared_plc) as client:
        await client.write_many({"gap": 4.5, "number": 3})
        with pytest.raises(OpcUaError) as caught:
            await client.write_many({"number": 4, **values})
        assert caught.value.code == code
        assert [item.value for item in await client.read_many(["gap", "number"])] == [4.5, 3]


async def test_a_reader_may_read_and_not_write(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc, "bridge") as client:
        assert (await client.read_many(["gap"]))[0].good
        with pytest.raises(OpcUaError) as caught:
            await client.write_many({"gap": 9.0})
        assert caught.value.code == "access-denied"
        assert (await client.read_many(["gap"]))[0].value != 9.0


async def test_an_untrusted_client_is_refused(shared_plc: Plc, make_client: MakeClient) -> None:
    error = await refusal(make_client(shared_plc, "stranger"))
    assert (error.code, bool(error.hint)) == ("untrusted-certificate", True)


async def test_trust_withdrawn_counts_at_the_next_connect(own_plc: Plc, make_client: MakeClient) -> None:
    own_plc.start()
    async with make_client(own_plc, "bridge") as client:
        assert client.connected
    for path in (own_plc.folder / "trusted").iterdir():
        path.unlink()
    assert (await refusal(make_client(own_plc, "bridge"))).code == "untrusted-certificate"


async def test_our_own_expired_certificate_is_named_before_anything_is_sent(
    shared_plc: Plc, make_client: MakeClient, tmp_path: Path
) -> None:
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    expired = create_identity(tmp_path, "old", application_uri="urn:tests:old", not_before=old, days=1)
    error = await refusal(make_client(shared_plc, identity=expired))
    assert isinstance(error, CertificateError)
    assert (error.code, "2020-01-02" in error.found) == ("certificate-expired", True)


async def test_the_server_refuses_an_expired_certificate_even_if_listed(
    own_plc: Plc, make_client: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    expired = create_identity(tmp_path, "old", application_uri="urn:tests:old", not_before=old, days=1)
    TrustList(own_plc.folder / "trusted").add(expired.certificate)
    own_plc.start()
    monkeypatch.setattr("fieldbus.opcua.connection.check_validity", lambda *_, **__: None)
    assert (await refusal(make_client(own_plc, identity=expired))).code == "certificate-expired"


async def test_a_stated_application_uri_must_be_the_certificates(
    shared_plc: Plc, make_client: MakeClient, plant: dict[str, Identity]
) -> None:
    gate = plant["gate"]
    liar = Identity(gate.certificate_path, gate.key_path, gate.certificate, "urn:tests:somebody-else")
    assert (await refusal(make_client(shared_plc, identity=liar))).code == "certificate-uri"


async def test_another_servers_certificate_is_refused(
    shared_plc: Plc, make_client: MakeClient, plant: dict[str, Identity]
) -> None:
    error = await refusal(
        make_client(shared_plc, server_certificate=plant["stranger"].certificate_path, deadline_s=1.0)
    )
    assert error.code == "server-certificate"
    assert plant["plc"].thumbprint in error.found
    assert plant["stranger"].thumbprint in error.expected


async def test_nobody_listening_is_named(own_plc: Plc, make_client: MakeClient) -> None:
    assert (await refusal(make_client(own_plc))).code == "connection-refused"


async def test_a_server_that_never_answers_meets_the_deadline(own_plc: Plc, make_client: MakeClient) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(mute, "127.0.0.1", own_plc.port):
        error = await refusal(make_client(own_plc, deadline_s=0.2))
    assert error.code == "deadline"


async def test_a_server_that_talks_nonsense_is_refused(own_plc: Plc, make_client: MakeClient) -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(nonsense, "127.0.0.1", own_plc.port):
        error = await refusal(make_client(own_plc, deadline_s=0.5))
    assert error.code in ("connection-lost", "deadline")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tags": {"gap": TAGS["gap"], "x": "Mill/Nosuch"}}, "node-missing"),
        ({"tags": {"x": "Mill//Gap"}}, "browse-path"),
        ({"namespace_uri": "urn:tests:other"}, "namespace-missing"),
    ],
)
async def test_what_the_server_does_not_have_is_named(
    shared_plc: Plc, make_client: MakeClient, changes: dict[str, Any], code: str
) -> None:
    error = await refusal(make_client(shared_plc, **changes))
    assert error.code == code
    if code == "node-missing":
        assert "Mill/Nosuch" in error.found
        assert TAGS["gap"] not in error.found


async def until_lost(client: Any) -> None:
    async with asyncio.timeout(40):
        while client.connected:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("kill", [False, True], ids=["shutdown", "killed"])
async def test_after_a_restart_nodes_are_resolved_anew_and_subscriptions_go_on(
    own_plc: Plc, make_client: MakeClient, kill: bool
) -> None:
    own_plc.start()
    async with make_client(own_plc, reconnect=FAST) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=20.0))
        (first,) = await subscription.get(10.0)
        await client.write_many({"gap": 2.0})
        old_node = client._connection.nodes["gap"].node_id
        await asyncio.to_thread(own_plc.stop, kill=kill)
        await until_lost(client)
        with pytest.raises(OpcUaError) as caught:
            await client.write_many({"gap": 3.0})
        assert caught.value.code == "not-connected"
        await asyncio.to_thread(own_plc.start, padding=3)
        assert await client.wait_connected(40.0)
        assert client.connects_total == 2
        assert client.last_error is None
        assert client._connection.nodes["gap"].node_id != old_node
        assert (await client.write_many({"gap": 4.0}))[0].good
        assert (await client.read_many(["gap"]))[0].value == 4.0
        seen = [first.value]
        async with asyncio.timeout(40):
            while seen[-1] != 4.0:
                seen += [item.value for item in await subscription.get(10.0)]
        assert 3.0 not in seen  # nothing written while down is ever applied late


DI = "http://opcfoundation.org/UA/DI/"
DRIVE = {
    "serial": f"nsu={DI};DeviceSet/Drive&/A&B/nsu={DI};SerialNumber",
    "own": f"nsu={DI};DeviceSet/nsu=urn:tests:mill;Drive&/A&&B/SerialNumber",
    "pad": "nsu=urn:tests:padding:0;Padding0",
}


async def test_a_namespace_that_the_server_lacks_is_named_with_its_tag(
    shared_plc: Plc, make_client: MakeClient
) -> None:
    tags = {"gap": TAGS["gap"], "serial": f"nsu={DI[:-1]};DeviceSet/x"}
    error = await refusal(make_client(shared_plc, tags=tags))
    assert (error.code, "serial" in error.found, f"{DI[:-1]} for" in error.found) == ("namespace-missing", True, True)
    async with make_client(shared_plc, tags=tags, missing_ok=True) as client:
        assert client.missing == ("serial",)
        assert (await client.read_many(["gap"]))[0].good


async def test_a_silent_server_meets_the_deadline_and_is_taken_up_again(own_plc: Plc, make_client: MakeClient) -> None:
    own_plc.start()
    assert own_plc.process is not None
    async with make_client(own_plc, reconnect=FAST) as client:
        client._deadline_s = 0.3
        own_plc.process.send_signal(signal.SIGSTOP)
        with pytest.raises(OpcUaError) as caught:
            await client.write_many({"gap": 3.0})
        assert (caught.value.code, "read back" in caught.value.hint) == ("deadline", True)
        await until_lost(client)
        client._deadline_s = 10.0
        own_plc.process.send_signal(signal.SIGCONT)
        assert await client.wait_connected(40.0)
        assert (await client.write_many({"gap": 4.0}))[0].good


async def test_a_server_that_dies_under_a_write_leaves_the_outcome_open(own_plc: Plc, make_client: MakeClient) -> None:
    own_plc.start()
    assert own_plc.process is not None
    async with make_client(own_plc, reconnect=FAST) as client:
        own_plc.process.send_signal(signal.SIGSTOP)
        writing = asyncio.create_task(client.write_many({"gap": 3.0}))
        await asyncio.sleep(0)  # let the request go out
        own_plc.process.kill()
        with pytest.raises(OpcUaError) as caught:
            await writing
        assert caught.value.code == "connection-lost"
        await until_lost(client)
        assert not await client.wait_connected(0.01)
        assert client.last_error is not None


async def test_a_client_may_have_no_tags_but_not_any_number(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc, tags={}) as client:
        assert client.missing == ()
    crowd = {f"tag{number}": "Mill/Locked" for number in range(TAGS_MAX + 1)}
    assert (await refusal(make_client(shared_plc, tags=crowd))).code == "too-many-tags"


async def test_a_node_or_namespace_lost_in_a_restart_does_not_hold_up_the_others(
    own_plc: Plc, make_client: MakeClient
) -> None:
    own_plc.start(padding=2)
    async with make_client(own_plc, reconnect=FAST, tags=TAGS | DRIVE) as client:
        assert (client.missing, dict(client.missing_namespaces)) == ((), {})
        assert [item.value for item in await client.read_many(["serial", "own"])] == ["4711", "ours"]
        old_node = client._connection.nodes["serial"].node_id
        await asyncio.to_thread(own_plc.stop)
        await until_lost(client)
        await asyncio.to_thread(own_plc.start, drop_speed=True)
        assert await client.wait_connected(40.0)
        assert client.missing == ("speed", "pad")
        assert client.missing_namespaces == {"pad": "urn:tests:padding:0"}
        assert {item.code: item.text for item in client.findings} == {
            "node-missing": "the server has no node for speed",
            "namespace-missing": "the server has no namespace urn:tests:padding:0 of pad",
        }
        assert (await client.write_many({"gap": 1.25}))[0].good
        with pytest.raises(OpcUaError) as caught:
            await client.write_many({"gap": 1.5, "speed": 1.0})
        assert caught.value.code == "node-missing"
        assert (await client.read_many(["gap"]))[0].value == 1.25
        # Paths through several namespaces go by their URIs, whatever the indices are now.
        assert client._connection.nodes["serial"].node_id.NamespaceIndex == old_node.NamespaceIndex - 2
        assert [item.value for item in await client.read_many(["serial", "own"])] == ["4711", "ours"]


async def test_a_subscription_brings_values_in_order_with_times(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc, "bridge") as client:
        options = SubscriptionOptions(publishing_ms=20.0, item_queue=50)
        subscription = await client.subscribe(["counter", "broken"], options)
        assert subscription.revised_publishing_ms >= 20.0
        assert subscription.refused == {}
        values: list[Any] = []
        async with asyncio.timeout(40):
            while len(values) < 20:
                values += await subscription.get(10.0)
        counts = [item for item in values if item.tag == "counter"]
        assert all(item.good and item.t_source_ns for item in counts)
        numbers = [item.value for item in counts]
        assert numbers == sorted(set(numbers))
        (broken,) = [item for item in values if item.tag == "broken"]
        assert (broken.value, broken.status) == (None, BAD_SENSOR)


async def test_the_hand_over_drops_the_oldest_and_counts(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc, "bridge") as client:
        options = SubscriptionOptions(publishing_ms=20.0, item_queue=50, hand_over=3)
        subscription = await client.subscribe(["counter"], options)
        async with asyncio.timeout(40):
            while subscription.overflow_total < 5:
                await asyncio.sleep(0.005)
        values = await subscription.get(10.0)
        assert len(values) == 3
        assert await subscription.get(10.0)
        await subscription.close()
        with pytest.raises(OpcUaError) as caught:
            await subscription.get(10.0)
        assert caught.value.code == "closed"


async def test_a_quiet_subscription_gives_an_empty_list(shared_plc: Plc, make_client: MakeClient) -> None:
    async with make_client(shared_plc, "bridge") as client:
        subscription = await client.subscribe(["locked"])
        assert len(await subscription.get(10.0)) == 1
        assert await subscription.get(0.01) == []


async def test_close_is_clean_and_final(shared_plc: Plc, make_client: MakeClient) -> None:
    client = make_client(shared_plc)
    await client.connect()
    with pytest.raises(OpcUaError, match="already-connected"):
        await client.connect()
    subscription = await client.subscribe(["counter"])
    await client.close()
    await client.close()
    assert subscription.closed
    with pytest.raises(OpcUaError, match="not-connected"):
        await client.read_many(["gap"])


def test_times_and_lengths_must_be_positive(shared_plc: Plc, make_client: MakeClient) -> None:
    for wrong in ({"first_s": 0.0}, {"first_s": 2.0, "max_s": 1.0}, {"health_s": 0.0}):
        with pytest.raises(ValueError):
            ReconnectPolicy(**wrong)
    for wrong_option in ({"publishing_ms": 0.0}, {"item_queue": 0}, {"hand_over": 0}):
        with pytest.raises(ValueError):
            SubscriptionOptions(**wrong_option)
    with pytest.raises(ValueError):
        make_client(shared_plc, deadline_s=0.0)
