"""The bridge process against controllers in memory behind real sockets: polls, faults, several stations at once."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fieldbus.capture import Protocol
from fieldbus.sample import BAD_OUT_OF_SERVICE
from fieldbus.uadp import DataSetSample
from sitsedge.bridge.sample import BAD_GONE
from tests.fieldbus.fake_plc import FakePlc, running
from tests.fieldbus.vendor_cpus import S7Cpu
from tests.sitsedge.bridge.support import Bridge

LAYOUT = """<Document><SW.Blocks.GlobalDB ID="0"><AttributeList><Interface>
<Sections xmlns="http://www.siemens.com/automation/Openness/SW/Interface/v5"><Section Name="Static">
<Member Name="Temperature" Datatype="Real"/><Member Name="Speed" Datatype="Int"/>
<Member Name="Running" Datatype="Bool"/><Member Name="Stamp" Datatype="DTL"/></Section></Sections></Interface>
<MemoryLayout>Standard</MemoryLayout><Name>State</Name><Number>1</Number></AttributeList>
</SW.Blocks.GlobalDB></Document>"""
RUN, STOP = 0x48, 0x84
SAMPLES_MAX = 2_000
Sees = Callable[[DataSetSample], bool]


class Rig:
    """A bridge's process and what it sends, asked from the loop that the controllers live in."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge

    async def until(self, sees: Sees) -> DataSetSample:
        """The first of the next samples that fits."""
        for _ in range(SAMPLES_MAX):
            [sample] = await asyncio.to_thread(self.bridge.samples, 1)
            if sees(sample):
                return sample
        raise AssertionError(self.bridge.snapshot())

    async def wait(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        return await asyncio.to_thread(self.bridge.wait, what)


@contextlib.asynccontextmanager
async def bridged(folder: Path, *stations: dict[str, Any], **more: object) -> AsyncIterator[Rig]:
    (folder / "state.xml").write_text(LAYOUT, encoding="utf-8")
    bridge = Bridge(folder, *stations)
    bridge.config |= {"source_age_ms_max": 1000, "poll_ms": 20, **more}
    try:
        bridge.start()
        yield Rig(bridge)
        assert (await asyncio.to_thread(bridge.stop))[0] == 0
    finally:
        bridge.close()


def s7_cpu() -> S7Cpu:
    cpu = S7Cpu()
    cpu.block[:7] = struct.pack(">fhB", 72.5, 1480, 1)
    return cpu


def s7_station(plc: FakePlc, **more: object) -> dict[str, Any]:
    tags = [
        {"name": "temperature", "unit": "°C", "path": "Temperature"},
        {"name": "speed", "unit": "rpm", "path": "Speed"},
        {"name": "running", "unit": "1", "path": "Running"},
    ]
    return station("s7", plc, tags, layouts=[{"file": "state.xml"}], **more)


def station(protocol: str, plc: FakePlc, tags: list[dict[str, Any]], **more: object) -> dict[str, Any]:
    common = {"name": protocol, "protocol": protocol, "host": "127.0.0.1", "port": plc.port, "reconnect_ms_max": 100}
    return {**common, "tags": tags, **more}


def good(sample: DataSetSample) -> bool:
    return sample.good


def gone(sample: DataSetSample) -> bool:
    return sample.field_status == (BAD_GONE,) * len(sample.values) and not any(map(_is_number, sample.values))


def _is_number(value: object) -> bool:
    return value is not None


async def test_s7_block_unplugged_stopped_and_back(tmp_path: Path) -> None:
    cpu = s7_cpu()
    async with running(Protocol.S7, cpu.answer) as plc, bridged(tmp_path, s7_station(plc)) as rig:
        before = time.time_ns()
        sample = await rig.until(good)
        assert sample.values == (72.5, 1480.0, 1.0)
        assert before - 60 * 10**9 < sample.t_source_ns <= time.time_ns()
        cpu.mode = STOP
        stopped = await rig.until(lambda sample: not sample.good)
        assert (stopped.values, set(stopped.field_status)) == ((None,) * 3, {BAD_OUT_OF_SERVICE})
        cpu.mode = RUN
        await rig.until(good)
        await plc.stop()
        await rig.until(gone)
        await rig.wait(lambda s: s["state"] == "connecting" and "connect-failed" in (s["last_error"] or ""))
        await plc.start()
        await rig.until(good)
        snapshot = await rig.wait(lambda s: s["state"] == "running")
        assert (snapshot["bad_tags"], snapshot["connects"]) == ({}, 2)
