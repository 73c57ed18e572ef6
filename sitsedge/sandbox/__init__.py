"""Runs guest modules in WebAssembly with bounded time and memory."""

from __future__ import annotations

from sitsedge.sandbox.engine import has_native_relaxed_dot
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
from sitsedge.sandbox.limits import SandboxLimits
from sitsedge.sandbox.sandbox import GuestModules, Sandbox, variant_for

__all__ = [
    "GuestModules",
    "Sandbox",
    "SandboxAbiError",
    "SandboxBusyError",
    "SandboxError",
    "SandboxFuelError",
    "SandboxInputError",
    "SandboxLimits",
    "SandboxMemoryError",
    "SandboxTimeError",
    "SandboxTrapError",
    "has_native_relaxed_dot",
    "variant_for",
]
