"""The request block in a data block of an S7 CPU: two write jobs per command, one read job for everything.

A write job is answered when the CPU has taken all its bytes, but a CPU takes them between or within program blocks as
its model pleases (Siemens promises consistency for a few bytes to a few hundred): the block is made so that it does
not matter (:mod:`sitsedge.gate.plc.block`). The second job holds the four bytes of ``Sequence`` and nothing else.

The CPU's block must be as long as the layout says: the last byte can be read and the one behind it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fieldbus.errors import FieldbusError
from fieldbus.s7.client import S7Client, selector
from fieldbus.s7.errors import S7Error
from fieldbus.s7.items import SUCCESS
from fieldbus.s7.layout import BlockLayout, Member, parse_layout
from fieldbus.s7.limits import BLOCK_BYTES_MAX, ITEMS_MAX, LAYOUT_BYTES_MAX
from fieldbus.s7.model import Area, Item, ItemType
from fieldbus.s7.status import OPTIMISED_HINT, return_code
from fieldbus.s7.szl import CpuMode
from fieldbus.s7.values import DataType, decode_value, encode_value
from fieldbus.sample import TagValue
from sitsedge.config import ConfigError, ConfigFault, GateFile
from sitsedge.config.deployment import locate
from sitsedge.config.plc import S7Plc
from sitsedge.gate.plc.block import NUMBERS, Raw, Seen, Slot, Value
from sitsedge.gate.plc.port import PlcError

RUN_BYTES_MAX = 80
"""Of one item: it fits the smallest PDU, of 112 bytes."""
JOB_OVERHEAD, ITEM_OVERHEAD = 14, 17
"""Bytes of a write job, and of an item in it, beside its data."""
NUMBER_TYPES = (DataType.UDINT, DataType.DINT, DataType.DWORD)
_KINDS = {"pg": 1, "op": 2, "basic": 3}
_PROTECTED = ("access not allowed", "protection level forbids it", "wrong password")
_NO_BLOCK = (0x05, 0x0A)


@dataclass(frozen=True, slots=True)
class Place:
    """Members that are read or written together: their bytes in one piece each where they follow one another."""

    members: tuple[Member, ...]
    runs: tuple[Item, ...]

    @classmethod
    def of(cls, layout: BlockLayout, members: tuple[Member, ...]) -> Place:
        """Neighbouring members share an item; a BOOL is read with its byte."""
        runs: list[tuple[int, int]] = []
        for member in sorted(members, key=lambda member: member.byte):
            end = member.byte + member.spec.size
            if runs and member.byte <= runs[-1][1] and end - runs[-1][0] <= RUN_BYTES_MAX:
                runs[-1] = (runs[-1][0], max(runs[-1][1], end))
            else:
                runs.append((member.byte, end))
        block = layout.number
        items = (Item(Area.DATA_BLOCK, start, end - start, ItemType.BYTE, block) for start, end in runs)
        return cls(members, tuple(items))

    def encode(self, values: tuple[Raw, ...]) -> tuple[tuple[Item, bytes], ...]:
        """Items with their bytes; members cover every byte of them. ``values`` in the members' order."""
        image = {}
        for member, value in zip(self.members, values, strict=True):
            image[member.byte] = encode_value(member.spec, value)
        parts = []
        for item in self.runs:
            data = b"".join(image[byte] for byte in sorted(image) if item.start <= byte < item.start + item.count)
            parts.append((item, data))
        return tuple(parts)

    def decode(self, parts: tuple[bytes, ...]) -> tuple[TagValue, ...]:
        """Values in the members' order, from the bytes of the items."""
        values = []
        for member in self.members:
            for item, data in zip(self.runs, parts, strict=True):
                if item.start <= member.byte < item.start + item.count:
                    at = member.byte - item.start
                    values.append(decode_value(member.spec, data[at : at + member.spec.size], bit=member.bit))
        return tuple(values)


@dataclass(frozen=True, slots=True)
class S7Block:
    """Where everything of the request block is in its data block."""

    layout: BlockLayout
    slots: tuple[Place, Place]
    sequence: Place
    auto_request: Member
    applied: Place
    """``Sequence``, ``AutoActive`` and the values."""

    @classmethod
    def of(cls, layout: BlockLayout, plc: S7Plc, values: tuple[Value, ...]) -> S7Block:
        """Raises S7Error ``member-unknown``, ``member-type`` with the member's path."""

        def member(path: str, *types: DataType) -> Member:
            found = layout.member(path)
            if found.spec.type not in types:
                raise S7Error("member-type", found=f"{found.spec.type} of {path}", expected=" or ".join(types))
            return found

        def slot(index: int) -> Place:
            base = f"{plc.slot(index)}."
            head = [member(base + name, *NUMBER_TYPES) for name in ("Number", "Check", "ValidMs")]
            return Place.of(layout, (*head, *(member(base + value.node, _TYPES[value.type]) for value in values)))

        applied = [
            member(f"{plc.applied}.Sequence", *NUMBER_TYPES),
            member(f"{plc.applied}.AutoActive", DataType.BOOL),
            *(member(f"{plc.applied}.{value.applied_node}", _TYPES[value.type]) for value in values),
        ]
        return cls(
            layout,
            (slot(0), slot(1)),
            Place.of(layout, (member(f"{plc.request}.Sequence", *NUMBER_TYPES),)),
            member(f"{plc.request}.AutoRequest", DataType.BOOL),
            Place.of(layout, tuple(applied)),
        )


_TYPES = {"REAL": DataType.REAL, "LREAL": DataType.LREAL, "INT": DataType.INT, "DINT": DataType.DINT}


def load_block(gate: GateFile, gate_path: Path, values: tuple[Value, ...]) -> S7Block:
    """The block of the gate file's layout. Raises ConfigError at ``plc.layout`` for a layout that does not fit."""
    plc = gate.plc
    assert isinstance(plc, S7Plc)
    path = gate_path.parent / plc.layout
    try:
        with path.open("rb") as stream:
            data = stream.read(LAYOUT_BYTES_MAX + 1)
        return S7Block.of(parse_layout(data), plc, values)
    except OSError as error:
        found, expected = f"{plc.layout}: {error.strerror}", "the block's export from TIA Portal"
    except S7Error as error:
        found, expected = f"{plc.layout}: {error.code}: {error.found}", error.expected
    line, column = locate(gate_path, "plc.layout")
    raise ConfigError([ConfigFault(str(gate_path), line, column, "plc.layout", found, expected)])


class S7Wire:
    """One CPU; see :class:`~sitsedge.gate.plc.vendor.Wire`."""

    def __init__(self, plc: S7Plc, block: S7Block) -> None:
        called = selector(_KINDS[plc.connection], plc.rack, plc.cpu_slot)
        self._client = S7Client(plc.address, plc.port, called=called, deadline_s=plc.deadline_ms / 1000)
        self._block = block

    @property
    def connected(self) -> bool:
        return self._client.connected

    async def open(self) -> None:
        """Raises :class:`PlcError` ``plc-block`` where the CPU's block is longer than the layout."""
        await self._client.connect()
        number, size = self._block.layout.number, self._block.layout.size
        probes = [Item(Area.DATA_BLOCK, size - 1, 1, ItemType.BYTE, number)]
        if size < BLOCK_BYTES_MAX:
            probes.append(Item(Area.DATA_BLOCK, size, 1, ItemType.BYTE, number))
        last, *behind = await self._client.read(tuple(probes))
        if last.code in _NO_BLOCK:
            found = f"{return_code(last.code)} at byte {size - 1} of DB{number}"
            raise PlcError("plc-block", found=found, expected=f"{size} bytes", hint=OPTIMISED_HINT)
        if last.code != SUCCESS:
            raise S7Error("read-refused", found=return_code(last.code), expected="success")
        if any(data.code == SUCCESS for data in behind):
            raise PlcError(
                "plc-block",
                found=f"DB{number} longer than {size} bytes",
                expected="the block of the layout",
                hint="export the block again from the project that runs in the CPU",
            )

    async def close(self) -> None:
        await self._client.close()

    async def standstill(self) -> str:
        mode = (await self._client.cpu_state()).mode
        return "" if mode is CpuMode.RUN else f"CPU in {mode}"

    async def put_slot(self, slot: Slot) -> None:
        place = self._block.slots[slot.index]
        numbers = zip(place.members, (slot.number, slot.check, slot.valid_ms), strict=False)
        head = [_as_member(member, number) for member, number in numbers]
        for job in _jobs(place.encode((*head, *slot.values)), self._client.pdu_bytes):
            await self._client.put(job)

    async def put_sequence(self, number: int) -> None:
        place = self._block.sequence
        await self._client.put(place.encode((_as_member(place.members[0], number),)))

    async def put_auto(self, wanted: bool) -> None:
        await self._client.put(((self._block.layout.item(self._block.auto_request), bytes((wanted,))),))

    async def published(self) -> int:
        ((sequence,),) = await self._read(self._block.sequence)
        return _number(sequence)

    async def look(self, slot: int | None) -> Seen:
        """One read job, or as many as the PDU makes necessary."""
        request = () if slot is None else (self._block.sequence, self._block.slots[slot])
        (number, active, *values), *rest = await self._read(self._block.applied, *request)
        found = None
        if rest:
            (sequence,), (slot_number, check, valid_ms, *raws) = rest
            head = _number(slot_number), _number(check), _number(valid_ms)
            found = _number(sequence), Slot.found(head, tuple(map(_raw, raws)))
        return Seen(found, _number(number), bool(active), tuple(map(_raw, values)))

    async def _read(self, *places: Place) -> list[tuple[TagValue, ...]]:
        """The values of each place. Raises S7Error ``read-refused`` with the first return code that is no success."""
        found = await self._client.read(tuple(item for place in places for item in place.runs))
        bad = [data.code for data in found if data.code != SUCCESS]
        if bad:
            raise S7Error("read-refused", found=return_code(bad[0]), expected="success")
        parts = iter(found)
        return [place.decode(tuple(next(parts).data for _ in place.runs)) for place in places]

    def refusal(self, error: FieldbusError) -> str:
        if any(text in error.found for text in _PROTECTED):
            return "plc-protected"
        refused = error.code in ("write-refused", "read-refused")
        return "plc-block" if refused and any(return_code(code) == error.found for code in _NO_BLOCK) else ""


def _jobs(parts: tuple[tuple[Item, bytes], ...], pdu_bytes: int) -> list[tuple[tuple[Item, bytes], ...]]:
    """Parts in as few jobs as the PDU and the number of items allow."""
    jobs: list[list[tuple[Item, bytes]]] = []
    size = pdu_bytes
    for part in parts:
        needed = ITEM_OVERHEAD + len(part[1])
        if size + needed > pdu_bytes or len(jobs[-1]) >= ITEMS_MAX:
            jobs.append([])
            size = JOB_OVERHEAD
        jobs[-1].append(part)
        size += needed
    return [tuple(job) for job in jobs]


def _as_member(member: Member, number: int) -> int:
    """A 32-bit pattern as the member's type has it."""
    return number - NUMBERS if member.spec.type is DataType.DINT and number >= NUMBERS // 2 else number


def _number(value: TagValue) -> int:
    assert isinstance(value, int)
    return value % NUMBERS


def _raw(value: TagValue) -> Raw:
    assert isinstance(value, int | float)
    return value
