"""Whether every part of a PLC's request block has a place of its own: one that overlaps itself writes over values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from sitsedge.config.plc import NamedBlock, OpcUaPlc, Plc, SlmpPlc

Place = tuple[str | int, ...]

HEAD_WORDS: Final = 4
SLOT_HEAD_WORDS: Final = 6
VALUE_WORDS: Final = {"INT": 2, "DINT": 2, "REAL": 2, "LREAL": 4}
"""Room in a block of MELSEC words (docs/request-block.md): an INT has an unused word behind it."""

OPCUA_NODES: Final = (
    "sequence_node",
    "heartbeat_node",
    "auto_request_node",
    "auto_active_node",
    "applied_sequence_node",
    "valid_until_node",
)


class Output(Protocol):
    """What is looked at of an output."""

    @property
    def node(self) -> str | None: ...
    @property
    def applied_node(self) -> str | None: ...
    @property
    def plc_type(self) -> str | None: ...


def shared_places(plc: Plc, outputs: Sequence[Output]) -> Iterator[tuple[Place, str]]:
    """Keys of the gate file that name a place already taken, and what is expected there."""
    if isinstance(plc, SlmpPlc):
        yield from _devices(plc, outputs)
        return
    taken: dict[str, str] = {}
    if isinstance(plc, OpcUaPlc):
        for key in OPCUA_NODES:
            node = getattr(plc, key)
            if node is not None:
                yield from _once(taken, node, ("plc", key))
    if isinstance(plc, NamedBlock):
        yield from _blocks(plc)
    applied = taken if isinstance(plc, OpcUaPlc) else {}  # members of another structure may have the same names
    for index, output in enumerate(outputs):
        if output.node is not None:
            yield from _once(taken, output.node, ("outputs", index, "node"))
        if output.applied_node is not None:
            yield from _once(applied, output.applied_node, ("outputs", index, "applied_node"))


def _once(taken: dict[str, str], node: str, place: Place) -> Iterator[tuple[Place, str]]:
    owner = taken.setdefault(node, ".".join(map(str, place)))
    if owner != ".".join(map(str, place)):
        yield place, f"a place of its own: {node} is {owner}'s"


def _blocks(plc: NamedBlock) -> Iterator[tuple[Place, str]]:
    if _inside(plc.applied, plc.request) or _inside(plc.request, plc.applied):
        yield ("plc", "applied"), f"another structure than 'request' ({plc.request})"
    if _inside(plc.slot(0), plc.slot(1)) or _inside(plc.slot(1), plc.slot(0)):
        yield ("plc", "slots"), "two slots apart from each other"
    for index in (0, 1):
        if _inside(plc.slot(index), plc.applied):
            yield ("plc", "slots", index), f"a slot outside 'applied' ({plc.applied})"


def _inside(path: str, other: str) -> bool:
    """Whether ``path`` is ``other`` or a part of it; names are the same in either case of letters."""
    path, other = path.upper(), other.upper()
    return path == other or path.startswith((f"{other}.", f"{other}["))


def _devices(plc: SlmpPlc, outputs: Sequence[Output]) -> Iterator[tuple[Place, str]]:
    values = sum(VALUE_WORDS.get(output.plc_type or "", 0) for output in outputs)
    request, applied = HEAD_WORDS + 2 * (SLOT_HEAD_WORDS + values), HEAD_WORDS + values
    space, first = _device(plc.request_device)
    other, start = _device(plc.applied_device)
    if space == other and first < start + applied and start < first + request:
        taken = f"{request} words from {plc.request_device} on are the request's, {applied} from here on are read back"
        yield ("plc", "applied_device"), f"a block apart from the request: {taken}"


def _device(name: str) -> tuple[str, int]:
    """Memory and number; R is a window on ZR, so both count as one memory."""
    match = re.fullmatch(r"(D|W|R|ZR)([0-9A-F]+)", name)
    assert match is not None  # the pattern of the file's own check
    kind, digits = match.groups()
    try:
        return {"R": "ZR"}.get(kind, kind), int(digits, 16 if kind == "W" else 10)
    except ValueError:
        return name, 0  # no number of this device: refused when the device is named
