"""``sits-prover``: takes the oldest owed command from the queue, proves it, puts the proof back; until told to stop."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final

from attest.errors import AttestError
from sitsedge.config import ConfigError, load_deployment
from sitsedge.errors import SitsError
from sitsedge.modules import ModuleStore, PublisherTrust
from sitsedge.prover.queue import Job, ProofQueue, QueueError
from sitsedge.prover.workshop import Workshop
from sitsedge.supervisor.state import StateDir, state_dir_of
from sitsedge.telemetry import DurationRing, percentiles_ms, prepare_process, write_snapshot
from sitsedge.telemetry.process import notify

NS_PER_MS: Final = 1_000_000
POLL_S: Final = 0.02
BATCH: Final = 32
TOGETHER: Final = 8  # proofs checked at once; a stop waits for no more than these
KEEP_S: Final = 0.1  # proofs wait this long for their commit at most: one fsync for several of them
SNAPSHOT_S: Final = 0.5
RETRY_S: Final = 1.0  # a disk that is full or a queue being replaced
NEWEST: Final = 1000
PACE_PROOFS: Final = 16  # two groups as they are proven later; tens of milliseconds for a small model
PACE_SHARE_MAX: Final = 0.8  # of the period: loop, gate and the rest of the machine are idle while this is measured
NICE: Final = 5  # a third of the others' share; SCHED_IDLE gives none at all on a busy machine, and the proofs are due

log = logging.getLogger("sitsedge.prover")


class ProverProcess:
    """One queue, one worker."""

    def __init__(self, state: StateDir, *, capacity: int, threads: int, period_ms: float) -> None:
        self._state = state
        self._capacity = capacity
        trust = PublisherTrust.from_files(sorted(state.trust.glob("publisher*.pub")))
        self._store = ModuleStore(state.modules, trust)
        self._workshop = Workshop(self._store.load, threads=threads)
        self._stop = threading.Event()
        self._queue: ProofQueue | None = None
        self._fault = ""
        self._durations = DurationRing()
        self._made = self._failed = 0
        self._snapshot_due = 0.0
        self._threads = threads
        self._period_ms = period_ms
        self._pace: dict[str, Any] = {}

    def run(self) -> None:
        """Until SIGTERM or SIGINT; what is being proven then is proven again after the next start."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        if (active := self._store.active()) is not None:
            self._measure(active)
        self._snapshot("ready", force=True)
        notify("READY=1")
        while not self._stop.is_set():
            try:
                if not self._work():
                    self._stop.wait(POLL_S)
            except QueueError as error:
                log.error("%s", error)
                self._fault = error.code
                self._close_queue()
                self._stop.wait(RETRY_S)
            self._snapshot("running")
        notify("STOPPING=1")
        self._close_queue()
        self._snapshot("stopped", force=True)

    def _measure(self, active: bytes) -> None:
        """Build the tables, then see whether proofs are made as fast as commands come."""
        self._workshop.warm(active)
        proof_ms = round(self._workshop.pace(active, count=PACE_PROOFS) / NS_PER_MS, 2)
        keeps_up = proof_ms <= PACE_SHARE_MAX * self._period_ms
        self._pace = {
            "proof_ms": proof_ms,
            "period_ms": self._period_ms,
            "threads": self._threads,
            "keeps_up": keeps_up,
        }
        level, word = (logging.INFO, "prover-pace") if keeps_up else (logging.WARNING, "prover-slow")
        found = f"{proof_ms} ms a proof with {self._threads} thread(s)"
        log.log(level, "%s: %s, expected at most %g of %g ms", word, found, PACE_SHARE_MAX, self._period_ms)

    def _work(self) -> bool:
        """One batch; whether there was one."""
        if self._queue is not None and self._queue.replaced:
            self._close_queue()
        if self._queue is None:
            self._queue = ProofQueue(self._state.proof_queue, capacity=self._capacity)
            self._queue.retry_failures()
            self._fault = ""
        elif not self._queue.changed():
            return False
        busy = False
        while not self._stop.is_set() and (jobs := self._queue.waiting(BATCH)):
            busy = True
            self._prove(self._queue, jobs)
        return busy

    def _prove(self, queue: ProofQueue, jobs: list[Job]) -> None:
        results: list[tuple[bytes, bytes | None, str | None]] = []
        kept = time.monotonic()
        for start in range(0, len(jobs), TOGETHER):
            if self._stop.is_set():
                break
            group = jobs[start : start + TOGETHER]
            started = time.monotonic_ns()
            proofs = self._workshop.prove([job.command for job in group])
            self._durations.add((time.monotonic_ns() - started) // len(group))
            for job, proof in zip(group, proofs, strict=True):
                if isinstance(proof, bytes):
                    results.append((job.digest, proof, None))
                    self._made += 1
                else:
                    log.error("command %s: %s", job.digest.hex(), proof)
                    results.append((job.digest, None, f"{proof.code}: {proof.found}"))
                    self._failed += 1
            self._snapshot("running")
            if time.monotonic() - kept >= KEEP_S:
                queue.store(results)
                results, kept = [], time.monotonic()
        if results:
            queue.store(results)

    def _snapshot(self, state: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now < self._snapshot_due:
            return
        self._snapshot_due = now + SNAPSHOT_S
        data: dict[str, Any] = {
            "made": self._made,
            "failed": self._failed,
            "fault": self._fault,
            "kernel": self._workshop.kernel,
            "pace": self._pace,
            "prove": percentiles_ms(self._durations.newest(NEWEST)),
        }
        if self._queue is not None:
            counts = self._queue.counts()
            data |= {"waiting": counts.waiting, "unsettled": counts.proven}
        write_snapshot(self._state.run, "prover", state, data)
        notify("WATCHDOG=1")

    def _close_queue(self) -> None:
        if self._queue is not None:
            self._queue.close()
            self._queue = None

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self._stop.set()


def yield_to_others() -> None:
    """Give way to every other process: nice(2), SCHED_BATCH, and the autogroup's own niceness (sched(7)).

    A session has an autogroup of its own, inside which niceness means nothing to the rest of the machine.
    """
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")
    except OSError as error:
        log.info("running at nice %d alone: %s", NICE, error.strerror)


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 failed while running, 2 wrong configuration."""
    parser = argparse.ArgumentParser(prog="sits-prover", description="proofs that follow their commands")
    parser.add_argument("--config", type=Path, required=True, help="deployment file")
    parser.add_argument("--state-dir", type=Path, help="state folder")
    arguments = parser.parse_args(argv)
    try:
        deployment = load_deployment(arguments.config)
        state = state_dir_of(deployment, arguments.state_dir)
        state.create()
        prepare_process("prover", state.logs)
        yield_to_others()
        cycle = deployment.cycle
        threads, period_ms = cycle.proof_threads, cycle.period_ms
        ProverProcess(state, capacity=cycle.proof_queue_max, threads=threads, period_ms=period_ms).run()
    except ConfigError as error:
        log.error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 2
    except (SitsError, AttestError, OSError) as error:
        log.error("%s", error)
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
