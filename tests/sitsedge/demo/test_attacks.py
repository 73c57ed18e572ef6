"""All twelve attacks on one live system: refused for their own reason, on record, survived."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest.ledger.audit import verify
from sitsedge.cli.demo_commands import ATTACK_NAMES
from sitsedge.demo.runner import AttackVerdict, fresh_state, run_attacks
from sitsedge.errors import SitsError
from sitsedge.supervisor.state import StateDir


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, AttackVerdict], StateDir]:
    from tests.sitsedge.conftest import copy_mill

    folder = tmp_path_factory.mktemp("attacked")
    state = fresh_state(folder / "s")
    verdicts = run_attacks(copy_mill(folder / "mill"), state, list(ATTACK_NAMES), say=lambda _: None)
    return {verdict.name: verdict for verdict in verdicts}, state


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ATTACK_NAMES)
def test_attack_is_refused_for_its_own_reason(attacked: tuple[dict[str, AttackVerdict], StateDir], name: str) -> None:
    verdict = attacked[0][name]
    assert [attempt.got for attempt in verdict.attempts] == [attempt.expected for attempt in verdict.attempts]
    assert verdict.recovered
    assert verdict.ok


def test_no_attack_left_an_accepted_command_that_the_device_did_not_decide(
    attacked: tuple[dict[str, AttackVerdict], StateDir],
) -> None:
    report = verify(attacked[1].ledger)
    # Commands that a man in the middle altered or held have no answer of their own; that is what an audit must say.
    assert {finding.code for finding in report.findings} <= {"unreconciled"}
    assert report.proofs_checked == report.accepted > 0
    assert {"replay", "reorder", "signature", "proof-statement", "proof-moved", "output-limit"} <= set(report.refused)


def test_somebody_else_s_folder_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(SitsError) as caught:
        fresh_state(tmp_path)
    assert caught.value.code == "demo-state"
    assert (tmp_path / "precious").exists()


def test_a_verdict_needs_every_attempt_a_record_and_a_recovery() -> None:
    from sitsedge.demo.attacks import Attempt

    good = Attempt("a", "b", "replay", "replay", "", b"x")
    bad = Attempt("a", "b", "replay", "accepted", "", None)
    assert AttackVerdict("replay", (good,), (5,), True).ok
    assert not AttackVerdict("replay", (good,), (None,), True).ok
    assert not AttackVerdict("replay", (good,), (5,), False).ok
    assert not AttackVerdict("replay", (good, bad), (5, None), True).ok
    assert not AttackVerdict("replay", (), (), True).ok
