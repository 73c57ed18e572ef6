"""Packets of pcap and pcapng files (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng), read one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from fieldbus.capture.errors import CaptureError
from fieldbus.capture.limits import INTERFACES_MAX, RECORD_BYTES_MAX

Order = Literal["little", "big"]

_NS_PER_S = 1_000_000_000
_PCAP_MAGICS: dict[bytes, tuple[Order, int]] = {
    b"\xd4\xc3\xb2\xa1": ("little", 1_000),
    b"\xa1\xb2\xc3\xd4": ("big", 1_000),
    b"\x4d\x3c\xb2\xa1": ("little", 1),
    b"\xa1\xb2\x3c\x4d": ("big", 1),
}
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
_SECTION, _INTERFACE, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 3, 6
_OPTION_END, _OPTION_DESCRIPTION, _OPTION_DROPS, _OPTION_RESOLUTION, _OPTION_OFFSET = 0, 3, 4, 9, 14


@dataclass(frozen=True, slots=True)
class Packet:
    """One captured packet: Unix ns (0 where the file has no time), link type (LINKTYPE_ number), bytes.

    pcapng only: ``interface``: its description (if_description); ``dropped``: packets lost there since the last one
    (epb_dropcount).
    """

    t_ns: int
    link_type: int
    data: bytes
    interface: str = ""
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Interface:
    link_type: int
    snap_length: int
    ticks_per_s: int
    offset_s: int
    description: str


def is_capture(head: bytes) -> bool:
    """True where the first four bytes are those of a pcap or pcapng file."""
    return head[:4] in _PCAP_MAGICS or head[:4] == PCAPNG_MAGIC


def packets(stream: BinaryIO) -> Iterator[Packet]:
    """Packets in file order. Raises CaptureError ``capture-format``, ``capture-truncated``, ``capture-record``."""
    head = _read(stream, 4, "file header")
    if head in _PCAP_MAGICS:
        yield from _pcap(stream, *_PCAP_MAGICS[head])
    elif head == PCAPNG_MAGIC:
        yield from _pcapng(stream)
    else:
        raise CaptureError("capture-format", found=f"a file that begins {head.hex()}", expected="pcap or pcapng")


def _read(stream: BinaryIO, size: int, what: str) -> bytes:
    if size > RECORD_BYTES_MAX:
        raise CaptureError("capture-record", found=f"{size} bytes of {what}", expected=f"at most {RECORD_BYTES_MAX}")
    data = stream.read(size)
    if len(data) != size:
        raise CaptureError("capture-truncated", found=f"{len(data)} bytes", expected=f"{size} for {what}")
    return data


def _pcap(stream: BinaryIO, order: Order, ns_per_fraction: int) -> Iterator[Packet]:
    header = _read(stream, 20, "file header")
    if int.from_bytes(header[0:2], order) != 2:
        raise CaptureError("capture-format", found="another pcap version", expected="version 2.x")
    link_type = int.from_bytes(header[16:20], order) & 0x0FFF_FFFF  # upper bits: length of the FCS
    while first := stream.read(1):
        record = first + _read(stream, 15, "packet header")
        seconds, fraction, size = (int.from_bytes(record[at : at + 4], order) for at in (0, 4, 8))
        yield Packet(seconds * _NS_PER_S + fraction * ns_per_fraction, link_type, _read(stream, size, "packet"))


def _pcapng(stream: BinaryIO) -> Iterator[Packet]:
    order: Order = "little"
    interfaces: list[_Interface] = []
    kind_bytes = PCAPNG_MAGIC  # its first block's type has been read
    while kind_bytes:
        if len(kind_bytes) != 4:
            raise CaptureError("capture-truncated", found=f"{len(kind_bytes)} bytes", expected="a block type")
        length_bytes = _read(stream, 4, "block length")
        body = b""
        if kind_bytes == PCAPNG_MAGIC:
            magic = _read(stream, 4, "byte-order magic")
            if magic not in (b"\x4d\x3c\x2b\x1a", b"\x1a\x2b\x3c\x4d"):
                raise CaptureError("capture-format", found=f"byte-order magic {magic.hex()}", expected="1a2b3c4d")
            order = "little" if magic[0] == 0x4D else "big"
            body, interfaces = magic, []
        length = int.from_bytes(length_bytes, order)
        if length % 4 or length < 12 + len(body):
            raise CaptureError("capture-record", found=f"a block of {length} bytes", expected="a multiple of 4")
        body += _read(stream, length - 12 - len(body), "block")
        if _read(stream, 4, "block length") != length_bytes:
            raise CaptureError("capture-record", found="two lengths of one block", expected="the same one twice")
        kind = int.from_bytes(kind_bytes, order)
        if kind == _INTERFACE:
            if len(interfaces) >= INTERFACES_MAX:
                raise CaptureError("capture-record", found="more interfaces", expected=f"at most {INTERFACES_MAX}")
            interfaces.append(_interface(body, order))
        elif kind == _ENHANCED:
            yield _enhanced(body, order, interfaces)
        elif kind == _SIMPLE:
            yield _simple(body, order, interfaces)
        kind_bytes = stream.read(4)


def _number(body: bytes, at: int, order: Order) -> int:
    if at + 4 > len(body):
        raise CaptureError("capture-truncated", found=f"a block of {len(body)} bytes", expected=f"{at + 4}")
    return int.from_bytes(body[at : at + 4], order)


def _options(body: bytes, at: int, order: Order) -> Iterator[tuple[int, bytes]]:
    """(code, value) of the options from ``at`` on; the rest after the end mark, or cut, is left alone."""
    while at + 4 <= len(body):
        code, size = (int.from_bytes(body[at + k : at + k + 2], order) for k in (0, 2))
        if code == _OPTION_END:
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + (size + 3) // 4 * 4


def _interface(body: bytes, order: Order) -> _Interface:
    snap_length = _number(body, 4, order)
    link_type = int.from_bytes(body[:2], order)
    ticks_per_s, offset_s, description = 1_000_000, 0, ""
    for code, value in _options(body, 8, order):
        if code == _OPTION_RESOLUTION and len(value) == 1:
            power = value[0] & 0x7F
            if power > 63:
                raise CaptureError("capture-record", found=f"resolution {value[0]}", expected="at most 63")
            ticks_per_s = 2**power if value[0] & 0x80 else 10 ** min(power, 18)
        elif code == _OPTION_OFFSET and len(value) == 8:
            offset_s = int.from_bytes(value, order, signed=True)
        elif code == _OPTION_DESCRIPTION:
            description = value.decode("utf-8", "replace")
    return _Interface(link_type, snap_length, ticks_per_s, offset_s, description)


def _enhanced(body: bytes, order: Order, interfaces: list[_Interface]) -> Packet:
    index, high, low, size = (_number(body, at, order) for at in (0, 4, 8, 12))
    if index >= len(interfaces):
        raise CaptureError("capture-record", found=f"interface {index}", expected=f"below {len(interfaces)}")
    if size > len(body) - 20:
        raise CaptureError("capture-truncated", found=f"{len(body) - 20} bytes", expected=f"{size} of a packet")
    interface = interfaces[index]
    t_ns = (high << 32 | low) * _NS_PER_S // interface.ticks_per_s + interface.offset_s * _NS_PER_S
    dropped = 0
    for code, value in _options(body, 20 + (size + 3) // 4 * 4, order):
        if code == _OPTION_DROPS and len(value) == 8:
            dropped = int.from_bytes(value, order)
    return Packet(t_ns, interface.link_type, body[20 : 20 + size], interface.description, dropped)


def _simple(body: bytes, order: Order, interfaces: list[_Interface]) -> Packet:
    if not interfaces:
        raise CaptureError("capture-record", found="a packet before its interface", expected="an interface block")
    size = _number(body, 0, order)
    if interfaces[0].snap_length:
        size = min(size, interfaces[0].snap_length)
    if size > len(body) - 4:
        raise CaptureError("capture-truncated", found=f"{len(body) - 4} bytes", expected=f"{size} of a packet")
    return Packet(0, interfaces[0].link_type, body[4 : 4 + size])
