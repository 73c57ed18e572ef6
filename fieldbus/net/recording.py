"""Frames to a file and back: pcapng (draft-ietf-opsawg-pcapng) with nanoseconds, quality of the stamp and drops kept.

One interface block per quality of stamp, its description saying which, and epb_dropcount where the kernel dropped
frames: any tool for captures reads it, and ``replayed`` gives back the very ``ReceivedFrame`` s that were received.
Power may fail at any moment: blocks are written whole and in order and synced every ``SYNC_S``, so what is lost is
at the end, and a block cut there ends the replay (``cut``), not in an error.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from fieldbus.capture.errors import CaptureError
from fieldbus.capture.limits import FILE_BYTES_MAX
from fieldbus.capture.packets import Datagram, payload
from fieldbus.capture.pcap import Packet, packets
from fieldbus.net import stamps
from fieldbus.net.errors import NetError
from fieldbus.net.ethernet import (
    ANCILLARY_BYTES,
    ETHERTYPE_UADP,
    HEADER_BYTES,
    PAYLOAD_BYTES_MAX,
    TAG_BYTES,
    Instruction,
    ethernet_payload,
    ethertype_filter,
    join,
    mac_text,
    packet_socket,
    reported_tag,
)
from fieldbus.net.frames import STAMPS, ReceivedFrame
from fieldbus.net.receiver import RECEIVE_BUFFER_BYTES, FrameReceiver

LINK_ETHERNET, LINK_RAW_IP = 1, 101
SYNC_S = 1.0
"""A power cut loses at most this much; syncing each frame would be slower than the frames come."""

UADP_PORT = 4840
"""OPC UA's registered UDP port."""

_SECTION_BYTES_UNKNOWN = b"\xff" * 8
_DESCRIPTION = "receive stamp: "
_IP_HEADER = struct.Struct("!BBHHHBBH4s4s")
_UDP_HEADER = struct.Struct("!HHHH")


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


class RecordingWriter:
    """Writes a new file, readable by this user only. Use as a context manager or call ``close``.

    Raises NetError ``recording-exists`` where the name is taken, OSError where the file system fails.
    """

    def __init__(self, path: Path, *, link_type: int, interface: str, bytes_max: int = FILE_BYTES_MAX) -> None:
        """``interface`` is noted in the file; frames that would make it longer than ``bytes_max`` are refused."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise NetError("recording-exists", found=str(path), expected="a new file") from error
        self._stream = os.fdopen(handle, "wb")
        self._bytes_max = min(bytes_max, FILE_BYTES_MAX)
        self.frames = self.size = self._dropped = 0
        self._synced = time.monotonic()
        section = struct.pack("<IHH", 0x1A2B3C4D, 1, 0) + _SECTION_BYTES_UNKNOWN
        head = _block(0x0A0D0D0A, section)
        for stamp in STAMPS:
            options = _option(2, interface.encode()) + _option(3, (_DESCRIPTION + stamp).encode()) + _option(9, b"\x09")
            head += _block(1, struct.pack("<HHI", link_type, 0, 0) + options + _option(0, b""))
        self._put(head)
        self._sync()
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def write(self, frame: ReceivedFrame, data: bytes) -> bool:
        """Append ``data`` (the frame as its link carries it) with the stamp of ``frame``; False: the file is full."""
        dropped = (frame.dropped_total - self._dropped) % 2**32
        options = _option(4, struct.pack("<Q", dropped)) + _option(0, b"") if dropped else b""
        high, low = divmod(frame.t_rx_ns, 2**32)
        head = struct.pack("<IIIII", STAMPS.index(frame.stamp), high, low, len(data), len(data))
        block = _block(6, head + _padded(data) + options)
        if self.size + len(block) > self._bytes_max:
            return False
        self._put(block)
        self._dropped = frame.dropped_total
        self.frames += 1
        if time.monotonic() - self._synced >= SYNC_S:
            self._sync()
        return True

    def _put(self, data: bytes) -> None:
        self._stream.write(data)
        self.size += len(data)

    def _sync(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close; a second call does nothing."""
        if not self._stream.closed:
            self._sync()
            self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def datagram_packet(frame: ReceivedFrame, target: tuple[str, int]) -> bytes:
    """An IPv4 packet around the datagram that a UDP socket received, for LINKTYPE_RAW. Addresses and ports are the
    real ones; what a socket does not tell (identification, time to live) is zero."""
    size = _UDP_HEADER.size + len(frame.data)
    source_ip, target_ip = socket.inet_aton(frame.source[0]), socket.inet_aton(target[0])
    fields = (0x45, 0, _IP_HEADER.size + size, 0, 0x4000, 0, socket.IPPROTO_UDP)
    checksum = _ones_complement(_IP_HEADER.pack(*fields, 0, source_ip, target_ip))
    # A checksum of zero means "none" (RFC 768).
    udp = _UDP_HEADER.pack(frame.source[1], target[1], size, 0)
    return _IP_HEADER.pack(*fields, checksum, source_ip, target_ip) + udp + frame.data


def _ones_complement(header: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def uadp_filter(port: int) -> list[Instruction]:
    """Classic BPF: UADP on Ethernet, or whole IPv4 UDP datagrams to ``port``; one tag before IP is off already."""
    datagram = [
        (0x28, 0, 0, 12),  # EtherType
        (0x15, 0, 8, 0x0800),
        (0x30, 0, 0, 23),  # protocol
        (0x15, 0, 6, socket.IPPROTO_UDP),
        (0x28, 0, 0, 20),  # more fragments, fragment offset
        (0x45, 4, 0, 0x3FFF),
        (0xB1, 0, 0, 14),  # length of the IP header
        (0x48, 0, 0, 16),  # target port behind it
        (0x15, 0, 1, port),
        (0x06, 0, 0, 0xFFFF_FFFF),
    ]
    return datagram + ethertype_filter(ETHERTYPE_UADP)


class LinkTap(FrameReceiver):
    """Every UADP frame of an interface as the link carries it, whoever it is for; needs CAP_NET_RAW.

    ``data`` of its frames is the whole Ethernet frame, tags put back.
    """

    def __init__(
        self, interface: str, *, port: int = UADP_PORT, receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES
    ) -> None:
        """Raises NetError as EthernetReceiver does."""
        super().__init__(
            packet_socket(interface, uadp_filter(port), buffer_bytes=receive_buffer_bytes),
            size_max=PAYLOAD_BYTES_MAX + HEADER_BYTES + TAG_BYTES,
            ancillary_bytes=ANCILLARY_BYTES,
        )
        join(self._socket, interface, None)

    def _frame(
        self, data: bytes, source: Any, ancillary: stamps.Ancillary, reception: stamps.Reception
    ) -> ReceivedFrame | None:
        outer = reported_tag(ancillary)
        if outer is not None:
            data = data[:12] + struct.pack("!HH", outer[0], outer[1].tci) + data[12:]
        return ReceivedFrame(data, reception.t_ns, reception.stamp, self._dropped, (mac_text(data[6:12]), 0))


class Replay:
    """The UADP frames of a recording (or of any pcap or pcapng file) in order; ``cut`` and ``other`` as far as read."""

    def __init__(self, stream: BinaryIO, *, port: int | None = None) -> None:
        """``port``: only datagrams to it (None: to any). Frames are read one at a time."""
        self._stream = stream
        self._port = port
        self._dropped = 0
        self.cut = False
        """The file ends within a block: power was cut, or the recorder still writes."""
        self.other = 0
        """Packets that are no UADP frame."""

    def __iter__(self) -> Iterator[ReceivedFrame]:
        """Raises CaptureError ``capture-format``, ``capture-record``."""
        try:
            for packet in packets(self._stream):
                frame = self._frame(packet)
                if frame is None:
                    self.other += 1
                else:
                    yield frame
        except CaptureError as error:
            if error.code != "capture-truncated":
                raise
            self.cut = True

    def _frame(self, packet: Packet) -> ReceivedFrame | None:
        self._dropped = (self._dropped + packet.dropped) % 2**32
        # Any other file's stamps are its kernel's: that is what capture programs take.
        stamp = next((kind for kind in STAMPS if packet.interface == _DESCRIPTION + kind), STAMPS[1])
        if packet.link_type == LINK_ETHERNET:
            found = ethernet_payload(packet.data)
            if found is not None and found.ethertype == ETHERTYPE_UADP:
                sender = (mac_text(packet.data[6:12]), 0)
                return ReceivedFrame(
                    found.data, packet.t_ns, stamp, self._dropped, sender, found.vlans, found.padding_max
                )
        datagram = payload(packet.link_type, packet.data)
        if not isinstance(datagram, Datagram) or len(datagram.source[0]) != 4:
            return None
        if self._port is not None and datagram.target[1] != self._port:
            return None
        sender = (socket.inet_ntoa(datagram.source[0]), datagram.source[1])
        return ReceivedFrame(datagram.data, packet.t_ns, stamp, self._dropped, sender)
