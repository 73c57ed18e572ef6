"""The measured networks, the harness, and the interface of ``sitsctl bench proof``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from attest.proof import CircuitError
from attest.proof.prover import kernels
from sitsedge.bench.networks import INT8_MAX, NETWORKS, bench_inputs, bench_model, parse_widths
from sitsedge.bench.proof import CURVES, chosen_kernels, make_subject, measure, percentile
from sitsedge.cli.main import app
from sitsedge.compiler.intervals import model_bounds
from sitsedge.errors import SitsError

KEYS = [
    "network", "curve", "kernel", "threads", "constraints", "prove_cpu_ms_median", "prove_cpu_ms_min",
    "prove_wall_ms_p99", "verify_ms_median", "proof_bytes", "table_mib",
]  # fmt: skip
SMALL = "2-3-1"


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["bench", "proof", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_json_is_a_list_of_rows_with_exactly_these_members() -> None:
    code, out, _ = run("--networks", SMALL, "--threads", "1,2", "--count", "3", "--output", "json")
    assert code == 0
    rows = json.loads(out)
    assert [list(row) for row in rows] == [KEYS] * len(rows)
    expected = [(SMALL, curve, kernel, n) for curve in CURVES for kernel in kernels(curve) for n in (1, 2)]
    assert [(row["network"], row["curve"], row["kernel"], row["threads"]) for row in rows] == expected
    for row in rows:
        assert 0 < row["prove_cpu_ms_min"] <= row["prove_cpu_ms_median"]
        assert row["prove_wall_ms_p99"] > 0
        assert row["verify_ms_median"] > 0
        assert row["table_mib"] > 0
        assert row["proof_bytes"] == {"bn254": 128, "bls12-381": 192}[row["curve"]]


def test_the_table_is_for_people() -> None:
    code, out, err = run(
        "--networks", SMALL, "--curves", "bn254", "--kernels", "scalar", "--threads", "1", "--count", "3"
    )
    assert code == 0
    assert SMALL in out
    assert "scalar" in out
    assert "sitsctl: " in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--networks", "8"],
        ["--networks", "8-x-2"],
        ["--networks", "8-0-2"],
        ["--networks", "8-9999-2"],
        ["--networks", ","],
        ["--curves", "bn128"],
        ["--kernels", "avx2"],
        ["--threads", "0"],
        ["--threads", "9"],
        ["--threads", "two"],
        ["--count", "2"],
        ["--count", "100001"],
    ],
)
def test_wrong_options_are_refused_before_anything_is_measured(arguments: list[str]) -> None:
    code, out, err = run(*arguments, "--networks", SMALL) if "--networks" not in arguments else run(*arguments)
    assert code == 2, err
    assert out == ""


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_int8_in_everything_that_moves(name: str) -> None:
    model = bench_model(name)
    widths = parse_widths(name)
    assert (model.n_inputs, model.n_outputs) == (widths[0], widths[-1])
    assert (set(model.box_low), set(model.box_high)) == ({-128}, {127})
    for layer, bounds in zip(model.layers[:-1], model_bounds(model)[:-1], strict=True):
        assert np.abs(layer.weights).max() == 127
        assert bounds.out_low.min() >= 0
        assert INT8_MAX // 2 < bounds.out_high.max() <= INT8_MAX, "the least shift that fits"


def test_networks_and_inputs_are_the_same_every_time() -> None:
    first, second = bench_model(NETWORKS[0]), bench_model(NETWORKS[0])
    assert all((a.weights == b.weights).all() for a, b in zip(first.layers, second.layers, strict=True))
    assert bench_inputs(first, 5) == bench_inputs(second, 5)
    assert all(first.run(np.array(row)).shape == (2,) for row in bench_inputs(first, 5))


def test_percentile_is_the_nearest_rank() -> None:
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([float(n) for n in range(1, 101)], 99) == 99.0
    assert percentile([float(n) for n in range(1, 101)], 50) == 50.0
    assert percentile([5.0], 1) == 5.0


def test_a_proof_that_does_not_verify_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are only of proofs that were checked."""
    from attest.proof import NativeVerifier, ProofRefused

    def refuse(*_: object) -> None:
        raise ProofRefused("proof-pairing", found="a test", expected="a proof")

    monkeypatch.setattr(NativeVerifier, "verify", refuse)
    with pytest.raises(ProofRefused):
        measure(make_subject(SMALL, "bn254"), "scalar", 1, 3)


def test_unknown_names_are_usage_errors() -> None:
    with pytest.raises(SitsError) as caught:
        chosen_kernels("bn254", ["mmx"])
    assert caught.value.code == "kernel-unknown"
    with pytest.raises(CircuitError) as unknown:
        make_subject(SMALL, "secp256k1")
    assert unknown.value.code == "curve-unknown"


def test_peers_are_never_a_dependency() -> None:
    """GPL programs are measured in other processes; nothing of ours imports them."""
    root = Path(__file__).resolve().parents[3]
    for path in [*root.glob("attest/**/*.py"), *root.glob("sitsedge/**/*.py"), root / "benchmarks" / "proof_peers.py"]:
        text = path.read_text(encoding="utf-8")
        assert "import groth16py" not in text.replace('f"import {package}"', "")
        assert "import ezkl" not in text
