"""A look at the protocol buffer before it is parsed, so that a small file cannot become a large object tree.

An empty message takes two bytes in a file and hundreds in memory; 64 MiB of them would need gigabytes. The walk
follows the schema onnx itself carries, counts every field and stops at the first limit.
Source: Protocol Buffers encoding guide (wire types 0, 1, 2, 5; groups are refused).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitsedge.compiler.importer.limits import PACKED_BYTES_MAX, WIRE_DEPTH_MAX, WIRE_FIELDS_MAX, refuse, require

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_WIDE = frozenset({"float_data", "double_data", "floats"})
"""Packed fields whose elements are as large in the file as in memory."""


def scan(data: bytes, descriptor: Any) -> None:
    """Raise ``OnnxImportError`` (``onnx-syntax``, ``oversize``) unless ``data`` is small in memory, its text UTF-8."""
    fields = packed = 0
    todo: list[tuple[int, int, Any, int]] = [(0, len(data), descriptor, 1)]
    schema: dict[str, dict[int, Any]] = {}
    while todo:
        start, end, message, depth = todo.pop()
        require(depth, WIRE_DEPTH_MAX, "nested messages")
        known = schema.setdefault(message.full_name, {f.number: f for f in message.fields})
        for number, kind, begin, stop in _fields(data, start, end):
            fields += 1
            require(fields, WIRE_FIELDS_MAX, "fields of the protocol buffer or more")
            if kind != _BYTES:
                continue
            field = known.get(number)
            if field is None:
                continue
            if field.message_type is not None:
                todo.append((begin, stop, field.message_type, depth + 1))
            elif field.type == field.TYPE_STRING:
                _text(data[begin:stop])
            elif field.type != field.TYPE_BYTES and field.name not in _WIDE:
                packed += stop - begin
                require(packed, PACKED_BYTES_MAX, "bytes of packed integers", "store tensors as raw_data")


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Field number, wire type, begin and end of the payload of every field between ``at`` and ``end``."""
    while at < end:
        key, at = _varint(data, at, end)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, stop = _varint(data, at, end)
        elif kind == _FIXED64:
            stop = at + 8
        elif kind == _FIXED32:
            stop = at + 4
        elif kind == _BYTES:
            length, at = _varint(data, at, end)
            stop = at + length
        else:
            raise _syntax(f"wire type {kind}")
        if stop > end or not number:
            raise _syntax("a field beyond its message")
        yield number, kind, at, stop
        at = stop


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= end:
            break
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise _syntax("an unfinished integer")


def _text(raw: bytes) -> None:
    # The parser hands strings that are no UTF-8 out as bytes, which nothing after it expects.
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise _syntax("a string that is no UTF-8") from error


def _syntax(found: str) -> Exception:
    return refuse("onnx-syntax", f"bytes that are no protocol buffer ({found})", "an ONNX model")
