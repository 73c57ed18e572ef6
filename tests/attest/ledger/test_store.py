"""The store: proofs, reopening, files that are wrong, and a process that is killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.command import Alarm, GateKey, SessionKey, sign_record
from attest.ledger import (
    Ledger,
    LedgerError,
    RecordKind,
    kind_of,
    parse_checkpoint,
    verify_consistency,
    verify_inclusion,
)
from attest.ledger.layout import APPLICATION_ID
from attest.ledger.merkle import CompactRange, leaf_hash
from attest.ledger.store import RECORD_BYTES_MAX

KEY = SessionKey.generate()
ORIGIN = "sits/test"
RECORDS = [sign_record(Alarm("gate", 1, i, "code", "found", "expected", i), KEY) for i in range(700)]
ROOT = Path(__file__).resolve().parents[3]


def filled(path: Path, count: int) -> Ledger:
    ledger = Ledger.open(path, origin=ORIGIN, signer=KEY)
    for record in RECORDS[:count]:
        ledger.append("alarm", record)
    ledger.commit()
    return ledger


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    ledger = filled(tmp_path_factory.mktemp("large") / "ledger.db", 700)  # two stored nodes of level 8 and a rest
    yield ledger
    ledger.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 700).flatmap(lambda new: st.tuples(st.integers(0, new), st.just(new))))
def test_proofs_from_the_store(large: Ledger, case: tuple[int, int]) -> None:
    old, new = case
    verify_consistency(old, large.root(old), new, large.root(new), large.consistency(old, new))
    if old < new:
        verify_inclusion(leaf_hash(RECORDS[old]), old, new, large.inclusion(old, new), large.root(new))


def test_records_come_back_as_they_went_in(large: Ledger) -> None:
    assert [leaf.data for leaf in large.iterate()] == RECORDS
    assert [leaf.index for leaf in large.iterate(690)] == list(range(690, 700))
    assert large.read(5).data == RECORDS[5]
    assert large.count(RecordKind.ALARM) == 700
    assert large.last(RecordKind.COMMAND) is None
    last = large.last(RecordKind.ALARM)
    assert last is not None
    assert last.index == 699
    assert large.node(8, 1) is not None
    assert large.node(8, 2) is None


def test_questions_out_of_range(large: Ledger) -> None:
    for ask in (
        lambda: large.read(700),
        lambda: large.read(-1),
        lambda: large.read(2**70),
        lambda: large.root(701),
        lambda: large.inclusion(700, 700),
        lambda: large.inclusion(0, 701),
        lambda: large.consistency(5, 4),
    ):
        with pytest.raises(LedgerError, match="ledger-range"):
            ask()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_reopened_at_any_size_it_goes_on_as_if_never_closed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int]
) -> None:
    path = tmp_path_factory.mktemp("reopen") / "ledger.db"
    tree, done = CompactRange(), 0
    for step in steps:
        ledger = Ledger.open(path, origin=ORIGIN, signer=KEY)
        assert ledger.size == done
        for record in RECORDS[done : done + step]:
            assert ledger.append("alarm", record) == done
            tree.append(leaf_hash(record))
            done += 1
        ledger.close()
        ledger.close()
    ledger = Ledger.open_readonly(path)
    assert ledger.root() == tree.root()
    ledger.close()


def test_only_committed_records_are_acknowledged(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "ledger.db", 3)
    root = ledger.root()
    ledger.append("alarm", RECORDS[3])
    assert (ledger.size, ledger.appended, ledger.root()) == (3, 4, root)
    reader = Ledger.open_readonly(tmp_path / "ledger.db")
    assert reader.size == 3
    assert ledger.commit() == 4
    assert reader.size == 3, "a reader keeps the state it opened"
    assert sum(1 for _ in reader.iterate()) == 3
    reader.close()
    ledger.close()


def test_checkpoints_are_signed_and_stored(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "ledger.db", 3)
    assert ledger.last_checkpoint() is None
    first = ledger.checkpoint()
    ledger.append("alarm", RECORDS[3])
    second = ledger.checkpoint()
    assert ledger.size == 4, "a checkpoint commits first"
    signed = parse_checkpoint(second)
    signed.verify(KEY.public)
    assert (signed.checkpoint.size, signed.checkpoint.root) == (4, ledger.root())
    assert list(ledger.checkpoints()) == [(3, first), (4, second)]
    assert ledger.last_checkpoint() == second
    ledger.signer = None
    with pytest.raises(LedgerError, match="ledger-signer"):
        ledger.checkpoint()
    ledger.close()


def test_records_the_ledger_does_not_take(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "ledger.db", 1)
    for kind, data in (
        ("command", RECORDS[1]),
        ("alarm", b""),
        ("alarm", b"\xd2\x84\x40"),
        ("alarm", b"\xd2\x84\x58\xff"),
        ("alarm", b"\xd2\x84\x60"),
        ("alarm", b"\xd2\x84\x43\xa1\x01\x27"),
        ("alarm", b"\xd2\x84\x42\xa1\x01"),
    ):
        with pytest.raises(LedgerError, match="ledger-kind"):
            ledger.append(kind, data)
    with pytest.raises(LedgerError, match="ledger-range"):
        ledger.append("alarm", RECORDS[1] + bytes(RECORD_BYTES_MAX))
    assert ledger.commit() == 1
    ledger.close()
    with pytest.raises(LedgerError, match="ledger-closed"):
        ledger.append("alarm", RECORDS[1])


@given(st.binary(max_size=80))
def test_any_bytes_have_a_kind_or_one_error(data: bytes) -> None:
    for start in (b"", b"\xd2\x84", b"\xd2\x84\x58\x20"):
        with pytest.raises(LedgerError, match="ledger-kind"):
            kind_of(start + data)


# --- files ---------------------------------------------------------------------------------------------------


def sql(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        db = sqlite3.connect(path)
        db.executescript(statement)
        db.close()

    return change


def cut_to(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share) // 4096 * 4096)


def overwrite(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


WRONG_FILES = {
    "foreign-no-database": (lambda path: path.write_bytes(b"hello" * 100), "ledger-foreign"),
    "foreign-database": (sql("PRAGMA application_id = 7"), "ledger-foreign"),
    "newer-format": (sql("PRAGMA user_version = 2"), "ledger-newer"),
    "older-than-the-first": (sql("PRAGMA user_version = 0"), "ledger-torn"),
    "torn-table-missing": (sql("DROP TABLE nodes"), "ledger-torn"),
    "torn-trigger-added": (
        sql("CREATE TRIGGER t AFTER INSERT ON leaves BEGIN DELETE FROM nodes; END"),
        "ledger-torn",
    ),
    "torn-last-record-missing": (sql("DELETE FROM leaves WHERE idx = 299"), "ledger-torn"),
    "torn-last-record-altered": (sql("UPDATE leaves SET data = x'00' WHERE idx = 299"), "ledger-torn"),
    "torn-edge-altered": (sql("UPDATE leaves SET hash = zeroblob(32) WHERE idx = 290"), "ledger-torn"),
    "torn-node-missing": (sql("DELETE FROM nodes"), "ledger-torn"),
    "torn-range-short": (sql("UPDATE meta SET value = x'0000' WHERE name = 'range'"), "ledger-torn"),
    "torn-range-missing": (sql("DELETE FROM meta WHERE name = 'range'"), "ledger-torn"),
    "torn-cut-behind-a-checkpoint": (
        sql("DELETE FROM leaves; DELETE FROM nodes; DELETE FROM meta WHERE name = 'range'"),
        "ledger-torn",
    ),
    "torn-half-the-file": (cut_to(0.5), "ledger-torn"),
    "torn-last-page": (cut_to(0.999), "ledger-torn"),
    "torn-overwritten": (overwrite, "ledger-torn"),
    "other-origin": (sql("UPDATE meta SET value = CAST('sits/other' AS BLOB) WHERE name = 'origin'"), "ledger-origin"),
    "origin-unreadable": (sql("UPDATE meta SET value = x'ff' WHERE name = 'origin'"), "ledger-torn"),
    "origin-missing": (sql("DELETE FROM meta WHERE name = 'origin'"), "ledger-origin"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_wrong_files_have_a_typed_error(tmp_path: Path, name: str) -> None:
    change, code = WRONG_FILES[name]
    path = tmp_path / "ledger.db"
    ledger = filled(path, 300)
    ledger.checkpoint()
    ledger.close()
    change(path)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(path, origin=ORIGIN, signer=KEY)
    assert caught.value.code == code
    with pytest.raises(LedgerError):  # the lock was given back: it is still the file that is wrong
        Ledger.open(path, origin=ORIGIN, signer=KEY)


def test_what_a_crash_before_the_first_write_leaves_is_a_new_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    filled(path, 2).close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    db.close()
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(LedgerError, match="ledger-foreign"):
        Ledger.open_readonly(empty)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "ledger.db", 1)
    with pytest.raises(LedgerError, match="ledger-busy"):
        Ledger.open(tmp_path / "ledger.db", origin=ORIGIN)
    ledger.close()
    Ledger.open(tmp_path / "ledger.db", origin=ORIGIN).close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db", 1).close()
    reader = Ledger.open_readonly(tmp_path / "ledger.db")
    with pytest.raises(LedgerError, match="ledger-closed"):
        reader.append("alarm", RECORDS[0])
    reader.close()


def test_places_where_no_ledger_can_be(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="ledger-missing"):
        Ledger.open_readonly(tmp_path / "none.db")
    with pytest.raises(LedgerError, match="ledger-io"):
        Ledger.open(tmp_path / "none" / "ledger.db", origin=ORIGIN)
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(LedgerError, match="ledger-io"):
        Ledger.open(tmp_path / "folder.db", origin=ORIGIN)
    with pytest.raises(LedgerError, match="ledger-origin"):
        Ledger.open(tmp_path / "ledger.db", origin="with space")


def test_a_full_disk_ends_the_object_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    ledger = filled(tmp_path / "ledger.db", 20)
    ledger._db.execute("PRAGMA max_page_count = 8")  # SQLite's own way to be full

    def fill() -> None:
        for record in RECORDS[20:]:
            ledger.append("alarm", record)
            ledger.commit()

    with pytest.raises(LedgerError, match="ledger-io"):
        fill()
    acknowledged, root = ledger.size, ledger.root()
    with pytest.raises(LedgerError, match="ledger-closed"):
        ledger.append("alarm", RECORDS[0])
    ledger.close()
    again = Ledger.open(tmp_path / "ledger.db", origin=ORIGIN)
    assert (again.size, again.root()) == (acknowledged, root)
    again.close()


# --- kill -9 -------------------------------------------------------------------------------------------------


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    """Killed in the middle of its work several times over: every printed size and root is in the file."""
    path, key_file = tmp_path / "ledger.db", tmp_path / "key"
    key = GateKey.create(key_file)
    acknowledged: list[tuple[int, str]] = []
    for round_ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.attest.ledger.crash_child", str(path), str(key_file)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert child.stdout is not None
        for _ in range(10 + 13 * round_):
            size, root = child.stdout.readline().split()
            acknowledged.append((int(size), root))
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().splitlines()
        acknowledged += [
            (int(a), b)
            for a, b in (text.split() for text in rest if len(text.split()) == 2 and len(text.split()[1]) == 64)
        ]
        child.wait()
        child.stdout.close()
    ledger = Ledger.open(path, origin="sits/crash", signer=key)
    assert ledger.size >= acknowledged[-1][0]
    for size, root in acknowledged:
        assert ledger.root(size).hex() == root
    tree = CompactRange()
    for leaf in ledger.iterate():
        tree.append(leaf_hash(leaf.data))
    assert tree.root() == ledger.root()
    for size, note in ledger.checkpoints():
        signed = parse_checkpoint(note)
        signed.verify(key.public)
        assert ledger.root(size) == signed.checkpoint.root
    ledger.close()
