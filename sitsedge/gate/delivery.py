"""From an accepted command to its receipt: write to the PLC, read back, judge what was applied."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import dataclass

from attest.command import Accepted, ReadBack, Receipt
from sitsedge.gate.book import GateBook
from sitsedge.gate.link import Message
from sitsedge.gate.plc import Applied, PlcError, PlcPort
from sitsedge.gate.server import Connection
from sitsedge.telemetry.durations import DurationRing

READBACK_FIRST_S = 0.003  # one PLC scan after the write
READBACK_STEP_S = 0.004
READBACKS_MAX = 16  # read-backs under way; more means a PLC that does not answer
READBACK_TOLERANCE_COUNTS = 1
DRAIN_S = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliverySetup:
    """Physical units per count of each output, and how long values and read-backs are good for."""

    scales: tuple[float, ...]
    silence_ns: int
    readback_ns: int


class Delivery:
    """One PLC (or none, in SHADOW) and the receipts of what reached it."""

    def __init__(self, setup: DeliverySetup, *, plc: PlcPort, book: GateBook) -> None:
        self._setup = setup
        self._plc = plc
        self._book = book
        self._readbacks: set[asyncio.Task[None]] = set()
        self._not_applied = False
        self._auto_wanted = True
        self.write_ring = DurationRing()
        self.last_applied: Applied | None = None

    def plant_outputs(self) -> tuple[int, ...] | None:
        """What the plant applies as far as is known, in counts."""
        if self.last_applied is None:
            return None
        pairs = zip(self.last_applied.values, self._setup.scales, strict=True)
        return tuple(round(value / scale) for value, scale in pairs)

    def request_auto(self, wanted: bool) -> None:
        """Ask the PLC for AUTO or give it back; a failure is an alarm."""
        self._auto_wanted = wanted
        self._spawn(self._request_auto(wanted))

    async def _request_auto(self, wanted: bool) -> None:
        try:
            await self._plc.request_auto(wanted)
        except PlcError as error:
            self._book.alarm(error.code, error.found, error.expected, sequence=0)

    async def drain(self) -> None:
        """Wait for what is under way, within a limit."""
        if self._readbacks:
            await asyncio.wait(self._readbacks, timeout=DRAIN_S)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._readbacks.add(task)
        task.add_done_callback(self._readbacks.discard)

    async def write(self, connection: Connection, verdict: Accepted, accepted_ns: int, timing: dict[str, int]) -> None:
        """Write the command's values; read-back and receipt follow beside the next command.

        ``timing`` gets ``acknowledged`` (CLOCK_MONOTONIC ns), 0 where the write failed.
        """
        command = verdict.parsed.command
        sequence = command.header.sequence
        values = [count * scale for count, scale in zip(command.outputs, self._setup.scales, strict=True)]
        started = time.monotonic_ns()
        try:
            await self._plc.write(sequence=sequence, values=values, valid_until_ns=accepted_ns + self._setup.silence_ns)
        except PlcError as error:
            self._book.alarm(error.code, error.found, error.expected, sequence=sequence)
            timing["acknowledged"] = 0
            receipt = receipt_of(self._book.gate_id, verdict, accepted_ns=accepted_ns, state=ReadBack.NOT_APPLIED)
            send_receipt(self._book, connection, receipt, timing)
            return
        acknowledged = time.monotonic_ns()
        timing["acknowledged"] = acknowledged
        self.write_ring.add(acknowledged - started)
        written_ns = time.time_ns()
        if len(self._readbacks) >= READBACKS_MAX:
            receipt = receipt_of(
                self._book.gate_id, verdict, accepted_ns=accepted_ns, state=ReadBack.PENDING, written_ns=written_ns
            )
            send_receipt(self._book, connection, receipt, timing)
            return
        self._spawn(self._read_back(connection, verdict, accepted_ns, written_ns, timing))

    async def _read_back(
        self, connection: Connection, verdict: Accepted, accepted_ns: int, written_ns: int, timing: dict[str, int]
    ) -> None:
        """Poll until the PLC shows this sequence or a later one, or the time for it is over."""
        header = verdict.parsed.command.header
        deadline = time.monotonic_ns() + self._setup.readback_ns
        wait_s = READBACK_FIRST_S
        applied: Applied | None = None
        while time.monotonic_ns() < deadline:
            await asyncio.sleep(wait_s)
            wait_s = READBACK_STEP_S
            try:
                applied = await self._plc.read_back()
            except PlcError as error:
                log.warning("read-back: %s", error)
                continue
            self.last_applied = applied
            if applied.sequence >= header.sequence:
                break
        send_receipt(self._book, connection, self._judge_read_back(verdict, applied, accepted_ns, written_ns), timing)

    def _judge_read_back(
        self, verdict: Accepted, applied: Applied | None, accepted_ns: int, written_ns: int
    ) -> Receipt:
        command = verdict.parsed.command
        counts = self.plant_outputs() if applied is not None else None
        if applied is None or counts is None:
            state = ReadBack.PENDING
        elif applied.sequence < command.header.sequence or not applied.auto_active:
            state = ReadBack.NOT_APPLIED
        elif applied.sequence > command.header.sequence:
            state = ReadBack.OK  # already the next command's values
        else:
            close = all(abs(a - b) <= READBACK_TOLERANCE_COUNTS for a, b in zip(counts, command.outputs, strict=True))
            state = ReadBack.OK if close else ReadBack.NOT_APPLIED
        self._note_application(state, command.header.sequence, applied)
        return receipt_of(
            self._book.gate_id,
            verdict,
            accepted_ns=accepted_ns,
            state=state,
            written_ns=written_ns,
            read_back=counts or (),
            read_back_ns=time.time_ns() if counts else 0,
        )

    def _note_application(self, state: ReadBack, sequence: int, applied: Applied | None) -> None:
        """One alarm when commands stop taking effect, none for every command after it.

        A gate that gave AUTO back itself knows why the last ones are not applied; their receipts say so all the same.
        """
        failing = state is ReadBack.NOT_APPLIED and self._auto_wanted
        if failing and not self._not_applied:
            found = (
                "no read-back"
                if applied is None
                else f"applied sequence {applied.sequence}, AUTO {applied.auto_active}"
            )
            self._book.alarm("not-applied", found, f"sequence {sequence} applied in AUTO", sequence=sequence)
        self._not_applied = failing


def send_receipt(book: GateBook, connection: Connection, receipt: Receipt, timing: dict[str, int]) -> None:
    """Keep a receipt; the client gets it, with the gate's clock readings, once it is durable."""
    message: Message = {"t": "receipt", "sequence": receipt.sequence, "state": receipt.state.value}
    book.answer(connection, receipt, message | {"timing": timing})


def receipt_of(
    gate_id: str,
    verdict: Accepted,
    *,
    accepted_ns: int,
    state: ReadBack,
    written_ns: int = 0,
    read_back: tuple[int, ...] = (),
    read_back_ns: int = 0,
) -> Receipt:
    """The receipt of one accepted command; ``written_ns`` 0 means that nothing was written."""
    command = verdict.parsed.command
    return Receipt(
        gate_id=gate_id,
        epoch=command.header.epoch,
        sequence=command.header.sequence,
        command_digest=verdict.parsed.digest,
        accepted=command.outputs,
        applied=command.outputs if written_ns else (),
        read_back=read_back,
        state=state,
        proof_verified=verdict.proof_verified,
        t_accepted_ns=accepted_ns,
        t_written_ns=written_ns,
        t_read_back_ns=read_back_ns,
    )
