"""A thread that owns a ledger, for a process that must not wait for a disk.

Records go through a bounded queue, are appended in the order of ``submit``, committed in groups, and only then
acknowledged. While records flow a signed checkpoint is issued at least each second, and one after the last.
SQLite and its fsync run without the interpreter lock, so the submitting thread is not held up by them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final

from attest.command.errors import CommandError
from attest.cose import Signer
from attest.ledger.errors import LedgerError, LedgerQueueFull, LedgerWriterFailed
from attest.ledger.store import Ledger, check_record

QUEUE_RECORDS_MAX: Final = 1024  # ten seconds at 100 Hz; a disk that slow is a fault, not a delay
GROUP_MS: Final = 20.0
GROUP_RECORDS_MAX: Final = 64
CHECKPOINT_MS: Final = 1000.0
OPEN_TIMEOUT_S: Final = 30.0  # opening checks the right edge; recovery of a large WAL may take seconds


@dataclass(frozen=True, slots=True)
class IssuedCheckpoint:
    """A new checkpoint with the proof that it extends the tree of ``base`` records (see ``witnessed``)."""

    note: bytes
    size: int
    root: bytes
    base: int
    consistency: tuple[bytes, ...]


class _Waiter:
    """One caller waiting for its record; ``index`` stays ``None`` if the writer stopped before."""

    __slots__ = ("done", "index")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.index: int | None = None

    def acknowledge(self, index: int) -> None:
        self.index = index
        self.done.set()


@dataclass(frozen=True, slots=True)
class _Item:
    """One request to the thread; without ``data`` it only ends the current group (a flush)."""

    kind: str
    data: bytes | None
    on_ack: Callable[[int], None] | None
    waiter: _Waiter | None


_STOP: Final = _Item("", None, None, None)


class LedgerWriter:
    """Start with the constructor, stop with ``close``; every method may be called from any thread.

    ``on_ack(index)`` and ``on_checkpoint(IssuedCheckpoint)`` run on the writer's thread, in order, after the
    commit; they must be short. A callback that raises stops the writer. With ``group_ms=0`` a commit follows
    as soon as the queue is empty, which still groups what arrives during an fsync.
    """

    def __init__(
        self,
        path: Path,
        *,
        origin: str,
        signer: Signer | None,
        queue_records_max: int = QUEUE_RECORDS_MAX,
        group_ms: float = GROUP_MS,
        group_records_max: int = GROUP_RECORDS_MAX,
        checkpoint_ms: float = CHECKPOINT_MS,
        on_checkpoint: Callable[[IssuedCheckpoint], None] | None = None,
    ) -> None:
        """Open the ledger on the new thread; raises ``LedgerError`` as ``Ledger.open`` does.

        Without a ``signer`` no checkpoint is issued until ``set_signer``: nobody could say whose it is.
        """
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._queue_records_max = queue_records_max
        self._group_s = group_ms / 1000
        self._group_records_max = group_records_max
        self._checkpoint_s = checkpoint_ms / 1000
        self._on_checkpoint = on_checkpoint
        self._signer = signer
        self._base = 0
        self._size = 0
        self._failure: str | None = None
        self._open_error: LedgerError | None = None
        self._opened = threading.Event()
        self._unacknowledged: list[tuple[int, _Item]] = []
        self._thread = threading.Thread(target=self._main, args=(path, origin), name=f"ledger {origin}", daemon=True)
        self._thread.start()
        if not self._opened.wait(OPEN_TIMEOUT_S):
            self._failure = "no answer while opening"
            raise LedgerWriterFailed("ledger-io", found=self._failure, expected=f"within {OPEN_TIMEOUT_S} s")
        if self._open_error is not None:
            raise self._open_error

    @property
    def size(self) -> int:
        """Number of acknowledged records."""
        return self._size

    @property
    def queued(self) -> int:
        """Number of records waiting; for telemetry."""
        return self._queue.qsize()

    def submit(self, kind: str, data: bytes, on_ack: Callable[[int], None] | None = None) -> None:
        """Hand a record over without waiting.

        Raises ``LedgerQueueFull`` (the record was not taken: refuse the cycle), ``LedgerWriterFailed``, or
        ``LedgerError`` for a record the ledger would not take.
        """
        check_record(kind, data)
        self._put(_Item(kind, data, on_ack, None))

    def append_durable(self, kind: str, data: bytes, *, timeout_s: float) -> int:
        """Hand a record over, end the group and wait until it is acknowledged; returns its index."""
        check_record(kind, data)
        waiter = _Waiter()
        self._put(_Item(kind, data, None, waiter))
        return self._await(waiter, timeout_s)

    def flush(self, *, timeout_s: float) -> int:
        """Wait until everything submitted before is acknowledged; returns the acknowledged size."""
        waiter = _Waiter()
        self._put(_Item("", None, None, waiter), bounded=False)  # carries no record
        return self._await(waiter, timeout_s)

    def set_signer(self, signer: Signer) -> None:
        """Sign checkpoints with another key from now on (a new epoch's session key)."""
        self._signer = signer

    def witnessed(self, size: int) -> None:
        """The other side has confirmed a checkpoint of ``size``: later ones prove consistency with it."""
        self._base = size

    def close(self, *, timeout_s: float = OPEN_TIMEOUT_S) -> None:
        """Take what is queued, issue a last checkpoint, close the ledger; idempotent."""
        self._queue.put(_STOP)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise LedgerWriterFailed("ledger-io", found="a writer still busy", expected=f"within {timeout_s} s")
        if self._failure not in (None, "closed"):
            raise self._failed()

    def __enter__(self) -> LedgerWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _put(self, item: _Item, *, bounded: bool = True) -> None:
        if self._failure is not None:
            raise self._failed()
        if bounded and self._queue.qsize() >= self._queue_records_max:
            raise LedgerQueueFull(
                "ledger-queue-full", found=f"{self._queue.qsize()} records waiting", expected="a disk that keeps up"
            )
        self._queue.put(item)

    def _await(self, waiter: _Waiter, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while not waiter.done.wait(min(0.1, max(0.0, deadline - time.monotonic()))):
            # A record put after the thread drained its queue for the last time has nobody to wake it.
            if not self._thread.is_alive() and not waiter.done.is_set():
                raise self._failed()
            if time.monotonic() >= deadline:
                raise LedgerWriterFailed("ledger-io", found="no acknowledgement", expected=f"in {timeout_s} s")
        if waiter.index is None:
            raise self._failed()
        return waiter.index

    def _failed(self) -> LedgerWriterFailed:
        found = self._failure or "a writer that stopped"
        return LedgerWriterFailed("ledger-closed", found=found, expected="a running ledger writer")

    def _main(self, path: Path, origin: str) -> None:
        try:
            ledger = Ledger.open(path, origin=origin, signer=self._signer)
        except LedgerError as error:
            self._open_error, self._failure = error, error.found
            self._opened.set()
            return
        self._size = ledger.size
        self._opened.set()
        reason = "a callback that raised"
        try:
            self._run(ledger)
            ledger.close()
            reason = "closed"
        except LedgerError as error:
            reason = str(error)
        finally:
            self._failure = reason
            self._release_waiters()

    def _run(self, ledger: Ledger) -> None:
        running, checkpointed, due = True, ledger.size, 0.0
        while running:
            item = self._next(due if self._size > checkpointed else None)
            if item is not None:
                running = self._group(ledger, item)
            if self._size > checkpointed and (not running or time.monotonic() >= due):
                if self._issue_checkpoint(ledger):
                    checkpointed = self._size
                due = time.monotonic() + self._checkpoint_s

    def _next(self, deadline: float | None) -> _Item | None:
        """The next item; ``None`` at the deadline (monotonic seconds; ``None`` waits for ever)."""
        if deadline is None:
            return self._queue.get()
        wait_s = deadline - time.monotonic()
        try:
            return self._queue.get(timeout=wait_s) if wait_s > 0 else self._queue.get_nowait()
        except Empty:
            return None

    def _group(self, ledger: Ledger, first: _Item) -> bool:
        """Append a group, commit it, acknowledge it; ``False`` once the stop mark was taken."""
        group, deadline = self._unacknowledged, time.monotonic() + self._group_s
        item: _Item | None = first
        while item is not None and item is not _STOP:
            group.append((ledger.appended, item))
            if item.data is not None:
                ledger.append(item.kind, item.data)
            if item.waiter is not None or len(group) >= self._group_records_max:
                break
            item = self._next(deadline)
        self._size = ledger.commit()
        for index, done in group:
            if done.on_ack is not None:
                done.on_ack(index)
            if done.waiter is not None:
                done.waiter.acknowledge(index)
        group.clear()
        return item is not _STOP

    def _issue_checkpoint(self, ledger: Ledger) -> bool:
        """``False`` without a signer, or with one erased meanwhile: the next checkpoint covers these records too."""
        if self._signer is None:
            return False
        ledger.signer = self._signer
        try:
            note = ledger.checkpoint()
        except CommandError as error:
            if error.code != "key-erased":
                raise
            return False
        if self._on_checkpoint is not None:
            base = min(self._base, ledger.size)
            proof = tuple(ledger.consistency(base, ledger.size))
            self._on_checkpoint(IssuedCheckpoint(note, ledger.size, ledger.root(), base, proof))
        return True

    def _release_waiters(self) -> None:
        """Wake everybody whose record will never be acknowledged."""
        left = [item for _, item in self._unacknowledged]
        with suppress(Empty):
            while True:
                left.append(self._queue.get_nowait())
        for item in left:
            if item.waiter is not None:
                item.waiter.done.set()
