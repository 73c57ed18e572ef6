"""No look at the request block, whenever it happens, shows a program a mixture of two commands.

The first test tears the requests of the three real protocols after every byte, forwards and backwards. The second one
lets the bytes of a request arrive in any order, connections end anywhere, and the program read every byte at a time
of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import struct
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldbus.link import LinkError
from fieldbus.polling import Backoff
from sitsedge.gate.plc import PlcError
from sitsedge.gate.plc.block import NUMBERS, Seen, Slot, Value, next_number
from sitsedge.gate.plc.vendor import VendorPort
from tests.sitsedge.gate.test_vendor_plcs import VALUES, rigged
from tests.support.block_plcs import BlockProgram, RequestSlot

COMMANDS = [(0.5, 1.0), (-0.25, -1.0), (0.125, 300.0), (1e-7, -300.0), (-2.0, 0.01)]
RAWS = [tuple(value.to_raw(number) for value, number in zip(VALUES, both, strict=True)) for both in COMMANDS]
GOOD_NS = 3_600_000_000_000


def bytes_of(write: tuple[Any, Any]) -> list[tuple[Any, int]]:
    """A write of the fakes as (place, byte): S7 bytes, words of devices, or a tag's value."""
    place, content = write
    if isinstance(content, bytes):
        return [(place + at, byte) for at, byte in enumerate(content)]
    if isinstance(content, tuple):
        raw = b"".join(word.to_bytes(2, "little") for word in content)
        return [(2 * place + at, byte) for at, byte in enumerate(raw)]
    raw = struct.pack("<f", content) if isinstance(content, float) else (content % NUMBERS).to_bytes(4, "little")
    return [((place, at), byte) for at, byte in enumerate(raw)]


def put_byte(block: Any, place: Any, byte: int) -> None:
    if isinstance(place, tuple):
        name, at = place
        kind, value = block.members[name]
        raw = bytearray(struct.pack("<f", value) if kind == "REAL" else (value % NUMBERS).to_bytes(4, "little"))
        raw[at] = byte
        word = int.from_bytes(raw[:2] if kind == "INT" else raw, "little", signed=True)
        block.members[name] = (kind, struct.unpack("<f", raw)[0] if kind == "REAL" else word)
    elif hasattr(block, "block"):
        block.block[place] = byte
    else:
        word = block.words.get(("D", place // 2), 0)
        shift = 8 * (place % 2)
        block.words["D", place // 2] = word & ~(0xFF << shift) | byte << shift


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("protocol", ["s7", "cip", "slmp"])
async def test_torn_after_every_byte(protocol: str, backwards: bool) -> None:
    async with rigged(protocol) as rig:
        await rig.port.request_auto(True)
        start, requests = copy.deepcopy(rig.block), []
        for sequence, (gap, speed) in enumerate(COMMANDS, 1):
            rig.block.writes.clear()
            await rig.write(sequence, gap, speed)
            requests += [bytes_of(write) for write in rig.block.writes]
    start.program = BlockProgram(start)
    taken: list[tuple[float, ...]] = []
    for request in requests:
        for place, byte in reversed(request) if backwards else request:
            put_byte(start, place, byte)
            torn = copy.deepcopy(start)  # a program that looks for the first time since the last whole command
            torn.program.taken.clear()
            torn.program.scan()
            assert all(found in RAWS for _, found in torn.program.taken)
        start.program.scan()
        taken += [found for _, found in start.program.taken if found not in taken]
    assert taken == RAWS


BYTES = {"sequence": 0, 0: 4, 1: 20}


@dataclass
class TornWire:
    """The block as bytes that change one at a time; ``events`` is its whole history."""

    random: Random
    faults: list[tuple[str, float]]
    memory: bytearray = field(default_factory=lambda: bytearray(36))
    events: list[tuple[int, int]] = field(default_factory=list)
    connected: bool = False

    async def open(self) -> None:
        self.connected = True

    async def close(self) -> None:
        self.connected = False

    async def standstill(self) -> str:
        return ""

    async def put_auto(self, wanted: bool) -> None:
        raise AssertionError("not asked for here")

    async def put_slot(self, slot: Slot) -> None:
        data = struct.pack("<III", slot.number, slot.check, slot.valid_ms) + struct.pack("<f", slot.values[0])
        self._request("slot", BYTES[slot.index], data)

    async def put_sequence(self, number: int) -> None:
        self._request("sequence", BYTES["sequence"], number.to_bytes(4, "little"))

    def _request(self, what: str, at: int, data: bytes) -> None:
        order = list(enumerate(data, at))
        self.random.shuffle(order)
        fault, share = self.faults.pop(0) if self.faults and self.faults[0][0] == what else ("", 1.0)
        for place, byte in order[: round(share * len(order))]:
            self.events.append((place, byte))
            self.memory[place] = byte
        if fault:
            self.connected = False
            raise LinkError("connection-lost", found="the end", expected="a controller that answers")

    async def published(self) -> int:
        return int.from_bytes(self.memory[:4], "little")

    async def look(self, slot: int | None) -> Seen:
        raise AssertionError("nobody reads back here")

    def refusal(self, error: Exception) -> str:
        return ""


class Glimpse:
    """What a program sees that reads each byte at a later time than the byte before; from the history ``events``."""

    def __init__(self, events: list[tuple[int, int]], random: Random) -> None:
        self._events, self._random = events, random
        self._memory, self._time = bytearray(36), 0
        self.steps: tuple[int, ...] = (0,)  # how many bytes of the history pass before the next byte is read
        for at, byte in events[:4]:  # the number that stood there before
            self._memory[at] = byte
            self._time += 1

    @property
    def over(self) -> bool:
        return self._time >= len(self._events)

    def _byte(self, place: int) -> int:
        for _ in range(self._random.choice(self.steps)):
            if not self.over:
                at, byte = self._events[self._time]
                self._memory[at] = byte
                self._time += 1
        return self._memory[place]

    def _bytes(self, start: int, count: int) -> bytes:
        found = bytearray(count)
        words = list(range(0, count, 4))
        self._random.shuffle(words)
        for place in (word + at for word in words for at in self._random.sample(range(4), 4)):
            found[place] = self._byte(start + place)
        return bytes(found)

    def sequence(self) -> int:
        return int.from_bytes(self._bytes(BYTES["sequence"], 4), "little")

    def slot(self, index: int) -> RequestSlot:
        number, check, valid_ms, value = struct.unpack("<IIIf", self._bytes(BYTES[index], 16))
        return RequestSlot(number, check, valid_ms, (value,))

    def auto_request(self) -> bool:
        return True

    def show(self, number: int, active: bool, values: tuple[float, ...]) -> None:
        return None


async def history(wire: TornWire, start: int, writes: int) -> dict[int, float]:
    """Let a port write; number → value of every slot that it filled."""
    values = (Value("x", "X", "X", "REAL", None, 1.0),)
    port = VendorPort(wire, values, protocol="torn", run_only=True, backoff=Backoff(0.0001, 0.0001))
    filled: dict[int, float] = {}
    for place, byte in enumerate(start.to_bytes(4, "little")):
        wire.memory[place] = byte
        wire.events.append((place, byte))
    await port.connect()
    for index in range(writes):
        value = float(index + 1)
        while not port.connected:
            await asyncio.sleep(0)
        with contextlib.suppress(PlcError):
            await port.write(sequence=index, values=(value,), valid_until_ns=time.time_ns() + GOOD_NS)
        filled[port._used] = value
    await port.close()
    return filled


@given(
    seed=st.integers(0, 1 << 32),
    start=st.one_of(st.integers(0, NUMBERS - 1), st.sampled_from([0, 0xFE, 0xFFFE, NUMBERS - 2, NUMBERS - 1])),
    writes=st.integers(1, 12),
    faults=st.lists(st.tuples(st.sampled_from(["slot", "sequence"]), st.floats(0, 1)), max_size=3),
    steps=st.sampled_from([(0, 1), (0, 0, 0, 1), (1, 2, 3), (0, 0, 0, 20), (0, 5, 40), (0,) * 15 + (24,)]),
)
@settings(max_examples=300, deadline=None)
def test_a_program_that_reads_while_bytes_arrive_takes_whole_commands_or_none(
    seed: int, start: int, writes: int, faults: list[tuple[str, float]], steps: tuple[int, ...]
) -> None:
    random = Random(seed)
    wire = TornWire(random, list(faults))
    filled = asyncio.run(history(wire, start, writes))
    glimpse = Glimpse(wire.events, random)
    program = BlockProgram(glimpse, outputs=1)
    glimpse.steps = steps
    for _ in range(10_000):
        program.scan()
        if glimpse.over:
            break
    program.scan()
    for number, (value,) in program.taken:
        assert filled[number] == value
    numbers = [number for number, _ in program.taken]
    assert len(set(numbers)) == len(numbers), "no command is taken twice"
    assert [values for _, values in program.taken] == sorted(values for _, values in program.taken), "nor an older one"
    if not faults:
        assert program.taken[-1][1] == (float(writes),)


@given(used=st.integers(0, NUMBERS - 1), published=st.integers(0, NUMBERS - 1))
def test_the_next_number_is_newer_than_both_and_of_the_other_slot(used: int, published: int) -> None:
    number = next_number(used, published)
    assert (number ^ published) & 1
    assert number not in (used, published)
    newest = used if (used - published) % NUMBERS < NUMBERS // 2 else published
    assert 1 <= (number - newest) % NUMBERS <= 2


def test_a_block_of_zeros_is_no_request() -> None:
    glimpse = Glimpse([], Random(0))
    program = BlockProgram(glimpse, outputs=1)
    program._seen = 57  # the program went on, its data block was loaded anew
    program.scan()
    assert program.taken == []
