"""What a captured packet carries: a TCP segment, a UDP datagram or a bare Ethernet payload.

Ethernet II with any number of VLAN tags up to four, Linux cooked captures (v1, v2), raw IP; IPv4 and IPv6
without extension headers. Everything else is not ours and gives None: a capture holds other people's traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

ETHERTYPE_UADP = 0xB62C
_LINK_ETHERNET, _LINK_RAW, _LINK_COOKED, _LINK_COOKED_2 = 1, 101, 113, 276
_IPV4, _IPV6, _VLAN_TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8)
_VLAN_TAGS_MAX = 4
_TCP, _UDP = 6, 17
_SYN = 0x02


@dataclass(frozen=True, slots=True)
class Segment:
    """Payload of one TCP segment with its sender and receiver (address, port)."""

    source: tuple[bytes, int]
    target: tuple[bytes, int]
    sequence: int
    syn: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Datagram:
    """Payload of one UDP datagram."""

    source: tuple[bytes, int]
    target: tuple[bytes, int]
    data: bytes


@dataclass(frozen=True, slots=True)
class EthernetPayload:
    """Payload of one Ethernet frame of a type that is not IP."""

    source: bytes
    ethertype: int
    data: bytes


def payload(link_type: int, frame: bytes) -> Segment | Datagram | EthernetPayload | None:
    """What ``frame`` carries, or None: cut short, fragmented, or nothing of interest."""
    if link_type == _LINK_RAW:
        return _ip(frame, _IPV6 if frame[:1] and frame[0] >> 4 == 6 else _IPV4)
    if link_type == _LINK_COOKED and len(frame) >= 16:
        return _network(frame[6:12], int.from_bytes(frame[14:16], "big"), frame[16:])
    if link_type == _LINK_COOKED_2 and len(frame) >= 20:
        return _network(frame[12:18], int.from_bytes(frame[0:2], "big"), frame[20:])
    if link_type == _LINK_ETHERNET and len(frame) >= 14:
        return _network(frame[6:12], int.from_bytes(frame[12:14], "big"), frame[14:])
    return None


def _network(source: bytes, kind: int, body: bytes) -> Segment | Datagram | EthernetPayload | None:
    for _ in range(_VLAN_TAGS_MAX):
        if kind not in _VLAN_TAGS or len(body) < 4:
            break
        kind, body = int.from_bytes(body[2:4], "big"), body[4:]
    if kind in (_IPV4, _IPV6):
        return _ip(body, kind)
    return EthernetPayload(source, kind, body)


def _ip(body: bytes, kind: int) -> Segment | Datagram | None:
    if kind == _IPV4 and len(body) >= 20 and body[0] >> 4 == 4:
        header, total = (body[0] & 15) * 4, int.from_bytes(body[2:4], "big")
        fragmented = int.from_bytes(body[6:8], "big") & 0x3FFF
        if fragmented or header < 20 or not header <= total <= len(body):
            return None
        return _transport(body[9], body[12:16], body[16:20], body[header:total])
    if kind == _IPV6 and len(body) >= 40 and body[0] >> 4 == 6:
        total = 40 + int.from_bytes(body[4:6], "big")
        return _transport(body[6], body[8:24], body[24:40], body[40:total]) if total <= len(body) else None
    return None


def _transport(protocol: int, source: bytes, target: bytes, body: bytes) -> Segment | Datagram | None:
    if len(body) < 8:
        return None
    ends = (source, int.from_bytes(body[0:2], "big")), (target, int.from_bytes(body[2:4], "big"))
    if protocol == _UDP:
        size = int.from_bytes(body[4:6], "big")
        return Datagram(*ends, body[8:size]) if 8 <= size <= len(body) else None
    if protocol == _TCP and len(body) >= 20:
        header = (body[12] >> 4) * 4
        if not 20 <= header <= len(body):
            return None
        return Segment(*ends, int.from_bytes(body[4:8], "big"), bool(body[13] & _SYN), body[header:])
    return None
