"""Which blocks a CPU has: user data group 3, functions 1 (how many of each kind) and 2 (numbers of one kind).

Sources: Siemens, "System Software for S7-300/400: Reference" (kinds of blocks); the answers' form is that of the
telegrams CPUs send.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fieldbus.cursor import Cursor
from fieldbus.s7.errors import S7Error

COUNT_BLOCKS, LIST_BLOCKS = 1, 2
_MARK = 0x30
_COUNT_BYTES = _ENTRY_BYTES = 4


class BlockKind(Enum):
    """Kinds of blocks by their letter on the wire."""

    OB = "8"
    DB = "A"
    SDB = "B"
    FC = "C"
    SFC = "D"
    FB = "E"
    SFB = "F"


_BY_LETTER = {kind.value: kind for kind in BlockKind}


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """One block: its number, flags and language code as sent."""

    number: int
    flags: int
    language: int


def block_counts(data: bytes) -> dict[BlockKind, int]:
    """How many blocks of each kind there are. Raises S7Error ``block-list``; kinds that are not known are left out."""
    cursor = _cursor(data)
    counts: dict[BlockKind, int] = {}
    for _ in range(len(data) // _COUNT_BYTES):
        cursor.expect(_MARK, 1, "block-list", "mark of a kind of blocks")
        kind, count = _BY_LETTER.get(chr(cursor.u8("kind"))), cursor.u16("number of blocks")
        if kind is not None:
            counts[kind] = count
    return counts


def block_entries(data: bytes) -> tuple[BlockEntry, ...]:
    """Blocks of one kind. Raises S7Error ``block-list``."""
    cursor = _cursor(data)
    count = len(data) // _ENTRY_BYTES
    return tuple(BlockEntry(cursor.u16("number"), cursor.u8("flags"), cursor.u8("language")) for _ in range(count))


def _cursor(data: bytes) -> Cursor:
    if len(data) % _ENTRY_BYTES:
        raise S7Error("block-list", found=f"{len(data)} bytes", expected=f"entries of {_ENTRY_BYTES}")
    return Cursor(data, S7Error, "big")


def list_request(kind: BlockKind) -> bytes:
    """Data of the request for the blocks of one kind."""
    return bytes((_MARK,)) + kind.value.encode("ascii")
