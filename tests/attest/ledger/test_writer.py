"""The writer thread: order, acknowledgement, bounds, checkpoints, failures."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.command import Alarm, SessionKey, sign_record
from attest.ledger import (
    Checkpoint,
    IssuedCheckpoint,
    Ledger,
    LedgerError,
    LedgerQueueFull,
    LedgerWriter,
    LedgerWriterFailed,
    parse_checkpoint,
)
from attest.ledger.witness import check_extension

KEY = SessionKey.generate()
ORIGIN = "sits/writer"
RECORDS = [sign_record(Alarm("gate", 1, i, "code", "found", "expected", i), KEY) for i in range(300)]
WAIT_S = 30.0


class Gate:
    """Holds the writer's thread inside a callback until it is opened."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, _: int) -> None:
        self.entered.set()
        assert self.open.wait(WAIT_S)


def writer(path: Path, **options: object) -> LedgerWriter:
    return LedgerWriter(path / "ledger.db", origin=ORIGIN, signer=KEY, **options)  # type: ignore[arg-type]


def test_everything_submitted_is_acknowledged_in_order(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    with writer(tmp_path, group_ms=1.0) as log:
        for record in RECORDS:
            log.submit("alarm", record, acknowledged.append)
        assert log.flush(timeout_s=WAIT_S) == 300
        assert acknowledged == list(range(300))
        assert log.size == 300
        assert log.queued == 0
    ledger = Ledger.open_readonly(tmp_path / "ledger.db")
    assert [leaf.data for leaf in ledger.iterate()] == RECORDS
    note = ledger.last_checkpoint()
    assert note is not None
    assert parse_checkpoint(note).checkpoint == Checkpoint(ORIGIN, 300, ledger.root())
    ledger.close()


def test_an_acknowledged_record_is_in_the_file(tmp_path: Path) -> None:
    with writer(tmp_path, group_ms=0.0) as log:
        for index, record in enumerate(RECORDS[:20]):
            assert log.append_durable("alarm", record, timeout_s=WAIT_S) == index
            reader = Ledger.open_readonly(tmp_path / "ledger.db")
            assert reader.read(index).data == record
            reader.close()


def test_a_full_queue_refuses_and_loses_nothing(tmp_path: Path) -> None:
    gate = Gate()
    log = writer(tmp_path, queue_records_max=8, group_records_max=1)
    log.submit("alarm", RECORDS[0], gate)
    assert gate.entered.wait(WAIT_S)
    for record in RECORDS[1:9]:
        log.submit("alarm", record)
    with pytest.raises(LedgerQueueFull, match="ledger-queue-full"):
        log.submit("alarm", RECORDS[9])
    gate.open.set()
    assert log.flush(timeout_s=WAIT_S) == 9
    log.close()


def test_checkpoints_extend_what_was_witnessed(tmp_path: Path) -> None:
    issued: list[IssuedCheckpoint] = []
    seen: list[Checkpoint | None] = [None]

    def witness(checkpoint: IssuedCheckpoint) -> None:
        issued.append(checkpoint)
        if len(issued) % 2:  # every other one is lost on the way
            found = check_extension(
                checkpoint.note, checkpoint.consistency, origin=ORIGIN, public=KEY.public, seen=seen[0]
            )
            seen[0] = found
            log.witnessed(found.size)

    log = writer(tmp_path, checkpoint_ms=0.0, group_ms=0.0, on_checkpoint=witness)
    for record in RECORDS[:40]:
        log.append_durable("alarm", record, timeout_s=WAIT_S)
    log.close()
    assert issued[-1].size == 40
    assert [item.size for item in issued] == sorted({item.size for item in issued})


def test_a_new_signer_signs_what_follows_and_an_erased_one_only_delays(tmp_path: Path) -> None:
    first, second = SessionKey.generate(), SessionKey.generate()
    issued: list[IssuedCheckpoint] = []
    log = LedgerWriter(
        tmp_path / "ledger.db", origin=ORIGIN, signer=first, checkpoint_ms=0.0, on_checkpoint=issued.append
    )
    first.erase()
    log.append_durable("alarm", RECORDS[0], timeout_s=WAIT_S)
    log.append_durable("alarm", RECORDS[1], timeout_s=WAIT_S)
    log.set_signer(second)
    log.append_durable("alarm", RECORDS[2], timeout_s=WAIT_S)
    log.close()
    assert issued[-1].size == 3
    for item in issued:
        parse_checkpoint(item.note).verify(second.public)


def test_what_the_ledger_would_not_take_is_refused_at_once(tmp_path: Path) -> None:
    with writer(tmp_path) as log:
        for call in (log.submit, lambda kind, data: log.append_durable(kind, data, timeout_s=WAIT_S)):
            with pytest.raises(LedgerError, match="ledger-kind"):
                call("command", RECORDS[0])
        assert log.append_durable("alarm", RECORDS[0], timeout_s=WAIT_S) == 0


def test_opening_errors_reach_the_caller(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"something else")
    with pytest.raises(LedgerError, match="ledger-foreign"):
        writer(tmp_path)


def test_a_closed_writer_takes_nothing(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.close()
    log.close()
    for call in (
        lambda: log.submit("alarm", RECORDS[0]),
        lambda: log.flush(timeout_s=WAIT_S),
        lambda: log.append_durable("alarm", RECORDS[0], timeout_s=WAIT_S),
    ):
        with pytest.raises(LedgerWriterFailed, match="closed"):
            call()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_fails_says_so_to_everybody(tmp_path: Path) -> None:
    """A callback that raises stands for any fault: waiters wake, later records are refused, close reports it."""
    gate, waited = Gate(), []
    log = writer(tmp_path, group_records_max=1)

    def fail(_: int) -> None:
        gate(0)
        raise RuntimeError("fault")

    def wait(call: Callable[[], int]) -> None:
        try:
            call()
        except LedgerWriterFailed as error:
            waited.append(error.code)

    log.submit("alarm", RECORDS[0], fail)
    assert gate.entered.wait(WAIT_S)
    thread = threading.Thread(target=wait, args=(lambda: log.append_durable("alarm", RECORDS[1], timeout_s=WAIT_S),))
    thread.start()
    gate.open.set()
    thread.join(WAIT_S)
    assert waited == ["ledger-closed"]
    with pytest.raises(LedgerWriterFailed):
        log.submit("alarm", RECORDS[2])
    with pytest.raises(LedgerWriterFailed, match="callback"):
        log.close()


def test_waiting_has_an_end(tmp_path: Path) -> None:
    gate = Gate()
    log = writer(tmp_path, group_records_max=1)
    log.submit("alarm", RECORDS[0], gate)
    assert gate.entered.wait(WAIT_S)
    with pytest.raises(LedgerWriterFailed, match="no acknowledgement"):
        log.append_durable("alarm", RECORDS[1], timeout_s=0.01)
    with pytest.raises(LedgerWriterFailed, match="still busy"):
        log.close(timeout_s=0.01)
    gate.open.set()
    log.close()


def test_without_a_signer_no_checkpoint_is_issued_until_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    issued: list[IssuedCheckpoint] = []
    key = SessionKey.generate()
    writer = LedgerWriter(path, origin=ORIGIN, signer=None, checkpoint_ms=1.0, on_checkpoint=issued.append)
    writer.append_durable("alarm", RECORDS[0], timeout_s=10)
    writer.flush(timeout_s=10)
    assert issued == []
    writer.set_signer(key)
    writer.append_durable("alarm", RECORDS[1], timeout_s=10)
    writer.close()
    assert issued[-1].size == 2
    with contextlib.closing(Ledger.open_readonly(path)) as ledger:
        assert [size for size, _ in ledger.checkpoints()][-1] == 2
