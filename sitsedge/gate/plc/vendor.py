"""One vendor's PLC behind one connection: numbers, order of requests, reconnects, and what an error means.

The connection has one request in flight. A task of its own makes them, in this order: AUTO requested or given back,
a write, a look at what is applied (one for all who wait), the controller's mode. Nothing is ever sent a second time:
a write that fails is the caller's to replace by a newer one. Only giving AUTO back is remembered and made up for when
the connection returns, because it is the one thing that is never too late.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from fieldbus.errors import FieldbusError
from fieldbus.polling import Backoff
from sitsedge.gate.plc.block import VALID_MS_MAX, Raw, Seen, Slot, Value, next_number
from sitsedge.gate.plc.port import Applied, OutcomeUnknown, PlcError, ReadBackMismatch

NS_PER_MS = 1_000_000
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 2.0
HEALTH_S = 1.0
"""Between looks at the controller's mode: a program that stands still is found by its ``Applied`` long before."""
REMEMBERED = 256
"""Numbers of writes whose commands are known: what is applied is at most as many behind."""

log = logging.getLogger(__name__)


class Wire(Protocol):
    """What one protocol does. Raises FieldbusError, or PlcError where it knows better what an answer means."""

    @property
    def connected(self) -> bool:
        """False once the connection has failed."""

    async def open(self) -> None:
        """Connect, and compare the block with the gate's files (``plc-block``)."""

    async def close(self) -> None:
        """End the connection."""

    async def standstill(self) -> str:
        """Why the controller's program does not run; empty where it does."""

    async def put_slot(self, slot: Slot) -> None:
        """Write a slot, in as many requests as it takes."""

    async def put_sequence(self, number: int) -> None:
        """Write ``Sequence``, in one request."""

    async def put_auto(self, wanted: bool) -> None:
        """Write ``AutoRequest``."""

    async def published(self) -> int:
        """Read ``Sequence``."""

    async def look(self, slot: int | None) -> Seen:
        """Read what is applied; with ``slot`` also ``Sequence`` and that slot."""

    def refusal(self, error: FieldbusError) -> str:
        """``plc-protected`` or ``plc-block`` where the controller's refusal says so, else empty."""


class VendorPort:
    """A PLC over ``wire``; see :class:`~sitsedge.gate.plc.port.PlcPort`."""

    def __init__(
        self,
        wire: Wire,
        values: tuple[Value, ...],
        *,
        protocol: str,
        run_only: bool,
        health_s: float = HEALTH_S,
        backoff: Backoff | None = None,
    ) -> None:
        self._wire, self._values = wire, values
        self._protocol, self._run_only, self._health_s = protocol, run_only, health_s
        self._backoff = backoff or Backoff(RETRY_FIRST_S, RETRY_MAX_S)
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._jobs: dict[str, deque[_Job]] = {kind: deque() for kind in ("auto", "write")}
        self._look: asyncio.Future[Applied] | None = None
        self._health_due = 0.0
        self._used = self._published = 0
        self._slot: Slot | None = None  # the newest that counts and has not been compared yet
        self._commands: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._give_back = False
        self.standstill = ""
        self.reconnects = 0
        self.faults: Counter[str] = Counter()

    @property
    def connected(self) -> bool:
        return self._worker is not None and not self._worker.done() and self._wire.connected

    def health(self) -> dict[str, Any]:
        return {
            "protocol": self._protocol,
            "standstill": self.standstill or None,
            "reconnects": self.reconnects,
            "faults": dict(self.faults),
        }

    async def connect(self) -> None:
        """Connect once; raises FieldbusError, or PlcError ``plc-block`` and ``plc-protected``."""
        await self._open()
        self._worker = asyncio.create_task(self._work(), name="plc-port")

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        self._fail_all(_closed())
        await self._wire.close()

    async def write(self, *, sequence: int, values: Sequence[float], valid_until_ns: int) -> None:
        raws = tuple(value.to_raw(number) for value, number in zip(self._values, values, strict=True))
        await self._ask("write", lambda: self._write(sequence, raws, valid_until_ns))

    async def request_auto(self, wanted: bool) -> None:
        self._give_back = not wanted
        await self._ask("auto", lambda: self._request_auto(wanted))

    async def read_back(self) -> Applied:
        self._require()
        if self._look is None:
            self._look = asyncio.get_running_loop().create_future()
            self._look.add_done_callback(_retrieve)
            self._wake.set()
        return await asyncio.shield(self._look)

    def _require(self) -> None:
        if not self.connected:
            raise self._fault(PlcError("plc-not-connected", found="no connection", expected=self._protocol))

    async def _ask(self, kind: str, work: Callable[[], Awaitable[None]]) -> None:
        self._require()
        job = _Job(work)
        self._jobs[kind].append(job)
        self._wake.set()
        await job.done

    # --- the worker --------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            if not self._wire.connected:
                await self._reconnect()
                continue
            job = next((jobs.popleft() for jobs in self._jobs.values() if jobs), None)
            if job is not None:
                await job.run()
            elif self._look is not None and time.monotonic() < self._health_due + self._health_s:
                look, self._look = self._look, None
                await _settle(look, self._read_back)
            elif time.monotonic() >= self._health_due:
                await self._check_mode()
            else:
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._health_due - time.monotonic()):
                        await self._wake.wait()

    def _fail_all(self, error: PlcError) -> None:
        for jobs in self._jobs.values():
            while jobs:
                jobs.popleft().fail(error)
        look, self._look = self._look, None
        if look is not None and not look.done():
            look.set_exception(error)

    async def _reconnect(self) -> None:
        self._fail_all(PlcError("plc-not-connected", found="the connection ended", expected=self._protocol))
        await asyncio.sleep(self._backoff.next_s())
        try:
            await self._open()
        except (FieldbusError, PlcError) as error:
            self.faults[error.code] += 1
            log.warning("the PLC is not reached: %s", error)
            await self._wire.close()
            return
        self.reconnects += 1
        self._backoff.reset()
        log.warning("the PLC is reached again")

    async def _open(self) -> None:
        try:
            await self._wire.open()
            await self._check_mode()
            self._published, self._slot = await self._wire.published(), None
            if self._give_back:
                await self._wire.put_auto(False)
                self._give_back = False
        except FieldbusError as error:
            code = self._wire.refusal(error)
            if code:
                raise PlcError(code, found=f"{error.code}: {error.found}", expected=error.expected) from error
            raise

    async def _check_mode(self) -> None:
        """A controller that cannot be asked is not believed to run."""
        self._health_due = time.monotonic() + self._health_s
        if not self._run_only:
            return
        try:
            found = await self._wire.standstill()
        except FieldbusError as error:
            found = f"does not tell its mode ({error.code}: {error.found})"
            self.faults[error.code] += 1
        if found != self.standstill:
            log.warning("the PLC %s", found or "runs")
        self.standstill = found

    # --- what is asked -----------------------------------------------------------------------------------------------

    async def _write(self, sequence: int, raws: tuple[Raw, ...], valid_until_ns: int) -> None:
        if self.standstill:
            raise self._fault(PlcError("plc-stopped", found=self.standstill, expected="a controller in RUN"))
        left_ms = (valid_until_ns - time.time_ns()) // NS_PER_MS
        if left_ms < 1:
            raise self._fault(PlcError("plc-write", found="values that are no longer good", expected="newer ones"))
        number = next_number(self._used, self._published)
        slot = Slot.of(number, min(left_ms, VALID_MS_MAX), raws)
        self._used = number
        await self._put("the values", self._wire.put_slot(slot))
        try:
            await self._put("the sequence", self._wire.put_sequence(number))
        except PlcError as error:
            if self._wire.connected:
                raise  # refused: the old sequence still stands
            found = f"{error.found} after the values had been written"
            raise self._fault(OutcomeUnknown("plc-unknown", found=found, expected="an acknowledgement")) from error
        finally:
            self._commands.append((number, sequence))
        self._published, self._slot = number, slot

    async def _request_auto(self, wanted: bool) -> None:
        await self._put("AutoRequest", self._wire.put_auto(wanted))
        self._give_back = False

    async def _put(self, what: str, request: Awaitable[None]) -> None:
        try:
            await request
        except FieldbusError as error:
            code = self._wire.refusal(error) or "plc-write"
            found = f"{error.code}: {error.found}, writing {what}"
            raise self._fault(PlcError(code, found=found, expected=error.expected)) from error

    async def _read_back(self) -> Applied:
        slot = self._slot
        try:
            seen = await self._wire.look(None if slot is None else slot.index)
        except FieldbusError as error:
            code = self._wire.refusal(error) or "plc-read"
            raise self._fault(PlcError(code, found=f"{error.code}: {error.found}", expected=error.expected)) from error
        if slot is not None:
            self._slot = None
            if seen.request != (slot.number, slot):
                expected = f"{(slot.number, slot)}"
                raise self._fault(ReadBackMismatch("plc-read-back", found=f"{seen.request}", expected=expected))
        try:
            pairs = zip(self._values, seen.values, strict=True)
            values = tuple(value.to_physical(raw) for value, raw in pairs)
        except PlcError as error:
            raise self._fault(error) from None
        return Applied(self._command_of(seen.applied_number), values, seen.auto_active)

    def _command_of(self, number: int) -> int:
        """Sequence of the command that was written as ``number``; 0 where this port has not written it."""
        return next((sequence for written, sequence in reversed(self._commands) if written == number), 0)

    def _fault(self, error: PlcError) -> PlcError:
        self.faults[error.code] += 1
        return error


class _Job:
    """Work for the worker and the future of who asked. Work that nobody waits for any more is not begun."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_retrieve)

    async def run(self) -> None:
        if not self.done.done():
            await _settle(self.done, self._work)

    def fail(self, error: PlcError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def _settle(future: asyncio.Future[Any], work: Callable[[], Awaitable[Any]]) -> None:
    """The work's result or error into ``future``; an error that is not the PLC's ends the worker too."""
    try:
        result = await work()
    except PlcError as error:
        if not future.done():
            future.set_exception(error)
    except asyncio.CancelledError:
        if not future.done():
            future.set_exception(_closed())
        raise
    except Exception as fault:
        if not future.done():
            future.set_exception(fault)
        raise
    else:
        if not future.done():
            future.set_result(result)


def _closed() -> PlcError:
    return PlcError("plc-not-connected", found="the port was closed", expected="an open port")


def _retrieve(future: asyncio.Future[Any]) -> None:
    """An error that nobody waited for is no news to the event loop."""
    if not future.cancelled():
        future.exception()
