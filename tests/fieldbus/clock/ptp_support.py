"""Answers of a PTP daemon, put together byte by byte from the standard's tables, not by the codec under test."""

from __future__ import annotations

import struct

from fieldbus.clock.ptp_messages import ManagementId

CLOCK = bytes.fromhex("020000fffe000001")
GRANDMASTER = bytes.fromhex("020000fffe0000aa")
PORT = 4242


def answer(
    what: int,
    body: bytes,
    *,
    sequence: int = 1,
    target: int = PORT,
    action: int = 2,
    domain: int = 0,
    tlv: int = 1,
    kind: int = 0x0D,
    version: int = 2,
    extra: bytes = b"",
) -> bytes:
    """A management message (IEEE 1588-2019, 13.3 and 15.4) with one TLV."""
    length = 34 + 14 + 6 + len(body) + len(extra)
    header = bytes([kind, version]) + struct.pack("!HBB", length, domain, 0) + bytes(2 + 8 + 4)
    header += CLOCK + struct.pack("!HHBb", 1, sequence, 4, 0x7F)
    management = bytes(8) + struct.pack("!HBBBB", target, 0, 0, action, 0)
    return header + management + struct.pack("!HHH", tlv, 2 + len(body), what) + body + extra


def default_body(ports: int = 1) -> bytes:
    return struct.pack("!BBH", 2, 0, ports) + bytes([128, 248, 0xFE, 0xFF, 0xFF, 128]) + CLOCK + bytes([0, 0])


def current_body(offset_ns: int = -7, delay_ns: int = 2_000) -> bytes:
    return struct.pack("!Hqq", 1, offset_ns << 16, delay_ns << 16)


def parent_body(grandmaster: bytes = GRANDMASTER) -> bytes:
    return GRANDMASTER + struct.pack("!HBBHi", 1, 0, 0, 0xFFFF, -1) + bytes([10, 6, 0x21, 1, 2, 128]) + grandmaster


def properties_body(offset_s: int = 37, flags: int = 0b1100) -> bytes:
    return struct.pack("!hBB", offset_s, flags, 0xA0)


def port_body(state: int = 9, port: int = 1) -> bytes:
    return CLOCK + struct.pack("!HBbqbBbBbB", port, state, 0, 0, -2, 3, -3, 1, 0, 2)


def status_body(offset_ns: int = -7, ingress_ns: int = 1, grandmaster: bytes = GRANDMASTER) -> bytes:
    return struct.pack("!qqiiH", offset_ns, ingress_ns, 0, 0, 0) + bytes(12) + struct.pack("!i", 1) + grandmaster


def port_properties_body(stamping: int = 0, state: int = 9, interface: bytes = b"eth0", port: int = 1) -> bytes:
    text = CLOCK + struct.pack("!HBBB", port, state, stamping, len(interface)) + interface
    return text + b"\0" * (len(text) % 2)


BODIES = {
    ManagementId.DEFAULT_DATA_SET: default_body(),
    ManagementId.CURRENT_DATA_SET: current_body(),
    ManagementId.PARENT_DATA_SET: parent_body(),
    ManagementId.TIME_PROPERTIES_DATA_SET: properties_body(),
    ManagementId.PORT_DATA_SET: port_body(),
    ManagementId.TIME_STATUS_NP: status_body(),
    ManagementId.PORT_PROPERTIES_NP: port_properties_body(),
}
