"""``module build`` as a whole: bundle, report, self-test that catches faults, nothing written on failure."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from attest.proof.keys import key_hash
from attest.proof.prover import Groth16Prover, development_setup
from attest.proof.verifier import NativeVerifier, failed_check
from sitsedge.cli.main import app
from sitsedge.cli.module_text import accuracy_lines, pass_lines
from sitsedge.compiler import BuildResult, CompileError, SelfTestError, build, compile_model
from sitsedge.compiler.quantise import Goal
from sitsedge.compiler.report_html import render
from sitsedge.compiler.report_warnings import warnings
from sitsedge.compiler.selftest import run_selftest
from sitsedge.modules import PublisherTrust, StoreError, read_bundle
from sitsedge.sandbox import Sandbox, variant_for
from tests.sitsedge.compiler.nets import emit_circuit, emit_onnx, emit_wasm, random_onnx

LIMITS = """version: 1
inputs:
  - {name: a, unit: mm, scale: 0.01, range: [-10, 10]}
  - {name: b, unit: MN, scale: 0.001, range: [-2, 2]}
  - {name: c, unit: "°C", scale: 0.05, range: [800, 1000]}
outputs:
  - {name: gap, unit: mm, scale: 0.001, limits: [-9, 9]}
"""


@pytest.fixture(scope="module")
def signer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small-mill")
    model = random_onnx(4, (3, 6, 1), mean=[0, 0, 900], deviation=[4, 0.8, 40])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "limits.yaml").write_text(LIMITS, encoding="utf-8")
    rng = np.random.default_rng(0)
    rows = rng.uniform([-10, -2, 800], [10, 2, 1000], (200, 3))
    (folder / "data.csv").write_text("a,b,c\n" + "\n".join(",".join(f"{v:.5f}" for v in row) for row in rows))
    return folder


@pytest.fixture(scope="module")
def built(sources: Path, signer: Ed25519PrivateKey, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    out = tmp_path_factory.mktemp("out") / "bundle"
    return build(sources / "model.onnx", sources / "data.csv", sources / "limits.yaml", out, signer=signer)


def test_bundle_holds_what_was_built(built: BuildResult, signer: Ed25519PrivateKey) -> None:
    bundle = read_bundle(built.path, PublisherTrust((signer.public_key(),)))
    assert bundle.digest == built.digest
    assert (bundle.wasm, bundle.wasm_relaxed) == (built.compiled.wasm, built.compiled.wasm_relaxed)
    assert bundle.config == built.config
    assert bundle.config.name.startswith("small-mill")
    assert bundle.config.proof.development
    assert bundle.config.proof.contributors == 0
    assert bundle.config.inputs[2].counts == (16000, 20000)
    assert bundle.report == json.loads(json.dumps(built.report))


def test_sandbox_and_proof_of_the_bundle_agree(built: BuildResult, signer: Ed25519PrivateKey) -> None:
    bundle = read_bundle(built.path, PublisherTrust((signer.public_key(),)))
    verifier = NativeVerifier(bundle.verification_key, vk_sha256=bytes.fromhex(bundle.config.proof.vk_sha256))
    prover = Groth16Prover(bundle.circuit, bundle.proving_key)
    context = bytes(range(31))
    with Sandbox.of(bundle) as sandbox:
        row = [125, -300, 18000]
        outputs = sandbox.infer(row)
        proven = prover.prove(row, context)
    assert proven.outputs == outputs
    assert failed_check(verifier, row, outputs, context, proven.proof) is None
    assert failed_check(verifier, row, [outputs[0] + 1], context, proven.proof) == "proof-pairing"
    assert failed_check(verifier, [126, -300, 18000], outputs, context, proven.proof) == "proof-pairing"


def test_report_says_what_a_reader_needs(built: BuildResult) -> None:
    report = built.report
    assert report["network"] == [3, 6, 1]
    assert report["accuracy"]["held_out"]["rows"] == 40
    gap = report["accuracy"]["held_out"]["outputs"]["gap"]
    assert gap["max_error"] >= gap["rms_error"] >= gap["mean_error"] >= 0
    assert gap["max_error_of_span"] < 0.02
    drawn = report["figures"]["errors"]["gap"]
    assert sum(drawn["error"]) == 40
    assert drawn["high"] == gap["max_error"]
    assert report["proof"]["inline_from_cycle_ms"] >= 2 * report["proof"]["measured_ms"] - 1e-3
    assert report["constraints"]["total"] == sum(report["constraints"]["layers"]) + report["constraints"]["fixed"]
    assert report["passes"][0] == {"pass": "import", "nodes": {"Div": 1, "Gemm": 2, "Relu": 1, "Sub": 1}, "total": 5}
    assert [row["pass"] for row in report["passes"][1:-2]] == ["batch-norm folding", "requantise fusion"]
    assert [row["total"] for row in report["passes"] if row["pass"] == "fold affine maps"] == [3]
    low, high = report["output_bounds"]["gap"]["counts"]
    rows = np.random.default_rng(1).integers([-1000, -2000, 16000], [1001, 2001, 20001], (500, 3))
    outputs = built.compiled.quantised.model.run(rows)
    assert low <= outputs.min() <= outputs.max() <= high
    assert report["digests"]["wasm"] == Sandbox(built.compiled.wasm).digest.hex()


def test_report_and_inspect_say_which_module_runs(
    built: BuildResult, signer: Ed25519PrivateKey, tmp_path: Path
) -> None:
    relaxed = built.compiled.wasm_relaxed != built.compiled.wasm
    assert bool(built.report["kernel"]["relaxed_layers"]) == relaxed
    assert built.report["selftest"]["relaxed"] in (("native", "portable") if relaxed else ("same",))
    public = signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "pub.pem").write_bytes(public)
    shown = CliRunner().invoke(
        app, ["module", "inspect", str(built.path), "--trust", str(tmp_path / "pub.pem"), "--output", "json"]
    )
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["runs"] == {
        engine: variant_for(built.compiled, engine) for engine in ("jit", "pulley")
    }


def test_inspect_tells_people_what_is_in_a_bundle_and_extracts_it_once(
    built: BuildResult, signer: Ed25519PrivateKey, tmp_path: Path
) -> None:
    public = signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "pub.pem").write_bytes(public)
    parts = tmp_path / "new" / "parts"
    command = ["module", "inspect", str(built.path), "--trust", str(tmp_path / "pub.pem"), "--extract", str(parts)]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.stderr
    assert "input        c 800 … 1000 °C, a count is 0.05" in shown.stdout
    assert built.report["quantisation"]["goal_met"]
    assert "goal         met" in shown.stdout
    assert not any(line.lstrip().startswith("{") for line in shown.stdout.splitlines())
    assert (parts / "report.html").read_bytes().startswith(b"<!doctype html>")
    assert (parts / "integer.onnx").read_bytes() == built.compiled.integer_onnx
    assert json.loads((parts / "report.json").read_text(encoding="utf-8")) == built.report
    again = CliRunner().invoke(app, command)
    assert (again.exit_code, "file-exists" in again.stderr) == (2, True)


def warned(built: BuildResult, **changed: Any) -> list[str]:
    compiled = built.compiled
    goal = changed.pop("goal", Goal(1.0, 1.0))
    (signal,) = compiled.limits.outputs
    wide = compiled.limits.model_copy(update={"outputs": (signal.model_copy(update={"limits": (-90.0, 90.0)}),)})
    given = {"limits": wide, "calibration": compiled.calibration, "quantised": compiled.quantised} | changed
    return warnings(compiled.network, given["limits"], given["calibration"], given["quantised"], goal)


def test_a_report_warns_of_a_missed_goal(built: BuildResult) -> None:
    missed = replace(built.compiled.quantised, meets_goal=False)
    (text,) = warned(built, quantised=missed, goal=Goal(1e-9, 1e-9))
    assert "the accuracy goal is missed" in text
    page = render(built.report | {"warnings": [text]})
    assert page.index(b"The accuracy goal is missed") < page.index(b"Accuracy on calibration rows")
    assert f"warning      {text}" in "\n".join(accuracy_lines(built.report | {"warnings": [text]}))


def test_a_report_warns_of_inputs_that_calibration_does_not_cover(built: BuildResult) -> None:
    calibration = built.compiled.calibration
    fit, held = calibration.fit_raw.copy(), calibration.held_raw.copy()
    for rows in (fit, held):
        rows[:, 0], rows[:, 1] = 2.5, np.linspace(0, 0.01, len(rows))
    found = warned(built, calibration=replace(calibration, fit_raw=fit, held_raw=held))
    assert any(text.startswith("a is 2.5 in every calibration row") for text in found)
    assert any(text.startswith("b covers 0.2% of its declared range") for text in found)


def test_a_report_warns_of_outputs_outside_their_limits_or_without_counts(built: BuildResult) -> None:
    signal = built.compiled.limits.outputs[0]
    narrow = signal.model_copy(update={"limits": (100.0, 200.0), "scale": 1.0})
    found = warned(built, limits=built.compiled.limits.model_copy(update={"outputs": (narrow,)}))
    assert any("leaves its limits 100 … 200 in 200 of 200 calibration rows" in text for text in found)
    assert any("counts on the calibration rows" in text for text in found)


def test_a_report_on_rows_that_cover_the_ranges_warns_of_nothing(built: BuildResult) -> None:
    assert warned(built) == []


def test_explain_has_a_line_for_every_pass(built: BuildResult) -> None:
    lines = pass_lines(built.report["passes"])
    assert len(lines) == 1 + len(built.report["passes"])
    assert lines[1].split() == ["import", "5", "Div", "1,", "Gemm", "2,", "Relu", "1,", "Sub", "1"]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_report_is_well_formed_and_self_contained(built: BuildResult, signer: Ed25519PrivateKey) -> None:
    page = read_bundle(built.path, PublisherTrust((signer.public_key(),))).report_html.decode()
    tags = _Tags()
    tags.feed(page)
    assert not tags.open
    assert tags.seen.isdisjoint({"script", "link", "img", "iframe"})
    assert "Development key" in tags.text
    assert "inline in cycles of" in tags.text
    assert {"svg", "figure"} <= tags.seen
    assert "does not show that the model is right" in tags.text


def test_same_sources_give_the_same_artefacts(sources: Path, built: BuildResult) -> None:
    again = compile_model(sources / "model.onnx", sources / "data.csv", sources / "limits.yaml")
    assert again.wasm == built.compiled.wasm
    assert again.circuit == built.compiled.circuit
    assert again.integer_onnx == built.compiled.integer_onnx


def test_existing_output_is_not_overwritten(sources: Path, built: BuildResult, signer: Ed25519PrivateKey) -> None:
    before = sorted(path.name for path in built.path.rglob("*"))
    with pytest.raises(StoreError) as refused:
        build(sources / "model.onnx", sources / "data.csv", sources / "limits.yaml", built.path, signer=signer)
    assert refused.value.code == "output-exists"
    assert sorted(path.name for path in built.path.rglob("*")) == before
    assert [path.name for path in built.path.parent.iterdir()] == [built.path.name]


def test_limits_of_another_model_are_refused(sources: Path, tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(random_onnx(1, (4, 3, 1)).SerializeToString())
    with pytest.raises(CompileError) as refused:
        compile_model(other, sources / "data.csv", sources / "limits.yaml")
    assert refused.value.code == "signals"


@pytest.mark.parametrize("part", ["wasm", "relaxed", "graph", "circuit"])
def test_selftest_catches_one_wrong_weight_in_any_artefact(built: BuildResult, part: str) -> None:
    compiled = built.compiled
    model = compiled.quantised.model
    first = model.layers[0]
    weights = first.weights.copy()
    weights[0, 0] += 1 if weights[0, 0] < 127 else -1
    wrong = replace(model, layers=(replace(first, weights=weights), *model.layers[1:]))
    circuit = emit_circuit(wrong if part == "circuit" else model)
    with pytest.raises(SelfTestError) as refused:
        run_selftest(
            model,
            wasm=emit_wasm(wrong if part == "wasm" else model),
            wasm_relaxed=emit_wasm(wrong if part == "relaxed" else model, relaxed=True),
            graph=emit_onnx(wrong if part == "graph" else model),
            circuit=circuit,
            keys=development_setup(circuit),
            rows=compiled.calibration.fit_counts,
        )
    named = {"wasm": "WASM (jit)", "relaxed": "relaxed WASM", "graph": "ONNX", "circuit": "circuit"}
    assert named[part] in refused.value.found


def test_selftest_catches_the_key_of_another_setup(built: BuildResult) -> None:
    compiled = built.compiled
    keys = (development_setup(compiled.circuit)[0], development_setup(compiled.circuit)[1])
    assert key_hash(keys[1]) != built.config.proof.vk_sha256
    with pytest.raises(SelfTestError):
        run_selftest(
            compiled.quantised.model,
            wasm=compiled.wasm,
            wasm_relaxed=compiled.wasm_relaxed,
            graph=compiled.integer_onnx,
            circuit=compiled.circuit,
            keys=keys,
            rows=compiled.calibration.fit_counts,
        )


def test_selftest_catches_a_module_that_accepts_inputs_outside_the_box(built: BuildResult) -> None:
    compiled = built.compiled
    model = compiled.quantised.model
    wider = replace(model, box_low=model.box_low - 1, box_high=model.box_high + 1)
    with pytest.raises(SelfTestError) as refused:
        run_selftest(
            model,
            wasm=emit_wasm(wider),
            wasm_relaxed=compiled.wasm_relaxed,
            graph=compiled.integer_onnx,
            circuit=compiled.circuit,
            keys=development_setup(compiled.circuit),
            rows=compiled.calibration.fit_counts,
        )
    assert "outside the box" in refused.value.found
