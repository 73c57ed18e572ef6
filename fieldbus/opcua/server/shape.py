"""A walk over the bytes of a message before asyncua decodes them: lengths, depth, and how many values there are.

asyncua 2.1.0's decoder believes lengths: a negative one moves it backwards (so that an array of such strings never
ends), an array of Null with two thousand million elements takes no bytes and all memory, and a megabyte of one-byte
Variants becomes two hundred of objects. The walk follows the same type descriptions (OPC 10000-6, 5.2: binary
encoding), reads lengths only, and makes no object. What passes it is a complete message within ``Limits``; whether
the values are allowed (enumerations, times) is asyncua's to say.
"""

from __future__ import annotations

import functools
import struct
import types
from collections.abc import Callable
from dataclasses import fields
from enum import Enum, IntFlag
from typing import Any, Union, get_args, get_origin

from asyncua import ua
from asyncua.common.utils import Buffer
from asyncua.ua import ua_binary

from fieldbus.opcua.errors import OpcUaError
from fieldbus.opcua.server.limits import Limits

DEPTH_MAX = 16
"""Structures in structures, Variants in Variants; the deepest request of the standard takes nine."""

DIMENSIONS_MAX = 8

_SIZES = {
    "Boolean": 1, "SByte": 1, "Byte": 1, "Char": 1, "Int16": 2, "UInt16": 2, "Int32": 4, "UInt32": 4, "Float": 4,
    "Int64": 8, "UInt64": 8, "Double": 8, "DateTime": 8, "Guid": 16,
}  # fmt: skip
_LENGTH = struct.Struct("<i")

REQUESTS: dict[int, Any] = {
    getattr(ua.ObjectIds, f"{name}Request_Encoding_DefaultBinary"): getattr(ua, f"{name}Parameters")
    for name in (
        "GetEndpoints", "FindServers", "CreateSession", "ActivateSession", "Read", "Write", "Browse", "BrowseNext",
        "TranslateBrowsePathsToNodeIds", "RegisterNodes", "UnregisterNodes", "Call", "CreateSubscription",
        "ModifySubscription", "DeleteSubscriptions", "TransferSubscriptions", "SetPublishingMode", "Publish",
        "Republish", "CreateMonitoredItems", "ModifyMonitoredItems", "DeleteMonitoredItems", "SetMonitoringMode",
    )
} | {ua.ObjectIds.CloseSessionRequest_Encoding_DefaultBinary: ua.Boolean}  # fmt: skip
"""Services that are served, with what follows their request header; no node management, history or registration."""


class ShapeError(OpcUaError):
    """Bytes that are no message within the limits. ``code`` is ``shape``."""

    def __init__(self, found: str) -> None:
        super().__init__("shape", found=found, expected="a complete message within the limits")


Walk = Callable[["Cursor"], None]


class Cursor:
    """A place in a message and what is left of its allowances."""

    __slots__ = ("data", "depth", "elements", "end", "limits", "place")

    def __init__(self, data: bytes, limits: Limits) -> None:
        self.data = data
        self.place = 0
        self.end = len(data)
        self.depth = 0
        self.elements = limits.elements
        self.limits = limits

    def skip(self, size: int) -> None:
        """Pass over ``size`` >= 0 bytes."""
        if size > self.end - self.place:
            raise ShapeError(f"{size} bytes at {self.place} of {self.end}")
        self.place += size

    def byte(self) -> int:
        """One byte."""
        self.skip(1)
        return self.data[self.place - 1]

    def length(self, most: int) -> int:
        """A length, -1 as 0; at most ``most``."""
        self.skip(4)
        (value,) = _LENGTH.unpack_from(self.data, self.place - 4)
        if not -1 <= value <= most:
            raise ShapeError(f"a length of {value} at {self.place - 4}")
        return max(int(value), 0)

    def text(self) -> None:
        """A String, ByteString or XmlElement."""
        self.skip(self.length(self.limits.string_bytes))

    def count(self, number: int) -> None:
        """Take ``number`` values off the allowance."""
        self.elements -= number
        if self.elements < 0:
            raise ShapeError(f"over {self.limits.elements} values")

    def deeper(self, walk: Walk) -> None:
        """One level down."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ShapeError(f"over {DEPTH_MAX} levels")
        walk(self)
        self.depth -= 1


def check(kind: Any, data: bytes, limits: Limits, *, whole: bool = True) -> None:
    """Raise ShapeError unless ``data`` is one ``kind``; with ``whole`` and nothing after it."""
    cursor = Cursor(data, limits)
    _walk_of(kind)(cursor)
    if whole and cursor.place != cursor.end:
        raise ShapeError(f"{cursor.end - cursor.place} bytes too many")


def check_request(data: bytes, limits: Limits) -> int | None:
    """The number of the service's encoding, None for one that is not served; raises ShapeError."""
    cursor = Cursor(data, limits)
    _node_id(cursor)
    number = _service(data[: cursor.place])
    _walk_of(ua.RequestHeader)(cursor)
    kind = REQUESTS.get(number) if number is not None else None
    if kind is None:
        return None
    _walk_of(kind)(cursor)
    if cursor.place != cursor.end:
        raise ShapeError(f"{cursor.end - cursor.place} bytes too many")
    return number


def service_number(data: bytes, limits: Limits) -> int | None:
    """The number of the encoding that a message names first, None for one that is no service's; raises ShapeError."""
    cursor = Cursor(data, limits)
    _node_id(cursor)
    return _service(data[: cursor.place])


def _service(node_id: bytes) -> int | None:
    """The number of a numeric NodeId of namespace 0 in either of its compact forms."""
    if node_id[0] == 1 and node_id[1] == 0:
        return int.from_bytes(node_id[2:4], "little")
    if node_id[0] == 2 and node_id[1:3] == b"\0\0":
        return int.from_bytes(node_id[3:7], "little")
    return None


def _node_id(cursor: Cursor) -> None:
    encoding = cursor.byte()
    form = encoding & 0x3F
    if form in (3, 5):
        cursor.skip(2)
        cursor.text()
    elif form in _NODE_ID_BYTES:
        cursor.skip(_NODE_ID_BYTES[form])
    else:
        raise ShapeError(f"a NodeId of form {form}")
    if encoding & 0x80:
        cursor.text()
    if encoding & 0x40:
        cursor.skip(4)


_NODE_ID_BYTES = {0: 1, 1: 3, 2: 6, 4: 18}


def _variant(cursor: Cursor) -> None:
    cursor.count(1)
    encoding = cursor.byte()
    kind = encoding & 0x3F
    if kind > ua.VariantType.DiagnosticInfo.value:
        raise ShapeError(f"a Variant of type {kind}")
    if not encoding & 0x80:
        if encoding & 0x40:
            raise ShapeError("dimensions without an array")
        if kind:
            cursor.deeper(_builtin(kind))
        return
    length = _array(cursor, _builtin(kind), nothing=kind == 0)
    if encoding & 0x40:
        _dimensions(cursor, length)


def _array(cursor: Cursor, walk: Walk, *, nothing: bool = False) -> int:
    length = cursor.length(cursor.limits.array_length)
    if length and nothing:
        raise ShapeError("an array of nothing")
    cursor.count(length)
    size = _FIXED.get(walk)
    if size is not None:
        cursor.skip(length * size)
    else:
        for _ in range(length):
            cursor.deeper(walk)
    return length


def _dimensions(cursor: Cursor, length: int) -> None:
    count = cursor.length(DIMENSIONS_MAX)
    product = 1
    for _ in range(count):
        product *= cursor.length(cursor.limits.array_length)
    if not count or product != length:
        raise ShapeError(f"dimensions of {product} for {length} elements")


def _extension_object(cursor: Cursor) -> None:
    start = cursor.place
    _node_id(cursor)
    node_id = cursor.data[start : cursor.place]
    encoding = cursor.byte()
    if encoding == 0:
        return
    if encoding != 1:  # asyncua takes the type of an XML body for the type of the bytes that follow
        raise ShapeError(f"an ExtensionObject of encoding {encoding}")
    (length,) = _LENGTH.unpack(cursor.data[cursor.place : cursor.place + 4].ljust(4, b"\xff"))
    cursor.skip(4)
    if not 0 <= length <= cursor.end - cursor.place:
        raise ShapeError(f"a body of {length} bytes at {cursor.place} of {cursor.end}")
    end = cursor.place + length
    kind = ua.extension_objects_by_typeid.get(ua_binary.nodeid_from_binary(Buffer(node_id)))
    if kind is not None:
        outer, cursor.end = cursor.end, end
        cursor.count(1)
        cursor.deeper(_walk_of(kind))
        cursor.end = outer
    cursor.place = end


def _nothing(cursor: Cursor) -> None:
    """Null."""


def _fixed(size: int) -> Walk:
    def walk(cursor: Cursor) -> None:
        cursor.skip(size)

    _FIXED[walk] = size
    return walk


_FIXED: dict[Walk, int] = {}
_WALKS: dict[str, Walk] = {name: _fixed(size) for name, size in _SIZES.items()} | {
    "String": Cursor.text,
    "CharArray": Cursor.text,
    "ByteString": Cursor.text,
    "Bytes": Cursor.text,
    "XmlElement": Cursor.text,
    "NodeId": _node_id,
    "ExpandedNodeId": _node_id,
    "Variant": _variant,
    "ExtensionObject": _extension_object,
    "Null": _nothing,
}


@functools.cache
def _builtin(kind: int) -> Walk:
    name = ua.VariantType(kind).name
    return _WALKS[name] if name in _WALKS else _walk_of(getattr(ua, name))


@functools.cache
def _walk_of(kind: Any) -> Walk:
    """The walk of a type as asyncua's deserializer takes it."""
    origin = get_origin(kind)
    if origin is list:
        (inner,) = get_args(kind)
        element = _walk_of(_resolved(inner))
        return lambda cursor: _ignore(_array(cursor, element))
    if origin in (Union, types.UnionType):
        return _walk_of(_resolved(get_args(kind)[0]))
    if origin is not None:  # "type or a subtype of it": sent as an ExtensionObject
        return _extension_object
    if kind.__name__ in _WALKS:
        return _WALKS[kind.__name__]
    if issubclass(kind, Enum):
        name = kind.datatype() if issubclass(kind, IntFlag) and hasattr(kind, "datatype") else "Int32"
        return _WALKS[name]
    if issubclass(kind, ua.UaUnion):
        raise ShapeError(f"a union, {kind.__name__}")
    for base in kind.__mro__[1:]:
        if base.__name__ in _WALKS and base.__module__.startswith("asyncua"):
            return _WALKS[base.__name__]
    return _structure(kind)


def _ignore(_: int) -> None:
    """The length is of interest to Variants only."""


def _resolved(kind: Any) -> Any:
    return ua_binary.resolve_uatype(kind)[0] if isinstance(kind, str) else kind


def _structure(kind: Any) -> Walk:
    """Fields in order; optional ones by the bits of ``Encoding``. Compiled at first use, as types name themselves."""
    steps: list[tuple[int, bool, Walk]] | None = None

    def walk(cursor: Cursor) -> None:
        nonlocal steps
        if steps is None:
            steps = _steps(kind)
        mask = 0
        for bit, is_mask, step in steps:
            if is_mask:
                mask = cursor.data[cursor.place] if cursor.place < cursor.end else 0
                step(cursor)
            elif bit == 0 or mask & bit:
                cursor.deeper(step)

    return walk


def _steps(kind: Any) -> list[tuple[int, bool, Walk]]:
    steps: list[tuple[int, bool, Walk]] = []
    hints = ua_binary.get_safe_type_hints(kind, {"ua": ua})
    bit = 1
    for field in fields(kind):
        hint = hints[field.name]
        mine = 0
        if get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
            mine, bit, hint = bit, bit << 1, get_args(hint)[0]
        steps.append((mine, field.name == "Encoding", _walk_of(hint)))
    return steps
