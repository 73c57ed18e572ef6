"""Proofs that follow their command: what an audit makes of them, one test for each rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest.command import GateRules, ProofKind, ProofPolicy
from attest.ledger import LedgerError, audit
from attest.ledger.owed import GRACE_COMMANDS
from attest.ledger.report import AuditReport
from tests.attest.ledger.scenario import MS, RULES, T0, Scenario

DEADLINE_MS = 1000
DEFERRED: GateRules = replace(
    RULES, proof_policy=ProofPolicy.DEFERRED, proof_deadline_ms=DEADLINE_MS, proof_backlog_max=4
)
LATER = T0 + 3_600_000 * MS


@pytest.fixture
def deferred(tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(tmp_path, rules=DEFERRED)
    made.open_epoch()
    made.run(1)
    yield made
    made.device.close()
    made.gate.close()


def audited(scenario: Scenario, *, now_ns: int = LATER, **options: Any) -> AuditReport:
    scenario.device.checkpoint()
    scenario.gate.checkpoint()
    return audit.verify(scenario.folder, now_ns=now_ns, **options)


def codes(scenario: Scenario, **options: Any) -> list[str]:
    return [finding.code for finding in audited(scenario, **options).findings]


def owing(scenario: Scenario, **changes: object) -> bytes:
    data = scenario.command(deferred=True, **changes)
    scenario.send(data)
    return data


@pytest.mark.parametrize("engine", ["native", "py-ecc"])
def test_a_proof_that_follows_counts_as_checked(deferred: Scenario, engine: str) -> None:
    data = owing(deferred)
    deferred.late_proof(data, deferred.owed)
    deferred.proof_receipt(data)
    report = audited(deferred, engine=engine)
    assert report.ok, report.findings
    assert report.accepted == report.proofs_checked == 2
    assert report.proofs_owed == report.proofs_late == 0


def test_the_proof_of_one_command_is_found_behind_it(deferred: Scenario) -> None:
    data = owing(deferred)
    deferred.device.commit()
    index = deferred.device.size - 2  # its receipt is the last record
    assert deferred.device.read(index).data == data
    with pytest.raises(LedgerError, match="proof-owed"):
        audit.extract(deferred.device, index)
    deferred.late_proof(data, deferred.owed)
    deferred.device.commit()
    found = audit.extract(deferred.device, index)
    assert (found.proof, found.proof_kind) == (deferred.owed, "GROTH16_BN254")


def test_a_commitment_without_proof_is_a_finding_only_past_its_deadline(deferred: Scenario) -> None:
    owing(deferred)
    due = deferred.now_ns + DEADLINE_MS * MS
    early = audited(deferred, now_ns=due - 1)
    assert early.ok, early.findings
    assert early.proofs_owed == 1
    assert codes(deferred, now_ns=due) == ["proof"]


def test_a_late_proof_is_joined_and_marked_late(deferred: Scenario) -> None:
    data = owing(deferred)
    deferred.now_ns += (DEADLINE_MS + 1) * MS
    deferred.proof_status("proof-deadline", verified=False)
    deferred.late_proof(data, deferred.owed)
    deferred.proof_receipt(data, late=True)
    report = audited(deferred)
    assert report.ok, report.findings
    assert report.proofs_late == 1


@pytest.mark.parametrize(("ms", "late"), [(DEADLINE_MS + 1, False), (0, True)])
def test_a_gate_whose_word_on_lateness_is_wrong(deferred: Scenario, ms: int, late: bool) -> None:
    data = owing(deferred)
    deferred.now_ns += ms * MS
    deferred.late_proof(data, deferred.owed)
    deferred.proof_receipt(data, late=late)
    assert codes(deferred) == ["proof"]


def test_a_proof_of_other_outputs(deferred: Scenario) -> None:
    data = owing(deferred, outputs=(77,))  # refused by the model's own word, but the device kept it
    deferred.late_proof(data, deferred.owed)
    assert codes(deferred) == ["proof"]


def test_a_proof_of_another_command(deferred: Scenario) -> None:
    first = owing(deferred)
    wrong = deferred.owed
    second = owing(deferred)
    deferred.late_proof(second, wrong)
    assert codes(deferred) == ["proof", "proof"], "one that does not verify, one that never came"
    assert first != second


def test_a_proof_for_an_unknown_command(deferred: Scenario) -> None:
    owing(deferred)
    deferred.late_proof(b"no command", deferred.owed)
    assert codes(deferred, now_ns=deferred.now_ns) == ["proof"]


@pytest.mark.parametrize(
    "changes",
    [
        {"sequence": 7},
        {"epoch": 2},
        {"proof_kind": ProofKind.GROTH16_BLS12_381},
        {"proof_kind": ProofKind.GROTH16_BLS12_381, "proof": bytes(192)},
        {"proof": b""},
    ],
)
def test_a_proof_that_says_it_is_something_else(deferred: Scenario, changes: dict[str, object]) -> None:
    data = owing(deferred)
    deferred.late_proof(data, **({"proof": deferred.owed} | changes))  # type: ignore[arg-type]
    assert codes(deferred, now_ns=deferred.now_ns) == ["proof"]


def test_a_proof_for_a_command_that_carried_its_own(deferred: Scenario) -> None:
    data = deferred.command()
    deferred.send(data)
    deferred.late_proof(data, bytes(128))
    assert codes(deferred) == ["proof"]


def test_a_proof_repeated_after_a_crash_counts_once(deferred: Scenario) -> None:
    data = owing(deferred)
    for _ in range(2):
        deferred.late_proof(data, deferred.owed)
    report = audited(deferred)
    assert report.ok, report.findings
    assert report.proofs_checked == 2


def test_a_repeated_proof_must_verify_too(deferred: Scenario) -> None:
    data = owing(deferred)
    deferred.late_proof(data, deferred.owed)
    deferred.late_proof(data, bytes(128))
    assert codes(deferred) == ["proof"]


def test_the_command_may_be_in_the_gate_s_ledger_alone(deferred: Scenario) -> None:
    data = deferred.command(deferred=True)
    deferred.send(data, device=False)  # lost at an unclean end
    deferred.late_proof(data, deferred.owed)
    report = audited(deferred)
    assert report.ok, report.findings
    assert (report.tail_device, report.proofs_checked) == (1, 2)


def test_a_receipt_for_a_proof_nobody_owed(deferred: Scenario) -> None:
    deferred.proof_receipt(b"no command")
    assert codes(deferred) == ["receipt"]


def test_a_gate_that_goes_on_with_an_overdue_proof(deferred: Scenario) -> None:
    owing(deferred)
    deferred.now_ns += (DEADLINE_MS + 6000) * MS
    data = owing(deferred)
    deferred.late_proof(data, deferred.owed)
    deferred.proof_receipt(data)
    found = [finding.found for finding in audited(deferred).findings]
    assert len(found) == 2
    assert "after an earlier proof was due" in found[0]
    assert "and no proof" in found[1]


def test_a_gate_that_goes_on_after_people_approved(deferred: Scenario) -> None:
    owing(deferred)
    deferred.now_ns += (DEADLINE_MS + 6000) * MS
    deferred.proof_status("proof-deadline", verified=False)
    deferred.proof_status("approved", verified=True)
    data = owing(deferred)
    deferred.late_proof(data, deferred.owed)
    deferred.proof_receipt(data)
    found = [finding.found for finding in audited(deferred).findings]
    assert len(found) == 1, "what was written off stays unproven"
    assert "and no proof" in found[0]


def test_a_gate_that_accepts_while_it_had_withdrawn_its_word(deferred: Scenario) -> None:
    deferred.proof_status("proof-backlog", verified=False)
    data = owing(deferred)
    deferred.late_proof(data, deferred.owed)
    report = audited(deferred)
    assert [finding.code for finding in report.findings] == ["proof"]
    assert "proof-backlog" in report.findings[0].found


def test_a_gate_that_lets_more_be_owed_than_its_rules_allow(deferred: Scenario) -> None:
    for _ in range(DEFERRED.proof_backlog_max + GRACE_COMMANDS + 1):
        data = owing(deferred)
        deferred.late_proof(data, deferred.owed)  # they came, but the gate never said so
    report = audited(deferred, proofs="none")
    assert [finding.code for finding in report.findings] == ["proof"]
    assert "proofs owed" in report.findings[0].found


def test_only_a_sample_of_the_proofs_that_followed(deferred: Scenario) -> None:
    for _ in range(4):
        data = owing(deferred)
        deferred.late_proof(data, deferred.owed)
        deferred.proof_receipt(data)
    assert audited(deferred, proofs="none").proofs_checked == 0
    assert 1 <= audited(deferred, proofs=1).proofs_checked <= 2
    assert audited(deferred, proofs="all").proofs_checked == 5
