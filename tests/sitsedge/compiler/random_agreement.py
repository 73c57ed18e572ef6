"""Random networks over all operators: reference = ONNX Runtime = both modules = the circuit's witness, input by input.

    python -m tests.sitsedge.compiler.random_agreement --networks 100 --rows 10000 --seed 0

Half of the networks are integer graphs made at random (``tests.support.random_graphs``), half are ONNX files made at
random (``importer.wide_nets``), imported, simplified and quantised with formats drawn at random; network i of these is
made to contain operator i of the registry. A quarter of the inputs are corners of the box, a quarter random, and half
are pairs of neighbours between which an output changes. Exits with 1 at the first difference, naming its seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime

from attest.proof.prover import run_circuit
from sitsedge.compiler.backends.circuit.emit import emit_circuit
from sitsedge.compiler.backends.onnx import emit_onnx
from sitsedge.compiler.backends.wasm import emit_wasm
from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph import integer_graph as ig
from sitsedge.compiler.graph.float_graph import Softmax
from sitsedge.compiler.graph.float_run import run as run_float
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser.formats import Format
from sitsedge.compiler.quantiser.problem import pose
from sitsedge.compiler.quantiser.scales import chooses
from sitsedge.compiler.quantiser.trial import trial
from sitsedge.sandbox import Sandbox, SandboxLimits
from tests.sitsedge.compiler.importer.models import onnx_outputs
from tests.sitsedge.compiler.importer.wide_nets import NAMES, wide_net
from tests.support.random_graphs import interesting_rows, random_graph

KINDS = tuple(kind.__name__ for kind in get_args(ig.Node))
CONTEXT = bytes(range(31))
WAYS = ("onnx runtime", "module", "relaxed module", "relaxed module, native", "circuit")
FLOAT_ROWS = 8
CALIBRATION_ROWS = 60
EDGE = 1000
DRAWS_MAX = 8
"""Formats drawn for one network before it counts as refused: some do not hold, which is a typed refusal, no fault."""


class Disagreement(AssertionError):
    """Two of the four differ; the text names the network, the way and the input."""


@dataclass(slots=True)
class Coverage:
    """What a run went through."""

    networks: int = 0
    inputs: int = 0
    constraints: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """Integer nodes and ONNX operators no network had."""
        return [name for name in KINDS if not self.kinds[name]] + [name for name in NAMES if not self.operators[name]]


def agree(graph: ig.IntegerGraph, rows: np.ndarray, name: str, coverage: Coverage) -> None:
    """All ways of ``WAYS`` give the reference's outputs on every row; raises ``Disagreement``."""
    wanted = run(graph, rows)
    for way in WAYS:
        started = time.perf_counter()
        got = _outputs(graph, rows, way, coverage)
        coverage.seconds[way] = coverage.seconds.get(way, 0.0) + time.perf_counter() - started
        different = np.flatnonzero((got != wanted).any(axis=1)) if got.shape == wanted.shape else np.zeros(1, int)
        if different.size:
            i = int(different[0])
            raise Disagreement(
                f"{name}: {way} gives {got[i].tolist()} for {rows[i].tolist()}, the reference {wanted[i].tolist()}"
                f" ({different.size} of {len(rows)} inputs)"
            )
    coverage.networks += 1
    coverage.inputs += len(rows)
    coverage.kinds.update(type(node).__name__ for node in graph.nodes)


def _outputs(graph: ig.IntegerGraph, rows: np.ndarray, way: str, coverage: Coverage) -> np.ndarray:
    if way == "onnx runtime":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(emit_onnx(graph), options, providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {"x": rows.astype(np.int16)})[0], np.int64)
    if way == "circuit":
        made = emit_circuit(graph)
        coverage.constraints += made.n_constraints
        return np.asarray(run_circuit(made.data, rows.tolist(), CONTEXT), np.int64)
    wasm = emit_wasm(graph, relaxed=way != "module")
    limits = SandboxLimits(wall_ms=10_000)
    with Sandbox(wasm, limits=limits, native_relaxed_dot=way.endswith("native")) as sandbox:
        return np.asarray([sandbox.infer(row) for row in rows.tolist()], np.int64)


def inputs_of(graph: ig.IntegerGraph, rows: int, seed: int) -> np.ndarray:
    """At least ``rows`` inputs inside the box."""
    return interesting_rows(graph, seed, count=-(-rows // 4))


def integer_network(seed: int) -> ig.IntegerGraph:
    """Two to seven nodes, for every fourth seed up to fifteen."""
    return random_graph(seed, nodes=8 + seed % 8 if seed % 4 == 0 else None)


def quantised_network(seed: int, wanted: str, coverage: Coverage) -> ig.IntegerGraph | None:
    """A random ONNX file as an integer graph, its float graph held to ONNX Runtime; None where formats never held."""
    data = wide_net(seed, wanted)
    operators = Counter(node.op_type for node in onnx.load_from_string(data).graph.node)
    graph, _ = simplify(import_graph_bytes(data).graph, check=False)
    rng = np.random.default_rng(seed)
    n = graph.input.size
    scale = 10.0 ** rng.uniform(-2.7, -2, n)
    counts = np.clip(np.rint(rng.normal(0, 1, (CALIBRATION_ROWS, n)) / scale), -EDGE, EDGE).astype(np.int64)
    raw = (counts * scale).reshape(CALIBRATION_ROWS, *graph.input.shape)
    floats = run_float(graph, raw).reshape(CALIBRATION_ROWS, -1)
    if "QuantizeLinear" not in operators:
        seen = raw[:FLOAT_ROWS].astype(np.float32).astype(np.float64)
        expected = onnx_outputs(data, seen)
        got = run_float(graph, seen).reshape(FLOAT_ROWS, -1)
        if not np.allclose(got, expected, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(expected).max()))):
            raise Disagreement(f"{wanted} {seed}: the imported graph is not the file's function")
    last = graph.by_name()[graph.output]
    is_class = isinstance(last, Softmax) or last.kind == "ArgMax"
    outputs = np.ones(1) if is_class else np.maximum(np.ptp(floats, axis=0), np.abs(floats).max() * 1e-3 + 1e-6) / 1000
    scales = Scales(scale, outputs, np.full(n, -EDGE), np.full(n, EDGE))
    problem = pose(graph, scales, counts, raw.reshape(CALIBRATION_ROWS, n), class_output=is_class)
    refusal = ""
    for _ in range(DRAWS_MAX):
        formats = {node.name: _format(rng) for node in problem.graph.nodes if chooses(node)}
        try:
            made = trial(problem, formats, Goal(), {}).graph
        except QuantiseError as error:
            refusal = str(error)
            continue
        coverage.operators.update(operators)
        return made
    coverage.refused.append(f"{wanted} {seed}: {refusal}")
    return None


def _format(rng: np.random.Generator) -> Format:
    fine = bool(rng.random() < 0.3)
    if rng.random() < 0.4:
        return Format(7, saturate=True, rule=str(rng.choice(["min-max", "percentile", "mse"])), fine=fine)
    return Format(int(rng.integers(4, 13)), saturate=bool(rng.random() < 0.5), fine=fine)


def networks(count: int, seed: int, coverage: Coverage) -> Iterator[tuple[str, ig.IntegerGraph, int]]:
    """``count`` networks, turn by turn of the two sorts, with a seed for their inputs."""
    for i in range(count):
        own = seed + i // 2
        if i % 2:
            wanted = NAMES[own % len(NAMES)]
            graph = quantised_network(own, wanted, coverage)
            name = f"quantised {wanted} {own}"
        else:
            graph, name = integer_network(own), f"integer {own}"
        if graph is not None:
            yield name, graph, own


def run_all(*, count: int, rows: int, seed: int, progress: Any = None) -> Coverage:
    """``count`` networks with ``rows`` inputs each; raises ``Disagreement``."""
    coverage = Coverage()
    for name, graph, own in networks(count, seed, coverage):
        agree(graph, inputs_of(graph, rows, own), name, coverage)
        if progress is not None:
            progress(name, graph, coverage)
    return coverage


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", type=int, default=2 * len(NAMES), help="default: every operator once")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    started = time.monotonic()

    def progress(name: str, graph: ig.IntegerGraph, coverage: Coverage) -> None:
        _say(f"{time.monotonic() - started:7.0f} s  {coverage.networks:4}  {name}: {len(graph.nodes)} nodes")

    try:
        coverage = run_all(count=options.networks, rows=options.rows, seed=options.seed, progress=progress)
    except Disagreement as found:
        _say(f"DIFFERENT: {found}")
        return 1
    seconds = ", ".join(f"{way} {spent:.0f} s" for way, spent in coverage.seconds.items())
    _say(f"{coverage.networks} networks, {coverage.inputs} inputs, {coverage.constraints} constraints, {seconds}")
    for what, counted in (("integer nodes", coverage.kinds), ("operators", coverage.operators)):
        _say(f"{what}: " + ", ".join(f"{name} {number}" for name, number in sorted(counted.items())))
    _say("\n  ".join([f"formats never held for {len(coverage.refused)} networks", *coverage.refused]))
    if missing := coverage.missing():
        _say("NOT COVERED: " + ", ".join(missing))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
