"""The queue on disk: what was added stays, in order, through crashes; what is wrong with it has a name."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.prover import queue as module
from sitsedge.prover.queue import FILE_BYTES_MAX, ProofQueue, QueueError, set_aside
from tests.sitsedge.prover.commands import Owing, owing

ROOT = Path(__file__).resolve().parent.parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


def jobs(count: int, start: int = 1) -> list[Owing]:
    return [owing(start + i, prove=False) for i in range(count)]


def filled(path: Path, count: int = 3) -> list[Owing]:
    made = jobs(count)
    queue = ProofQueue(path, capacity=100)
    assert queue.add([(job.data, n) for n, job in enumerate(made)]) == count
    queue.close()
    return made


def code_of(path: Path) -> str:
    with pytest.raises(QueueError) as caught:
        ProofQueue(path, capacity=100).waiting(10)
    return caught.value.code


def fits(queue: ProofQueue, job: Owing) -> bool:
    try:
        queue.add([(job.data, 1)])
    except QueueError:
        return False
    return True


def test_jobs_come_back_oldest_first_and_whole(path: Path) -> None:
    made = filled(path)
    queue = ProofQueue(path, capacity=100)
    waiting = queue.waiting(2)
    assert [(job.digest, job.command, job.due_ns) for job in waiting] == [
        (job.digest, job.command, n) for n, job in enumerate(made[:2])
    ]
    counts = queue.counts()
    assert (counts.waiting, counts.proven, counts.failed, counts.oldest_due_ns) == (3, 0, 0, 0)
    queue.close()


def test_adding_again_changes_nothing(path: Path) -> None:
    made = filled(path)
    queue = ProofQueue(path, capacity=100)
    queue.store([(made[0].digest, bytes(128), None)])
    assert queue.add([(job.data, 99) for job in made]) == 3
    assert [job.digest for job in queue.waiting(9)] == [made[1].digest, made[2].digest]
    queue.close()


def test_a_full_queue_takes_none_of_a_group(path: Path) -> None:
    queue = ProofQueue(path, capacity=4)
    queue.add([(job.data, 1) for job in jobs(3)])
    with pytest.raises(QueueError, match="proof-queue-full"):
        queue.add([(job.data, 1) for job in jobs(2, start=10)])
    assert queue.counts().total == 3
    assert queue.add([(jobs(1, start=20)[0].data, 1)]) == 4
    queue.close()


def test_a_job_is_over_once_ledger_and_gate_have_its_proof(path: Path) -> None:
    first, second, third = filled(path)
    queue = ProofQueue(path, capacity=100)
    queue.store([(job.digest, job.proof, None) for job in (first, second, third)])
    assert [proven.digest for proven in queue.proven(0, 9)] == [first.digest, second.digest, third.digest]
    assert queue.settle(confirmed=[first.digest]) == 3, "the device's ledger does not hold it yet"
    assert queue.settle(recorded=[second.digest]) == 3, "the gate has not confirmed it yet"
    assert queue.settle(recorded=[first.digest]) == 2
    assert queue.settle(confirmed=[second.digest]) == 1
    assert dict(queue.digests()) == {third.digest: True}
    assert queue.drop([third.digest]) == 0
    queue.close()


def test_a_job_given_up_is_tried_again_after_a_start(path: Path) -> None:
    made = filled(path, 1)[0]
    queue = ProofQueue(path, capacity=100)
    queue.store([(made.digest, None, "divergence: " + "x" * 1000)])
    assert queue.waiting(9) == []
    ((digest, reason),) = queue.failures()
    assert digest == made.digest
    assert reason.startswith("divergence")
    assert len(reason) <= 300
    queue.retry_failures()
    assert [job.digest for job in queue.waiting(9)] == [made.digest]
    queue.close()


def test_the_other_process_s_work_is_noticed(path: Path) -> None:
    made = filled(path, 1)[0]
    one, two = ProofQueue(path, capacity=100), ProofQueue(path, capacity=100)
    assert one.changed()
    assert not one.changed()
    two.store([(made.digest, bytes(192), None)])
    assert one.changed()
    assert one.proven(0, 1)[0].proof == bytes(192)
    one.close()
    two.close()


def test_a_queue_put_in_its_place_is_noticed(path: Path) -> None:
    filled(path)
    queue = ProofQueue(path, capacity=100)
    assert not queue.replaced
    assert set_aside(path).exists()
    assert queue.replaced
    queue.close()
    filled(path)
    set_aside(path)  # in place of the one before
    assert sorted(item.name for item in path.parent.iterdir()) == ["queue.db.damaged"]


def test_what_was_added_survives_a_kill(path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.sitsedge.prover.queue_child", str(path)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert child.stdout is not None
    seen = 0
    while seen < 12:
        seen = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split("\n")
    seen = max([seen, *(int(number) for number in rest[:-1])])
    child.wait()
    queue = ProofQueue(path, capacity=100_000)
    sequences = [job.command.header.sequence for job in queue.waiting(100_000)]
    assert sequences[:seen] == list(range(1, seen + 1)), "every job that was said to be durable"
    assert len(sequences) <= seen + 1
    queue.close()


def test_no_database(path: Path) -> None:
    path.write_bytes(b"something else entirely" * 1000)
    assert code_of(path) == "proof-queue-damaged"


def test_another_program_s_database(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE job (id INTEGER)")
    db.close()
    assert code_of(path) == "proof-queue-damaged"


def test_an_oversized_file_is_refused_before_it_is_read(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)  # sparse
    assert code_of(path) == "proof-queue-damaged"


def test_a_job_of_other_bytes(path: Path) -> None:
    filled(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE job SET command = zeroblob(300) WHERE id = 1")
    db.close()
    assert code_of(path) == "proof-queue-damaged"


def test_a_job_that_is_no_command(path: Path) -> None:
    queue = ProofQueue(path, capacity=9)
    queue.add([(b"no command", 1)])
    with pytest.raises(QueueError, match="no command"):
        queue.waiting(1)
    queue.close()


def test_a_proof_of_another_size(path: Path) -> None:
    made = filled(path, 1)[0]
    queue = ProofQueue(path, capacity=9)
    queue.store([(made.digest, b"short", None)])
    with pytest.raises(QueueError, match="another size"):
        queue.proven(0, 9)
    queue.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    assert code_of(tmp_path / "missing" / "queue.db") == "proof-queue-io"


def test_a_full_disk_is_an_error_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_PAGES_MAX", 16)
    queue = ProofQueue(path, capacity=100_000)
    durable = sum(1 for _ in takewhile(lambda job: fits(queue, job), jobs(1000)))
    assert 10 < durable < 1000
    with pytest.raises(QueueError, match="proof-queue-full"):
        queue.add([(jobs(1, start=3000)[0].data, 1)])
    assert queue.counts().total == durable
    queue.drop([job.digest for job in queue.waiting(1000)])
    queue.add([(jobs(1, start=5000)[0].data, 1)])  # there is room again
    queue.close()


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[bytes], bytes]:
    path = tmp_path_factory.mktemp("queue") / "queue.db"
    made = {job.digest for job in filled(path, 2)}
    return path, made, path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_damage_is_an_error_or_nothing(intact: tuple[Path, set[bytes], bytes], data: st.DataObject) -> None:
    path, made, content = intact
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    whole = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(whole[: data.draw(st.sampled_from([len(whole), len(whole) // 2, 100]))]))
    with contextlib.suppress(QueueError):
        queue = ProofQueue(path, capacity=9)
        found = {job.digest for job in queue.waiting(9)}
        queue.close()
        assert found <= made, "never another job"
