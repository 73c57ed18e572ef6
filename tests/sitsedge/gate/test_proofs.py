"""What the gate is owed: commitments, late proofs, its word, and its memory of all that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attest.command import (
    GateKey,
    ProofKind,
    ProofReceipt,
    ProofStatus,
    ProofVerifier,
    ReadBack,
    SessionKey,
    parse_record,
    sign_record,
)
from attest.ledger import Ledger, RecordKind
from attest.ledger.writer import LedgerWriter
from attest.proof import ProverError
from sitsedge.gate.book import GateBook
from sitsedge.gate.delivery import receipt_of
from sitsedge.gate.proofs import PAGE_COMMANDS_MAX, DeskLimits, ProofDesk, ProofRejected
from tests.attest.ledger.scenario import model
from tests.sitsedge.prover.commands import SESSION, Owing, owing

MS = 1_000_000
DEADLINE_MS = 1000
BACKLOG = 5


@dataclass
class Rig:
    """A desk on a real ledger; ``desk`` can be made again from it, as after a crash."""

    folder: Path
    key: GateKey
    ledger: LedgerWriter
    desk: ProofDesk

    @property
    def path(self) -> Path:
        return self.folder / "ledger.db"

    def accept(self, owed: Owing, now_ns: int | None = None) -> None:
        verdict = owed.accepted(now_ns)
        self.desk._book.keep(RecordKind.COMMAND, owed.data, self.desk.accepted(verdict, owed.data))
        receipt = receipt_of("gate", verdict, accepted_ns=verdict.now_ns, state=ReadBack.NOT_WRITTEN)
        self.desk._book.record(receipt)

    def settle(self, record: bytes, now_ns: int | None = None) -> ProofReceipt:
        settled = self.desk.settle(record, SESSION.public, time.time_ns() if now_ns is None else now_ns)
        if settled.fresh:
            self.desk._book.keep(RecordKind.PROOF_RECEIPT, settled.receipt)
        parsed = parse_record(settled.receipt)
        parsed.verify(self.key.public)
        assert isinstance(parsed.record, ProofReceipt)
        return parsed.record

    def statuses(self) -> list[ProofStatus]:
        self.ledger.flush(timeout_s=10)
        ledger = Ledger.open_readonly(self.path)
        try:
            leaves = [leaf for leaf in ledger.iterate() if leaf.kind is RecordKind.PROOF_STATUS]
        finally:
            ledger.close()
        return [record for leaf in leaves if isinstance(record := parse_record(leaf.data).record, ProofStatus)]

    def reborn(self) -> ProofDesk:
        self.ledger.flush(timeout_s=10)
        desk = make_desk(self.folder, GateBook("gate", self.key, self.ledger))
        desk.replay(self.path, self.key.public)
        return desk


def make_desk(folder: Path, book: GateBook) -> ProofDesk:
    def key_of(module: bytes) -> tuple[ProofVerifier, ProofKind]:
        if module == b"?" * 32:
            raise ProverError("module-unknown", found="another module", expected="a known one")
        return model().verifier, ProofKind.GROTH16_BN254

    return ProofDesk(DeskLimits(DEADLINE_MS * MS, BACKLOG), book=book, key_of=key_of, mark=folder / "owed.json")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    key = GateKey.create(tmp_path / "gate.key")
    ledger = LedgerWriter(tmp_path / "ledger.db", origin="sits/test/gate", signer=key, group_ms=0)
    yield Rig(tmp_path, key, ledger, make_desk(tmp_path, GateBook("gate", key, ledger)))
    ledger.close()


def rejected(rig: Rig, record: bytes, public: bytes = SESSION.public) -> ProofRejected:
    owed_before = rig.desk.owed
    with pytest.raises(ProofRejected) as caught:
        rig.desk.settle(record, public, time.time_ns())
    assert rig.desk.owed == owed_before, "a rejected proof settles nothing"
    return caught.value


def test_a_proof_in_time_settles_its_command(rig: Rig) -> None:
    first, second = owing(1), owing(2)
    rig.accept(first)
    rig.accept(second)
    assert rig.desk.owed == 2
    receipt = rig.settle(first.late())
    assert (receipt.epoch, receipt.sequence, receipt.command_digest) == (1, 1, first.digest)
    assert not receipt.late
    assert (rig.desk.owed, rig.desk.received, rig.desk.late) == (1, 1, 0)
    assert rig.desk.check(time.time_ns()) is None
    assert rig.desk.withdrawn is None


def test_a_receipt_that_was_lost_is_given_again(rig: Rig) -> None:
    owed = owing(1)
    rig.accept(owed)
    assert rig.settle(owed.late()) == rig.settle(owed.late())
    assert rig.desk.received == 1


def test_a_proof_after_its_deadline_is_taken_and_marked(rig: Rig) -> None:
    owed = owing(1)
    now = time.time_ns()
    rig.accept(owed, now)
    assert rig.desk.oldest_due_ns() == now + DEADLINE_MS * MS
    assert rig.desk.check(now + DEADLINE_MS * MS) is None
    assert rig.desk.check(now + DEADLINE_MS * MS + 1) == "proof-deadline"
    assert rig.desk.check(now + DEADLINE_MS * MS + 2) is None, "said once"
    assert rig.desk.withdrawn == "proof-deadline"
    assert rig.settle(owed.late(), now + DEADLINE_MS * MS + 3).late
    assert rig.desk.check(now + DEADLINE_MS * MS + 4) is None
    assert rig.desk.withdrawn is None
    assert [(s.verified, s.code, s.owed) for s in rig.statuses()] == [
        (False, "proof-deadline", 1),
        (True, "cleared", 0),
    ]


def test_too_many_owed_proofs(rig: Rig) -> None:
    made = [owing(n + 1) for n in range(BACKLOG + 1)]
    for owed in made:
        assert rig.desk.check(time.time_ns()) is None
        rig.accept(owed)
    assert rig.desk.check(time.time_ns()) == "proof-backlog"
    for owed in made[:-1]:
        rig.settle(owed.late())
        rig.desk.check(time.time_ns())
        assert rig.desk.withdrawn == "proof-backlog", "until nothing is owed any more"
    rig.settle(made[-1].late())
    rig.desk.check(time.time_ns())
    assert rig.desk.withdrawn is None


def test_people_write_off_what_is_owed(rig: Rig) -> None:
    old, new = owing(1), owing(2)
    now = time.time_ns()
    rig.accept(old, now)
    rig.desk.check(now + DEADLINE_MS * MS + 1)
    rig.desk.approve(("anna", "boris"), now)
    assert rig.desk.withdrawn is None
    assert rig.desk.owed == 0
    assert "anna, boris" in rig.statuses()[-1].found
    rig.accept(new)
    assert rig.settle(old.late(), now + DEADLINE_MS * MS + 2).late, "it may still come"
    assert rig.desk.owed == 1


def test_an_approval_without_a_withdrawal_changes_nothing(rig: Rig) -> None:
    rig.accept(owing(1))
    rig.desk.approve(("anna", "boris"), time.time_ns())
    assert rig.desk.owed == 1
    assert rig.statuses() == []


# --- what is not taken ------------------------------------------------------------------------------------------------


def test_a_proof_nobody_owes(rig: Rig) -> None:
    assert rejected(rig, owing(9).late()).code == "proof-unknown"


def test_a_proof_by_a_stranger(rig: Rig) -> None:
    owed = owing(1)
    rig.accept(owed)
    error = rejected(rig, owed.late(SessionKey.generate()))
    assert error.code == "signature"
    assert not error.forged


def test_bytes_that_are_no_late_proof(rig: Rig) -> None:
    rig.accept(owing(1))
    assert rejected(rig, b"garbage").code == "malformed"
    status = ProofStatus("gate", True, "cleared", 0, "nothing", "nothing", 1)
    assert rejected(rig, sign_record(status, SESSION)).code == "malformed"


def test_a_proof_for_another_number(rig: Rig) -> None:
    owed = owing(1)
    rig.accept(owed)
    assert rejected(rig, owed.late(sequence=2)).code == "proof-unknown"
    assert rejected(rig, owed.late(epoch=2)).code == "proof-unknown"


def test_a_proof_on_the_other_curve(rig: Rig) -> None:
    owed = owing(1)
    rig.accept(owed)
    assert rejected(rig, owed.late(proof_kind=ProofKind.GROTH16_BLS12_381, proof=bytes(192))).code == "proof-kind"


def test_a_proof_for_a_module_the_gate_does_not_know(rig: Rig) -> None:
    owed = owing(1, module=b"?" * 32)
    rig.accept(owed)
    assert rejected(rig, owed.late()).code == "proof-kind"


@pytest.mark.parametrize("what", ["of another command", "bytes of nothing", "cut short"])
def test_a_signed_proof_that_is_wrong_is_an_incident(rig: Rig, what: str) -> None:
    owed, other = owing(1), owing(2)
    rig.accept(owed)
    proof = {"of another command": other.proof, "bytes of nothing": bytes(128), "cut short": owed.proof[:-1]}[what]
    error = rejected(rig, owed.late(proof=proof))
    assert error.forged
    assert error.code == {"of another command": "proof-forged"}.get(what, "proof-point")
    assert error.sequence == 1
    assert rig.settle(owed.late()), "the right one may still come"


# --- memory -----------------------------------------------------------------------------------------------------------


def test_a_new_life_owes_what_the_old_one_did(rig: Rig) -> None:
    made = [owing(n + 1) for n in range(4)]
    now = time.time_ns()
    for owed in made:
        rig.accept(owed, now)
    rig.settle(made[0].late())
    rig.settle(made[2].late())
    reborn = rig.reborn()
    assert reborn.owed == 2
    assert reborn.oldest_due_ns() == now + DEADLINE_MS * MS, "by the receipt's time, not the command's"
    commands, following = reborn.page((0, 0))
    assert commands == [made[1].data, made[3].data]
    assert following is None
    rig.desk = reborn
    assert rig.settle(made[0].late()).sequence == 1, "a receipt given before the crash, again"
    assert rig.settle(made[1].late()).sequence == 2


def test_a_new_life_knows_that_its_word_was_withdrawn(rig: Rig) -> None:
    now = time.time_ns()
    rig.accept(owing(1), now)
    rig.desk.check(now + DEADLINE_MS * MS + 1)
    assert rig.reborn().withdrawn == "proof-deadline"
    rig.desk.approve(("anna", "boris"), now)
    reborn = rig.reborn()
    assert reborn.withdrawn is None
    assert reborn.owed == 0


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"replay_from": -1}', b'{"replay_from": 9999}', b"[]", b'{"replay_from": true}']
)
def test_a_mark_saves_time_and_nothing_else(rig: Rig, damage: bytes) -> None:
    first, second = owing(1), owing(2)
    rig.accept(first)
    rig.settle(first.late())
    rig.ledger.flush(timeout_s=10)
    rig.desk.keep_mark(rig.ledger.size)
    assert rig.reborn()._read_mark(rig.ledger.size) == rig.ledger.size
    rig.accept(second)
    rig.ledger.flush(timeout_s=10)
    rig.desk.keep_mark(rig.ledger.size)
    assert rig.reborn()._read_mark(rig.ledger.size) == 3, "the first record that is still owed"
    assert rig.reborn().owed == 1
    (rig.folder / "owed.json").write_bytes(damage)
    assert rig.reborn().owed == 1


def test_the_list_comes_in_pages(rig: Rig) -> None:
    made = [owing(n + 1, prove=False) for n in range(PAGE_COMMANDS_MAX + 3)]
    for owed in made:
        rig.desk.accepted(owed.accepted(), owed.data)
    seen: list[bytes] = []
    after: Any = (0, 0)
    pages = 0
    while after is not None:
        commands, after = rig.desk.page(after)
        seen += commands
        pages += 1
    assert pages > 1
    assert seen == [owed.data for owed in made]
