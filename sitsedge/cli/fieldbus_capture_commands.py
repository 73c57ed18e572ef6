"""``sitsctl fieldbus record|replay``: UADP frames of a network into a file, and out of it again."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fieldbus.capture import plain
from fieldbus.net import EthernetSender, FrameReceiver, NetError, ReceivedFrame, UdpReceiver, UdpSender, VlanTag
from fieldbus.net.recording import (
    LINK_ETHERNET,
    LINK_RAW_IP,
    UADP_PORT,
    LinkTap,
    RecordingWriter,
    Replay,
    datagram_packet,
)
from fieldbus.uadp import UadpError, decode
from sitsedge.cli.common import parse_duration
from sitsedge.cli.output import Exit, Output, OutputOption, complain, emit, note, reported

SPACING_S_MAX = 60.0
"""A longer pause between two recorded frames is not waited out."""

WAKE_S = 0.2
"""How late a recording notices its end on a silent network."""

MEGABYTES_MAX = 1_024

SENDERS_MAX = 16
"""Sockets of a replay, one for each set of tags; a recording of many has the oldest closed."""


def record_command(
    file: Annotated[Path, typer.Argument(help="pcapng file to make; must not exist")],
    interface: Annotated[str | None, typer.Option("--interface", help="network interface, as ip link shows it")] = None,
    udp: Annotated[str | None, typer.Option("--udp", help="listen at ADDRESS:PORT instead of on the link")] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="on the link: UDP port")] = UADP_PORT,
    for_: Annotated[str, typer.Option("--for", help="stop after 30s, 2m, …")] = "10s",
    frames: Annotated[int, typer.Option("--frames", min=1, max=10**9, help="stop after so many frames")] = 1_000_000,
    megabytes: Annotated[int, typer.Option("--megabytes", min=1, max=MEGABYTES_MAX, help="stop at this size")] = 100,
    output: Output = OutputOption,
) -> None:
    """Record UADP frames: off the link with --interface (needs CAP_NET_RAW), or of one UDP address with --udp."""
    seconds = parse_duration(for_)
    with reported(output):
        if udp is None and interface is None:
            complain("neither --interface nor --udp", "--interface eth0, or --udp 239.0.0.1:4840 --interface eth0")
            raise typer.Exit(Exit.USAGE)
        target = None if udp is None else _endpoint(udp)
        with _source(target, interface, port) as receiver:
            link_type = LINK_ETHERNET if target is None else LINK_RAW_IP
            with RecordingWriter(
                file, link_type=link_type, interface=interface or "any", bytes_max=megabytes << 20
            ) as writer:
                stamps, lost = _record(receiver, writer, target, time.monotonic() + seconds, frames)
        data = {"file": str(file), "frames": writer.frames, "bytes": writer.size, "stamps": stamps, "dropped": lost}
        emit(output, data, lambda: print(f"{file}: {writer.frames} frames, {writer.size} bytes, {lost} dropped"))


def _endpoint(text: str) -> tuple[str, int]:
    address, _, number = text.rpartition(":")
    if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 0xFFFF:
        complain(f"address {text}", "ADDRESS:PORT, such as 239.0.0.1:4840")
        raise typer.Exit(Exit.USAGE)
    return address, int(number)


def _source(target: tuple[str, int] | None, interface: str | None, port: int) -> FrameReceiver:
    if target is None:
        assert interface is not None
        return LinkTap(interface, port=port)
    address, number = target
    if _multicast(address):
        return UdpReceiver("0.0.0.0", number, group=address, interface=interface)  # noqa: S104 - the group decides
    return UdpReceiver(address, number)


def _multicast(address: str) -> bool:
    first = address.split(".")[0]
    return first.isascii() and first.isdigit() and 224 <= int(first) <= 239


def _record(
    receiver: FrameReceiver, writer: RecordingWriter, target: tuple[str, int] | None, end: float, frames: int
) -> tuple[dict[str, int], int]:
    """Frames by the quality of their stamp, and those the kernel dropped."""
    stamps: Counter[str] = Counter()
    lost = 0
    while writer.frames < frames and (left := end - time.monotonic()) > 0:
        try:
            frame = receiver.receive(min(left, WAKE_S))
        except NetError as error:
            if error.code != "datagram-truncated":
                raise
            note(f"a frame left out: {error.found}")
            continue
        if frame is None:
            continue
        if not writer.write(frame, frame.data if target is None else datagram_packet(frame, target)):
            note("the file has its full size")
            break
        stamps[frame.stamp] += 1
        lost = frame.dropped_total
    return dict(stamps), lost


def replay_command(
    file: Annotated[Path, typer.Argument(help="pcapng or pcap file")],
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="only datagrams to this UDP port")
    ] = None,
    udp: Annotated[str | None, typer.Option("--udp", help="send the payloads to ADDRESS:PORT")] = None,
    interface: Annotated[str | None, typer.Option("--interface", help="interface to send out of")] = None,
    ethernet: Annotated[str | None, typer.Option("--ethernet", help="send as Ethernet frames to this MAC")] = None,
    speed: Annotated[float, typer.Option("--speed", min=0, max=1000, help="1: as recorded, 0: at once")] = 1.0,
    output: Output = OutputOption,
) -> None:
    """Decode the UADP frames of a recording, or send them again: exit 1 where one was refused or there was none."""
    sending = udp is not None or ethernet is not None
    if (udp is not None and ethernet is not None) or (ethernet is not None and interface is None):
        complain("no single way to send", "--udp ADDRESS:PORT, or --ethernet MAC with --interface")
        raise typer.Exit(Exit.USAGE)
    with reported(output):
        target = None if udp is None else _endpoint(udp)
        with file.open("rb") as stream:
            replay = Replay(stream, port=port)
            if sending:
                total, refused = _send(replay, _Out(target, ethernet, interface), speed), 0
            else:
                total, refused = _show(replay, output)
        if sending:
            data = {"sent": total, "other": replay.other, "cut": replay.cut}
            emit(output, data, lambda: print(f"{total} frames sent"))
        if replay.cut:
            note("the file ends within a frame: the whole ones before it were taken")
    raise typer.Exit(Exit.OK if total and not refused else Exit.REFUSED)


def frame_as_data(number: int, frame: ReceivedFrame) -> dict[str, Any]:
    """One frame as a JSON object: where and when it came from, and its value or the code of the rule it breaks."""
    data: dict[str, Any] = {
        "frame": number,
        "t_ns": frame.t_rx_ns,
        "stamp": frame.stamp,
        "source": frame.source[0],
        "vlans": [{"id": tag.vid, "priority": tag.priority} for tag in frame.vlans],
        "dropped_total": frame.dropped_total,
    }
    try:
        return {**data, "ok": True, "value": plain(decode(frame.data))}
    except UadpError as error:
        return {**data, "ok": False, "error": error.code, "found": error.found}


def _show(replay: Replay, output: Output) -> tuple[int, int]:
    total = refused = 0
    for number, frame in enumerate(replay, 1):
        total += 1
        data = frame_as_data(number, frame)
        refused += not data["ok"]
        tags = "".join(f" vlan {tag.vid} priority {tag.priority}" for tag in frame.vlans)
        outcome = "ok" if data["ok"] else f"refused: {data['error']}: {data['found']}"
        line = f"{number} {frame.t_rx_ns} {frame.stamp} {frame.source[0]}{tags} {outcome}"
        emit(output, data, lambda line=line: print(line))  # type: ignore[misc]
    return total, refused


@dataclass(frozen=True, slots=True)
class _Out:
    """Where to send: a UDP target, or a MAC address out of an interface."""

    target: tuple[str, int] | None
    mac: str | None
    interface: str | None

    def sender(self, vlans: tuple[VlanTag, ...]) -> UdpSender | EthernetSender:
        if self.target is not None:
            return UdpSender(*self.target, interface=self.interface if _multicast(self.target[0]) else None)
        assert self.mac is not None
        assert self.interface is not None
        return EthernetSender(self.interface, self.mac, vlans=vlans)


def _send(replay: Replay, out: _Out, speed: float) -> int:
    senders: dict[tuple[VlanTag, ...], UdpSender | EthernetSender] = {}
    total, last_ns = 0, None
    try:
        for frame in replay:
            if last_ns is not None and speed:
                time.sleep(min(max(0.0, (frame.t_rx_ns - last_ns) / 1e9 / speed), SPACING_S_MAX))
            last_ns = frame.t_rx_ns
            vlans = frame.vlans if out.mac is not None else ()
            if vlans not in senders:
                if len(senders) >= SENDERS_MAX:
                    senders.pop(next(iter(senders))).close()
                senders[vlans] = out.sender(vlans)
            senders[vlans].send(frame.data)
            total += 1
    finally:
        for sender in senders.values():
            sender.close()
    return total
