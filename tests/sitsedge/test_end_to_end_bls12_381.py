"""The main job with a module on BLS12-381: real processes, proofs in the loop, then three verifiers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attest.ledger.audit import verify
from sitsedge.cli.demo_commands import ATTACK_NAMES
from sitsedge.cli.main import app
from sitsedge.demo.runner import fresh_state, run_attacks
from tests.sitsedge.conftest import replace
from tests.sitsedge.test_end_to_end import Deployed
from tests.support.snarkjs import snarkjs_if_present

COMMANDS = 10


@pytest.fixture
def bls_mill(mill: Path) -> Path:
    """The example at half its rate and with patient limits: a proof on this curve takes about twice as long."""
    replace(mill, "limits: limits.yaml", "limits: limits.yaml\n  curve: bls12-381")
    replace(mill, "publish_hz: 100", "publish_hz: 50")
    replace(mill, "period_ms: 10.0", "period_ms: 20.0")
    replace(mill, "deadline_ms: 15.0", "deadline_ms: 20.0")
    for path in (mill, mill.parent / "gate.yaml"):
        text = path.read_text(encoding="utf-8")
        patient = re.sub(r"(source|decision)_age_ms_max: [0-9.]+", r"\1_age_ms_max: 60.0", text)
        assert patient != text
        path.write_text(patient, encoding="utf-8")
    return mill


@pytest.fixture
def deployed(bls_mill: Path, tmp_path: Path) -> Iterator[Deployed]:
    system = Deployed(bls_mill, tmp_path / "s")
    yield system
    system.stop()


def proof(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["proof", *map(str, arguments)])
    return done.exit_code, done.stdout


def test_every_command_carries_a_proof_that_every_verifier_accepts(deployed: Deployed, tmp_path: Path) -> None:
    deployed.wait("sitsd", "accepted", COMMANDS)
    code, _, err = deployed.stop()
    assert code == 0, err
    ledgers = deployed.state / "ledger"
    report = verify(ledgers)
    assert report.ok, report.findings
    assert report.proofs_checked == report.accepted >= COMMANDS
    for engine in ("native", "py-ecc"):
        code, text = proof("verify", ledgers, "--engine", engine, "--output", "json")
        assert (code, json.loads(text)["ok"]) == (0, True)

    out = tmp_path / "export"
    assert proof("export", ledgers, out)[0] == 0
    assert json.loads((out / "proof.json").read_text())["curve"] == "bls12381"
    peer = snarkjs_if_present()
    assert peer is None or peer.verifies(out)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_attack_is_refused_for_its_own_reason(bls_mill: Path, tmp_path: Path) -> None:
    verdicts = run_attacks(bls_mill, fresh_state(tmp_path / "s"), list(ATTACK_NAMES), say=lambda _: None)
    found = {verdict.name: [(attempt.expected, attempt.got) for attempt in verdict.attempts] for verdict in verdicts}
    assert {name: [pair for pair in pairs if pair[0] != pair[1]] for name, pairs in found.items()} == {
        name: [] for name in ATTACK_NAMES
    }
    assert all(verdict.ok for verdict in verdicts)
