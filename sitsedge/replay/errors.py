"""Errors of recordings and of the process that plays them."""

from __future__ import annotations

from sitsedge.errors import SitsError


class ReplayError(SitsError):
    """The replay cannot start or go on."""


class RecordingError(ReplayError):
    """A recording breaks a rule; ``file`` and ``line`` (from 1, the header is line 1) say where."""

    def __init__(self, code: str, *, file: str, line: int, found: str, expected: str, hint: str = "") -> None:
        super().__init__(code, found=found, expected=expected, hint=hint)
        self.file = file
        self.line = line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {super().__str__()}"
