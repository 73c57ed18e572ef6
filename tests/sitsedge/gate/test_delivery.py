"""From an accepted command to its receipt, with a PLC that misbehaves in every named way."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from attest.command import (
    Accepted,
    Alarm,
    Command,
    CommandHeader,
    GateKey,
    Mode,
    ProofKind,
    ReadBack,
    Receipt,
    SessionKey,
    TimeQuality,
    parse_command,
    parse_record,
    sign_command,
)
from attest.ledger import Ledger, RecordKind
from attest.ledger.writer import LedgerWriter
from sitsedge.gate.book import GateBook
from sitsedge.gate.delivery import READBACKS_MAX, Delivery, DeliverySetup
from sitsedge.gate.link import decode
from sitsedge.gate.plc import Applied, OutcomeUnknown, PlcError, ReadBackMismatch
from sitsedge.gate.server import Connection

MS = 1_000_000
SCALES = (0.001, 0.01)


class MisbehavingPlc:
    """A PLC's request block in memory; each attribute is one way to go wrong."""

    def __init__(self) -> None:
        self.refuses_writes = False
        self.refuses_reads = False
        self.never_applies = False
        self.in_manual = False
        self.applies_other_values = False
        self.loses_answers = False
        self.holds_something_else = False
        self.torn_once = False
        self.written: list[int] = []
        self.read_gate, self.write_gate = asyncio.Event(), asyncio.Event()
        self.read_gate.set()
        self.write_gate.set()
        self.applied = Applied(0, (0.0, 0.0), True)
        self.auto = False

    async def write(self, *, sequence: int, values: Sequence[float], valid_until_ns: int) -> None:
        if self.refuses_writes:
            raise PlcError("plc-write", found="BadNotWritable", expected="a written request")
        if self.never_applies:
            return
        await self.write_gate.wait()
        self.written.append(sequence)
        if self.loses_answers:
            self.applied = Applied(sequence, tuple(values), True)
            raise OutcomeUnknown("plc-unknown", found="no answer", expected="an answer")
        shown = tuple(value + 1.0 for value in values) if self.applies_other_values else tuple(values)
        self.applied = Applied(sequence, shown, not self.in_manual)

    async def read_back(self) -> Applied:
        await self.read_gate.wait()
        if self.holds_something_else:
            raise ReadBackMismatch("plc-read-back", found="0", expected="100")
        if self.refuses_reads:
            raise PlcError("plc-read", found="BadTimeout", expected="a read value")
        if self.torn_once:
            self.torn_once = False
            return Applied(self.applied.sequence, (0.0, 0.0), True)
        return self.applied

    connected = True

    async def connect(self) -> None:
        raise AssertionError("the delivery neither connects nor closes")

    close = connect

    def health(self) -> dict[str, Any]:
        return {}

    async def request_auto(self, wanted: bool) -> None:
        if self.refuses_writes:
            raise PlcError("plc-write", found="BadNotWritable", expected="AUTO requested")
        self.auto = wanted


@dataclass
class Rig:
    plc: MisbehavingPlc
    delivery: Delivery
    book: GateBook
    ledger: LedgerWriter
    connection: Connection
    client: socket.socket
    path: Path

    async def deliver(self, sequence: int) -> None:
        timing = {"received": 0, "started": 0, "judged": 0}
        await self.delivery.write(self.connection, accepted(sequence), time.time_ns(), timing)
        while self.plc.write_gate.is_set() and self.delivery.writing:
            await asyncio.sleep(0)

    def patient(self) -> None:
        """No read-back runs out of time."""
        self.delivery._setup = replace(self.delivery._setup, readback_ns=60_000 * MS)

    async def answer(self) -> dict[str, Any]:
        """The next packet the client gets."""
        self.client.setblocking(False)
        return decode(await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self.client, 65536), 60))

    def records(self, kind: RecordKind) -> list[Any]:
        self.ledger.flush(timeout_s=10)
        ledger = Ledger.open_readonly(self.path)
        try:
            return [parse_record(leaf.data).record for leaf in ledger.iterate() if leaf.kind is kind]
        finally:
            ledger.close()


def accepted(sequence: int) -> Accepted:
    now = time.time_ns()
    header = CommandHeader(1, "edge", "gate", 1, sequence, now, now, bytes(32), bytes(32), Mode.AUTO)
    command = Command(header, (1, 2), (100, -20), ProofKind.NONE, b"", TimeQuality.FREE)
    data = sign_command(command, SessionKey.generate())
    return Accepted(parse_command(data, "gate"), True, now)


@pytest.fixture
async def rig(tmp_path: Path) -> Any:
    key = GateKey.create(tmp_path / "gate.key")
    ledger = LedgerWriter(tmp_path / "ledger.db", origin="sits/test/gate", signer=key, group_ms=0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    book, plc = GateBook("gate", key, ledger), MisbehavingPlc()
    setup = DeliverySetup(SCALES, silence_ns=500 * MS, readback_ns=60 * MS)
    delivery = Delivery(setup, plc=plc, book=book)
    yield Rig(plc, delivery, book, ledger, Connection(ours), theirs, tmp_path / "ledger.db")
    plc.read_gate.set()
    await delivery.drain()
    ledger.close()
    ours.close()
    theirs.close()


async def receipt(rig: Rig, *, newest: bool = True) -> Receipt:
    answer = await rig.answer()
    assert answer["t"] == "receipt"
    record = parse_record(answer["record"]).record
    assert isinstance(record, Receipt)
    assert record in rig.records(RecordKind.RECEIPT)[-1 if newest else 0 :]  # durable before it was sent
    return record


async def test_what_was_accepted_is_written_read_back_and_receipted(rig: Rig) -> None:
    rig.patient()
    await rig.deliver(1)
    got = await receipt(rig)
    assert (got.state, got.accepted, got.applied, got.read_back) == (ReadBack.OK, (100, -20), (100, -20), (100, -20))
    assert got.t_accepted_ns <= got.t_written_ns <= got.t_read_back_ns
    assert rig.delivery.plant_outputs() == (100, -20)


async def test_a_plc_that_is_already_at_a_later_command_has_applied_this_one(rig: Rig) -> None:
    rig.patient()
    rig.plc.read_gate.clear()
    await rig.deliver(1)
    await rig.deliver(2)
    rig.plc.read_gate.set()
    assert [(await receipt(rig, newest=False)).state for _ in (1, 2)] == [ReadBack.OK] * 2


async def test_a_value_of_an_epoch_before_is_not_taken_for_a_later_command(rig: Rig) -> None:
    await rig.deliver(5000)
    assert (await receipt(rig)).state is ReadBack.OK
    rig.plc.never_applies = True
    await rig.deliver(1)
    got = await receipt(rig)
    assert got.state is ReadBack.NOT_APPLIED


async def test_a_newer_command_takes_the_place_of_one_that_waits(rig: Rig) -> None:
    rig.patient()
    rig.plc.write_gate.clear()
    for sequence in (1, 2, 3, 4):
        await rig.deliver(sequence)
        await asyncio.sleep(0)
    rig.plc.write_gate.set()
    got = {found.sequence: found for found in [await receipt(rig, newest=False) for _ in range(4)]}
    assert rig.plc.written == [1, 4]
    assert rig.delivery.superseded == 2
    assert [got[sequence].state for sequence in (2, 3)] == [ReadBack.NOT_WRITTEN] * 2
    assert got[2].applied == ()
    assert got[4].state is ReadBack.OK
    assert rig.records(RecordKind.ALARM) == []


async def test_auto_given_back_leaves_nothing_to_write(rig: Rig) -> None:
    rig.plc.write_gate.clear()
    await rig.deliver(1)
    await asyncio.sleep(0)
    await rig.deliver(2)
    rig.delivery.request_auto(False)
    rig.plc.write_gate.set()
    await rig.delivery.drain()
    assert rig.plc.written == [1]
    assert {(await receipt(rig, newest=False)).sequence for _ in (1, 2)} == {1, 2}


async def test_no_answer_to_a_write_is_settled_by_reading_back(rig: Rig) -> None:
    rig.patient()
    rig.plc.loses_answers = True
    await rig.deliver(1)
    got = await receipt(rig)
    assert (got.state, got.applied, got.read_back) == (ReadBack.OK, (100, -20), (100, -20))
    assert [alarm.code for alarm in rig.records(RecordKind.ALARM)] == ["plc-unknown"]
    rig.plc.refuses_reads = True
    rig.delivery._setup = replace(rig.delivery._setup, readback_ns=60 * MS)
    await rig.deliver(2)
    got = await receipt(rig)
    assert got.state is ReadBack.PENDING
    assert rig.plc.written == [1, 2], "nothing is sent a second time"


async def test_a_block_that_holds_something_else_is_one_alarm(rig: Rig) -> None:
    rig.plc.holds_something_else = True
    for sequence in (1, 2):
        await rig.deliver(sequence)
        assert (await receipt(rig)).state is ReadBack.NOT_APPLIED
    assert [alarm.code for alarm in rig.records(RecordKind.ALARM)] == ["plc-read-back"]


async def test_a_fault_of_this_program_ends_the_gate(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.plc, "write", lambda **_: 1 / 0)
    await rig.deliver(1)
    async with asyncio.timeout(10):
        while rig.delivery.failure is None:
            await asyncio.sleep(0)
    assert isinstance(rig.delivery.failure, ZeroDivisionError)


async def test_a_look_between_the_plc_s_own_writes_is_looked_at_again(rig: Rig) -> None:
    rig.patient()
    rig.plc.torn_once = True
    await rig.deliver(1)
    assert (await receipt(rig)).state is ReadBack.OK
    assert rig.records(RecordKind.ALARM) == []


@pytest.mark.parametrize("fault", ["never_applies", "in_manual", "applies_other_values"])
async def test_commanded_but_not_applied_is_one_alarm(rig: Rig, fault: str) -> None:
    setattr(rig.plc, fault, True)
    for sequence in (1, 2, 3):
        await rig.deliver(sequence)
        assert (await receipt(rig)).state is ReadBack.NOT_APPLIED
    assert [alarm.code for alarm in rig.records(RecordKind.ALARM)] == ["not-applied"]
    setattr(rig.plc, fault, False)
    await rig.deliver(4)
    assert (await receipt(rig)).state is ReadBack.OK


async def test_a_refused_write_is_an_alarm_and_a_receipt_that_says_so(rig: Rig) -> None:
    rig.plc.refuses_writes = True
    await rig.deliver(1)
    await rig.deliver(2)
    got = await receipt(rig, newest=False)
    assert got.state is ReadBack.NOT_APPLIED
    assert got.applied == ()
    assert got.t_written_ns == 0
    alarms = rig.records(RecordKind.ALARM)
    assert [(alarm.code, alarm.sequence) for alarm in alarms] == [("plc-write", 1)]
    assert isinstance(alarms[0], Alarm)


async def test_a_plc_that_cannot_be_read_leaves_the_command_pending(rig: Rig) -> None:
    rig.plc.refuses_reads = True
    await rig.deliver(1)
    got = await receipt(rig)
    assert got.state is ReadBack.PENDING
    assert got.read_back == ()
    assert got.applied == (100, -20)


async def test_read_backs_under_way_are_bounded(rig: Rig) -> None:
    rig.patient()
    rig.plc.read_gate.clear()
    for sequence in range(1, READBACKS_MAX + 2):
        await rig.deliver(sequence)
    got = await receipt(rig)  # the one over the bound is receipted at once
    assert got.sequence == READBACKS_MAX + 1
    assert got.state is ReadBack.PENDING


async def test_a_look_that_takes_too_long_leaves_the_command_pending(rig: Rig) -> None:
    rig.plc.read_gate.clear()
    await rig.deliver(1)
    assert (await receipt(rig)).state is ReadBack.PENDING


async def test_auto_is_requested_and_given_back(rig: Rig) -> None:
    rig.delivery.request_auto(True)
    await rig.delivery.drain()
    assert rig.plc.auto is True
    rig.delivery.request_auto(False)
    await rig.delivery.drain()
    assert rig.plc.auto is False
    rig.plc.refuses_writes = True
    rig.delivery.request_auto(True)
    await rig.delivery.drain()
    assert [alarm.code for alarm in rig.records(RecordKind.ALARM)] == ["plc-write"]


async def test_a_gate_that_gave_auto_back_itself_raises_no_alarm(rig: Rig) -> None:
    rig.delivery.request_auto(False)
    await rig.delivery.drain()
    rig.plc.in_manual = True
    await rig.deliver(1)
    assert (await receipt(rig)).state is ReadBack.NOT_APPLIED, "the receipt says what is true"
    assert rig.records(RecordKind.ALARM) == []
    rig.delivery.request_auto(True)
    await rig.deliver(2)
    await receipt(rig)
    assert [alarm.code for alarm in rig.records(RecordKind.ALARM)] == ["not-applied"]
