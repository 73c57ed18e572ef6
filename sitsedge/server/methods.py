"""The appliance's methods: any record with its proof of inclusion, the proof of a command, and one step down.

What a method answers with besides Good: Bad_NotFound and its like where there is nothing, with the reason in the log;
why a step down is refused is an event as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from asyncua import ua

from attest.command import Mode
from fieldbus.opcua.server import Access, Caller
from sitsedge.errors import SitsError
from sitsedge.gate.control import request_step_down
from sitsedge.server.records import FetchError, fetch_proof, fetch_record

REASON_CHARACTERS_MAX: Final = 200
URI_CHARACTERS_MAX: Final = 120
FETCHES_MAX: Final = 4  # at a time: each opens a ledger on a thread of the pool
Tell = Callable[[str], Awaitable[None]]
_STATUS: Final = {
    "record-unknown": ua.StatusCodes.BadNotFound,
    "record-large": ua.StatusCodes.BadResponseTooLarge,
    "record-kind": ua.StatusCodes.BadInvalidArgument,
    "proof-owed": ua.StatusCodes.BadNoData,
}

log = logging.getLogger(__name__)


class Methods:
    """Callbacks for the model's methods; arguments and results are variants in the order of the model."""

    def __init__(
        self, *, gate_ledger: Path, device_ledger: Path, gate_control: Path, access: Access, tell: Tell
    ) -> None:
        """``tell`` makes an event of a sentence: a status code alone does not say why."""
        self._tell = tell
        self._ledgers = {"gate": gate_ledger, "device": device_ledger}
        self._control = gate_control
        self._access = access
        self._fetches = asyncio.Semaphore(FETCHES_MAX)

    async def step_down(self, parent: ua.NodeId, *arguments: ua.Variant) -> Any:
        """``(mode, reason) -> (before, after)``: the gate's record names the caller, and the gate refuses to go up."""
        values = [argument.Value for argument in arguments]
        if len(values) != 2 or not _is_whole(values[0]) or not isinstance(values[1] or "", str):
            return ua.StatusCode(ua.StatusCodes.BadInvalidArgument)
        if values[0] not in set(Mode):
            return ua.StatusCode(ua.StatusCodes.BadOutOfRange)
        caller, to = self._access.caller(), Mode(values[0])
        try:
            answer = await asyncio.to_thread(request_step_down, self._control, to.name, _who(caller, values[1] or ""))
        except SitsError as error:
            await self._refuse(to, caller, f"{error.code}: {error.found}")
            return ua.StatusCode(ua.StatusCodes.BadNoCommunication)
        if not answer.get("ok"):
            await self._refuse(to, caller, f"{answer.get('code')}: expected {answer.get('expected')}")
            return ua.StatusCode(ua.StatusCodes.BadInvalidState)
        log.info("StepDown from %s to %s by %s", answer["from"], answer["to"], caller.name)
        return [ua.Variant(int(Mode[answer[key]]), ua.VariantType.Int32) for key in ("from", "to")]

    async def _refuse(self, to: Mode, caller: Caller, why: str) -> None:
        message = f"StepDown to {to.name} by {caller.name} is refused: {why}"
        log.warning("%s", message)
        await self._tell(message)

    async def fetch_record(self, parent: ua.NodeId, *arguments: ua.Variant) -> Any:
        """``(ledger, index) -> (record, tree size, inclusion proof, checkpoint)``."""
        values = [argument.Value for argument in arguments]
        if len(values) != 2 or values[0] not in ("gate", "device") or not _is_whole(values[1]):
            return ua.StatusCode(ua.StatusCodes.BadInvalidArgument)
        async with self._fetches:
            try:
                found = await asyncio.to_thread(fetch_record, self._ledgers[values[0]], values[1])
            except FetchError as error:
                return _refused(error)
        return [
            ua.Variant(found.data, ua.VariantType.ByteString),
            ua.Variant(found.tree_size, ua.VariantType.UInt64),
            ua.Variant(list(found.inclusion), ua.VariantType.ByteString, is_array=True),
            ua.Variant(found.checkpoint, ua.VariantType.ByteString),
        ]

    async def fetch_proof(self, parent: ua.NodeId, *arguments: ua.Variant) -> Any:
        """``(epoch, sequence) -> (proof kind, proof, command)``."""
        values = [argument.Value for argument in arguments]
        if len(values) != 2 or not all(map(_is_whole, values)):
            return ua.StatusCode(ua.StatusCodes.BadInvalidArgument)
        gate, device = self._ledgers["gate"], self._ledgers["device"]
        async with self._fetches:
            try:
                found = await asyncio.to_thread(fetch_proof, gate, device, values[0], values[1])
            except FetchError as error:
                return _refused(error)
        return [
            ua.Variant(int(found.kind), ua.VariantType.Int32),
            ua.Variant(found.proof, ua.VariantType.ByteString),
            ua.Variant(found.command, ua.VariantType.ByteString),
        ]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _who(caller: Caller, reason: str) -> str:
    """For the record: name and role first, so that a long reason cannot push them out."""
    words = f"{caller.role} {caller.name} over OPC UA ({caller.application_uri[:URI_CHARACTERS_MAX]})"
    return f"{words}: {reason[:REASON_CHARACTERS_MAX]}" if reason else words


def _refused(error: FetchError) -> ua.StatusCode:
    log.info("fetch refused: %s", error)
    return ua.StatusCode(_STATUS.get(error.code, ua.StatusCodes.BadResourceUnavailable))
