"""What an S7 CPU is: names, order number, mode, clock, blocks, newest diagnostic entries. Asks only, writes nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from fieldbus.s7 import szl
from fieldbus.s7.blocks import BlockKind
from fieldbus.s7.client import S7Client
from fieldbus.s7.errors import S7Error

DIAGNOSTIC_ENTRIES = 5
_NAMES = {1: "system", 2: "module", 5: "serial", 7: "type"}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class S7Survey:
    """A CPU. None, or nothing, where it does not tell: ``refused`` has the code of its refusal (1200 and 1500 tell
    little of this over PUT/GET). ``data_blocks``: numbers; ``clock_ns``: Unix ns by the CPU's clock in its zone."""

    pdu_bytes: int
    names: dict[str, str]
    order_number: str | None
    state: szl.CpuState | None
    clock_ns: int | None
    blocks: dict[str, int]
    data_blocks: tuple[int, ...]
    diagnostics: tuple[szl.DiagnosticEntry, ...]
    refused: dict[str, str]


async def survey(client: S7Client, clock: dt.tzinfo = dt.UTC) -> S7Survey:
    """Ask a connected client's CPU. Raises S7Error or LinkError where the connection fails."""
    refused: dict[str, str] = {}

    async def ask(what: str, answer: Awaitable[_T]) -> _T | None:
        try:
            return await answer
        except S7Error as error:
            if not client.connected:
                raise
            refused[what] = error.code
            return None

    async def order_number() -> str:
        return szl.order_number(await client.read_szl(szl.MODULE_ID))

    async def names() -> dict[int, str]:
        return szl.names(await client.read_szl(szl.COMPONENT_ID))

    found = await ask("names", names()) or {}
    counts = await ask("blocks", client.block_counts()) or {}
    entries = await ask("data blocks", client.blocks(BlockKind.DB)) if counts.get(BlockKind.DB) else ()
    return S7Survey(
        client.pdu_bytes,
        {name: found[number] for number, name in _NAMES.items() if number in found},
        await ask("order number", order_number()),
        await ask("state", client.cpu_state(clock)),
        await ask("clock", client.clock_ns(clock)),
        {kind.name: count for kind, count in counts.items()},
        tuple(entry.number for entry in entries or ()),
        (await ask("diagnostics", client.diagnostic_buffer(clock)) or ())[:DIAGNOSTIC_ENTRIES],
        refused,
    )
