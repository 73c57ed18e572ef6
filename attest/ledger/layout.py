"""The SQLite file: schema, statements, opening for writing and for reading."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from attest.ledger.errors import LedgerError
from attest.ledger.merkle import HASH_BYTES, SIZE_MAX, CompactRange

APPLICATION_ID: Final = 0x53495453  # "SITS", in the file header (SQLite file format §1.3.15)
FORMAT_VERSION: Final = 1
_MAGIC: Final = b"SQLite format 3\x00"
_CACHE_KIB: Final = 2048
_VALUE_BYTES_MAX: Final = 8 * 1024 * 1024  # twice the largest record: a hostile file cannot make a reader allocate more
_SCHEMA: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID, STRICT",
    "CREATE TABLE leaves (idx INTEGER PRIMARY KEY, kind INTEGER NOT NULL, hash BLOB NOT NULL,"
    " data BLOB NOT NULL) STRICT",
    "CREATE TABLE nodes (level INTEGER NOT NULL, idx INTEGER NOT NULL, hash BLOB NOT NULL,"
    " PRIMARY KEY (level, idx)) WITHOUT ROWID, STRICT",
    "CREATE TABLE checkpoints (id INTEGER PRIMARY KEY, size INTEGER NOT NULL, note BLOB NOT NULL) STRICT",
)
TABLES: Final = frozenset({"meta", "leaves", "nodes", "checkpoints"})

INSERT_LEAF: Final = "INSERT INTO leaves VALUES (?, ?, ?, ?)"
INSERT_NODE: Final = "INSERT INTO nodes VALUES (?, ?, ?)"
INSERT_CHECKPOINT: Final = "INSERT INTO checkpoints (size, note) VALUES (?, ?)"
SELECT_LEAF: Final = "SELECT idx, kind, hash, data FROM leaves WHERE idx = ?"
SELECT_LEAVES: Final = "SELECT idx, kind, hash, data FROM leaves WHERE idx > ? ORDER BY idx LIMIT ?"
SELECT_LAST_LEAF: Final = "SELECT idx, kind, hash, data FROM leaves ORDER BY idx DESC LIMIT 1"
SELECT_LAST_OF_KIND: Final = "SELECT idx, kind, hash, data FROM leaves WHERE kind = ? ORDER BY idx DESC LIMIT 1"
COUNT_KIND: Final = "SELECT count(*) FROM leaves WHERE kind = ?"
SELECT_HASHES: Final = "SELECT hash FROM leaves WHERE idx >= ? AND idx < ? ORDER BY idx"
SELECT_NODES: Final = "SELECT hash FROM nodes WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx"
COUNT_NODES: Final = "SELECT count(*) FROM nodes"
SELECT_CHECKPOINTS: Final = "SELECT id, size, note FROM checkpoints WHERE id > ? ORDER BY id LIMIT ?"
SELECT_LAST_CHECKPOINT: Final = "SELECT note FROM checkpoints ORDER BY id DESC LIMIT 1"
_UPDATE_RANGE: Final = "INSERT OR REPLACE INTO meta VALUES ('range', ?)"


def write_range(connection: sqlite3.Connection, compact: CompactRange) -> None:
    """Store the compact range: eight bytes of size, then its hashes."""
    connection.execute(_UPDATE_RANGE, (compact.size.to_bytes(8, "big") + b"".join(compact.hashes),))


def read_range(connection: sqlite3.Connection) -> CompactRange:
    """The stored compact range; that of an empty tree where none is stored yet."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'range'").fetchone()
    if row is None:
        return CompactRange()
    raw = row[0]
    size = int.from_bytes(raw[:8], "big")
    hashes = [raw[at : at + HASH_BYTES] for at in range(8, len(raw), HASH_BYTES)]
    if size > SIZE_MAX or len(raw) != 8 + HASH_BYTES * size.bit_count():
        raise LedgerError("ledger-torn", found=f"a compact range of {len(raw)} bytes", expected="one that fits")
    return CompactRange(size, hashes)


def open_for_writing(path: Path, origin: str) -> sqlite3.Connection:
    """Open or create; raises ``LedgerError`` as ``Ledger.open`` says."""
    _check_magic(path)
    new = not path.exists()
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=1.0)
    except sqlite3.Error as error:
        raise LedgerError("ledger-io", found=f"{path}: {error}", expected="a writable file") from error
    try:
        _configure(connection)
        if not _check_header(connection, path):
            _create(connection, origin)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _check_origin(connection, path, origin)
        _check_length(connection, path)
        if new:
            _sync_folder(path.parent)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        connection.close()
        raise _open_error(path, error) from error
    except LedgerError:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> tuple[sqlite3.Connection, str]:
    """Open an existing file read-only; returns the connection and the log's origin."""
    if not path.is_file():
        raise LedgerError("ledger-missing", found=f"no file {path}", expected="a ledger")
    _check_magic(path)
    # A read-only medium cannot hold the WAL's shared memory; without a WAL there is nothing to share.
    wal = path.with_name(path.name + "-wal")
    sealed = not os.access(path.parent, os.W_OK) and not (wal.is_file() and wal.stat().st_size)
    uri = f"{path.resolve().as_uri()}?mode=ro" + ("&immutable=1" if sealed else "")
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=1.0)
        _configure(connection)
        connection.execute("BEGIN")  # one snapshot for everything this reader sees
        if not _check_header(connection, path):
            raise LedgerError("ledger-foreign", found=f"{path}: an empty database", expected="a ledger")
        origin = _check_origin(connection, path, None)
        _check_length(connection, path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if connection is not None:
            connection.close()
        raise _open_error(path, error) from error
    except LedgerError:
        if connection is not None:
            connection.close()
        raise
    return connection, origin


def _configure(connection: sqlite3.Connection) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
    connection.execute("PRAGMA trusted_schema = OFF")  # a foreign file's views and triggers never run code
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")


def _check_magic(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except FileNotFoundError:
        return
    except OSError as error:
        raise LedgerError("ledger-io", found=f"{path}: {error.strerror}", expected="a readable file") from error
    if start and start != _MAGIC:  # an empty file is what a crash before the first write leaves
        raise LedgerError("ledger-foreign", found=f"{path}: no SQLite file", expected="a ledger")


def _check_header(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a ledger of this version; ``False`` for an empty one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    objects = connection.execute("SELECT type, name FROM sqlite_schema LIMIT 16").fetchall()
    if not objects and application in (0, APPLICATION_ID):
        return False
    if application != APPLICATION_ID:
        raise LedgerError(
            "ledger-foreign", found=f"{path}: application id {application:#x}", expected=f"{APPLICATION_ID:#x}"
        )
    if version > FORMAT_VERSION:
        raise LedgerError(
            "ledger-newer",
            found=f"{path}: format {version}",
            expected=f"at most {FORMAT_VERSION}",
            hint="use the release that wrote it or a later one",
        )
    names = {name for kind, name in objects if kind == "table"}
    others = [name for kind, name in objects if kind not in ("table", "index")]
    if version != FORMAT_VERSION or not names >= TABLES or others:
        raise LedgerError("ledger-torn", found=f"{path}: tables {sorted(names)}"[:200], expected=str(sorted(TABLES)))
    return True


def _create(connection: sqlite3.Connection, origin: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('origin', ?)", (origin.encode(),))
    connection.execute("COMMIT")


def _check_origin(connection: sqlite3.Connection, path: Path, origin: str | None) -> str:
    row = connection.execute("SELECT value FROM meta WHERE name = 'origin'").fetchone()
    try:
        found = "" if row is None else row[0].decode("ascii")
    except UnicodeDecodeError as error:
        raise LedgerError("ledger-torn", found=f"{path}: an unreadable origin", expected="ASCII") from error
    if not found or (origin is not None and found != origin):
        raise LedgerError("ledger-origin", found=f"{path}: origin {found!r}", expected=repr(origin))
    return str(found)


def _check_length(connection: sqlite3.Connection, path: Path) -> None:
    """A file cut short at a page boundary is still readable SQLite until the missing page is wanted."""
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        return  # pages may still be in the WAL
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if path.stat().st_size < pages * page_bytes:
        raise LedgerError("ledger-torn", found=f"{path}: {path.stat().st_size} bytes", expected=f"{pages * page_bytes}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_error(path: Path, error: sqlite3.DatabaseError | UnicodeDecodeError) -> LedgerError:
    if isinstance(error, sqlite3.OperationalError):
        return LedgerError("ledger-io", found=f"{path}: {error}", expected="a file that can be opened")
    code = "ledger-foreign" if "not a database" in str(error) else "ledger-torn"
    return LedgerError(code, found=f"{path}: {error}", expected="an intact ledger")
