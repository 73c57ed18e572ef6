"""The loop's side of the lane: never a wait, never a loss, and a name for every fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sitsedge.loop import deferred
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.deferred import HANDED_OVER_MAX, WINDOW, DeferredLane, Event
from sitsedge.prover import queue as queue_module
from sitsedge.prover.queue import ProofQueue, Proven
from tests.sitsedge.prover.commands import Owing, owing

CAPACITY = 100


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


@pytest.fixture
def lane(path: Path) -> Iterator[DeferredLane]:
    made = DeferredLane(path, capacity=CAPACITY)
    yield made
    made.close()


@pytest.fixture
def prover(path: Path, lane: DeferredLane) -> Iterator[ProofQueue]:
    """The other process's connection."""
    until(path.exists)
    queue = ProofQueue(path, capacity=CAPACITY)
    yield queue
    queue.close()


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def collected(lane: DeferredLane, count: int) -> list[Proven]:
    found: list[Proven] = []

    def more() -> bool:
        while (proven := lane.poll()) is not None:
            found.append(proven)
        return len(found) >= count

    until(more)
    return found


def event(lane: DeferredLane) -> Event:
    found: list[Event] = []

    def one() -> bool:
        item = lane.event()
        if item is not None:
            found.append(item)
        return bool(found)

    until(one)
    return found[0]


def submit(lane: DeferredLane, count: int, start: int = 1) -> list[Owing]:
    made = [owing(start + n, prove=False) for n in range(count)]
    for owed in made:
        lane.submit(owed.data, due_ns=time.time_ns() + 10**9)
    return made


def prove(prover: ProofQueue, made: list[Owing]) -> None:
    prover.store([(owed.digest, owed.proof, None) for owed in made])


def test_a_job_goes_out_comes_back_and_is_settled(lane: DeferredLane, prover: ProofQueue) -> None:
    made = submit(lane, 3)
    until(lambda: len(prover.waiting(9)) == 3)
    prove(prover, made)
    found = collected(lane, 3)
    assert [proven.digest for proven in found] == [owed.digest for owed in made]
    assert not any(proven.recorded for proven in found)
    for owed in made:
        lane.recorded(owed.digest)
    until(lambda: all(proven.recorded for proven in prover.proven(0, 9)))
    assert len(prover.proven(0, 9)) == 3, "the gate has not confirmed them yet"
    for owed in made:
        lane.confirmed(owed.digest)
    until(lambda: prover.counts().total == 0)


def test_unconfirmed_proofs_are_offered_again(lane: DeferredLane, prover: ProofQueue) -> None:
    made = submit(lane, 2)
    until(lambda: len(prover.waiting(9)) == 2)
    prove(prover, made)
    collected(lane, 2)
    lane.recorded(made[0].digest)
    until(lambda: any(proven.recorded for proven in prover.proven(0, 9)))
    assert lane.poll() is None
    lane.offer_again()
    assert [proven.recorded for proven in collected(lane, 2)] == [True, False]


def test_few_proofs_are_on_their_way_at_a_time(lane: DeferredLane, prover: ProofQueue) -> None:
    made = submit(lane, WINDOW + 5)
    until(lambda: len(prover.waiting(CAPACITY)) == len(made))
    prove(prover, made)
    first = collected(lane, WINDOW)
    assert len(first) == WINDOW
    for proven in first:
        lane.confirmed(proven.digest)
    assert len(collected(lane, 5)) == 5


def test_what_the_gate_is_not_owed_is_dropped_once_recorded(lane: DeferredLane, prover: ProofQueue) -> None:
    owed, refused, proven = submit(lane, 3)
    until(lambda: len(prover.waiting(9)) == 3)
    prove(prover, [proven])
    lane.owed(frozenset({owed.digest}))
    until(lambda: prover.counts().total == 2)
    assert {digest for digest, _ in prover.digests()} == {owed.digest, proven.digest}
    assert refused.digest not in {digest for digest, _ in prover.digests()}


def test_a_full_queue_refuses_the_cycle(lane: DeferredLane, prover: ProofQueue) -> None:
    lane.check()
    submit(lane, CAPACITY)
    until(lambda: prover.counts().total == CAPACITY)
    until(lambda: refusal(lane) == "proof-queue-full")


def refusal(lane: DeferredLane) -> str:
    try:
        lane.check()
    except CycleRefused as refused:
        return refused.code
    return ""


def test_a_disk_that_does_not_keep_up_refuses_the_cycle_and_loses_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "FILE_PAGES_MAX", 1)  # a disk without room
    monkeypatch.setattr(deferred, "RETRY_S", 0.01)
    lane = DeferredLane(path, capacity=100_000)
    try:
        assert event(lane).code == "proof-queue-full"
        made = submit(lane, HANDED_OVER_MAX)
        assert refusal(lane) == "proof-queue-io"
        monkeypatch.setattr(queue_module, "FILE_PAGES_MAX", 65_536)  # somebody made room
        until(lambda: refusal(lane) == "" and lane.state.fault == "" and lane.state.queued == len(made))
    finally:
        lane.close()
    queue = ProofQueue(path, capacity=100_000)
    assert [job.digest for job in queue.waiting(100_000)] == [owed.digest for owed in made]
    queue.close()


@pytest.mark.parametrize("damage", [b"no database at all" * 300, b""])
def test_a_damaged_queue_is_set_aside_and_the_gate_asked(path: Path, damage: bytes) -> None:
    path.write_bytes(damage or b"\0" * 4096)
    lane = DeferredLane(path, capacity=CAPACITY)
    try:
        assert event(lane).code == "proof-queue-damaged"
        assert lane.lost.wait(10)
        made = submit(lane, 1)
        until(lambda: lane.state.queued == 1)
    finally:
        lane.close()
    assert path.with_name("queue.db.damaged").exists()
    queue = ProofQueue(path, capacity=CAPACITY)
    assert queue.waiting(9)[0].digest == made[0].digest
    queue.close()


def test_a_job_given_up_is_said_once(lane: DeferredLane, prover: ProofQueue) -> None:
    made = submit(lane, 1)[0]
    until(lambda: len(prover.waiting(9)) == 1)
    prover.store([(made.digest, None, "divergence: two answers")])
    told = event(lane)
    assert told.code == "proof-impossible"
    assert "divergence" in told.found
    until(lambda: lane.state.failed == 1)
    assert lane.event() is None


def test_a_stop_writes_what_was_handed_over(path: Path) -> None:
    lane = DeferredLane(path, capacity=CAPACITY)
    made = submit(lane, 20)
    lane.close()
    queue = ProofQueue(path, capacity=CAPACITY)
    assert [job.digest for job in queue.waiting(99)] == [owed.digest for owed in made]
    queue.close()
