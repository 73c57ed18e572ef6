"""Operating modes: going down is one action and always works, going up needs names (architecture, §8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attest.command import Mode
from sitsedge.errors import SitsError

APPROVALS_NEEDED = {Mode.OFF: 0, Mode.SHADOW: 0, Mode.ADVISORY: 1, Mode.SUPERVISED: 1, Mode.AUTO: 2}
NAME_CHARACTERS_MAX = 64
REASON_CHARACTERS_MAX = 500
WRITING = frozenset({Mode.SUPERVISED, Mode.AUTO})


class ModeRefused(SitsError):
    """A mode change that is not allowed.

    Codes: ``mode-approval``, ``mode-attestation``, ``mode-plc``, ``mode-unknown``, ``mode-up``.
    """


@dataclass(frozen=True, slots=True)
class Change:
    """One change of mode and who answers for it."""

    before: Mode
    after: Mode
    approved_by: tuple[str, ...]
    reason: str


class ModeKeeper:
    """Holds the mode and its ceiling.

    The ceiling falls to ADVISORY when attestation fails at start and cannot be raised without a new
    start; without a PLC it is SHADOW.
    """

    def __init__(self, *, ceiling: Mode, ceiling_reason: str) -> None:
        self.mode = Mode.OFF
        self._ceiling = ceiling
        self._ceiling_reason = ceiling_reason

    @property
    def ceiling(self) -> Mode:
        """The highest mode that can be reached without a new start."""
        return self._ceiling

    @property
    def ceiling_reason(self) -> str:
        """Why it cannot go higher; empty where AUTO can be reached."""
        return self._ceiling_reason

    @property
    def writes(self) -> bool:
        """Whether commands may reach the PLC now."""
        return self.mode in WRITING

    def require_down(self, to: Mode) -> None:
        """For who may only ask for less: raises :class:`ModeRefused` ``mode-up`` unless ``to`` is below the mode."""
        if to >= self.mode:
            raise ModeRefused(
                "mode-up",
                found=to.name,
                expected=f"a mode below {self.mode.name}",
                hint="a higher mode needs people at the appliance: sitsctl mode",
            )

    def change(self, to: Mode, approved_by: Sequence[str], reason: str) -> Change:
        """Change the mode or raise :class:`ModeRefused`."""
        names = _names(approved_by)
        if to >= self.mode:  # confirming a mode takes as many names as reaching it
            if to > self._ceiling:
                raise ModeRefused(
                    "mode-attestation",
                    found=to.name,
                    expected=f"at most {self._ceiling.name}: {self._ceiling_reason}",
                    hint="end the fault that is named, then deploy again",
                )
            need = APPROVALS_NEEDED[to]
            if len(names) < need:
                raise ModeRefused(
                    "mode-approval",
                    found=f"{len(names)} name(s)",
                    expected=f"{need} different name(s) for {to.name}",
                    hint="add --approved-by NAME",
                )
        change = Change(self.mode, to, names, reason)
        self.mode = to
        return change


class IncidentLatch:
    """Remembers a security incident across restarts, until people approve a writing mode again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, reason: str) -> None:
        """Latch; the first incident stays the reason."""
        if not self._path.exists():
            self._path.write_text(reason[:REASON_CHARACTERS_MAX], encoding="utf-8")

    def read(self) -> str | None:
        """Why it is latched, ``None`` when it is not."""
        try:
            return self._path.read_text(encoding="utf-8")[:REASON_CHARACTERS_MAX]
        except FileNotFoundError:
            return None

    def clear(self) -> None:
        """People have looked and approved."""
        self._path.unlink(missing_ok=True)


def _names(approved_by: Sequence[str]) -> tuple[str, ...]:
    """Different people: spelling differences in case and space do not make two of one. Raises ModeRefused."""
    people: dict[str, str] = {}
    for name in approved_by:
        clean = " ".join(name.split())
        if not clean or len(clean) > NAME_CHARACTERS_MAX or not clean.isprintable():
            raise ModeRefused(
                "mode-approval",
                found=repr(name)[:40],
                expected=f"a printable name of 1..{NAME_CHARACTERS_MAX} characters",
            )
        people.setdefault(clean.casefold(), clean)
    return tuple(people.values())


def parse_mode(text: object) -> Mode:
    """The mode of that name. Raises :class:`ModeRefused` ``mode-unknown``."""
    try:
        return Mode[str(text).upper()]
    except KeyError:
        raise ModeRefused(
            "mode-unknown", found=repr(text)[:40], expected=", ".join(mode.name for mode in Mode)
        ) from None
