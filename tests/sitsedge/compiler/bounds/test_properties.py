"""Properties of a limits file: strict reading with places, exact counts, verdicts in report, page and build."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sitsedge.cli.module_text import property_lines
from sitsedge.compiler import BuildResult, build
from sitsedge.compiler.bounds.decide import Decision
from sitsedge.compiler.bounds.properties import Finding, check_properties, describe
from sitsedge.compiler.errors import PropertyError
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from sitsedge.config.source import ConfigError
from sitsedge.modules import read_limits
from tests.sitsedge.compiler.nets import random_onnx

LIMITS = """version: 1
inputs:
  - {name: a, unit: mm, scale: 0.01, range: [-10, 10]}
  - {name: b, unit: MN, scale: 0.001, range: [-2, 2]}
outputs:
  - {name: gap, unit: mm, scale: 0.001, limits: [-9, 9]}
properties:
"""


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "limits.yaml"
    path.write_text(LIMITS + "".join(f"  - {line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        ("{kind: range, output: gap, inside: [1, -1]}", 40, "low below high"),
        ("{kind: range, output: gap, inside: [.nan, 1]}", 41, "finite"),
        ("{kind: range, output: speed, inside: [-1, 1]}", 27, "the name of an output"),
        ("{kind: range, output: gap, inside: [-1, 1], where: {c: [0, 1]}}", 60, "the name of an input"),
        ("{kind: range, output: gap, inside: [-1, 1], where: {a: [0, 11]}}", 60, "a part of its range [-10, 10]"),
        ("{kind: range, output: gap, inside: [-1, 1], twice: 1}", 49, "a known key"),
        ("{kind: range, output: gap}", 5, "this key to be present"),
        ("{kind: always, output: gap}", 12, "'range', 'monotone', 'robust'"),
        ("{kind: monotone, output: gap, input: c, direction: increasing}", 42, "the name of an input"),
        ("{kind: monotone, output: gap, input: a, direction: up}", 56, "'increasing' or 'decreasing'"),
        (
            "{kind: monotone, output: gap, input: a, direction: increasing, tolerance: -1}",
            79,
            "greater than or equal to 0",
        ),
        ("{kind: robust, output: gap, inputs: {c: 1}, change: 1}", 45, "the name of an input"),
        ("{kind: robust, output: gap, inputs: {}, change: 1}", 41, "at least 1"),
        ("{kind: robust, output: gap, inputs: {a: 0}, change: 1}", 45, "greater than 0"),
        ("{kind: robust, output: gap, inputs: {a: 1}, change: 1, rows: 5000}", 66, "less than or equal to 1024"),
        ("{kind: range, output: gap, inside: [-1, 1], seconds: 0}", 58, "greater than 0"),
    ],
)
def test_a_fault_in_a_property_has_its_place(tmp_path: Path, line: str, column: int, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_limits(_file(tmp_path, line))
    (fault,) = refused.value.faults
    assert expected in fault.expected
    assert (fault.line, fault.column) == (8, column)


def _check(tmp_path: Path, model: IntegerModel, *lines: str, rows: np.ndarray | None = None) -> tuple[Finding, ...]:
    limits = read_limits(_file(tmp_path, *lines))
    return check_properties(model, limits, np.zeros((1, 2), np.int64) if rows is None else rows)


def _linear(a: int, b: int, shift: int = 0) -> IntegerModel:
    layer = IntegerLayer.make(weights=[[a, b]], bias=0, shift=shift)
    return IntegerModel.make((layer,), [-1000, -2000], [1000, 2000])


def test_bounds_are_exact_to_one_count(tmp_path: Path) -> None:
    """gap = 0.003·a counts in … ±3 mm: 3.0 holds, 2.9999 does not, whatever 3.0/0.001 is in floating point."""
    findings = _check(
        tmp_path,
        _linear(3, 0),
        "{kind: range, output: gap, inside: [-3, 3]}",
        "{kind: range, output: gap, inside: [-3, 2.9999]}",
        "{kind: range, output: gap, inside: [-2.9999, 3]}",
        "{kind: range, output: gap, inside: [-2.1, 2.1], where: {a: [-7, 7]}}",
        "{kind: range, output: gap, inside: [-2.1, 2.1], where: {a: [-7, 7.01]}}",
    )
    assert [finding.verdict for finding in findings] == ["proven", "refuted", "refuted", "proven", "refuted"]
    assert findings[4].rows is not None
    assert findings[4].rows[0, 0] == 701


def test_monotone_and_robust_in_physical_units(tmp_path: Path) -> None:
    findings = _check(
        tmp_path,
        _linear(3, -1),
        "{kind: monotone, output: gap, input: a, direction: increasing}",
        "{kind: monotone, output: gap, input: b, direction: increasing}",
        "{kind: monotone, output: gap, input: b, direction: decreasing, where: {a: [0, 1]}}",
        "{kind: robust, output: gap, inputs: {a: 0.05, b: 0.003}, change: 0.018, rows: 3}",
        "{kind: robust, output: gap, inputs: {a: 0.05, b: 0.003}, change: 0.017, rows: 3}",
        rows=np.array([[0, 0], [1000, 2000], [5, -7], [-1000, 3]]),
    )
    assert [finding.verdict for finding in findings] == ["proven", "refuted", "proven", "proven", "refuted"]
    assert findings[4].rows is not None
    assert np.abs(np.diff(findings[4].rows, axis=0)).tolist() == [[5, 3]]


def test_a_clamp_decides_without_a_search(tmp_path: Path) -> None:
    layer = IntegerLayer.make(weights=[[3, 1]], bias=0, shift=0, activation="clamp", low=-50, high=40)
    model = IntegerModel.make((layer,), [-1000, -2000], [1000, 2000])
    proven, refuted = _check(
        tmp_path,
        model,
        "{kind: range, output: gap, inside: [-0.05, 0.04]}",
        "{kind: range, output: gap, inside: [0.041, 1]}",
    )
    assert (proven.verdict, proven.method) == ("proven", "clamp")
    assert (refuted.verdict, refuted.method) == ("refuted", "clamp")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mill")
    (folder / "model.onnx").write_bytes(random_onnx(4, (2, 6, 1), deviation=[4, 0.8], mean=[0, 0]).SerializeToString())
    rows = np.random.default_rng(0).uniform([-10, -2], [10, 2], (200, 2))
    (folder / "data.csv").write_text("a,b\n" + "\n".join(f"{a:.4f},{b:.5f}" for a, b in rows), encoding="utf-8")
    _file(
        folder,
        "{kind: range, output: gap, inside: [-100, 100]}",
        "{kind: range, output: gap, inside: [-0.001, 0.001]}",
        "{kind: robust, output: gap, inputs: {a: 0.02}, change: 1, rows: 8}",
    )
    return folder


@pytest.fixture(scope="module")
def built(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    return build(
        sources / "model.onnx",
        sources / "data.csv",
        sources / "limits.yaml",
        tmp_path_factory.mktemp("out") / "bundle",
        signer=Ed25519PrivateKey.generate(),
        allow_refuted=True,
    )


def test_a_refuted_property_refuses_the_build(sources: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    with pytest.raises(PropertyError) as refused:
        build(
            sources / "model.onnx",
            sources / "data.csv",
            sources / "limits.yaml",
            out,
            signer=Ed25519PrivateKey.generate(),
        )
    assert refused.value.code == "property-refuted"
    assert "gap in [-0.001, 0.001]" in refused.value.found
    assert not out.exists()


def test_report_and_page_have_every_verdict_and_a_counterexample_that_reproduces(built: BuildResult) -> None:
    entries = built.report["properties"]
    assert [entry["verdict"] for entry in entries] == ["proven", "refuted", "proven"]
    shown = entries[1]["counterexample"]
    counts = np.array(shown["counts"])
    assert built.compiled.quantised.model.run(counts)[:, 0].tolist() == shown["output_counts"]
    assert not -0.001 <= shown["output"][0] <= 0.001
    assert shown["inputs"][0]["a"] == pytest.approx(counts[0, 0] * 0.01)
    page = next(path for path in built.path.rglob("*") if path.is_file() and path.read_bytes().startswith(b"<!doctype"))
    text = page.read_text(encoding="utf-8")
    assert "gap in [-0.001, 0.001] is broken" in text
    assert "undecided" not in text
    assert [line.split()[0] for line in property_lines(entries)] == ["proven", "refuted", "proven"]


def test_an_entry_without_a_counterexample_claims_none(built: BuildResult) -> None:
    item = built.compiled.limits.properties[0]
    entry = describe(Finding(item, "undecided", "time", 30.0), built.compiled.limits, built.compiled.quantised.model)
    assert entry == {"property": str(item), "verdict": "undecided", "method": "time", "seconds": 30.0}


def test_an_undecided_range_says_what_was_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven counts beyond either bound, here of a made-up decision, are 0.007 of the output beyond either end."""
    first = IntegerLayer.make(weights=[[1, 0], [-1, 0], [0, 1]], bias=[0, 0, 2000], shift=0, activation="relu")
    second = IntegerLayer.make(weights=[[1, 1, 0]], bias=0, shift=0)
    model = IntegerModel.make((first, second), [-1000, -2000], [1000, 2000])
    monkeypatch.setattr(
        "sitsedge.compiler.bounds.properties.decide", lambda *_: Decision("undecided", "time", excess=7)
    )
    line = "{kind: range, output: gap, inside: [-0.1, 1.2]}"
    (finding,) = _check(tmp_path, model, line)
    assert finding.reached == (-107, 1207)
    limits = read_limits(_file(tmp_path, line))
    entry = describe(finding, limits, model)
    assert entry["proven_inside"] == [-0.107, 1.207]
    assert property_lines([entry])[0].endswith("proven in [-0.107, 1.207]")
