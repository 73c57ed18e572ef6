"""The channel below the session: clocks that are apart, hostile lengths, policies, passwords."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asyncua import ua
from asyncua.common.connection import MessageChunk
from asyncua.crypto.security_policies import SecurityPolicyNone

from fieldbus.opcua import Identity, OpcUaError, PolicyChoice, SubscriptionOptions, UserCredential
from fieldbus.opcua.channel import CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX, _Protocol
from fieldbus.opcua.discovery import endpoints_of, explain_failure
from fieldbus.opcua.establish import STRONGEST_FIRST, refuse_downgrade, strongest
from tests.fieldbus.opcua.support import MakeClient, Plc, Wild

AES = "http://opcfoundation.org/UA/SecurityPolicy#Aes256_Sha256_RsaPss"
BASIC = "http://opcfoundation.org/UA/SecurityPolicy#Basic256Sha256"


async def test_clock_skew_at_token_renewal(wild: Wild, make_wild_client: MakeClient) -> None:
    """The server's clock is two hours off, either way, and tokens live for a second: a message under the old token,
    sent before the server has seen the new one in use, is judged by our monotonic clock alone."""
    await asyncio.to_thread(wild.do, "skew -7200", "set tell_renewals 1")
    async with make_wild_client(wild, token_lifetime_s=1.0) as client:
        subscription = await client.subscribe(["gap"], SubscriptionOptions(publishing_ms=10))
        assert len(await subscription.get(10.0)) == 1
        for skew in ("skew 7200", "skew 0"):
            assert [item.good for item in await subscription.get(10.0)] == [True]
            await asyncio.to_thread(wild.do, skew)
        assert (client._connection.client.renewals_total, client.connects_total) == (2, 1)


def acknowledge(receive_buffer: int) -> bytes:
    body = b"".join(number.to_bytes(4, "little") for number in (0, receive_buffer, 65_535, 0, 0))
    return b"ACKF" + (8 + len(body)).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "answer",
    [
        b"ACKF" + (0xFFFF_FFFF).to_bytes(4, "little") + bytes(1_000),
        b"MSGC" + (CHUNK_BYTES_MAX + 1).to_bytes(4, "little"),
        b"ACKF" + bytes(4),
        b"ACKF" + (8).to_bytes(4, "little"),
        acknowledge(16),
        b"ERRF" + (16).to_bytes(4, "little") + (0x80AC0000).to_bytes(4, "little") + bytes(4),
    ],
    ids=["four-gigabytes", "a-byte-too-many", "no-length", "empty", "tiny-buffer", "error"],
)
async def test_a_hostile_first_answer_ends_the_attempt_before_its_deadline(answer: bytes) -> None:
    ended = asyncio.Event()

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        while await reader.read(65_536):
            pass
        writer.close()
        ended.set()

    async with await asyncio.start_server(hostile, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        # Half a minute: the attempt ends because of the answer, not because nobody waits any longer.
        with pytest.raises((ua.UaError, OSError)):
            await endpoints_of(f"opc.tcp://127.0.0.1:{port}/", deadline_s=30.0)
        await asyncio.wait_for(ended.wait(), 30)


async def test_an_endless_message_is_not_kept() -> None:
    """Intermediate chunks without a last one, each of an allowed size."""
    protocol = _Protocol(1.0, SecurityPolicyNone())
    closed: list[bool] = []
    protocol.connection_made(SimpleNamespace(close=lambda: closed.append(True)))
    connection = protocol._connection
    connection.security_token.ChannelId = 1
    connection._open = True
    sent = 0
    chunk = MessageChunk(connection.security_policy.symmetric_cryptography, bytes(60_000), chunk_type=b"C")
    chunk.MessageHeader.ChannelId = 1
    chunk.SequenceHeader.SequenceNumber = chunk.SequenceHeader.RequestId = chunk.SecurityHeader.TokenId = 0
    while not closed and sent < 3 * MESSAGE_BYTES_MAX:
        chunk.SequenceHeader.SequenceNumber += 1
        protocol.data_received(chunk.to_binary())
        sent += 60_000
        assert connection._incoming_size <= MESSAGE_BYTES_MAX
    assert closed
    assert sent <= MESSAGE_BYTES_MAX + 60_000
    assert not connection._incoming_parts


async def test_a_server_cannot_lift_our_limits(wild: Wild, make_wild_client: MakeClient) -> None:
    async with make_wild_client(wild) as client:
        limits = client._connection.client.uaclient.protocol._connection._limits
        assert (limits.max_recv_buffer, limits.max_message_size) == (CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX)


@pytest.mark.parametrize(
    ("choice", "uri"),
    [(PolicyChoice.AES256_SHA256_RSAPSS, AES), (PolicyChoice.STRONGEST, AES), (PolicyChoice.BASIC256SHA256, BASIC)],
)
async def test_the_policy_is_the_chosen_one(
    wild: Wild, make_wild_client: MakeClient, choice: PolicyChoice, uri: str
) -> None:
    async with make_wild_client(wild, policy=choice) as client:
        assert uri == client._connection.client.security_policy.URI
        assert (await client.read_many(["gap"]))[0].good


async def test_a_better_endpoint_that_was_removed_on_the_way_is_found_out(
    wild: Wild, make_wild_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def robbed(url: str, *, deadline_s: float) -> list[Any]:
        return [item for item in await endpoints_of(url, deadline_s=deadline_s) if item.SecurityPolicyUri != AES]

    monkeypatch.setattr("fieldbus.opcua.establish.endpoints_of", robbed)
    client = make_wild_client(wild, policy=PolicyChoice.STRONGEST)
    with pytest.raises(OpcUaError) as caught:
        await client.connect()
    assert (caught.value.code, client.connected) == ("policy-downgrade", False)


async def test_nothing_weaker_is_used(
    wild: Wild, plant: dict[str, Identity], make_wild_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoints = await endpoints_of(wild.url, deadline_s=10.0)
    weaker = [item for item in endpoints if item.SecurityPolicyUri not in (AES, BASIC)]
    for item in endpoints:
        item.SecurityMode = ua.MessageSecurityMode.Sign
    assert strongest(endpoints) is strongest(weaker) is strongest([]) is None
    refuse_downgrade(STRONGEST_FIRST[0], [])

    async def signed_only(url: str, *, deadline_s: float) -> list[Any]:
        return endpoints

    for module in ("discovery", "establish"):
        monkeypatch.setattr(f"fieldbus.opcua.{module}.endpoints_of", signed_only)
    with pytest.raises(OpcUaError) as caught:
        await explain_failure(wild.url, plant["plc"].certificate, BASIC, deadline_s=1.0)
    assert (caught.value.code, caught.value.found.startswith("nothing encrypted")) == ("security-policy", True)
    with pytest.raises(OpcUaError, match="security-policy"):
        await make_wild_client(wild, policy=PolicyChoice.STRONGEST).connect()


def password_file(folder: Path, content: bytes, mode: int = 0o600) -> str:
    path = folder / "password"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


async def test_a_user_name_with_its_password_from_a_file(
    wild: Wild, make_wild_client: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    path = password_file(tmp_path, b"correct horse\n")
    for source in (path, "credential:password"):
        async with make_wild_client(wild, user=UserCredential("anna", source)) as client:
            assert client.connected
    password_file(tmp_path, b"wrong horse")
    with pytest.raises(OpcUaError) as caught:
        await make_wild_client(wild, user=UserCredential("anna", path)).connect()
    assert caught.value.code in ("identity-rejected", "access-denied")
    assert "wrong" not in str(caught.value)


async def test_a_server_without_user_names_is_named(shared_plc: Plc, make_client: MakeClient, tmp_path: Path) -> None:
    user = UserCredential("anna", password_file(tmp_path, b"x"))
    with pytest.raises(OpcUaError) as caught:
        await make_client(shared_plc, user=user).connect()
    assert (caught.value.code, "without user names" in caught.value.found) == ("identity-rejected", True)


@pytest.mark.parametrize(
    ("content", "mode", "code"),
    [
        (b"secret", 0o640, "password-permissions"),
        (b"", 0o600, "password-format"),
        (b"\n", 0o600, "password-format"),
        (b"one\ntwo", 0o600, "password-format"),
        (b"x" * 1025, 0o600, "password-format"),
        (None, 0o600, "password-unreadable"),
    ],
)
def test_a_password_file_that_will_not_do_is_named(tmp_path: Path, content: bytes | None, mode: int, code: str) -> None:
    path = str(tmp_path / "none") if content is None else password_file(tmp_path, content, mode)
    with pytest.raises(OpcUaError) as caught, UserCredential("anna", path).password():
        pass
    assert caught.value.code == code
    assert "secret" not in str(caught.value)


def test_a_password_is_wiped_and_a_credential_needs_a_service_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with UserCredential("anna", password_file(tmp_path, b"secret\r\n")).password() as password:
        assert password == b"secret"
    assert password == bytes(6)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    for source in ("credential:x", "credential:../x"):
        with pytest.raises(OpcUaError, match="credential-missing"):
            assert UserCredential("anna", source).path
    with pytest.raises(ValueError, match="user name"):
        UserCredential("", "x")
