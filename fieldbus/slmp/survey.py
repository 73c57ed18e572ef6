"""What a MELSEC CPU is: model, mode, latest error, clock. Asks only, writes nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from fieldbus.slmp.client import CpuState, SlmpClient
from fieldbus.slmp.errors import SlmpError
from fieldbus.slmp.model import CpuModel

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class SlmpSurvey:
    """A CPU; None where it does not tell, with the code of its refusal under ``refused``. SLMP lists no devices:
    which ones the program uses is in its project alone."""

    model: CpuModel
    state: CpuState | None
    clock_ns: int | None
    refused: dict[str, str]


async def survey(client: SlmpClient, clock: dt.tzinfo = dt.UTC) -> SlmpSurvey:
    """Ask a connected client's CPU. Raises SlmpError or LinkError where the connection fails, or it tells no model."""
    refused: dict[str, str] = {}

    async def ask(what: str, answer: Awaitable[_T]) -> _T | None:
        try:
            return await answer
        except SlmpError as error:
            if not client.connected:
                raise
            refused[what] = error.code
            return None

    model = await client.model()
    return SlmpSurvey(model, await ask("state", client.state()), await ask("clock", client.clock_ns(clock)), refused)
