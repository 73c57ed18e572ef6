"""Where the value of a tag is: what has to be read, and the way to it inside a structure that is read whole.

A member of a structure is taken from one read of the structure, so that members of one poll belong together; packed
BOOLs, nested structures and array elements come from the template (1756-PM020). Names count without regard to case, as
in the controller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fieldbus.cip.client import CipClient
from fieldbus.cip.errors import CipError
from fieldbus.cip.limits import STRUCTURE_DEPTH_MAX, TEMPLATES_MAX
from fieldbus.cip.replies import StructureData, SymbolEntry, TagValues
from fieldbus.cip.template import (
    SymbolType,
    Template,
    TemplateMember,
    check_structure,
    hidden,
    read_element,
    read_text,
)
from fieldbus.cip.types import BY_CODE, Value

STRING = "STRING"
_DWORD, _BOOL = 0xD3, 0xC1
_DWORD_BITS = 32
_INTEGER_BITS = {"SINT": 8, "INT": 16, "DINT": 32, "LINT": 64, "USINT": 8, "UINT": 16, "UDINT": 32, "ULINT": 64}
_PART = re.compile(r"([A-Za-z_]\w{0,254})((?:\[\d{1,9}(?:,\d{1,9}){0,2}\])?)|(\d{1,2})", re.ASCII)

Step = str | int
"""A member by name, an element or a bit by number."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was discovered: symbols by scope and lower-case name, templates by instance number."""

    symbols: Mapping[str, Mapping[str, SymbolEntry]]
    templates: Mapping[int, Template] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """``path`` is read; ``steps`` lead on from there. ``type``: elementary type or ``STRING``, None where it was not
    discovered; ``template``: that of the structure that is read; ``size``: bytes of the answer."""

    path: str
    steps: tuple[Step, ...] = ()
    type: str | None = None
    template: Template | None = None
    size: int = 8


def scope_of(path: str) -> str:
    """``Program:Main`` of ``Program:Main.Speed``, empty for a tag of the controller."""
    return path.partition(".")[0] if path.startswith("Program:") else ""


def needs_template(path: str, kind: str) -> bool:
    """Whether a tag of this type has to be discovered: strings, members, bits, and elements of an array of BOOL. Any
    other one answers by its name and says its type itself."""
    rest = path[len(scope_of(path)) :].lstrip(".")
    return kind == STRING or "." in rest or ("[" in rest and kind == "BOOL")


def split_path(path: str) -> tuple[str, tuple[Step, ...]]:
    """Scope and steps of a tag as people write it. Raises CipError ``tag-name``."""
    scope = scope_of(path)
    rest = path[len(scope) + 1 :] if scope else path
    steps: list[Step] = []
    for part in rest.split("."):
        match = _PART.fullmatch(part)
        if match is None or (match[3] and not steps):
            raise CipError("tag-name", found=repr(path)[:80], expected="a name such as Pump[3].Speed or Word.5")
        steps += [int(match[3])] if match[3] else [match[1]]
        if match[2]:
            steps += [int(number) for number in match[2][1:-1].split(",")]
    return scope, tuple(steps)


async def discover(client: CipClient, paths: tuple[str, ...]) -> Known:
    """Symbols of the scopes of ``paths``, and every template that those tags need."""
    symbols: dict[str, dict[str, SymbolEntry]] = {}
    for scope in dict.fromkeys(map(scope_of, paths)):
        entries = await client.symbols(scope)
        symbols[scope] = {entry.name.lower(): entry for entry in entries if entry.name is not None}
    wanted = []
    for path in paths:
        scope, steps = split_path(path)
        entry = symbols[scope].get(str(steps[0]).lower())
        kind = SymbolType.of(entry.type) if entry is not None and entry.type is not None else None
        if kind is not None and kind.structure:
            wanted.append(kind.number)
    return Known(symbols, await templates_of(client, wanted))


async def templates_of(client: CipClient, numbers: list[int]) -> dict[int, Template]:
    """The templates of these numbers and of every structure inside them, but those with a type that is not known here:
    they make only their own tags unreadable. Raises CipError ``template-count`` and those of the connection."""
    found: dict[int, Template] = {}
    seen: set[int] = set()
    waiting = list(numbers)
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        if len(seen) >= TEMPLATES_MAX:
            raise CipError("template-count", found="more templates", expected=f"at most {TEMPLATES_MAX}")
        seen.add(number)
        try:
            found[number] = await client.template(number)
        except CipError:
            if not client.connected:
                raise
            continue
        waiting += [member.type.number for member in found[number].members if member.type.structure]
    return found


def place_of(path: str, known: Known) -> Place:
    """The place of a tag. Raises CipError ``tag-unknown``, ``member-unknown``, ``tag-index``, ``template-unknown``."""
    scope, steps = split_path(path)
    name, rest = str(steps[0]), steps[1:]
    entry = known.symbols.get(scope, {}).get(name.lower())
    if entry is None or entry.type is None or entry.name is None:
        raise CipError("tag-unknown", found=path, expected="a tag of the controller")
    kind = SymbolType.of(entry.type)
    indices = [step for step in rest[: kind.dimensions] if isinstance(step, int)]
    if len(indices) != kind.dimensions:
        raise CipError("tag-index", found=path, expected=f"{kind.dimensions} indices")
    base, rest = f"{scope}.{entry.name}" if scope else entry.name, rest[kind.dimensions :]
    if kind.structure:
        template = known.templates.get(kind.number)
        if template is None:
            raise CipError("template-unknown", found=f"template {kind.number}", expected="one that was read")
        leaf = _leaf(template, known.templates, rest, path)
        return Place(base + _bracketed(indices), rest, leaf, template, template.size)
    elementary = BY_CODE.get(kind.number)
    if elementary is None:
        raise CipError("type-unknown", found=f"type {kind.number:#x} of {path}", expected="an elementary type")
    if elementary.code == _DWORD and len(indices) == 1 and not rest:  # an array of BOOL is one of DWORD on the wire
        word, bit = divmod(indices[0], _DWORD_BITS)
        return Place(f"{base}[{word}]", (bit,), "BOOL")
    return Place(base + _bracketed(indices), rest, _bit_or(elementary.name, rest, path))


def _bracketed(indices: list[int]) -> str:
    return f"[{','.join(map(str, indices))}]" if indices else ""


def _bit_or(name: str, rest: tuple[Step, ...], path: str) -> str:
    """The type itself, or BOOL where ``rest`` is the number of a bit of an integer."""
    if not rest:
        return name
    if len(rest) > 1 or not isinstance(rest[0], int) or rest[0] >= _INTEGER_BITS.get(name, 0):
        raise CipError("member-unknown", found=path, expected=f"a bit of the {name}, or nothing behind it")
    return "BOOL"


def _leaf(template: Template, templates: Mapping[int, Template], steps: tuple[Step, ...], path: str) -> str:
    """Type of what ``steps`` lead to."""
    for _ in range(STRUCTURE_DEPTH_MAX):
        if template.is_string:
            if steps:
                break
            return STRING
        member = _member(template, steps[0] if steps else None)
        if member is None:
            break
        rest = steps[1:]
        if member.count:
            elements = member.count * (_DWORD_BITS if member.type.number == _DWORD else 1)
            if not rest or not isinstance(rest[0], int) or rest[0] >= elements:
                raise CipError("tag-index", found=path, expected=f"an index below {elements}")
            rest = rest[1:]
        if not member.type.structure:
            packed = member.bit is not None or (member.count and member.type.number == _DWORD)
            return _bit_or("BOOL" if packed else BY_CODE[member.type.number].name, rest, path)
        inner = templates.get(member.type.number)
        if inner is None:
            raise CipError("template-unknown", found=f"template {member.type.number}", expected="one that was read")
        template, steps = inner, rest
    raise CipError("member-unknown", found=path, expected=f"a value inside {template.name}")


def _member(template: Template, name: Step | None) -> TemplateMember | None:
    found = [item for item in template.members if isinstance(name, str) and item.name.lower() == name.lower()]
    return found[0] if found and not hidden(found[0]) else None


def value_at(place: Place, known: Known, read: TagValues | StructureData) -> Value:
    """The value of ``place`` in what was read; nothing else of a structure is looked at, so that what is wrong with
    one member is not wrong with another. Raises CipError, above all ``template-changed``, ``type-changed``."""
    if place.template is not None:
        if not isinstance(read, StructureData):
            raise CipError("type-changed", found=read.type, expected=place.template.name)
        check_structure(place.template, read.handle, read.data)
        return _inside(place.template, known.templates, read.data, place.steps)
    if not isinstance(read, TagValues):
        raise CipError("type-changed", found="a structure", expected=str(place.type))
    return _bit_of(read.values[0], place.steps)


def _inside(template: Template, templates: Mapping[int, Template], data: bytes, steps: tuple[Step, ...]) -> Value:
    at = 0
    for _ in range(STRUCTURE_DEPTH_MAX):
        if template.is_string:
            return read_text(template, data[at : at + template.size])
        member = _member(template, steps[0] if steps else None)
        if member is None:
            break
        index, rest = 0, steps[1:]
        if member.count:
            if not rest or not isinstance(rest[0], int):
                break
            index, rest = rest[0], rest[1:]
        if not member.type.structure:
            return _bit_of(read_element(member, data, at, index), rest)
        inner = templates[member.type.number]
        template, at, steps = inner, at + member.offset + index * inner.size, rest
    raise CipError("member-unknown", found=".".join(map(str, steps))[:80], expected=f"a value inside {template.name}")


def _bit_of(value: Value, steps: tuple[Step, ...]) -> Value:
    """The value itself, or the bit of it that ``steps`` name."""
    if not steps:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not isinstance(steps[0], int):
        raise CipError("member-unknown", found=str(steps[0]), expected="a bit of an integer")
    return bool(value >> steps[0] & 1)
