"""The main job with a module on BLS12-381: real processes, proofs in the loop, then three verifiers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from attest.ledger.audit import verify
from sitsedge.cli.main import app
from tests.sitsedge.conftest import replace
from tests.sitsedge.test_end_to_end import Deployed
from tests.support.snarkjs import find_snarkjs

COMMANDS = 10


@pytest.fixture
def deployed(mill: Path, tmp_path: Path) -> Iterator[Deployed]:
    """The example at half its rate and with patient limits: a proof on this curve takes about twice as long."""
    replace(mill, "limits: limits.yaml", "limits: limits.yaml\n  curve: bls12-381")
    replace(mill, "publish_hz: 100", "publish_hz: 50")
    replace(mill, "period_ms: 10.0", "period_ms: 20.0")
    replace(mill, "deadline_ms: 15.0", "deadline_ms: 20.0")
    for path in (mill, mill.parent / "gate.yaml"):
        text = path.read_text(encoding="utf-8")
        for name in ("source_age_ms_max: 20.0", "decision_age_ms_max: 20.0", "source_age_ms_max: 25.0"):
            text = text.replace(name, f"{name.partition(':')[0]}: 60.0")
        path.write_text(text, encoding="utf-8")
    system = Deployed(mill, tmp_path / "s")
    yield system
    system.stop()


def proof(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["proof", *map(str, arguments)])
    return done.exit_code, done.stdout


def test_every_command_carries_a_proof_that_three_verifiers_accept(deployed: Deployed, tmp_path: Path) -> None:
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

    peer, out = find_snarkjs(), tmp_path / "export"
    assert proof("export", ledgers, out)[0] == 0
    assert json.loads((out / "proof.json").read_text())["curve"] == "bls12381"
    assert peer.verifies(out)
