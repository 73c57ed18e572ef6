"""The times of inferences, and the interface of ``sitsctl bench inference``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sitsedge.bench.inference import call_loop, kernel_loop, measure_network
from sitsedge.bench.networks import bench_inputs, bench_model
from sitsedge.cli.main import app
from sitsedge.compiler.backends.wasm import emit_variants
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.errors import SitsError
from sitsedge.sandbox import Sandbox, has_native_relaxed_dot

KEYS = [
    "network", "module", "engine", "module_bytes", "relaxed_layers", "fuel", "kernel_us_median", "call_us_median",
]  # fmt: skip
SMALL = "4-8-6-2"


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["bench", "inference", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_json_is_a_list_of_rows_with_exactly_these_members() -> None:
    code, out, _ = run("--networks", SMALL, "--rounds", "3", "--output", "json")
    assert code == 0
    rows = json.loads(out)
    assert [list(row) for row in rows] == [KEYS] * len(rows)
    ways = [("relaxed-simd", "jit")] if has_native_relaxed_dot("jit") else []
    assert [(row["module"], row["engine"]) for row in rows] == [*ways, ("simd128", "jit"), ("simd128", "pulley")]
    for row in rows:
        # The first layer reads int8 over its whole range, the others 0 … 127.
        assert row["relaxed_layers"] == (2 if row["module"] == "relaxed-simd" else 0)
        assert row["kernel_us_median"] > 0
        assert row["call_us_median"] > 0
        assert row["fuel"] > 0
    assert len({row["fuel"] for row in rows if row["module"] == "simd128"}) == 1


def test_the_table_is_for_people() -> None:
    code, out, _ = run("--networks", SMALL, "--rounds", "3")
    assert code == 0
    assert "simd128" in out
    assert SMALL in out


@pytest.mark.parametrize(
    "arguments", [["--networks", "8"], ["--networks", ","], ["--rounds", "2"], ["--rounds", "10001"]]
)
def test_what_cannot_be_measured_is_refused(arguments: list[str]) -> None:
    assert run(*arguments)[0] != 0


def test_a_wrong_output_is_never_timed() -> None:
    model = bench_model(SMALL)
    wasm = emit_variants(graph_of(model)).plain
    row = np.array(bench_inputs(model, 1)[0])
    wrong = model.run(row[None])[0] + 1
    with pytest.raises(SitsError, match="bench-wrong"):
        kernel_loop(wasm, row, wrong, engine="jit", native_relaxed_dot=False)
    with Sandbox(wasm) as sandbox, pytest.raises(SitsError, match="bench-wrong"):
        call_loop(sandbox, row, wrong)


def test_a_network_of_other_widths_is_refused_by_name() -> None:
    with pytest.raises(SitsError) as refused:
        measure_network("0-1", 3)
    assert refused.value.code == "bench-network"
