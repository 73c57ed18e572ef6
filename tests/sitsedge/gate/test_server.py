"""The gate's packet socket against clients that do not behave."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import cbor
from sitsedge.errors import SitsError
from sitsedge.gate.link import PACKET_BYTES_MAX, GateLink, LinkError, decode, encode
from sitsedge.gate.server import CONNECTIONS_MAX, NONCES_MAX, QUEUE_PACKETS_MAX, Connection, PacketServer


@given(st.binary(max_size=200))
def test_any_packet_is_a_message_or_one_error(data: bytes) -> None:
    with contextlib.suppress(LinkError):
        assert isinstance(decode(data)["t"], str)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        cbor.dumps([1]),
        cbor.dumps({}),
        cbor.dumps({"t": 1}),
        cbor.dumps({1: 2, "t": "x"}),
        cbor.dumps({"t": "x"}) + b"\x00",
        bytes(PACKET_BYTES_MAX + 1),
    ],
    ids=["empty", "no-map", "no-name", "name-no-text", "key-no-text", "trailing", "too-long"],
)
def test_malformed_packets_are_typed(data: bytes) -> None:
    with pytest.raises(LinkError) as caught:
        decode(data)
    assert caught.value.code == "gate-message"


def test_a_message_that_does_not_fit_is_refused_before_sending() -> None:
    with pytest.raises(LinkError):
        encode({"t": "x", "data": bytes(PACKET_BYTES_MAX)})


class Echo:
    """A server whose handler answers with what it got, and can be held up."""

    def __init__(self, path: Path) -> None:
        self.go = asyncio.Event()
        self.go.set()
        self.seen: list[dict[str, Any]] = []
        self.server = PacketServer(path, self._handle)

    async def _handle(self, connection: Connection, message: dict[str, Any], received_mono_ns: int) -> None:
        await self.go.wait()
        self.seen.append(message)
        connection.send({"t": "echo", "n": message.get("n", 0)})


async def ask(link: GateLink, number: int) -> dict[str, Any]:
    return await asyncio.to_thread(link.ask, {"t": "say", "n": number}, answers=("echo", "refused"))


async def test_answers_come_in_order_to_the_one_who_asked(tmp_path: Path) -> None:
    echo = Echo(tmp_path / "s")
    echo.server.start()
    one, two = GateLink(tmp_path / "s"), GateLink(tmp_path / "s")
    assert (await ask(one, 1))["n"] == 1
    assert (await ask(two, 2))["n"] == 2
    assert oct((tmp_path / "s").stat().st_mode & 0o777) == "0o600"
    one.close()
    two.close()
    await echo.server.close()
    assert not (tmp_path / "s").exists()


async def test_garbage_is_answered_and_does_not_stop_the_others(tmp_path: Path) -> None:
    echo = Echo(tmp_path / "s")
    echo.server.start()
    rude = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    rude.connect(str(tmp_path / "s"))
    rude.send(os.urandom(64))
    polite = GateLink(tmp_path / "s")
    assert (await ask(polite, 5))["n"] == 5
    assert echo.server.malformed == 1
    assert decode(rude.recv(65536))["code"] == "malformed"
    rude.close()
    polite.close()
    await echo.server.close()


async def test_connections_are_bounded(tmp_path: Path) -> None:
    echo = Echo(tmp_path / "s")
    echo.server.start()
    links = [GateLink(tmp_path / "s") for _ in range(CONNECTIONS_MAX)]
    assert (await ask(links[0], 1))["n"] == 1  # all of them are accepted by now
    surplus = GateLink(tmp_path / "s")
    with pytest.raises(LinkError):
        await ask(surplus, 2)
    for link in (*links, surplus):
        link.close()
    await echo.server.close()


async def test_a_slow_gate_pushes_back_and_loses_nothing(tmp_path: Path) -> None:
    echo = Echo(tmp_path / "s")
    echo.server.start()
    echo.go.clear()
    link = GateLink(tmp_path / "s")
    sent, code = 0, ""
    while not code and sent < 1_000_000:
        try:
            link.send({"t": "say", "n": sent, "filling": bytes(2000)})
            sent += 1
        except LinkError as error:
            code = error.code
        if sent % 16 == 0:
            await asyncio.sleep(0)
    assert code == "gate-busy"
    assert len(echo.server._queue) <= QUEUE_PACKETS_MAX
    echo.go.set()
    while len(echo.seen) < sent:
        await asyncio.sleep(0.01)
    assert [message["n"] for message in echo.seen] == list(range(sent))
    link.close()
    await echo.server.close()


async def test_a_second_gate_on_the_same_socket_is_refused(tmp_path: Path) -> None:
    echo, second = Echo(tmp_path / "s"), Echo(tmp_path / "s")
    echo.server.start()
    with pytest.raises(SitsError) as caught:
        second.server.start()
    assert caught.value.code == "socket-in-use"
    await echo.server.close()


def test_nonces_are_single_use_and_bounded() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = Connection(ours)
    nonces = [connection.new_nonce() for _ in range(NONCES_MAX + 1)]
    assert not connection.take_nonce(nonces[0])
    assert connection.take_nonce(nonces[-1])
    assert not connection.take_nonce(nonces[-1])
    assert not connection.take_nonce(bytes(32))
    ours.close()
    theirs.close()


def test_no_gate_is_one_line_and_a_hint(tmp_path: Path) -> None:
    with pytest.raises(LinkError) as caught:
        GateLink(tmp_path / "nobody")
    assert caught.value.code == "gate-unreachable"
    assert caught.value.hint
