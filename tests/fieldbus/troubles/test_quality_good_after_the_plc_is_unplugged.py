"""Public trouble: the plug is pulled and the last values stay on the screen, quality Good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fieldbus.capture import Protocol
from fieldbus.cip.client import CipClient
from fieldbus.cip.connector import CipConnector, CipTag
from fieldbus.polling import Backoff, Connector, Poller
from fieldbus.s7.client import S7Client
from fieldbus.s7.connector import S7Connector, S7Tag
from fieldbus.s7.layout import BlockLayout, Member
from fieldbus.s7.values import DataType, TypeSpec
from fieldbus.sample import BAD_NO_COMMUNICATION, Sample
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.connector import SlmpConnector, SlmpTag
from fieldbus.slmp.devices import Series
from fieldbus.slmp.values import WordType
from tests.fieldbus.fake_plc import running
from tests.fieldbus.vendor_cpus import LogixController, MelsecCpu, S7Cpu

DEADLINE_S = 0.2
WAIT_S = 20.0
LAYOUT = BlockLayout(1, "State", 64, (Member("Level", 0, 0, TypeSpec(DataType.REAL)),))


def s7(port: int) -> Connector:
    return S7Connector(S7Client("127.0.0.1", port, deadline_s=DEADLINE_S), LAYOUT, (S7Tag("level", "Level", "m"),))


def cip(port: int) -> Connector:
    client = CipClient("127.0.0.1", port, deadline_s=DEADLINE_S)
    return CipConnector(client, (CipTag("level", "Level", "DINT", "m"),))


def slmp(port: int) -> Connector:
    client = SlmpClient("127.0.0.1", port, series=Series.Q, deadline_s=DEADLINE_S)
    return SlmpConnector(client, (SlmpTag("level", "D0", WordType.INT, "m"),))


CASES: dict[str, tuple[Protocol, Callable[[], Any], Callable[[int], Connector]]] = {
    "s7": (Protocol.S7, S7Cpu, s7),
    "cip": (Protocol.CIP, lambda: LogixController({"Level": b"\xc4\0\x07\0\0\0"}), cip),
    "slmp": (Protocol.SLMP, MelsecCpu, slmp),
}


class Screen:
    """Shows what is delivered; ``until`` waits for a state of it."""

    def __init__(self) -> None:
        self.shown: Sample | None = None
        self._changed = asyncio.Event()

    def take(self, samples: tuple[Sample, ...]) -> None:
        self.shown = samples[0]
        self._changed.set()

    async def until(self, fits: Callable[[Sample], bool]) -> Sample:
        async with asyncio.timeout(WAIT_S):
            while self.shown is None or not fits(self.shown):
                self._changed.clear()
                await self._changed.wait()
        return self.shown


@pytest.mark.parametrize("how", ["unplugged", "silent"])
@pytest.mark.parametrize("case", CASES)
async def test_no_value_outlives_its_connection(case: str, how: str) -> None:
    """``unplugged``: connections break and nobody listens; ``silent``: the cable is out and nothing says so."""
    protocol, controller, make = CASES[case]
    async with running(protocol, controller().answer) as plc:
        screen = Screen()
        poller = Poller(make(plc.port), screen.take, period_s=0.01, backoff=Backoff(0.01, 0.05))
        task = asyncio.create_task(poller.run())
        await screen.until(lambda sample: sample.good)
        if how == "silent":
            plc.misbehave = "silent"
        else:
            await plc.stop()
        gone = await screen.until(lambda sample: not sample.good)
        assert (gone.value, gone.status, gone.unit) == (None, BAD_NO_COMMUNICATION, "m")
        if how == "silent":
            plc.misbehave = ""
        else:
            await plc.start()
        await screen.until(lambda sample: sample.good)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
