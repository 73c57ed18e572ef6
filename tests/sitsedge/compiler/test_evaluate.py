"""Evaluation without keys: accuracy on rows not fitted, agreement of all forms, what keeps a proof away; rows."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.evaluate import HELD_EVERY, evaluate
from sitsedge.compiler.evaluation_rows import INPUT_COUNTS, ROWS_MAX, read_rows, scaling_of
from sitsedge.compiler.quantise import Goal
from tests.sitsedge.compiler.importer.models import Net

LOOSE = Goal(rms=0.05, peak=0.2)
"""Met by the first format tried, so that the tests are about the evaluation."""


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolution, squeeze and excitation, and classes: (1, 3, open, 8)."""
    rng = np.random.default_rng(3)
    net = Net("N", 3, "H", 8)
    x = net.op("Relu", net.op("Conv", "x", net.const(rng.normal(0, 0.3, (4, 3, 3, 3))), pads=[1, 1, 1, 1]))
    gate = net.op(
        "HardSigmoid", net.op("Conv", net.op("GlobalAveragePool", x), net.const(rng.normal(0, 1, (4, 4, 1, 1))))
    )
    pooled = net.op("Flatten", net.op("GlobalAveragePool", net.op("Mul", x, gate)))
    output = net.op("Softmax", net.op("MatMul", pooled, net.const(rng.normal(0, 1, (4, 3)))))
    path = tmp_path_factory.mktemp("gated") / "gated.onnx"
    path.write_bytes(net.bytes(output))
    return path


def rows_file(folder: Path, count: int, *, size: int = 8, seed: int = 0) -> Path:
    path = folder / f"rows-{count}-{size}-{seed}.npy"
    np.save(path, np.random.default_rng(seed).normal(size=(count, 3, size, 8)).astype(np.float32))
    return path


def test_a_gated_network_keeps_its_classes_and_every_form_agrees(gated: Path, tmp_path: Path) -> None:
    report = evaluate(
        gated, rows_file(tmp_path, 40), held_out=rows_file(tmp_path, 20, seed=1), input_shape=(1, 3, 8, 8), goal=LOOSE
    ).report
    assert report["accuracy"]["held_out"]["rows"] == report["runs"]["rows"] == 20
    assert report["accuracy"]["held_out"]["rms"] < 0.05
    assert report["accuracy"]["held_out"]["same_class"] >= 0.9
    assert report["signed"] is False
    assert report["proof"]["possible"] is True
    assert report["runs"]["simd128"]["fuel_per_call"] > 0


def test_a_network_beyond_the_circuit_says_why_there_is_no_proof(gated: Path, tmp_path: Path) -> None:
    """64 × 8 × 3 inputs are more signals than a circuit has, and run all the same."""
    report = evaluate(gated, rows_file(tmp_path, 9, size=64), input_shape=(1, 3, 64, 8), goal=LOOSE).report
    assert report["proof"]["possible"] is False
    assert any(text.startswith("1536 inputs, limit 1024") for text in report["proof"]["why_not"])
    assert report["accuracy"]["calibration"]["rows"] == 9 - 9 // HELD_EVERY
    assert report["runs"]["rows"] == 9 // HELD_EVERY


def test_inputs_outside_the_calibrated_box_are_counted(gated: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.npy"
    np.save(wide, np.full((2, 3, 8, 8), 100.0))
    report = evaluate(gated, rows_file(tmp_path, 12), held_out=wide, input_shape=(1, 3, 8, 8), goal=LOOSE).report
    assert report["accuracy"]["held_out"]["inputs_outside_box"] == 2 * 3 * 8 * 8


def npy(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    held = io.BytesIO()
    np.save(held, array, allow_pickle=allow_pickle)
    return held.getvalue()


REFUSED: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "text": lambda: b"a,b\n1,2\n",
    "pickle": lambda: npy(np.array([{}, 1], dtype=object), allow_pickle=True),
    "archive": lambda: b"PK\x05\x06" + bytes(18),
    "strings": lambda: npy(np.array([["a", "b"]])),
    "complex": lambda: npy(np.ones((2, 2), complex)),
    "no-rows": lambda: npy(np.ones((0, 2))),
    "too-many-rows": lambda: npy(np.ones((ROWS_MAX + 1, 2), np.int8)),
    "other-width": lambda: npy(np.ones((4, 3))),
    "not-finite": lambda: npy(np.array([[1.0, np.nan]])),
    "cut-off": lambda: npy(np.ones((4, 2)))[:-8],
    "promises-more-than-it-holds": lambda: npy(np.ones((4, 2))).replace(b"(4, 2)", b"(9, 2)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(REFUSED[name]())
    with pytest.raises(CompileError) as refused:
        read_rows(path, 2)
    assert refused.value.code == "rows"


def test_a_missing_file_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="rows"):
        read_rows(tmp_path / "none.npy", 2)


def test_integers_are_rows_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    path.write_bytes(npy(np.array([[1, 2], [3, 4]], np.uint8)))
    assert read_rows(path, 2).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_the_largest_input_sets_the_scale_where_none_is_given() -> None:
    rows = np.array([[-3.0, 0.1], [1.0, 0.2]])
    one, each = (scaling_of(rows, None, each=each) for each in (False, True))
    assert (one.low.tolist(), one.high.tolist()) == ([-INPUT_COUNTS] * 2, [round(INPUT_COUNTS / 3)] * 2)
    assert (each.low[0], each.high[1]) == (-INPUT_COUNTS, INPUT_COUNTS)
    assert each.scale[1] < one.scale[1]


def test_an_input_that_is_always_zero_has_a_scale() -> None:
    assert scaling_of(np.zeros((2, 3)), None, each=True).counts(np.zeros((1, 3))).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-6])
def test_a_scale_that_does_not_fit_is_refused(scale: float) -> None:
    with pytest.raises(CompileError) as refused:
        scaling_of(np.array([[1.0]]), scale, each=False)
    assert refused.value.code == "input-scale"
