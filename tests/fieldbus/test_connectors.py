"""The vendor connectors and their poller against controllers in memory that misbehave."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fieldbus.capture import Protocol
from fieldbus.cip.client import CipClient
from fieldbus.cip.connector import CipConnector, CipTag
from fieldbus.cip.errors import CipError
from fieldbus.cip.replies import TagValues
from fieldbus.errors import FieldbusError
from fieldbus.link import LinkError
from fieldbus.polling import Backoff, Connector, Poller
from fieldbus.s7 import model as s7
from fieldbus.s7.client import S7Client, selector
from fieldbus.s7.connector import S7Connector, S7Tag
from fieldbus.s7.errors import S7Error
from fieldbus.s7.layout import BlockLayout, Member
from fieldbus.s7.szl import CpuMode
from fieldbus.s7.values import DataType, TypeSpec, encode_value
from fieldbus.sample import (
    BAD_DECODING,
    BAD_NO_COMMUNICATION,
    BAD_NOT_FOUND,
    BAD_OUT_OF_RANGE,
    BAD_OUT_OF_SERVICE,
    BAD_TYPE_MISMATCH,
    GOOD,
    Sample,
    TimeSource,
)
from fieldbus.slmp.batches import Wanted, batches
from fieldbus.slmp.client import CpuMode as MelsecMode
from fieldbus.slmp.client import SlmpClient
from fieldbus.slmp.connector import SlmpConnector, SlmpTag
from fieldbus.slmp.devices import Device, Series
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.values import WordType
from fieldbus.slmp.wire import DataCode
from tests.fieldbus.fake_plc import FakePlc, running
from tests.fieldbus.vendor_cpus import LogixController, MelsecCpu, S7Cpu

DEADLINE_S = 5.0
SILENCE_S = 0.25
"""Deadline where a test waits for it to pass."""
NOW_NS = 1_800_000_000 * 10**9
LAYOUT = BlockLayout(
    1,
    "State",
    64,
    (
        Member("Temperature", 0, 0, TypeSpec(DataType.REAL)),
        Member("Speed", 4, 0, TypeSpec(DataType.INT)),
        Member("Running", 6, 2, TypeSpec(DataType.BOOL)),
        Member("Stamp", 8, 0, TypeSpec(DataType.DTL)),
    ),
)
TAGS = (S7Tag("t", "Temperature", "°C"), S7Tag("n", "Speed", "1/min"), S7Tag("on", "Running"))


def s7_cpu() -> S7Cpu:
    cpu = S7Cpu()
    cpu.block[:7] = struct.pack(">fhB", 72.5, 1480, 4)
    cpu.block[8:20] = encode_value(TypeSpec(DataType.DTL), NOW_NS - 5)
    return cpu


def s7_client(plc: FakePlc, deadline_s: float = DEADLINE_S) -> S7Client:
    return S7Client("127.0.0.1", plc.port, deadline_s=deadline_s)


def s7_connector(plc: FakePlc, **more: Any) -> S7Connector:
    return S7Connector(s7_client(plc), LAYOUT, TAGS, now_ns=lambda: NOW_NS, **more)


async def read_once(connector: Connector) -> tuple[Sample, ...]:
    await connector.connect()
    try:
        return await connector.read()
    finally:
        await connector.close()


async def test_s7_values_carry_unit_quality_and_the_block_own_time() -> None:
    async with running(Protocol.S7, s7_cpu().answer) as plc:
        samples = await read_once(s7_connector(plc, time_member="Stamp"))
        received = await read_once(s7_connector(plc))
    assert [sample.value for sample in samples] == [72.5, 1480, True]
    assert samples[0] == Sample("t", 72.5, "°C", GOOD, NOW_NS - 5, TimeSource.PLC)
    assert received[0].t_source_ns == NOW_NS
    assert received[0].time_source is TimeSource.RECEIVED


async def test_values_of_a_stopped_cpu_are_bad() -> None:
    cpu = s7_cpu()
    cpu.mode = 0x84
    async with running(Protocol.S7, cpu.answer) as plc:
        samples = await read_once(s7_connector(plc))
    assert [(sample.value, sample.status) for sample in samples] == [(None, BAD_OUT_OF_SERVICE)] * 3


async def test_bad_status_never_ships_the_last_value_and_nan_is_no_measurement() -> None:
    cpu = s7_cpu()
    cpu.block[:4] = struct.pack(">f", float("nan"))
    cpu.codes[4] = 0x0A
    async with running(Protocol.S7, cpu.answer) as plc:
        samples = await read_once(s7_connector(plc))
    assert [(sample.value, sample.status) for sample in samples[:2]] == [
        (None, BAD_OUT_OF_RANGE),
        (None, BAD_NOT_FOUND),
    ]
    assert samples[2].good


async def test_block_whose_time_is_none_gives_bad_values() -> None:
    cpu = s7_cpu()
    cpu.block[8:20] = bytes(12)
    async with running(Protocol.S7, cpu.answer) as plc:
        samples = await read_once(s7_connector(plc, time_member="Stamp"))
    assert {sample.status for sample in samples} == {BAD_DECODING}


async def test_s7_reads_split_by_the_pdu_and_lists_in_parts() -> None:
    cpu = s7_cpu()
    cpu.block = bytearray(range(256)) * 4
    async with running(Protocol.S7, cpu.answer) as plc:
        client = s7_client(plc)
        await client.connect()
        items = tuple(s7.Item(s7.Area.DATA_BLOCK, start, 41, block=1) for start in range(0, 900, 41))
        before = plc.requests
        found = await client.read(items)
        assert b"".join(item.data for item in found) == bytes(cpu.block[: 41 * len(items)])
        assert plc.requests - before > 4
        assert len(await client.diagnostic_buffer()) == 2
        assert (await client.cpu_state()).mode is CpuMode.RUN
        assert await client.clock_ns() > 0
        with pytest.raises(S7Error, match="szl-refused"):
            await client.read_szl(0x0011)
        with pytest.raises(S7Error, match="item-size"):
            await client.read((s7.Item(s7.Area.DATA_BLOCK, 0, 400, block=1),))
        await client.close()


async def test_s7_write_is_read_back() -> None:
    cpu = s7_cpu()
    async with running(Protocol.S7, cpu.answer) as plc:
        client = s7_client(plc)
        await client.connect()
        item = s7.Item(s7.Area.DATA_BLOCK, 40, 2, block=1)
        await client.write(item, b"\x01\x02")
        cpu.keep_writes = False
        with pytest.raises(S7Error, match="read-back"):
            await client.write(item, b"\x03\x04")
        cpu.codes[40] = 0x03
        with pytest.raises(S7Error, match="write-refused"):
            await client.write(item, b"\x03\x04")
        await client.close()


def _reference(telegram: s7.Telegram) -> s7.Telegram:
    return replace(telegram, reference=9_999) if isinstance(telegram, s7.Ack | s7.UserData) else telegram


def _short(telegram: s7.Telegram) -> s7.Telegram:
    if isinstance(telegram, s7.Ack) and isinstance(telegram.body, s7.ReadReply):
        items = tuple(replace(item, data=item.data[:-1], bits=None) for item in telegram.body.items)
        return replace(telegram, body=s7.ReadReply(items))
    return telegram


@pytest.mark.parametrize(("tamper", "code"), [(_reference, "reply-reference"), (_short, "reply-length")])
async def test_s7_reply_to_something_else_ends_the_connection(
    tamper: Callable[[s7.Telegram], s7.Telegram], code: str
) -> None:
    cpu = s7_cpu()
    async with running(Protocol.S7, cpu.answer) as plc:
        client = s7_client(plc)
        await client.connect()
        cpu.tamper = tamper
        with pytest.raises(S7Error, match=code):
            await client.read((s7.Item(s7.Area.DATA_BLOCK, 0, 4, block=1),))
        assert not client.connected


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("silent", "reply-timeout"),
        ("close", "connection-lost"),
        ("garbage", "tpkt-version"),
        ("twice", "unasked-data"),
        ("late", "reply-timeout"),
    ],
)
async def test_fault_ends_the_connection_so_that_a_late_reply_meets_no_request(how: str, code: str) -> None:
    async with running(Protocol.S7, s7_cpu().answer) as plc:
        client = s7_client(plc)
        await client.connect()
        plc.misbehave = how
        if code == "reply-timeout":
            client._link._deadline_s = SILENCE_S
        with pytest.raises(FieldbusError) as caught:
            await client.clock_ns()
        assert caught.value.code == code
        assert not client.connected
        with pytest.raises(LinkError, match="not-connected"):
            await client.clock_ns()


async def test_nobody_there() -> None:
    async with running(Protocol.S7, s7_cpu().answer) as plc:
        port = plc.port
    with pytest.raises(LinkError, match="connect-failed"):
        await S7Client("127.0.0.1", port, deadline_s=DEADLINE_S).connect()


def test_selector_of_rack_and_slot() -> None:
    assert selector(3, 0, 2) == b"\x03\x02"
    with pytest.raises(S7Error, match="rack-slot"):
        selector(3, 8, 0)


class Sink:
    """What a poller delivers; ``until`` waits for samples that fit."""

    def __init__(self) -> None:
        self.samples: list[tuple[Sample, ...]] = []
        self._more = asyncio.Event()

    def take(self, samples: tuple[Sample, ...]) -> None:
        self.samples.append(samples)
        self._more.set()

    async def until(self, fits: Callable[[tuple[Sample, ...]], bool]) -> None:
        start = len(self.samples)
        async with asyncio.timeout(20):
            while not any(map(fits, self.samples[start:])):
                self._more.clear()
                await self._more.wait()


def _good(samples: tuple[Sample, ...]) -> bool:
    return all(sample.good for sample in samples)


def _gone(samples: tuple[Sample, ...]) -> bool:
    return all(sample.status == BAD_NO_COMMUNICATION and sample.value is None for sample in samples)


async def test_quality_turns_bad_when_the_plc_is_unplugged_and_good_when_it_is_back() -> None:
    async with running(Protocol.S7, s7_cpu().answer) as plc:
        sink = Sink()
        poller = Poller(s7_connector(plc), sink.take, period_s=0.01, backoff=Backoff(0.01, 0.05))
        task = asyncio.create_task(poller.run())
        await sink.until(_good)
        await plc.stop()
        await sink.until(_gone)
        await plc.start()
        await sink.until(_good)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert poller.reconnects_total >= 1
    assert sum(poller.faults.values()) >= 1


async def test_one_dead_controller_never_holds_up_another() -> None:
    async with running(Protocol.S7, s7_cpu().answer) as dead, running(Protocol.S7, s7_cpu().answer) as alive:
        dead.misbehave = "silent"
        silent = S7Connector(s7_client(dead, SILENCE_S), LAYOUT, TAGS)
        sinks = Sink(), Sink()
        pollers = [
            Poller(connector, sink.take, period_s=0.01, backoff=Backoff(0.01, 0.05))
            for connector, sink in zip((silent, s7_connector(alive)), sinks, strict=True)
        ]
        tasks = [asyncio.create_task(poller.run()) for poller in pollers]
        await sinks[0].until(_gone)
        count = len(sinks[1].samples)
        await sinks[1].until(_good)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(sinks[1].samples) > count
    assert not any(map(_good, sinks[0].samples))


def test_backoff_doubles_to_its_limit() -> None:
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next_s() == 0.5


def logix() -> LogixController:
    text = (5).to_bytes(4, "little") + b"P-101".ljust(84, b"\0")
    return LogixController(
        {
            "Temp": b"\xca\0" + struct.pack("<f", 21.5),
            "Count": b"\xc4\0" + struct.pack("<i", -7),
            "Name": b"\xa0\x02\xce\x0f" + text,
            "Long": b"\xc4\0" + struct.pack("<300i", *range(300)),
        }
    )


CIP_TAGS = (
    CipTag("t", "Temp", "REAL", "°C"),
    CipTag("n", "Count", "DINT"),
    CipTag("name", "Name", "STRING"),
    CipTag("wrong", "Count", "REAL"),
    CipTag("nope", "Nope", "REAL"),
)


def cip_client(plc: FakePlc) -> CipClient:
    return CipClient("127.0.0.1", plc.port, deadline_s=DEADLINE_S)


async def test_cip_tags_text_and_faults_as_samples() -> None:
    async with running(Protocol.CIP, logix().answer) as plc:
        connector = CipConnector(cip_client(plc), CIP_TAGS, now_ns=lambda: NOW_NS)
        samples = await read_once(connector)
    assert [sample.value for sample in samples] == [21.5, -7, "P-101", None, None]
    assert [sample.status for sample in samples] == [GOOD, GOOD, GOOD, BAD_TYPE_MISMATCH, BAD_NOT_FOUND]
    assert connector.identity is not None


async def test_controller_in_program_mode_gives_bad_values() -> None:
    controller = logix()
    controller.status = 0x2070
    async with running(Protocol.CIP, controller.answer) as plc:
        samples = await read_once(CipConnector(cip_client(plc), CIP_TAGS))
    assert [sample.status for sample in samples[:3]] == [BAD_OUT_OF_SERVICE] * 3


async def test_tags_are_discovered_again_after_a_download() -> None:
    controller = logix()
    async with running(Protocol.CIP, controller.answer) as plc:
        connector = CipConnector(cip_client(plc), CIP_TAGS[2:3])
        await connector.connect()
        assert (await connector.read())[0].value == "P-101"
        controller.handle = 0x0ABC
        controller.tags["Name"] = controller.tags["Name"].replace(b"\xce\x0f", b"\xbc\x0a")
        assert (await connector.read())[0].status == BAD_DECODING
        controller.changes = 2
        assert (await connector.read())[0].value == "P-101"
        assert connector.rediscovered_total == 1
        await connector.close()


async def test_cip_reads_in_fragments_and_writes_with_read_back() -> None:
    controller = logix()
    async with running(Protocol.CIP, controller.answer) as plc:
        client = cip_client(plc)
        await client.connect()
        found = await client.read("Long", 300)
        assert isinstance(found, TagValues)
        assert found.values == tuple(range(300))
        await client.write("Count", "DINT", 8)
        assert controller.tags["Count"] == b"\xc4\0\x08\0\0\0"
        controller.keep_writes = False
        with pytest.raises(CipError, match="read-back"):
            await client.write("Count", "DINT", 9)
        with pytest.raises(CipError, match="status-04"):
            await client.read("Nope")
        with pytest.raises(CipError, match="type-unknown"):
            await client.write("Count", "TEXT", 9)
        controller.changes = None
        assert await client.changes() is None
        await client.close()


async def test_cip_reply_of_another_context_ends_the_connection() -> None:
    controller = logix()
    async with running(Protocol.CIP, controller.answer) as plc:
        client = cip_client(plc)
        await client.connect()
        controller.tamper = lambda telegram: replace(telegram, context=b"another!")
        with pytest.raises(CipError, match="reply-unmatched"):
            await client.identity()
        assert not client.connected


def melsec() -> MelsecCpu:
    words = {("D", 100): 1480, ("D", 102): 0, ("D", 103): 0x4291, ("SD", 203): 0}
    return MelsecCpu(words, {("M", 3): True})


SLMP_TAGS = (
    SlmpTag("n", "D100", WordType.INT, "1/min"),
    SlmpTag("t", "D102", WordType.REAL, "°C"),
    SlmpTag("on", "M3"),
    SlmpTag("nope", "D9000", WordType.INT),
)


def slmp_client(plc: FakePlc, **more: Any) -> SlmpClient:
    return SlmpClient("127.0.0.1", plc.port, series=Series.Q, deadline_s=DEADLINE_S, **more)


@pytest.mark.parametrize("with_serial", [False, True])
async def test_slmp_devices_as_samples(with_serial: bool) -> None:
    cpu = melsec()
    cpu.refused[9_000] = 0xC056
    async with running(Protocol.SLMP, cpu.answer) as plc:
        connector = SlmpConnector(slmp_client(plc, with_serial=with_serial), SLMP_TAGS)
        samples = await read_once(connector)
    assert [sample.value for sample in samples] == [1480, 72.5, True, None]
    assert samples[3].status == BAD_NOT_FOUND
    assert connector.model == "Q03UDVCPU"


async def test_slmp_neighbours_are_read_together_and_one_that_is_refused_spoils_no_other() -> None:
    words = {("D", 100 + at): at for at in range(60)} | {("SD", 203): 0}
    cpu = MelsecCpu(words, {("M", 7): True})
    tags = (*(SlmpTag(f"d{at}", f"D{100 + at}", WordType.INT) for at in range(60)), SlmpTag("m", "M7"))
    async with running(Protocol.SLMP, cpu.answer) as plc:
        connector = SlmpConnector(slmp_client(plc), tags)
        await connector.connect()
        before = plc.requests
        samples = await connector.read()
        assert plc.requests - before == 5, "three for the CPU's state, the words, the bit"
        assert [sample.value for sample in samples] == [*range(60), True]
        cpu.refused[130] = 0xC056
        samples = await connector.read()
        assert [sample.value for sample in samples] == [*range(30), None, *range(31, 60), True]
        assert samples[30].status == BAD_NOT_FOUND
        await connector.close()


def test_batches_hold_everything_asked_for_and_no_distant_points() -> None:
    asked = [("D", 500, 2), ("D", 0, 1), ("D", 1, 2), ("D", 35, 1), ("D", 68, 400), ("W", 0, 1), ("D", 467, 14)]
    wanted = [Wanted(place, Device(kind, at), count) for place, (kind, at, count) in enumerate(asked)]
    made = batches(wanted)
    assert [(batch.first, batch.count) for batch in made] == [
        (Device("D", 0), 468), (Device("D", 467), 35), (Device("W", 0), 1),
    ]  # fmt: skip
    for batch in made:
        for part in batch.parts:
            points = range(batch.first.number, batch.first.number + batch.count)[batch.of(part)]
            assert points == range(part.device.number, part.device.number + part.count)
    assert sorted(part.place for batch in made for part in batch.parts) == list(range(len(asked)))


@pytest.mark.parametrize(
    ("word", "mode"), [(0x12, MelsecMode.STOP), (0x03, MelsecMode.PAUSE), (0x01, MelsecMode.UNKNOWN)]
)
async def test_slmp_values_of_a_cpu_that_does_not_run_are_bad(word: int, mode: MelsecMode) -> None:
    cpu = melsec()
    cpu.words["SD", 203] = word
    async with running(Protocol.SLMP, cpu.answer) as plc:
        connector = SlmpConnector(slmp_client(plc), SLMP_TAGS[:3])
        samples = await read_once(connector)
        client = slmp_client(plc)
        await client.connect()
        assert (await client.state()).mode is mode
        await client.close()
    assert {sample.status for sample in samples} == {BAD_OUT_OF_SERVICE}


async def test_slmp_reply_of_another_serial_number_ends_the_connection() -> None:
    cpu = melsec()
    async with running(Protocol.SLMP, cpu.answer) as plc:
        client = slmp_client(plc)
        await client.connect()
        cpu.tamper = lambda reply: replace(reply, serial=(reply.serial or 0) + 1)
        with pytest.raises(SlmpError, match="reply-unmatched"):
            await client.model()
        assert not client.connected


async def test_slmp_write_is_read_back() -> None:
    cpu = melsec()
    async with running(Protocol.SLMP, cpu.answer) as plc:
        client = slmp_client(plc)
        await client.connect()
        await client.write_words(Device("D", 7), (1, 2))
        await client.write_bits(Device("M", 7), (True, False, True))
        cpu.keep_writes = False
        with pytest.raises(SlmpError, match="read-back"):
            await client.write_words(Device("D", 7), (3,))
        with pytest.raises(SlmpError, match="read-back"):
            await client.write_bits(Device("M", 7), (False,))
        await client.close()


async def test_double_words_in_ascii_are_refused_because_peers_differ() -> None:
    client = SlmpClient("127.0.0.1", 1, series=Series.Q, data_code=DataCode.ASCII)
    with pytest.raises(SlmpError, match="word-order"):
        await client.random((), (Device("D", 0),))
