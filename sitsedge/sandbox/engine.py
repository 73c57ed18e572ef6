"""One wasmtime engine per sandbox configuration, and the ticker that really advances its epoch."""

from __future__ import annotations

import platform
import threading
from importlib.metadata import version

import wasmtime

from sitsedge.sandbox.errors import SandboxError
from sitsedge.sandbox.limits import SandboxLimits

ENGINES = ("jit", "pulley")
PULLEY_TARGET = "pulley64"
"""The interpreter's bytecode target; runs under MemoryDenyWriteExecute, where a JIT cannot."""

ADDRESSES_BYTES = 1 << 32
"""What a 32-bit guest can address."""


NATIVE_DOT_MACHINES = frozenset({"x86_64", "AMD64"})
"""Where wasmtime turns the relaxed dot product into the machine's own instructions; elsewhere it always emits the
deterministic form, which is slower than plain simd128."""


def has_native_relaxed_dot(kind: str) -> bool:
    """Whether ``native_relaxed_dot`` makes a relaxed module faster than the plain one in this engine, here."""
    return kind == "jit" and platform.machine() in NATIVE_DOT_MACHINES


def make_engine(kind: str, limits: SandboxLimits, *, native_relaxed_dot: bool = False) -> wasmtime.Engine:
    """A deterministic engine: fuel, epoch, canonical NaNs, deterministic relaxed SIMD, nothing extra.

    ``native_relaxed_dot`` takes relaxed SIMD as the machine has it: only for modules whose one relaxed instruction is
    the dot product with a second operand in 0 … 127, where all machines agree.
    """
    if kind not in ENGINES:
        raise SandboxError("sandbox-engine", found=repr(kind), expected=" or ".join(ENGINES))
    config = wasmtime.Config()
    if kind == "pulley":
        config.target = PULLEY_TARGET
        # Explicit checks instead of SIGSEGV handlers: an interpreter has no native faults to catch.
        config.signals_based_traps = False
    config.consume_fuel = True
    config.epoch_interruption = True
    config.cranelift_nan_canonicalization = True
    config.wasm_simd = True
    config.wasm_relaxed_simd = True
    config.wasm_relaxed_simd_deterministic = not native_relaxed_dot
    for feature in ("threads", "memory64", "multi_memory", "tail_call", "gc", "function_references"):
        setattr(config, f"wasm_{feature}", False)
    config.wasm_exceptions = False
    config.max_wasm_stack = limits.stack_bytes
    # The memory never moves, so a host view of it stays valid for as long as the store lives.
    config.memory_may_move = False
    # Where every 32-bit address has its own address space, the guard catches what leaves the memory and no access pays
    # for a check; only address space is taken, the limit on bytes is the store's. The interpreter checks anyway.
    config.memory_reservation = limits.memory_bytes if kind == "pulley" else ADDRESSES_BYTES
    config.memory_reservation_for_growth = 0
    config.memory_guard_size = 65536
    return wasmtime.Engine(config)


def configuration_key(kind: str, limits: SandboxLimits, *, native_relaxed_dot: bool = False) -> str:
    """Text that changes whenever compiled code could: engine, version, machine and compile-time limits."""
    return "|".join(
        (
            "sits-sandbox-2",
            f"wasmtime {version('wasmtime')}",
            kind,
            platform.machine(),
            platform.system(),
            f"memory {limits.memory_bytes}",
            f"stack {limits.stack_bytes}",
            f"relaxed dot {'native' if native_relaxed_dot else 'portable'}",
        )
    )


class EpochTicker:
    """A daemon thread that advances the engine's epoch every ``tick_ms`` until ``stop``; ``ticks`` counts them."""

    def __init__(self, engine: wasmtime.Engine, tick_ms: int) -> None:
        self._engine = engine
        self._period_s = tick_ms / 1000
        self.ticks = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-epoch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._period_s):
            self._engine.increment_epoch()
            self.ticks += 1

    def stop(self) -> None:
        """End the thread; returns after its last tick. Idempotent."""
        self._stopped.set()
        # Garbage collection may run this in the ticker's own thread, which cannot wait for itself.
        if threading.current_thread() is not self._thread:
            self._thread.join()
