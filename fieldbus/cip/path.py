"""Padded EPATHs (CIP Networks Library, volume 1, appendix C-1.4): how a message names what it is for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from fieldbus.cip.errors import CipError
from fieldbus.cip.limits import NAME_BYTES_MAX, PATH_BYTES_MAX, SEGMENTS_MAX
from fieldbus.cursor import Cursor


class LogicalKind(IntEnum):
    """Logical types, as in bits 2-4 of the segment."""

    CLASS = 0
    INSTANCE = 1
    MEMBER = 2
    CONNECTION_POINT = 3
    ATTRIBUTE = 4


@dataclass(frozen=True, slots=True)
class Logical:
    """Class, instance, element … by number, ``width`` bytes wide on the wire."""

    kind: LogicalKind
    value: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class Symbol:
    """A tag or member by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Port:
    """A hop: out of ``port`` to the link address there."""

    port: int
    address: bytes


@dataclass(frozen=True, slots=True)
class Key:
    """An electronic key: vendor, device type, product code, revision (bit 7 of the major: compatible)."""

    vendor: int
    device_type: int
    product: int
    major: int
    minor: int


Segment: TypeAlias = Logical | Symbol | Port | Key
Path: TypeAlias = tuple[Segment, ...]

_SYMBOL = 0x91
_KEY = 0x34
_KEY_FORMAT = 0x04
_WIDTHS = (1, 2, 4)
_LONG_PORT = 15
_LONG_ADDRESS = 0x10


def decode_path(data: bytes) -> Path:
    """Segments of a padded path. Raises CipError ``path-segment``, ``path-pad``, ``path-length``, ``truncated``."""
    if len(data) > PATH_BYTES_MAX:
        raise CipError("path-length", found=f"{len(data)} bytes", expected=f"at most {PATH_BYTES_MAX}")
    cursor = Cursor(data, CipError, "little")
    segments: list[Segment] = []
    while cursor.left:
        if len(segments) >= SEGMENTS_MAX:
            raise CipError("path-length", found="more segments", expected=f"at most {SEGMENTS_MAX}")
        segments.append(_segment(cursor))
    return tuple(segments)


def _segment(cursor: Cursor) -> Segment:
    at = cursor.pos
    head = cursor.u8("path segment")
    if head == _SYMBOL:
        return _symbol(cursor)
    if head == _KEY:
        cursor.expect(_KEY_FORMAT, 1, "path-segment", "key format")
        numbers = cursor.u16("vendor"), cursor.u16("device type"), cursor.u16("product code")
        return Key(*numbers, cursor.u8("major revision"), cursor.u8("minor revision"))
    if head >> 5 == 1:
        kind, width = head >> 2 & 7, head & 3
        if kind > LogicalKind.ATTRIBUTE or width >= len(_WIDTHS) or (width == 2 and kind not in (1, 2, 3)):
            raise CipError("path-segment", found=f"{head:#04x}", expected="a logical segment", offset=at)
        if width:
            cursor.expect(0, 1, "path-pad", "pad byte")
        return Logical(LogicalKind(kind), cursor.uint(_WIDTHS[width], "logical value"), _WIDTHS[width])
    if head >> 5 == 0 and head & 15:
        return _port(cursor, head)
    raise CipError("path-segment", found=f"{head:#04x}", expected="logical, symbol, port or key", offset=at)


def _symbol(cursor: Cursor) -> Symbol:
    at = cursor.pos
    size = cursor.u8("length of symbol")
    name = cursor.raw(size, "symbol")
    if size % 2:
        cursor.expect(0, 1, "path-pad", "pad byte")
    if not name or not name.isascii() or not name.decode("ascii").isprintable():
        raise CipError("symbol-name", found=name.hex(), expected="printable ASCII", offset=at)
    return Symbol(name.decode("ascii"))


def _port(cursor: Cursor, head: int) -> Port:
    size = cursor.u8("length of link address") if head & _LONG_ADDRESS else 1
    port = head & 15
    if port == _LONG_PORT:
        port = cursor.u16("port")
        if port < _LONG_PORT:
            raise CipError("path-segment", found=f"port {port} in two bytes", expected="the short form")
    address = cursor.raw(size, "link address")
    if head & _LONG_ADDRESS:
        if size < 2:
            raise CipError("path-segment", found=f"{size} byte with a length", expected="the short form")
        if size % 2:
            cursor.expect(0, 1, "path-pad", "pad byte")
    return Port(port, address)


def encode_path(path: Path) -> bytes:
    """Bytes of a padded path. Raises CipError ``path-length``, ``path-segment``, ``symbol-name``."""
    try:
        data = b"".join(map(_encode_segment, path))
    except (OverflowError, UnicodeEncodeError):
        raise CipError("path-segment", found="a number or name", expected="one that fits its segment") from None
    if len(data) > PATH_BYTES_MAX or len(path) > SEGMENTS_MAX:
        raise CipError("path-length", found=f"{len(data)} bytes", expected=f"at most {PATH_BYTES_MAX}")
    return data


def _encode_segment(segment: Segment) -> bytes:
    match segment:
        case Symbol(name):
            raw = name.encode("ascii")
            if not 1 <= len(raw) <= NAME_BYTES_MAX:
                raise CipError("symbol-name", found=f"{len(raw)} bytes", expected=f"1 … {NAME_BYTES_MAX}")
            return bytes((_SYMBOL, len(raw))) + raw + bytes(len(raw) % 2)
        case Logical(kind, value, width):
            if width not in _WIDTHS:
                raise CipError("path-segment", found=f"{width} bytes", expected="1, 2 or 4")
            first = 0x20 | kind << 2 | _WIDTHS.index(width)
            return bytes((first,)) + bytes(width > 1) + value.to_bytes(width, "little")
        case Port(port, address):
            long = len(address) > 1
            head = bytes((min(port, _LONG_PORT) | (_LONG_ADDRESS if long else 0),))
            head += bytes((len(address),)) if long else b""
            head += port.to_bytes(2, "little") if port >= _LONG_PORT else b""
            return head + address + bytes(len(address) % 2 if long else 0)
        case Key():
            numbers = (segment.vendor, segment.device_type, segment.product)
            head = bytes((_KEY, _KEY_FORMAT)) + b"".join(number.to_bytes(2, "little") for number in numbers)
            return head + bytes((segment.major, segment.minor))


def logical(kind: LogicalKind, value: int) -> Logical:
    """The shortest segment that holds ``value``."""
    width = 1 if value < 1 << 8 else 2 if value < 1 << 16 else 4
    return Logical(kind, value, width)


def to_object(class_id: int, instance: int, attribute: int | None = None) -> Path:
    """Path to an instance of a class, or to an attribute of it."""
    path = (logical(LogicalKind.CLASS, class_id), logical(LogicalKind.INSTANCE, instance))
    return path if attribute is None else (*path, logical(LogicalKind.ATTRIBUTE, attribute))


def to_tag(text: str) -> Path:
    """Path of a tag as people write it: ``Pump[3].Speed``, ``Program:Main.State``, ``Grid[1,2]``.

    Raises CipError ``tag-name``.
    """
    scope, _, rest = text.partition(".") if text.startswith("Program:") else ("", "", text)
    path: list[Segment] = [Symbol(scope)] if scope else []
    for part in rest.split("."):
        name, bracket, indices = part.partition("[")
        if not name or not name.isascii() or not name.replace("_", "a").isalnum() or name[0].isdigit():
            raise CipError("tag-name", found=repr(text), expected="a name such as Pump[3].Speed")
        path.append(Symbol(name))
        if bracket:
            numbers = indices[:-1].split(",") if indices.endswith("]") else [""]
            if not all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers):
                raise CipError("tag-name", found=repr(text), expected="indices such as [3] or [1,2]")
            path += [logical(LogicalKind.MEMBER, int(number)) for number in numbers]
    return tuple(path)


def to_scope(text: str) -> Path:
    """Path of a program (``Program:Main``), empty for the controller. Raises CipError ``tag-name``."""
    if not text:
        return ()
    kind, _, name = text.partition(":")
    if kind != "Program" or not name.isascii() or not name.replace("_", "a").isalnum():
        raise CipError("tag-name", found=repr(text), expected="a scope such as Program:Main")
    return (Symbol(text),)


def class_of(path: Path) -> int | None:
    """Number of the class a path begins with, in a program or not; None where it begins with a tag."""
    first = path[0] if path else None
    if isinstance(first, Symbol) and first.name.startswith("Program:") and len(path) > 1:
        first = path[1]
    return first.value if isinstance(first, Logical) and first.kind is LogicalKind.CLASS else None
