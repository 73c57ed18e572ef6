"""Runs guest modules in WebAssembly with bounded time and memory."""

from __future__ import annotations

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
from sitsedge.sandbox.sandbox import Sandbox

__all__ = [
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
]
