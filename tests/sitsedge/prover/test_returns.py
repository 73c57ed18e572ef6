"""The way back of a proof: ledger first, then the gate, nothing lost when either is not there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from attest.command import Alarm, LateProof, SessionKey, parse_record
from attest.ledger import Ledger, LedgerError, RecordKind
from attest.ledger.writer import LedgerWriter
from sitsedge.gate.link import LinkError, Message
from sitsedge.loop import returns as module
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.deferred import DeferredLane
from sitsedge.loop.pipeline import EpochContext
from sitsedge.loop.returns import PROOFS_A_TURN, UNANSWERED_MAX, ProofReturns
from sitsedge.prover.queue import ProofQueue
from tests.sitsedge.prover.commands import DEVICE, GATE, MODULE, Owing, owing
from tests.sitsedge.prover.test_lane import until

KEY = SessionKey.generate()
EPOCH = EpochContext(1, 2**62, KEY, DEVICE, GATE, MODULE, bytes(32))


@dataclass
class Rig:
    path: Path
    lane: DeferredLane
    ledger: LedgerWriter
    sent: list[Message] = field(default_factory=list)
    fault: LinkError | None = None

    def __post_init__(self) -> None:
        self.returns = ProofReturns(
            self.lane, device_id=DEVICE, ledger=self.ledger, deadline_ns=10**10, send=self._send
        )
        until(self.path.exists)
        self.prover = ProofQueue(self.path, capacity=1000)

    def _send(self, message: Message) -> None:
        if self.fault is not None:
            raise self.fault
        self.sent.append(message)

    def proven(self, count: int) -> list[Owing]:
        """Accepted commands whose proofs the prover has made."""
        made = [owing(n + 1, prove=False) for n in range(count)]
        for n, owed in enumerate(made):
            self.returns.sent(n + 1, owed.data)
            self.returns.answered(n + 1, None)
        until(lambda: len(self.prover.waiting(count)) == count)
        self.prover.store([(owed.digest, owed.proof, None) for owed in made])
        return made

    def records(self, kind: RecordKind) -> list[Any]:
        self.ledger.flush(timeout_s=10)
        ledger = Ledger.open_readonly(self.path.with_name("ledger.db"))
        try:
            return [parse_record(leaf.data).record for leaf in ledger.iterate() if leaf.kind is kind]
        finally:
            ledger.close()

    def turn_until_sent(self, count: int) -> None:
        def enough() -> bool:
            self.returns.turn(EPOCH)
            return len(self.sent) >= count

        until(enough)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    lane = DeferredLane(tmp_path / "queue.db", capacity=1000)
    ledger = LedgerWriter(tmp_path / "ledger.db", origin="sits/test/device", signer=KEY, group_ms=0)
    made = Rig(tmp_path / "queue.db", lane, ledger)
    yield made
    made.prover.close()
    ledger.close()
    lane.close()


def test_a_proof_is_recorded_sent_and_settled(rig: Rig) -> None:
    (owed,) = rig.proven(1)
    rig.turn_until_sent(1)
    record = parse_record(rig.sent[0]["record"])
    record.verify(KEY.public)
    assert isinstance(record.record, LateProof)
    assert (record.record.command_digest, record.record.proof) == (owed.digest, owed.proof)
    assert rig.records(RecordKind.PROOF) == [record.record]
    until(lambda: rig.prover.proven(0, 1)[0].recorded)
    rig.returns.receipt({"command_digest": owed.digest})
    until(lambda: rig.prover.counts().total == 0)


def test_a_command_the_gate_refused_is_no_job(rig: Rig) -> None:
    refused, accepted = owing(1, prove=False), owing(2, prove=False)
    rig.returns.sent(1, refused.data)
    rig.returns.sent(2, accepted.data)
    rig.returns.answered(1, "output-rate")
    rig.returns.answered(2, None)
    rig.returns.answered(2, None)  # a second answer changes nothing
    until(lambda: rig.prover.counts().total == 1)
    assert rig.prover.waiting(9)[0].digest == accepted.digest


def test_a_gate_with_a_backlog_is_not_asked_a_hundred_times_a_second(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.returns.check()
    rig.returns.sent(1, owing(1, prove=False).data)
    rig.returns.answered(1, "proof-backlog")
    with pytest.raises(CycleRefused, match="proof-backlog"):
        rig.returns.check()
    monkeypatch.setattr(module, "BACKLOG_RETRY_NS", -1)
    rig.returns.answered(1, "proof-backlog")
    rig.returns.check()


def test_a_turn_is_short(rig: Rig) -> None:
    rig.proven(3 * PROOFS_A_TURN)
    until(lambda: rig.lane._ready.qsize() == 3 * PROOFS_A_TURN)
    rig.returns.turn(EPOCH)
    assert len(rig.sent) == PROOFS_A_TURN


@pytest.mark.parametrize("code", ["gate-busy", "gate-closed"])
def test_a_gate_that_is_not_there_loses_nothing(rig: Rig, code: str) -> None:
    owed = rig.proven(1)[0]
    rig.fault = LinkError(code, found="a fault", expected="none")
    until(lambda: rig.lane._ready.qsize() == 1)
    with pytest.raises(LinkError):
        rig.returns.turn(EPOCH)
    rig.fault = None
    rig.returns.turn(EPOCH)
    assert [parse_record(message["record"]).record.command_digest for message in rig.sent] == [owed.digest]  # type: ignore[union-attr]


def test_a_ledger_that_takes_nothing_loses_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.proven(1)
    until(lambda: rig.lane._ready.qsize() == 1)

    def full(*_: object) -> None:
        raise LedgerError("ledger-queue-full", found="full", expected="room")

    with monkeypatch.context() as patch:
        patch.setattr(rig.ledger, "submit", full)
        with pytest.raises(LedgerError):
            rig.returns.turn(EPOCH)
    assert rig.sent == []
    rig.returns.turn(EPOCH)
    assert len(rig.sent) == 1


def test_a_proof_the_ledger_holds_is_not_recorded_again(rig: Rig) -> None:
    (owed,) = rig.proven(1)
    rig.turn_until_sent(1)
    until(lambda: rig.prover.proven(0, 1)[0].recorded)
    rig.returns.epoch_opened()
    rig.turn_until_sent(3)  # the proof, the question, the proof again
    assert [message["t"] for message in rig.sent] == ["proof", "owed", "proof"]
    assert len(rig.records(RecordKind.PROOF)) == 1
    again = parse_record(rig.sent[2]["record"]).record
    assert isinstance(again, LateProof)
    assert again.proof == owed.proof


def test_a_proof_nobody_wants_ends_its_job(rig: Rig) -> None:
    (owed,) = rig.proven(1)
    rig.turn_until_sent(1)
    rig.returns.refused({"code": "proof-unknown", "command_digest": owed.digest})
    until(lambda: rig.prover.counts().total == 0)


@pytest.mark.parametrize("code", ["signature", "epoch-unknown"])
def test_a_proof_refused_for_its_envelope_stays(rig: Rig, code: str) -> None:
    rig.proven(1)
    rig.turn_until_sent(1)
    rig.returns.refused({"code": code, "command_digest": b""})
    rig.returns.epoch_opened()
    rig.turn_until_sent(3)
    assert rig.prover.counts().total == 1


def test_the_gate_s_list_fills_the_queue_page_by_page(rig: Rig) -> None:
    made = [owing(n + 1, prove=False) for n in range(3)]
    rig.returns.epoch_opened()
    rig.returns.owed({"commands": [made[0].data, made[1].data], "next": (1, 2)})
    assert rig.sent[-1] == {"t": "owed", "after": (1, 2)}
    rig.returns.owed({"commands": [made[2].data], "next": None})
    until(lambda: len(rig.prover.waiting(9)) == 3)
    rig.returns.owed({"commands": [owing(9, prove=False).data], "next": None})  # nobody asked
    rig.returns.epoch_opened()
    rig.returns.owed({"commands": [made[1].data], "next": None})
    until(lambda: [job.digest for job in rig.prover.waiting(9)] == [made[1].digest])


def test_a_receipt_that_never_came_is_asked_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.returns.sent(1, owing(1, prove=False).data)
    rig.returns.turn(EPOCH)
    assert rig.sent == []
    monkeypatch.setattr(module, "UNANSWERED_NS", -1)
    rig.returns.turn(EPOCH)
    rig.returns.turn(EPOCH)
    assert rig.sent == [{"t": "owed", "after": (0, 0)}]


def test_a_queue_that_was_made_anew_asks_too(rig: Rig) -> None:
    rig.lane.lost.set()
    rig.returns.turn(EPOCH)
    assert rig.sent == [{"t": "owed", "after": (0, 0)}]


def test_a_job_given_up_is_an_alarm_of_the_device(rig: Rig) -> None:
    owed = owing(1, prove=False)
    rig.lane.submit(owed.data, due_ns=time.time_ns())
    until(lambda: len(rig.prover.waiting(1)) == 1)
    rig.prover.store([(owed.digest, None, "divergence: two answers")])
    until(lambda: rig.lane._events.qsize() == 1)
    rig.returns.turn(EPOCH)
    (alarm,) = rig.records(RecordKind.ALARM)
    assert isinstance(alarm, Alarm)
    assert (alarm.party, alarm.epoch, alarm.code) == (DEVICE, 1, "proof-impossible")
    until(lambda: rig.returns.summary()["failed"] == 1)


def test_commands_without_answer_are_bounded(rig: Rig) -> None:
    for number in range(UNANSWERED_MAX + 10):
        rig.returns.sent(number, b"x")
    assert len(rig.returns._unanswered) == UNANSWERED_MAX


def test_a_lane_on_hold_refuses_cycles_here_until_the_gate_ends_it(rig: Rig) -> None:
    rig.returns.told({"t": "mode", "mode": 2, "hold": True})
    for _ in range(3):
        with pytest.raises(CycleRefused, match="proof-backlog"):
            rig.returns.check()
    assert rig.sent == []
    rig.returns.told({"t": "mode", "mode": 4, "hold": False})
    rig.returns.check()


def test_a_list_of_what_is_owed_says_whether_the_lane_is_on_hold(rig: Rig) -> None:
    rig.returns.ask()
    rig.returns.owed({"t": "owed", "commands": [], "next": None, "hold": True})
    with pytest.raises(CycleRefused, match="proof-backlog"):
        rig.returns.check()


def test_an_earlier_deployment_s_hold_does_not_stop_proofs_inline(rig: Rig) -> None:
    inline = ProofReturns(
        rig.lane, device_id=DEVICE, ledger=rig.ledger, deadline_ns=1, send=rig.sent.append, commits=False
    )
    inline.told({"t": "mode", "mode": 2, "hold": True})
    inline.check()
