"""The bridge against controllers in memory behind real sockets: polls, faults, several stations at once."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path

import pytest

from fieldbus.capture import Protocol
from fieldbus.s7.errors import S7Error
from fieldbus.sample import BAD_NOT_FOUND, BAD_OUT_OF_SERVICE, BAD_TYPE_MISMATCH
from sitsedge.bridge.app import BridgeApp
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.sample import BAD_GONE, BAD_NO_DATA
from sitsedge.config import load_model
from tests.fieldbus.fake_plc import running
from tests.fieldbus.vendor_cpus import MelsecCpu
from tests.sitsedge.bridge.controllers import (
    LAYOUT,
    RUN,
    STOP,
    logix,
    logix_station,
    s7_cpu,
    s7_station,
    stamp,
    station,
)
from tests.sitsedge.bridge.rig import bridged, gone, good
from tests.sitsedge.bridge.support import Bridge


async def test_s7_block_unplugged_stopped_and_back(tmp_path: Path) -> None:
    cpu = s7_cpu()
    async with running(Protocol.S7, cpu.answer) as plc, bridged(tmp_path, s7_station(plc), process=True) as rig:
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


async def test_the_blocks_own_time_is_the_source_time_and_one_that_stands_still_is_said(tmp_path: Path) -> None:
    cpu = s7_cpu()
    moment = time.time_ns() // 100 * 100 - 5_000_000
    stamp(cpu, moment)
    async with running(Protocol.S7, cpu.answer) as plc:
        block = s7_station(plc, time_member="Stamp", zone="UTC")
        async with bridged(tmp_path, block, source_age_ms_max=600_000) as rig:
            assert (await rig.until(good)).t_source_ns == moment
            assert await asyncio.to_thread(rig.bridge.quiet), "the same time is the same sample"
            stamp(cpu, moment - 3_600 * 10**9)  # the clock is put back, or runs in another zone
            behind = await rig.until(lambda sample: not sample.good)
            assert set(behind.field_status) == {BAD_NO_DATA}
            assert behind.t_source_ns > moment
            snapshot = await rig.wait(lambda s: s["state"] == "degraded" and s["findings"])
            assert snapshot["findings"][0].startswith("plc-clock: the values' own time is 360")
            moment = time.time_ns() // 100 * 100
            stamp(cpu, moment)
            assert (await rig.until(good)).t_source_ns == moment


async def test_a_download_that_changes_a_tag_makes_it_bad_and_no_other(tmp_path: Path) -> None:
    controller = logix()
    async with running(Protocol.CIP, controller.answer) as plc, bridged(tmp_path, logix_station(plc)) as rig:
        assert (await rig.until(good)).values == (21.5, 1.0)
        controller.tags["Temp"], controller.changes = b"\xc4\0" + struct.pack("<i", 21), 2
        sample = await rig.until(lambda sample: not sample.good)
        assert (sample.values, sample.field_status) == ((None, 1.0), (BAD_TYPE_MISMATCH, 0))
        del controller.tags["Temp"]
        await rig.until(lambda sample: sample.field_status == (BAD_NOT_FOUND, 0))
        snapshot = await rig.wait(lambda s: s["bad_tags"] == {"oven": f"{BAD_NOT_FOUND:#010x}"})
        assert (snapshot["state"], snapshot["controller"]) == ("degraded", "1756-L61/B LOGIX5561 run")


async def test_a_hanging_and_a_dead_station_hold_up_no_sample_of_another(tmp_path: Path) -> None:
    words = {("D", at): at for at in range(100, 164)} | {("SD", 203): 0}
    cpu, controller, melsec = s7_cpu(), logix(), MelsecCpu(words, {})
    async with (
        running(Protocol.S7, cpu.answer) as press,
        running(Protocol.CIP, controller.answer) as oven,
        running(Protocol.SLMP, melsec.answer) as tank,
    ):
        levels = [{"name": f"d{at}", "unit": "mm", "device": f"D{at}", "type": "int"} for at in range(100, 159)]
        stations = (
            s7_station(press),
            logix_station(oven, deadline_ms=300),
            station("slmp", tank, levels, series="q", deadline_ms=300),
        )
        order = ["ready", *(tag["name"] for tag in levels), "speed", "temperature", "running", "oven"]
        async with bridged(tmp_path, *stations, order=order, skew_ms_max=500, poll_ms=50) as rig:
            sample = await rig.until(good)
            assert sample.values == (1.0, *map(float, range(100, 159)), 1480.0, 72.5, 1.0, 21.5)
            assert len(sample.values) == 64
            oven.misbehave = "silent"
            await tank.stop()
            sample = await rig.until(lambda sample: None in (sample.values[-1], sample.values[1]))
            while sample.field_status[1] != BAD_GONE or sample.field_status[0] != BAD_GONE:
                assert sample.values[60:63] == (1480.0, 72.5, 1.0)
                sample = await rig.until(lambda _: True)
            assert sample.values == (*(None,) * 60, 1480.0, 72.5, 1.0, None)
            snapshot = await rig.wait(lambda s: "reply-timeout" in s["stations"][1]["faults"])
            assert (snapshot["state"], snapshot["stations"][0]["state"]) == ("degraded", "running")
            oven.misbehave = ""
            await tank.start()
            await rig.until(good)


async def test_a_late_reply_meets_no_other_request_and_an_old_value_no_sample(tmp_path: Path) -> None:
    cpu = s7_cpu()
    async with running(Protocol.S7, cpu.answer) as plc, bridged(tmp_path, s7_station(plc, deadline_ms=200)) as rig:
        await rig.until(good)
        plc.misbehave = "late"
        struct.pack_into(">f", cpu.block, 0, 80.0)
        await rig.until(gone)
        plc.misbehave = ""
        sample = await rig.until(good)
        assert sample.values == (80.0, 1480.0, 1.0)


async def test_keys_that_a_protocol_refuses_are_refused_before_anything_is_opened(tmp_path: Path) -> None:
    (tmp_path / "state.xml").write_text(LAYOUT, encoding="utf-8")
    async with running(Protocol.S7, s7_cpu().answer) as plc:
        wrong = s7_station(plc)
        wrong["tags"][0]["path"] = "Spede"
        bridge = Bridge(tmp_path, wrong)
        path = bridge.write_config()
        with pytest.raises(S7Error, match="member-unknown"):
            BridgeApp(load_model(path, BridgeConfig), path.parent)
        bridge.close()
        assert plc.connections == 0
