"""Scoring: float and integer side by side, and what a deployment's ledger recorded, against the same labels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from threadpoolctl import threadpool_limits

from attest.command import Command, CommandHeader, Mode, ProofKind, SessionKey, TimeQuality, sign_command
from attest.ledger import Ledger, RecordKind
from examples.pump.dataset import load_run, unseen_names
from examples.pump.score import main
from examples.pump.scoring import IntegerScorer, read_journal
from examples.pump.train import write_all
from sitsedge.compiler import build
from sitsedge.errors import SitsError
from sitsedge.modules import PublisherTrust, read_bundle
from tests.examples.pump.support import write_bench

LOST_ROWS = (3, 40)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made-up data, what training makes of them, and the signed bundle."""
    folder = tmp_path_factory.mktemp("site")
    write_bench(folder / "data")
    with threadpool_limits(limits=1):
        write_all(folder / "data", folder / "model", steps=1500)
    key = Ed25519PrivateKey.generate()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "publisher.pub").write_bytes(pem)
    files = [folder / "model" / name for name in ("model.onnx", "calibration.csv", "limits.yaml")]
    build(*files, folder / "bundle", signer=key, name="pump")
    return folder


def arguments(site: Path, *more: str) -> list[str]:
    names = {"--data": "data", "--model": "model", "--bundle": "bundle", "--trust": "publisher.pub"}
    return [part for flag, name in names.items() for part in (flag, str(site / name))] + list(more)


def integer_scores(site: Path, name: str) -> np.ndarray:
    module = IntegerScorer(read_bundle(site / "bundle", PublisherTrust.from_files([site / "publisher.pub"])))
    try:
        return module.score(load_run(site / "data", name).x)
    finally:
        module.close()


def test_float_and_integer_side_by_side(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(site, "--json", str(tmp_path / "out.json"))) == 0
    printed = capsys.readouterr().out
    body = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert body["files"] == unseen_names(site / "data")
    assert body["files_also_trained_on"] == []
    exact, integer = (body["results"][name] for name in ("float", "integer (sandbox)"))
    assert f"{exact['f1']:8.3f}" in printed
    assert f"{integer['f1']:8.3f}" in printed
    for one in (exact, integer):
        assert sum(one[k] for k in ("true_alarms", "false_alarms", "missed", "quiet")) == body["rows"] == 1800
        assert one["unscored_rows"] == 0
        assert set(one["groups"]) == {"valve1", "valve2", "other"}
    agreement = body["agreement"]["integer (sandbox) against float"]
    assert agreement["rows_compared"] == 1800
    assert 0 < agreement["score_difference_rms"] < 0.5


def test_rows_the_loop_would_refuse_get_no_score(site: Path) -> None:
    run = load_run(site / "data", "valve1/2.csv")
    x = run.x[:4].copy()
    x[1, 7], x[2, 0] = 201.0, np.nan
    module = IntegerScorer(read_bundle(site / "bundle", PublisherTrust.from_files([site / "publisher.pub"])))
    try:
        assert np.isnan(module.score(x)).tolist() == [False, True, True, False]
    finally:
        module.close()


def write_ledger(path: Path, journal: Path, played: list[tuple[str, int, int]]) -> None:
    """Commands (recording, row, counts) signed as a device does, except the lost rows; and the journal of all."""
    key = SessionKey.generate()
    lines = ["t_source_ns,recording,row"]
    ledger = Ledger.open(path, origin="tests/device")
    for sequence, (name, row, counts) in enumerate(played):
        t = 1_700_000_000_000_000_000 + sequence * 1_000_000
        lines.append(f"{t},{name},{row}")
        if row in LOST_ROWS:
            continue
        header = CommandHeader(1, "dev", "gate", 1, sequence + 1, t, t + 1, bytes(32), bytes(32), Mode.SHADOW)
        command = Command(header, (0,) * 8, (counts,), ProofKind.NONE, b"", TimeQuality.FREE)
        ledger.append(RecordKind.COMMAND, sign_command(command, key))
    ledger.commit()
    ledger.close()
    journal.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_ledger_is_scored_by_source_time(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["valve1/2.csv", "other/1.csv"]
    counts = {name: np.rint(integer_scores(site, name) / 0.01).astype(int) for name in names}
    played = [(name, row, int(value)) for name in names for row, value in enumerate(counts[name])]
    write_ledger(tmp_path / "ledger.db", tmp_path / "journal.csv", played)
    more = ["--ledger", str(tmp_path / "ledger.db"), "--journal", str(tmp_path / "journal.csv")]
    assert main(arguments(site, *more, "--json", str(tmp_path / "out.json"))) == 0
    body = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (body["files"], body["files_also_trained_on"]) == (names, ["other/1.csv"])
    assert "attention: the training saw" in capsys.readouterr().out
    recorded, integer = body["results"]["recorded (ledger)"], body["results"]["integer (sandbox)"]
    assert recorded["unscored_rows"] == len(names) * len(LOST_ROWS)
    assert abs(recorded["f1"] - integer["f1"]) < 0.05
    agreement = body["agreement"]["recorded (ledger) against float"]
    assert agreement["rows_compared"] == body["rows"] - recorded["unscored_rows"]


@pytest.mark.parametrize(
    "body", ["", "a,b\n", "t_source_ns,recording,row\n1,x\n", "t_source_ns,recording,row\n-1,x,2\n"]
)
def test_a_malformed_journal_names_file_and_line(tmp_path: Path, body: str) -> None:
    path = tmp_path / "journal.csv"
    path.write_text(body, encoding="utf-8")
    with pytest.raises(SitsError, match=r"journal\.csv:[12]:"):
        read_journal(path)


def test_unusable_files_end_with_2_and_one_line(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "bundle"
    shutil.copytree(site / "bundle", broken)
    (broken / "index.json").write_text("{}", encoding="utf-8")
    assert main([*arguments(site), "--bundle", str(broken)]) == 2
    assert main([*arguments(site), "--model", str(tmp_path)]) == 2
    assert main([*arguments(site), "--data", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err
