"""The benchmark of the passes runs and says what it counted."""

from __future__ import annotations

import pytest

from benchmarks import onnx_passes


def test_counts_and_difference_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["onnx_passes", "--size", "32"])
    monkeypatch.delitem(onnx_passes.NETWORKS, "ResNet-18")
    assert onnx_passes.main() == 0
    text = capsys.readouterr().out
    assert "152 → 100 (batch-norm folding) → 65 (requantise fusion)" in text
    assert "onnxscript's optimiser: not given" in text
