"""A server whose answers are wrong: nothing hangs, nothing escapes, and a good server is taken up again."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from typing import Any

import pytest
from asyncua import ua
from asyncua.ua.ua_binary import struct_to_binary
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.errors import FieldbusError
from fieldbus.opcua import ReconnectPolicy, SubscriptionOptions
from fieldbus.opcua.answers import ANSWERS, check_answer
from fieldbus.opcua.channel import _Connection
from fieldbus.opcua.server.shape import ShapeError
from tests.fieldbus.opcua.support import MakeClient, Wild

EAGER = ReconnectPolicy(first_s=0.001, max_s=0.01, health_s=0.5, verify_s=0.05)
LENGTHS = tuple(struct.pack("<i", number) for number in (-2, -1, 0, 1, 255, 65_536, 2**31 - 1, -(2**31)))


def spoiled(body: bytes, chance: random.Random) -> bytes:
    """``body`` with one thing wrong: a byte, a length, its end, its beginning, or something in between."""
    place = chance.randrange(len(body))
    match chance.randrange(5):
        case 0:
            return body[:place] + bytes([chance.randrange(256)]) + body[place + 1 :]
        case 1:
            return body[:place] + chance.choice(LENGTHS) + body[place + 4 :]
        case 2:
            return body[:place]
        case 3:
            return body[:place] + chance.randbytes(chance.randrange(1, 9)) + body[place:]
        case _:
            return chance.randbytes(place + 1)


@pytest.mark.parametrize(("seed", "most"), [(6, 50), pytest.param(7, 300, marks=pytest.mark.slow)])
async def test_spoiled_answers_end_connections_and_nothing_else(
    wild: Wild, make_wild_client: MakeClient, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    chance, wrong, active = random.Random(seed), [0], [False]
    receive = _Connection._receive

    def spoil(self: Any, chunk: Any) -> Any:
        # After decryption, so that it is as if the trusted server itself said it; not in the opening of a channel,
        # so that there are channels at all.
        if active[0] and chunk.MessageHeader.MessageType == ua.MessageType.SecureMessage and chance.random() < 0.2:
            chunk.Body = spoiled(bytes(chunk.Body), chance)
            wrong[0] += 1
        return receive(self, chunk)

    monkeypatch.setattr(_Connection, "_receive", spoil)
    escaped: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))
    async with make_wild_client(wild, reconnect=EAGER, deadline_s=1.0) as client:
        subscription = await client.subscribe(["gap", "speed"], SubscriptionOptions(publishing_ms=10, item_queue=5))
        active[0] = True
        value = 0.0
        async with asyncio.timeout(110):
            while wrong[0] < most:
                value += 1.0
                await asyncio.to_thread(wild.do, f"write Gap {value}")
                try:
                    await client.read_many(["gap"])
                except FieldbusError:
                    await client.wait_connected(0.1)
                await subscription.get(0.0)
        active[0] = False
        async with asyncio.timeout(60):
            while True:  # whatever state it was left in, it heals
                await asyncio.to_thread(wild.do, "write Gap -7")
                if any(item.value == -7.0 for item in await subscription.get(0.5)):
                    break
                await asyncio.to_thread(wild.do, "write Gap -8")
        assert client.connects_total > 1
    assert escaped == []


def answer_bytes(kind: Any, **parts: Any) -> bytes:
    answer = kind()
    for name, value in parts.items():
        setattr(answer, name, value)
    return bytes(struct_to_binary(answer))


def read_answer(variant: bytes) -> bytes:
    """A ReadResponse with one DataValue that has only a value, of these bytes."""
    empty = answer_bytes(ua.ReadResponse, Results=[])
    return empty[:-8] + (1).to_bytes(4, "little") + b"\x01" + variant + (0).to_bytes(4, "little")


@pytest.mark.parametrize(
    "variant",
    [
        b"\x80" + (2**31 - 1).to_bytes(4, "little"),
        b"\x8b" + (2**31 - 1).to_bytes(4, "little"),
        b"\x8c" + (1).to_bytes(4, "little") + struct.pack("<i", -5),
        b"\x98\x01\x00\x00\x00" * 5_000 + b"\x01\x00",
    ],
    ids=["nothing-two-thousand-million-times", "more-than-there-is", "backwards", "five-thousand-levels"],
)
def test_a_value_that_would_take_all_memory_or_all_time_is_no_answer(variant: bytes) -> None:
    check_answer(read_answer(b"\x0b" + bytes(8)))
    with pytest.raises(ShapeError):
        check_answer(read_answer(variant))


def test_an_answer_of_a_service_that_we_do_not_call_is_none() -> None:
    for kind in ANSWERS.values():
        check_answer(answer_bytes(kind))
    with pytest.raises(ShapeError, match="encoding"):
        check_answer(answer_bytes(ua.BrowseResponse))


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_one_error(data: bytes) -> None:
    with contextlib.suppress(ShapeError):
        check_answer(data)
