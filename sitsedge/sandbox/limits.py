"""What one guest instance may use."""

from __future__ import annotations

from dataclasses import dataclass

from sitsedge.sandbox.errors import SandboxError

PAGE = 65536
MEMORY_BYTES_MAX = 1 << 30
"""Ceiling of the memory limit: one guest never gets more than 1 GiB of address space."""

WASM_BYTES_MAX = 16 << 20
"""Largest module: the unrolled code of the largest network the compiler accepts is under 2 MiB."""

SIGNALS_MAX = 1024
"""Most inputs or outputs of a bundle's module; the circuit format's limit."""

EVALUATED_SIGNALS_MAX = 1 << 18
"""Most that can be allowed to a module without a circuit: a picture, as the importer takes it."""

WALL_MS_LEAST, WALL_MS_MAX = 100, 60_000

FUEL_SPARE = 4
"""Times the fuel of a call in the self-test; every call uses the same, so this never decides."""

FUEL_PER_MS = 20_000
"""An allowance, no measurement: an interpreter on a small machine may do twenty million instructions a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of one instance. Fuel counts roughly one unit per instruction and is deterministic.

    ``wall_ms`` is a coarse second guard: a call is stopped after it, within three ticks of ``tick_ms``.
    """

    fuel: int = 10_000_000
    memory_bytes: int = 16 << 20
    table_elements: int = 1024
    stack_bytes: int = 256 << 10
    wall_ms: int = WALL_MS_LEAST
    tick_ms: int = 10
    signals: int = SIGNALS_MAX

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("fuel", self.fuel, 1, 1 << 62),
            ("memory_bytes", self.memory_bytes, PAGE, MEMORY_BYTES_MAX),
            ("table_elements", self.table_elements, 0, 1 << 20),
            ("stack_bytes", self.stack_bytes, 16 << 10, 1 << 20),
            ("wall_ms", self.wall_ms, 1, WALL_MS_MAX),
            ("tick_ms", self.tick_ms, 1, 1_000),
            ("signals", self.signals, 1, EVALUATED_SIGNALS_MAX),
        ):
            if not low <= value <= high:
                raise SandboxError("sandbox-limit", found=f"{name} = {value}", expected=f"{low} … {high}")

    @classmethod
    def of_guest(cls, *, fuel_per_call: int, memory_bytes: int) -> SandboxLimits:
        """For a bundle's module: the memory its config states, spare fuel, and the time this much fuel may take."""
        fuel = FUEL_SPARE * fuel_per_call
        wall_ms = min(WALL_MS_LEAST + fuel // FUEL_PER_MS, WALL_MS_MAX)
        return cls(fuel=fuel, memory_bytes=memory_bytes, wall_ms=wall_ms)
