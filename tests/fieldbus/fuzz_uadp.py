"""Fuzzer of everything in ``fieldbus.uadp`` that reads bytes: ``python tests/fieldbus/fuzz_uadp.py COUNT [SEED]``.

Mutates well-formed messages (flips, cuts, splices, lengths set to extremes) and asserts what the tests assert: a value
or one typed error, a stable re-encoding, fast and general path alike, nothing forged let in, chunks held in bounds.
Prints what it reached, and the memory of the process before and after.
"""

from __future__ import annotations

import random
import resource
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fieldbus.uadp import (
    ActionAnnouncement,
    Announcement,
    ApplicationAnnouncement,
    BuiltinType,
    ConnectionsAnnouncement,
    DataSetLayout,
    DataSetMessage,
    DataValue,
    DiagnosticInfo,
    ExpandedNodeId,
    ExtensionObject,
    FieldEncoding,
    GroupHeader,
    KeyFile,
    KeyRing,
    LayoutReader,
    LayoutWriter,
    LocalizedText,
    MessageKind,
    MetaDataAnnouncement,
    NetworkMessage,
    NodeId,
    Probe,
    PublisherEndpoints,
    PublisherId,
    PublisherIdType,
    QualifiedName,
    RawLayout,
    Reassembler,
    ResponderAnnouncement,
    SecureReader,
    SecureWriter,
    SecurityError,
    SecurityHeader,
    SecurityMode,
    SecurityPolicy,
    StatusAnnouncement,
    UadpError,
    Variant,
    WriterConfiguration,
    decode,
    encode,
    parse_key_file,
    split,
)
from fieldbus.uadp import configuration as conf
from fieldbus.uadp import metadata as meta
from fieldbus.uadp.configfile import read_configuration, write_configuration
from fieldbus.uadp.keyfile import format_key_file
from fieldbus.uadp.limits import ASSEMBLIES_MAX, ASSEMBLY_BYTES_MAX

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
TIMELESS = replace(LAYOUT, encoding=FieldEncoding.RAW, group_version=7, fixed=True, receive_time=True)
KEY_FILE = bytes(format_key_file(KeyFile("mill", SecurityPolicy.AES128_CTR, 7, [bytearray(52)] * 3, 10**18, 10**12)))


BLOCK = 100_000
POINT = NodeId(1, 1)
METADATA = meta.DataSetMetaData(
    structures=(
        meta.StructureDescription(
            POINT,
            definition=meta.StructureDefinition(
                structure_type=meta.OPTIONAL_FIELDS,
                fields=(
                    meta.StructureField("x", data_type=NodeId(0, int(BuiltinType.INT16))),
                    meta.StructureField("y", data_type=NodeId(0, int(BuiltinType.INT16)), is_optional=True),
                ),
            ),
        ),
    ),
    fields=(
        meta.FieldMetaData("s", builtin_type=BuiltinType.STRING, max_string_length=6),
        meta.FieldMetaData("v", builtin_type=BuiltinType.BYTESTRING),
        meta.FieldMetaData("a", builtin_type=BuiltinType.INT16, value_rank=1, array_dimensions=(3,)),
        meta.FieldMetaData("m", builtin_type=BuiltinType.BYTE, value_rank=2),
        meta.FieldMetaData("p", builtin_type=BuiltinType.EXTENSIONOBJECT, data_type=POINT, value_rank=1),
    ),
)
RAW_LAYOUT = RawLayout(METADATA)
RAW = bytes.fromhex("02000000616200000000 0100000007 02000000010002000000 020000000100000002000000 0102 01000000")
RAW += bytes.fromhex("01000000 0100 0200")
READER = conf.DataSetReader("r", metadata=METADATA, message_settings=conf.UadpDataSetReaderMessage())
ITEMS = conf.PublishedDataItems((conf.PublishedVariable(),))
CONNECTION = conf.PubSubConnection("c", reader_groups=(conf.ReaderGroup(readers=(READER,)),))
FILE = write_configuration(
    conf.PubSubConfiguration((conf.PublishedDataSet("d", metadata=METADATA, source=ITEMS),), (CONNECTION,))
)
KEY_DATA = bytes(range(68))


def keys() -> KeyRing:
    ring = KeyRing(SecurityPolicy.AES256_CTR)
    ring.install(1, [KEY_DATA])
    return ring


def discovery_seeds() -> list[bytes]:
    """Every kind of discovery message."""
    group = conf.WriterGroup(
        "group",
        message_settings=conf.UadpWriterGroupMessage(publishing_offset=(1.0,)),
        writers=(conf.DataSetWriter("writer", message_settings=conf.UadpDataSetWriterMessage(1)),),
    )
    connection = conf.PubSubConnection(
        "connection",
        publisher_id=Variant(BuiltinType.UINT16, 7),
        address=conf.NetworkAddressUrl("eth0", "opc.eth://01-00-5E-7F-00-01"),
        writer_groups=(group,),
    )
    bodies = (
        PublisherEndpoints((conf.EndpointDescription("opc.tcp://a"),)),
        MetaDataAnnouncement(2, METADATA),
        WriterConfiguration((1, 2), group, (0, 0x8000_0000)),
        ConnectionsAnnouncement((connection,)),
        ApplicationAnnouncement(conf.ApplicationDescription("urn:a"), ("LDS",)),
        StatusAnnouncement(1, 2, 3),
        ResponderAnnouncement((connection,)),
        ActionAnnouncement(3, (conf.ActionTarget(1, "t"),), METADATA, METADATA, (conf.ActionMethod(POINT, POINT),)),
    )
    publisher, security = PublisherId(PublisherIdType.UINT32, 9), SecurityHeader()
    found = [NetworkMessage(publisher, discovery=Announcement(1, body), security=security) for body in bodies]
    found += [NetworkMessage(publisher, discovery=probe) for probe in (Probe(None), Probe(1), Probe(2, (1, 2)))]
    chunks = [chunk for message in found[:4] for chunk in split(message, 60)]
    return [encode(message) for message in (*found, *chunks)]


def sealed_seeds() -> list[bytes]:
    """A message in each security mode; no randomness, so that a run can be repeated."""
    sample = LayoutWriter(LAYOUT).write(t_source_ns=10**18, values=(1.0, 2, True))
    return [SecureWriter(keys(), mode, 1, random=bytes).seal(sample) for mode in SecurityMode]


def seeds() -> list[bytes]:
    """One message for every larger branch of the decoder."""
    variants = (
        Variant(BuiltinType.DOUBLE, 1.0),
        Variant(BuiltinType.STRING, "µm"),
        Variant(BuiltinType.BYTESTRING, None),
        Variant(BuiltinType.INT16, (1, 2, 3), array=True),
        Variant(BuiltinType.STRING, ("a", None), array=True),
        Variant(BuiltinType.BYTE, (1, 2), array=True, dimensions=(1, 2)),
        Variant(BuiltinType.NODEID, NodeId(3, "n")),
        Variant(BuiltinType.EXPANDEDNODEID, ExpandedNodeId(NodeId(0, 70_000), "urn:a", 1)),
        Variant(BuiltinType.QUALIFIEDNAME, QualifiedName(1, "q")),
        Variant(BuiltinType.LOCALIZEDTEXT, LocalizedText("t", "en")),
        Variant(BuiltinType.EXTENSIONOBJECT, ExtensionObject(NodeId(1, 2), b"body")),
        Variant(BuiltinType.VARIANT, (Variant(BuiltinType.BYTE, 1),) * 2, array=True),
        Variant(BuiltinType.DATAVALUE, DataValue(Variant(BuiltinType.BYTE, 1), 2)),
        Variant(BuiltinType.DIAGNOSTICINFO, DiagnosticInfo(1, 2, 3, 4, "i", 5, DiagnosticInfo(6))),
    )
    values = tuple(DataValue(item, 0x4000_0000, 1, 2, 3, 4) for item in variants)
    messages = (
        DataSetMessage(fields=variants, sequence=1, timestamp=2, picoseconds=3, status=4, config_major=5, padding=3),
        DataSetMessage(MessageKind.DELTA_FRAME, FieldEncoding.DATA_VALUE, values, tuple(range(len(values)))),
        DataSetMessage(encoding=FieldEncoding.RAW, raw=RAW),
        DataSetMessage(MessageKind.EVENT, fields=variants[:3]),
        DataSetMessage(MessageKind.KEEP_ALIVE, sequence=9),
    )
    text = PublisherId(PublisherIdType.STRING, "Publisher")
    group = GroupHeader(1, 2, 3, 4)
    singles = [encode(NetworkMessage(text, None, group, (7,), 1, 2, variants, (item,))) for item in messages]
    joint = encode(NetworkMessage(text, None, group, (1, 2, 3, 4, 5), messages=messages))
    chunks = [encode(chunk) for chunk in split(decode(singles[0]), 280)]
    sample = LayoutWriter(LAYOUT).write(t_source_ns=10**18, values=(1.0, 2, True))
    return [*singles, joint, *[sample] * 14, *chunks, *sealed_seeds(), *discovery_seeds()]


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
        return repr(reader.read(data, t_rx_ns=10**18))
    except UadpError as error:
        return error.code


def forge(receiver: SecureReader, data: bytes, genuine: set[bytes]) -> str:
    """What a receiver with keys says of a mutant: only what was sealed may get in, and that once."""
    try:
        receiver.open(data)
    except SecurityError as error:
        return f"security {error.code}"
    except UadpError:
        return "security malformed"
    assert data in genuine, data.hex()
    return "security opened"


def config(data: bytes) -> str:
    try:
        found = read_configuration(data)
    except UadpError as error:
        return f"file {error.code}"
    again = write_configuration(found)
    assert write_configuration(read_configuration(again)) == again, data.hex()
    return "file decoded"


def key_file(data: bytes) -> str:
    try:
        found = parse_key_file(bytearray(data))
    except SecurityError as error:
        return f"key file {error.code}"
    assert bytes(format_key_file(found)) == data, data.hex()
    return "key file read"


def raw(data: bytes) -> str:
    try:
        values = RAW_LAYOUT.decode(data)
    except UadpError as error:
        return f"raw {error.code}"
    again = RAW_LAYOUT.encode(values)
    assert data.startswith(again), data.hex()
    return "raw decoded"


def reassemble(together: Reassembler, message: NetworkMessage, now_ns: int) -> str:
    try:
        whole = together.add(message, now_ns)
    except UadpError as error:
        return f"chunk {error.code}"
    finally:
        assert together.pending <= ASSEMBLIES_MAX
        assert together.pending_bytes <= ASSEMBLY_BYTES_MAX
    return "chunk whole" if whole is not None else "chunk kept"


def fuzz(count: int, seed: int) -> Counter[str]:
    """Run ``count`` mutations; AssertionError (or any other escape) is a finding."""
    rng = random.Random(seed)
    pool = seeds()
    reached: Counter[str] = Counter()
    warm = LayoutReader(LAYOUT)
    warm.read(LayoutWriter(LAYOUT).write(t_source_ns=10**18, values=(1.0, 2, True)))
    fixed = LayoutWriter(TIMELESS).write(t_source_ns=0, values=(1.0, 2, True))
    timeless = LayoutReader(TIMELESS)
    timeless.read(fixed)
    receiver = SecureReader(keys(), SecurityMode.SIGN_AND_ENCRYPT, counted_nonces=False)
    genuine, together = set(pool), Reassembler()
    sealed = sealed_seeds()
    genuine.update(sealed)
    knowing = SecureReader(keys(), SecurityMode.SIGN_AND_ENCRYPT, counted_nonces=False)
    knowing.open(sealed[-1])
    pieces = [data for data in pool if isinstance(attempt(data), NetworkMessage) and decode(data).chunk is not None]
    for step in range(count):
        data = mutate(rng.choice(pool), pool, rng) if step % 50 else rng.choice(pool)
        message = attempt(data)
        if isinstance(message, UadpError):
            assert message.offset is None or 0 <= message.offset <= len(data), data.hex()
            reached[message.code] += 1
        else:
            again = encode(message)
            assert encode(decode(again)) == again, data.hex()
            reached["decoded"] += 1
            if message.chunk is not None:
                reached[reassemble(together, message, step * 1_000_000)] += 1
            elif message.discovery is not None:
                reached["discovery decoded"] += 1
        first = read(warm, data)
        assert first == read(LayoutReader(LAYOUT), data), data.hex()
        reached["sample"] += first.startswith("DataSetSample")
        if step % 100 == 0:
            for piece in rng.sample(pieces, len(pieces)):
                reached[reassemble(together, decode(piece), step * 1_000_000)] += 1
        if step % 4 == 0:
            reached[forge(receiver, data, genuine)] += 1
            reached[raw(mutate(RAW, [RAW], rng))] += 1
            reached[config(mutate(FILE, [FILE], rng))] += 1
        if step % 4 == 2:
            other = mutate(fixed, pool, rng)
            first = read(timeless, other)
            assert first == read(LayoutReader(TIMELESS), other), other.hex()
            reached["fixed sample"] += first.startswith("DataSetSample")
            reached[key_file(mutate(KEY_FILE, [KEY_FILE], rng))] += 1
        if step % 4 == 1:
            other = mutate(sealed[-1], sealed, rng)
            fresh = SecureReader(keys(), SecurityMode.SIGN_AND_ENCRYPT, counted_nonces=False)
            said = forge(knowing, other, genuine)
            if said not in ("security opened", "security nonce-replayed"):
                assert said == forge(fresh, other, genuine), other.hex()
            reached[said] += 1
    return reached


def rss_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Runs in blocks and says after each how far it is, so that a long run is worth something when it is stopped."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    fuzz(2_000, 1)
    before = rss_mib()
    found: Counter[str] = Counter()
    for done in range(0, count, BLOCK):
        found += fuzz(min(BLOCK, count - done), seed + done)
        sys.stderr.write(f"{min(done + BLOCK, count)} mutations, {rss_mib()} MiB\n")
    for code, number in sorted(found.items()):
        sys.stdout.write(f"{number:9} {code}\n")
    sys.stdout.write(f"peak memory {before} MiB after 2,000, {rss_mib()} MiB at the end\n")


if __name__ == "__main__":
    main()
