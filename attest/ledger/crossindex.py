"""Which record answers which, across two ledgers, in a temporary database on disk: memory stays bounded."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

_CACHE_KIB: Final = 16_384
_TABLES: Final = ("device_command", "gate_command", "device_receipt", "gate_receipt", "gate_refusal")
_SCHEMA: Final = (
    *(
        f"CREATE TABLE {table} (digest BLOB PRIMARY KEY, epoch INT, sequence INT, idx INT) WITHOUT ROWID"
        for table in _TABLES
    ),
    "CREATE TABLE unsent (epoch INT, sequence INT, PRIMARY KEY (epoch, sequence)) WITHOUT ROWID",
    "CREATE TABLE evidence (digest BLOB PRIMARY KEY, ledger TEXT, idx INT) WITHOUT ROWID",
    "CREATE TABLE judged (digest BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE committed (digest BLOB PRIMARY KEY, epoch INT, sequence INT, due_ns INT) WITHOUT ROWID",
    "CREATE TABLE late (digest BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE proof_receipt (digest BLOB PRIMARY KEY, t_ns INT, late INT, idx INT) WITHOUT ROWID",
    "CREATE TABLE checkpoint (ledger TEXT, size INT, PRIMARY KEY (ledger, size)) WITHOUT ROWID",
    "CREATE TABLE witness (size INT PRIMARY KEY, idx INT) WITHOUT ROWID",
)

DEVICE_COMMAND, GATE_COMMAND, DEVICE_RECEIPT, GATE_RECEIPT, GATE_REFUSAL = _TABLES


class CrossIndex:
    """Digest, epoch, sequence and index of every record that has a counterpart."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)  # a private file that SQLite deletes itself
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_CACHE_KIB}"):
            self._db.execute(f"PRAGMA {setting}")
        for statement in _SCHEMA:
            self._db.execute(statement)
        self._db.execute("BEGIN")

    def close(self) -> None:
        """Drop everything."""
        self._db.close()

    def add(self, table: str, digest: bytes, epoch: int, sequence: int, index: int) -> bool:
        """Note a record; ``False`` if the same bytes were there before."""
        assert table in _TABLES
        row = (digest, epoch, sequence, index)
        # the table is one of ours, never a caller's text
        return self._db.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)", row).rowcount == 1  # noqa: S608

    def find(self, table: str, digest: bytes) -> int | None:
        """Index of a record by digest."""
        assert table in _TABLES
        row = self._db.execute(f"SELECT idx FROM {table} WHERE digest = ?", (digest,)).fetchone()  # noqa: S608
        return None if row is None else int(row[0])

    def add_unsent(self, epoch: int, sequence: int) -> None:
        """A command that its device says it did not send."""
        self._db.execute("INSERT OR IGNORE INTO unsent VALUES (?, ?)", (epoch, sequence))

    def add_evidence(self, digest: bytes, ledger: str, index: int) -> None:
        """Evidence bytes."""
        self._db.execute("INSERT OR IGNORE INTO evidence VALUES (?, ?, ?)", (digest, ledger, index))

    def find_evidence(self, digest: bytes) -> tuple[str, int] | None:
        """Ledger and index of evidence by digest."""
        row = self._db.execute("SELECT ledger, idx FROM evidence WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else (str(row[0]), int(row[1]))

    def add_judged(self, digest: bytes) -> None:
        """A command whose signature was checked."""
        self._db.execute("INSERT OR IGNORE INTO judged VALUES (?)", (digest,))

    def judged(self, digest: bytes) -> bool:
        """Whether ``add_judged`` was called for it."""
        return self._db.execute("SELECT 1 FROM judged WHERE digest = ?", (digest,)).fetchone() is not None

    def add_committed(self, digest: bytes, epoch: int, sequence: int, due_ns: int) -> None:
        """An accepted command whose proof is to follow until ``due_ns``."""
        self._db.execute("INSERT OR IGNORE INTO committed VALUES (?, ?, ?, ?)", (digest, epoch, sequence, due_ns))

    def add_late(self, digest: bytes) -> bool:
        """The proof of that command; ``False`` if it had one before."""
        return self._db.execute("INSERT OR IGNORE INTO late VALUES (?)", (digest,)).rowcount == 1

    def add_proof_receipt(self, digest: bytes, t_ns: int, late: bool, index: int) -> None:
        """The gate's word that it verified that proof at ``t_ns``; the first one counts."""
        self._db.execute("INSERT OR IGNORE INTO proof_receipt VALUES (?, ?, ?, ?)", (digest, t_ns, late, index))

    def add_checkpoint(self, ledger: str, size: int) -> None:
        """A stored checkpoint whose signature by a known key was checked."""
        self._db.execute("INSERT OR IGNORE INTO checkpoint VALUES (?, ?)", (ledger, size))

    def checkpoint_after(self, ledger: str, index: int) -> int | None:
        """Size of the first checkpoint of ``ledger`` that covers record ``index``."""
        query = "SELECT min(size) FROM checkpoint WHERE ledger = ? AND size > ?"
        size: int | None = self._db.execute(query, (ledger, index)).fetchone()[0]
        return size

    def last_checkpoint_but_one(self, ledger: str, size: int) -> int:
        """Size of the last checkpoint but one up to ``size``; 0 if there are fewer."""
        query = "SELECT size FROM checkpoint WHERE ledger = ? AND size <= ? ORDER BY size DESC LIMIT 1 OFFSET 1"
        row = self._db.execute(query, (ledger, size)).fetchone()
        return 0 if row is None else int(row[0])

    def add_witness(self, size: int, index: int) -> None:
        """A witness record at ``index`` of the gate's ledger that fits the device's first ``size`` records."""
        self._db.execute("INSERT OR IGNORE INTO witness VALUES (?, ?)", (size, index))

    def witnessed_without_checkpoint(self, ledger: str) -> Iterator[tuple[int, int]]:
        """(size, gate index) of witnesses that no checkpoint of ``ledger`` stands behind, in order."""
        yield from self._db.execute(
            "SELECT size, idx FROM witness w WHERE NOT EXISTS"
            " (SELECT 1 FROM checkpoint WHERE ledger = ? AND size = w.size) ORDER BY size",
            (ledger,),
        )

    def commitments_without_proof(self) -> Iterator[tuple[int, int, int]]:
        """(epoch, sequence, due_ns) of accepted commitments no proof followed, in order."""
        yield from self._db.execute(
            "SELECT epoch, sequence, due_ns FROM committed c"
            " WHERE NOT EXISTS (SELECT 1 FROM late WHERE digest = c.digest) ORDER BY epoch, sequence"
        )

    def proof_receipts(self) -> Iterator[tuple[int, int, bool, int | None]]:
        """(gate index, t_ns, late, due_ns) of every proof receipt; ``due_ns`` is ``None`` without such a commitment."""
        rows = self._db.execute(
            "SELECT idx, t_ns, late, due_ns FROM proof_receipt p LEFT JOIN committed c ON c.digest = p.digest"
            " ORDER BY idx"
        )
        for index, t_ns, late, due_ns in rows:
            yield index, t_ns, bool(late), due_ns

    def accepted_without_command(self) -> Iterator[tuple[int, int, int]]:
        """(epoch, sequence, gate index) of accepted commands that the device ledger lacks, in order."""
        yield from self._db.execute(
            "SELECT epoch, sequence, min(idx) FROM"
            " (SELECT * FROM gate_receipt UNION ALL SELECT * FROM gate_command) g"
            " WHERE NOT EXISTS (SELECT 1 FROM device_command WHERE digest = g.digest)"
            " GROUP BY digest ORDER BY epoch, sequence"
        )

    def commands_without_answer(self) -> Iterator[tuple[int, int, int, bool]]:
        """(epoch, sequence, device index, device has a receipt) of commands that the gate ledger lacks."""
        rows = self._db.execute(
            "SELECT epoch, sequence, idx, EXISTS (SELECT 1 FROM device_receipt r WHERE r.digest = c.digest)"
            " FROM device_command c WHERE NOT EXISTS (SELECT 1 FROM gate_receipt WHERE digest = c.digest)"
            " AND NOT EXISTS (SELECT 1 FROM gate_refusal WHERE digest = c.digest)"
            " AND NOT EXISTS (SELECT 1 FROM gate_command WHERE digest = c.digest)"
            " AND NOT EXISTS (SELECT 1 FROM unsent u WHERE u.epoch = c.epoch AND u.sequence = c.sequence)"
            " ORDER BY epoch, sequence"
        )
        for epoch, sequence, index, answered in rows:
            yield epoch, sequence, index, bool(answered)

    def receipts_lost_by_gate(self) -> Iterator[tuple[int, int, int]]:
        """(epoch, sequence, device index) of receipts the device holds and the gate does not."""
        yield from self._db.execute(
            "SELECT epoch, sequence, idx FROM device_receipt d WHERE NOT EXISTS"
            " (SELECT 1 FROM gate_receipt WHERE digest = d.digest) ORDER BY epoch, sequence"
        )

    def last_sequence(self, epoch: int, *tables: str) -> int:
        """The highest sequence of an epoch in any of the tables; 0 if none.

        A refusal repeats what the refused bytes claim, so it only counts for bytes that the device has.
        """
        assert set(tables) <= set(_TABLES)
        query = "SELECT coalesce(max(sequence), 0) FROM {} t WHERE epoch = ?"
        sent = " AND EXISTS (SELECT 1 FROM device_command WHERE digest = t.digest)"
        queries = (query.format(table) + (sent if table == GATE_REFUSAL else "") for table in tables)
        return max(int(self._db.execute(text, (epoch,)).fetchone()[0]) for text in queries)
