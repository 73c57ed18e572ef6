"""Typed ends of a sandbox call or load."""

from __future__ import annotations

from sitsedge.errors import SitsError


class SandboxError(SitsError):
    """Base of everything the sandbox raises."""


class SandboxAbiError(SandboxError):
    """The module does not follow the guest ABI, or imports something."""


class SandboxFuelError(SandboxError):
    """The call used up its fuel."""


class SandboxTimeError(SandboxError):
    """The call ran longer than its wall-clock limit."""


class SandboxMemoryError(SandboxError):
    """The module asks for more memory, tables or stack than its limits allow, or left its memory."""


class SandboxTrapError(SandboxError):
    """The call trapped for another reason."""


class SandboxInputError(SandboxError):
    """The number or size of the inputs is wrong, or the module refused them."""


class SandboxBusyError(SandboxError):
    """Another thread is inside the same sandbox; a store belongs to one thread at a time."""
