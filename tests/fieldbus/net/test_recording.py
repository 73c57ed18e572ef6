"""Recording and replay: the frames that come back are those that came in, whatever happened to the file."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fieldbus.capture import CaptureError
from fieldbus.net import EthernetReceiver, EthernetSender, NetError, ReceivedFrame, UdpReceiver, UdpSender, VlanTag
from fieldbus.net.frames import STAMPS
from fieldbus.net.recording import LINK_RAW_IP, LinkTap, RecordingWriter, Replay, datagram_packet, uadp_filter
from fieldbus.uadp import (
    BuiltinType,
    DataSetLayout,
    LayoutReader,
    LayoutWriter,
    PublisherId,
    PublisherIdType,
    decode,
)
from sitsedge.cli.main import app
from tests.support.namespaces import Namespace

WAIT_S = 5.0
GROUP = "01:00:5e:00:00:01"
LAYOUT = DataSetLayout(
    PublisherId(PublisherIdType.UINT16, 2201), 100, 1, (("a", BuiltinType.DOUBLE), ("b", BuiltinType.DOUBLE))
)
TARGET = ("127.0.0.1", 4840)
NOW_NS = 1_800_000_000_123_456_789


def messages(count: int) -> list[bytes]:
    writer = LayoutWriter(LAYOUT)
    return [writer.write(t_source_ns=NOW_NS + n, values=(n / 3, -float(n)), status=0) for n in range(count)]


def frames_of(path: Path) -> list[ReceivedFrame]:
    with path.open("rb") as stream:
        return list(Replay(stream))


def recording(path: Path, count: int = 3) -> list[ReceivedFrame]:
    frames = [
        ReceivedFrame(data, NOW_NS + n, STAMPS[n % 3], 2 * n, ("10.0.0.1", 5_000 + n))
        for n, data in enumerate(messages(count))
    ]
    with RecordingWriter(path, link_type=LINK_RAW_IP, interface="eth0") as writer:
        for frame in frames:
            assert writer.write(frame, datagram_packet(frame, TARGET))
    return frames


def test_datagrams_received_live_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "r.pcapng"
    with UdpReceiver("127.0.0.1", 0) as receiver, UdpSender(*receiver.address) as sender:
        for data in messages(5):
            sender.send(data)
        with RecordingWriter(path, link_type=LINK_RAW_IP, interface="lo") as writer:
            live = [frame for _ in range(5) if (frame := receiver.receive(WAIT_S)) is not None]
            for frame in live:
                assert writer.write(frame, datagram_packet(frame, receiver.address))
    replayed = frames_of(path)
    assert replayed == live
    assert [decode(frame.data) for frame in replayed] == [decode(frame.data) for frame in live]
    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, writer.size)


def test_stamps_of_every_quality_and_drops_are_kept(tmp_path: Path) -> None:
    frames = recording(tmp_path / "r", 7)
    assert frames_of(tmp_path / "r") == frames


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with Namespace() as namespace:
        namespace.veth()
        yield namespace


def test_tagged_frames_off_the_link_come_back_as_the_receiver_saw_them(network: Namespace, tmp_path: Path) -> None:
    tags: list[tuple[VlanTag, ...]] = [(), (VlanTag(5, 6),), (VlanTag(100, 2), VlanTag(7, 3))]
    path = tmp_path / "r.pcapng"
    with (
        network.run(lambda: EthernetReceiver("v1", group=GROUP)) as receiver,
        network.run(lambda: LinkTap("v1")) as tap,
        RecordingWriter(path, link_type=1, interface="v1") as writer,
    ):
        for vlans, data in zip(tags, messages(3), strict=True):
            with network.run(lambda vlans=vlans: EthernetSender("v0", GROUP, vlans=vlans)) as sender:  # type: ignore[misc]
                sender.send(data)
        live = []
        for _ in tags:
            frame, whole = receiver.receive(WAIT_S), tap.receive(WAIT_S)
            assert frame is not None
            assert whole is not None
            assert writer.write(whole, whole.data)
            live.append(replace(frame, source=(frame.source[0], 0)))
    assert frames_of(path) == live
    assert [frame.vlans for frame in live] == tags
    assert [decode(frame.data) for frame in frames_of(path)] == [decode(frame.data) for frame in live]


def test_a_short_padded_frame_is_read_by_the_compiled_layout_too(network: Namespace) -> None:
    layout = DataSetLayout(LAYOUT.publisher, 100, 1, (("a", BuiltinType.BYTE),))
    data = LayoutWriter(layout).write(t_source_ns=NOW_NS, values=(7,), status=0)
    assert len(data) < 46
    with (
        network.run(lambda: EthernetReceiver("v1", group=GROUP)) as receiver,
        network.run(lambda: EthernetSender("v0", GROUP)) as sender,
    ):
        sender.send(data)
        frame = receiver.receive(WAIT_S)
    assert frame is not None
    assert frame.padding_max >= 46 - len(data)
    assert LayoutReader(layout).read(frame.data).values == (7,)


def test_captured_udp_frames_pass_the_tap_and_others_do_not(
    network: Namespace, fixtures_dir: Path, tmp_path: Path
) -> None:
    lines = (fixtures_dir / "uadp" / "frames.jsonl").read_text().splitlines()
    captured = [line for line in map(json.loads, lines) if line["ethertype"] == "0x800"][:20]

    def opened() -> tuple[LinkTap, socket.socket]:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        raw.bind(("v0", 0))
        return LinkTap("v1", receive_buffer_bytes=1_000_000), raw

    tap, raw = network.run(opened)
    with tap, raw, RecordingWriter(tmp_path / "r", link_type=1, interface="v1") as writer:
        good = bytes.fromhex(captured[0]["frame"])
        fragment = good[:20] + b"\x20\x00" + good[22:]
        later = good[:20] + b"\x00\x05" + good[22:]
        other_port = good[:36] + struct.pack("!H", 4841) + good[38:]
        tcp = good[:23] + b"\x06" + good[24:]
        for unwanted in (fragment, later, other_port, tcp):
            raw.send(unwanted)
        for line in captured:
            raw.send(bytes.fromhex(line["frame"]))
        for _ in captured:
            whole = tap.receive(WAIT_S)
            assert whole is not None
            writer.write(whole, whole.data)
        assert tap.receive(0.0) is None
    assert [frame.data.hex() for frame in frames_of(tmp_path / "r")] == [line["uadp"] for line in captured]


def test_the_filters_jumps_stay_inside_it() -> None:
    program = uadp_filter(4840)
    for at, (code, on_true, on_false, _) in enumerate(program):
        assert code not in (0x15, 0x45) or at + 1 + max(on_true, on_false) < len(program)
    assert program[-1][0] == 0x06


def test_a_file_cut_anywhere_gives_the_whole_frames_before_the_cut(tmp_path: Path) -> None:
    frames = recording(tmp_path / "r")
    data = (tmp_path / "r").read_bytes()
    sizes = []
    for end in range(4, len(data) + 1):
        replay = Replay(io.BytesIO(data[:end]))
        got = list(replay)
        assert got == frames[: len(got)]
        sizes.append(len(got))
        assert replay.cut or data[end:] == b"" or data[end : end + 4] in (b"\6\0\0\0", b"\1\0\0\0")
    assert sizes == sorted(sizes)
    assert sizes[-1] == 3


def test_a_full_file_takes_no_more_and_stays_whole(tmp_path: Path) -> None:
    frame = ReceivedFrame(b"x" * 100, NOW_NS, "kernel", 0, ("10.0.0.1", 1))
    with RecordingWriter(tmp_path / "r", link_type=LINK_RAW_IP, interface="eth0", bytes_max=1_000) as writer:
        taken = [writer.write(frame, datagram_packet(frame, TARGET)) for _ in range(10)]
        writer.close()
    assert 0 < taken.count(True) < 10
    assert writer.size <= 1_000
    assert frames_of(tmp_path / "r") == [frame] * taken.count(True)


def test_an_existing_file_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"mine")
    with pytest.raises(NetError) as caught:
        RecordingWriter(tmp_path / "r", link_type=1, interface="eth0")
    assert caught.value.code == "recording-exists"
    assert (tmp_path / "r").read_bytes() == b"mine"


def test_the_ip_header_around_a_datagram_has_a_right_checksum() -> None:
    frame = ReceivedFrame(b"abc", NOW_NS, "kernel", 0, ("192.168.7.9", 50_000))
    words = struct.unpack("!10H", datagram_packet(frame, ("239.0.0.1", 4840))[:20])
    assert sum(words) % 0xFFFF == 0


@given(st.binary(max_size=300))
def test_any_bytes_give_frames_or_one_error(data: bytes) -> None:
    for head in (b"", bytes.fromhex("4d3cb2a1020004000000000000000000ffff000001000000")):
        replay = Replay(io.BytesIO(head + data))
        try:
            assert all(isinstance(frame, ReceivedFrame) for frame in replay)
        except CaptureError:
            assert not replay.cut


def test_record_and_replay_on_the_command_line(tmp_path: Path) -> None:
    runner, path, done = CliRunner(), tmp_path / "r.pcapng", threading.Event()
    with UdpReceiver("127.0.0.1", 0) as probe:
        port = probe.address[1]

    def send() -> None:
        with UdpSender("127.0.0.1", port) as sender:
            while not done.wait(0.005):
                sender.send(messages(1)[0])

    thread = threading.Thread(target=send)
    thread.start()
    try:
        command = ["fieldbus", "record", str(path), "--udp", f"127.0.0.1:{port}", "--frames", "3", "--for", "60s"]
        result = runner.invoke(app, [*command, "--output", "json"])
    finally:
        done.set()
        thread.join()
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["stamps"] == {"kernel": 3}
    assert runner.invoke(app, command).exit_code == 2  # the file is there already
    shown = runner.invoke(app, ["fieldbus", "replay", str(path), "--output", "json"])
    assert shown.exit_code == 0, shown.output
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [line["ok"] for line in lines] == [True] * 3
    assert [line["t_ns"] for line in lines] == [frame.t_rx_ns for frame in frames_of(path)]
    with UdpReceiver("127.0.0.1", 0) as receiver:
        host, number = receiver.address
        sent = runner.invoke(app, ["fieldbus", "replay", str(path), "--udp", f"{host}:{number}", "--speed", "0"])
        assert sent.exit_code == 0, sent.output
        for frame in frames_of(path):
            got = receiver.receive(WAIT_S)
            assert got is not None
            assert got.data == frame.data


@pytest.mark.parametrize(
    "arguments",
    [
        ["record", "x"],
        ["record", "x", "--udp", "nowhere"],
        ["record", "x", "--udp", "127.0.0.1:0"],
        ["replay", "x", "--udp", "127.0.0.1:1", "--ethernet", GROUP, "--interface", "lo"],
        ["replay", "x", "--ethernet", GROUP],
    ],
)
def test_wrong_usage_is_told(arguments: list[str], tmp_path: Path) -> None:
    arguments = [str(tmp_path / item) if item == "x" else item for item in arguments]
    assert CliRunner().invoke(app, ["fieldbus", *arguments]).exit_code == 2
