"""Layout of a data block from its TIA Portal export (Openness XML), by the rules of standard access.

Rules (Siemens, "Programming Guideline", memory layout of blocks with standard access): BOOLs fill a byte from bit 0;
types of one byte lie at the next byte; everything longer, and every array, structure and string, begins at an even
byte, and arrays and structures end at one. Arrays of more than one dimension whose elements are shorter than a
word are refused: their padding is not documented. Where the export carries offsets they must be those computed.

A block with optimised access has no layout that anybody outside the CPU knows: ``optimised-block``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from fieldbus.s7.errors import S7Error
from fieldbus.s7.limits import BLOCK_BYTES_MAX, DEPTH_MAX, LAYOUT_BYTES_MAX, MEMBERS_MAX, STEPS_MAX
from fieldbus.s7.model import Area, Item, ItemType
from fieldbus.s7.status import OPTIMISED_HINT
from fieldbus.s7.values import STRING_CHARACTERS_MAX, WSTRING_CHARACTERS_MAX, DataType, TypeSpec

_ALIASES = {
    "tod": DataType.TIME_OF_DAY,
    "ltod": DataType.LTIME_OF_DAY,
    "dt": DataType.DATE_AND_TIME,
    "date_and_ltime": DataType.LDT,
}
_TYPES = {kind.value.lower(): kind for kind in DataType} | _ALIASES
_ARRAY = re.compile(r"Array\s*\[([^\]]{1,120})\]\s+of\s+(.{1,200})", re.IGNORECASE)
_BOUNDS = re.compile(r"\s*(-?\d{1,6})\s*\.\.\s*(-?\d{1,6})\s*")
_STRING = re.compile(r"(W?String)(?:\[(\d{1,5})\])?", re.IGNORECASE)
_WORD_BYTES = 2


@dataclass(frozen=True, slots=True)
class Member:
    """An elementary member: path such as ``Pump.Speed`` or ``Grid[3]``, place, type."""

    path: str
    byte: int
    bit: int
    spec: TypeSpec


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """A data block's number, name, size in bytes and members in order of address."""

    number: int
    name: str
    size: int
    members: tuple[Member, ...]

    def member(self, path: str) -> Member:
        """The member of this path. Raises S7Error ``member-unknown``."""
        for member in self.members:
            if member.path == path:
                return member
        raise S7Error("member-unknown", found=repr(path), expected=f"a member of {self.name}")

    def item(self, member: Member) -> Item:
        """The pointer that reads or writes the member."""
        if member.spec.type is DataType.BOOL:
            return Item(Area.DATA_BLOCK, member.byte, 1, ItemType.BIT, self.number, member.bit)
        return Item(Area.DATA_BLOCK, member.byte, member.spec.size, ItemType.BYTE, self.number)


def find_member(layouts: Sequence[BlockLayout], path: str) -> tuple[BlockLayout, Member]:
    """The member at ``path`` and its block: ``"Block".Pump.Speed``, or ``Pump.Speed`` where there is but one block.

    Raises S7Error ``member-block``, ``member-unknown``.
    """
    quoted, _, rest = path[1:].partition('".') if path.startswith('"') else ("", "", path)
    blocks = [layout for layout in layouts if layout.name == quoted] if quoted else list(layouts)
    if len(blocks) != 1:
        names = ", ".join(f'"{layout.name}"' for layout in layouts)
        raise S7Error("member-block", found=path, expected=f"a member of exactly one block of {names}")
    return blocks[0], blocks[0].member(rest)


class _Place:
    """The next free bit, and the members placed so far."""

    def __init__(self) -> None:
        self.bits = 0
        self.members: list[Member] = []
        self._steps = 0

    def step(self) -> None:
        """Counts work: the elements of a structure are read again for every element of an array of it."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise S7Error("block-size", found="more work", expected=f"at most {STEPS_MAX} elements of XML")

    def align(self, size: int) -> None:
        self.bits = -(-self.bits // (8 * size)) * 8 * size

    def put(self, path: str, spec: TypeSpec) -> None:
        if spec.type is DataType.BOOL:
            size = 1
        else:
            self.align(1 if spec.size == 1 else _WORD_BYTES)
            size = 8 * spec.size
        if len(self.members) >= MEMBERS_MAX or self.bits + size > 8 * BLOCK_BYTES_MAX:
            raise S7Error("block-size", found=f"{path} beyond the limits", expected=f"{BLOCK_BYTES_MAX} bytes")
        self.members.append(Member(path, self.bits // 8, self.bits % 8, spec))
        self.bits += size
        if spec.type in (DataType.STRING, DataType.WSTRING):
            self.align(_WORD_BYTES)


def parse_layout(data: bytes) -> BlockLayout:
    """The layout in an export file. Raises S7Error ``layout-xml``, ``optimised-block``, ``layout-block``,
    ``layout-type``, ``layout-array``, ``layout-depth``, ``layout-offset``, ``block-size``."""
    root = _root(data)
    block = next((item for item in root.iter() if _name(item) in _BLOCKS), None)
    if block is None:
        raise S7Error("layout-block", found="no data block", expected="SW.Blocks.GlobalDB or InstanceDB")
    attributes = {_name(item): item for part in block if _name(part) == "AttributeList" for item in part}
    access = _text(attributes.get("MemoryLayout"))
    if access == "Optimized":
        raise S7Error(
            "optimised-block", found="optimised access", expected="a block with standard access", hint=OPTIMISED_HINT
        )
    number, name = _text(attributes.get("Number")), _text(attributes.get("Name"))
    if access != "Standard" or not number.isdecimal() or not 1 <= int(number[:6]) <= 65_535:
        raise S7Error(
            "layout-block", found=f"{access or 'no'} access, number {number!r}", expected="Standard, 1 … 65535"
        )
    place = _Place()
    interface = attributes.get("Interface")
    for section in interface.iter() if interface is not None else ():
        if _name(section) == "Section" and section.get("Name") in _SECTIONS:
            place.align(_WORD_BYTES)
            _members(section, "", place, 0)
    if not place.members:
        raise S7Error("layout-block", found="no members", expected="a Static section with members")
    place.align(_WORD_BYTES)
    return BlockLayout(int(number), name, place.bits // 8, tuple(place.members))


_BLOCKS = ("SW.Blocks.GlobalDB", "SW.Blocks.InstanceDB")
_SECTIONS = ("Input", "Output", "InOut", "Static")


def _root(data: bytes) -> ET.Element:
    if len(data) > LAYOUT_BYTES_MAX:
        raise S7Error("layout-xml", found=f"{len(data)} bytes", expected=f"at most {LAYOUT_BYTES_MAX}")
    try:
        text = data.decode("utf-8-sig")
        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            raise S7Error("layout-xml", found="a document type", expected="XML without one, as TIA Portal writes it")
        return ET.fromstring(text)  # noqa: S314 - no entities can be defined without a document type
    except (ET.ParseError, UnicodeDecodeError, ValueError) as error:
        raise S7Error("layout-xml", found=str(error), expected="UTF-8 XML") from None


def _name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ET.Element | None) -> str:
    return (element.text or "").strip() if element is not None else ""


def _members(parent: ET.Element, prefix: str, place: _Place, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise S7Error("layout-depth", found=f"{prefix} at depth {depth}", expected=f"at most {DEPTH_MAX}")
    for member in parent:
        place.step()
        if _name(member) == "Member":
            name, kind = member.get("Name", ""), member.get("Datatype", "")
            if not name:
                raise S7Error("layout-type", found="a member without a name", expected="Name and Datatype")
            _member(member, prefix + name, kind, place, depth)


def _member(member: ET.Element, path: str, kind: str, place: _Place, depth: int) -> None:
    first = len(place.members)
    array = _ARRAY.fullmatch(kind)
    if array is not None:
        _array(member, path, array, place, depth)
    else:
        _single(member, path, kind, place, depth)
    offset = _offset(member) if depth == 0 else None
    if offset is not None and len(place.members) > first:
        place_of = place.members[first]
        expected = str(place_of.byte * 8 + place_of.bit)
        if offset != expected:
            raise S7Error("layout-offset", found=f"{path} at bit {offset}", expected=f"bit {expected}")


def _offset(member: ET.Element) -> str | None:
    """Offset in bits that the export gives a member of the block itself, if it does."""
    for part in member:
        for item in part if _name(part) == "AttributeList" else ():
            if _name(item) == "IntegerAttribute" and item.get("Name") == "Offset":
                return _text(item)
    return None


def _single(member: ET.Element, path: str, kind: str, place: _Place, depth: int) -> None:
    spec = _spec(kind)
    if spec is not None:
        place.put(path, spec)
        return
    inner = _inner(member, kind, path)
    place.align(_WORD_BYTES)
    before = len(place.members)
    _members(inner, path + ".", place, depth + 1)
    if len(place.members) == before:
        raise S7Error("layout-type", found=f"{path} without members", expected="the members of its structure")
    place.align(_WORD_BYTES)


def _inner(member: ET.Element, kind: str, path: str) -> ET.Element:
    """Where the members of a structure are: in place, or for a user type in its own sections."""
    if kind.lower() == "struct":
        return member
    if kind.startswith('"') and kind.endswith('"'):
        for sections in member:
            if _name(sections) == "Sections":
                return next((part for part in sections if _name(part) == "Section"), sections)
    raise S7Error("layout-type", found=f"{kind!r} of {path}", expected="an elementary type, structure or user type")


def _spec(kind: str) -> TypeSpec | None:
    string = _STRING.fullmatch(kind)
    if string is None:
        known = _TYPES.get(kind.lower())
        return None if known is None else TypeSpec(known)
    wide = string[1].lower() == "wstring"
    characters = int(string[2] or STRING_CHARACTERS_MAX)
    if not 1 <= characters <= (WSTRING_CHARACTERS_MAX if wide else STRING_CHARACTERS_MAX):
        raise S7Error("layout-type", found=kind, expected="a length that a string can have")
    return TypeSpec(DataType.WSTRING if wide else DataType.STRING, characters)


def _array(member: ET.Element, path: str, array: re.Match[str], place: _Place, depth: int) -> None:
    bounds = [_BOUNDS.fullmatch(part) for part in array[1].split(",")]
    ranges = [(int(found[1]), int(found[2])) for found in bounds if found is not None]
    if len(ranges) != len(bounds) or any(low > high for low, high in ranges):
        raise S7Error("layout-array", found=array[0], expected="bounds such as [0..9]")
    spec = _spec(array[2])
    if len(ranges) > 1 and spec is not None and (spec.size == 1):
        raise S7Error("layout-array", found=array[0], expected="one dimension for elements shorter than a word")
    count = 1
    for low, high in ranges:
        count *= high - low + 1
    if count > MEMBERS_MAX:
        raise S7Error("block-size", found=f"{count} elements", expected=f"at most {MEMBERS_MAX}")
    place.align(_WORD_BYTES)
    for number in range(count):
        _single(member, f"{path}[{_index(number, ranges)}]", array[2], place, depth + 1)
    place.align(_WORD_BYTES)


def _index(number: int, ranges: list[tuple[int, int]]) -> str:
    parts = []
    for low, high in reversed(ranges):
        number, place = divmod(number, high - low + 1)
        parts.append(str(low + place))
    return ",".join(reversed(parts))
