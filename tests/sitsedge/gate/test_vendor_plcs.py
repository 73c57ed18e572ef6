"""The gate's writes to S7, Logix and MELSEC controllers: the handshake, and each fault by name."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbus.link import LinkError
from fieldbus.polling import Backoff
from fieldbus.s7.layout import parse_layout
from sitsedge.config.plc import CipPlc, PlcType, S7Plc, SlmpPlc
from sitsedge.gate.plc import OutcomeUnknown, PlcError, ReadBackMismatch
from sitsedge.gate.plc.block import TOLERANCE_COUNTS, Value
from sitsedge.gate.plc.cip import CipWire
from sitsedge.gate.plc.s7 import S7Block as S7Places
from sitsedge.gate.plc.s7 import S7Wire
from sitsedge.gate.plc.slmp import SlmpWire
from sitsedge.gate.plc.vendor import VendorPort, Wire
from tests.fieldbus.fake_plc import FakePlc
from tests.support.block_plcs import BLOCKS, REQUEST, SLOT_MEMBERS, LogixBlock, MelsecBlock, S7Block, s7_layout

SECOND_NS = 1_000_000_000
DEADLINE_MS = 10_000.0  # a loaded machine is slow
SILENCE_S = 0.1  # the deadline where a test waits for it to pass
VALUES = (
    Value("gap", "Gap", "Gap", "REAL", None, 0.00025),
    Value("speed", "Speed", "Speed", "INT", 0.01, 0.0025),
)
EVERY = pytest.mark.parametrize("protocol", ["s7", "cip", "slmp"])


def wire(protocol: str, port: int, layout: bytes | None = None) -> Wire:
    common: dict[str, Any] = {"address": "127.0.0.1", "port": port, "deadline_ms": DEADLINE_MS}
    if protocol == "s7":
        plc = S7Plc(protocol="s7", layout="block.xml", **common)
        return S7Wire(plc, S7Places.of(parse_layout(layout or s7_layout()), plc, VALUES))
    if protocol == "cip":
        return CipWire(CipPlc(protocol="cip", **common), VALUES)
    devices = {"request_device": f"D{REQUEST}", "applied_device": "D1100"}
    return SlmpWire(SlmpPlc(protocol="slmp", series="q", **devices, **common), VALUES)


@dataclass
class Rig:
    protocol: str
    block: Any
    plc: FakePlc
    port: VendorPort

    async def write(self, sequence: int, gap: float, speed: float, *, good_s: float = 5.0) -> None:
        until = time.time_ns() + round(good_s * SECOND_NS)
        await self.port.write(sequence=sequence, values=(gap, speed), valid_until_ns=until)

    def deadline(self, seconds: float) -> None:
        """Another deadline for requests from now on."""
        self.port._wire._client._link._deadline_s = seconds  # type: ignore[attr-defined]

    async def reconnected(self) -> None:
        """Until the port has a connection of the present again."""
        before = self.port.reconnects
        async with asyncio.timeout(60):
            while not self.port.connected or self.port.reconnects == before:
                await asyncio.sleep(0.005)

    async def reconnected_after_fault(self) -> None:
        """The connection that a :class:`Falter` ends, and the next one that works."""
        async with asyncio.timeout(60):
            while not self.plc.misbehave:
                await asyncio.sleep(0.001)
            self.plc.misbehave = ""
            while not self.port.connected or not self.port.reconnects:
                await asyncio.sleep(0.005)

    def stop_cpu(self) -> None:
        self.block.program.stopped = True
        if self.protocol == "s7":
            self.block.mode = 0x43
        elif self.protocol == "cip":
            self.block.status = 0x2070
        else:
            self.block.words["SD", 203] = 0x12


@contextlib.asynccontextmanager
async def rigged(
    protocol: str, *, connect: bool = True, layout: bytes | None = None, **options: Any
) -> AsyncIterator[Rig]:
    fieldbus, make = BLOCKS[protocol]
    block = make()
    plc = FakePlc(fieldbus, block.answer)
    await plc.start()
    options = {"health_s": 0.05, "backoff": Backoff(0.01, 0.05), "run_only": True} | options
    port = VendorPort(wire(protocol, plc.port, layout), VALUES, protocol=protocol, **options)
    try:
        if connect:
            await port.connect()
        yield Rig(protocol, block, plc, port)
    finally:
        await port.close()
        await plc.stop()


@EVERY
async def test_what_was_written_is_applied_and_read_back(protocol: str) -> None:
    async with rigged(protocol) as rig:
        await rig.port.request_auto(True)
        for sequence, gap, speed in ((11, 0.125, -3.5), (12, -0.25, 0.0), (14, 0.0, 327.67)):
            await rig.write(sequence, gap, speed)
            applied = await rig.port.read_back()
            assert (applied.sequence, applied.values, applied.auto_active) == (sequence, (gap, speed), True)
        assert [number for number, _ in rig.block.program.taken] == [1, 2, 3]
        assert 4_000 < rig.block.program.valid_ms <= 5_000
        await rig.port.request_auto(False)
        assert not (await rig.port.read_back()).auto_active
        assert rig.port.health() == {"protocol": protocol, "standstill": None, "reconnects": 0, "faults": {}}


@EVERY
async def test_the_sequence_is_written_last_and_alone(protocol: str) -> None:
    async with rigged(protocol) as rig:
        await rig.write(1, 0.5, 1.0)
        sequence = {"s7": 40, "cip": "SitsRequest.Sequence", "slmp": REQUEST}[protocol]
        places = [place for place, _ in rig.block.writes]
        assert places[-1] == sequence
        assert sequence not in places[:-1]
        assert len(places) == (2 if protocol != "cip" else 6)


@EVERY
async def test_numbers_go_on_where_another_gate_stopped(protocol: str) -> None:
    async with rigged(protocol) as rig:
        await rig.port.request_auto(True)
        await rig.write(1, 0.5, 1.0)
        second = VendorPort(wire(protocol, rig.plc.port), VALUES, protocol=protocol, run_only=True)
        await second.connect()
        assert (await second.read_back()).sequence == 0, "what another gate wrote is no command of this one"
        await second.write(sequence=1, values=(0.25, 1.0), valid_until_ns=time.time_ns() + SECOND_NS)
        assert (await second.read_back()).values == (0.25, 1.0)
        assert [number for number, _ in rig.block.program.taken] == [1, 2]
        await second.close()


@EVERY
async def test_plc_range_is_refused_before_anything_is_written(protocol: str) -> None:
    async with rigged(protocol) as rig:
        wrong = [(float("nan"), 0.0), (float("inf"), 0.0), (1e39, 0.0), (9000.0003, 0.0)]
        for gap, speed in [*wrong, (0.0, 327.68), (0.0, -327.69), (0.0, 0.0049)]:
            with pytest.raises(PlcError, match="plc-range"):
                await rig.write(1, gap, speed)
        assert rig.block.writes == []


@EVERY
async def test_mismatch_of_the_read_back(protocol: str) -> None:
    async with rigged(protocol) as rig:
        rig.block.keep_writes = False
        await rig.write(1, 0.5, 1.0)
        with pytest.raises(ReadBackMismatch, match="plc-read-back"):
            await rig.port.read_back()
        rig.block.keep_writes = True
        await rig.write(2, 0.5, 1.0)
        assert (await rig.port.read_back()).sequence == 0, "in MAN nothing is taken"


@EVERY
async def test_a_controller_in_stop_is_written_nothing(protocol: str) -> None:
    async with rigged(protocol) as rig:
        rig.stop_cpu()
        async with asyncio.timeout(60):
            while not rig.port.standstill:
                await asyncio.sleep(0.005)
        with pytest.raises(PlcError, match="plc-stopped"):
            await rig.write(1, 0.5, 1.0)
        assert rig.block.writes == []


@EVERY
async def test_connection_lost_before_the_values_count(protocol: str) -> None:
    async with rigged(protocol) as rig:
        rig.plc.misbehave = "close"
        with pytest.raises(PlcError, match="plc-write") as caught:
            await rig.write(1, 0.5, 1.0)
        assert not isinstance(caught.value, OutcomeUnknown), "values without their sequence count for nothing"


class Falter:
    """Lets requests pass until the one that writes the sequence; then misbehaves, having taken it or not."""

    def __init__(self, rig: Rig, how: str, *, taken: bool) -> None:
        self._rig, self._how, self._taken = rig, how, taken
        self._inner = rig.plc._answer
        rig.plc._answer = self

    def __call__(self, data: bytes) -> bytes | None:
        block, place = self._rig.block, {"s7": 40, "cip": "SitsRequest.Sequence", "slmp": REQUEST}[self._rig.protocol]
        before, image = len(block.writes), self._image()
        reply = self._inner(data)
        if place in [written for written, _ in block.writes[before:]]:
            if not self._taken:
                self._restore(image)
            self._rig.plc.misbehave, self._rig.plc._answer = self._how, self._inner
        return reply

    def _image(self) -> tuple[Any, ...]:
        block, program = self._rig.block, self._rig.block.program
        memory = {"s7": "block", "cip": "members", "slmp": "words"}[self._rig.protocol]
        state = {name: value for name, value in vars(program).items() if name not in ("_memory", "taken")}
        return memory, getattr(block, memory).copy(), state, len(program.taken)

    def _restore(self, image: tuple[Any, ...]) -> None:
        memory, content, state, taken = image
        setattr(self._rig.block, memory, content)
        vars(self._rig.block.program).update(state)
        del self._rig.block.program.taken[taken:]


@pytest.mark.parametrize(
    ("protocol", "how"),
    [("s7", "close"), ("s7", "late"), ("cip", "close"), ("cip", "silent"), ("slmp", "close"), ("slmp", "garbage")],
)
@pytest.mark.parametrize("taken", [True, False])
async def test_connection_lost_between_write_and_answer(protocol: str, how: str, taken: bool) -> None:
    async with rigged(protocol) as rig:
        await rig.port.request_auto(True)
        await rig.write(1, 0.5, 1.0)
        Falter(rig, how, taken=taken)
        rig.deadline(SILENCE_S if how in ("silent", "late") else DEADLINE_MS / 1000)
        with pytest.raises(OutcomeUnknown, match="plc-unknown"):
            await rig.write(2, 0.25, 2.0)
        rig.plc.misbehave = ""
        rig.deadline(DEADLINE_MS / 1000)
        await rig.reconnected()
        applied = await rig.port.read_back()
        assert (applied.sequence, applied.values) == ((2, (0.25, 2.0)) if taken else (1, (0.5, 1.0)))
        await rig.write(3, 0.125, 3.0)
        assert (await rig.port.read_back()).sequence == 3
        assert [values[0] for _, values in rig.block.program.taken] == [0.5, *([0.25] if taken else []), 0.125]


@EVERY
async def test_late_reply_is_never_the_answer_to_the_next_request(protocol: str) -> None:
    async with rigged(protocol) as rig:
        rig.plc.misbehave = "late"
        rig.deadline(SILENCE_S)
        with pytest.raises(PlcError):
            await rig.write(1, 0.5, 1.0)
        assert not rig.port.connected
        with pytest.raises(PlcError, match="plc-not-connected"):
            await rig.port.read_back()


@EVERY
async def test_a_plc_that_is_gone_is_found_again(protocol: str) -> None:
    async with rigged(protocol) as rig:
        await rig.plc.stop()
        with pytest.raises(PlcError):
            await rig.port.read_back()
        with pytest.raises(PlcError, match="plc-not-connected"):
            await rig.write(1, 0.5, 1.0)
        await rig.plc.start()
        await rig.reconnected()
        await rig.write(2, 0.5, 1.0)
        assert rig.port.faults["connect-failed"] >= 0


@EVERY
async def test_auto_given_back_is_made_up_for_and_auto_wanted_is_not(protocol: str) -> None:
    async with rigged(protocol) as rig:
        await rig.port.request_auto(True)
        await rig.plc.stop()
        with pytest.raises(PlcError):
            await rig.port.request_auto(False)
        assert rig.block.auto_request()
        await rig.plc.start()
        await rig.reconnected()
        assert not rig.block.auto_request()
        await rig.plc.stop()
        with pytest.raises(PlcError):
            await rig.port.request_auto(True)
        await rig.plc.start()
        await rig.reconnected()
        assert not rig.block.auto_request(), "AUTO is for people to ask for again"


@EVERY
async def test_the_operator_s_man_wins(protocol: str) -> None:
    async with rigged(protocol) as rig:
        await rig.port.request_auto(True)
        await rig.write(1, 0.5, 1.0)
        rig.block.program.manual = True
        await rig.write(2, 0.25, 2.0)
        applied = await rig.port.read_back()
        assert (applied.sequence, applied.values, applied.auto_active) == (1, (0.5, 1.0), False)


@EVERY
async def test_protected_block(protocol: str) -> None:
    async with rigged(protocol) as rig:
        if protocol == "s7":
            rig.block.codes = {0: 0x03, 20: 0x03}
        elif protocol == "cip":
            rig.block.refused = {"SitsRequest.Slot[1].Check": 0x0F}
        else:
            rig.block.end_code = 0xC201
        with pytest.raises(PlcError, match="plc-protected"):
            await rig.write(1, 0.5, 1.0)
        assert rig.block.sequence() == 0


@EVERY
async def test_a_block_of_another_length_is_refused_at_once(protocol: str) -> None:
    async with rigged(protocol, connect=False) as rig:
        for shorter in (True, False) if protocol == "s7" else (True,):
            if protocol == "s7":
                rig.block.size = rig.block.layout.size + (-2 if shorter else 2)
            elif protocol == "cip":
                del rig.block.members["SitsRequest.Slot[1].Speed"]
            else:
                rig.block.devices = REQUEST + 20
            with pytest.raises(PlcError, match="plc-block"):
                await rig.port.connect()
        assert rig.block.writes == []


async def test_template_changed_after_a_download() -> None:
    async with rigged("cip") as rig:
        assert isinstance(rig.block, LogixBlock)
        rig.block.members["SitsRequest.Slot[1].Speed"] = ("DINT", 0)
        with pytest.raises(PlcError, match="plc-block"):
            await rig.write(1, 0.5, 1.0)
        assert rig.block.sequence() == 0
        rig.block.members["SitsApplied.Gap"] = ("DINT", 0)
        with pytest.raises(PlcError, match="plc-block"):
            await rig.port.read_back()


async def test_s7_block_that_a_download_made_shorter() -> None:
    async with rigged("s7") as rig:
        rig.block.size = 16
        with pytest.raises(PlcError, match="plc-block"):
            await rig.write(1, 0.5, 1.0)


async def test_s7_members_apart_are_written_in_several_items_before_the_sequence() -> None:
    apart = SLOT_MEMBERS.replace(
        '<Member Name="Gap"', '<Member Name="Other" Datatype="Array[0..9] of Real"/><Member Name="Gap"'
    )
    layout = s7_layout(apart)
    async with rigged("s7", connect=False, layout=layout) as rig:
        assert isinstance(rig.block, S7Block)
        rig.block.layout = parse_layout(layout)
        rig.block.size = rig.block.layout.size
        rig.block.block = bytearray(rig.block.size)
        await rig.port.connect()
        await rig.port.request_auto(True)
        await rig.write(1, 0.5, 1.0)
        assert (await rig.port.read_back()).values == (0.5, 1.0)
        assert len(rig.block.writes) == 4


async def test_an_s7_cpu_that_does_not_tell_its_mode_needs_run_only_false() -> None:
    async with rigged("s7", connect=False) as rig:
        rig.block.tamper = lambda telegram: (
            replace(telegram, body=replace_szl(), error=0xD401) if hasattr(telegram, "group") else telegram
        )
        await rig.port.connect()
        with pytest.raises(PlcError, match=r"plc-stopped.*szl-refused"):
            await rig.write(1, 0.5, 1.0)
        trusting = VendorPort(wire("s7", rig.plc.port), VALUES, protocol="s7", run_only=False)
        await trusting.connect()
        await trusting.write(sequence=1, values=(0.5, 1.0), valid_until_ns=time.time_ns() + SECOND_NS)
        await trusting.close()


def replace_szl() -> Any:
    from fieldbus.s7.model import NoData, Transport

    return NoData(0x0A, Transport.NULL)


@EVERY
async def test_values_that_are_no_longer_good_are_not_written(protocol: str) -> None:
    async with rigged(protocol) as rig:
        with pytest.raises(PlcError, match="plc-write"):
            await rig.write(1, 0.5, 1.0, good_s=-0.001)
        assert rig.block.writes == []


@EVERY
async def test_a_value_of_the_plc_that_is_no_number_is_not_read(protocol: str) -> None:
    async with rigged(protocol) as rig:
        rig.block.program.stopped = True
        if protocol == "s7":
            member = rig.block.layout.member("Applied.Gap")
            rig.block.block[member.byte : member.byte + 4] = bytes.fromhex("7fc00000")
        elif protocol == "cip":
            rig.block.tamper = nan_in_reply
        else:
            rig.block.put(1104, (0, 0x7FC0))
        with pytest.raises(PlcError, match="plc-read"):
            await rig.port.read_back()


def nan_in_reply(telegram: Any) -> Any:
    from tests.fieldbus.vendor_cpus import reply_message

    return reply_message(
        telegram,
        lambda reply: replace(reply, data=reply.data.replace(b"\xca\0\0\0\0\0", b"\xca\0\0\0\xc0\x7f")),
    )


@EVERY
async def test_nobody_there_at_the_start(protocol: str) -> None:
    async with rigged(protocol, connect=False) as rig:
        await rig.plc.stop()
        with pytest.raises(LinkError, match="connect-failed"):
            await rig.port.connect()


@EVERY
async def test_those_who_wait_share_one_look_and_a_write_goes_first(protocol: str) -> None:
    async with rigged(protocol, health_s=60.0) as rig:
        await rig.port.request_auto(True)
        before = rig.plc.requests
        looks = [asyncio.create_task(rig.port.read_back()) for _ in range(8)]
        write = asyncio.create_task(rig.write(5, 0.5, 1.0))
        await write
        assert {(await look).sequence for look in looks} == {5}
        assert rig.plc.requests - before <= 2 + 3, "two requests to write, one look"


@EVERY
async def test_auto_given_back_goes_before_a_write_that_waits(protocol: str) -> None:
    async with rigged(protocol, health_s=60.0) as rig:
        await rig.port.request_auto(True)
        waiting = [asyncio.create_task(rig.write(5, 0.5, 1.0)), asyncio.create_task(rig.port.request_auto(False))]
        await asyncio.gather(*waiting)
        assert not rig.block.auto_request()
        assert rig.block.program.taken == [], "in MAN already when the write came"


@given(
    counts=st.integers(-20_000, 20_000),
    steps=st.sampled_from([1.0, 2.0, 3.0, 2.7, 11.0]),
    scale=st.sampled_from([0.001, 0.0005, 0.01, 1 / 3, 7.0]),
    kind=st.sampled_from(["REAL", "LREAL", "DINT"]),
)
def test_what_a_block_holds_is_still_the_same_count(counts: int, steps: float, scale: float, kind: PlcType) -> None:
    value = Value("x", "X", "X", kind, scale / steps if kind == "DINT" else None, scale * TOLERANCE_COUNTS)
    assert round(value.to_physical(value.to_raw(counts * scale)) / scale) == counts


@EVERY
async def test_a_closed_port_answers_who_waits(protocol: str) -> None:
    async with rigged(protocol) as rig:
        rig.plc.misbehave = "silent"
        looks = [asyncio.create_task(rig.port.read_back()) for _ in range(2)]
        await asyncio.sleep(0)
        await rig.port.close()
        for look in looks:
            with pytest.raises(PlcError, match="plc-"):
                await look


def test_the_melsec_block_lies_where_the_document_says() -> None:
    block = MelsecBlock()
    block.put(REQUEST, (1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xFFFE, 0xFFFF, 250, 0, 0, 0x3F00, 7, 0))
    assert block.slot(1).values == (0.5, 7)
    assert (block.slot(1).number, block.slot(1).check, block.slot(1).valid_ms) == (1, 0xFFFF_FFFE, 250)
