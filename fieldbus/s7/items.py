"""Pointers and data of read and write var."""

from __future__ import annotations

from fieldbus.cursor import Cursor
from fieldbus.s7.errors import S7Error
from fieldbus.s7.model import Area, DataItem, Item, ItemType, Transport

_ANY_HEAD = bytes((0x12, 0x0A, 0x10))
_NUMBERED = (Area.COUNTERS, Area.TIMERS)
_IN_BITS = (Transport.BIT, Transport.BYTE, Transport.INTEGER)
_BIT_ADDRESSES = 1 << 19  # 16 bits of byte and 3 of bit
SUCCESS = 0xFF


def decode_item(cursor: Cursor) -> Item:
    """An S7-Any pointer. Symbolic addressing of optimised blocks (syntax id 0xB2) is refused by name."""
    at = cursor.pos
    head = cursor.raw(3, "item head")
    if head[0] == 0x12 and head[2] == 0xB2:
        raise S7Error("optimised-block", found="symbolic addressing", expected="S7-Any pointers", offset=at)
    if head != _ANY_HEAD:
        raise S7Error("item-syntax", found=head.hex(), expected="12 0a 10 (S7-Any)", offset=at)
    kind = cursor.u8("element type")
    count, block = cursor.u16("element count"), cursor.u16("block number")
    area, address = cursor.u8("area"), cursor.uint(3, "address")
    if kind not in ItemType.__members__.values():
        raise S7Error("item-type", found=f"{kind:#04x}", expected="an element type", offset=at + 3)
    if area not in Area.__members__.values():
        raise S7Error("item-area", found=f"{area:#04x}", expected="a memory area", offset=at + 8)
    if area in _NUMBERED:
        return Item(Area(area), address, count, ItemType(kind), block)
    if address >= _BIT_ADDRESSES:
        raise S7Error("item-address", found=f"{address:#x}", expected="at most 19 bits", offset=at + 9)
    return Item(Area(area), address >> 3, count, ItemType(kind), block, address & 7)


def encode_item(item: Item) -> bytes:
    """Bytes of the pointer; raises S7Error ``item-address``."""
    address = item.start if item.area in _NUMBERED else item.start << 3 | item.bit
    limit = 1 << 24 if item.area in _NUMBERED else _BIT_ADDRESSES
    if not 0 <= address < limit or not 0 <= item.bit < 8 or (item.bit and item.area in _NUMBERED):
        raise S7Error("item-address", found=f"byte {item.start}, bit {item.bit}", expected="an address in the area")
    head = _ANY_HEAD + bytes((item.type,)) + item.count.to_bytes(2, "big") + item.block.to_bytes(2, "big")
    return head + bytes((item.area,)) + address.to_bytes(3, "big")


def decode_data(cursor: Cursor, *, last: bool) -> DataItem:
    """Data of one item; between items a fill byte makes the length even, after the last one it may."""
    at = cursor.pos
    code, kind = cursor.u8("return code"), cursor.u8("transport size")
    if kind not in Transport.__members__.values():
        raise S7Error("transport-size", found=f"{kind:#04x}", expected="0, 3 … 7 or 9", offset=at + 1)
    transport = Transport(kind)
    length = cursor.u16("data length")
    bits = length if transport in _IN_BITS else length * 8
    if transport is Transport.NULL and length:
        raise S7Error("transport-size", found=f"{length} with none", expected="a length of 0", offset=at + 2)
    size = (bits + 7) // 8
    data = cursor.raw(size, "data")
    if size % 2 and (not last or cursor.left == 1):
        cursor.raw(1, "fill byte")
    return DataItem(code, transport, data, bits if bits % 8 else None)


def encode_data(items: tuple[DataItem, ...]) -> bytes:
    """Data of items one after the other, with fill bytes between them."""
    out = bytearray()
    for index, item in enumerate(items):
        bits = len(item.data) * 8 if item.bits is None else item.bits
        if (bits + 7) // 8 != len(item.data):
            raise S7Error("data-length", found=f"{bits} bits", expected=f"{len(item.data)} bytes")
        length = bits if item.transport in _IN_BITS else len(item.data)
        out += bytes((item.code, item.transport)) + length.to_bytes(2, "big") + item.data
        if len(item.data) % 2 and index < len(items) - 1:
            out += b"\0"
    return bytes(out)
