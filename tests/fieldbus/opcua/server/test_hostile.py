"""Clients that break the protocol, flood, stall or lie: raw bytes against a server in another process."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest
from asyncua import Client, ua
from asyncua.ua.ua_binary import struct_to_binary

from fieldbus.opcua import Identity, TrustList, create_identity
from tests.fieldbus.opcua.server.shop import ATTACK_ERRORS, LIMITS, Shop, call, node_id, write

People = dict[str, Identity]
MEGABYTE = 1_048_576


# --- before a channel ---


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "BadTcpMessageTypeInvalid", id="another protocol"),
        pytest.param(b"HELX" + (32).to_bytes(4, "little"), "BadTcpMessageTypeInvalid", id="chunk type"),
        pytest.param(b"HELC" + (32).to_bytes(4, "little"), "BadTcpMessageTypeInvalid", id="hello in chunks"),
        pytest.param(b"HELF" + (2**31).to_bytes(4, "little"), "BadTcpMessageTooLarge", id="hello too large"),
        pytest.param(b"OPNF" + (65_536).to_bytes(4, "little"), "BadTcpMessageTooLarge", id="chunk too large"),
        pytest.param(b"MSGF" + (8).to_bytes(4, "little"), "BadTcpMessageTooLarge", id="chunk too small"),
        pytest.param(b"ACKF" + (28).to_bytes(4, "little") + bytes(20), "BadTcpMessageTypeInvalid", id="acknowledge"),
        pytest.param(b"MSGF" + (28).to_bytes(4, "little") + bytes(20), "BadTcpMessageTypeInvalid", id="no hello"),
        pytest.param(
            b"HELF" + (32).to_bytes(4, "little") + bytes(20) + b"\xfe\xff\xff\xff",
            "BadSecurityChecksFailed",
            id="length",
        ),
    ],
)
def test_first_bytes_that_are_wrong_end_the_connection(shop: Shop, data: bytes, status: str) -> None:
    with shop.raw() as raw:
        raw.send(data)
        assert raw.refused() == status


def test_hello_comes_once_and_with_buffers_of_a_sensible_size(shop: Shop) -> None:
    with shop.raw() as raw:
        raw.hello(ReceiveBufferSize=1)
        assert raw.refused() == "BadTcpNotEnoughResources"
    with shop.raw() as raw:
        raw.hello()
        raw.hello()
        assert raw.refused() == "BadTcpMessageTypeInvalid"


# --- on a channel without security ---


def request(name: str) -> bytes:
    return bytes(struct_to_binary(getattr(ua, f"{name}Request")()))


@pytest.mark.parametrize(
    "name", ["Read", "Write", "Call", "RegisterServer", "CreateSession", "ActivateSession", "AddNodes", "Publish"]
)
def test_an_unsecured_channel_gets_no_other_service(shop: Shop, name: str) -> None:
    with shop.raw() as raw:
        raw.open()
        raw.chunk(request(name))
        assert raw.refused() == "BadSecurityPolicyRejected"


def test_a_channel_is_issued_once_and_its_token_lives_within_bounds(shop: Shop) -> None:
    with shop.raw() as raw:
        raw.hello()
        raw.answer()
        raw.request_open(RequestType=ua.SecurityTokenRequestType.Renew)
        assert raw.refused() == "BadSecurityChecksFailed"
    with shop.raw() as raw:
        raw.open()
        raw.request_open()
        assert raw.refused() == "BadSecurityChecksFailed"
    for asked, granted in ((0, LIMITS.channel_ms_min), (2**32 - 1, LIMITS.channel_ms_max)):
        with shop.raw() as raw:
            raw.hello()
            raw.answer()
            raw.request_open(RequestedLifetime=asked)
            _, body = raw.answer()
            assert granted.to_bytes(4, "little") in body


def test_a_message_in_chunks_is_not_gathered_before_a_session_is_active(shop: Shop) -> None:
    with shop.raw() as raw:
        raw.open()
        raw.chunk(bytes(1_000), final=ua.ChunkType.Intermediate)
        assert raw.refused() == "BadTcpMessageTooLarge"


# --- floods and slow clients ---


@pytest.mark.parametrize("sent", [1, 9], ids=["in the header", "in the body"])
def test_a_chunk_that_does_not_end_ends_the_connection(shop: Shop, sent: int) -> None:
    """Slow loris."""
    with shop.raw() as raw:
        raw.send((b"HELF" + (32).to_bytes(4, "little") + b"\0")[:sent])
        assert raw.refused() == ""


def test_requests_without_a_session_are_counted(shop: Shop) -> None:
    with shop.raw() as raw:
        raw.open()
        for _ in range(LIMITS.requests_before_activation):
            raw.chunk(request("GetEndpoints"))
        assert raw.refused() == "BadTcpServerTooBusy"


async def test_half_open_connections_neither_pile_up_nor_keep_a_client_out(shop: Shop, people: People) -> None:
    flood = [shop.raw() for _ in range(3 * LIMITS.pending)]
    try:
        async with shop.session(people["screen"]) as client:
            assert (await call(client, "Who"))[0][0] == "Good"
        assert await asyncio.to_thread(flood[0].refused) == ""  # the oldest had to go
    finally:
        for raw in flood:
            raw.socket.close()


async def test_a_client_that_never_reads_its_answers_is_cut_off_and_costs_no_memory(shop: Shop, people: People) -> None:
    evil = await shop.client(people["evil"])
    async with shop.session(people["screen"]) as other:
        await evil.connect()
        before = shop.rss
        big = ua.ReadValueId(NodeId=node_id("Big"), AttributeId=ua.AttributeIds.Value)
        transport = evil.uaclient.protocol.transport
        transport.pause_reading()
        reads = [
            asyncio.ensure_future(evil.uaclient.session.read(ua.ReadParameters(NodesToRead=[big])))
            for _ in range(300)  # 60 MB of answers
        ]
        while (await sessions(shop, other)) > 1:
            pass  # the server, busy with both, cuts the deaf one off
        assert shop.rss - before < 8 * MEGABYTE
        transport.resume_reading()
        await asyncio.gather(*reads, return_exceptions=True)
        evil.disconnect_socket()


async def sessions(shop: Shop, client: Client) -> int:
    """How many connections the server process has."""
    (value,) = (await call(client, "Connections"))[0][1]
    return int(value[0])


async def reads_on(client: Client) -> None:
    """Read until the connection is lost."""
    while True:
        await client.get_node(node_id("Count")).read_value()


async def test_a_message_over_the_limits_ends_the_connection(shop: Shop, people: People) -> None:
    async def sends(body: bytes) -> None:
        client = await shop.client(people["evil"], "ed")
        await client.connect()
        try:
            connection = client.uaclient.protocol._connection
            data = connection.message_to_binary(body, message_type=ua.MessageType.SecureMessage, request_id=9_999)
            client.uaclient.protocol.transport.write(data)
            with pytest.raises(ATTACK_ERRORS):
                await reads_on(client)
        finally:
            client.disconnect_socket()

    await sends(bytes(LIMITS.message_bytes + 1))
    await sends(bytes(LIMITS.chunk_bytes * (LIMITS.chunks + 1)))


async def test_arrays_strings_and_values_of_a_request_are_bounded(shop: Shop, people: People) -> None:
    for value in ([1.0] * (LIMITS.array_length + 1), "x" * (LIMITS.string_bytes + 1)):
        client = await shop.client(people["evil"], "ed")
        await client.connect()
        try:
            with pytest.raises(ATTACK_ERRORS):
                await write(client, "Text", value)
            with pytest.raises(ATTACK_ERRORS):
                await write(client, "Text", "short")  # it was cut off
        finally:
            client.disconnect_socket()


# --- certificates and sessions ---


async def connects(client: Client) -> str:
    """``Good``, or the name of the error."""
    try:
        await client.connect()
    except ATTACK_ERRORS as error:
        client.disconnect_socket()
        return type(error).__name__
    await client.disconnect()
    return "Good"


async def test_certificates_that_are_not_in_order_are_refused(shop: Shop, people: People) -> None:
    folder = shop.folder
    selfmade = create_identity(folder, "selfmade", application_uri="urn:tests:selfmade")
    assert await connects(await shop.client(selfmade)) == "BadCertificateUntrusted"
    old = dt.datetime.now(dt.UTC) - dt.timedelta(days=10)
    expired = create_identity(folder, "expired", application_uri="urn:tests:expired", not_before=old, days=1)
    TrustList(folder / "trusted").add(expired.certificate)
    assert await connects(await shop.client(expired)) == "BadCertificateTimeInvalid"
    liar = await shop.client(people["evil"])
    liar.application_uri = "urn:tests:panel"
    assert await connects(liar) == "BadCertificateUriInvalid"


async def test_a_certificate_is_renewed_and_the_old_one_cut_off_without_a_restart(shop: Shop, people: People) -> None:
    folder, trust = shop.folder, TrustList(shop.folder / "trusted")
    first, second = (create_identity(folder, name, application_uri="urn:tests:hmi") for name in ("hmi1", "hmi2"))
    entry = trust.add(first.certificate)
    old = await shop.client(first)
    await old.connect()
    try:
        assert await connects(await shop.client(second)) == "BadCertificateUntrusted"
        trust.add(second.certificate)
        assert await connects(await shop.client(second)) == "Good"
        entry.unlink()
        assert await connects(await shop.client(first)) == "BadCertificateUntrusted"
        with pytest.raises(ATTACK_ERRORS):
            await reads_on(old)
    finally:
        old.disconnect_socket()


async def test_the_servers_own_certificate_is_renewed_without_a_restart(shop: Shop, people: People) -> None:
    create_identity(shop.folder, "plc2", application_uri="urn:tests:plc", hosts=["127.0.0.1"])
    async with shop.session(people["screen"]) as living:
        assert await connects(await shop.client(people["panel"], server="plc2")) == "BadSecurityChecksFailed"
        shop.renew("plc2")
        try:
            assert await connects(await shop.client(people["panel"], server="plc2")) == "Good"
            assert await connects(await shop.client(people["panel"])) == "BadSecurityChecksFailed"
            assert await living.get_node(node_id("Count")).read_value() is not None
        finally:
            shop.renew("plc")


async def test_a_session_is_not_taken_over_from_another_secured_channel(shop: Shop, people: People) -> None:
    async with shop.session(people["panel"], "olga") as victim, shop.session(people["evil"]) as evil:
        mine = evil.uaclient.session.authentication_token
        theirs = victim.uaclient.session.authentication_token
        assert isinstance(theirs.Identifier, bytes)
        assert len(theirs.Identifier) == 32
        session = evil.uaclient.session
        session.restore_authentication_token(theirs)
        for attempt in (evil.activate_session(), write(evil, "Setpoint", 6.0), session.close_session(True)):
            with pytest.raises(ua.uaerrors.BadSessionIdInvalid):
                await attempt
        session.restore_authentication_token(mine)
        with pytest.raises(ua.uaerrors.BadTooManySessions):
            await evil.create_session()
        assert await write(victim, "Setpoint", 1.5) == "Good"


async def test_a_replayed_chunk_ends_the_connection(shop: Shop, people: People) -> None:
    client = await shop.client(people["evil"])
    await client.connect()
    try:
        transport = client.uaclient.protocol.transport
        write_once, transport.write = transport.write, lambda data: write_once(data + data)
        with pytest.raises(ATTACK_ERRORS):
            await reads_on(client)
    finally:
        client.disconnect_socket()
