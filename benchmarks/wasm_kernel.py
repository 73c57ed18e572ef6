"""Time of an integer network in WebAssembly against C compiled for this machine, and of a call from Python, in one run.

    python -m benchmarks.wasm_kernel [--rounds N]

A chain of Dense layers with 7-bit activations (64-128-64-8) is emitted as both WebAssembly variants and as C from the
same integer graph. The C is compiled by every compiler found (clang, gcc) with ``-O3 -march=native`` in eight forms:
weights as int8 or int16, activations as int16 or uint8, sums row by row or column by column; the fastest counts. Every
program's outputs are compared with the reference first. Kernels run a thousand times inside one call, C in a loop of
its own, WebAssembly in a loop of a second module; the sandbox's metering stays on, and the guest checks its inputs,
which the C does not. Times are this thread's CPU time, medians of interleaved rounds. clang (Debian: ``apt install
clang``) is needed for this benchmark alone.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sitsedge.bench.inference import CALLS, call_loop, kernel_loop, medians
from sitsedge.compiler.backends.wasm import emit_wasm
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph
from sitsedge.compiler.graph.integer_weighted import Dense
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN
from sitsedge.sandbox import Sandbox

SIZES = (64, 128, 64, 8)
COMPILERS = ("clang", "gcc")


def network(sizes: tuple[int, ...] = SIZES, seed: int = 1) -> IntegerGraph:
    """Random int8 weights, inputs and hidden activations in 0 … 127, int32 outputs."""
    rng = np.random.default_rng(seed)
    nodes = []
    source = "x"
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        last = i == len(sizes) - 2
        nodes.append(
            Dense.make(
                f"l{i}",
                source,
                weights=rng.integers(-127, 128, (outputs, inputs)),
                bias=rng.integers(-1000, 1000, outputs),
                shift=0 if last else 10,
                low=INT32_MIN if last else 0,
                high=INT32_MAX if last else 127,
            )
        )
        source = f"l{i}"
    graph = IntegerGraph.make(Input.make("x", (sizes[0],), box_low=0, box_high=127), tuple(nodes))
    prove(graph)
    return graph


@dataclass(frozen=True, slots=True)
class CForm:
    """One way to write the chain in C: the types of weights and activations, and which loop is the inner one."""

    weights: str
    activations: str
    columns: bool

    def __str__(self) -> str:
        short = {"int8_t": "i8", "int16_t": "i16", "uint8_t": "u8"}
        layout = "columns" if self.columns else "rows"
        return f"{short[self.weights]} by {short[self.activations]}, {layout}"


FORMS = tuple(
    CForm(weights, activations, columns)
    for columns in (False, True)
    for activations in ("int16_t", "uint8_t")
    for weights in ("int8_t", "int16_t")
)


def c_source(graph: IntegerGraph, form: CForm) -> str:
    """The chain as C with constant trip counts; values are proven in 0 … 127, so every form's types hold them."""
    lines = ["#include <stdint.h>", ""]
    body = []
    source = "x"
    for i, node in enumerate(graph.nodes):
        assert isinstance(node, Dense), "a chain of Dense layers"
        outputs, inputs = node.weights.shape
        last = i == len(graph.nodes) - 1
        target = "y" if last else f"h{i}"
        columns = node.columns().T if form.columns else node.columns()
        numbers = ", ".join(str(int(w)) for w in columns.reshape(-1))
        start = ", ".join(str(int(b)) for b in node.bias + node.rounding)
        lines.append(f"static const {form.weights} w{i}[{columns.shape[0]}][{columns.shape[1]}] = {{{numbers}}};")
        lines.append(f"static const int32_t b{i}[{outputs}] = {{{start}}};")
        if not last:
            body.append(f"  {form.activations} h{i}[{outputs}];")
        clamp = "acc" if last else f"acc < {node.low[0]} ? {node.low[0]} : acc > {node.high[0]} ? {node.high[0]} : acc"
        if form.columns:
            body += [
                f"  int32_t a{i}[{outputs}];",
                f"  for (int i = 0; i < {outputs}; i++) a{i}[i] = b{i}[i];",
                f"  for (int j = 0; j < {inputs}; j++)",
                f"    for (int i = 0; i < {outputs}; i++) a{i}[i] += (int32_t)w{i}[j][i] * {source}[j];",
            ]
        body += [
            f"  for (int i = 0; i < {outputs}; i++) {{",
            f"    int32_t acc = {f'a{i}' if form.columns else f'b{i}'}[i];",
            *(
                []
                if form.columns
                else [f"    for (int j = 0; j < {inputs}; j++) acc += (int32_t)w{i}[i][j] * {source}[j];"]
            ),
            f"    acc >>= {int(node.shift[0])};",
            f"    {target}[i] = {clamp};",
            "  }",
        ]
        source = target
    kind = form.activations
    lines += ["", f"__attribute__((noinline)) void infer(const {kind} *restrict x, int32_t *restrict y) {{", *body, "}"]
    # The barrier keeps the compiler from doing the same work once.
    lines.append(f"void run(const {kind} *x, int32_t *y, int n) {{")
    lines.append('  for (int i = 0; i < n; i++) { infer(x, y); __asm__ volatile("" ::: "memory"); }')
    lines.append("}")
    return "\n".join(lines) + "\n"


def c_kernels(
    graph: IntegerGraph, row: np.ndarray, folder: Path, forms: Sequence[CForm] = FORMS
) -> dict[str, Callable[[], object]]:
    """A program for every compiler found and every form, each checked against the reference."""
    found: dict[str, Callable[[], object]] = {}
    wanted = run(graph, row).tolist()
    for compiler, (number, form) in itertools.product(COMPILERS, enumerate(forms)):
        path = shutil.which(compiler)
        if path is None:
            continue
        source = folder / f"form{number}.c"
        source.write_text(c_source(graph, form))
        library = folder / f"{compiler}-{number}.so"
        command = [path, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        program = ctypes.CDLL(str(library)).run
        kind = ctypes.c_uint8 if form.activations == "uint8_t" else ctypes.c_int16
        given = (kind * len(row))(*row.tolist())
        result = (ctypes.c_int32 * len(wanted))()
        program(given, result, 1)
        assert list(result) == wanted, f"{compiler}, {form} differs from the reference"
        found[f"{compiler} {form}"] = partial(program, given, result, CALLS)
    return found


def wasm_kernel(graph: IntegerGraph, row: np.ndarray, *, relaxed: bool, native: bool) -> Callable[[], object]:
    """The guest in a loop of a second module; ``native`` lets relaxed instructions be the machine's own."""
    wasm = emit_wasm(graph, relaxed=relaxed)
    return kernel_loop(wasm, row, run(graph, row), engine="jit", native_relaxed_dot=native)


def calls(graph: IntegerGraph, row: np.ndarray, *, relaxed: bool) -> tuple[Sandbox, Callable[[], object]]:
    """``Sandbox.infer`` of the product, with all its checks."""
    sandbox = Sandbox(emit_wasm(graph, relaxed=relaxed), native_relaxed_dot=relaxed)
    return sandbox, call_loop(sandbox, row, run(graph, row))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=41)
    rounds = parser.parse_args().rounds
    graph = network()
    row = np.random.default_rng(2).integers(0, 128, SIZES[0])
    with tempfile.TemporaryDirectory() as folder:
        native = c_kernels(graph, row, Path(folder))
        plain, plain_calls = calls(graph, row, relaxed=False)
        relaxed, relaxed_calls = calls(graph, row, relaxed=True)
        with plain, relaxed:
            programs = native | {
                "wasm simd128": wasm_kernel(graph, row, relaxed=False, native=False),
                "wasm relaxed, portable": wasm_kernel(graph, row, relaxed=True, native=False),
                "wasm relaxed, native": wasm_kernel(graph, row, relaxed=True, native=True),
                "call, simd128": plain_calls,
                "call, relaxed": relaxed_calls,
            }
            times = medians(programs, rounds)
    missing = [compiler for compiler in COMPILERS if shutil.which(compiler) is None]
    report(times, list(native), missing, rounds)


def report(times: dict[str, float], native: list[str], missing: list[str], rounds: int) -> None:
    """Print every time, and of the kernels the ratio to the fastest C."""
    print(f"{'-'.join(map(str, SIZES))} on {platform.machine()}, {rounds} rounds of {CALLS}, median microseconds")
    best = min(native, key=lambda name: times[name], default=None)
    for name, value in sorted(times.items(), key=lambda item: (item[0] not in native, item[1])):
        ratio = f"{value / times[best]:8.2f} × the fastest C" if best and name.startswith("wasm") else ""
        print(f"  {name:32}{value:8.3f}{ratio}")
    if missing:
        print(f"  not here: {', '.join(missing)}")


if __name__ == "__main__":
    main()
