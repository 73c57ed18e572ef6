"""The programme that tries public models, on a wheel made here."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.public_models import SHAPE, imported, lines_of_text, models_of
from tests.sitsedge.compiler.importer.models import Net


def test_models_come_out_of_wheels_and_are_taken_or_refused_by_name(tmp_path: Path) -> None:
    good, bad = Net("N", 4), Net("N", 4)
    with zipfile.ZipFile(tmp_path / "some-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some/good.onnx", good.bytes(good.op("Relu", "x")))
        wheel.writestr("some/bad.onnx", bad.bytes(bad.op("Cosh", "x")))
        wheel.writestr("some/readme.txt", "no model")
    found = {name: imported(data) for _, name, data in models_of(tmp_path)}
    assert set(found) == {"good.onnx", "bad.onnx"}
    assert found["good.onnx"] == {"nodes": 1}
    assert (found["bad.onnx"]["refused"], found["bad.onnx"]["operator"]) == ("unsupported-operator", "Cosh")


def test_drawn_lines_are_whole_counts_and_the_same_every_time() -> None:
    pytest.importorskip("PIL", reason="Pillow draws the lines of text")
    lines = lines_of_text(1, 2)
    assert lines.shape == (2, *SHAPE)
    counts = lines.astype(np.float64) * 255
    assert np.abs(counts - np.rint(counts)).max() < 1e-4
    assert np.ptp(lines[0]) > 0.3
    np.testing.assert_array_equal(lines, lines_of_text(1, 2))
