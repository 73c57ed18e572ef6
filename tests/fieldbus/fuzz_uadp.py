"""Fuzzer of the UADP decoder and the layout reader: ``python tests/fieldbus/fuzz_uadp.py COUNT [SEED]``.

Mutates well-formed messages (flips, cuts, splices, lengths set to extremes) and asserts what the tests assert:
a value or one typed error, a stable re-encoding, fast and general path alike. Prints what it reached.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    DataSetMessage,
    DataValue,
    FieldEncoding,
    GroupHeader,
    LayoutReader,
    LayoutWriter,
    MessageKind,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    UadpError,
    Variant,
    decode,
    encode,
)

EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\xfe\xff\xff\xff",
    b"\x00\x00",
    b"\xff\xff",
)
LAYOUT = DataSetLayout(
    PublisherId(PublisherIdType.UINT16, 7),
    1,
    2,
    (("a", BuiltinType.DOUBLE), ("b", BuiltinType.INT32), ("c", BuiltinType.BOOLEAN)),
)


def seeds() -> list[bytes]:
    """One message for every larger branch of the decoder."""
    variants = (
        Variant(BuiltinType.DOUBLE, 1.0),
        Variant(BuiltinType.STRING, "µm"),
        Variant(BuiltinType.BYTESTRING, None),
        Variant(BuiltinType.INT16, (1, 2, 3), array=True),
        Variant(BuiltinType.STRING, ("a", None), array=True),
    )
    values = tuple(DataValue(item, 0x4000_0000, 1, 2, 3, 4) for item in variants)
    messages = (
        DataSetMessage(fields=variants, sequence=1, timestamp=2, picoseconds=3, status=4, config_major=5),
        DataSetMessage(MessageKind.DELTA_FRAME, FieldEncoding.DATA_VALUE, values, (4, 3, 2, 1, 0)),
        DataSetMessage(encoding=FieldEncoding.RAW, raw=b"raw"),
        DataSetMessage(MessageKind.KEEP_ALIVE, sequence=9),
    )
    text = PublisherId(PublisherIdType.STRING, "Publisher")
    group = GroupHeader(1, 2, 3, 4)
    singles = [encode(NetworkMessage(text, None, group, (7,), 1, 2, variants, (item,))) for item in messages]
    joint = encode(NetworkMessage(text, None, group, (1, 2, 3, 4), None, None, None, messages))
    sample = LayoutWriter(LAYOUT).write(t_source_ns=10**18, values=(1.0, 2, True))
    return [*singles, joint, sample, sample]


def mutate(data: bytes, pool: list[bytes], rng: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(raw) + 1)
        action = rng.randrange(5)
        if action == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif action == 1 and at < len(raw):
            raw[at] = rng.randrange(256)
        elif action == 2:
            del raw[at:]
        elif action == 3:
            extreme = rng.choice(EXTREMES)
            raw[at : at + len(extreme)] = extreme
        else:
            other = rng.choice(pool)
            raw[at:] = other[rng.randrange(len(other)) :]
        if not raw:
            break
    return bytes(raw)


def attempt(data: bytes) -> NetworkMessage | UadpError:
    """The message in ``data`` or the one error ``decode`` may raise; anything else escapes."""
    try:
        return decode(data)
    except UadpError as error:
        return error


def read(reader: LayoutReader, data: bytes) -> str:
    try:
        return repr(reader.read(data))
    except UadpError as error:
        return error.code


def fuzz(count: int, seed: int) -> Counter[str]:
    """Run ``count`` mutations; AssertionError (or any other escape) is a finding."""
    rng = random.Random(seed)
    pool = seeds()
    reached: Counter[str] = Counter()
    warm = LayoutReader(LAYOUT)
    warm.read(pool[-1])
    for _ in range(count):
        data = mutate(rng.choice(pool), pool, rng)
        message = attempt(data)
        if isinstance(message, UadpError):
            assert message.offset is None or 0 <= message.offset <= len(data), data.hex()
            reached[message.code] += 1
        else:
            again = encode(message)
            assert encode(decode(again)) == again, data.hex()
            reached["decoded"] += 1
        first = read(warm, data)
        assert first == read(LayoutReader(LAYOUT), data), data.hex()
        reached["sample"] += first.startswith("DataSetSample")
    return reached


if __name__ == "__main__":
    for code, number in sorted(fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0).items()):
        sys.stdout.write(f"{number:9} {code}\n")
