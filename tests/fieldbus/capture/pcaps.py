"""Builds pcap and pcapng files of TCP, UDP and Ethernet traffic."""

from __future__ import annotations

import struct

CLIENT, SERVER = b"\x0a\0\0\1", b"\x0a\0\0\2"
MICROSECONDS, NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
T_NS = 1_800_000_000_123_456_789


def ethernet(body: bytes, kind: int = 0x0800, *, vlan: bool = False) -> bytes:
    tag = b"\x81\x00\x60\x05" if vlan else b""
    return b"\x02" * 6 + b"\x04" * 6 + tag + kind.to_bytes(2, "big") + body


def ipv4(protocol: int, source: bytes, target: bytes, body: bytes) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0x4000, 64, protocol, 0)
    return head + source + target + body


def ipv6(protocol: int, body: bytes) -> bytes:
    return struct.pack(">IHBB", 0x6000_0000, len(body), protocol, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + body


def tcp(ports: tuple[int, int], sequence: int, data: bytes, flags: int = 0x18) -> bytes:
    return struct.pack(">HHIIBBHHH", *ports, sequence % 2**32, 0, 0x50, flags, 8_192, 0, 0) + data


def udp(ports: tuple[int, int], data: bytes) -> bytes:
    return struct.pack(">HHHH", *ports, 8 + len(data), 0) + data


def to_server(port: int, sequence: int, data: bytes, flags: int = 0x18, *, vlan: bool = False) -> bytes:
    return ethernet(ipv4(6, CLIENT, SERVER, tcp((50_000, port), sequence, data, flags)), vlan=vlan)


def to_client(port: int, sequence: int, data: bytes, flags: int = 0x18) -> bytes:
    return ethernet(ipv4(6, SERVER, CLIENT, tcp((port, 50_000), sequence, data, flags)))


def pcap(frames: list[bytes], *, link_type: int = 1, order: str = "<", magic: int = NANOSECONDS) -> bytes:
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)
    per_s = 10**9 if magic == NANOSECONDS else 10**6
    fraction = T_NS % 10**9 * per_s // 10**9
    for frame in frames:
        out += struct.pack(order + "IIII", T_NS // 10**9, fraction, len(frame), len(frame)) + frame
    return out


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, 12 + len(body)) + body + struct.pack(order + "I", 12 + len(body))


def pcapng(frames: list[bytes], *, order: str = "<", simple: bool = False, power: int = 9) -> bytes:
    """``power``: times in units of 10^-power s; 6 is the default that needs no option."""
    out = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    resolution = struct.pack(order + "HHBxxxHH", 9, 1, power, 0, 0) if power != 6 else b""
    ticks = T_NS // 10 ** (9 - power)
    out += block(1, struct.pack(order + "HHI", 1, 0, 0) + resolution, order)
    out += block(5, b"statistics  ", order)
    for frame in frames:
        head = struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
        out += (
            block(3, struct.pack(order + "I", len(frame)) + frame, order) if simple else block(6, head + frame, order)
        )
    return out
