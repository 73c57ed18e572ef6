"""The queue of owed proofs: one SQLite file (WAL, ``synchronous=FULL``) between ``sitsd`` and ``sits-prover``.

A job is the signed command itself. Its SHA-256 is its name, so that a damaged row cannot pass for another job, and
everything the prover needs (module, inputs, outputs, context) is in it. ``add`` returns only when the jobs are durable;
a crash of either process at any moment leaves what was added. Bounded in rows by ``capacity`` and in bytes by
``FILE_PAGES_MAX``: a full queue is an error of its own, never a wait.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.command import Command, CommandError, parse_command
from attest.command.command import COMMAND_BYTES_MAX
from attest.command.enums import INLINE_PROOFS, PROOF_BYTES
from sitsedge.errors import SitsError

PAGE_BYTES: Final = 4096
FILE_PAGES_MAX: Final = 65_536  # 256 MiB: the largest backlog of commands of a usual size, many times over
FILE_BYTES_MAX: Final = PAGE_BYTES * FILE_PAGES_MAX
BUSY_S: Final = 5.0  # a commit of the other process takes an fsync
FAILURE_CHARACTERS_MAX: Final = 300
KIND_BY_SIZE: Final = {PROOF_BYTES[kind]: kind for kind in INLINE_PROOFS}
APPLICATION_ID: Final = 0x53504631  # "SPF1"

_SCHEMA: Final = (
    "CREATE TABLE job (id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, command BLOB NOT NULL,"
    " due_ns INTEGER NOT NULL, proof BLOB, failure TEXT, recorded INTEGER NOT NULL DEFAULT 0,"
    " confirmed INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX unproven ON job (id) WHERE proof IS NULL AND failure IS NULL",
    "CREATE INDEX proven ON job (id) WHERE proof IS NOT NULL",
    "CREATE INDEX failed ON job (id) WHERE failure IS NOT NULL",
)


class QueueError(SitsError):
    """The queue cannot be used.

    Codes: ``proof-queue-full`` (too many jobs, or the file at its limit), ``proof-queue-io`` (disk, permissions),
    ``proof-queue-damaged`` (no queue, a file over its limit, or one that contradicts itself).
    """


@dataclass(frozen=True, slots=True)
class Job:
    """A command whose proof is owed until ``due_ns`` (CLOCK_REALTIME); ``digest`` is SHA-256 of its bytes."""

    number: int
    digest: bytes
    command: Command
    due_ns: int


@dataclass(frozen=True, slots=True)
class Proven:
    """A finished job; ``recorded`` means that the device's ledger already holds the proof."""

    number: int
    digest: bytes
    command: Command
    proof: bytes
    recorded: bool


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Rows waiting for a proof, with one, and given up; ``oldest_due_ns`` of the first of all (0: none)."""

    waiting: int
    proven: int
    failed: int
    oldest_due_ns: int

    @property
    def total(self) -> int:
        """All rows."""
        return self.waiting + self.proven + self.failed


class ProofQueue:
    """An open queue; one per process and thread."""

    def __init__(self, path: Path, *, capacity: int) -> None:
        """Open or create. Raises :class:`QueueError`."""
        self._path = path
        self._capacity = capacity
        self._version = -1
        self._inode = 0
        _check_size(path)
        with _guard():
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            with _guard():
                self._prepare()
        except BaseException:
            self._db.close()
            raise
        self._inode = _inode(path)

    def _prepare(self) -> None:
        run = self._db.execute
        run(f"PRAGMA max_page_count = {FILE_PAGES_MAX}")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA cell_size_check = ON")
        found = run("PRAGMA application_id").fetchone()[0]
        if found == 0:
            run("BEGIN IMMEDIATE")  # the other process may be making it: what counts is seen from in here
            found = run("PRAGMA application_id").fetchone()[0]
            if found == 0 and run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _SCHEMA:
                    run(statement)
                run(f"PRAGMA application_id = {APPLICATION_ID}")
                found = APPLICATION_ID
            run("COMMIT")
        if found != APPLICATION_ID:
            raise _damaged(f"a file of application {found:#x}", "a queue of owed proofs")
        if (problem := run("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise _damaged(str(problem), "an intact file")

    @property
    def replaced(self) -> bool:
        """Whether another file has taken this one's place: what is done here no longer counts."""
        return _inode(self._path) != self._inode

    def changed(self) -> bool:
        """Whether another process has written since the last call."""
        with _guard():
            version = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        before, self._version = self._version, version
        return version != before

    def add(self, jobs: Sequence[tuple[bytes, int]]) -> int:
        """Add (command bytes, due_ns) durably, oldest first; what is there already stays. Returns the number of rows.

        Raises :class:`QueueError` ``proof-queue-full`` when they do not all fit; then none was added.
        """
        with self._transaction():
            for command, due_ns in jobs:
                row = (hashlib.sha256(command).digest(), command, due_ns)
                self._db.execute("INSERT OR IGNORE INTO job (digest, command, due_ns) VALUES (?, ?, ?)", row)
            rows = int(self._db.execute("SELECT count(*) FROM job").fetchone()[0])
            if rows > self._capacity:
                raise QueueError("proof-queue-full", found=f"{rows} owed proofs", expected=f"at most {self._capacity}")
        return rows

    def waiting(self, limit: int) -> list[Job]:
        """The oldest jobs without a proof. Raises :class:`QueueError` ``proof-queue-damaged``."""
        query = (
            "SELECT id, digest, command, due_ns FROM job WHERE proof IS NULL AND failure IS NULL ORDER BY id LIMIT ?"
        )
        with _guard():
            rows = self._db.execute(query, (limit,)).fetchall()
        return [Job(number, digest, _command(digest, data), due) for number, digest, data, due in rows]

    def proven(self, after: int, limit: int) -> list[Proven]:
        """The oldest finished jobs with a number above ``after``."""
        query = (
            "SELECT id, digest, command, proof, recorded FROM job WHERE proof IS NOT NULL AND id > ?"
            " ORDER BY id LIMIT ?"
        )
        with _guard():
            rows = self._db.execute(query, (after, limit)).fetchall()
        if any(len(proof) not in KIND_BY_SIZE for _, _, _, proof, _ in rows):
            raise _damaged("a proof of another size", f"{sorted(KIND_BY_SIZE)} bytes")
        return [Proven(n, digest, _command(digest, data), proof, bool(flag)) for n, digest, data, proof, flag in rows]

    def failures(self) -> list[tuple[bytes, str]]:
        """(digest, reason) of the jobs that were given up."""
        with _guard():
            return self._db.execute("SELECT digest, failure FROM job WHERE failure IS NOT NULL ORDER BY id").fetchall()

    def store(self, results: Sequence[tuple[bytes, bytes | None, str | None]]) -> None:
        """Keep (digest, proof, None) or (digest, None, reason) durably; a job that is gone is passed over."""
        with self._transaction():
            for digest, proof, failure in results:
                reason = None if failure is None else failure[:FAILURE_CHARACTERS_MAX]
                self._db.execute("UPDATE job SET proof = ?, failure = ? WHERE digest = ?", (proof, reason, digest))

    def retry_failures(self) -> None:
        """Give the jobs that were given up another chance, at a start."""
        with self._transaction():
            self._db.execute("UPDATE job SET failure = NULL WHERE failure IS NOT NULL")

    def settle(self, *, recorded: Sequence[bytes] = (), confirmed: Sequence[bytes] = ()) -> int:
        """Note what the device's ledger holds and what the gate has confirmed; a job with both is over.

        Returns the number of rows left.
        """
        with self._transaction():
            self._db.executemany("UPDATE job SET recorded = 1 WHERE digest = ?", [(digest,) for digest in recorded])
            self._db.executemany("UPDATE job SET confirmed = 1 WHERE digest = ?", [(digest,) for digest in confirmed])
            over = "DELETE FROM job WHERE digest = ? AND recorded AND confirmed"
            self._db.executemany(over, [(digest,) for digest in (*recorded, *confirmed)])
            return int(self._db.execute("SELECT count(*) FROM job").fetchone()[0])

    def drop(self, digests: Sequence[bytes]) -> int:
        """Forget jobs nobody is owed; returns the number of rows left."""
        with self._transaction():
            self._db.executemany("DELETE FROM job WHERE digest = ?", [(digest,) for digest in digests])
            return int(self._db.execute("SELECT count(*) FROM job").fetchone()[0])

    def digests(self) -> Iterator[tuple[bytes, bool]]:
        """(digest, whether a proof is there that the ledger does not hold yet) of every job."""
        with _guard():
            rows = self._db.execute("SELECT digest, proof IS NOT NULL AND NOT recorded FROM job ORDER BY id").fetchall()
        for digest, unrecorded in rows:
            yield digest, bool(unrecorded)

    def counts(self) -> QueueCounts:
        """How much there is."""
        query = "SELECT count(*), count(proof), count(failure), coalesce(min(due_ns), 0) FROM job"
        with _guard():
            total, proven, failed, due = self._db.execute(query).fetchone()
        return QueueCounts(total - proven - failed, proven, failed, due)

    def close(self) -> None:
        """Release the file."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _guard():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def set_aside(path: Path) -> Path:
    """Move a damaged queue (with its WAL) out of the way, in place of one moved before; where it went.

    What it held is not lost: every command that owes a proof is in the ledgers.
    """
    target = path.with_name(path.name + ".damaged")
    for suffix in ("", "-wal", "-shm"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.replace(target.with_name(target.name + suffix))
        else:
            target.with_name(target.name + suffix).unlink(missing_ok=True)
    return target


@contextmanager
def _guard() -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
        code = "proof-queue-full" if full else "proof-queue-io"
        raise QueueError(code, found=str(error), expected="a disk that takes it") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes a damaged schema in its message
        raise _damaged(str(error), "an intact file") from error


def _check_size(path: Path) -> None:
    """Refuse before anything is read: a file nobody bounded would be walked by the check of its pages."""
    for suffix in ("", "-wal"):
        file = path.with_name(path.name + suffix)
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            continue
        except OSError as error:
            raise QueueError("proof-queue-io", found=str(error.strerror), expected="a readable folder") from error
        if size > FILE_BYTES_MAX:
            raise _damaged(f"{file.name} of {size} bytes", f"at most {FILE_BYTES_MAX}")


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def _command(digest: bytes, data: object) -> Command:
    if not isinstance(data, bytes) or len(data) > COMMAND_BYTES_MAX or hashlib.sha256(data).digest() != digest:
        raise _damaged("a job of other bytes", "the command its digest names")
    try:
        return parse_command(data, None).command
    except CommandError as error:
        raise _damaged(f"a job that is no command: {error.found}", "a signed command") from error


def _damaged(found: str, expected: str) -> QueueError:
    return QueueError(
        "proof-queue-damaged", found=found, expected=expected, hint="it is made again from what the gate is owed"
    )
