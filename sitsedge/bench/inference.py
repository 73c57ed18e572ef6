"""Times a network in the sandbox: what ``sitsctl bench inference`` prints.

Two times of each way to run it (module and engine). *Kernel*: ``sits_infer`` called in a loop of a second module, so
that neither Python nor the way into the guest counts. *Call*: ``Sandbox.infer`` from Python with all its checks. Both
are this thread's CPU time over many calls, medians of rounds in which every way has its turn, after an untimed one.
Metering is on in both, as in the loop. Every way's outputs are compared with the reference first.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import wasmtime

from sitsedge.bench.networks import bench_inputs, bench_model
from sitsedge.compiler.backends.wasm import Variants, emit_variants
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.reference import Ints
from sitsedge.errors import SitsError
from sitsedge.sandbox import Sandbox, SandboxLimits, has_native_relaxed_dot
from sitsedge.sandbox.engine import make_engine
from sitsedge.sandbox.sandbox import RELAXED_SIMD, SIMD128

ROUNDS: Final = 41
ROUNDS_MIN: Final = 3
ROUNDS_MAX: Final = 10_000
CALLS: Final = 1_000
"""Calls of one timed run: long beside the clock's resolution, short beside what else a machine does."""

DRIVER: Final = """(module (import "guest" "infer" (func $infer (result i32)))
  (func (export "run") (param $left i32)
    (loop $again
      (drop (call $infer))
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"""

Program = Callable[[], object]


@dataclass(frozen=True, slots=True)
class InferenceRow:
    """One way to run a network; times in microseconds, ``fuel`` units of one call."""

    network: str
    module: str
    engine: str
    module_bytes: int
    relaxed_layers: int
    fuel: int
    kernel_us_median: float
    call_us_median: float

    def as_data(self) -> dict[str, Any]:
        """Plain data with exactly these members."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Way:
    module: str
    engine: str
    wasm: bytes
    relaxed_layers: int


def _ways(made: Variants) -> list[_Way]:
    """What some machine's loop or gate would run, as far as this one can."""
    plain = [_Way(SIMD128, engine, made.plain, 0) for engine in ("jit", "pulley")]
    if made.relaxed == made.plain or not has_native_relaxed_dot("jit"):
        return plain
    return [_Way(RELAXED_SIMD, "jit", made.relaxed, len(made.relaxed_nodes)), *plain]


def kernel_loop(
    wasm: bytes, inputs: Ints, expected: Ints, *, engine: str, native_relaxed_dot: bool, calls: int = CALLS
) -> Program:
    """``calls`` calls of the guest in a loop of a second module; raises :class:`SitsError` ``bench-wrong``."""
    made = make_engine(engine, SandboxLimits(), native_relaxed_dot=native_relaxed_dot)
    store = wasmtime.Store(made)
    store.set_fuel(1 << 62)
    store.set_epoch_deadline(1 << 40)
    exports = wasmtime.Instance(store, wasmtime.Module(made, wasm), []).exports(store)
    at = {name: exports[f"sits_{name}"](store) for name in ("input", "output")}
    memory = exports["memory"]
    assert isinstance(memory, wasmtime.Memory), "the compiler's modules export their memory"
    memory.write(store, inputs.astype("<i4").tobytes(), at["input"])
    driver = wasmtime.Module(made, wasmtime.wat2wasm(DRIVER))
    loop = wasmtime.Instance(store, driver, [exports["sits_infer"]]).exports(store)["run"]
    assert isinstance(loop, wasmtime.Func), "the driver exports a function"
    loop(store, 1)
    result = memory.read(store, at["output"], at["output"] + 4 * expected.size)
    _require_equal(np.frombuffer(bytes(result), "<i4").astype(np.int64), expected)
    return partial(loop, store, calls)


def call_loop(sandbox: Sandbox, inputs: Ints, expected: Ints, *, calls: int = CALLS) -> Program:
    """``calls`` calls of ``Sandbox.infer``; raises :class:`SitsError` ``bench-wrong``."""
    given = inputs.tolist()
    _require_equal(np.array(sandbox.infer(given)), expected)

    def several() -> None:
        for _ in range(calls):
            sandbox.infer(given)

    return several


def _require_equal(found: Ints, expected: Ints) -> None:
    if not np.array_equal(found, expected):
        raise SitsError("bench-wrong", found=f"outputs {found.tolist()}", expected=f"{expected.tolist()}")


def medians(programs: dict[str, Program], rounds: int, *, calls: int = CALLS) -> dict[str, float]:
    """Microseconds for one call: medians of rounds in which every program runs once, and once untimed before.

    The untimed run takes what the program before it left behind: after 512-bit code the next one was a third slower.
    """
    taken: dict[str, list[int]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            program()
            before = time.thread_time_ns()
            program()
            taken[name].append(time.thread_time_ns() - before)
    return {name: statistics.median(times) / calls / 1000 for name, times in taken.items()}


def measure_network(network: str, rounds: int) -> list[InferenceRow]:
    """Every way to run ``network`` here. Raises :class:`SitsError` ``bench-network``."""
    model = bench_model(network)
    graph = graph_of(model)
    inputs = np.array(bench_inputs(model, 1)[0])
    expected = model.run(inputs[None])[0]
    ways = _ways(emit_variants(graph))
    programs: dict[str, Program] = {}
    fuel = {}
    with ExitStack() as stack:
        for number, way in enumerate(ways):
            native = way.module == RELAXED_SIMD
            sandbox = stack.enter_context(Sandbox(way.wasm, engine=way.engine, native_relaxed_dot=native))
            programs[f"kernel {number}"] = kernel_loop(
                way.wasm, inputs, expected, engine=way.engine, native_relaxed_dot=native
            )
            programs[f"call {number}"] = call_loop(sandbox, inputs, expected)
            fuel[number] = sandbox.fuel_used
        times = medians(programs, rounds)
    return [
        InferenceRow(
            network=network,
            module=way.module,
            engine=way.engine,
            module_bytes=len(way.wasm),
            relaxed_layers=way.relaxed_layers,
            fuel=fuel[number],
            kernel_us_median=round(times[f"kernel {number}"], 4),
            call_us_median=round(times[f"call {number}"], 4),
        )
        for number, way in enumerate(ways)
    ]


def measure_inference(networks: Sequence[str], rounds: int) -> Iterator[InferenceRow]:
    """Every network in turn."""
    for network in networks:
        yield from measure_network(network, rounds)
