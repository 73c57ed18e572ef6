"""A verdict: every check by number and name, with what was found and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOT_MADE = "could not be made"


@dataclass(frozen=True, slots=True)
class Check:
    """One check; ``found`` and ``expected`` are short texts for people."""

    number: int
    name: str
    ok: bool
    found: str
    expected: str

    def __str__(self) -> str:
        mark = "ok    " if self.ok else "FAILED"
        return f"{self.number:2} {mark} {self.name}: found {self.found}; expected {self.expected}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All checks of one verification. What the evidence says is only filled in where every check passed."""

    checks: tuple[Check, ...]
    session_public: bytes = b""
    reset_count: int = 0
    restart_count: int = 0
    tpm_kind: str = ""
    policy_name: str = ""
    policy_version: int = 0
    boot_state: str = ""
    device_id: str = ""
    ak_name: bytes = b""
    command_public: bytes = b""  # the point (65 bytes) of a command key in the TPM, else empty

    @property
    def ok(self) -> bool:
        """Whether every check was made and passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failed(self) -> Check | None:
        """The first check that failed."""
        return next((check for check in self.checks if not check.ok), None)


class Checklist:
    """Collects checks against a fixed list of names; one that nobody made counts as failed."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._made: dict[str, Check] = {}

    def judge(self, name: str, ok: bool, *, found: str, expected: str) -> bool:
        """Record one check; each is made once."""
        assert name in self._names
        assert name not in self._made
        self._made[name] = Check(self._names.index(name) + 1, name, ok, found, expected)
        return ok

    def checks(self, reason: str) -> tuple[Check, ...]:
        """All checks in order; ``reason`` says why some could not be made."""
        return tuple(
            self._made.get(name, Check(number, name, False, NOT_MADE, reason))
            for number, name in enumerate(self._names, start=1)
        )
