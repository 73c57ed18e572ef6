"""Public trouble: a reply that comes after its deadline is taken for the answer to the next request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fieldbus.capture import Protocol
from fieldbus.cip.client import CipClient
from fieldbus.errors import FieldbusError
from fieldbus.link import LinkError
from fieldbus.s7.client import S7Client
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.devices import Series
from tests.fieldbus.fake_plc import running
from tests.fieldbus.vendor_cpus import LogixController, MelsecCpu, S7Cpu

DEADLINE_S = 5.0
SILENCE_S = 0.1

Client = S7Client | CipClient | SlmpClient
Ask = Callable[[Any], Any]
CASES: dict[str, tuple[Protocol, Callable[[], Any], Callable[[int], Client], Ask]] = {
    "s7": (Protocol.S7, S7Cpu, lambda port: S7Client("127.0.0.1", port, deadline_s=DEADLINE_S), S7Client.clock_ns),
    "cip": (
        Protocol.CIP,
        LogixController,
        lambda port: CipClient("127.0.0.1", port, deadline_s=DEADLINE_S),
        CipClient.identity,
    ),
    "slmp-4e": (
        Protocol.SLMP,
        MelsecCpu,
        lambda port: SlmpClient("127.0.0.1", port, series=Series.Q, deadline_s=DEADLINE_S),
        SlmpClient.model,
    ),
    "slmp-3e": (
        Protocol.SLMP,
        MelsecCpu,
        lambda port: SlmpClient("127.0.0.1", port, series=Series.Q, with_serial=False, deadline_s=DEADLINE_S),
        SlmpClient.model,
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_after_a_missed_deadline_nothing_is_asked_on_that_connection(case: str) -> None:
    protocol, controller, make, ask = CASES[case]
    async with running(protocol, controller().answer) as plc:
        client = make(plc.port)
        await client.connect()
        await ask(client)
        plc.misbehave = "late"  # every reply is held until the next request is there
        client._link._deadline_s = SILENCE_S
        with pytest.raises(LinkError, match="reply-timeout"):
            await ask(client)
        asked = plc.requests
        with pytest.raises(LinkError, match="not-connected"):
            await ask(client)
        assert plc.requests == asked
        client._link._deadline_s = DEADLINE_S
        plc.misbehave = ""
        await client.connect()
        await ask(client)
        await client.close()


@pytest.mark.parametrize("how", ["twice", "again"])
@pytest.mark.parametrize("case", CASES)
async def test_a_second_copy_of_a_reply_is_no_answer(case: str, how: str) -> None:
    protocol, controller, make, ask = CASES[case]
    async with running(protocol, controller().answer) as plc:
        client = make(plc.port)
        await client.connect()
        plc.misbehave = how
        codes = [await code_of(ask(client)), await code_of(ask(client))]
        assert codes in (["unasked-data", "not-connected"], ["", "unasked-data"])
        assert not client.connected


async def code_of(asked: Any) -> str:
    """The code of the refusal, after what has been sent by then has come."""
    try:
        await asked
    except FieldbusError as error:
        return error.code
    finally:
        for _ in range(20):
            await asyncio.sleep(0)
    return ""
