"""Capture files: pcap and pcapng of both byte orders, TCP streams put together, JSON lines, limits."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fieldbus.capture import CaptureError, Decoded, FrameResult, Options, Protocol, decode_file, parse_keys, plain
from fieldbus.capture.dialogues import Whole
from fieldbus.errors import FieldbusError
from fieldbus.s7 import model as s7
from fieldbus.s7 import pdu
from fieldbus.slmp import frame
from fieldbus.slmp import model as slmp
from fieldbus.uadp import (
    BuiltinType,
    DataSetMessage,
    KeyRing,
    NetworkMessage,
    PublisherId,
    PublisherIdType,
    SecureWriter,
    SecurityMode,
    SecurityPolicy,
    Variant,
    encode,
    split,
)
from tests.fieldbus.capture import pcaps

ASK = pdu.encode(s7.Job(2, s7.ReadRequest((s7.Item(s7.Area.DATA_BLOCK, 0, 1, block=1),))))
SAY = pdu.encode(s7.Ack(2, 0, s7.ReadReply((s7.DataItem(0xFF, s7.Transport.BYTE, b"\x07"),))))
MODEL = frame.encode(slmp.Request(slmp.ReadModel()))


def read(tmp_path: Path, data: bytes, options: Options) -> list[FrameResult]:
    path = tmp_path / "capture"
    path.write_bytes(data)
    return list(decode_file(path, options))


def codes(results: list[FrameResult]) -> list[str]:
    return ["ok" if isinstance(item.decoded, Decoded) else item.decoded.code for item in results]


S7_FRAMES = [
    pcaps.to_server(102, 99, b"", 0x02),
    pcaps.to_server(102, 100, ASK[:10], vlan=True),
    pcaps.to_client(102, 500, SAY),
    pcaps.to_server(102, 100 + len(ASK), ASK),  # too early
    pcaps.to_server(102, 100, ASK[:10]),  # again
    pcaps.to_server(102, 110, ASK[10:]),
    pcaps.to_server(80, 1, b"GET / HTTP/1.1"),
    pcaps.ethernet(b"not ip", 0x0806),
]


FORMS = {
    f"{form}-{'big' if order == '>' else 'little'}-{'ns' if ns else 'us'}": (form, order, ns)
    for form in ("pcap", "pcapng")
    for order in "<>"
    for ns in (True, False)
}


def written(form: str, order: str, ns: bool, frames: list[bytes]) -> bytes:
    if form == "pcapng":
        return pcaps.pcapng(frames, order=order, power=9 if ns else 6)
    return pcaps.pcap(frames, order=order, magic=pcaps.NANOSECONDS if ns else pcaps.MICROSECONDS)


@pytest.mark.parametrize("name", FORMS)
def test_telegrams_of_a_stream_with_repeats_and_changed_order(tmp_path: Path, name: str) -> None:
    form, order, ns = FORMS[name]
    results = read(tmp_path, written(form, order, ns, S7_FRAMES), Options(Protocol.S7))
    assert codes(results) == ["ok"] * 3
    assert [item.direction for item in results] == ["s2c", "c2s", "c2s"]
    assert [item.number for item in results] == [1, 2, 3]
    assert {item.conn for item in results} == {1}
    assert {item.t_ns for item in results} == {pcaps.T_NS if ns else pcaps.T_NS // 1_000 * 1_000}


def chunked(sequence: int) -> tuple[NetworkMessage, tuple[NetworkMessage, ...]]:
    """A message and its chunks."""
    body = DataSetMessage(fields=(Variant(BuiltinType.STRING, "x" * 100),), sequence=sequence)
    message = NetworkMessage(PublisherId(PublisherIdType.UINT16, 7), writer_ids=(1,), messages=(body,))
    return message, split(message, 60)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("secured", [False, True])
def test_chunks_are_put_together_across_frames_udp_and_ethernet(tmp_path: Path, name: str, secured: bool) -> None:
    form, order, ns = FORMS[name]
    policy = SecurityPolicy.AES128_CTR
    key = bytes(range(policy.key_data_bytes))
    (ring,) = parse_keys(json.dumps([{"policy": "aes128-ctr", "token": 3, "key": key.hex()}]).encode())
    writer = SecureWriter(ring, SecurityMode.SIGN_AND_ENCRYPT, 3)
    first, pieces = chunked(1)
    second, others = chunked(2)
    mixed = [piece for pair in zip(reversed(pieces), others, strict=True) for piece in pair]
    datagrams = [writer.seal(encode(piece)) if secured else encode(piece) for piece in mixed]
    frames = [
        pcaps.ethernet(data, 0xB62C, vlan=True)
        if at % 2
        else pcaps.ethernet(pcaps.ipv4(17, pcaps.CLIENT, pcaps.SERVER, pcaps.udp((5, 4840), data)))
        for at, data in enumerate(datagrams)
    ]
    rings = parse_keys(json.dumps([{"policy": "aes128-ctr", "token": 3, "key": key.hex()}]).encode()) if secured else ()
    results = read(tmp_path, written(form, order, ns, frames), Options(Protocol.UADP, rings=rings))
    assert codes(results) == ["ok"] * len(mixed)
    wholes = [item.decoded.meaning for item in results if isinstance(item.decoded, Decoded)]
    found = [whole for whole in wholes if isinstance(whole, Whole)]
    assert [whole.message for whole in found] == [first, second]
    assert {whole.security is not None for whole in found} == {secured}
    assert [isinstance(whole, Whole) for whole in wholes] == [False] * (len(mixed) - 2) + [True, True]


def test_chunks_that_contradict_each_other_or_are_too_old_make_no_message(tmp_path: Path) -> None:
    _, pieces = chunked(1)
    last = pieces[-1]
    assert last.chunk is not None
    torn = replace(last, chunk=replace(last.chunk, offset=last.chunk.offset - 1))
    lines = [json.dumps({"hex": encode(piece).hex(), "t": at * 10**9}) for at, piece in enumerate((*pieces[:-1], torn))]
    results = read(tmp_path, "\n".join(lines).encode(), Options(Protocol.UADP))
    assert codes(results)[-1] == "chunk-mismatch"
    late = [json.dumps({"hex": encode(piece).hex(), "t": at * 10**10}) for at, piece in enumerate(pieces)]
    results = read(tmp_path, "\n".join(late).encode(), Options(Protocol.UADP))
    assert not any(isinstance(item.decoded, Decoded) and item.decoded.meaning for item in results)


def test_keys_of_a_rotation_read_the_whole_capture_in_any_order(tmp_path: Path) -> None:
    data = {token: bytes([token]) * SecurityPolicy.AES256_CTR.key_data_bytes for token in (7, 8, 9)}
    entries = [{"policy": "aes256-ctr", "token": token, "key": key.hex()} for token, key in data.items()]
    lines = []
    for token in (7, 9, 8, 7, 9):
        ring = KeyRing(SecurityPolicy.AES256_CTR)
        ring.install(token, [data[token]])
        sealed = SecureWriter(ring, SecurityMode.SIGN, token).seal(encode(chunked(0)[0]), force_key_reset=token == 9)
        lines.append(json.dumps({"hex": sealed.hex()}))
    options = Options(Protocol.UADP, rings=parse_keys(json.dumps(entries).encode()))
    assert codes(read(tmp_path, "\n".join(lines).encode(), options)) == ["ok"] * 5
    forged = lines[0].replace(lines[0][-6:-2], "0000")
    assert codes(read(tmp_path, forged.encode(), options)) == ["signature"]


def test_packets_without_time_and_other_links(tmp_path: Path) -> None:
    simple = read(tmp_path, pcaps.pcapng([pcaps.to_server(102, 1, ASK)], simple=True), Options(Protocol.S7))
    assert [(item.t_ns, codes([item])) for item in simple] == [(0, ["ok"])]
    body = pcaps.ipv4(6, pcaps.CLIENT, pcaps.SERVER, pcaps.tcp((5, 102), 1, ASK))
    six = pcaps.ipv6(6, pcaps.tcp((5, 102), 1, ASK))
    cooked, cooked2 = bytes(14) + b"\x08\x00" + body, b"\x08\x00" + bytes(18) + body
    for link_type, packet in ((101, body), (101, six), (113, cooked), (276, cooked2), (1, pcaps.ethernet(six, 0x86DD))):
        assert codes(read(tmp_path, pcaps.pcap([packet], link_type=link_type), Options(Protocol.S7))) == ["ok"]
    assert read(tmp_path, pcaps.pcap([body], link_type=147), Options(Protocol.S7)) == []


def test_new_connection_on_the_same_ports_is_another_one(tmp_path: Path) -> None:
    begun = [pcaps.to_server(102, 0, b"", 0x02), pcaps.to_server(102, 1, ASK), pcaps.to_client(102, 9, SAY)]
    again = [
        pcaps.to_server(102, 7_000, b"", 0x02),
        pcaps.to_client(102, 5_000, b"", 0x12),
        pcaps.to_client(102, 5_001, SAY),
    ]
    results = read(tmp_path, pcaps.pcap(begun + again), Options(Protocol.S7))
    assert [item.conn for item in results] == [1, 1, 2]


def test_stream_that_misses_a_segment_is_lost_and_says_so(tmp_path: Path) -> None:
    frames = [pcaps.to_server(102, 1, b"", 0x02), *(pcaps.to_server(102, 5_000 + at * 50, ASK) for at in range(300))]
    results = read(tmp_path, pcaps.pcap(frames), Options(Protocol.S7))
    assert codes(results) == ["stream-gap"]


def test_stream_out_of_step_is_lost_and_says_so(tmp_path: Path) -> None:
    frames = [pcaps.to_server(102, 1, ASK + b"\x47\x11"), pcaps.to_server(102, 3 + len(ASK), ASK)]
    assert codes(read(tmp_path, pcaps.pcap(frames), Options(Protocol.S7))) == ["ok", "tpkt-version"]


def test_slmp_is_found_on_any_port_and_over_udp(tmp_path: Path) -> None:
    frames = [
        pcaps.to_server(1_234, 1, MODEL),
        pcaps.ethernet(pcaps.ipv4(17, pcaps.CLIENT, pcaps.SERVER, pcaps.udp((9, 5_007), MODEL))),
        pcaps.to_server(80, 1, b"GET / HTTP/1.1"),
        pcaps.to_server(80, 15, MODEL),
    ]
    data = pcaps.pcap(frames)
    assert codes(read(tmp_path, data, Options(Protocol.SLMP))) == ["ok", "ok"]
    assert codes(read(tmp_path, data, Options(Protocol.SLMP, port=5_007))) == ["ok"]


def test_uadp_over_udp_and_ethernet(tmp_path: Path) -> None:
    message = encode(NetworkMessage(messages=(DataSetMessage(),)))
    frames = [
        pcaps.ethernet(message, 0xB62C, vlan=True),
        pcaps.ethernet(pcaps.ipv4(17, pcaps.CLIENT, pcaps.SERVER, pcaps.udp((9, 4_840), message))),
        pcaps.ethernet(pcaps.ipv4(17, pcaps.CLIENT, pcaps.SERVER, pcaps.udp((9, 4_841), message))),
    ]
    assert codes(read(tmp_path, pcaps.pcap(frames), Options(Protocol.UADP))) == ["ok", "ok"]


PCAP, NG = pcaps.pcap(S7_FRAMES), pcaps.pcapng(S7_FRAMES)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (PCAP[:30], "capture-truncated"),
        (PCAP[:-1], "capture-truncated"),
        (PCAP[:4] + b"\3\0" + PCAP[6:], "capture-format"),
        (PCAP[:32] + b"\xff\xff\xff\x7f" + PCAP[36:], "capture-record"),
        (NG[:8] + b"abcd" + NG[12:], "capture-format"),
        (NG[:4] + b"\x1d\0\0\0" + NG[8:], "capture-record"),
        (NG[:24] + b"\0\0\0\0" + NG[28:], "capture-record"),
        (NG + b"\6\0", "capture-truncated"),
        (NG + pcaps.block(6, struct.pack("<IIIII", 9, 0, 0, 0, 0)), "capture-record"),
        (NG + pcaps.block(6, struct.pack("<IIIII", 0, 0, 0, 9, 9)), "capture-truncated"),
        (NG + pcaps.block(6, b"abcd"), "capture-truncated"),
        (NG[:28] + pcaps.block(3, struct.pack("<I", 0)), "capture-record"),
        (b"no json\n", "line-format"),
        (b"[1]\n", "line-format"),
        (b'{"hex": 5}\n', "line-fields"),
        (b'{"hex": "00", "conn": "1"}\n', "line-fields"),
        (b'{"hex": "0"}\n', "line-hex"),
        (b"[" * 200_000 + b"\n", "line-format"),
        (b" " * 1_100_000, "line-length"),
    ],
)
def test_file_that_is_no_capture_is_refused(tmp_path: Path, data: bytes, code: str) -> None:
    with pytest.raises(CaptureError) as caught:
        read(tmp_path, data, Options(Protocol.S7))
    assert caught.value.code == code


@given(st.sampled_from((PCAP, NG)), st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_gives_results_or_the_one_error(tmp_path: Path, data: bytes, draw: st.DataObject) -> None:
    raw = bytearray(data)
    for _ in range(3):
        raw[draw.draw(st.integers(0, len(raw) - 1))] = draw.draw(st.integers(0, 255))
    try:
        results = read(tmp_path, bytes(raw), Options(Protocol.S7))
    except CaptureError:
        results = []
    assert all(isinstance(item.decoded, Decoded | FieldbusError) for item in results)


def test_key_file(tmp_path: Path) -> None:
    entry = {"policy": "aes128-ctr", "token": 7, "key": "00" * 52}
    (ring,) = parse_keys(json.dumps([entry]).encode())
    assert ring.token_ids == (7,)
    text = "sits-pubsub-keys 1\ngroup mill\npolicy PubSub-Aes128-CTR\n" + f"key 7 {'00' * 52}\nkey 8 {'01' * 52}\n"
    assert [ring.token_ids for ring in parse_keys(text.encode())] == [(7,), (8,)]
    with pytest.raises(FieldbusError, match="key-file"):
        parse_keys(text.encode()[:-1])
    wrong = [b"{}", b"[1]", b"no", json.dumps([{**entry, "policy": "x"}]).encode(), json.dumps([{**entry, "key": "x"}])]
    for data in wrong:
        with pytest.raises(CaptureError, match="capture-keys"):
            parse_keys(data if isinstance(data, bytes) else data.encode())


def test_protected_frames_open_with_keys(fixtures_dir: Path, tmp_path: Path) -> None:
    keys = [
        {"policy": f"aes{size * 8}-ctr", "token": 7, "key": _key(size).hex()} for size in (16, 32)
    ]  # the published keys of the recording
    path = fixtures_dir / "uadp" / "frames.jsonl"
    opened = codes(list(decode_file(path, Options(Protocol.UADP, rings=parse_keys(json.dumps(keys).encode())))))
    assert opened.count("ok") == 130
    assert opened.count("delta-duplicate-index") == 22
    assert codes(list(decode_file(path, Options(Protocol.UADP)))).count("secured") == 21


def _key(size: int) -> bytes:
    return bytes(range(32)) + bytes(range(0x40, 0x40 + size)) + bytes.fromhex("a0a1a2a3")


def test_numbers_that_json_has_not_become_texts() -> None:
    assert plain((float("nan"), float("inf"), float("-inf"), 1.5)) == ["NaN", "Infinity", "-Infinity", 1.5]
    with pytest.raises(TypeError):
        plain(object())
