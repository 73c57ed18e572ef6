"""The wasmtime host of one guest module (guest ABI 1, wasm_modules/ABI.md).

The guest imports nothing and shares one linear memory with the host; the host writes the inputs, calls
``sits_infer`` and reads the outputs. The call goes straight to wasmtime's unchecked C entry point with
prepared arguments, which is safe here because the signature ``() -> i32`` is verified when the module is
loaded, no host function exists that could raise inside the guest, and the memory can neither move nor
shrink while the store lives.

A call costs a few hundred nanoseconds over the guest's own time: everything that can be prepared is, the fuel is set
without giving up Python's lock, and the deadline only when the ticker has moved since it was last set.
"""

from __future__ import annotations

import ctypes
import hashlib
import struct
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import wasmtime
from wasmtime import _ffi as ffi

from sitsedge.sandbox.cache import CodeCache
from sitsedge.sandbox.engine import EpochTicker, configuration_key, has_native_relaxed_dot, make_engine
from sitsedge.sandbox.errors import (
    SandboxAbiError,
    SandboxBusyError,
    SandboxError,
    SandboxFuelError,
    SandboxInputError,
    SandboxMemoryError,
    SandboxTimeError,
    SandboxTrapError,
)
from sitsedge.sandbox.limits import WASM_BYTES_MAX, SandboxLimits

ABI_VERSION = 1
SIMD128, RELAXED_SIMD = "simd128", "relaxed-simd"
"""The two modules of a bundle; what ``Sandbox.variant`` says."""

_DESCRIBING = ("sits_abi", "sits_input", "sits_input_count", "sits_output", "sits_output_count")

_TRAPS: dict[Any, tuple[type[SandboxError], str]] = {
    wasmtime.TrapCode.OUT_OF_FUEL: (SandboxFuelError, "sandbox-fuel"),
    wasmtime.TrapCode.INTERRUPT: (SandboxTimeError, "sandbox-time"),
    wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS: (SandboxMemoryError, "sandbox-memory"),
    wasmtime.TrapCode.TABLE_OUT_OF_BOUNDS: (SandboxMemoryError, "sandbox-memory"),
    wasmtime.TrapCode.STACK_OVERFLOW: (SandboxMemoryError, "sandbox-memory"),
}


_TICKS_SPARE = 2
"""One for the tick that is under way, one for a tick between the epoch's step and its count."""

# Entry points of their own: arguments are prepared ctypes objects, so nothing is converted in a call. The call itself
# gives up Python's lock, or the ticker could not stop it; setting the fuel takes a few nanoseconds and does not.
_call_unchecked = ffi.dll["wasmtime_func_call_unchecked"]
_call_unchecked.restype = ctypes.c_void_p
_holding = ctypes.PyDLL(str(ffi.filename), handle=ffi.dll._handle)
_set_fuel = _holding["wasmtime_context_set_fuel"]
_set_fuel.restype = ctypes.c_void_p
_set_epoch_deadline = _holding["wasmtime_context_set_epoch_deadline"]
_set_epoch_deadline.restype = None


class GuestModules(Protocol):
    """The two modules of a bundle (``sitsedge.modules.Bundle``), made by the compiler from one integer graph."""

    @property
    def wasm(self) -> bytes: ...

    @property
    def wasm_relaxed(self) -> bytes: ...


def variant_for(modules: GuestModules, engine: str) -> str:
    """Which module ``Sandbox.of`` runs in ``engine`` on this machine: ``"relaxed-simd"`` or ``"simd128"``."""
    differs = modules.wasm_relaxed != modules.wasm
    return RELAXED_SIMD if differs and has_native_relaxed_dot(engine) else SIMD128


class Sandbox:
    """One instance of one module. Calls are exclusive; another thread meanwhile gets ``SandboxBusyError``.

    After a trap the guest's memory may hold half a result, so the instance refuses further calls until
    ``reset`` (about 30 µs) makes a fresh one.
    """

    def __init__(
        self,
        wasm: bytes,
        *,
        limits: SandboxLimits | None = None,
        engine: str = "jit",
        cache_dir: Path | None = None,
        native_relaxed_dot: bool = False,
    ) -> None:
        """``native_relaxed_dot``: see ``engine.make_engine``; for the compiler's own relaxed modules only."""
        self.limits = limits or SandboxLimits()
        self.digest = hashlib.sha256(wasm).digest()
        self.engine_kind = engine
        self._lock = threading.Lock()
        self._open = True
        self._ready = False
        self._wall_ticks = -(-self.limits.wall_ms // self.limits.tick_ms) + _TICKS_SPARE
        self._engine = make_engine(engine, self.limits, native_relaxed_dot=native_relaxed_dot)
        self._native_relaxed_dot = native_relaxed_dot
        self._module = self._compile(wasm, cache_dir)
        if self._module.imports:
            first = self._module.imports[0]
            raise SandboxAbiError(
                "sandbox-abi",
                found=f"an import of {first.module}.{first.name}",
                expected="no import",
                hint="guest modules get nothing from the host; see wasm_modules/ABI.md",
            )
        self._ticker = EpochTicker(self._engine, self.limits.tick_ms)
        # A sandbox dropped without ``close`` must not leave its thread behind.
        weakref.finalize(self, self._ticker.stop)
        try:
            self._instantiate()
        except SandboxError:
            self.close()
            raise

    @classmethod
    def of(
        cls,
        modules: GuestModules,
        *,
        limits: SandboxLimits | None = None,
        engine: str = "jit",
        cache_dir: Path | None = None,
    ) -> Sandbox:
        """The faster module of a verified bundle: the relaxed one where the machine has its instruction.

        Both give the same integers; a bundle's signature vouches that the compiler proved the operands' ranges.
        """
        relaxed = variant_for(modules, engine) == RELAXED_SIMD
        wasm = modules.wasm_relaxed if relaxed else modules.wasm
        return cls(wasm, limits=limits, engine=engine, cache_dir=cache_dir, native_relaxed_dot=relaxed)

    @property
    def variant(self) -> str:
        """``"relaxed-simd"`` where the machine's own relaxed dot product runs, else ``"simd128"``."""
        return RELAXED_SIMD if self._native_relaxed_dot else SIMD128

    def _compile(self, wasm: bytes, cache_dir: Path | None) -> Any:
        if len(wasm) > WASM_BYTES_MAX or not wasm.startswith(b"\0asm"):
            raise SandboxAbiError(
                "sandbox-abi",
                found=f"{len(wasm)} bytes that are no binary module, or too many",
                expected=f"a WebAssembly binary of at most {WASM_BYTES_MAX} bytes",
            )
        cache = CodeCache(cache_dir) if cache_dir is not None else None
        key = configuration_key(self.engine_kind, self.limits, native_relaxed_dot=self._native_relaxed_dot)
        code = cache.load(self.digest, key) if cache is not None else None
        if code is not None:
            try:
                return wasmtime.Module.deserialize(self._engine, code)
            except wasmtime.WasmtimeError:
                # Compiled for another CPU or build: not an error, only a cache miss.
                code = None
        try:
            module = wasmtime.Module(self._engine, wasm)
        except wasmtime.WasmtimeError as error:
            raise SandboxAbiError(
                "sandbox-abi", found=_first_line(error), expected="a valid WebAssembly module"
            ) from error
        if cache is not None:
            cache.store(self.digest, key, bytes(module.serialize()))
        return module

    def _instantiate(self) -> None:
        limits = self.limits
        self._store = wasmtime.Store(self._engine)
        self._store.set_limits(
            memory_size=limits.memory_bytes,
            table_elements=limits.table_elements,
            instances=1,
            tables=1,
            memories=1,
        )
        self._store.set_fuel(limits.fuel)
        self._store.set_epoch_deadline(self._wall_ticks)
        try:
            instance = wasmtime.Instance(self._store, self._module, [])
        except wasmtime.Trap as trap:
            raise _trap_error(trap) from trap
        except wasmtime.WasmtimeError as error:
            raise SandboxMemoryError(
                "sandbox-memory", found=_first_line(error), expected=f"at most {limits.memory_bytes} bytes"
            ) from error
        self._bind(instance.exports(self._store))
        self._ready = True

    def _bind(self, exports: Any) -> None:
        """Check the ABI and prepare everything a call needs."""
        memory, function = exports.get("memory"), exports.get("sits_infer")
        if not isinstance(memory, wasmtime.Memory):
            raise SandboxAbiError(
                "sandbox-abi",
                found=f"exports {sorted(exports)[:8]}",
                expected="the memory exported as 'memory'",
                hint="see wasm_modules/ABI.md",
            )
        self._check_type("sits_infer", function)
        number = {name: self._describe(name, exports.get(name)) for name in _DESCRIBING}
        if number["sits_abi"] != ABI_VERSION:
            raise SandboxAbiError("sandbox-abi", found=f"ABI {number['sits_abi']}", expected=f"ABI {ABI_VERSION}")
        size = memory.data_len(self._store)
        for side in ("input", "output"):
            address, count = number[f"sits_{side}"], number[f"sits_{side}_count"]
            if not 1 <= count <= self.limits.signals or address % 4 or not 0 <= address <= size - 4 * count:
                raise SandboxAbiError(
                    "sandbox-abi",
                    found=f"{count} {side}s at {address}",
                    expected=f"1 … {self.limits.signals} aligned int32 inside the memory of {size} bytes",
                )
        self.n_inputs, self.n_outputs = number["sits_input_count"], number["sits_output_count"]
        base = ctypes.addressof(memory.data_ptr(self._store).contents)
        self._input = (ctypes.c_char * (4 * self.n_inputs)).from_address(base + number["sits_input"])
        self._output = (ctypes.c_char * (4 * self.n_outputs)).from_address(base + number["sits_output"])
        # Native order is the guest's little-endian on every machine the JIT supports, and packs twice as fast.
        order = "@" if sys.byteorder == "little" else "<"
        self._pack = struct.Struct(f"{order}{self.n_inputs}i").pack_into
        self._unpack = struct.Struct(f"{order}{self.n_outputs}i").unpack_from
        self._function = function
        # The context lives as long as the store, which ``_release`` closes after dropping these.
        context = ctypes.cast(self._store._context(), ctypes.c_void_p)
        raw = (ffi.wasmtime_val_raw_t * 1)()
        self._status = ctypes.c_int32.from_buffer(raw)
        self._trap = ctypes.c_void_p()
        self._fuel_arguments = (context, ctypes.c_uint64(self.limits.fuel))
        self._deadline_arguments = (context, ctypes.c_uint64(self._wall_ticks))
        self._arguments = (
            context,
            ctypes.byref(function._func),
            ctypes.byref(raw),
            ctypes.c_size_t(1),
            ctypes.byref(self._trap),
        )
        self._deadline_set_at = -1

    def _check_type(self, name: str, function: Any) -> None:
        if isinstance(function, wasmtime.Func):
            kind = function.type(self._store)
            if not kind.params and [str(result) for result in kind.results] == ["i32"]:
                return
        raise SandboxAbiError(
            "sandbox-abi",
            found=f"{name} missing or of another type",
            expected=f"{name}: () -> i32",
            hint="see wasm_modules/ABI.md",
        )

    def _describe(self, name: str, function: Any) -> int:
        """Call one of the describing functions, under the limits of the instance."""
        self._check_type(name, function)
        try:
            return int(function(self._store)) & 0xFFFFFFFF
        except wasmtime.Trap as trap:
            raise _trap_error(trap) from trap

    def infer(self, inputs: Sequence[int]) -> tuple[int, ...]:
        """Outputs in counts for ``inputs`` in counts (int32 each).

        Raises ``SandboxInputError`` (count, size, or refused by the module), ``SandboxFuelError``,
        ``SandboxTimeError``, ``SandboxMemoryError``, ``SandboxTrapError``, ``SandboxBusyError``.
        """
        if not self._lock.acquire(blocking=False):
            raise SandboxBusyError("sandbox-busy", found="a call in progress", expected="one thread at a time")
        try:
            if not self._ready:
                raise SandboxError(
                    "sandbox-closed", found="a closed or trapped instance", expected="a ready one", hint="reset()"
                )
            try:
                self._pack(self._input, 0, *inputs)
            except struct.error as error:
                raise SandboxInputError(
                    "sandbox-input", found=str(error), expected=f"{self.n_inputs} int32 values"
                ) from error
            _set_fuel(*self._fuel_arguments)
            ticks = self._ticker.ticks
            if ticks != self._deadline_set_at:
                _set_epoch_deadline(*self._deadline_arguments)
                self._deadline_set_at = ticks
            error_address = _call_unchecked(*self._arguments)
            if error_address or self._trap.value:
                raise self._ended(error_address)
            if self._status.value:
                raise SandboxInputError(
                    "sandbox-refused",
                    found=f"status {self._status.value} from the module",
                    expected="0",
                    hint="status 1: an input is outside the model's box",
                )
            return self._unpack(self._output)
        finally:
            self._lock.release()

    def _ended(self, error_address: int | None) -> SandboxError:
        """Turn what the call left behind into an error; the instance is not used again."""
        self._ready = False
        if error_address:
            pointer = ctypes.cast(error_address, ctypes.POINTER(ffi.wasmtime_error_t))
            text = _first_line(wasmtime.WasmtimeError._from_ptr(pointer))
            return SandboxTrapError("sandbox-trap", found=text, expected="a call that returns")
        # The trap object takes the trap over; the prepared arguments keep an empty place for the next.
        trap = wasmtime.Trap._from_ptr(ctypes.cast(self._trap, ctypes.POINTER(ffi.wasm_trap_t)))
        self._trap.value = None
        return _trap_error(trap)

    @property
    def fuel_used(self) -> int:
        """Fuel of the last call; equal on every machine for equal inputs."""
        return self.limits.fuel - int(self._store.get_fuel())

    def reset(self) -> None:
        """Replace the instance by a fresh one, after a trap or to forget its memory."""
        with self._lock:
            if not self._open:
                raise SandboxError("sandbox-closed", found="a closed sandbox", expected="an open one")
            self._release()
            self._instantiate()

    def _release(self) -> None:
        # Views and prepared arguments point into the store: drop them before it goes.
        self._ready = False
        self._input = self._output = self._arguments = None  # type: ignore[assignment]
        self._fuel_arguments = self._deadline_arguments = None  # type: ignore[assignment]
        self._store.close()

    def close(self) -> None:
        """Free the instance and stop the ticker; further calls raise ``sandbox-closed``. Idempotent."""
        with self._lock:
            if self._open:
                self._open = False
                self._ticker.stop()
                self._release()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0][:200]


def _trap_error(trap: Any) -> SandboxError:
    kind, code = _TRAPS.get(trap.trap_code, (SandboxTrapError, "sandbox-trap"))
    name = trap.trap_code.name.lower().replace("_", " ") if trap.trap_code is not None else "trap"
    return kind(code, found=name, expected="a call that returns within its limits")
