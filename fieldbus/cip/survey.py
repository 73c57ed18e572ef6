"""What a Logix controller is and which tags it has. Asks only, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from fieldbus.cip.client import CipClient
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Identity
from fieldbus.cip.replies import SymbolEntry
from fieldbus.cip.tags import templates_of
from fieldbus.cip.template import SymbolType, Template, hidden
from fieldbus.cip.types import BY_CODE

_NO_TAGS = ("Program:", "Routine:", "Task:", "Map:", "Cxn:", "__")
_PROGRAM = "Program:"


@dataclass(frozen=True, slots=True)
class TagInfo:
    """A tag: its path, its type (``DINT``, ``Pump``, ``0xdb`` where it is not known) and dimensions."""

    path: str
    type: str
    dimensions: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Type as people write it, ``DINT[10]``."""
        return self.type + "".join(f"[{size}]" for size in self.dimensions)


@dataclass(frozen=True, slots=True)
class StructureInfo:
    """A structure and its members that are values."""

    name: str
    members: tuple[TagInfo, ...]


@dataclass(frozen=True, slots=True)
class CipSurvey:
    """A controller. ``refused``: what it did not answer, by the code of its refusal."""

    identity: Identity
    mode: str
    key_switch: str
    major_fault: bool
    minor_fault: bool
    tags: tuple[TagInfo, ...]
    structures: tuple[StructureInfo, ...]
    refused: dict[str, str]


async def survey(client: CipClient) -> CipSurvey:
    """Ask a connected client's controller. Raises CipError or LinkError where the connection fails."""
    refused: dict[str, str] = {}
    identity = await client.identity()
    scopes = {"": await _symbols(client, "", refused)}
    for entry in scopes[""]:
        if entry.name is not None and entry.name.startswith(_PROGRAM):
            scopes[entry.name] = await _symbols(client, entry.name, refused)
    entries = [(scope, entry) for scope, found in scopes.items() for entry in found if _is_tag(entry)]
    kinds = [SymbolType.of(entry.type) for _, entry in entries if entry.type is not None]
    templates = await templates_of(client, [kind.number for kind in kinds if kind.structure])
    return CipSurvey(
        identity,
        identity.mode.value,
        identity.key_switch.value,
        identity.major_fault,
        identity.minor_fault,
        tuple(_tag(scope, entry, templates) for scope, entry in entries),
        tuple(_structure(template, templates) for _, template in sorted(templates.items()) if not template.is_string),
        refused,
    )


async def _symbols(client: CipClient, scope: str, refused: dict[str, str]) -> tuple[SymbolEntry, ...]:
    """Symbols of a scope. A device that hangs up when it is asked for its own has none: nothing is asked after that."""
    try:
        return await client.symbols(scope)
    except CipError as error:
        if not client.connected and scope:
            raise
        refused[f"tags of {scope or 'the controller'}"] = error.code
        return ()


def _is_tag(entry: SymbolEntry) -> bool:
    return (
        entry.name is not None
        and entry.type is not None
        and not entry.name.startswith(_NO_TAGS)
        and not SymbolType.of(entry.type).system
    )


def _type_name(kind: SymbolType, templates: dict[int, Template]) -> str:
    if kind.structure:
        template = templates.get(kind.number)
        return f"template {kind.number}" if template is None else template.name
    known = BY_CODE.get(kind.number)
    return f"{kind.number:#04x}" if known is None else known.name


def _tag(scope: str, entry: SymbolEntry, templates: dict[int, Template]) -> TagInfo:
    kind = SymbolType.of(entry.type or 0)
    path = f"{scope}.{entry.name}" if scope else str(entry.name)
    return TagInfo(path, _type_name(kind, templates), (entry.dimensions or ())[: kind.dimensions])


def _structure(template: Template, templates: dict[int, Template]) -> StructureInfo:
    members = [
        TagInfo(
            member.name,
            "BOOL" if member.bit is not None else _type_name(member.type, templates),
            (member.count,) if member.count else (),
        )
        for member in template.members
        if not hidden(member)
    ]
    return StructureInfo(template.name, tuple(members))
