"""The gate itself in the deferred lane: packets in, records and modes out."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from attest.command import (
    GateKey,
    GateRules,
    GateState,
    InputRule,
    Mode,
    OpenEpoch,
    OutputRule,
    ProofKind,
    ProofPolicy,
    SessionKey,
    sign_command,
)
from attest.ledger import Ledger, RecordKind
from attest.ledger.writer import LedgerWriter
from attest.proof import Curve, key_hash
from attest.proof.commitment import statement_commitment
from sitsedge.gate.book import GateBook
from sitsedge.gate.core import Gate, GateSetup, ProofCheck
from sitsedge.gate.link import Message, decode
from sitsedge.gate.modes import IncidentLatch, ModeKeeper
from sitsedge.gate.proofs import DeskLimits, ProofDesk
from sitsedge.gate.server import Connection
from tests.attest.ledger.scenario import Model, model
from tests.sitsedge.prover.commands import DEVICE, GATE, MODULE, SESSION, owing

MS = 1_000_000
DEADLINE_MS = 60_000
BACKLOG = 3
RULES = GateRules(
    gate_id=GATE,
    inputs=(InputRule("x0", -1000, 1000), InputRule("x1", -1000, 1000)),
    outputs=(OutputRule("y0", -3000, 3000),),
    source_age_ms_max=60_000,
    decision_age_ms_max=60_000,
    decide_ms_max=60_000,
    future_ms_max=1000,
    proof_policy=ProofPolicy.DEFERRED,
    proof_deadline_ms=DEADLINE_MS,
    proof_backlog_max=BACKLOG,
)


@dataclass
class Rig:
    gate: Gate
    ledger: LedgerWriter
    connection: Connection
    client: socket.socket
    path: Path
    announced: list[Message]

    async def ask(self, **message: object) -> Message:
        await self.gate.handle(self.connection, dict(message), time.monotonic_ns())
        return decode(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.client, 262_144), 10))

    def kinds(self) -> list[RecordKind]:
        self.ledger.flush(timeout_s=10)
        ledger = Ledger.open_readonly(self.path)
        try:
            return [leaf.kind for leaf in ledger.iterate()]
        finally:
            ledger.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    key = GateKey.create(tmp_path / "gate.key")
    ledger = LedgerWriter(tmp_path / "ledger.db", origin="sits/test/gate", signer=key, group_ms=0)
    book = GateBook(GATE, key, ledger)
    modes = ModeKeeper(ceiling=Mode.AUTO, ceiling_reason="")
    modes.change(Mode.AUTO, ("anna", "boris"), "test")
    proofs = ProofDesk(
        DeskLimits(DEADLINE_MS * MS, BACKLOG),
        book=book,
        key_of=lambda _: (model().verifier, ProofKind.GROTH16_BN254),
        mark=tmp_path / "owed.json",
    )
    announced: list[Message] = []
    gate = Gate(
        GateSetup(RULES, 10**12),
        book=book,
        desk=None,  # type: ignore[arg-type]  # epochs have their own tests
        modes=modes,
        delivery=None,
        proof=ProofCheck(model().verifier, explain),
        announce=announced.append,
        latch=IncidentLatch(tmp_path / "incident"),
        proofs=proofs,
    )
    open_epoch(gate)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    yield Rig(gate, ledger, Connection(ours), theirs, tmp_path / "ledger.db", announced)
    ours.close()
    theirs.close()
    ledger.close()


def explain(inputs: tuple[int, ...]) -> Sequence[int]:
    return Model.run(inputs)


def open_epoch(gate: Gate) -> None:
    expires = time.time_ns() + 3_600_000 * MS
    vk = key_hash(model().verification_key)
    gate._epoch = OpenEpoch(1, DEVICE, SESSION.public, MODULE, bytes(32), expires, vk)
    gate._state = GateState(1)


async def accept(rig: Rig, sequence: int) -> Any:
    owed = owing(sequence)
    answer = await rig.ask(t="command", command=owed.data)
    assert answer["t"] == "receipt", answer
    return owed


async def test_a_commitment_is_accepted_named_and_settled(rig: Rig) -> None:
    owed = await accept(rig, 1)
    listed = await rig.ask(t="owed", after=(0, 0))
    assert (listed["commands"], listed["next"]) == ((owed.data,), None)
    answer = await rig.ask(t="proof", record=owed.late())
    assert (answer["t"], answer["command_digest"]) == ("proof-receipt", owed.digest)
    assert rig.gate.proofs.owed == 0
    again = await rig.ask(t="proof", record=owed.late())
    assert again["record"] == answer["record"]
    assert rig.kinds() == [RecordKind.COMMAND, RecordKind.RECEIPT, RecordKind.PROOF_RECEIPT]


async def test_too_many_owed_proofs_step_the_mode_down_and_refuse_more(rig: Rig) -> None:
    made = [await accept(rig, sequence + 1) for sequence in range(BACKLOG + 1)]
    assert rig.gate.modes.mode is Mode.ADVISORY
    assert rig.announced[-1].items() >= {"t": "mode", "mode": int(Mode.ADVISORY), "hold": True}.items()
    assert rig.gate.book.alarms["proof-backlog"] == 1
    rig.gate.modes.change(Mode.SUPERVISED, ("anna",), "past the desk, as no operator can")
    refused = await rig.ask(t="command", command=supervised(9))
    assert refused["code"] == "proof-backlog"
    for owed in made:
        assert (await rig.ask(t="proof", record=owed.late()))["t"] == "proof-receipt"
    rig.gate.supervise()
    assert rig.gate.proofs.withdrawn is None
    assert RecordKind.PROOF_STATUS in rig.kinds()


def supervised(sequence: int) -> bytes:
    return in_mode(sequence, Mode.SUPERVISED)


def in_mode(sequence: int, mode: Mode) -> bytes:
    command = owing(sequence).command
    header = replace(command.header, mode=mode)
    vk = key_hash(model().verification_key)
    commitment = statement_commitment(vk, command.inputs, command.outputs, header.ctx(), curve=Curve.BN254)
    return sign_command(replace(command, header=header, proof=commitment), SESSION)


async def test_people_put_a_writing_mode_back(rig: Rig) -> None:
    for sequence in range(BACKLOG + 1):
        await accept(rig, sequence + 1)
    assert rig.gate.proofs.withdrawn == "proof-backlog"
    rig.gate.change_mode(Mode.AUTO, ("anna", "boris"), "we know why")
    assert rig.gate.proofs.withdrawn is None
    assert rig.gate.proofs.owed == 0
    await accept(rig, BACKLOG + 2)


async def settle(rig: Rig, made: list[Any]) -> None:
    for owed in made:
        assert (await rig.ask(t="proof", record=owed.late()))["t"] == "proof-receipt"
    rig.gate.supervise()


async def test_after_a_withdrawal_the_lane_is_on_hold_until_people_confirm_a_mode(rig: Rig) -> None:
    assert (await rig.ask(t="owed", after=(0, 0)))["hold"] is False
    made = [await accept(rig, sequence + 1) for sequence in range(BACKLOG + 1)]
    rig.gate.change_mode(Mode.ADVISORY, ("anna",), "confirmed too early")
    assert rig.gate.proofs.hold, "proofs are still owed"
    await settle(rig, made)
    assert rig.gate.proofs.withdrawn is None
    assert rig.gate.proofs.hold, "cleared, and nobody has looked"
    assert (await rig.ask(t="owed", after=(0, 0)))["hold"] is True
    rig.gate.change_mode(Mode.SHADOW, (), "down is no confirmation")
    assert rig.gate.proofs.hold
    rig.gate.change_mode(Mode.ADVISORY, ("anna",), "the prover has a second core now")
    assert not rig.gate.proofs.hold
    assert rig.announced[-1].items() >= {"t": "mode", "mode": int(Mode.ADVISORY), "hold": False}.items()


async def test_a_withdrawal_in_a_mode_that_writes_nothing_is_announced_once(rig: Rig) -> None:
    rig.gate._setup = GateSetup(replace(RULES, modes=frozenset({Mode.ADVISORY})), 10**12)
    rig.gate.change_mode(Mode.ADVISORY, (), "to look")
    rig.announced.clear()
    for sequence in range(BACKLOG + 1):
        answer = await rig.ask(t="command", command=in_mode(sequence + 1, Mode.ADVISORY))
        assert answer["t"] == "receipt", answer
    for _ in range(3):
        rig.gate.supervise()
    assert rig.announced == [{"t": "mode", "mode": int(Mode.ADVISORY), "change": 1, "hold": True}]
    assert rig.gate.book.alarms["proof-backlog"] == 1


async def test_a_start_with_nothing_owed_is_not_on_hold(rig: Rig, tmp_path: Path) -> None:
    def again() -> ProofDesk:
        rig.ledger.flush(timeout_s=10)
        desk = rig.gate.proofs
        made = ProofDesk(desk._limits, book=rig.gate.book, key_of=desk._key_of, mark=tmp_path / "none.json")
        made.replay(rig.path, rig.gate.book._key.public)
        return made

    made = [await accept(rig, sequence + 1) for sequence in range(BACKLOG + 1)]
    withdrawn = again()
    assert (withdrawn.withdrawn, withdrawn.hold) == ("proof-backlog", True)
    await settle(rig, made)
    cleared = again()
    assert (cleared.withdrawn, cleared.hold) == (None, False)


async def test_a_signed_wrong_proof_is_a_security_incident(rig: Rig) -> None:
    owed, other = await accept(rig, 1), owing(2)
    answer = await rig.ask(t="proof", record=owed.late(proof=other.proof))
    assert (answer["t"], answer["code"], answer["command_digest"]) == ("proof-refused", "proof-forged", owed.digest)
    assert rig.gate.modes.mode is Mode.ADVISORY
    assert rig.gate.epoch_number is None
    assert rig.gate.book.alarms["security-incident"] == 1
    latched = rig.gate._latch.read()
    assert latched is not None
    assert "proof-forged" in latched
    assert rig.gate.proofs.owed == 1


async def test_a_stranger_s_proof_is_refused_and_no_incident(rig: Rig) -> None:
    owed = await accept(rig, 1)
    answer = await rig.ask(t="proof", record=owed.late(SessionKey.generate(), proof=bytes(128)))
    assert (answer["t"], answer["code"]) == ("proof-refused", "signature")
    assert rig.gate.modes.mode is Mode.AUTO
    assert rig.gate.epoch_number == 1


@pytest.mark.parametrize(
    "message",
    [
        {"t": "owed"},
        {"t": "owed", "after": 1},
        {"t": "owed", "after": (1,)},
        {"t": "owed", "after": (True, 1)},
        {"t": "proof"},
        {"t": "proof", "record": "text"},
        {"t": "proof", "record": b"garbage"},
    ],
)
async def test_messages_of_another_shape(rig: Rig, message: dict[str, object]) -> None:
    answer = await rig.ask(**message)
    assert answer["code"] == "malformed"


async def test_no_epoch_no_proof(rig: Rig) -> None:
    owed = await accept(rig, 1)
    rig.gate._epoch = None
    answer = await rig.ask(t="proof", record=owed.late())
    assert (answer["t"], answer["code"]) == ("proof-refused", "epoch-unknown")
