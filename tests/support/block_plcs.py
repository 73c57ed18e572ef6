"""Controllers with the request block of docs/request-block.md and the small program that serves it.

``S7Block``, ``LogixBlock`` and ``MelsecBlock`` answer telegrams and run :class:`BlockProgram` behind every one of them,
as a PLC whose scan is shorter than a round trip. As a process: ``python -m tests.support.block_plcs PROTOCOL`` prints
its port and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from fieldbus.capture import Protocol as Fieldbus
from fieldbus.cip.message import Reply, Request
from fieldbus.cip.path import Logical, Symbol
from fieldbus.cip.services import ReadTag, WriteTag, asked
from fieldbus.cip.types import BY_NAME, decode_values, encode_value
from fieldbus.s7 import model as s7
from fieldbus.s7.layout import BlockLayout, parse_layout
from fieldbus.s7.values import decode_value
from fieldbus.s7.values import encode_value as encode_s7
from fieldbus.slmp import frame
from fieldbus.slmp import model as slmp
from fieldbus.slmp.values import WordType, decode_words, encode_words
from tests.fieldbus.fake_plc import FakePlc
from tests.fieldbus.vendor_cpus import LogixController, MelsecCpu, S7Cpu

ONES = 0xFFFF_FFFF


@dataclass(frozen=True)
class RequestSlot:
    number: int
    check: int
    valid_ms: int
    values: tuple[float, ...]


class Memory(Protocol):
    """The block as the program sees it."""

    def sequence(self) -> int: ...
    def slot(self, index: int) -> RequestSlot: ...
    def auto_request(self) -> bool: ...
    def show(self, number: int, active: bool, values: tuple[float, ...]) -> None: ...


class BlockProgram:
    """The PLC's side of the handshake, rule by rule as in docs/request-block.md."""

    def __init__(self, memory: Memory, outputs: int = 2) -> None:
        self._memory = memory
        self._seen = memory.sequence()  # what stands there when the program starts is no request
        self.applied = 0
        self.values: tuple[float, ...] = (0.0,) * outputs
        self.taken: list[tuple[int, tuple[float, ...]]] = []
        self.valid_ms = 0
        self.manual = False
        self.stopped = False
        self.takes_nothing = False

    def scan(self) -> None:
        if self.stopped:
            return
        memory = self._memory
        active = memory.auto_request() and not self.manual
        sequence = memory.sequence()
        if sequence != self._seen and not self.takes_nothing:
            slot = memory.slot(sequence & 1)
            whole = slot.number == sequence and slot.check == sequence ^ ONES
            if whole and memory.sequence() == sequence:
                self._seen = sequence
                if active:
                    self.applied, self.values, self.valid_ms = sequence, slot.values, slot.valid_ms
                    self.taken.append((sequence, slot.values))
        memory.show(self.applied, active, self.values)


SLOT_MEMBERS = """<Member Name="Number" Datatype="DWord"/><Member Name="Check" Datatype="DWord"/>
<Member Name="ValidMs" Datatype="DInt"/><Member Name="Gap" Datatype="Real"/><Member Name="Speed" Datatype="Int"/>
<Member Name="Spare" Datatype="Int"/>"""


def s7_layout(slot: str = SLOT_MEMBERS, *, number: int = 7, access: str = "Standard") -> bytes:
    """The export of the block with two outputs: Gap, a REAL, and Speed, an INT."""
    return f"""<?xml version="1.0" encoding="utf-8"?><Document><SW.Blocks.GlobalDB ID="0"><AttributeList>
<Interface><Sections xmlns="http://www.siemens.com/automation/Openness/SW/Interface/v5"><Section Name="Static">
<Member Name="Request" Datatype="Struct"><Member Name="Slot" Datatype="Array[0..1] of Struct">{slot}</Member>
<Member Name="Sequence" Datatype="DWord"/><Member Name="AutoRequest" Datatype="Bool"/></Member>
<Member Name="Applied" Datatype="Struct"><Member Name="Sequence" Datatype="DWord"/>
<Member Name="AutoActive" Datatype="Bool"/><Member Name="Gap" Datatype="Real"/>
<Member Name="Speed" Datatype="Int"/></Member></Section></Sections></Interface>
<MemoryLayout>{access}</MemoryLayout><Name>SitsBlock</Name><Number>{number}</Number>
</AttributeList></SW.Blocks.GlobalDB></Document>""".encode()


@dataclass
class S7Block(S7Cpu):
    """DB7 with the block; ``size`` what the CPU has, whatever the layout says; ``writes`` in order."""

    layout: BlockLayout = field(default_factory=lambda: parse_layout(s7_layout()))
    size: int = 0
    writes: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = self.size or self.layout.size
        self.block = bytearray(self.layout.size + 8)
        self.program = BlockProgram(self)

    def answer(self, data: bytes) -> bytes | None:
        reply = super().answer(data)
        self.program.scan()
        return reply

    def _job(self, body: s7.Body) -> s7.Body:
        if not isinstance(body, s7.WriteRequest):
            return super()._job(body)
        codes = []
        for item, data in zip(body.items, body.data, strict=True):
            codes.append(self.codes.get(item.start, 0xFF if item.start + item.count <= self.size else 0x05))
            raw = data.data
            if item.type is s7.ItemType.BIT:
                byte = self.block[item.start] & ~(1 << item.bit) | raw[0] << item.bit
                raw = bytes((byte,))
            if codes[-1] == 0xFF and self.keep_writes:
                self.writes.append((item.start, raw))
                self.block[item.start : item.start + len(raw)] = raw
        return s7.WriteReply(tuple(codes))

    def _read(self, item: s7.Item) -> s7.DataItem:
        if item.block != self.layout.number or item.start + item.count > self.size:
            return s7.DataItem(0x0A if item.block != self.layout.number else 0x05, s7.Transport.NULL, b"")
        code = self.codes.get(item.start, 0xFF)
        if code != 0xFF:
            return s7.DataItem(code, s7.Transport.NULL, b"")
        return s7.DataItem(0xFF, s7.Transport.BYTE, bytes(self.block[item.start : item.start + item.count]))

    def _get(self, path: str) -> Any:
        member = self.layout.member(path)
        return decode_value(
            member.spec, bytes(self.block[member.byte : member.byte + member.spec.size]), bit=member.bit
        )

    def put(self, path: str, value: Any) -> None:
        member = self.layout.member(path)
        data = encode_s7(member.spec, value)
        self.block[member.byte : member.byte + len(data)] = data

    def sequence(self) -> int:
        return int(self._get("Request.Sequence"))

    def slot(self, index: int) -> RequestSlot:
        base = f"Request.Slot[{index}]."
        values = (self._get(base + "Gap"), self._get(base + "Speed"))
        number, check, valid_ms = (self._get(base + name) for name in ("Number", "Check", "ValidMs"))
        return RequestSlot(number, check, valid_ms, values)

    def auto_request(self) -> bool:
        return bool(self._get("Request.AutoRequest"))

    def show(self, number: int, active: bool, values: tuple[float, ...]) -> None:
        self.put("Applied.Sequence", number)
        self.put("Applied.AutoActive", active)
        self.put("Applied.Gap", values[0])
        self.put("Applied.Speed", int(values[1]))


def logix_tags() -> dict[str, tuple[str, Any]]:
    """Name → type and value of the members of SitsRequest and SitsApplied."""
    slot = {"Number": "DINT", "Check": "DINT", "ValidMs": "DINT", "Gap": "REAL", "Speed": "INT"}
    tags: dict[str, tuple[str, Any]] = {}
    for index in (0, 1):
        tags |= {f"SitsRequest.Slot[{index}].{name}": (kind, 0) for name, kind in slot.items()}
    tags |= {"SitsRequest.Sequence": ("DINT", 0), "SitsRequest.AutoRequest": ("BOOL", False)}
    tags |= {"SitsApplied.Sequence": ("DINT", 0), "SitsApplied.AutoActive": ("BOOL", False)}
    return tags | {"SitsApplied.Gap": ("REAL", 0.0), "SitsApplied.Speed": ("INT", 0)}


@dataclass
class LogixBlock(LogixController):
    """A controller with the block's tags; ``refused``: general status by tag."""

    members: dict[str, tuple[str, Any]] = field(default_factory=logix_tags)
    refused: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.program = BlockProgram(self)

    def answer(self, data: bytes) -> bytes | None:
        reply = super().answer(data)
        self.program.scan()
        return reply

    def _tag(self, request: Request, name: str) -> Reply:
        path = ""
        for segment in request.path:
            if isinstance(segment, Symbol):
                path += ("." if path else "") + segment.name
            elif isinstance(segment, Logical):
                path += f"[{segment.value}]"
        kind_name, value = self.members.get(path, ("", None))
        if not kind_name or path in self.refused:
            return Reply(request.service, self.refused.get(path, 0x04))
        kind, question = BY_NAME[kind_name], asked(request)
        if isinstance(question, ReadTag):
            data = encode_value(kind, float(value) if kind_name == "REAL" else value)
            return Reply(request.service, 0, (), kind.code.to_bytes(2, "little") + data)
        assert isinstance(question, WriteTag)
        if question.type != kind.code:
            return Reply(request.service, 0xFF, (0x2107,))
        if self.keep_writes:
            written = decode_values(kind, question.data)[0]
            self.writes.append((path, written))
            self.members[path] = (kind_name, written)
        return Reply(request.service)

    def _get(self, path: str) -> Any:
        return self.members[path][1]

    def put(self, path: str, value: Any) -> None:
        if path in self.members:
            self.members[path] = (self.members[path][0], value)

    def sequence(self) -> int:
        return int(self._get("SitsRequest.Sequence")) & ONES

    def slot(self, index: int) -> RequestSlot:
        base = f"SitsRequest.Slot[{index}]."
        number, check, valid_ms = (int(self._get(base + name)) & ONES for name in ("Number", "Check", "ValidMs"))
        return RequestSlot(number, check, valid_ms, (self._get(base + "Gap"), self._get(base + "Speed")))

    def auto_request(self) -> bool:
        return bool(self._get("SitsRequest.AutoRequest"))

    def show(self, number: int, active: bool, values: tuple[float, ...]) -> None:
        self.put("SitsApplied.Sequence", number - (ONES + 1) if number > ONES // 2 else number)
        self.put("SitsApplied.AutoActive", active)
        self.put("SitsApplied.Gap", values[0])
        self.put("SitsApplied.Speed", int(values[1]))


REQUEST, APPLIED = 1000, 1100
SLOT_WORDS = 6 + 4


@dataclass
class MelsecBlock(MelsecCpu):
    """D1000 on the request, D1100 on what is applied; ``devices`` how many D there are; ``end_code`` for every one."""

    devices: int = 12_288
    end_code: int = 0
    writes: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.program = BlockProgram(self)
        inner = self.tamper
        self._forced = 0

        def tamper(reply: slmp.Reply) -> slmp.Reply:
            code = self.end_code or self._forced
            return inner(slmp.Reply(code, b"", reply.serial, reply.route) if code else reply)

        self.tamper = tamper

    def answer(self, data: bytes) -> bytes | None:
        request = frame.decode(data)
        assert isinstance(request, slmp.Request)
        body, self._forced = request.body, 0
        if isinstance(body, slmp.ReadBatch | slmp.WriteWords) and body.device.kind == "D":
            count = body.count if isinstance(body, slmp.ReadBatch) else len(body.values)
            self._forced = 0xC056 if body.device.number + count > self.devices else 0
        if isinstance(body, slmp.WriteWords) and not self.end_code and not self._forced:
            self.writes.append((body.device.number, body.values))
        keep, self.keep_writes = self.keep_writes, self.keep_writes and not self.end_code
        reply = super().answer(data)
        self.keep_writes = keep
        self.program.scan()
        return reply

    def _words(self, number: int, count: int) -> tuple[int, ...]:
        return tuple(self.words.get(("D", number + at), 0) for at in range(count))

    def put(self, number: int, words: tuple[int, ...]) -> None:
        for at, word in enumerate(words):
            self.words["D", number + at] = word

    def _double(self, number: int) -> int:
        low, high = self._words(number, 2)
        return low | high << 16

    def sequence(self) -> int:
        return self._double(REQUEST)

    def slot(self, index: int) -> RequestSlot:
        at = REQUEST + 4 + index * SLOT_WORDS
        gap = decode_words(WordType.REAL, self._words(at + 6, 2))
        speed = decode_words(WordType.INT, self._words(at + 8, 1))
        assert isinstance(gap, float)
        assert isinstance(speed, int)
        return RequestSlot(self._double(at), self._double(at + 2), self._double(at + 4), (gap, speed))

    def auto_request(self) -> bool:
        return self._words(REQUEST + 2, 1)[0] == 1

    def show(self, number: int, active: bool, values: tuple[float, ...]) -> None:
        self.put(APPLIED, (number & 0xFFFF, number >> 16, int(active)))
        self.put(APPLIED + 4, encode_words(WordType.REAL, values[0]))
        self.put(APPLIED + 6, encode_words(WordType.INT, int(values[1])))


BLOCKS: dict[str, tuple[Fieldbus, Callable[[], S7Block | LogixBlock | MelsecBlock]]] = {
    "s7": (Fieldbus.S7, S7Block),
    "cip": (Fieldbus.CIP, LogixBlock),
    "slmp": (Fieldbus.SLMP, MelsecBlock),
}


async def _serve(protocol: str) -> None:
    fieldbus, make = BLOCKS[protocol]
    plc = FakePlc(fieldbus, make().answer)
    await plc.start()
    sys.stdout.write(f"{plc.port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await plc.stop()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
