"""Checkpoints over every record, and what unclean ends of epochs may leave; children are really killed."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest.command import (
    Alarm,
    CycleRefused,
    EpochClosed,
    LedgerClosed,
    Refusal,
    SessionKey,
    parse_command,
    sign_command,
    sign_record,
)
from attest.command.judge import CHECKS
from attest.ledger import Checkpoint, Ledger, audit, sign_checkpoint
from attest.ledger.coverage import GAP_NS_MAX, STRETCH_NS_MAX, Coverage
from attest.ledger.crossindex import CrossIndex
from attest.ledger.report import AuditReport
from attest.ledger.scan import scan
from tests.attest.ledger.scenario import DEVICE_ID, GATE_ID, MS, T0, Scenario, model, whole

LAG = 3  # receipts this many commands late, as read-backs are
HOUR_NS = 3_600_000 * MS


@pytest.fixture
def scenario(tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(tmp_path)
    made.open_epoch()
    made.run(2)
    yield made
    made.device.close()
    made.gate.close()


def audited(scenario: Scenario) -> AuditReport:
    scenario.device.commit()
    scenario.gate.commit()
    return audit.verify(scenario.folder, proofs="none")


def codes(report: AuditReport) -> set[tuple[str, str]]:
    return {(finding.code, finding.ledger) for finding in report.findings}


def edit(path: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(path)
    assert db.execute(statement, values).rowcount
    db.commit()
    db.close()


# --- checkpoints -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sides", [("device",), ("gate",), ("device", "gate")])
def test_checkpoints_deleted(tmp_path: Path, sides: tuple[str, ...]) -> None:
    made = whole(tmp_path, commands=4)
    for side in sides:
        edit(made.path(side), "DELETE FROM checkpoints")
    assert codes(audit.verify(tmp_path, proofs="none")) == {("checkpoint-missing", side) for side in sides}


@pytest.mark.parametrize("side", ["device", "gate"])
def test_the_last_checkpoint_of_a_closed_ledger_deleted(tmp_path: Path, side: str) -> None:
    made = whole(tmp_path, commands=4)
    edit(made.path(side), "DELETE FROM checkpoints WHERE id = (SELECT max(id) FROM checkpoints)")
    report = audit.verify(tmp_path, proofs="none")
    assert codes(report) == {("checkpoint-missing", side)}


def test_a_witnessed_checkpoint_deleted(tmp_path: Path) -> None:
    made = whole(tmp_path, commands=4)
    edit(made.path("device"), "DELETE FROM checkpoints WHERE id = 1")
    report = audit.verify(tmp_path, proofs="none")
    assert codes(report) == {("checkpoint-missing", "device")}
    assert "witnessed" in report.findings[0].found


def test_a_witnessed_checkpoint_by_an_unknown_key(tmp_path: Path) -> None:
    made = whole(tmp_path, commands=4)
    ledger = Ledger.open_readonly(made.path("device"))
    size, _ = next(ledger.checkpoints())
    note = sign_checkpoint(Checkpoint(ledger.origin, size, ledger.root(size)), SessionKey.generate())
    ledger.close()
    edit(made.path("device"), "UPDATE checkpoints SET note = ? WHERE id = 1", note)
    assert codes(audit.verify(tmp_path, proofs="none")) == {("checkpoint-missing", "device")}


def run_slowly(scenario: Scenario, seconds: int) -> None:
    for _ in range(seconds):
        scenario.now_ns += 990 * MS
        scenario.run(1)


def test_a_long_stretch_without_a_checkpoint(scenario: Scenario) -> None:
    run_slowly(scenario, 12)
    assert codes(audited(scenario)) == {("checkpoint-missing", "device"), ("checkpoint-missing", "gate")}
    assert len(audited(scenario).findings) == 2, "one finding a stretch"
    scenario.device.checkpoint()
    scenario.gate.checkpoint()
    assert codes(audited(scenario)) == {("checkpoint-missing", "device"), ("checkpoint-missing", "gate")}


def test_checkpoints_in_between_make_it_whole(scenario: Scenario) -> None:
    for _ in range(3):
        run_slowly(scenario, 6)
        scenario.witness()
    assert audited(scenario).ok
    edit(scenario.path("gate"), "DELETE FROM checkpoints WHERE id = 2")
    assert codes(audited(scenario)) == {("checkpoint-missing", "gate")}


def test_a_pause_is_no_stretch(scenario: Scenario) -> None:
    scenario.now_ns += HOUR_NS // 2
    scenario.run(2)
    assert audited(scenario).ok


def test_a_device_that_never_had_an_epoch_can_sign_nothing(tmp_path: Path) -> None:
    made = Scenario(tmp_path)
    closed = LedgerClosed(made.device.origin, made.device.appended, "stop", made.now_ns)
    made.device.append("ledger-closed", sign_record(closed, made.session))
    made.device.close()
    made.gate.close()
    assert audit.verify(tmp_path).findings == []


def covered(times: list[int], checkpoints: tuple[int, ...] = ()) -> int:
    report, cross = AuditReport("native", "all"), CrossIndex()
    for size in checkpoints:
        cross.add_checkpoint("gate", size)
    coverage = Coverage(report, cross, "gate")
    for index, t_ns in enumerate(times):
        coverage.record(index, t_ns)
    cross.close()
    return report.findings_total


def test_time_is_counted_once() -> None:
    step = GAP_NS_MAX // 10
    fits = [T0 + i * step for i in range(STRETCH_NS_MAX // step + 1)]
    assert covered(fits) == 0
    assert covered([*fits, fits[-1] + 1]) == 1
    assert covered([*fits, fits[-1] + 1], (50,)) == 0
    swapped = [t for a, b in zip(fits[::2], fits[1::2], strict=False) for t in (b, a)]
    assert covered(swapped) == 0, "receipts in another order take no longer"
    back = [T0 - HOUR_NS + i * step for i in range(STRETCH_NS_MAX // step + 2)]
    assert covered([T0, *back]) == 1, "a clock set back hides nothing"


@pytest.mark.parametrize("level", [4, 8])
def test_every_stored_node_is_compared(tmp_path: Path, level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("store", "scan"):
        monkeypatch.setattr(f"attest.ledger.{module}.STRIDE", 4)  # two levels without 65,536 records
    key, path = SessionKey.generate(), tmp_path / "ledger.db"
    ledger = Ledger.open(path, origin="sits/nodes", signer=key)
    record = sign_record(Alarm("gate", 1, 1, "code", "x", "y", 1), key)
    for _ in range(300):
        ledger.append("alarm", record)
    ledger.checkpoint()
    ledger.close()

    def found() -> list[str]:
        report, read = AuditReport("native", "all"), Ledger.open_readonly(path)
        scan(read, "device", report, lambda *_: None)
        read.close()
        return [finding.code for finding in report.findings]

    assert found() == []
    edit(path, "UPDATE nodes SET hash = zeroblob(32) WHERE level = ? AND idx = 0", level)
    assert found() == ["leaf-hash"]
    edit(path, "DELETE FROM nodes WHERE level = ? AND idx = 0", level)
    assert found() == ["leaf-hash"]
    edit(path, "INSERT INTO nodes VALUES (1, 0, zeroblob(32))")
    edit(path, "INSERT INTO nodes VALUES (?, 7000, zeroblob(32))", level)
    assert found() == ["leaf-hash", "leaf-hash"], "and nodes of no subtree"


# --- unclean ends ----------------------------------------------------------------------------------------


def late_receipts(scenario: Scenario) -> None:
    """Receipts reach both ledgers ``LAG`` commands after their command."""
    held: deque[tuple[Callable[[str, bytes], int], str, bytes]] = deque()

    def lagging(append: Callable[[str, bytes], int]) -> Callable[[str, bytes], int]:
        def instead(kind: str, data: bytes) -> int:
            if kind != "receipt":
                return append(kind, data)
            held.append((append, kind, data))
            if len(held) > 2 * LAG:
                late, late_kind, late_data = held.popleft()
                late(late_kind, late_data)
            return 0

        return instead

    for ledger in (scenario.gate, scenario.device):
        ledger.append = lagging(ledger.append)  # type: ignore[method-assign, assignment]


def life(scenario: Scenario, progress: int) -> None:
    """A gate and a device that run until somebody kills them; the gate is durable before the device hears of it."""
    scenario.open_epoch()
    late_receipts(scenario)
    while True:
        for _ in range(3):
            scenario.run(1)
        scenario.gate.commit()
        scenario.device.commit()
        if scenario.sequence % 5 == 0:
            scenario.witness()
        os.write(progress, b".")


def killed_life(scenario_of: Callable[[], Scenario], groups: int) -> None:
    """Run one life in a child process and kill it with SIGKILL while it works."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            life(scenario_of(), writing)
        finally:
            os._exit(1)  # never back into the test runner
    os.close(writing)
    try:
        for _ in range(groups):
            assert os.read(reading, 1) == b"."
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(reading)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_killed_lives_followed_by_new_epochs_leave_tails_and_no_findings(tmp_path: Path) -> None:
    model()  # made before the fork: every life has the same keys
    key = SessionKey.generate()

    def again(number: int) -> Callable[[], Scenario]:
        return lambda: Scenario(tmp_path, gate_key=key, epoch=number, now_ns=T0 + number * HOUR_NS // 4)

    for number, groups in enumerate((1, 4, 11)):
        killed_life(again(number), groups)
    last = again(3)()
    last.open_epoch()
    last.run(3)
    last.close()
    report = audit.verify(tmp_path)
    assert report.findings == []
    assert [epoch.number for epoch in report.epochs] == [1, 2, 3, 4]
    assert report.accepted >= 3 * (1 + 4 + 11) + 3
    assert report.tail_receipts >= 3 * LAG
    assert report.ledgers["device"].closed
    assert report.ledgers["gate"].closed


def accept_without_receipt(scenario: Scenario) -> None:
    data = scenario.command()
    scenario.device.append("command", data)
    scenario.gate.append("command", data)


def close_epoch(scenario: Scenario) -> None:
    record = EpochClosed(GATE_ID, scenario.epoch, "a newer epoch", scenario.now_ns)
    scenario.gate.append("epoch-closed", sign_record(record, scenario.gate_key))


@pytest.mark.parametrize("clean", [False, True])
def test_a_receipt_missing_at_the_end_of_an_epoch(scenario: Scenario, clean: bool) -> None:
    accept_without_receipt(scenario)
    if clean:
        close_epoch(scenario)
    for _ in range(2):
        scenario.open_epoch()
        scenario.run(2)
    scenario.close()
    report = audit.verify(scenario.folder, proofs="none")
    assert codes(report) == ({("receipt", "gate")} if clean else set())
    assert report.tail_receipts == (0 if clean else 1)


def test_a_receipt_missing_long_before_an_unclean_end(scenario: Scenario) -> None:
    accept_without_receipt(scenario)
    run_slowly(scenario, 3)
    assert audited(scenario).tail_receipts == 1, "no checkpoint since"
    scenario.witness()
    assert audited(scenario).tail_receipts == 1, "one checkpoint since"
    run_slowly(scenario, 1)
    scenario.witness()
    scenario.open_epoch()
    report = audited(scenario)
    assert codes(report) == {("receipt", "gate")}
    assert report.tail_receipts == 0


def test_missing_receipts_are_bounded(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attest.ledger.rejudge.RECEIPTS_TAIL_MAX", 2)
    for _ in range(3):
        accept_without_receipt(scenario)
    report = audited(scenario)
    assert codes(report) == {("receipt", "gate")}
    assert (report.tail_receipts, report.findings_total) == (2, 1)


def test_unanswered_ends_of_several_epochs_are_bounded_each(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attest.ledger.reconcile.TAIL_COMMANDS_MAX", 2)
    for _ in range(3):
        for _ in range(2):
            scenario.send(scenario.command(), gate=False)
        scenario.open_epoch()
        for _ in range(2):
            scenario.send(scenario.command(), device=False, reply=False)
        scenario.open_epoch()
    scenario.run(1)
    report = audited(scenario)
    assert report.findings == []
    assert (report.tail_gate, report.tail_device) == (6, 6)
    for _ in range(3):
        scenario.send(scenario.command(), gate=False)
    assert codes(audited(scenario)) == {("unreconciled", "device")}


def test_a_device_that_lost_its_epoch_and_closed_in_order(scenario: Scenario) -> None:
    """The gate dies, the device closes with the key of no epoch, the gate comes back and closes too."""
    scenario.witness()
    scenario.send(scenario.command(), gate=False)
    scenario.device.checkpoint()
    closed = LedgerClosed(scenario.device.origin, scenario.device.appended, "stop", scenario.now_ns)
    scenario.device.append("ledger-closed", sign_record(closed, SessionKey.generate()))
    closed = LedgerClosed(scenario.gate.origin, scenario.gate.appended, "stop", scenario.now_ns)
    scenario.gate.append("ledger-closed", sign_record(closed, scenario.gate_key))
    scenario.gate.checkpoint()
    report = audited(scenario)
    assert report.findings == []
    assert report.tail_gate == 1


def test_the_excuse_of_the_last_command_may_be_lost_with_a_crash(scenario: Scenario) -> None:
    scenario.device.append("command", scenario.command())  # gate-busy; the record that says so is lost
    scenario.send(scenario.command(), device=False, reply=False)
    report = audited(scenario)
    assert report.findings == []
    assert (report.tail_gate, report.tail_device) == (1, 1)


def test_a_forged_command_does_not_move_the_end(scenario: Scenario) -> None:
    data = scenario.command()
    command = parse_command(data, None).command
    forged = replace(command, header=replace(command.header, sequence=10**6))
    refused = sign_command(forged, SessionKey.generate())
    refusal = Refusal(
        gate_id=GATE_ID,
        epoch=1,
        sequence=10**6,
        code="signature",
        check=CHECKS["signature"],
        found="another key",
        expected="the session key",
        command_digest=parse_command(refused, None).digest,
        refused=refused,
        t_ns=scenario.now_ns,
    )
    scenario.gate.append("refusal", sign_record(refusal, scenario.gate_key))
    scenario.device.append("command", scenario.command())
    scenario.device.append("command", scenario.command())
    report = audited(scenario)
    assert report.findings == []
    assert report.tail_gate == 2


@pytest.mark.parametrize("code", ["gate-busy", "unanswered"])
@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("reply", [False, True])
def test_a_command_that_its_device_gave_up_needs_no_answer(
    scenario: Scenario, code: str, answered: bool, reply: bool
) -> None:
    scenario.send(scenario.command(), gate=answered, reply=reply)
    changes: dict[str, Any] = {"code": code, "found": "none", "expected": "one", "count": 1, "t_ns": scenario.now_ns}
    record = CycleRefused(device_id=DEVICE_ID, epoch=1, sequence=scenario.sequence, **changes)
    scenario.device.append("cycle-refused", sign_record(record, scenario.session))
    scenario.run(1)
    scenario.close()
    report = audit.verify(scenario.folder, proofs="none")
    assert report.findings == []
    assert report.tail_gate == 0
