"""``module evaluate``: what a network loses as integers, without keys, circuit or signature.

For networks that no bundle can hold yet, public image models above all: the integer graph, its ONNX and WebAssembly
forms, checked against each other on rows that took no part in the choice of scales, and how far the circuit is from
its format's limits. What comes out is for judging a model; the loop runs signed bundles only.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from attest.proof.circuit import CONSTRAINTS_MAX, SIGNALS_MAX
from sitsedge.compiler.backends.onnx import emit_onnx
from sitsedge.compiler.backends.wasm import emit_wasm
from sitsedge.compiler.errors import CompileError, SelfTestError
from sitsedge.compiler.evaluation_rows import Scaling, read_rows, scaling_of
from sitsedge.compiler.graph.float_graph import FloatGraph, Floats, Softmax
from sitsedge.compiler.graph.float_run import run as run_float
from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.importer import import_graph
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantise import Goal, Scales
from sitsedge.compiler.quantiser.search import Prefer, quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.compiler.reference import Ints
from sitsedge.compiler.wasm_check import memory_pages, require_integer_only
from sitsedge.sandbox import Sandbox, SandboxLimits, has_native_relaxed_dot
from sitsedge.sandbox.limits import PAGE, WALL_MS_MAX

HELD_EVERY = 3
"""Where no held-out file is given, every third row is held out."""

OUTPUT_COUNTS = 30_000
"""Counts of the largest output seen: fine enough to cost nothing, and inside int16 for what reads it."""

RUN_ELEMENTS_MAX = 1 << 24
"""Elements of all values held at once while a network runs over rows: 128 MiB."""

FUEL_MAX = 1 << 40
"""The module is the compiler's own; how much it needs is what the evaluation finds out."""

MEMORY_BYTES_LEAST = 1 << 20
WORST_LAYERS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The integer graph, its unsigned artefacts and the report (plain data)."""

    quantised: QuantisedGraph
    wasm: bytes
    wasm_relaxed: bytes
    integer_onnx: bytes
    report: dict[str, Any]


def evaluate(
    onnx_path: Path,
    calibration: Path,
    *,
    held_out: Path | None = None,
    input_shape: tuple[int, ...] | None = None,
    input_scale: float | None = None,
    goal: Goal | None = None,
    prefer: Prefer = "speed",
) -> Evaluation:
    """Quantise on the rows of ``calibration`` (.npy, physical units), judge on those of ``held_out``.

    ``input_shape`` fixes open sizes of the file (batch included), ``input_scale`` is the physical value of one count:
    by default one for each signal of a flat input, and one for all of a picture or a series. A final softmax is left
    out, as it does not change the class. Raises ``CompileError`` and its subclasses; ``SelfTestError`` where two forms
    of the network differ on a held-out row.
    """
    graph, operators = _network(onnx_path, input_shape)
    given = read_rows(calibration, graph.input.size)
    held = given[HELD_EVERY - 1 :: HELD_EVERY] if held_out is None else read_rows(held_out, graph.input.size)
    fit = np.delete(given, np.s_[HELD_EVERY - 1 :: HELD_EVERY], axis=0) if held_out is None else given
    if not len(fit) or not len(held):
        raise CompileError("rows", found=f"{len(fit)} rows to fit, {len(held)} held out", expected="some of both")
    scaling = scaling_of(fit, input_scale, each=len(graph.input.shape) == 1)
    wanted = [_float_rows(graph, rows) for rows in (fit, held)]
    unit = max(float(np.abs(wanted[0]).max()), 1e-30) / OUTPUT_COUNTS
    scales = Scales(
        inputs=scaling.scale,
        outputs=np.full(wanted[0].shape[1], unit),
        box_low=scaling.low,
        box_high=scaling.high,
    )
    counts = [scaling.counts(rows) for rows in (fit, held)]
    quantised = quantise_graph(
        graph, scales, counts[0], np.asarray(counts[0] * scaling.scale), goal=goal or Goal(), prefer=prefer
    )  # fmt: skip
    return _judged(onnx_path.name, quantised, operators, wanted, counts, unit, scaling.outside(held), scaling)


def _network(path: Path, input_shape: tuple[int, ...] | None) -> tuple[FloatGraph, dict[str, int]]:
    imported = import_graph(path, input_shape=input_shape)
    graph, _ = simplify(imported.graph)
    last = graph.by_name()[graph.output]
    if isinstance(last, Softmax):
        graph = replace(graph, nodes=tuple(n for n in graph.nodes if n is not last), output=last.inputs[0])
    return graph, dict(imported.operators)


def _float_rows(graph: FloatGraph, rows: Floats) -> Floats:
    at_once = max(1, RUN_ELEMENTS_MAX // sum(node.size for node in graph.nodes))
    parts = [run_float(graph, rows[start : start + at_once]) for start in range(0, len(rows), at_once)]
    return np.concatenate([part.reshape(len(part), -1) for part in parts])


def _integer_rows(graph: IntegerGraph, rows: Ints) -> Ints:
    at_once = max(1, RUN_ELEMENTS_MAX // sum(int(np.prod(shape)) for shape in graph.shapes.values()))
    return np.concatenate([run(graph, rows[start : start + at_once]) for start in range(0, len(rows), at_once)])


def _judged(
    name: str,
    quantised: QuantisedGraph,
    operators: dict[str, int],
    wanted: list[Floats],
    counts: list[Ints],
    unit: float,
    outside: int,
    scaling: Scaling,
) -> Evaluation:
    graph = quantised.graph
    wasm, relaxed, onnx_bytes = emit_wasm(graph), emit_wasm(graph, relaxed=True), emit_onnx(graph)
    for module in (wasm, relaxed):
        require_integer_only(module)
    got = [_integer_rows(graph, rows) for rows in counts]
    runs = _agreement(counts[1], got[1], wasm=wasm, relaxed=relaxed, onnx_bytes=onnx_bytes)
    span = np.maximum(np.ptp(wanted[0], axis=0), unit)
    worst = sorted(quantised.layers.items(), key=lambda item: -item[1])[:WORST_LAYERS]
    report: dict[str, Any] = {
        "model": name,
        "signed": False,
        "operators": operators,
        "nodes": len(graph.nodes),
        "inputs": {
            "count": graph.n_inputs,
            "scale": [float(scaling.scale.min()), float(scaling.scale.max())],
            "box": [int(scaling.low.min()), int(scaling.high.max())],
        },
        "outputs": {"count": graph.n_outputs, "scale": unit},
        "accuracy": {
            "calibration": _accuracy(np.asarray(got[0] * unit), wanted[0], span),
            "held_out": _accuracy(np.asarray(got[1] * unit), wanted[1], span) | {"inputs_outside_box": outside},
        },
        "worst_layers": [{"value": value, "error": error} for value, error in worst],
        "layers_off_the_fast_kernel": quantised.wide,
        "bytes": {"wasm": len(wasm), "wasm_relaxed": len(relaxed), "integer_onnx": len(onnx_bytes)},
        "runs": runs,
        "proof": _proof(quantised),
    }
    return Evaluation(quantised, wasm, relaxed, onnx_bytes, report)


def _accuracy(got: Floats, wanted: Floats, span: Floats) -> dict[str, float | int]:
    """Errors relative to each output's span on the calibration rows; the class is the largest output's index."""
    error = (got - wanted) / span
    found: dict[str, float | int] = {
        "rows": len(got),
        "rms": float(np.sqrt((error**2).mean(axis=0)).max()),
        "peak": float(np.abs(error).max()),
    }
    if got.shape[1] > 1:
        found["same_class"] = float((got.argmax(axis=1) == wanted.argmax(axis=1)).mean())
    return found


def _agreement(rows: Ints, expected: Ints, *, wasm: bytes, relaxed: bytes, onnx_bytes: bytes) -> dict[str, Any]:
    """Every held-out row through ONNX Runtime and both modules; raises ``SelfTestError`` at the first difference."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_bytes, options, providers=["CPUExecutionProvider"])
    got = [session.run(None, {"x": row[None].astype(np.int16)})[0][0] for row in rows]
    _same("integer ONNX graph", np.array(got, dtype=np.int64), expected)
    native = has_native_relaxed_dot("jit")
    runs: dict[str, Any] = {"rows": len(rows)}
    for variant, module, dot in (("simd128", wasm, False), ("relaxed_simd", relaxed, native)):
        limits = SandboxLimits(
            fuel=FUEL_MAX,
            memory_bytes=max(MEMORY_BYTES_LEAST, memory_pages(module) * PAGE),
            wall_ms=WALL_MS_MAX,
            signals=max(SIGNALS_MAX, rows.shape[1], expected.shape[1]),
        )
        seconds, values = [], []
        with Sandbox(module, limits=limits, native_relaxed_dot=dot) as sandbox:
            for row in rows.tolist():
                start = time.perf_counter()
                values.append(sandbox.infer(row))
                seconds.append(time.perf_counter() - start)
            fuel = sandbox.fuel_used
        _same(f"WASM ({variant})", np.array(values, dtype=np.int64), expected)
        runs[variant] = {"fuel_per_call": fuel, "call_ms_median": 1e3 * statistics.median(seconds)}
    return runs


def _same(what: str, got: Ints, expected: Ints) -> None:
    different = np.flatnonzero((got != expected).any(axis=1))
    if different.size:
        i = int(different[0])
        raise SelfTestError(
            "selftest",
            found=f"{what} gives {got[i][:8].tolist()} for held-out row {i}",
            expected=f"{expected[i][:8].tolist()} as the reference",
            hint="a fault of the compiler; please report it with the model",
        )


def _proof(quantised: QuantisedGraph) -> dict[str, Any]:
    """What a circuit would need against what its format holds; the constraints are the search's estimate."""
    graph = quantised.graph
    figures = (
        ("constraints (estimated)", quantised.rows, CONSTRAINTS_MAX),
        ("inputs", graph.n_inputs, SIGNALS_MAX),
        ("outputs", graph.n_outputs, SIGNALS_MAX),
    )
    over = [f"{found} {what}, limit {limit}" for what, found, limit in figures if found > limit]
    return {
        "possible": not over,
        "constraints_estimated": quantised.rows,
        "constraints_max": CONSTRAINTS_MAX,
        "signals_max": SIGNALS_MAX,
        "why_not": over,
    }
