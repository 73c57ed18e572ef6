"""One append-only ledger in one SQLite file (WAL, ``synchronous=FULL``).

Leaves are the exact bytes of records. Beside every leaf its hash is stored; of the inner nodes only those at
levels 8, 16, 24, … are (1/255 of the leaves), the others are computed from at most 128 hashes when a proof
needs them. The compact range is written with every commit, so that appending needs no reading.

"Acknowledged" means ``commit()`` returned. After any SQLite error the object refuses further work: what was
acknowledged is in the file, the rest is not promised.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.cose import Signer
from attest.ledger import layout
from attest.ledger.errors import LedgerError
from attest.ledger.kinds import KINDS, NUMBERS, RecordKind, kind_of
from attest.ledger.merkle import (
    HASH_BYTES,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    range_root,
)
from attest.ledger.note import Checkpoint, check_origin, parse_checkpoint, sign_checkpoint

RECORD_BYTES_MAX: Final = 4 * 1024 * 1024  # attest.cose's own limit; evidence with an event log is the largest
_ROWS_AT_ONCE: Final = 64  # bounds the memory of an iteration: some 30 KiB of commands
STRIDE: Final = 8  # levels between two stored inner nodes


@dataclass(frozen=True, slots=True)
class Leaf:
    """One stored record."""

    index: int
    kind: RecordKind
    hash: bytes
    data: bytes


class Ledger:
    """An open ledger. One writer per file (held by a lock), any number of readers; not thread-safe."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        path: Path,
        origin: str,
        signer: Signer | None,
        lock: int | None,
    ) -> None:
        """Use ``open`` or ``open_readonly``."""
        self._db = connection
        self._lock = lock
        self._broken: str | None = None
        self._in_transaction = False
        self.path = path
        self.origin = origin
        self.signer = signer
        with self._guard():
            self._range = layout.read_range(connection)
        self._size = self._range.size
        self._root = self._range.root()

    @classmethod
    def open(cls, path: Path, *, origin: str, signer: Signer | None = None) -> Ledger:
        """Open or create the ledger file at ``path`` for writing.

        Raises ``LedgerError``: ``ledger-foreign`` (no ledger), ``ledger-newer`` (a later format),
        ``ledger-torn`` (damaged), ``ledger-origin`` (another log's file), ``ledger-busy`` (a writer has it),
        ``ledger-io``.
        """
        check_origin(origin)
        lock = _take_lock(path)
        try:
            connection = layout.open_for_writing(path, origin)
            try:
                ledger = cls(connection, path=path, origin=origin, signer=signer, lock=lock)
                ledger._check_edge()
            except BaseException:
                connection.close()
                raise
        except BaseException:
            os.close(lock)
            raise
        return ledger

    @classmethod
    def open_readonly(cls, path: Path) -> Ledger:
        """Open an existing ledger to read, also while a writer is at work; sees it as it was at opening.

        Raises ``LedgerError`` as ``open`` does, and ``ledger-missing``.
        """
        connection, origin = layout.open_for_reading(path)
        try:
            return cls(connection, path=path, origin=origin, signer=None, lock=None)
        except BaseException:
            connection.close()
            raise

    @property
    def size(self) -> int:
        """Number of acknowledged records."""
        return self._size

    @property
    def appended(self) -> int:
        """Number of records including those not yet committed."""
        return self._range.size

    def root(self, size: int | None = None) -> bytes:
        """Root over the first ``size`` records (default: all acknowledged)."""
        if size is None or size == self._size:
            return self._root
        if not 0 <= size <= self._size:
            raise LedgerError("ledger-range", found=f"size {size}", expected=f"0..{self._size}")
        with self._guard():
            return range_root(self._perfect, 0, size)

    def append(self, kind: str, data: bytes) -> int:
        """Add a record; returns its index. It is acknowledged only by the next ``commit``.

        ``kind`` must be what the record's own content type says. Raises ``LedgerError`` (``ledger-kind``,
        ``ledger-range`` for a size over the limit, ``ledger-io``).
        """
        derived = check_record(kind, data)
        hash_ = leaf_hash(data)
        with self._guard(writing=True):
            self._begin()
            index = self._range.size
            self._db.execute(layout.INSERT_LEAF, (index, NUMBERS[derived], hash_, data))
            for level, position, node in self._range.append(hash_):
                if level % STRIDE == 0:
                    self._db.execute(layout.INSERT_NODE, (level, position, node))
        return index

    def commit(self) -> int:
        """Make everything appended durable; returns the acknowledged size."""
        if self._in_transaction:
            with self._guard(writing=True):
                layout.write_range(self._db, self._range)
                self._db.execute("COMMIT")
                self._in_transaction = False
            self._size = self._range.size
            self._root = self._range.root()
        return self._size

    def checkpoint(self) -> bytes:
        """Commit, sign a checkpoint over everything, store it durably and return the note."""
        if self.signer is None:
            raise LedgerError("ledger-signer", found="no signer", expected="a ledger opened with one")
        root = self._range.root()
        note = sign_checkpoint(Checkpoint(self.origin, self._range.size, root), self.signer)
        with self._guard(writing=True):
            self._begin()
            self._db.execute(layout.INSERT_CHECKPOINT, (self._range.size, note))
        self.commit()
        return note

    def checkpoints(self) -> Iterator[tuple[int, bytes]]:
        """All stored checkpoints, oldest first, as (size column, note)."""
        last = -1
        while True:
            with self._guard():
                rows = self._db.execute(layout.SELECT_CHECKPOINTS, (last, _ROWS_AT_ONCE)).fetchall()
            for row, size, note in rows:
                yield size, note
                last = row
            if len(rows) < _ROWS_AT_ONCE:
                return

    def last_checkpoint(self) -> bytes | None:
        """The newest stored checkpoint."""
        with self._guard():
            row = self._db.execute(layout.SELECT_LAST_CHECKPOINT).fetchone()
        return None if row is None else row[0]

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """Inclusion proof of record ``index`` in the tree of the first ``size``."""
        self._check_size(size)
        with self._guard():
            return inclusion_proof(self._perfect, index, size)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Consistency proof between the trees of the first ``old`` and the first ``new`` records."""
        self._check_size(new)
        with self._guard():
            return consistency_proof(self._perfect, old, new)

    def read(self, index: int) -> Leaf:
        """One record. Raises ``LedgerError`` (``ledger-range``)."""
        with self._guard():
            row = self._db.execute(layout.SELECT_LEAF, (index,)).fetchone() if 0 <= index < 2**63 else None
        if row is None:
            raise LedgerError("ledger-range", found=f"index {index}", expected=f"0..{self._range.size - 1}")
        return _leaf(row)

    def iterate(self, start: int = 0) -> Iterator[Leaf]:
        """Records from index ``start`` on, in order, a bounded number in memory."""
        return (_leaf(row) for row in self.stored(start))

    def stored(self, start: int = 0) -> Iterator[tuple[int, int, bytes, bytes]]:
        """The rows as they are (index, kind number, hash, data), for an audit that judges them itself."""
        at = start - 1
        while True:
            with self._guard():
                rows = self._db.execute(layout.SELECT_LEAVES, (at, _ROWS_AT_ONCE)).fetchall()
            for row in rows:
                yield row
                at = row[0]
            if len(rows) < _ROWS_AT_ONCE:
                return

    def last(self, kind: RecordKind) -> Leaf | None:
        """The newest record of one kind, found by walking back from the end."""
        with self._guard():
            row = self._db.execute(layout.SELECT_LAST_OF_KIND, (NUMBERS[kind],)).fetchone()
        return None if row is None else _leaf(row)

    def count(self, kind: RecordKind) -> int:
        """How many records of one kind there are; walks the whole ledger."""
        with self._guard():
            return int(self._db.execute(layout.COUNT_KIND, (NUMBERS[kind],)).fetchone()[0])

    def node(self, level: int, index: int) -> bytes | None:
        """A stored inner node, for an audit; ``None`` where none is stored."""
        with self._guard():
            row = self._db.execute(layout.SELECT_NODES, (level, index, index + 1)).fetchone()
        return None if row is None else row[0]

    def nodes(self) -> int:
        """How many inner nodes are stored, for an audit."""
        with self._guard():
            return int(self._db.execute(layout.COUNT_NODES).fetchone()[0])

    def close(self) -> None:
        """Commit, fold the WAL into the file and release it; idempotent."""
        if self._lock is None:
            self._db.close()
            return
        try:
            if self._broken is None:
                self.commit()
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise LedgerError("ledger-io", found=str(error), expected="a writable disk") from error
        finally:
            self._db.close()
            os.close(self._lock)
            self._lock = None
            self._broken = "closed"

    def _begin(self) -> None:
        if not self._in_transaction:
            self._db.execute("BEGIN IMMEDIATE")
            self._in_transaction = True

    def _check_size(self, size: int) -> None:
        if not 0 <= size <= self._size:
            raise LedgerError("ledger-range", found=f"size {size}", expected=f"0..{self._size}")

    def _perfect(self, level: int, index: int) -> bytes:
        """Hash of a perfect subtree: stored, or folded from the nearest stored level below."""
        above = level % STRIDE
        base, first = level - above, index << above
        count = 1 << above
        if base == 0:
            rows = self._db.execute(layout.SELECT_HASHES, (first, first + count)).fetchall()
        else:
            rows = self._db.execute(layout.SELECT_NODES, (base, first, first + count)).fetchall()
        hashes = [row[0] for row in rows]
        if len(hashes) != count:
            raise _torn(f"{len(hashes)} hashes at level {base}", f"{count} from {first}")
        while len(hashes) > 1:
            hashes = [node_hash(left, right) for left, right in zip(hashes[::2], hashes[1::2], strict=True)]
        hash_: bytes = hashes[0]
        return hash_

    def _check_edge(self) -> None:
        """What an open can check in bounded time: the last leaf, the right edge, the last checkpoint."""
        with self._guard():
            last = self._db.execute(layout.SELECT_LAST_LEAF).fetchone()
            stored = 0 if last is None else last[0] + 1
            if stored != self._range.size:
                raise _torn(f"{stored} records", f"{self._range.size}")
            if last is not None and leaf_hash(last[3]) != last[2]:
                raise _torn("a last record that does not fit its hash", "its hash")
            start = 0
            for bit, hash_ in zip(_set_bits(self._range.size), self._range.hashes, strict=True):
                if self._perfect(bit, start >> bit) != hash_:
                    raise _torn(f"a subtree at {start} that differs", "the stored compact range")
                start += 1 << bit
        note = self.last_checkpoint()
        if note is not None:
            checkpoint = parse_checkpoint(note).checkpoint
            if checkpoint.size > self._size or self.root(checkpoint.size) != checkpoint.root:
                raise _torn(f"size {self._size}", f"the tree of the checkpoint at {checkpoint.size}")

    @contextmanager
    def _guard(self, *, writing: bool = False) -> Iterator[None]:
        """Turn SQLite's errors into ours; a failed write ends this object's life."""
        if self._broken is not None:
            raise LedgerError("ledger-closed", found=self._broken, expected="an open ledger")
        if writing and self._lock is None:
            raise LedgerError("ledger-closed", found="a read-only ledger", expected="one opened for writing")
        try:
            yield
        except sqlite3.OperationalError as error:
            if writing:
                self._broken = str(error)
            raise LedgerError("ledger-io", found=str(error), expected="a disk that takes it") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if writing:
                self._broken = str(error)
            raise _torn(str(error), "an intact file") from error


def check_record(kind: str, data: bytes) -> RecordKind:
    """The kind of a record to be appended. Raises ``LedgerError`` (``ledger-kind``, ``ledger-range``)."""
    derived = kind_of(data)
    if derived != kind:
        raise LedgerError("ledger-kind", found=f"a record of kind {derived}", expected=kind)
    if len(data) > RECORD_BYTES_MAX:
        raise LedgerError("ledger-range", found=f"{len(data)} bytes", expected=f"at most {RECORD_BYTES_MAX}")
    return derived


def _set_bits(number: int) -> list[int]:
    return [bit for bit in range(number.bit_length() - 1, -1, -1) if number >> bit & 1]


def _leaf(row: tuple[int, int, bytes, bytes]) -> Leaf:
    index, number, hash_, data = row
    kind = KINDS.get(number)
    if kind is None or not isinstance(data, bytes) or not isinstance(hash_, bytes) or len(hash_) != HASH_BYTES:
        raise _torn(f"record {index} with other column types", "kind, hash and bytes")
    return Leaf(index, kind, hash_, data)


def _take_lock(path: Path) -> int:
    """The writer's lock, a file beside the ledger: SQLite's own would keep readers out."""
    try:
        descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise LedgerError("ledger-io", found=f"{path}: {error.strerror}", expected="a writable folder") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LedgerError(
            "ledger-busy", found=f"{path} in use", expected="no other writer", hint="stop the other process"
        ) from error
    return descriptor


def _torn(found: str, expected: str) -> LedgerError:
    hint = "keep the file as it is and run the audit on a copy"
    return LedgerError("ledger-torn", found=found, expected=expected, hint=hint)
