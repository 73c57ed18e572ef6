"""The exception root of ``sitsedge``: stable code, what was found, what was expected, what to do."""

from __future__ import annotations


class SitsError(Exception):
    """Base of every error raised by ``sitsedge``.

    ``code`` is stable (part of the public interface, lower-case words joined by hyphens); ``found``
    and ``expected`` are short texts for people; ``hint`` says what to do about it.
    """

    def __init__(self, code: str, *, found: str, expected: str, hint: str = "") -> None:
        super().__init__(code, found, expected, hint)
        self.code = code
        self.found = found
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.code}: got {self.found}, expected {self.expected}"
        return f"{text} ({self.hint})" if self.hint else text
