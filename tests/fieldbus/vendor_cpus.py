"""What an S7 CPU, a Logix controller and a MELSEC CPU answer, as far as the connectors ask."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fieldbus.cip import encapsulation as enip
from fieldbus.cip.identity import Identity, encode_identity
from fieldbus.cip.message import Reply, Request, encode_message
from fieldbus.cip.path import Logical, Segment, Symbol
from fieldbus.cip.services import Multiple, ReadTag, asked, join
from fieldbus.s7 import cotp, pdu
from fieldbus.s7 import model as s7
from fieldbus.slmp import frame
from fieldbus.slmp import model as slmp
from fieldbus.slmp.devices import Device
from fieldbus.slmp.wire import DataCode


@dataclass
class S7Cpu:
    """One data block, a mode, an event list; ``tamper`` changes a reply before it is sent."""

    block: bytearray = field(default_factory=lambda: bytearray(64))
    mode: int = 0x48
    pdu_bytes: int = 240
    codes: dict[int, int] = field(default_factory=dict)
    keep_writes: bool = True
    tamper: Callable[[s7.Telegram], s7.Telegram] = field(default=lambda telegram: telegram)

    def answer(self, data: bytes) -> bytes | None:
        request = pdu.decode(data)
        reply: s7.Telegram | None = None
        if isinstance(request, cotp.Connect):
            reply = replace(request, confirm=True, target_ref=request.source_ref)
        elif isinstance(request, s7.Job):
            reply = s7.Ack(request.reference, 0, self._job(request.body))
        elif isinstance(request, s7.UserData):
            reply = self._service(request)
        return None if reply is None else pdu.encode(self.tamper(reply))

    def _job(self, body: s7.Body) -> s7.Body:
        if isinstance(body, s7.Setup):
            return s7.Setup(1, 1, self.pdu_bytes)
        if isinstance(body, s7.ReadRequest):
            return s7.ReadReply(tuple(map(self._read, body.items)))
        assert isinstance(body, s7.WriteRequest)
        for item, data in zip(body.items, body.data, strict=True):
            if self.keep_writes and item.block == 1:
                self.block[item.start : item.start + len(data.data)] = data.data
        return s7.WriteReply(tuple(self.codes.get(item.start, 0xFF) for item in body.items))

    def _read(self, item: s7.Item) -> s7.DataItem:
        code = self.codes.get(item.start, 0xFF if item.block == 1 else 0x0A)
        if code != 0xFF:
            return s7.DataItem(code, s7.Transport.NULL, b"")
        if item.type is s7.ItemType.BIT:
            return s7.DataItem(0xFF, s7.Transport.BIT, bytes((self.block[item.start] >> item.bit & 1,)), 1)
        return s7.DataItem(0xFF, s7.Transport.BYTE, bytes(self.block[item.start : item.start + item.count]))

    def _service(self, request: s7.UserData) -> s7.UserData:
        head = (request.reference, True, request.group, request.function)
        stamp = bytes.fromhex("2611291526205310")
        if isinstance(request.body, s7.ClockRequest):
            return s7.UserData(*head, 1, s7.ClockReply(b"\x00\x20" + stamp))
        if isinstance(request.body, s7.BlockInfo) and request.function == 1:
            return s7.UserData(*head, 1, s7.BlockInfo(bytes.fromhex("30380001304100023045000030430000")))
        if isinstance(request.body, s7.BlockInfo) and request.body.data == b"0A":
            return s7.UserData(*head, 3, s7.BlockInfo(bytes.fromhex("00012205")), 1, True)
        if isinstance(request.body, s7.NextPart) and request.group == 3:
            return s7.UserData(*head, 3, s7.BlockInfo(bytes.fromhex("00072205")), 1, False)
        if isinstance(request.body, s7.SzlRequest) and request.body.szl_id == 0x001C:
            names = ((1, b"PLC_1"), (7, b"CPU 315-2 PN/DP"), (5, b"S C-X4U421302009"))
            records = b"".join(number.to_bytes(2, "big") + name.ljust(32, b"\0") for number, name in names)
            return s7.UserData(*head, 1, s7.SzlPart(bytes.fromhex("001c000000220003") + records))
        if isinstance(request.body, s7.SzlRequest) and request.body.szl_id == 0x0424:
            state = bytes.fromhex("04240000001400014302ff") + bytes((self.mode,)) + bytes(8) + stamp
            return s7.UserData(*head, 1, s7.SzlPart(state))
        events = bytes.fromhex("00a0000000140002") + (bytes.fromhex("4304ff84") + bytes(8) + stamp) * 2
        if isinstance(request.body, s7.SzlRequest) and request.body.szl_id == 0x00A0:
            return s7.UserData(*head, 5, s7.SzlPart(events[:20]), 9, True)
        if isinstance(request.body, s7.NextPart) and (request.group, request.sequence) == (4, 5):
            return s7.UserData(*head, 5, s7.SzlPart(events[20:]), 9, False)
        return s7.UserData(*head, 1, s7.NoData(0x0A, s7.Transport.NULL), error=0xD401)


@dataclass(frozen=True)
class Udt:
    """A structure of a Logix controller: (name, type, info, offset) of each member, as its definition has them."""

    name: str
    handle: int
    size: int
    members: tuple[tuple[str, int, int, int], ...]

    def definition(self) -> bytes:
        rows = b"".join(struct.pack("<HHI", info, kind, offset) for _, kind, info, offset in self.members)
        names = b"".join(name.encode() + b"\0" for name, *_ in self.members)
        raw = rows + f"{self.name};n".encode() + b"\0" + names
        return raw + bytes(-(len(raw) + 23) % 4)

    def attributes(self) -> bytes:
        words = (len(self.definition()) + 23) // 4
        head = struct.pack("<HHHIHHI", 4, 4, 0, words, 5, 0, self.size)
        return head + struct.pack("<HHHHHH", 2, 0, len(self.members), 1, 0, self.handle)


def string_template() -> bytes:
    members = struct.pack("<HHIHHI", 0, 0xC4, 0, 82, 0x20C2, 4)
    return members + b"STRING;nEFEBE\0LEN\0DATA\0".ljust(128 - 23 - len(members), b"\0")


@dataclass
class LogixController:
    """Tags by name (type code and bytes), a status word, a change counter; ``tamper`` changes a telegram sent."""

    tags: dict[str, bytes] = field(default_factory=dict)
    status: int = 0x3060
    changes: int | None = 1
    handle: int = 0x0FCE
    symbols: dict[str, tuple[tuple[str, int, tuple[int, int, int]], ...]] = field(
        default_factory=lambda: {"": (("Name", 0x8FCE, (0, 0, 0)),)}
    )
    udts: dict[int, Udt] = field(default_factory=dict)
    keep_writes: bool = True
    tamper: Callable[[enip.Telegram], enip.Telegram] = field(default=lambda telegram: telegram)

    def answer(self, data: bytes) -> bytes | None:
        request = enip.decode(data)
        if request.command == enip.REGISTER:
            return enip.encode(self.tamper(replace(request, session=77)))
        if not isinstance(request.body, enip.Unconnected):
            return None
        assert isinstance(request.body.message, Request)
        body = enip.Unconnected(self._message(request.body.message))
        return enip.encode(self.tamper(replace(request, body=body)))

    def _message(self, request: Request) -> Reply:
        question = asked(request)
        first, service = request.path[0], request.service
        scope = ""
        if isinstance(first, Symbol) and first.name in self.symbols and isinstance(request.path[1], Logical):
            scope, first = first.name, request.path[1]
        if isinstance(question, Multiple):
            return Reply(service, 0, (), join(tuple(map(self._message, question.requests))))
        if isinstance(first, Symbol):
            return self._tag(request, _spelled(request.path))
        assert isinstance(first, Logical)
        if first.value == 1:
            identity = Identity(1, 14, 54, 20, 11, self.status, 1, "1756-L61/B LOGIX5561")
            return Reply(service, 0, (), encode_identity(identity))
        if first.value == 0xAC and self.changes is not None:
            return Reply(service, 0, (), bytes((self.changes,)))
        if first.value == 0x6B and scope in self.symbols:
            return self._list(service, scope, request)
        if first.value == 0x6C and isinstance(request.path[1], Logical) and request.path[1].value in self.udts:
            udt = self.udts[request.path[1].value]
            if service == 0x03:
                return Reply(service, 0, (), udt.attributes())
            offset, size = struct.unpack("<IH", request.data)
            return Reply(service, 0, (), udt.definition()[offset : offset + min(size, 60)])
        if first.value == 0x6C and service == 0x03:
            attributes = struct.pack("<HHHIHHIHHHHHH", 4, 4, 0, 32, 5, 0, 88, 2, 0, 2, 1, 0, self.handle)
            return Reply(service, 0, (), attributes)
        if first.value == 0x6C:
            offset, size = struct.unpack("<IH", request.data)
            return Reply(service, 0, (), string_template()[offset : offset + min(size, 60)])
        return Reply(service, 0x08)

    def _list(self, service: int, scope: str, request: Request) -> Reply:
        """Two symbols an answer, so that lists are asked for in parts."""
        start = request.path[-1].value if isinstance(request.path[-1], Logical) else 0
        rows = [(at, *symbol) for at, symbol in enumerate(self.symbols[scope], 5) if at >= start]
        out = b""
        for at, name, kind, dimensions in rows[:2]:
            out += struct.pack("<IH", at, len(name)) + name.encode() + struct.pack("<H3I", kind, *dimensions)
        return Reply(service, 6 if len(rows) > 2 else 0, (), out)

    def _tag(self, request: Request, name: str) -> Reply:
        data = self.tags.get(name)
        if data is None:
            return Reply(request.service, 0x04)
        question = asked(request)
        if not isinstance(question, ReadTag):
            if self.keep_writes:
                self.tags[name] = request.data[:2] + request.data[4:]
            return Reply(request.service)
        head = 4 if data[:2] == b"\xa0\x02" else 2
        if len(data) - head > 400:  # as much as one reply holds
            offset = question.offset or 0
            part = data[head + offset : head + offset + 400]
            more = offset + len(part) < len(data) - head
            return Reply(request.service, 6 if more else 0, (), data[:head] + part)
        return Reply(request.service, 0, (), data)


def _spelled(path: tuple[Segment, ...]) -> str:
    """The tag of a path as people write it."""
    text = ""
    for segment in path:
        if isinstance(segment, Symbol):
            text += f".{segment.name}" if text else segment.name
        elif isinstance(segment, Logical):
            text = f"{text[:-1]},{segment.value}]" if text.endswith("]") else f"{text}[{segment.value}]"
    return text


@dataclass
class MelsecCpu:
    """Words and bits by device; ``refused`` end codes by device number; ``tamper`` changes a reply."""

    words: dict[tuple[str, int], int] = field(default_factory=dict)
    bits: dict[tuple[str, int], bool] = field(default_factory=dict)
    refused: dict[int, int] = field(default_factory=dict)
    keep_writes: bool = True
    tamper: Callable[[slmp.Reply], slmp.Reply] = field(default=lambda reply: reply)

    def answer(self, data: bytes) -> bytes | None:
        request = frame.decode(data)
        assert isinstance(request, slmp.Request)
        body, code, out = request.body, 0, b""
        match body:
            case slmp.ReadModel():
                out = b"Q03UDVCPU".ljust(16) + b"\x66\x03"
            case slmp.ReadBatch(bits=True):
                found = [self.bits.get((body.device.kind, body.device.number + at), False) for at in range(body.count)]
                found += [False] * (len(found) % 2)
                out = bytes(found[at] << 4 | found[at + 1] for at in range(0, len(found), 2))
            case slmp.ReadBatch():
                asked = range(body.device.number, body.device.number + body.count)
                code = next((code for number, code in self.refused.items() if number in asked), 0)
                values = [self._word(body.device, at) for at in range(body.count)]
                out = b"" if code else b"".join(value.to_bytes(2, "little") for value in values)
            case slmp.WriteWords() if self.keep_writes:
                for at, value in enumerate(body.values):
                    self.words[body.device.kind, body.device.number + at] = value
            case slmp.WriteBits() if self.keep_writes:
                for at, bit in enumerate(body.values):
                    self.bits[body.device.kind, body.device.number + at] = bit
        reply = slmp.Reply(code, out, request.serial, request.route)
        if request.data_code is DataCode.ASCII:
            reply = replace(reply, data=_in_ascii(body, out), data_code=DataCode.ASCII)
        return frame.encode(self.tamper(reply))

    def _word(self, device: Device, at: int) -> int:
        """A word, or sixteen bits of a bit device as one."""
        if not device.bit:
            return self.words.get((device.kind, device.number + at), 0)
        return sum(self.bits.get((device.kind, device.number + 16 * at + bit), False) << bit for bit in range(16))


def _in_ascii(body: slmp.RequestBody, data: bytes) -> bytes:
    """The data of a reply as ASCII frames have it: bits as digits, words as four digits, text as it is."""
    if isinstance(body, slmp.ReadModel):
        return data[:16] + b"%04X" % int.from_bytes(data[16:], "little")
    if isinstance(body, slmp.ReadBatch) and body.bits:
        return "".join(f"{byte >> 4}{byte & 15}" for byte in data)[: body.count].encode()
    return b"".join(b"%04X" % int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2))


def reply_message(telegram: enip.Telegram, change: Callable[[Reply], Reply]) -> enip.Telegram:
    """The telegram with its reply changed; used to misbehave."""
    if isinstance(telegram.body, enip.Unconnected) and isinstance(telegram.body.message, Reply):
        changed = change(telegram.body.message)
        assert encode_message(changed)
        return replace(telegram, body=enip.Unconnected(changed))
    return telegram
