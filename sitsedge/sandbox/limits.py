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
"""Most inputs or outputs; the circuit format's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of one instance. Fuel counts roughly one unit per instruction and is deterministic.

    ``wall_ms`` is a coarse second guard: a call is stopped after it, within three ticks of ``tick_ms``.
    """

    fuel: int = 10_000_000
    memory_bytes: int = 16 << 20
    table_elements: int = 1024
    stack_bytes: int = 256 << 10
    wall_ms: int = 100
    tick_ms: int = 10

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("fuel", self.fuel, 1, 1 << 62),
            ("memory_bytes", self.memory_bytes, PAGE, MEMORY_BYTES_MAX),
            ("table_elements", self.table_elements, 0, 1 << 20),
            ("stack_bytes", self.stack_bytes, 16 << 10, 1 << 20),
            ("wall_ms", self.wall_ms, 1, 60_000),
            ("tick_ms", self.tick_ms, 1, 1_000),
        ):
            if not low <= value <= high:
                raise SandboxError("sandbox-limit", found=f"{name} = {value}", expected=f"{low} … {high}")
