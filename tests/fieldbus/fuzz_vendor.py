"""Fuzzer of the vendor decoders: ``python tests/fieldbus/fuzz_vendor.py s7|cip|slmp COUNT [SEED] [RECORDING…]``.

Mutates well-formed telegrams (flips, cuts, splices, lengths set to extremes) and asserts what the tests assert: a
value or one typed error, an encoding that decodes to the same value, replies read against their requests without
any other error. Recordings are JSON lines; telegrams in them join the seeds. Prints what it reached, and the memory.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fieldbus.capture import plain
from fieldbus.capture.dialogues import CipDialogue, Dialogue, S7Dialogue, SlmpDialogue
from fieldbus.cip import encapsulation as enip
from fieldbus.cip.errors import CipError
from fieldbus.cip.message import Reply as CipReply
from fieldbus.cip.message import Request as CipRequest
from fieldbus.cip.path import to_object, to_tag
from fieldbus.cip.replies import StructureData, SymbolEntry
from fieldbus.cip.services import ForwardOpen, Send, forward_open, join, unconnected_send
from fieldbus.cip.tags import Known, place_of, value_at
from fieldbus.cip.template import decode_attributes, decode_template
from fieldbus.cursor import WireError
from fieldbus.s7 import cotp, pdu
from fieldbus.s7 import model as s7
from fieldbus.s7.blocks import block_counts, block_entries
from fieldbus.s7.errors import S7Error
from fieldbus.slmp import frame
from fieldbus.slmp import model as slmp
from fieldbus.slmp.devices import Device
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.wire import DataCode
from tests.fieldbus.vendor_cpus import Udt

EXTREMES = (b"\xff\xff", b"\x00\x00", b"\xff\xff\xff\xff", b"\x7f\xff", b"FFFF", b"0000", b"\x80")
BATCH = 50


@dataclass(frozen=True)
class Target:
    """One decoder with its inverse, its only exception, and telegrams to begin with."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    length: Callable[[bytes], int | None]
    error: type[WireError]
    dialogue: Callable[[], Dialogue]
    seeds: tuple[bytes, ...]
    inner: Callable[[random.Random], str] | None = None
    """What is read out of a telegram in steps of its own; gives what it came to."""


MOTOR = Udt("Motor", 1, 12, (("Z", 0xC2, 0, 0), ("On", 0xC1, 3, 0), ("Speed", 0xC4, 0, 4), ("N", 0x20C3, 2, 8)))
PUMP = Udt("Pump", 2, 132, (("L", 0xCA, 0, 0), ("F", 0x20D3, 2, 4), ("M", 0xA001, 2, 12), ("T", 0x8003, 0, 36)))
STRING = Udt("STRING", 3, 88, (("LEN", 0xC4, 0, 0), ("DATA", 0x20C2, 82, 4)))
DEFINITIONS = tuple(udt.definition() for udt in (MOTOR, PUMP, STRING))
PATHS = ("P.L", "P.F[33]", "P.M[1].Speed.5", "P.M[0].N[1]", "P.T", "P.M[1].On")


def structures(rng: random.Random) -> str:
    """Mutated templates and a mutated structure to values by the paths of tags."""
    udts = (MOTOR, PUMP, STRING)
    raw = [mutate(udt.definition(), DEFINITIONS, rng) if rng.randrange(3) == 0 else udt.definition() for udt in udts]
    data = mutate(bytes(rng.randbytes(132)), DEFINITIONS, rng)[:132].ljust(132 if rng.randrange(8) else 131, b"\0")
    path = rng.choice(PATHS)
    try:
        attributes = [
            mutate(udt.attributes(), DEFINITIONS, rng) if not rng.randrange(9) else udt.attributes() for udt in udts
        ]
        made = [decode_template(raw[at], decode_attributes(attributes[at])) for at in range(len(udts))]
        kind = 0x8002 if rng.randrange(8) else rng.randrange(1 << 16)
        symbols = {"": {"p": SymbolEntry(1, "P", kind, (1, 0, 0))}}
        known = Known(symbols, dict(enumerate(made, 1)))
        value_at(place_of(path, known), known, StructureData(2, data))
    except CipError as error:
        return f"structure {error.code}"
    return "structure value"


BLOCK_LISTS = (bytes.fromhex("30380001304100023045000030430000"), bytes.fromhex("0001220500072205"))


def block_lists(rng: random.Random) -> str:
    data = mutate(rng.choice(BLOCK_LISTS), BLOCK_LISTS, rng)
    for read in (block_counts, block_entries):
        try:
            read(data)
        except S7Error as error:
            if error.code != "block-list":
                raise
    return "block lists"


def s7_seeds() -> tuple[bytes, ...]:
    item = s7.Item(s7.Area.DATA_BLOCK, 4, 4, block=1)
    bit = s7.Item(s7.Area.FLAGS, 3, 1, s7.ItemType.BIT, bit=5)
    data = s7.DataItem(0xFF, s7.Transport.BYTE, b"\x41\x48\x00\x00")
    odd = s7.DataItem(0xFF, s7.Transport.OCTETS, b"\x01")
    state = bytes.fromhex("04240000001400014302ff48000000000000000026112915262053 10".replace(" ", ""))
    event = bytes.fromhex("00a0000000140001") + bytes.fromhex("4304ff8400000000000000002611291526205310")
    telegrams: tuple[s7.Telegram, ...] = (
        cotp.Connect(False, 0, 1, ((0xC0, b"\x0a"), (0xC1, b"\x01\x00"), (0xC2, b"\x03\x01"))),
        cotp.Disconnect(1, 2, 3),
        s7.Job(1, s7.Setup(1, 1, 480)),
        s7.Ack(1, 0, s7.Setup(1, 1, 240)),
        s7.Job(2, s7.ReadRequest((item, bit))),
        s7.Ack(2, 0, s7.ReadReply((odd, data))),
        s7.Job(3, s7.WriteRequest((item,), (s7.DataItem(0, s7.Transport.BYTE, b"\x41\x48\x00\x00"),))),
        s7.Ack(3, 0, s7.WriteReply((0xFF,))),
        s7.Ack(3, 0x8104, None, True),
        s7.Job(4, s7.PlcStop("P_PROGRAM")),
        s7.Job(5, s7.PlcControl(b"", "P_PROGRAM")),
        s7.Job(6, s7.Transfer(0x1D, b"\x00\x01", b"")),
        s7.UserData(7, False, 4, 1, 0, s7.SzlRequest(0x0424, 0)),
        s7.UserData(7, True, 4, 1, 1, s7.SzlPart(state)),
        s7.UserData(8, True, 4, 1, 1, s7.SzlPart(event)),
        s7.UserData(9, False, 4, 1, 1, s7.NextPart()),
        s7.UserData(10, False, 7, 1, 0, s7.ClockRequest()),
        s7.UserData(10, True, 7, 1, 1, s7.ClockReply(bytes.fromhex("00202611291526205310"))),
    )
    return tuple(map(pdu.encode, telegrams))


def cip_seeds() -> tuple[bytes, ...]:
    read = CipRequest(0x4C, to_tag("Pump[3].Speed"), b"\x01\x00")
    write = CipRequest(0x4D, to_tag("Temp"), b"\xca\x00\x01\x00\x00\x00\xac\x41")
    both = CipRequest(0x0A, to_object(2, 1), join((read, write)))
    opened = ForwardOpen(10, 5, 1, 2, 3, 4, 5, 7, 10_000, 0x43F4, 10_000, 0x43F4, 0xA3, to_object(2, 1), False)
    answers = join((CipReply(0x4C, data=b"\xca\x00\x00\x00\xac\x41"), CipReply(0x4D)))
    bodies: tuple[enip.Body, ...] = (
        enip.Unconnected(read),
        enip.Unconnected(CipReply(0x4C, data=b"\xca\x00\x00\x00\xac\x41")),
        enip.Unconnected(CipReply(0x4C, 5, (0x2105,))),
        enip.Unconnected(CipRequest(0x52, to_object(6, 1), unconnected_send(Send(10, 5, both, ())))),
        enip.Unconnected(CipReply(0x0A, data=answers)),
        enip.Unconnected(CipRequest(0x54, to_object(6, 1), forward_open(opened))),
        enip.Unconnected(CipRequest(0x55, to_object(0x6B, 0), b"\x03\x00\x01\x00\x02\x00\x08\x00")),
        enip.Unconnected(CipReply(0x55, 6, (), b"\x01\0\0\0\x04\0Temp\xca\0" + bytes(12))),
        enip.Unconnected(CipRequest(0x01, to_object(1, 1))),
        enip.Unconnected(CipReply(0x01, data=b"\x01\0\x0e\0\x36\0\x14\x0b\x60\x31\x1a\x06\x6c\0\x04Name\xff")),
    )
    connected = (enip.Connected(9, 1, write), enip.Connected(9, 1, CipReply(0x4D)))
    registered = enip.Telegram(enip.REGISTER, enip.Register(), 5)
    telegrams = [enip.Telegram(enip.SEND_RR_DATA, body, 5) for body in bodies]
    telegrams += [enip.Telegram(enip.SEND_UNIT_DATA, body, 5) for body in connected]
    return tuple(enip.encode(item) for item in (registered, *telegrams))


def slmp_seeds() -> tuple[bytes, ...]:
    d100, m3, x1f = Device("D", 100), Device("M", 3), Device("X", 0x1F)
    bodies: tuple[slmp.RequestBody, ...] = (
        slmp.ReadBatch(d100, 2),
        slmp.ReadBatch(x1f, 3, bits=True),
        slmp.WriteWords(d100, (1, 2)),
        slmp.WriteBits(m3, (True, False, True)),
        slmp.ReadRandom((d100,), (d100,)),
        slmp.WriteRandom(((d100, 7),), ((d100, 70_000),)),
        slmp.WriteRandomBits(((m3, True),)),
        slmp.ReadModel(),
        slmp.SelfTest(b"HELLO"),
        slmp.RemoteRun(1, 0),
        slmp.RemoteControl(0x1002, 1),
    )
    out = []
    for code in DataCode:
        words = b"\x01\x00\x02\x00" if code is DataCode.BINARY else b"00010002"
        info = slmp.ErrorInfo(slmp.Route(), 0x0401, 0)
        for serial in (None, 7):
            out += [frame.encode(slmp.Request(body, serial, data_code=code)) for body in bodies]
            out.append(frame.encode(slmp.Reply(0, words, serial, data_code=code)))
            out.append(frame.encode(slmp.Reply(0xC05C, b"", serial, data_code=code, error=info)))
    return tuple(out)


TARGETS: dict[str, Callable[[], Target]] = {
    "s7": lambda: Target(pdu.decode, pdu.encode, cotp.telegram_length, S7Error, S7Dialogue, s7_seeds(), block_lists),
    "cip": lambda: Target(
        enip.decode, enip.encode, enip.telegram_length, CipError, CipDialogue, cip_seeds(), structures
    ),
    "slmp": lambda: Target(frame.decode, frame.encode, frame.telegram_length, SlmpError, SlmpDialogue, slmp_seeds()),
}


def mutate(data: bytes, pool: tuple[bytes, ...], rng: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(raw) + 1)
        action = rng.randrange(6)
        if action == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif action == 1 and at < len(raw):
            raw[at] = rng.randrange(256)
        elif action == 2:
            del raw[at:]
        elif action == 3:
            extreme = rng.choice(EXTREMES)
            raw[at : at + len(extreme)] = extreme
        elif action == 4:
            other = rng.choice(pool)
            raw[at:] = other[rng.randrange(len(other)) :]
        else:
            raw[at:at] = raw[at : at + rng.randrange(1, 9)]
        if not raw:
            break
    return bytes(raw)


def mended(data: bytes, target: Target) -> bytes:
    """``data`` with its outer length made true, so that mutations reach what is inside."""
    if target.error is S7Error and len(data) >= 7:
        return data[:2] + len(data).to_bytes(2, "big") + data[4:]
    if target.error is CipError and len(data) >= 24:
        return data[:2] + (len(data) - 24).to_bytes(2, "little") + data[4:]
    if target.error is SlmpError and data[:2] in (b"\x50\x00", b"\xd0\x00") and len(data) >= 9:
        return data[:7] + (len(data) - 9).to_bytes(2, "little") + data[9:]
    if target.error is SlmpError and data[:4] in (b"5000", b"D000") and len(data) >= 18:
        return data[:14] + f"{len(data) - 18:04X}".encode() + data[18:]
    return data


def attempt(target: Target, data: bytes) -> Any:
    """The value of ``data`` or the one error that may be raised; anything else escapes."""
    try:
        target.length(data[:64])
        return target.decode(data)
    except target.error as error:
        return error


def fuzz(name: str, count: int, seed: int, recorded: tuple[bytes, ...] = ()) -> Counter[str]:
    """Run ``count`` mutations; AssertionError (or any other escape) is a finding."""
    target = TARGETS[name]()
    pool = target.seeds + recorded
    rng, inner = random.Random(seed), random.Random(seed)  # apart: a new inner step leaves the telegrams as they were
    reached: Counter[str] = Counter()
    dialogue = target.dialogue()
    for number in range(count):
        if number % BATCH == 0:
            dialogue = target.dialogue()
        data = mutate(rng.choice(pool), pool, rng)
        if rng.randrange(4):
            data = mended(data, target)
        value = attempt(target, data)
        if isinstance(value, target.error):
            assert value.offset is None or 0 <= value.offset <= len(data), data.hex()
            reached[value.code] += 1
        else:
            again = target.encode(value)
            assert target.decode(again) == value, data.hex()
            assert target.encode(target.decode(again)) == again, data.hex()
            reached["decoded"] += 1
        reached.update(_dialogue(target, dialogue, data, pool, rng))
        if target.inner is not None and number % 4 == 0:
            reached[target.inner(inner)] += 1
    return reached


def _dialogue(
    target: Target, dialogue: Dialogue, data: bytes, pool: tuple[bytes, ...], rng: random.Random
) -> list[str]:
    """What a mutation is behind an intact telegram, so that replies often find a request."""
    reached = []
    for telegram in (rng.choice(pool), data):
        try:
            meaning = dialogue.read(telegram).meaning
        except target.error as error:
            if telegram is data and not isinstance(attempt(target, data), target.error):
                reached.append(f"refused {error.code}")
            continue
        if rng.randrange(16) == 0:
            json.dumps(plain(meaning), allow_nan=False)
        reached.append(f"meaning {type(meaning).__name__}")
    return reached


def main(arguments: list[str]) -> None:
    name, count, seed = arguments[0], int(arguments[1]), int(arguments[2]) if len(arguments) > 2 else 0
    lines = [line for path in arguments[3:] for line in Path(path).read_text().splitlines()]
    recorded = tuple(bytes.fromhex(json.loads(line)["hex"]) for line in lines)
    fuzz(name, min(count, 20_000), seed + 1, recorded)
    before_kib, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for code, number in sorted(fuzz(name, count, seed, recorded).items()):
        sys.stdout.write(f"{number:9} {code}\n")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    sys.stdout.write(f"{count} in {time.process_time() - started:.0f} s CPU, memory grew by {grown_kib} KiB\n")


if __name__ == "__main__":
    main(sys.argv[1:])
