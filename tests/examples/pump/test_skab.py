"""The real recordings, where they are at hand: the split holds and the detector is worth showing."""

from __future__ import annotations

from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from examples.pump.dataset import FREE, HEALTHY_ROWS, healthy, load_run, train_names, unseen_names
from examples.pump.rule import figures
from examples.pump.scoring import FloatScorer
from examples.pump.signals import SIGNALS
from examples.pump.train import write_all


@pytest.fixture
def skab(fixtures_dir: Path) -> Path:
    root = fixtures_dir / "skab" / "data"
    if not root.is_dir():
        pytest.skip(f"SKIPPED: SKAB is not at {root}; this test needs its recordings")
    return root


def test_training_files_begin_with_400_healthy_rows_inside_the_ranges(skab: Path) -> None:
    names = train_names(skab)
    assert len(names) == len(unseen_names(skab)) == 11
    for name in names:
        x = healthy(load_run(skab, name))
        assert len(x) == HEALTHY_ROWS
        for column, signal in zip(x.T, SIGNALS, strict=True):
            assert signal.low < column.min() <= column.max() < signal.high
    assert len(load_run(skab, FREE, labelled=False).x) == 9405


def test_alarms_on_unseen_recordings_are_no_guesses(skab: Path, tmp_path: Path) -> None:
    with threadpool_limits(limits=1):
        rule = write_all(skab, tmp_path)
    scorer = FloatScorer(tmp_path / "model.onnx")
    runs = [load_run(skab, name) for name in unseen_names(skab)]
    result = figures([(rule.alarms(scorer.score(run.x)), run.faulty) for run in runs])
    # Guessing finds as large a share of the faulty rows as it disturbs of the healthy ones.
    assert result.far < 10
    assert (100 - result.mar) > 3 * result.far
