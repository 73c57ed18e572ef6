"""The decision rule and the figures, against plain counting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.pump.rule import Rule, figures, moving_average, read_rule, write_rule

scores = st.lists(st.floats(-20, 20), min_size=1, max_size=80).map(np.array)


@given(scores, st.integers(1, 40))
def test_moving_average_is_the_mean_of_what_came_before(values: np.ndarray, window: int) -> None:
    means = moving_average(values, window)
    for k in range(len(values)):
        assert means[k] == pytest.approx(values[max(0, k + 1 - window) : k + 1].mean(), abs=1e-9)


@given(scores, st.integers(1, 40))
def test_the_rule_alarms_where_that_mean_is_above_the_threshold(values: np.ndarray, window: int) -> None:
    alarms = Rule(window, 0.5).alarms(values)
    means = moving_average(values, window)
    clear = np.abs(means - 0.5) > 1e-9
    assert np.array_equal(alarms[clear], (means > 0.5)[clear])


def test_a_row_without_a_score_changes_nothing() -> None:
    nan = float("nan")
    assert Rule(2, 0.0).alarms(np.array([nan, 1.0, nan, -3.0, nan, nan, 9.0])).tolist() == [
        False, True, True, False, False, False, True,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=50), st.integers(1, 4))
def test_figures_count_points_over_all_runs(rows: list[tuple[bool, bool]], cut: int) -> None:
    pairs = [
        (np.array([a for a, _ in part], dtype=np.bool_), np.array([f for _, f in part], dtype=np.bool_))
        for part in (rows[:cut], rows[cut:])
    ]
    result = figures(pairs)
    counts = [rows.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
    assert [result.true_alarms, result.false_alarms, result.missed, result.quiet] == counts
    tp, fp, fn, tn = counts
    assert result.f1 == (2 * tp / (2 * tp + fp + fn) if tp else 0.0)
    assert result.far == (100 * fp / (fp + tn) if fp + tn else 0.0)
    assert result.mar == (100 * fn / (fn + tp) if fn + tp else 0.0)


def test_rule_file_round_trip_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "rule.json"
    write_rule(Rule(30, -1.5), path, seed=1)
    assert read_rule(path) == Rule(30, -1.5)
    for text in ('{"window": 0, "threshold": 1.0}', '{"window": true, "threshold": 1.0}', '{"window": 3}', "{"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError):
            read_rule(path)
