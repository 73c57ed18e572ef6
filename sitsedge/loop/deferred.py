"""The loop's side of the deferred lane: accepted commands go to the queue on disk, finished proofs come back.

The loop's thread only puts into and takes from memory; SQLite and its fsync have a thread of their own. What the loop
may hand over is bounded: with a queue that is full, or a disk that does not keep up, the next cycle is refused with
that reason. A command is handed over once the gate has accepted it; what a crash takes from memory in between, the
gate names again when the next epoch opens, because its ledger holds every command that still owes a proof.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from sitsedge.loop.budget import CycleRefused
from sitsedge.prover.queue import ProofQueue, Proven, QueueError, set_aside

POLL_S: Final = 0.05
GROUP_S: Final = 0.05  # one fsync for the jobs of this long
COUNT_S: Final = 0.5
RETRY_S: Final = 1.0  # a full disk
HANDED_OVER_MAX: Final = 1024  # ten seconds at 100 Hz; a disk that slow is a fault, not a delay
WINDOW: Final = 64  # proofs on their way to the gate at a time
CLOSE_S: Final = 10.0
GROUP_MAX: Final = 256

log = logging.getLogger("sitsedge.loop")


@dataclass(frozen=True, slots=True)
class Event:
    """Something the ledger should say: a job given up, a queue that was damaged."""

    code: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class LaneState:
    """What a status page shows; ``fault`` is empty while the queue works."""

    queued: int
    proven: int
    failed: int
    oldest_due_ns: int
    fault: str


@dataclass(frozen=True, slots=True)
class _Add:
    command: bytes
    due_ns: int


@dataclass(frozen=True, slots=True)
class _Settle:
    digest: bytes
    recorded: bool  # in the device's ledger; else confirmed by the gate


@dataclass(frozen=True, slots=True)
class _Owed:
    """Everything the gate is still owed, as of a request made after ``jobs`` were handed over."""

    digests: frozenset[bytes]


_Item = _Add | _Settle | _Owed


class DeferredLane:
    """Start with the constructor, stop with ``close``; methods are for the loop's thread, ``recorded`` for any."""

    def __init__(self, path: Path, *, capacity: int) -> None:
        self._path, self._capacity = path, capacity
        self._inbox: SimpleQueue[_Item | None] = SimpleQueue()
        self._ready: SimpleQueue[Proven] = SimpleQueue()
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._adds: deque[_Add] = deque()  # taken from the inbox, not yet on disk
        self._settles: deque[_Settle | _Owed] = deque()
        self._queue: ProofQueue | None = None
        self._offered: dict[bytes, int] = {}
        self._after = 0
        self._again = threading.Event()
        self._rows = 0
        self._count_due = 0.0
        self._fault = ""
        self._told_failed: set[bytes] = set()
        self.lost = threading.Event()
        """Set when the queue was made anew: the gate has to name everything it is owed."""
        self.state = LaneState(0, 0, 0, 0, "")
        self._thread = threading.Thread(target=self._main, name="deferred", daemon=True)
        self._thread.start()

    # --- the loop's thread -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Before a command is signed: is there room for its proof's job? Raises :class:`CycleRefused`."""
        waiting = self._inbox.qsize() + len(self._adds)
        if waiting >= HANDED_OVER_MAX:
            found = f"{waiting} jobs not on disk ({self._fault or 'slow disk'})"
            raise CycleRefused("proof-queue-io", found=found, expected="a disk that keeps up")
        if self._rows + waiting >= self._capacity:
            found = f"{self._rows + waiting} proofs owed"
            raise CycleRefused("proof-queue-full", found=found, expected=f"fewer than {self._capacity}")

    def submit(self, command: bytes, *, due_ns: int) -> None:
        """Hand over one accepted command."""
        self._inbox.put(_Add(command, due_ns))

    def poll(self) -> Proven | None:
        """The next finished proof for ledger and gate."""
        try:
            return self._ready.get_nowait()
        except Empty:
            return None

    def event(self) -> Event | None:
        """The next thing to record."""
        try:
            return self._events.get_nowait()
        except Empty:
            return None

    def recorded(self, digest: bytes) -> None:
        """The proof is durable in the device's ledger."""
        self._inbox.put(_Settle(digest, recorded=True))

    def confirmed(self, digest: bytes) -> None:
        """The gate has the proof too, or is not owed it: once it is recorded the job is over."""
        self._inbox.put(_Settle(digest, recorded=False))

    def offer_again(self) -> None:
        """A new epoch or connection: whatever was not settled goes to the gate once more."""
        self._again.set()

    def owed(self, digests: frozenset[bytes]) -> None:
        """The gate's whole list: other jobs that were here before it are over."""
        self._inbox.put(_Owed(digests))

    def close(self) -> None:
        """Write what was handed over, then stop; what the disk does not take is named by the gate later."""
        self._inbox.put(None)
        self._thread.join(CLOSE_S)

    # --- the lane's own thread ---------------------------------------------------------------------------------------

    def _main(self) -> None:
        running = True
        while running:
            running = self._take()
            try:
                self._turn()
            except QueueError as error:
                self._recover(error)
                if running:
                    time.sleep(RETRY_S)
        if self._queue is not None:
            self._queue.close()

    def _take(self) -> bool:
        """Empty the inbox, up to a bound; ``False`` once asked to stop."""
        try:
            item = self._inbox.get(timeout=POLL_S)
            if item is not None:
                time.sleep(GROUP_S)
            for _ in range(HANDED_OVER_MAX):
                if item is None:
                    return False
                if isinstance(item, _Add):
                    self._adds.append(item)
                else:
                    self._settles.append(item)
                item = self._inbox.get_nowait()
            self._inbox.put(item)
        except Empty:
            return True
        return True

    def _turn(self) -> None:
        if self._queue is None:
            self._queue = ProofQueue(self._path, capacity=self._capacity)
            self._after = 0
            self._fault = ""
        queue = self._queue
        while self._settles:  # first: they make room
            self._settle(queue)
        while self._adds:
            group = list(islice(self._adds, GROUP_MAX))
            self._rows = queue.add([(item.command, item.due_ns) for item in group])
            for _ in group:  # an item leaves memory only when it is durable
                self._adds.popleft()
        if self._again.is_set():
            self._again.clear()
            self._offered.clear()
            self._after = 0
        if queue.changed() or not self._offered:
            self._offer(queue)
        if time.monotonic() >= self._count_due:
            self._count_due = time.monotonic() + COUNT_S
            self._count(queue)

    def _count(self, queue: ProofQueue) -> None:
        counts = queue.counts()
        self._rows = counts.total
        self.state = LaneState(counts.waiting, counts.proven, counts.failed, counts.oldest_due_ns, self._fault)
        if counts.failed:
            self._report_failures(queue)

    def _settle(self, queue: ProofQueue) -> None:
        """The next group of settled jobs, or the gate's list, as one transaction."""
        head = self._settles[0]
        if isinstance(head, _Owed):
            # A proof the ledger does not hold yet is recorded first; the gate then says that it is not owed.
            over = [digest for digest, unrecorded in queue.digests() if digest not in head.digests and not unrecorded]
            self._rows = queue.drop(over)
            self._settles.popleft()
            return
        group = [item for item in islice(self._settles, GROUP_MAX) if isinstance(item, _Settle)]
        confirmed = [item.digest for item in group if not item.recorded]
        recorded = [item.digest for item in group if item.recorded]
        self._rows = queue.settle(recorded=recorded, confirmed=confirmed)
        for digest in confirmed:
            self._offered.pop(digest, None)
        for item in group:
            self._settles.remove(item)

    def _offer(self, queue: ProofQueue) -> None:
        for proven in queue.proven(self._after, WINDOW - len(self._offered)):
            self._after = proven.number
            self._offered[proven.digest] = proven.number
            self._ready.put(proven)
        if not self._offered:
            self._after = 0  # jobs may be proven out of order after a failure was tried again

    def _report_failures(self, queue: ProofQueue) -> None:
        for digest, reason in queue.failures():
            if digest not in self._told_failed:
                self._told_failed.add(digest)
                self._events.put(Event("proof-impossible", f"command {digest.hex()[:16]}: {reason}", "a proof"))

    def _recover(self, error: QueueError) -> None:
        """A damaged queue is set aside and made again; anything else is tried again later."""
        if self._fault != error.code:
            log.error("%s", error)
            self._events.put(Event(error.code, error.found, error.expected))
        self._fault = error.code
        self.state = LaneState(self._rows, 0, 0, self.state.oldest_due_ns, self._fault)
        if self._queue is not None:
            self._queue.close()
            self._queue = None
        self._offered.clear()
        if error.code == "proof-queue-damaged":
            try:
                set_aside(self._path)
            except OSError as failure:
                log.error("the damaged queue stays where it is: %s", failure)
                return
            self.lost.set()
