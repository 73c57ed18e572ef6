"""The recorded boots, and mutations of logs that keep some of their form."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from attest.boot import banks, logformat
from attest.boot.logformat import FullLog, Record

NAMES = ("aarch64-direct", "x86_64-direct-crb", "x86_64-uki-nosb", "x86_64-uki-secureboot")
EXTREMES = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xfe\xff\xff\xff", bytes(4), b"\xff\xff")


@dataclass(frozen=True, slots=True)
class Capture:
    """One recorded boot: its log, its PCR values as the file has them, IMA's list."""

    name: str
    log: bytes
    pcrs: bytes
    ima: bytes

    def values(self) -> dict[int, bytes]:
        return {int(pcr): bytes.fromhex(value) for pcr, value in json.loads(self.pcrs)["sha256"].items()}


def load(fixtures: Path, name: str) -> Capture:
    folder = fixtures / "boot"
    return Capture(
        name,
        (folder / f"{name}.eventlog.bin").read_bytes(),
        (folder / f"{name}.pcrs.json").read_bytes(),
        (folder / f"{name}.ima.bin").read_bytes(),
    )


def u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def header(algorithms: tuple[int, ...]) -> bytes:
    listed = b"".join(a.to_bytes(2, "little") + banks.SIZES[a].to_bytes(2, "little") for a in algorithms)
    data = b"Spec ID Event03\0" + bytes(4) + bytes([0, 2, 0, 2]) + u32(len(algorithms)) + listed + b"\0"
    return u32(0) + u32(3) + bytes(20) + u32(len(data)) + data


def record_bytes(record: Record, algorithms: tuple[int, ...]) -> bytes:
    digests = b"".join(a.to_bytes(2, "little") + d for a, d in zip(algorithms, record.digests, strict=True))
    head = u32(record.pcr) + u32(record.kind) + u32(len(algorithms))
    return head + digests + u32(len(record.data)) + record.data


def write(log: FullLog) -> bytes:
    """The bytes of a crypto-agile log with all its banks."""
    return header(log.banks) + b"".join(record_bytes(record, log.banks) for record in log.records)


def legacy(events: list[tuple[int, int, bytes, bytes]], spec_id: bytes = b"") -> bytes:
    """A SHA-1 log of (PCR, type, digest, data), with a header event around ``spec_id`` if given."""
    first = u32(0) + u32(3) + bytes(20) + u32(len(spec_id)) + spec_id if spec_id else b""
    return first + b"".join(u32(p) + u32(k) + d + u32(len(data)) + data for p, k, d, data in events)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Flips, cuts, extremes, splices: one to three of them."""
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
            end = min(len(raw), at + rng.randint(1, 64))
            del raw[at:end]
        else:
            start = rng.randrange(len(raw) + 1)
            raw[at:at] = raw[start : start + rng.randint(1, 256)]
        if not raw:
            break
    return bytes(raw)


def reorder(data: bytes, rng: random.Random) -> bytes | None:
    """The log with two events swapped that extend the same PCR with other digests; None where there are none."""
    log = logformat.read(data)
    pairs = [
        (i, j)
        for i, one in enumerate(log.records)
        for j, other in enumerate(log.records[i + 1 :], i + 1)
        if one.extends and other.extends and one.pcr == other.pcr and one.digests != other.digests
    ]
    if not pairs:
        return None
    i, j = rng.choice(pairs)
    records = list(log.records)
    records[i], records[j] = records[j], records[i]
    return write(FullLog(log.banks, tuple(records), log.startup_locality, True))
