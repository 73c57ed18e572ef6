"""UADP straight on Ethernet (OPC 10000-14, 7.3.3: EtherType 0xB62C), with VLAN tags (IEEE 802.1Q) carried along.

The kernel takes the outermost tag off before any socket sees the frame and reports it beside (PACKET_AUXDATA); a
socket bound to 0xB62C alone gets such frames marked as somebody else's. So the socket is bound to all EtherTypes
with a filter in the kernel, and the tag is put back from the report. Needs CAP_NET_RAW and nothing else.
"""

from __future__ import annotations

import ctypes
import re
import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from fieldbus.net import stamps
from fieldbus.net.errors import NetError, from_os_error, interface_index
from fieldbus.net.frames import ReceivedFrame, VlanTag, tag_of_tci
from fieldbus.net.receiver import RECEIVE_BUFFER_BYTES, FrameReceiver

ETHERTYPE_UADP = 0xB62C
VLAN_TAGS = (0x8100, 0x88A8)
VLAN_TAGS_MAX = 2
"""A customer's tag within a provider's; the kernel's filter looks no deeper."""

HEADER_BYTES = 14
TAG_BYTES = 4
FRAME_BYTES_MIN = 60
"""Least Ethernet frame without its check sequence (IEEE 802.3, 3.2.8): shorter ones are padded with zeros."""

PAYLOAD_BYTES_MAX = 9_000
"""A jumbo frame; the interface's own limit is below it or equal."""

# linux/if_packet.h, linux/if_ether.h, asm-generic/socket.h, linux/filter.h
_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP, _PACKET_STATISTICS, _PACKET_AUXDATA, _PACKET_IGNORE_OUTGOING = 1, 6, 8, 23
_PACKET_MR_MULTICAST, _PACKET_MR_ALLMULTI = 0, 2
_SO_ATTACH_FILTER = 26
_ETH_P_ALL = 0x0003
_TP_STATUS_VLAN_VALID, _TP_STATUS_VLAN_TPID_VALID = 1 << 4, 1 << 6
_PACKET_OTHERHOST = 3
_AUXDATA = struct.Struct("@IIIHHHH")
_STATISTICS = struct.Struct("@II")
ANCILLARY_BYTES = stamps.ANCILLARY_BYTES + socket.CMSG_SPACE(_AUXDATA.size)
_PRIORITY_MAX = 6  # SO_PRIORITY above it needs CAP_NET_ADMIN; the tag itself carries any
_LOAD_HALF, _JUMP_EQUAL, _RETURN = 0x28, 0x15, 0x06
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")

Instruction = tuple[int, int, int, int]


def mac_bytes(text: str) -> bytes:
    """Six bytes of ``01:00:5e:00:00:01``; raises NetError ``bad-address``."""
    if _MAC.fullmatch(text.lower()) is None:
        raise NetError("bad-address", found=repr(text), expected="a MAC address such as 01:00:5e:00:00:01")
    return bytes.fromhex(text.replace(":", ""))


def mac_text(mac: bytes) -> str:
    """``01:00:5e:00:00:01`` of six bytes."""
    return mac.hex(":")


def packet_socket(interface: str, program: list[Instruction], *, buffer_bytes: int) -> socket.socket:
    """An AF_PACKET socket on ``interface`` that takes what the classic BPF ``program`` admits, stamped, with tags.

    Raises NetError ``not-permitted`` without CAP_NET_RAW, ``no-such-interface``, ``network-down``.
    """
    index = interface_index(interface)
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: nothing comes before the filter is on
    except PermissionError as error:
        raise _not_permitted(interface) from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        stamps.enable(sock)
        sock.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        _attach(sock, program)
        sock.bind((socket.if_indextoname(index), _ETH_P_ALL))
    except OSError as error:
        sock.close()
        raise from_os_error(error, doing="opening", endpoint=interface) from error
    return sock


def join(sock: socket.socket, interface: str, group: bytes | None) -> None:
    """Have ``interface`` pass frames to ``group`` (None: to any) on, for as long as ``sock`` is open.

    Where that fails it is closed and a NetError raised.
    """
    kind, address = (_PACKET_MR_ALLMULTI, bytes(6)) if group is None else (_PACKET_MR_MULTICAST, group)
    try:
        request = struct.pack("@iHH8s", interface_index(interface), kind, len(address), address)
        sock.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)
    except OSError as error:
        sock.close()
        raise from_os_error(error, doing="joining a group on", endpoint=interface) from error


def _attach(sock: socket.socket, program: list[Instruction]) -> None:
    code = b"".join(struct.pack("@HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    request = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, request)


def ethertype_filter(ethertype: int) -> list[Instruction]:
    """Classic BPF: ``ethertype`` at once or behind one more VLAN tag (the kernel has taken the outermost off)."""
    return [
        (_LOAD_HALF, 0, 0, 12),
        (_JUMP_EQUAL, 4, 0, ethertype),
        (_JUMP_EQUAL, 1, 0, VLAN_TAGS[0]),
        (_JUMP_EQUAL, 0, 3, VLAN_TAGS[1]),
        (_LOAD_HALF, 0, 0, 16),
        (_JUMP_EQUAL, 0, 1, ethertype),
        (_RETURN, 0, 0, 0xFFFF_FFFF),
        (_RETURN, 0, 0, 0),
    ]


def reported_tag(ancillary: stamps.Ancillary) -> tuple[int, VlanTag] | None:
    """(tag type, tag) that the kernel took off the frame, from PACKET_AUXDATA; None where there was none."""
    for level, kind, body in ancillary:
        if level == _SOL_PACKET and kind == _PACKET_AUXDATA and len(body) == _AUXDATA.size:
            status, _, _, _, _, tci, tag_type = _AUXDATA.unpack(body)
            if status & _TP_STATUS_VLAN_VALID:
                return tag_type if status & _TP_STATUS_VLAN_TPID_VALID else VLAN_TAGS[0], tag_of_tci(tci)
    return None


class EthernetPayload(NamedTuple):
    """What a frame carries: tags outermost first, the EtherType behind them, payload, zeros that may be padding."""

    vlans: tuple[VlanTag, ...]
    ethertype: int
    data: bytes
    padding_max: int


def ethernet_payload(frame: bytes, outer: VlanTag | None = None) -> EthernetPayload | None:
    """Take ``frame`` apart, of whose tags the kernel may have taken off the ``outer`` one.

    None: too short, or more than ``VLAN_TAGS_MAX`` tags.
    """
    if len(frame) < HEADER_BYTES:
        return None
    tags = [] if outer is None else [outer]
    at, kind = HEADER_BYTES, int.from_bytes(frame[12:14], "big")
    while kind in VLAN_TAGS:
        if len(tags) == VLAN_TAGS_MAX or len(frame) < at + TAG_BYTES:
            return None
        tags.append(tag_of_tci(int.from_bytes(frame[at : at + 2], "big")))
        kind = int.from_bytes(frame[at + 2 : at + 4], "big")
        at += TAG_BYTES
    data = frame[at:]
    # A sender may pad to the least size before or after the tags went in: both count.
    whole = len(frame) + (0 if outer is None else TAG_BYTES)
    padded = whole <= FRAME_BYTES_MIN + TAG_BYTES * len(tags)
    return EthernetPayload(tuple(tags), kind, data, len(data) - len(data.rstrip(b"\0")) if padded else 0)


class EthernetReceiver(FrameReceiver):
    """UADP frames of one interface; for one thread. Use as a context manager or call ``close``.

    Raises NetError (``not-permitted``, ``no-such-interface``, ``bad-address``, ``network-down``) when it cannot be
    opened. On a VLAN sub-interface (``eth0.5``) the kernel has consumed the tag: open the interface below it to
    have the id and priority.
    """

    def __init__(
        self,
        interface: str,
        *,
        group: str | None = None,
        vlan_id: int | None = None,
        sources: frozenset[str] | None = None,
        size_max: int = PAYLOAD_BYTES_MAX,
        receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES,
        tai_offset_s: int = 0,
    ) -> None:
        """``group``: multicast MAC address to join; with it only frames to the group are admitted, without it those to
        this interface or to all stations. ``vlan_id``: only frames whose innermost tag has it (None: any, or no
        tag). ``sources``: only frames of these MAC addresses. What is not admitted is counted as foreign."""
        if not 1 <= size_max <= PAYLOAD_BYTES_MAX:
            raise ValueError(f"size_max {size_max} is outside 1 … {PAYLOAD_BYTES_MAX}")
        if vlan_id is not None and not 0 <= vlan_id <= 0xFFF:
            raise ValueError(f"vlan_id {vlan_id} is outside 0 … 4095")
        self._group = None if group is None else _multicast(group)
        self._sources = None if sources is None else frozenset(mac_text(mac_bytes(item)) for item in sources)
        self._vlan_id = vlan_id
        self._interface = interface
        self._lost = self._seen = 0
        super().__init__(
            packet_socket(interface, ethertype_filter(ETHERTYPE_UADP), buffer_bytes=receive_buffer_bytes),
            size_max=size_max + HEADER_BYTES + TAG_BYTES,
            ancillary_bytes=ANCILLARY_BYTES,
            tai_offset_s=tai_offset_s,
        )
        self._index = interface_index(interface)
        if self._group is not None:
            join(self._socket, interface, self._group)

    def statistics(self) -> tuple[int, int]:
        """(frames the filter admitted, those of them the kernel dropped for want of room), since it was opened.

        The kernel's own count (PACKET_STATISTICS): it also has the drops after the last frame read, which
        ``dropped_total`` of a frame cannot know. Frames the network card dropped are in neither.
        """
        packets, drops = _STATISTICS.unpack(self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        self._seen += packets  # reading it sets the kernel's counters back to zero
        self._lost += drops
        return self._seen, self._lost

    def _frame(
        self, data: bytes, source: Any, ancillary: stamps.Ancillary, reception: stamps.Reception
    ) -> ReceivedFrame | None:
        outer = reported_tag(ancillary)
        payload = ethernet_payload(data, None if outer is None else outer[1])
        if payload is None or payload.ethertype != ETHERTYPE_UADP:
            self.counts.malformed += 1
            return None
        sender = mac_text(data[6:12])
        if not self._admits(data[:6], sender, source[2], payload.vlans):
            self.counts.foreign += 1
            return None
        where = (sender, self._index)
        return ReceivedFrame(
            payload.data, reception.t_ns, reception.stamp, self._dropped, where, payload.vlans, payload.padding_max
        )

    def _admits(self, target: bytes, sender: str, packet_type: int, tags: tuple[VlanTag, ...]) -> bool:
        if self._vlan_id is not None and (not tags or tags[-1].vid != self._vlan_id):
            return False
        if self._sources is not None and sender not in self._sources:
            return False
        if self._group is not None:
            return target == self._group
        return packet_type != _PACKET_OTHERHOST and (not target[0] & 1 or target == b"\xff" * 6)


def _multicast(group: str) -> bytes:
    address = mac_bytes(group)
    if not address[0] & 1:
        raise NetError("bad-address", found=group, expected="a multicast MAC address (odd first byte)")
    return address


def _not_permitted(interface: str) -> NetError:
    return NetError(
        "not-permitted",
        found=f"no right to raw frames on {interface}",
        expected="CAP_NET_RAW",
        hint="AmbientCapabilities=CAP_NET_RAW and RestrictAddressFamilies=AF_PACKET … in the unit; nothing more",
    )


class EthernetSender:
    """Sends UADP frames out of one interface. Never blocks: a full queue is an error, not a wait."""

    def __init__(self, interface: str, target: str, *, vlans: tuple[VlanTag, ...] = ()) -> None:
        """``target``: MAC address of the receiver or group. ``vlans``: tags to put in, outermost first; of two the
        outer one is a provider's (0x88A8). Raises NetError as EthernetReceiver does."""
        if len(vlans) > VLAN_TAGS_MAX:
            raise ValueError(f"{len(vlans)} VLAN tags, at most {VLAN_TAGS_MAX}")
        interface_index(interface)
        self._interface = interface
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        except PermissionError as error:
            raise _not_permitted(interface) from error
        try:
            if vlans:
                # The queue of the qdisc follows the tag's priority where the administrator mapped it (skb->priority).
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, min(vlans[-1].priority, _PRIORITY_MAX))
            self._socket.bind((interface, 0))
            source = self._socket.getsockname()[4]
        except OSError as error:
            self._socket.close()
            raise from_os_error(error, doing="opening a sender on", endpoint=interface) from error
        types = VLAN_TAGS if len(vlans) < 2 else VLAN_TAGS[::-1]
        tags = b"".join(struct.pack("!HH", kind, tag.tci) for kind, tag in zip(types, vlans, strict=False))
        self._header = mac_bytes(target) + source + tags + ETHERTYPE_UADP.to_bytes(2, "big")

    def send(self, data: bytes) -> None:
        """Send one frame, padded to the least Ethernet size.

        Raises NetError ``datagram-too-large``, ``send-buffer-full``, ``network-down``…
        """
        try:
            self._socket.send((self._header + data).ljust(FRAME_BYTES_MIN, b"\0"))
        except OSError as error:
            raise from_os_error(error, doing="sending on", endpoint=self._interface) from error

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
