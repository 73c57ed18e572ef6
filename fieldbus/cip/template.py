"""UDT templates: what is where in a structure, and structures between bytes and values (Rockwell 1756-PM020).

A template belongs to the handle that a read of the tag brings along. A handle that differs means that somebody
changed the type: the layout is refused (``template-changed``) until it is read anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fieldbus.cip.errors import CipError
from fieldbus.cip.limits import ELEMENTS_MAX, MEMBERS_MAX, NAME_BYTES_MAX, STRUCTURE_DEPTH_MAX, TEMPLATE_BYTES_MAX
from fieldbus.cip.types import Elementary, Value, decode_values, elementary, packed_bools
from fieldbus.cursor import Cursor

_STRUCTURE_BIT, _SYSTEM_BIT, _DIMENSIONS_SHIFT, _NUMBER_MASK = 0x8000, 0x1000, 13, 0x0FFF
_BOOL, _DWORD = 0xC1, 0xD3
STRING_HANDLE = 0x0FCE
"""Handle of the built-in STRING: LEN (DINT) and DATA (82 SINTs)."""

Structured: TypeAlias = "Value | tuple[Structured, ...] | dict[str, Structured]"


@dataclass(frozen=True, slots=True)
class SymbolType:
    """Symbol type of a tag or member: an elementary type or the instance of a template, and dimensions (0 to 3)."""

    structure: bool
    number: int
    dimensions: int
    system: bool

    @classmethod
    def of(cls, word: int) -> SymbolType:
        """The parts of the 16 bits."""
        structure = bool(word & _STRUCTURE_BIT)
        number = word & _NUMBER_MASK if structure else word & 0xFF
        return cls(structure, number, word >> _DIMENSIONS_SHIFT & 3, bool(word & _SYSTEM_BIT))


@dataclass(frozen=True, slots=True)
class TemplateMember:
    """A member: byte offset; ``count`` elements of an array, else 0; ``bit`` of a packed BOOL, else None."""

    name: str
    type: SymbolType
    offset: int
    count: int
    bit: int | None


@dataclass(frozen=True, slots=True)
class Template:
    """A structure: name, handle, size in bytes, members. Hidden members hold packed BOOLs and are not values."""

    name: str
    handle: int
    size: int
    members: tuple[TemplateMember, ...]

    @property
    def is_string(self) -> bool:
        """True for STRING and every string type made like it: LEN, a DINT, and DATA, an array of SINTs."""
        if [member.name for member in self.members] != ["LEN", "DATA"]:
            return False
        length, data = self.members
        return (length.type.number, data.type.number) == (0xC4, 0xC2) and data.count > 0 and not length.count


@dataclass(frozen=True, slots=True)
class TemplateAttributes:
    """Attributes 4, 5, 2 and 1 of a template instance: definition size in 32-bit words, structure size in bytes,
    members, handle."""

    definition_words: int
    size: int
    members: int
    handle: int

    @property
    def definition_bytes(self) -> int:
        """How many bytes to read: the definition without its own header (1756-PM020, "Read template")."""
        return max(0, self.definition_words * 4 - 23)


TEMPLATE_ATTRIBUTES = (4, 5, 2, 1)
_ATTRIBUTE_SIZES = {4: 4, 5: 4, 2: 2, 1: 2}


def decode_attributes(data: bytes) -> TemplateAttributes:
    """The answer to a get attribute list of TEMPLATE_ATTRIBUTES. Raises CipError ``attribute``, ``template-size``."""
    cursor = Cursor(data, CipError, "little")
    cursor.expect(len(TEMPLATE_ATTRIBUTES), 2, "attribute", "number of attributes")
    values = []
    for number in TEMPLATE_ATTRIBUTES:
        cursor.expect(number, 2, "attribute", "attribute number")
        cursor.expect(0, 2, "attribute", "attribute status")
        values.append(cursor.uint(_ATTRIBUTE_SIZES[number], "attribute"))
    cursor.done("template attributes")
    found = TemplateAttributes(*values)
    if found.definition_bytes > TEMPLATE_BYTES_MAX or not 1 <= found.members <= MEMBERS_MAX or not found.size:
        raise CipError("template-size", found=str(found), expected=f"at most {TEMPLATE_BYTES_MAX} bytes")
    return found


def decode_template(data: bytes, attributes: TemplateAttributes) -> Template:
    """The definition that was read. Raises CipError ``template-name``, ``template-member``, ``truncated``."""
    cursor = Cursor(data, CipError, "little")
    raw = [
        (cursor.u16("member info"), cursor.u16("member type"), cursor.u32("member offset"))
        for _ in range(attributes.members)
    ]
    names = cursor.rest().split(b"\0")
    if len(names) < attributes.members + 1:
        raise CipError("template-name", found=f"{len(names)} names", expected=str(attributes.members + 1))
    name = _name(names[0].partition(b";")[0])
    members = [
        _member(_name(text), info, SymbolType.of(kind), offset, attributes.size)
        for (info, kind, offset), text in zip(raw, names[1:], strict=False)
    ]
    if len({member.name for member in members}) != len(members):
        raise CipError("template-name", found="two members of one name", expected="each name once")
    return Template(name, attributes.handle, attributes.size, tuple(members))


def _name(raw: bytes) -> str:
    if not 1 <= len(raw) <= NAME_BYTES_MAX or not raw.isascii() or not raw.decode("ascii").isprintable():
        raise CipError("template-name", found=raw[:32].hex(), expected="printable ASCII")
    return raw.decode("ascii")


def _member(name: str, info: int, kind: SymbolType, offset: int, size: int) -> TemplateMember:
    if offset >= size or kind.dimensions > 1:
        raise CipError("template-member", found=f"{name} at {offset}", expected=f"inside {size} bytes, one dimension")
    if not kind.structure:
        elementary(kind.number)
    if not kind.structure and kind.number == _BOOL:
        if info > 31 or kind.dimensions:
            raise CipError("template-member", found=f"bit {info} of {name}", expected="0 … 31")
        return TemplateMember(name, kind, offset, 0, info)
    if bool(kind.dimensions) != bool(info):
        raise CipError("template-member", found=f"{info} elements of {name}", expected="some in an array, else none")
    return TemplateMember(name, kind, offset, info, None)


def hidden(member: TemplateMember) -> bool:
    """True for members that the controller adds to hold packed BOOLs."""
    return member.name.startswith(("ZZZZZZZZZZ", "__"))


class _Budget:
    """Values that one read may still make."""

    def __init__(self) -> None:
        self.left = ELEMENTS_MAX

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise CipError("structure-size", found="more values", expected=f"at most {ELEMENTS_MAX}")


def read_structure(template: Template, templates: Mapping[int, Template], handle: int, data: bytes) -> Structured:
    """The value of one structure: text for strings, else members by name; ``templates`` by instance number.

    Raises CipError ``template-changed``, ``data-length``, ``template-unknown``, ``string-length``, ``structure-size``,
    ``nesting``.
    """
    check_structure(template, handle, data)
    return _read(template, templates, data, 0, _Budget())


def check_structure(template: Template, handle: int, data: bytes) -> None:
    """Raises CipError ``template-changed``, ``data-length`` where ``data`` is no structure of this template."""
    if handle != template.handle:
        raise CipError(
            "template-changed",
            found=f"handle {handle:#06x}",
            expected=f"{template.handle:#06x} of {template.name}",
            hint="the type was changed in the controller; discover its tags again",
        )
    if len(data) != template.size:
        raise CipError("data-length", found=f"{len(data)} bytes", expected=f"{template.size} of {template.name}")


def read_text(template: Template, data: bytes) -> str:
    """The text of a string type. Raises CipError ``string-length``, ``character``, ``template-member``."""
    return _string(template, data)


def read_element(member: TemplateMember, data: bytes, at: int, index: int) -> Value:
    """One elementary value of a structure that begins at ``at``: element ``index`` of an array, else 0; a BOOL where
    the member is a packed one or an array of them. Raises CipError ``template-member``, ``bool-value``."""
    bit = member.bit
    if bit is None and member.count and member.type.number == _DWORD:
        bit, index = index, 0
    if bit is not None:
        return bool(_slice(data, at + member.offset + bit // 8, 1, member)[0] >> bit % 8 & 1)
    kind = elementary(member.type.number)
    return decode_values(kind, _slice(data, at + member.offset + index * kind.size, kind.size, member))[0]


def _read(
    template: Template, templates: Mapping[int, Template], data: bytes, depth: int, budget: _Budget
) -> Structured:
    if depth > STRUCTURE_DEPTH_MAX:
        raise CipError("nesting", found=f"depth {depth}", expected=f"at most {STRUCTURE_DEPTH_MAX}")
    if template.is_string:
        budget.take(1)
        return _string(template, data)
    values: dict[str, Structured] = {}
    for member in template.members:
        if not hidden(member):
            values[member.name] = _value(member, templates, data, depth, budget)
    return values


def _value(
    member: TemplateMember, templates: Mapping[int, Template], data: bytes, depth: int, budget: _Budget
) -> Structured:
    budget.take(max(1, member.count))
    if member.bit is not None:
        byte = member.offset + member.bit // 8
        return bool(_slice(data, byte, 1, member)[0] >> member.bit % 8 & 1)
    if member.type.structure:
        inner = templates.get(member.type.number)
        if inner is None:
            raise CipError("template-unknown", found=f"template {member.type.number}", expected="one that was read")
        parts = [
            _slice(data, member.offset + index * inner.size, inner.size, member) for index in range(member.count or 1)
        ]
        items = tuple(_read(inner, templates, part, depth + 1, budget) for part in parts)
        return items if member.count else items[0]
    kind: Elementary = elementary(member.type.number)
    part = _slice(data, member.offset, kind.size * (member.count or 1), member)
    if kind.code == _DWORD and member.count:
        budget.take(32 * member.count)
        return packed_bools(part)
    found = decode_values(kind, part)
    return found if member.count else found[0]


def _slice(data: bytes, at: int, size: int, member: TemplateMember) -> bytes:
    part = data[at : at + size]
    if len(part) != size:
        raise CipError("template-member", found=f"{member.name} ends at {at + size}", expected=f"within {len(data)}")
    return part


def _string(template: Template, data: bytes) -> str:
    length_member, data_member = template.members
    length = int.from_bytes(_slice(data, length_member.offset, 4, length_member), "little", signed=True)
    if not 0 <= length <= data_member.count:
        raise CipError("string-length", found=str(length), expected=f"0 … {data_member.count}")
    raw = _slice(data, data_member.offset, data_member.count, data_member)[:length]
    if not raw.isascii():
        raise CipError("character", found=raw[:32].hex(), expected="ASCII; the code page of others is not known")
    return raw.decode("ascii")
