"""The sandbox: ABI, limits and their typed errors on both engines, with real guest modules."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import wasmtime
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.sandbox import (
    Sandbox,
    SandboxAbiError,
    SandboxBusyError,
    SandboxError,
    SandboxFuelError,
    SandboxInputError,
    SandboxLimits,
    SandboxMemoryError,
    SandboxTimeError,
    SandboxTrapError,
)
from sitsedge.sandbox.limits import EVALUATED_SIGNALS_MAX, FUEL_SPARE, WALL_MS_LEAST, WALL_MS_MAX

SAMPLE = Path(__file__).resolve().parents[3] / "wasm_modules" / "samples" / "first_difference.wat"
ENGINES = ("jit", "pulley")


def sample() -> bytes:
    return bytes(wasmtime.wat2wasm(SAMPLE.read_text()))


def guest(
    infer: str = "i32.const 0",
    *,
    memory: str = '(memory (export "memory") 1)',
    extra: str = "",
    abi: str = "i32.const 1",
    address: str = "i32.const 64",
    count: str = "i32.const 1",
    infer_type: str = "(result i32)",
) -> bytes:
    text = f"""(module {extra} {memory}
      (func (export "sits_abi") (result i32) {abi})
      (func (export "sits_input") (result i32) {address})
      (func (export "sits_input_count") (result i32) {count})
      (func (export "sits_output") (result i32) i32.const 72)
      (func (export "sits_output_count") (result i32) i32.const 1)
      (func $infer (export "sits_infer") {infer_type} {infer}))"""
    return bytes(wasmtime.wat2wasm(text))


ENDLESS = "(loop (br 0)) i32.const 0"


@pytest.mark.parametrize("engine", ENGINES)
def test_sample_computes_and_refuses(engine: str) -> None:
    with Sandbox(sample(), engine=engine) as sandbox:
        assert (sandbox.n_inputs, sandbox.n_outputs) == (2, 1)
        assert sandbox.infer([5, -7]) == (12,)
        assert sandbox.infer((-32767, 32767)) == (-65534,)
        with pytest.raises(SandboxInputError) as refused:
            sandbox.infer([32768, 0])
        assert refused.value.code == "sandbox-refused"
        assert sandbox.infer([1, 1]) == (0,), "a refusal leaves the instance usable"


def test_more_signals_than_a_circuit_has_must_be_asked_for() -> None:
    module = guest(count="i32.const 1025")
    with Sandbox(module, limits=SandboxLimits(signals=1025)) as sandbox:
        assert sandbox.n_inputs == 1025
    with pytest.raises(SandboxError, match="signals"):
        SandboxLimits(signals=EVALUATED_SIGNALS_MAX + 1)


def test_limits_of_a_guest_follow_its_fuel_and_stay_inside_bounds() -> None:
    small = SandboxLimits.of_guest(fuel_per_call=1000, memory_bytes=1 << 16)
    large = SandboxLimits.of_guest(fuel_per_call=1 << 40, memory_bytes=1 << 30)
    assert (small.fuel, small.memory_bytes, small.wall_ms) == (FUEL_SPARE * 1000, 1 << 16, WALL_MS_LEAST)
    assert (large.fuel, large.wall_ms) == (FUEL_SPARE << 40, WALL_MS_MAX)


@settings(max_examples=50)
@given(st.integers(-32767, 32767), st.integers(-32767, 32767))
def test_sample_is_a_difference(a: int, b: int) -> None:
    with Sandbox(sample()) as sandbox:
        assert sandbox.infer([a, b]) == (a - b,)


@pytest.mark.parametrize("inputs", [[], [1], [1, 2, 3], [1, 2**31], [1, -(2**31) - 1], [1, 2.5], [1, "2"], [1, None]])
def test_wrong_inputs_are_refused(inputs: list[int]) -> None:
    with Sandbox(sample()) as sandbox:
        with pytest.raises(SandboxInputError) as refused:
            sandbox.infer(inputs)
        assert refused.value.code == "sandbox-input"
        assert sandbox.infer([2, 1]) == (1,)


ENDS = {
    "fuel": (ENDLESS, SandboxLimits(fuel=10_000), SandboxFuelError, "sandbox-fuel"),
    "time": (ENDLESS, SandboxLimits(fuel=1 << 60, wall_ms=20, tick_ms=5), SandboxTimeError, "sandbox-time"),
    "stack": ("call $infer", SandboxLimits(), SandboxMemoryError, "sandbox-memory"),
    "load-outside": ("(i32.load (i32.const 65536))", SandboxLimits(), SandboxMemoryError, "sandbox-memory"),
    "store-outside": (
        "(i32.store (i32.const 65533) (i32.const 1)) i32.const 0",
        SandboxLimits(), SandboxMemoryError, "sandbox-memory"),
    "unreachable": ("unreachable", SandboxLimits(), SandboxTrapError, "sandbox-trap"),
    "division-by-zero": ("(i32.div_s (i32.const 1) (i32.const 0))", SandboxLimits(), SandboxTrapError, "sandbox-trap"),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("end", ENDS)
def test_a_call_ends_with_its_own_error_and_the_instance_is_not_used_again(end: str, engine: str) -> None:
    body, limits, kind, code = ENDS[end]
    with Sandbox(guest(body), limits=limits, engine=engine) as sandbox:
        with pytest.raises(kind) as ended:
            sandbox.infer([1])
        assert ended.value.code == code
        with pytest.raises(SandboxError) as again:
            sandbox.infer([1])
        assert again.value.code == "sandbox-closed"
        sandbox.reset()
        with pytest.raises(kind):
            sandbox.infer([1])


def test_reset_forgets_the_guests_memory() -> None:
    count_calls = "(i32.store (i32.const 72) (i32.add (i32.load (i32.const 72)) (i32.const 1))) i32.const 0"
    with Sandbox(guest(count_calls)) as sandbox:
        assert [sandbox.infer([0]) for _ in range(3)] == [(1,), (2,), (3,)]
        sandbox.reset()
        assert sandbox.infer([0]) == (1,)


def test_memory_stays_where_it_is_when_the_guest_grows_it() -> None:
    body = "(drop (memory.grow (i32.const 20))) (i32.store (i32.const 72) (i32.load (i32.const 64))) i32.const 0"
    with Sandbox(guest(body), limits=SandboxLimits(memory_bytes=64 << 16)) as sandbox:
        for value in range(5):
            assert sandbox.infer([value]) == (value,)


def test_growth_beyond_the_limit_fails_inside_the_guest() -> None:
    body = "(i32.store (i32.const 72) (memory.grow (i32.const 20))) i32.const 0"
    with Sandbox(guest(body), limits=SandboxLimits(memory_bytes=8 << 16)) as sandbox:
        assert sandbox.infer([0]) == (-1,)


def test_equal_calls_use_equal_fuel_on_both_engines() -> None:
    used = set()
    for engine in ENGINES:
        with Sandbox(sample(), engine=engine) as sandbox:
            for _ in range(3):
                sandbox.infer([3, 4])
                used.add(sandbox.fuel_used)
    assert len(used) == 1
    assert used.pop() > 5


BAD_MODULES = {
    "not-wasm": (b"garbage", SandboxAbiError),
    "text-format": (b"(module)", SandboxAbiError),
    "truncated": (sample()[:-5], SandboxAbiError),
    "no-exports": (bytes(wasmtime.wat2wasm("(module)")), SandboxAbiError),
    "imports-a-function": (guest(extra='(import "env" "now" (func))'), SandboxAbiError),
    "imports-wasi": (guest(extra='(import "wasi_snapshot_preview1" "fd_write" (func))'), SandboxAbiError),
    "memory-not-exported": (guest(memory="(memory 1)"), SandboxAbiError),
    "memory-is-a-function": (guest(memory='(func (export "memory"))'), SandboxAbiError),
    "other-abi": (guest(abi="i32.const 2"), SandboxAbiError),
    "infer-with-parameter": (guest(infer_type="(param i32) (result i32)"), SandboxAbiError),
    "infer-without-result": (guest("", infer_type=""), SandboxAbiError),
    "infer-returns-i64": (guest("i64.const 0", infer_type="(result i64)"), SandboxAbiError),
    "input-outside-memory": (guest(address="i32.const 65536"), SandboxAbiError),
    "input-across-the-end": (guest(address="i32.const 65532", count="i32.const 2"), SandboxAbiError),
    "input-at-negative-address": (guest(address="i32.const -4"), SandboxAbiError),
    "input-unaligned": (guest(address="i32.const 66"), SandboxAbiError),
    "no-inputs": (guest(count="i32.const 0"), SandboxAbiError),
    "negative-count": (guest(count="i32.const -1"), SandboxAbiError),
    "too-many-inputs": (guest(count="i32.const 1025"), SandboxAbiError),
    "describing-function-never-returns": (guest(abi=ENDLESS), SandboxFuelError),
    "describing-function-traps": (guest(abi="unreachable"), SandboxTrapError),
    "start-function-never-returns": (
        guest(extra="(func $s (loop (br 0))) (start $s)"), SandboxFuelError),
    "start-function-traps": (guest(extra="(func $s unreachable) (start $s)"), SandboxTrapError),
    "too-much-memory": (guest(memory='(memory (export "memory") 1000)'), SandboxMemoryError),
    "too-large-table": (guest(extra="(table 100000 funcref)"), SandboxMemoryError),
    "shared-memory": (guest(memory='(memory (export "memory") 1 1 shared)'), SandboxAbiError),
    "memory64": (guest(memory='(memory (export "memory") i64 1)'), SandboxAbiError),
    "two-memories": (guest(extra="(memory 1)"), SandboxAbiError),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", BAD_MODULES)
def test_module_is_refused(rule: str, engine: str) -> None:
    wasm, kind = BAD_MODULES[rule]
    before = threading.active_count()
    with pytest.raises(kind):
        Sandbox(wasm, engine=engine, limits=SandboxLimits(fuel=100_000))
    assert threading.active_count() == before, "no ticker is left behind"


def test_close_is_final_and_idempotent() -> None:
    before = threading.active_count()
    sandbox = Sandbox(sample())
    assert threading.active_count() == before + 1
    sandbox.close()
    sandbox.close()
    assert threading.active_count() == before
    with pytest.raises(SandboxError) as closed:
        sandbox.infer([1, 2])
    assert closed.value.code == "sandbox-closed"
    with pytest.raises(SandboxError):
        sandbox.reset()


def test_dropping_a_sandbox_stops_its_ticker() -> None:
    gc.collect()
    before = threading.active_count()
    sandbox = Sandbox(sample())
    assert threading.active_count() == before + 1
    del sandbox
    gc.collect()
    assert threading.active_count() == before


def test_second_thread_is_refused_while_a_call_runs() -> None:
    limits = SandboxLimits(fuel=1 << 60, wall_ms=400, tick_ms=20)
    with Sandbox(guest(ENDLESS), limits=limits) as sandbox:
        ended: list[SandboxError] = []

        def run() -> None:
            try:
                sandbox.infer([1])
            except SandboxError as error:
                ended.append(error)

        runner = threading.Thread(target=run)
        runner.start()
        refused: SandboxError | None = None
        while refused is None and runner.is_alive():
            try:
                sandbox.infer([2])
            except SandboxBusyError as error:
                refused = error
            except SandboxError as error:
                # This thread came first; its call ended by the wall clock instead.
                ended.append(error)
                break
        runner.join()
        codes = {error.code for error in ended}
        assert refused is not None or "sandbox-busy" in codes
        assert "sandbox-time" in codes


def test_many_calls_leave_no_memory_behind() -> None:
    """A trap object or raw value that leaked per call would show after this many."""
    import resource

    with Sandbox(sample()) as sandbox:
        for _ in range(2000):
            sandbox.infer([1, 2])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(20000):
            sandbox.infer([1, 2])
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8192


@pytest.mark.parametrize(
    ("name", "value"), [("fuel", 0), ("memory_bytes", 1), ("stack_bytes", 1), ("wall_ms", 0), ("tick_ms", 5000)]
)
def test_limits_outside_their_bounds_are_refused(name: str, value: int) -> None:
    with pytest.raises(SandboxError) as refused:
        SandboxLimits(**{name: value})
    assert refused.value.code == "sandbox-limit"


def test_unknown_engine_is_refused() -> None:
    with pytest.raises(SandboxError) as refused:
        Sandbox(sample(), engine="turbo")
    assert refused.value.code == "sandbox-engine"


def test_nans_are_canonical() -> None:
    """0/0 and a NaN with a payload give the same bits on every machine."""
    body = "(i32.store (i32.const 72) (i32.reinterpret_f32 (f32.add (f32.const nan:0x123) (f32.const 1)))) i32.const 0"
    for engine in ENGINES:
        with Sandbox(guest(body), engine=engine) as sandbox:
            assert sandbox.infer([0]) == (0x7FC00000,)


def test_every_call_has_the_whole_wall_clock_limit() -> None:
    with Sandbox(sample(), limits=SandboxLimits(wall_ms=100, tick_ms=1)) as sandbox:
        # Long after the first call's deadline, calls still begin with one of their own.
        while sandbox._ticker.ticks < 300:
            assert sandbox.infer([3, 1]) == (2,)


def test_a_call_that_never_ends_is_stopped_after_many_that_do() -> None:
    endless_at_nine = "(if (i32.eq (i32.load (i32.const 64)) (i32.const 9)) (then (loop (br 0)))) i32.const 0"
    limits = SandboxLimits(fuel=1 << 60, wall_ms=100, tick_ms=1)
    with Sandbox(guest(endless_at_nine), limits=limits) as sandbox:
        while sandbox._ticker.ticks < 120:
            sandbox.infer([1])
        with pytest.raises(SandboxTimeError):
            sandbox.infer([9])
