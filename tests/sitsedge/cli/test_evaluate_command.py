"""``sitsctl module evaluate``: a report for people and programs, artefacts on request, refusals that name the node."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from sitsedge.cli.main import app
from sitsedge.cli.output import Exit
from tests.sitsedge.compiler.importer.models import Net


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["module", "evaluate", *map(str, arguments)])
    return done.exit_code, done.output


@pytest.fixture
def model(tmp_path: Path) -> Path:
    net = Net("N", 4)
    path = tmp_path / "square.onnx"
    path.write_bytes(net.bytes(net.op("Mul", "x", "x")))
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.npy"
    values = np.random.default_rng(0).uniform(-1, 1, (30, 4))
    # The box is what the rows that are fitted span.
    values[0], values[1] = -1.0, 1.0
    np.save(path, values)
    return path


def test_report_and_artefacts(model: Path, rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "judged"
    code, text = run(model, "--calibration", rows, "--out", out, "--output", "json")
    assert code == Exit.OK
    report = json.loads(text)
    assert report["accuracy"]["held_out"]["rms"] < 0.01
    assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
    assert (out / "module.wasm").read_bytes().startswith(b"\0asm")
    onnx.checker.check_model(onnx.load(out / "integer.onnx"))
    code, text = run(model, "--calibration", rows)
    assert code == Exit.OK
    assert "held out" in text
    assert "signed       no" in text
    assert "outside" not in text


def test_inputs_outside_the_calibrated_range_are_said(model: Path, rows: Path, tmp_path: Path) -> None:
    wide = tmp_path / "wide.npy"
    np.save(wide, np.full((2, 4), 3.0))
    code, text = run(model, "--calibration", rows, "--held-out", wide)
    assert code == Exit.OK
    assert "8 held-out inputs outside the calibrated range were limited to it" in text


def test_a_refused_operator_is_named_with_its_node_and_the_others(rows: Path, tmp_path: Path) -> None:
    net = Net("N", 4)
    path = tmp_path / "refused.onnx"
    path.write_bytes(net.bytes(net.op("Sqrt", net.op("Cosh", "x"))))
    code, text = run(path, "--calibration", rows)
    assert code == Exit.USAGE
    assert "(Cosh): unsupported-operator" in text
    assert "also in the way: Sqrt at " in text


@pytest.mark.parametrize("shape", ["", "1,a", "1,-3", "1 4", "1,9999999"])
def test_a_shape_that_is_none_is_refused(shape: str, model: Path, rows: Path) -> None:
    assert run(model, "--calibration", rows, "--input-shape", shape)[0] == Exit.USAGE


def test_a_folder_that_exists_is_not_written_into(model: Path, rows: Path, tmp_path: Path) -> None:
    assert run(model, "--calibration", rows, "--out", tmp_path)[0] == Exit.USAGE
