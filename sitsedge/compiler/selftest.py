"""The self-test of one build: reference, ONNX Runtime, WASM (both modules, both engines) and circuit must agree.

First the circuit's rows are shown to admit one witness per input inside the box (attest.proof.uniqueness), whatever a
prover might try. Then everything runs on calibration rows, the corners of the box (all of them up to eight inputs, else
a fixed sample) and rows built to hit the requantise boundaries. Nothing is written when anything differs.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
import onnxruntime

from attest.proof.builder import Interval
from attest.proof.circuit import decode
from attest.proof.errors import PROOF_PAIRING, CircuitError
from attest.proof.keys import key_hash
from attest.proof.prover import Groth16Prover, first_unsatisfied
from attest.proof.uniqueness import require_unique
from attest.proof.verifier import NativeVerifier, failed_check
from sitsedge.compiler.errors import SelfTestError
from sitsedge.compiler.graph.model import Executable
from sitsedge.compiler.reference import Ints
from sitsedge.compiler.wasm_check import memory_pages
from sitsedge.sandbox import Sandbox, SandboxInputError, SandboxLimits, has_native_relaxed_dot
from sitsedge.sandbox.limits import PAGE, WALL_MS_MAX

CORNERS_MAX = 256
ROWS_MAX = 512
CIRCUIT_ROWS_MAX = 48
"""Witness checks take a millisecond each for a control network and more for larger ones."""

FUEL_MAX = 1 << 40
MEMORY_BYTES_LEAST = 16 << 20
"""What a module under test may use: it is the compiler's own, and how much it needs is what the test finds out."""

PROOFS = 5
"""Proofs made and verified; their median time goes into the report."""

_CONTEXT = bytes(range(31))


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How many rows were compared, the fuel one call used (the same for every row), and the proof's figures.

    ``relaxed`` says how the relaxed module was tested: ``native`` (this machine's own dot product), ``portable`` (the
    deterministic form of another machine), or ``same`` where it equals the plain one.
    """

    rows: int
    corners: int
    circuit_rows: int
    fuel_per_call: int
    fuel_per_call_relaxed: int
    relaxed: str
    constraints: int
    domain_size: int
    proof_ms: float


def corner_rows(model: Executable) -> Ints:
    """Corners of the box: every one for up to eight inputs, else a fixed sample with the two extremes."""
    n = model.n_inputs
    if 1 << n <= CORNERS_MAX:
        picks = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    else:
        picks = np.random.default_rng(n).integers(0, 2, (CORNERS_MAX, n))
        picks[0], picks[1] = 0, 1
    return np.where(picks == 1, model.box_high, model.box_low)


def boundary_rows(model: Executable, base: Ints) -> Ints:
    """Rows one count apart along each input: sums that step across requantise and ReLU boundaries."""
    rows = []
    for j in range(min(model.n_inputs, 32)):
        for step in (-1, 1):
            row = base[j % len(base)].copy()
            row[j] = np.clip(row[j] + step, model.box_low[j], model.box_high[j])
            rows.append(row)
    return np.array(rows, dtype=np.int64)


def run_selftest(
    model: Executable,
    *,
    wasm: bytes,
    wasm_relaxed: bytes,
    graph: bytes,
    circuit: bytes,
    keys: tuple[bytes, bytes],
    rows: Ints,
) -> SelfTest:
    """Compare all artefacts; ``rows`` are calibration rows in counts, ``keys`` proving and verification key.

    Raises ``SelfTestError``.
    """
    _require_unique(model, circuit)
    corners = corner_rows(model)
    sample = rows[np.linspace(0, len(rows) - 1, min(len(rows), ROWS_MAX)).astype(np.int64)]
    tested = np.concatenate([corners, sample, boundary_rows(model, sample)])
    expected = model.run(tested)
    _compare("integer ONNX graph", _run_onnx(graph, tested), expected, tested)
    fuel = 0
    for engine in ("jit", "pulley"):
        values, fuel = _run_wasm(wasm, engine, tested, model)
        _compare(f"WASM ({engine})", values, expected, tested)
    fuel_relaxed, relaxed = fuel, "same"
    if wasm_relaxed != wasm:
        native = has_native_relaxed_dot("jit")
        relaxed = "native" if native else "portable"
        values, fuel_relaxed = _run_wasm(wasm_relaxed, "jit", tested, model, native_relaxed_dot=native)
        _compare(f"relaxed WASM ({relaxed})", values, expected, tested)
    picked = np.linspace(0, len(tested) - 1, min(len(tested), CIRCUIT_ROWS_MAX)).astype(np.int64)
    proof_ms, prover = _run_circuit(circuit, keys, tested[picked], expected[picked])
    return SelfTest(
        rows=len(tested),
        corners=len(corners),
        circuit_rows=len(picked),
        fuel_per_call=fuel,
        fuel_per_call_relaxed=fuel_relaxed,
        relaxed=relaxed,
        constraints=prover.n_constraints,
        domain_size=prover.domain_size,
        proof_ms=proof_ms,
    )


def _require_unique(model: Executable, circuit: bytes) -> None:
    box = [Interval(int(low), int(high)) for low, high in zip(model.box_low, model.box_high, strict=True)]
    try:
        require_unique(decode(circuit), box)
    except CircuitError as error:
        raise _circuit_error(error.found, error.expected) from error


def _compare(what: str, got: Ints, expected: Ints, rows: Ints) -> None:
    different = np.flatnonzero((got != expected).any(axis=1))
    if different.size:
        i = int(different[0])
        raise SelfTestError(
            "selftest",
            found=f"{what} gives {got[i].tolist()} for {rows[i].tolist()}",
            expected=f"{expected[i].tolist()} as the reference",
            hint="a fault of the compiler; please report it with the model",
        )


def _run_onnx(graph: bytes, rows: Ints) -> Ints:
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": rows.astype(np.int16)})[0], dtype=np.int64)


def _run_wasm(
    wasm: bytes, engine: str, rows: Ints, model: Executable, *, native_relaxed_dot: bool = False
) -> tuple[Ints, int]:
    limits = SandboxLimits(
        fuel=FUEL_MAX, memory_bytes=max(MEMORY_BYTES_LEAST, memory_pages(wasm) * PAGE), wall_ms=WALL_MS_MAX
    )
    with Sandbox(wasm, limits=limits, engine=engine, native_relaxed_dot=native_relaxed_dot) as sandbox:
        values = np.array([sandbox.infer(row) for row in rows.tolist()], dtype=np.int64)
        fuel = sandbox.fuel_used
        for j in range(model.n_inputs):
            for edge in (model.box_low[j] - 1, model.box_high[j] + 1):
                row = model.box_low.copy()
                row[j] = edge
                _expect_refusal(sandbox, row.tolist())
    return values, fuel


def _expect_refusal(sandbox: Sandbox, row: list[int]) -> None:
    try:
        found = sandbox.infer(row)
    except SandboxInputError:
        return
    raise SelfTestError(
        "selftest", found=f"WASM accepts {row} outside the box: {found}", expected="status 1 for inputs outside"
    )


def _run_circuit(circuit: bytes, keys: tuple[bytes, bytes], rows: Ints, expected: Ints) -> tuple[float, Groth16Prover]:
    """Witness of every row against the reference and the constraints, one proof against the key."""
    prover = Groth16Prover(circuit, keys[0])
    first_output, r = 1 + prover.n_inputs, prover.curve.parameters.r
    for row, values in zip(rows.tolist(), expected.tolist(), strict=True):
        wires = prover.witness(row, _CONTEXT)
        outputs = wires[first_output : first_output + prover.n_outputs]
        if outputs != [value % r for value in values]:
            raise _circuit_error(f"outputs {outputs} for {row}", f"{values} as the reference")
        if (index := first_unsatisfied(circuit, wires)) is not None:
            raise _circuit_error(f"constraint {index} unsatisfied for {row}", "a satisfied circuit")
        wires[first_output] = (wires[first_output] + 1) % r
        if first_unsatisfied(circuit, wires) is None:
            raise _circuit_error(f"a wrong output accepted for {row}", "an unsatisfied constraint")
    verifier = NativeVerifier(keys[1], vk_sha256=key_hash(keys[1]))
    durations = []
    for row, values in zip(rows[:PROOFS].tolist(), expected[:PROOFS].tolist(), strict=True):
        started = time.perf_counter_ns()
        proven = prover.prove(row, _CONTEXT)
        durations.append((time.perf_counter_ns() - started) / 1e6)
        check = failed_check(verifier, row, values, _CONTEXT, proven.proof)
        if list(proven.outputs) != values or check is not None:
            raise _circuit_error(f"a proof refused for {row}", "a proof that verifies")
        wrong = [values[0] + 1, *values[1:]]
        if (check := failed_check(verifier, row, wrong, _CONTEXT, proven.proof)) != PROOF_PAIRING:
            raise _circuit_error(f"check {check} for wrong outputs", PROOF_PAIRING)
    return statistics.median(durations), prover


def _circuit_error(found: str, expected: str) -> SelfTestError:
    return SelfTestError(
        "selftest",
        found=f"circuit: {found}",
        expected=expected,
        hint="a fault of the compiler; please report it with the model",
    )
