"""Training on made-up recordings: repeatable, honest about what it reads, and its files fit the compiler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from examples.pump.dataset import HEALTHY_ROWS, Run, healthy, load_run, numbered, train_names, unseen_names
from examples.pump.detector import displaced, moved_healthy
from examples.pump.rule import figures, read_rule
from examples.pump.scoring import FloatScorer
from examples.pump.signals import SIGNALS
from examples.pump.train import main, write_all
from sitsedge.compiler import compile_model
from sitsedge.replay.errors import RecordingError
from tests.examples.pump.support import write_bench

STEPS = 1500


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def trained(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained")
    with threadpool_limits(limits=1):
        write_all(bench, out, steps=STEPS)
    return out


def test_the_same_data_give_the_same_files(bench: Path, trained: Path, tmp_path: Path) -> None:
    with threadpool_limits(limits=1):
        write_all(bench, tmp_path / "again", steps=STEPS)
    names = {path.name for path in trained.iterdir()}
    assert names == {"model.onnx", "calibration.csv", "limits.yaml", "rule.json"}
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (trained / name).read_bytes()


def test_other_data_give_another_model(trained: Path, tmp_path: Path) -> None:
    other = write_bench(tmp_path / "bench", seed=2)
    with threadpool_limits(limits=1):
        write_all(other, tmp_path / "out", steps=STEPS)
    assert (tmp_path / "out" / "model.onnx").read_bytes() != (trained / "model.onnx").read_bytes()


def test_even_files_and_faulty_rows_have_no_influence(bench: Path, trained: Path, tmp_path: Path) -> None:
    copy = write_bench(tmp_path / "bench")
    for name in unseen_names(copy):
        (copy / name).write_text("not even a recording", encoding="utf-8")
    for name in train_names(copy):
        lines = (copy / name).read_text(encoding="utf-8").splitlines()
        kept = [*lines[: HEALTHY_ROWS + 1], *(line.replace("230.", "999.") for line in lines[HEALTHY_ROWS + 1 :])]
        (copy / name).write_text("\n".join(kept) + "\n", encoding="utf-8")
    with threadpool_limits(limits=1):
        write_all(copy, tmp_path / "out", steps=STEPS)
    for name in ("model.onnx", "calibration.csv", "rule.json"):
        assert (tmp_path / "out" / name).read_bytes() == (trained / name).read_bytes()


def test_faults_of_unseen_files_are_found_and_healthy_rows_left_alone(bench: Path, trained: Path) -> None:
    rule, scorer = read_rule(trained / "rule.json"), FloatScorer(trained / "model.onnx")
    runs = [load_run(bench, name) for name in unseen_names(bench)]
    result = figures([(rule.alarms(scorer.score(run.x)), run.faulty) for run in runs])
    # The average needs some rows to rise and to fall again, which is most of what is wrong here.
    assert result.f1 > 0.7
    assert result.far < 25
    assert result.mar < 10


def test_the_compiler_takes_the_files_and_stays_close(bench: Path, trained: Path) -> None:
    compiled = compile_model(trained / "model.onnx", trained / "calibration.csv", trained / "limits.yaml")
    assert compiled.network.sizes == (8, 16, 16, 1)
    assert compiled.calibration.rows_outside == 0
    x = load_run(bench, unseen_names(bench)[0]).x
    counts = np.rint(x / np.array([signal.scale for signal in SIGNALS])).astype(np.int64)
    integer = compiled.quantised.model.run(counts)[:, 0] * compiled.limits.outputs[0].scale
    exact = FloatScorer(trained / "model.onnx").score(x)
    assert float(np.sqrt(np.mean((integer - exact) ** 2))) < 0.5


def test_rule_file_says_what_was_trained_on(trained: Path) -> None:
    body = json.loads((trained / "rule.json").read_text(encoding="utf-8"))
    assert body["trained_on"] == ["anomaly-free/anomaly-free.csv", "valve1/1.csv", "valve2/1.csv", "other/1.csv"]


def test_split_is_by_file_number(bench: Path) -> None:
    assert numbered(bench) == [f"{g}/{n}.csv" for g in ("valve1", "valve2", "other") for n in (1, 2)]
    assert not set(train_names(bench)) & set(unseen_names(bench))
    assert set(train_names(bench)) | set(unseen_names(bench)) == set(numbered(bench))


@pytest.mark.parametrize("cell", ["", "nan", "broken"])
def test_a_training_row_without_a_number_names_file_and_line(tmp_path: Path, cell: str) -> None:
    root = write_bench(tmp_path)
    path = root / "other" / "1.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    parts = lines[7].split(";")
    lines[7] = ";".join([*parts[:3], cell, *parts[4:]])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(RecordingError) as caught:
        healthy(load_run(root, "other/1.csv"))
    assert (caught.value.code, caught.value.line, caught.value.file) == ("training-row", 8, str(path))


def test_a_row_labelled_faulty_is_not_trained_on() -> None:
    faulty = np.zeros(500, dtype=np.bool_)
    faulty[399] = True
    with pytest.raises(RecordingError) as caught:
        healthy(Run("x", Path("x"), np.zeros((500, 8)), faulty))
    assert caught.value.line == 401


def test_a_label_that_is_neither_0_nor_1_is_refused(tmp_path: Path) -> None:
    path = write_bench(tmp_path) / "valve1" / "1.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(";1.0;0.0", ";2.0;0.0", 1), encoding="utf-8")
    with pytest.raises(RecordingError) as caught:
        load_run(tmp_path, "valve1/1.csv")
    assert caught.value.code == "label"


def test_displaced_rows_move_watched_sensors_only_and_by_more_than_healthy_ones() -> None:
    rng = np.random.default_rng(3)
    row = np.array([[0.2, 0.27, 2.4, 0.1, 90.0, 27.0, 228.0, 122.0]])
    near, tolerance = moved_healthy(row, rng, 2000)
    assert np.all(np.abs(near - row) <= tolerance)
    far = np.abs(displaced(row, rng, 2000) - row) / tolerance[0]
    watched = np.array([signal.watched for signal in SIGNALS])
    assert np.all(far[:, ~watched] <= 1)
    assert np.all(far[:, watched].max(axis=1) >= 1)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--data", "nowhere", "--out", "/tmp/x"], "no SKAB recordings"),
        (["--data", "nowhere"], "--out FOLDER"),
        (["--data", "nowhere", "--out", "examples/pump/out"], "outside the repository"),
    ],
)
def test_wrong_arguments_end_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2
    assert text in capsys.readouterr().err
