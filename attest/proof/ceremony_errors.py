"""What can be wrong in a set-up ceremony, and the core's errors made into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attest.errors import AttestError
from attest.files import ADVICE, FULL, no_space

_FIRST_PREFIX: Final = ("phase1-", "ptau-")
_SECOND_PREFIX: Final = ("setup-", "transcript-", "circuit-", "key-lint", "curve-")
WRONG_USE: Final = frozenset({"phase1-power"})
"""Begins like the code of a check, and is about what was asked for."""

_EVERY_STEP: Final = "a ceremony in which every step follows"
_EXPECTED: Final = {
    "phase1-empty": ("at least one contributor", "sitsctl proof contribute FILE --name NAME"),
    "setup-empty": ("at least one contributor", "sitsctl proof contribute CEREMONY --name NAME"),
    "phase1-power": (
        "2 to 20, and not more than the file has",
        "POWER is for circuits of up to 2^POWER rows: 12 for 4096; from a .ptau it takes the first 2^POWER powers",
    ),
    "phase1-small": ("a phase 1 that holds what the circuit needs", "begin or import one of that power"),
    "phase1-reduced": ("a whole phase 1", "contribute to the file that it was cut from"),
    "phase1-ended": (
        "a phase 1 without a beacon",
        "begin phase 2 with it, or contribute to the file before the beacon",
    ),
    "setup-ended": ("a beacon as the last step", "the transcript as it was after its beacon is complete"),
    "setup-circuit": ("the transcript of this circuit", ""),
    "setup-phase1": ("the phase 1 that the transcript was started from", ""),
    "curve-mismatch": ("circuit and phase 1 on one curve", ""),
    "name": ("1 to 64 bytes without control characters", "--name says who contributes, for everybody to read"),
    "beacon": ("1 to 255 bytes, to be hashed 2^10 to 2^24 times", "--beacon HEX --iterations N"),
    "randomness": ("randomness from the operating system", ""),
    **ADVICE,
}
"""What was expected and what to do about it, where there is more to say than that a step does not follow."""


class CeremonyError(AttestError):
    """A ceremony's file, or a step of it, was refused; ``code`` names the step.

    Phase 1: ``phase1-format``, ``ptau-format``, ``phase1-power``, ``phase1-empty``, ``phase1-start``,
    ``phase1-powers``, ``phase1-history``, ``phase1-end``, ``phase1-hash``, ``phase1-reduced``, ``phase1-ended``,
    ``phase1-full``, ``phase1-small``. Phase 2: ``transcript-format``, ``setup-circuit``, ``setup-phase1``,
    ``setup-origin``, ``setup-identity``, ``setup-proof``, ``setup-beacon``, ``setup-delta``, ``setup-ended``,
    ``setup-empty``, ``setup-ic``, ``setup-k``, ``setup-h``, ``setup-full``, ``key-lint``. Both: ``name``, ``beacon``,
    ``curve-unknown``, ``curve-mismatch``, ``circuit-…``, ``entropy``, ``randomness``. Files: ``file-missing``,
    ``file-exists``, ``file-kind``, ``file-busy``, ``disk-full``, ``file``.
    """

    @property
    def refusal(self) -> bool:
        """Whether something was checked and found wrong, rather than not done."""
        return self.code not in WRONG_USE and self.code.startswith((*_FIRST_PREFIX, *_SECOND_PREFIX))


@contextmanager
def native_errors(part: Path | None = None, out: Path | None = None, needed: int | None = None) -> Iterator[None]:
    """The core's errors as :class:`CeremonyError`; of ``part``, in which ``out`` is made, they name ``out``."""
    from attest import _native

    try:
        yield
    except _native.NativeError as error:
        code, detail = error.args
        expected, hint = _EXPECTED.get(code, (_EVERY_STEP, ""))
        if part is not None and out is not None:
            detail = detail.replace(str(part), str(out))
            if code == FULL:
                detail, expected = no_space(out, needed)
        raise CeremonyError(code, found=detail, expected=expected, hint=hint) from error
