"""What a reply says to its request: values, attributes, symbols, parts of templates, connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity, decode_identity
from fieldbus.cip.limits import NAME_BYTES_MAX, SYMBOLS_MAX
from fieldbus.cip.message import Reply, Request, decode_message
from fieldbus.cip.path import class_of
from fieldbus.cip.services import (
    IDENTITY_CLASS,
    Asked,
    ForwardClose,
    ForwardOpen,
    GetAttributes,
    ListInstances,
    Multiple,
    ReadTag,
    ReadTemplate,
    Send,
    asked,
    split,
)
from fieldbus.cip.status import refusal
from fieldbus.cip.types import STRUCTURE, Value, decode_values, elementary
from fieldbus.cursor import Cursor

PARTIAL = 0x06
"""General status: success so far, the rest has to be asked for."""


@dataclass(frozen=True, slots=True)
class TagValues:
    """Elements of an elementary tag; ``more`` where a fragmented read has to go on."""

    type: str
    values: tuple[Value, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class StructureData:
    """Bytes of a structure with its template's handle; ``template.read_structure`` reads them."""

    handle: int
    data: bytes
    more: bool = False


@dataclass(frozen=True, slots=True)
class Attributes:
    """Bytes of attributes that are not interpreted."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SymbolEntry:
    """One tag: instance, name, symbol type, dimensions (0 where there is none)."""

    instance: int
    name: str | None
    type: int | None
    dimensions: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Symbols:
    """Tags of one answer; ``more`` where the list goes on behind the last instance."""

    entries: tuple[SymbolEntry, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class TemplatePart:
    """A part of a template's definition."""

    data: bytes
    more: bool


@dataclass(frozen=True, slots=True)
class Replies:
    """Answers of a multiple service packet, each against its request."""

    items: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """An open connection: identifiers, serials, actual packet intervals in µs, application reply."""

    to_target: int
    to_originator: int
    serial: int
    vendor: int
    originator: int
    interval_to_target_us: int
    interval_to_originator_us: int
    extra: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed connection."""

    serial: int
    vendor: int
    originator: int
    extra: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """A general status that is no success, its extended status and what both mean."""

    status: int
    extended: tuple[int, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class Done:
    """Success; ``data`` of a service that is not interpreted."""

    data: bytes


Said: TypeAlias = (
    TagValues
    | StructureData
    | Attributes
    | Identity
    | Symbols
    | TemplatePart
    | Replies
    | Opened
    | Closed
    | Refused
    | Done
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A service and what was said to it."""

    service: int
    said: Said


def said(request: Request, reply: Reply, depth: int = 0) -> Said:
    """What ``reply`` says to ``request``. Raises CipError ``reply-service`` (an answer to something else), …"""
    question = asked(request, depth)
    if isinstance(question, Send):
        if reply.service == request.service and reply.status not in (0, PARTIAL):
            return Refused(reply.status, reply.extended, refusal(reply.status, reply.extended))
        return said(question.message, reply, depth + 1)
    if reply.service != request.service:
        raise CipError("reply-service", found=f"{reply.service:#04x}", expected=f"{request.service:#04x}")
    if reply.status not in (0, PARTIAL) and not isinstance(question, Multiple):
        return Refused(reply.status, reply.extended, refusal(reply.status, reply.extended))
    if isinstance(question, Multiple) and not reply.data:
        return Refused(reply.status, reply.extended, refusal(reply.status, reply.extended))
    cursor = Cursor(reply.data, CipError, "little")
    answer = _said(request, question, cursor, more=reply.status == PARTIAL, depth=depth)
    cursor.done("reply data")
    return answer


def _said(request: Request, question: Asked, cursor: Cursor, *, more: bool, depth: int) -> Said:
    match question:
        case ReadTag():
            return _values(question, cursor, more=more)
        case Multiple():
            return _replies(question, cursor, depth)
        case ListInstances():
            return _symbols(question, cursor, more=more)
        case ReadTemplate():
            return TemplatePart(cursor.rest(), more)
        case GetAttributes():
            if question.all and class_of(request.path) == IDENTITY_CLASS:
                return decode_identity(cursor.rest())
            return Attributes(cursor.rest())
        case ForwardOpen():
            ids = cursor.u32("O→T identifier"), cursor.u32("T→O identifier")
            numbers = cursor.u16("connection serial"), cursor.u16("vendor"), cursor.u32("originator serial")
            intervals = cursor.u32("O→T interval"), cursor.u32("T→O interval")
            return Opened(*ids, *numbers, *intervals, _application(cursor))
        case ForwardClose():
            numbers = cursor.u16("connection serial"), cursor.u16("vendor"), cursor.u32("originator serial")
            return Closed(*numbers, _application(cursor))
        case _:
            return Done(cursor.rest())


def _application(cursor: Cursor) -> bytes:
    words = cursor.u8("size of application reply")
    cursor.expect(0, 1, "reserved", "reserved byte")
    return cursor.raw(2 * words, "application reply")


def _values(question: ReadTag, cursor: Cursor, *, more: bool) -> TagValues | StructureData:
    code = cursor.u16("type")
    if code == STRUCTURE:
        return StructureData(cursor.u16("structure handle"), cursor.rest(), more)
    kind = elementary(code)
    values = decode_values(kind, cursor.rest())
    whole = len(values) == question.elements or (question.offset is not None and 0 < len(values) < question.elements)
    if not more and not whole:
        raise CipError("elements", found=str(len(values)), expected=f"{question.elements} that were asked for")
    return TagValues(kind.name, values, more)


def _replies(question: Multiple, cursor: Cursor, depth: int) -> Replies:
    parts = split(cursor)
    if len(parts) != len(question.requests):
        raise CipError("multiple-count", found=str(len(parts)), expected=str(len(question.requests)))
    answers = []
    for request, data in zip(question.requests, parts, strict=True):
        message = decode_message(data)
        if not isinstance(message, Reply):
            raise CipError("multiple-message", found="a request in a reply", expected="replies")
        answers.append(Answer(request.service, said(request, message, depth + 1)))
    return Replies(tuple(answers))


_NAME, _TYPE, _DIMENSIONS = 1, 2, 8
_SIZES = {3: 4, 5: 4, 6: 4, 7: 2, 10: 1}
"""Bytes of symbol attributes that are read over: addresses, software control, element size, external access."""


def _symbols(question: ListInstances, cursor: Cursor, *, more: bool) -> Symbols:
    entries: list[SymbolEntry] = []
    while cursor.left:
        if len(entries) >= SYMBOLS_MAX:
            raise CipError("symbol-count", found="more symbols", expected=f"at most {SYMBOLS_MAX}")
        instance = cursor.u32("instance")
        if entries and instance <= entries[-1].instance:
            raise CipError("symbol-order", found=str(instance), expected=f"above {entries[-1].instance}")
        entries.append(_symbol(question, cursor, instance))
    return Symbols(tuple(entries), more)


def _symbol(question: ListInstances, cursor: Cursor, instance: int) -> SymbolEntry:
    name, kind, dimensions = None, None, None
    for attribute in question.attributes:
        if attribute == _NAME:
            size = cursor.u16("length of name")
            raw = cursor.raw(size, "name")
            if not 1 <= size <= NAME_BYTES_MAX or not raw.isascii() or not raw.decode("ascii").isprintable():
                raise CipError("symbol-name", found=raw[:32].hex(), expected="printable ASCII")
            name = raw.decode("ascii")
        elif attribute == _TYPE:
            kind = cursor.u16("symbol type")
        elif attribute == _DIMENSIONS:
            dimensions = cursor.u32("dimension 1"), cursor.u32("dimension 2"), cursor.u32("dimension 3")
        elif attribute in _SIZES:
            cursor.raw(_SIZES[attribute], "attribute")
        else:
            raise CipError("symbol-attribute", found=str(attribute), expected="1-3, 5-8 or 10")
    return SymbolEntry(instance, name, kind, dimensions)
