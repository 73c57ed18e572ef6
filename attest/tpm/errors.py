"""What can go wrong between us and a TPM, told apart by what the caller can do about it."""

from __future__ import annotations

from attest.errors import AttestError


class TpmError(AttestError):
    """The TPM answered with a refusal, or was asked for something it cannot do."""


class TpmMissing(TpmError):
    """There is no TPM to talk to: not installed, not allowed, or no permission."""


class TpmLost(TpmError):
    """The connection broke or the context is unusable; the next call opens a fresh one."""


class TpmDeadline(TpmLost):
    """The TPM did not answer in time; the next call opens a fresh context."""
