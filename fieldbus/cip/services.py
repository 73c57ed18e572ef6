"""Services of Logix tags, symbols, templates and connections: what a request asks (Rockwell 1756-PM020).

A service code means different things to different objects (0x4E closes a connection, and changes bits of a tag), so
its class decides; one that is not known for a class keeps its data as ``Other`` and is never interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.cip.errors import CipError
from fieldbus.cip.limits import NESTING_MAX, SERVICES_MAX
from fieldbus.cip.message import Reply, Request, decode_message, encode_message
from fieldbus.cip.path import Path, class_of, decode_path, encode_path
from fieldbus.cip.types import STRUCTURE, elementary
from fieldbus.cursor import Cursor

GET_ALL, GET_LIST, MULTIPLE, GET_SINGLE = 0x01, 0x03, 0x0A, 0x0E
READ_TAG, WRITE_TAG, READ_FRAGMENT, WRITE_FRAGMENT, CHANGE_BITS = 0x4C, 0x4D, 0x52, 0x53, 0x4E
READ_TEMPLATE, LIST_INSTANCES = 0x4C, 0x55
UNCONNECTED_SEND, FORWARD_OPEN, FORWARD_CLOSE, LARGE_FORWARD_OPEN = 0x52, 0x54, 0x4E, 0x5B
IDENTITY_CLASS, ROUTER_CLASS, CONNECTION_MANAGER, SYMBOL_CLASS, TEMPLATE_CLASS = 0x01, 0x02, 0x06, 0x6B, 0x6C


@dataclass(frozen=True, slots=True)
class ReadTag:
    """Read ``elements`` of a tag; ``offset`` (bytes) only in the fragmented service."""

    elements: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class WriteTag:
    """Write elements of a tag. ``structure``: the template's handle where ``type`` is that of a structure."""

    type: int
    structure: int | None
    elements: int
    offset: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class ChangeBits:
    """Read-modify-write: first or-mask, then and-mask."""

    or_mask: bytes
    and_mask: bytes


@dataclass(frozen=True, slots=True)
class GetAttributes:
    """Attributes by number; ``all`` asks for every one. ``extra``: bytes behind such a request, which has none;
    some clients leave their route there, and controllers read it over."""

    numbers: tuple[int, ...] = ()
    all: bool = False
    extra: bytes = b""


@dataclass(frozen=True, slots=True)
class ListInstances:
    """Instances from the path's on, with these attributes of each."""

    attributes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReadTemplate:
    """``size`` bytes of a template's definition from ``offset``."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Multiple:
    """Several messages in one."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Unconnected send: the message and its route."""

    tick: int
    ticks: int
    message: Request
    route: Path


@dataclass(frozen=True, slots=True)
class ForwardOpen:
    """Open a connection. RPIs in µs; connection parameters as sent (16 bits, 32 in the large form)."""

    tick: int
    ticks: int
    to_target: int
    to_originator: int
    serial: int
    vendor: int
    originator: int
    multiplier: int
    rpi_to_target_us: int
    parameters_to_target: int
    rpi_to_originator_us: int
    parameters_to_originator: int
    trigger: int
    path: Path
    large: bool


@dataclass(frozen=True, slots=True)
class ForwardClose:
    """Close the connection with these numbers."""

    tick: int
    ticks: int
    serial: int
    vendor: int
    originator: int
    path: Path


@dataclass(frozen=True, slots=True)
class Other:
    """A service that is not interpreted."""

    data: bytes


Asked: TypeAlias = (
    ReadTag
    | WriteTag
    | ChangeBits
    | GetAttributes
    | ListInstances
    | ReadTemplate
    | Multiple
    | Send
    | ForwardOpen
    | ForwardClose
    | Other
)


def asked(request: Request, depth: int = 0) -> Asked:
    """What ``request`` asks. Raises CipError ``nesting``, ``truncated``, ``trailing-bytes`` and named rules."""
    if depth >= NESTING_MAX:
        raise CipError("nesting", found=f"{depth + 1} messages in each other", expected=f"at most {NESTING_MAX}")
    cursor = Cursor(request.data, CipError, "little")
    body = _asked(request, cursor, depth)
    cursor.done("request data")
    return body


def _asked(request: Request, cursor: Cursor, depth: int) -> Asked:
    about = class_of(request.path)
    if about is None or about == SYMBOL_CLASS:
        tag = _tag(request.service, cursor)
        if tag is not None:
            return tag
    if about == CONNECTION_MANAGER:
        managed = _managed(request.service, cursor, depth)
        if managed is not None:
            return managed
    if about == ROUTER_CLASS and request.service == MULTIPLE:
        return _multiple(cursor, depth)
    if about == TEMPLATE_CLASS and request.service == READ_TEMPLATE:
        return ReadTemplate(cursor.u32("offset"), cursor.u16("size"))
    if request.service == GET_ALL:
        return GetAttributes(all=True, extra=cursor.rest())
    if request.service == GET_LIST:
        return GetAttributes(_numbers(cursor))
    if about == SYMBOL_CLASS and request.service == LIST_INSTANCES:
        return ListInstances(_numbers(cursor))
    return Other(cursor.rest())


def _numbers(cursor: Cursor) -> tuple[int, ...]:
    count = cursor.u16("attribute count")
    if cursor.left != 2 * count:
        raise CipError("data-length", found=f"{cursor.left} bytes", expected=f"{2 * count} of attribute numbers")
    return tuple(cursor.u16("attribute") for _ in range(count))


def _tag(service: int, cursor: Cursor) -> Asked | None:
    if service in (READ_TAG, READ_FRAGMENT):
        elements = _elements(cursor)
        return ReadTag(elements, cursor.u32("offset") if service == READ_FRAGMENT else None)
    if service in (WRITE_TAG, WRITE_FRAGMENT):
        kind = cursor.u16("type")
        handle = cursor.u16("structure handle") if kind == STRUCTURE else None
        size = 1 if handle is not None else elementary(kind).size
        elements = _elements(cursor)
        offset = cursor.u32("offset") if service == WRITE_FRAGMENT else None
        data = cursor.rest()
        if not data or len(data) % size or (handle is None and offset is None and len(data) != elements * size):
            raise CipError("data-length", found=f"{len(data)} bytes", expected=f"{elements} elements of {size}")
        return WriteTag(kind, handle, elements, offset, data)
    if service == CHANGE_BITS:
        size = cursor.u16("size of masks")
        if size not in (1, 2, 4, 8, 12):
            raise CipError("mask-size", found=str(size), expected="1, 2, 4, 8 or 12")
        return ChangeBits(cursor.raw(size, "or mask"), cursor.raw(size, "and mask"))
    return None


def _elements(cursor: Cursor) -> int:
    elements = cursor.u16("elements")
    if not elements:
        raise CipError("elements", found="0", expected="at least 1")
    return elements


def _multiple(cursor: Cursor, depth: int) -> Multiple:
    requests = []
    for data in split(cursor):
        message = decode_message(data)
        if not isinstance(message, Request):
            raise CipError("multiple-message", found="a reply in a request", expected="requests")
        asked(message, depth + 1)
        requests.append(message)
    return Multiple(tuple(requests))


def split(cursor: Cursor) -> list[bytes]:
    """The messages of a multiple service packet: their offsets ascend and leave no gap before the first.

    Raises CipError ``multiple-count``, ``multiple-offset``.
    """
    data = cursor.rest()
    table = Cursor(data, CipError, "little")
    count = table.u16("number of services")
    if not 1 <= count <= SERVICES_MAX:
        raise CipError("multiple-count", found=str(count), expected=f"1 … {SERVICES_MAX}")
    offsets = [table.u16("offset") for _ in range(count)]
    ends = [*offsets[1:], len(data)]
    if offsets[0] != 2 + 2 * count or any(start >= end for start, end in zip(offsets, ends, strict=True)):
        raise CipError("multiple-offset", found=str(offsets[:4]), expected="ascending offsets behind the table")
    return [data[start:end] for start, end in zip(offsets, ends, strict=True)]


def join(messages: tuple[Request | Reply, ...]) -> bytes:
    """Data of a multiple service packet. Raises CipError ``multiple-count``, ``multiple-offset``."""
    if not 1 <= len(messages) <= SERVICES_MAX:
        raise CipError("multiple-count", found=str(len(messages)), expected=f"1 … {SERVICES_MAX}")
    parts = [encode_message(message) for message in messages]
    offset, table = 2 + 2 * len(parts), len(parts).to_bytes(2, "little")
    for part in parts:
        if offset > 0xFFFF:
            raise CipError("multiple-offset", found=str(offset), expected="16 bits")
        table += offset.to_bytes(2, "little")
        offset += len(part)
    return table + b"".join(parts)


def _managed(service: int, cursor: Cursor, depth: int) -> Asked | None:
    if service == UNCONNECTED_SEND:
        tick, ticks = cursor.u8("tick"), cursor.u8("timeout ticks")
        size = cursor.u16("message size")
        message = decode_message(cursor.raw(size, "message"))
        if size % 2:
            cursor.expect(0, 1, "path-pad", "pad byte")
        route = _reserved_path(cursor)
        if not isinstance(message, Request):
            raise CipError("multiple-message", found="a reply", expected="a request to send")
        asked(message, depth + 1)
        return Send(tick, ticks, message, route)
    if service in (FORWARD_OPEN, LARGE_FORWARD_OPEN):
        return _forward_open(cursor, large=service == LARGE_FORWARD_OPEN)
    if service == FORWARD_CLOSE:
        times = cursor.u8("tick"), cursor.u8("timeout ticks")
        numbers = cursor.u16("connection serial"), cursor.u16("vendor"), cursor.u32("originator serial")
        return ForwardClose(*times, *numbers, _reserved_path(cursor))
    return None


def _reserved_path(cursor: Cursor) -> Path:
    size = cursor.u8("size of path")
    cursor.expect(0, 1, "reserved", "reserved byte behind a path size")
    return decode_path(cursor.raw(2 * size, "path"))


def _forward_open(cursor: Cursor, *, large: bool) -> ForwardOpen:
    width = 4 if large else 2
    times = cursor.u8("tick"), cursor.u8("timeout ticks")
    ids = cursor.u32("O→T identifier"), cursor.u32("T→O identifier")
    numbers = cursor.u16("connection serial"), cursor.u16("vendor"), cursor.u32("originator serial")
    multiplier = cursor.u8("timeout multiplier")
    cursor.raw(3, "reserved")  # PyComm3 and others leave a copy of the multiplier's field here
    to_target = cursor.u32("O→T RPI"), cursor.uint(width, "O→T parameters")
    to_originator = cursor.u32("T→O RPI"), cursor.uint(width, "T→O parameters")
    trigger = cursor.u8("transport trigger")
    path = decode_path(cursor.raw(2 * cursor.u8("size of path"), "path"))
    return ForwardOpen(*times, *ids, *numbers, multiplier, *to_target, *to_originator, trigger, path, large)


def forward_open(body: ForwardOpen) -> bytes:
    """Data of a forward open. Raises OverflowError where a number does not fit."""
    width = 4 if body.large else 2
    fields = (
        (body.tick, 1),
        (body.ticks, 1),
        (body.to_target, 4),
        (body.to_originator, 4),
        (body.serial, 2),
        (body.vendor, 2),
        (body.originator, 4),
        (body.multiplier, 1),
        (0, 3),
        (body.rpi_to_target_us, 4),
        (body.parameters_to_target, width),
        (body.rpi_to_originator_us, 4),
        (body.parameters_to_originator, width),
        (body.trigger, 1),
    )
    path = encode_path(body.path)
    return b"".join(value.to_bytes(size, "little") for value, size in fields) + bytes((len(path) // 2,)) + path


def forward_close(body: ForwardClose) -> bytes:
    """Data of a forward close. Raises OverflowError where a number does not fit."""
    numbers = body.serial.to_bytes(2, "little") + body.vendor.to_bytes(2, "little")
    path = encode_path(body.path)
    head = bytes((body.tick, body.ticks)) + numbers + body.originator.to_bytes(4, "little")
    return head + bytes((len(path) // 2, 0)) + path


def unconnected_send(body: Send) -> bytes:
    """Data of an unconnected send."""
    message, route = encode_message(body.message), encode_path(body.route)
    head = bytes((body.tick, body.ticks)) + len(message).to_bytes(2, "little") + message + bytes(len(message) % 2)
    return head + bytes((len(route) // 2, 0)) + route
