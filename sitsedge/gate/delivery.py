"""From an accepted command to its receipt: write to the PLC, read back, judge what was applied."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass

from attest.command import Accepted, ReadBack, Receipt
from sitsedge.gate.book import GateBook
from sitsedge.gate.link import Message
from sitsedge.gate.plc import Applied, OutcomeUnknown, PlcError, PlcPort, ReadBackMismatch
from sitsedge.gate.server import Connection
from sitsedge.telemetry.durations import DurationRing

READBACK_FIRST_S = 0.003  # one PLC scan after the write
READBACK_STEP_S = 0.004
READBACKS_MAX = 16  # read-backs under way; more means a PLC that does not answer
READBACK_TOLERANCE_COUNTS = 1
WRITTEN_MAX = 256  # writes remembered to put an applied one in order; as many as a read-back of 2.5 s at 100 Hz spans
DRAIN_S = 2.0
NS_PER_S = 1_000_000_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliverySetup:
    """Physical units per count of each output, and how long values and read-backs are good for."""

    scales: tuple[float, ...]
    silence_ns: int
    readback_ns: int


@dataclass(frozen=True, slots=True)
class _Job:
    """One accepted command on its way."""

    connection: Connection
    verdict: Accepted
    accepted_ns: int
    timing: dict[str, int]

    @property
    def sequence(self) -> int:
        return self.verdict.parsed.command.header.sequence


class Delivery:
    """One PLC and the receipts of what reached it.

    One write is under way at a time. A command that is accepted meanwhile waits; a newer one takes its place, and it
    is receipted as not written: a plant that falls behind gets the newest value, never a queue of old ones.
    """

    def __init__(self, setup: DeliverySetup, *, plc: PlcPort, book: GateBook) -> None:
        self._setup = setup
        self._plc = plc
        self._book = book
        self._tasks: set[asyncio.Task[None]] = set()
        self._reading = 0
        self._waiting: _Job | None = None
        self.writing = False
        """A write is under way, or about to be."""
        self._written: deque[int] = deque(maxlen=WRITTEN_MAX)
        self._not_applied = False
        self._mismatched = False
        self._failing = ""
        self._auto_wanted = True
        self.write_ring = DurationRing()
        self.last_applied: Applied | None = None
        self.superseded = 0
        self.failure: BaseException | None = None
        """What ended a task that must not end: a fault of this program, not of the PLC."""

    def plant_outputs(self) -> tuple[int, ...] | None:
        """What the plant applies as far as is known, in counts."""
        return None if self.last_applied is None else self._counts(self.last_applied)

    def _counts(self, applied: Applied) -> tuple[int, ...]:
        pairs = zip(applied.values, self._setup.scales, strict=True)
        return tuple(round(value / scale) for value, scale in pairs)

    def request_auto(self, wanted: bool) -> None:
        """Ask the PLC for AUTO or give it back; a failure is an alarm. What was not written by then will not be."""
        self._auto_wanted = wanted
        if not wanted:
            self._drop_waiting()
        self._spawn(self._request_auto(wanted))

    async def _request_auto(self, wanted: bool) -> None:
        try:
            await self._plc.request_auto(wanted)
        except PlcError as error:
            self._book.alarm(error.code, error.found, error.expected, sequence=0)

    async def drain(self) -> None:
        """Wait for what is under way, within a limit."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()

    async def write(self, connection: Connection, verdict: Accepted, accepted_ns: int, timing: dict[str, int]) -> None:
        """Have the command's values written; receipt and read-back follow beside the next command.

        ``timing`` gets ``acknowledged`` (CLOCK_MONOTONIC ns), 0 where the write failed or never began.
        """
        self._drop_waiting()
        self._waiting = _Job(connection, verdict, accepted_ns, timing)
        if not self.writing:
            self.writing = True
            self._spawn(self._write_waiting())

    def _drop_waiting(self) -> None:
        job, self._waiting = self._waiting, None
        if job is not None:
            self.superseded += 1
            self._not_written(job, ReadBack.NOT_WRITTEN)

    def _not_written(self, job: _Job, state: ReadBack) -> None:
        job.timing["acknowledged"] = 0
        receipt = receipt_of(self._book.gate_id, job.verdict, accepted_ns=job.accepted_ns, state=state)
        send_receipt(self._book, job.connection, receipt, job.timing)

    async def _write_waiting(self) -> None:
        try:
            while self._waiting is not None:
                job, self._waiting = self._waiting, None
                await self._write(job)
        finally:
            self.writing = False

    async def _write(self, job: _Job) -> None:
        command = job.verdict.parsed.command
        values = [count * scale for count, scale in zip(command.outputs, self._setup.scales, strict=True)]
        started = time.monotonic_ns()
        valid_until_ns = job.accepted_ns + self._setup.silence_ns
        try:
            await self._plc.write(sequence=job.sequence, values=values, valid_until_ns=valid_until_ns)
        except OutcomeUnknown as error:
            self._alarm_once(error, job.sequence)
            job.timing["acknowledged"] = 0
        except PlcError as error:
            self._alarm_once(error, job.sequence)
            self._not_written(job, ReadBack.NOT_APPLIED)
            return
        else:
            acknowledged = time.monotonic_ns()
            job.timing["acknowledged"] = acknowledged
            self.write_ring.add(acknowledged - started)
            self._failing = ""
        self._written.append(job.sequence)
        written_ns = time.time_ns()
        if self._reading >= READBACKS_MAX:
            receipt = receipt_of(
                self._book.gate_id,
                job.verdict,
                accepted_ns=job.accepted_ns,
                state=ReadBack.PENDING,
                written_ns=written_ns,
            )
            send_receipt(self._book, job.connection, receipt, job.timing)
            return
        self._reading += 1
        self._spawn(self._read_back(job, written_ns))

    def _alarm_once(self, error: PlcError, sequence: int) -> None:
        """One alarm when writes begin to fail in some way, none for every command after it."""
        if error.code != self._failing:
            self._failing = error.code
            self._book.alarm(error.code, error.found, error.expected, sequence=sequence)

    async def _read_back(self, job: _Job, written_ns: int) -> None:
        """Poll until the PLC shows this command or a later one, or the time for it is over."""
        try:
            applied = await self._poll(job)
        finally:
            self._reading -= 1
        receipt = self._judge_read_back(job.verdict, applied, job.accepted_ns, written_ns)
        send_receipt(self._book, job.connection, receipt, job.timing)

    async def _poll(self, job: _Job) -> Applied | ReadBackMismatch | None:
        deadline = time.monotonic_ns() + self._setup.readback_ns
        wait_s = READBACK_FIRST_S
        applied: Applied | None = None
        doubted = False
        while time.monotonic_ns() < deadline:
            await asyncio.sleep(wait_s)
            wait_s = READBACK_STEP_S
            try:
                async with asyncio.timeout((deadline - time.monotonic_ns()) / NS_PER_S):
                    applied = await self._plc.read_back()
            except TimeoutError:
                break
            except ReadBackMismatch as error:
                return error
            except PlcError as error:
                log.warning("read-back: %s", error)
                continue
            self.last_applied = applied
            newer = self._newer(applied.sequence, job.sequence)
            if newer is False and not doubted and not self._close(applied, job.verdict):
                doubted, wait_s = True, 0.0  # a look may fall between the PLC's own writes: two of them are believed
            elif newer is not None:
                break
        return applied

    def _close(self, applied: Applied, verdict: Accepted) -> bool:
        pairs = zip(self._counts(applied), verdict.parsed.command.outputs, strict=True)
        return all(abs(a - b) <= READBACK_TOLERANCE_COUNTS for a, b in pairs)

    def _newer(self, found: int, sequence: int) -> bool | None:
        """True: ``found`` was written after ``sequence``; False: it is the same; None: before, or not by this gate.

        By the order of writing, because every epoch numbers its commands from 1.
        """
        for written in reversed(self._written):
            if written == found:
                return found != sequence
            if written == sequence:
                return None
        return None

    def _judge_read_back(
        self, verdict: Accepted, found: Applied | ReadBackMismatch | None, accepted_ns: int, written_ns: int
    ) -> Receipt:
        command = verdict.parsed.command
        applied = found if isinstance(found, Applied) else None
        counts = self._counts(applied) if applied is not None else ()
        if isinstance(found, ReadBackMismatch):
            state = ReadBack.NOT_APPLIED
            self._note_mismatch(found, command.header.sequence)
        elif applied is None:
            state = ReadBack.PENDING
        else:
            newer = self._newer(applied.sequence, command.header.sequence)
            if newer is None or not applied.auto_active:
                state = ReadBack.NOT_APPLIED
            elif newer:
                state = ReadBack.OK  # already the next command's values
            else:
                state = ReadBack.OK if self._close(applied, verdict) else ReadBack.NOT_APPLIED
            self._mismatched = False
            self._note_application(state, command.header.sequence, applied)
        return receipt_of(
            self._book.gate_id,
            verdict,
            accepted_ns=accepted_ns,
            state=state,
            written_ns=written_ns,
            read_back=counts,
            read_back_ns=time.time_ns() if counts else 0,
        )

    def _note_mismatch(self, error: ReadBackMismatch, sequence: int) -> None:
        """One alarm when the block begins to hold something else than was written."""
        if not self._mismatched:
            self._book.alarm(error.code, error.found, error.expected, sequence=sequence)
        self._mismatched = True

    def _note_application(self, state: ReadBack, sequence: int, applied: Applied) -> None:
        """One alarm when commands stop taking effect, none for every command after it.

        A gate that gave AUTO back itself knows why the last ones are not applied; their receipts say so all the same.
        """
        failing = state is ReadBack.NOT_APPLIED and self._auto_wanted
        if failing and not self._not_applied:
            found = f"applied sequence {applied.sequence}, AUTO {applied.auto_active}"
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
