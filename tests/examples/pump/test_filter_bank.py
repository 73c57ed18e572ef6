"""The windowed detector: causal, fitted on what it is given, and the same as network, module and circuit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from attest.proof.circuit import decode
from attest.proof.witness import signed_witness
from examples.pump.dataset import HEALTHY_ROWS
from examples.pump.filter_bank import (
    COLUMNS,
    MARGIN,
    SCORE_LIMIT,
    SCORE_SCALE,
    WATCHES,
    WINDOW,
    FilterBank,
    export,
    fit,
    input_names,
    windows,
)
from examples.pump.leaderboard import Model, make
from tests.examples.pump.support import SPEEDS, bench_rows

CONTEXT = bytes(31)


def rows_of_a_bench(rows: int, *, seed: int = 3) -> np.ndarray:
    return bench_rows(np.random.default_rng(seed), SPEEDS["valve2"], rows)


def plain_score(bank: FilterBank, window: np.ndarray) -> float:
    """The docstring of the module in one loop over the watches; ``window`` (sensors, 30)."""
    found = []
    for sensor, watch in enumerate(WATCHES):
        deviation = (window[sensor, -watch.rows :].mean() - bank.centre[sensor]) / bank.reach[sensor]
        found += [direction * deviation for direction in watch.directions]
    return float(np.clip(max(found), -SCORE_LIMIT, SCORE_LIMIT))


@pytest.fixture(scope="module")
def healthy() -> np.ndarray:
    return rows_of_a_bench(HEALTHY_ROWS)


@pytest.fixture(scope="module")
def model(healthy: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Model:
    with threadpool_limits(limits=1):
        return make(fit(healthy), healthy, tmp_path_factory.mktemp("bank") / "model")


def test_the_network_computes_the_largest_deviation_of_an_average(healthy: np.ndarray, tmp_path: Path) -> None:
    bank = fit(healthy)
    export(bank, tmp_path / "model.onnx")
    of_windows = windows(rows_of_a_bench(90, seed=4)).copy()
    of_windows[::3, 2] -= np.linspace(0, 9, len(of_windows[::3]))[:, None]
    session = ort.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    [scores] = session.run(None, {"x": of_windows.astype(np.float32)})
    expected = [plain_score(bank, window) for window in of_windows]
    assert scores[:, 0] == pytest.approx(expected, abs=2e-3)  # single precision around 1e5 counts of a sensor's range
    assert min(expected) < 0.5 < 2 < max(expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(WINDOW, 100), data=st.data())
def test_a_window_ends_on_its_row_and_never_reaches_forward(seed: int, length: int, data: st.DataObject) -> None:
    x = np.random.default_rng(seed).normal(size=(length, 8))
    row = data.draw(st.integers(WINDOW - 1, length - 1))
    window = windows(x)[row - WINDOW + 1]
    assert np.array_equal(window, x[row - WINDOW + 1 : row + 1, COLUMNS].T)
    changed = x.copy()
    changed[row + 1 :] += 100
    assert np.array_equal(windows(changed)[row - WINDOW + 1], window)


def test_reach_is_a_margin_over_the_largest_deviation_fitted(healthy: np.ndarray) -> None:
    bank = fit(healthy, margin=1.0)
    scores = [plain_score(bank, window) for window in windows(healthy)]
    assert max(scores) <= 1.0 + 1e-5
    assert fit(healthy, margin=MARGIN).reach == pytest.approx(MARGIN * bank.reach, rel=1e-6)


def test_of_a_long_recording_each_stretch_counts_by_itself() -> None:
    stretch = rows_of_a_bench(HEALTHY_ROWS)
    drifted = np.concatenate([stretch, stretch + 5.0, stretch - 5.0, stretch[:100]])
    assert fit(drifted).reach == pytest.approx(fit(stretch).reach, rel=1e-6)


def test_a_sensor_that_stood_still_may_move_by_its_resolution(healthy: np.ndarray) -> None:
    still = healthy.copy()
    still[:, COLUMNS[2]] = 32.0
    assert fit(still).reach[2] == pytest.approx(WATCHES[2].signal.scale)


def test_too_few_rows_or_a_cell_that_is_no_number_are_refused(healthy: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least 400 rows"):
        fit(healthy[:-1])
    broken = healthy.copy()
    broken[7, COLUMNS[1]] = np.nan
    with pytest.raises(ValueError, match="a number in every watched column"):
        fit(broken)


def test_module_and_network_differ_by_little(model: Model) -> None:
    x = rows_of_a_bench(300, seed=5)
    x[150:, 7] -= np.linspace(0, 8, 150)
    one, other = (scores(windows(x)) for scores in (model.float_scores, model.integer_scores))
    assert np.abs(one - other).max() < 0.1
    assert np.sqrt(((one - other) ** 2).mean()) < 0.03
    assert one.max() > 2 > 1 > one.min()


def test_the_circuit_has_the_scores_of_the_module(model: Model) -> None:
    x = rows_of_a_bench(60, seed=6)
    x[40:, 0] *= 1.4
    of_windows = windows(x)[::6]
    circuit = decode(model.compiled.circuit)
    scale = [signal.scale for signal in model.limits.inputs]
    for window, score in zip(of_windows, model.integer_scores(of_windows), strict=True):
        counts = [int(count) for count in np.rint(window.reshape(-1) / scale)]
        assert signed_witness(circuit, counts, CONTEXT)[1 + len(counts)] == round(score / SCORE_SCALE)


def test_a_reading_outside_the_ranges_gets_no_score(model: Model) -> None:
    of_windows = windows(rows_of_a_bench(40, seed=7)).copy()
    of_windows[3, 0, 0] = WATCHES[0].signal.high + 1
    scores = model.integer_scores(of_windows)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [3]


def test_every_row_of_the_window_is_a_named_input(model: Model) -> None:
    assert [signal.name for signal in model.limits.inputs] == input_names()
    assert len(set(input_names())) == len(WATCHES) * WINDOW
    assert input_names()[0] == "accelerometer_1_29"
    assert input_names()[-1] == "flow_rate_0"
