"""The request block in tags of a Logix controller: members by name, in multiple service packets.

Tags are written while the program runs, each DINT or REAL whole, but a packet's members one after the other: the slot
takes as many packets as it needs and nobody looks at it before ``Sequence``, a single DINT in a request of its own,
names it (:mod:`sitsedge.gate.plc.block`). The controller checks every member's name and type itself, so a structure
that was changed by a download is refused and never written by an old layout.
"""

from __future__ import annotations

from fieldbus.cip.client import CipClient, backplane
from fieldbus.cip.errors import CipError
from fieldbus.cip.identity import Mode
from fieldbus.cip.path import encode_path, to_tag
from fieldbus.cip.replies import Refused, TagValues
from fieldbus.cip.types import Value as TagValue
from fieldbus.errors import FieldbusError
from sitsedge.config.plc import CipPlc
from sitsedge.gate.plc.block import NUMBERS, Raw, Seen, Slot, Value
from sitsedge.gate.plc.port import PlcError

PACKET_BYTES = 440
"""Messages of one packet together: unconnected ones carry 504 bytes, and a routed request has its own head and path."""
SERVICE_BYTES = 16
"""What a service adds to its path: head, type, elements, eight bytes of value, its offset."""
NUMBER_TYPES = ("DINT", "UDINT", "DWORD")
_NO_TAG = ("status-04", "status-05", "status-ff")
_PRIVILEGE = ("status-0f", "status-0e")

Tag = tuple[str, tuple[str, ...]]
"""Name and the types it may have."""


class CipWire:
    """One controller; see :class:`~sitsedge.gate.plc.vendor.Wire`."""

    def __init__(self, plc: CipPlc, values: tuple[Value, ...]) -> None:
        route = () if plc.controller_slot is None else backplane(plc.controller_slot)
        self._client = CipClient(plc.address, plc.port, route=route, deadline_s=plc.deadline_ms / 1000)
        request, applied = plc.request, plc.applied
        self._sequence: Tag = (f"{request}.Sequence", NUMBER_TYPES)
        self._auto_request = f"{request}.AutoRequest"
        self._slots = tuple(_slot_tags(f"{plc.slot(index)}.", values) for index in (0, 1))
        self._applied: tuple[Tag, ...] = (
            (f"{applied}.Sequence", NUMBER_TYPES),
            (f"{applied}.AutoActive", ("BOOL",)),
            *((f"{applied}.{value.applied_node}", (value.type,)) for value in values),
        )
        self._types: dict[str, str] = {}

    @property
    def connected(self) -> bool:
        return self._client.connected

    async def open(self) -> None:
        """Raises :class:`PlcError` ``plc-block`` with the first member that is not there or of another type."""
        await self._client.connect()
        self._types.clear()
        auto: Tag = (self._auto_request, ("BOOL",))
        await self._read((self._sequence, auto, *self._applied, *self._slots[0], *self._slots[1]))

    async def close(self) -> None:
        await self._client.close()

    async def standstill(self) -> str:
        identity = await self._client.identity()
        return "" if identity.mode is Mode.RUN else f"controller in mode {identity.mode}"

    async def put_slot(self, slot: Slot) -> None:
        tags = self._slots[slot.index]
        raws = (slot.number, slot.check, slot.valid_ms, *slot.values)
        writes = [self._typed(name, raw) for (name, _), raw in zip(tags, raws, strict=True)]
        for start, end in _packets(tuple(name for name, _ in tags)):
            await self._client.put(tuple(writes[start:end]))

    async def put_sequence(self, number: int) -> None:
        await self._client.put((self._typed(self._sequence[0], number),))

    async def put_auto(self, wanted: bool) -> None:
        await self._client.put(((self._auto_request, "BOOL", wanted),))

    async def published(self) -> int:
        return _number((await self._read((self._sequence,)))[0])

    async def look(self, slot: int | None) -> Seen:
        tags = () if slot is None else (self._sequence, *self._slots[slot])
        found = await self._read((*self._applied, *tags))
        (number, active, *values), request = found[: len(self._applied)], None
        if slot is not None:
            sequence, *rest = found[len(self._applied) :]
            request = _number(sequence), Slot.found(tuple(map(_number, rest[:3])), tuple(map(_raw, rest[3:])))
        return Seen(request, _number(number), bool(active), tuple(map(_raw, values)))

    def refusal(self, error: FieldbusError) -> str:
        if error.code in _PRIVILEGE:
            return "plc-protected"
        return "plc-block" if error.code in _NO_TAG else ""

    async def _read(self, tags: tuple[Tag, ...]) -> list[TagValue]:
        names = tuple(name for name, _ in tags)
        values: list[TagValue] = []
        for start, end in _packets(names):
            found = await self._client.read_many(names[start:end])
            for (name, types), item in zip(tags[start:end], found, strict=True):
                if isinstance(item, Refused):
                    raise CipError(f"status-{item.status:02x}", found=f"{item.meaning} ({name})", expected="success")
                if not isinstance(item, TagValues) or item.type not in types:
                    kind = item.type if isinstance(item, TagValues) else "a structure"
                    raise PlcError("plc-block", found=f"{kind} of {name}", expected=" or ".join(types))
                self._types[name] = item.type
                values.append(item.values[0])
        return values

    def _typed(self, name: str, raw: Raw) -> tuple[str, str, Raw]:
        """The write of a member as the type that the controller said it has."""
        kind = self._types[name]
        if kind == "DINT" and raw >= NUMBERS // 2:
            raw = int(raw) - NUMBERS
        return name, kind, raw


def _slot_tags(base: str, values: tuple[Value, ...]) -> tuple[Tag, ...]:
    head = tuple((base + name, NUMBER_TYPES) for name in ("Number", "Check", "ValidMs"))
    return (*head, *((base + value.node, (value.type,)) for value in values))


def _packets(names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Ranges of tags whose services fit one packet each."""
    ranges, start, size = [], 0, 0
    for index, name in enumerate(names):
        needed = len(encode_path(to_tag(name))) + SERVICE_BYTES
        if index > start and size + needed > PACKET_BYTES:
            ranges.append((start, index))
            start, size = index, 0
        size += needed
    return [*ranges, (start, len(names))]


def _number(value: TagValue) -> int:
    assert isinstance(value, int)
    return value % NUMBERS


def _raw(value: TagValue) -> Raw:
    assert isinstance(value, int | float)
    return value
