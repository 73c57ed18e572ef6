"""Whether this device is attested now, and what the gate does about it when it is not (architecture, §8).

The rules, for a device that writes:

* Evidence that its own TPM vouches for, and that shows another boot state, module or deployment than the approved one:
  alarm, the epoch ends, the plant goes back to its local set-point with the last applied value.
* No new evidence (a TPM that hangs, a loop that cannot reach it): the open epoch stays good. Alarm at three quarters of
  its life; a second before its end, while commands still flow, the plant goes back to its local set-point.
* Evidence that nobody's TPM vouches for is refused and recorded, and changes nothing: only what the enrolled TPM says
  can take a plant out of AUTO, not whoever can write to a socket.

Going up again needs an open epoch and the people's approval.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from attest.evidence.verdict import Verdict

NS_PER_S: Final = 1_000_000_000
FIRST_EPOCH_NS: Final = (
    120 * NS_PER_S
)  # a loop starts in seconds; a hardware TPM that makes its key may take one minute
STEP_DOWN_NS: Final = NS_PER_S  # two turns of the gate's supervision
OVERDUE_AFTER: Final = (3, 4)  # of an epoch's life; a loop renews at half of it at the latest

#: Checks that only the enrolled TPM's own key, with our nonce, can pass together.
VOUCHED: Final = frozenset({"signature", "nonce", "ak-name", "quote-signature", "quote-magic", "quote-qualifying"})
#: Checks whose failure says something about the device itself.
ABOUT_THE_DEVICE: Final = frozenset(
    {
        "event-log-replay",
        "ima-log",
        "application-measurement",
        "boot-policy-validity",
        "boot-policy-version",
        "boot-policy",
        "tpm-kind",
        "reset-count",
        "module-digest",
        "deployment-digest",
        "record-revocation",
    }
)


class Phase(StrEnum):
    """What is known of the device now."""

    WAITING = "waiting"  # no epoch yet
    ATTESTED = "attested"
    OVERDUE = "overdue"  # the epoch is open, its successor late
    ENDED = "ended"  # it ended without a successor
    FAILED = "failed"  # the device's own TPM showed something that is not approved


@dataclass(frozen=True, slots=True)
class Event:
    """One alarm; ``step_down``: the plant goes back to its local set-point."""

    code: str
    found: str
    expected: str
    step_down: bool


def vouched(verdict: Verdict) -> bool:
    """Whether a refusal is the word of the enrolled TPM about its device, rather than a forgery or a mishap."""
    passed = {check.name for check in verdict.checks if check.ok}
    failed = verdict.failed
    return failed is not None and failed.name in ABOUT_THE_DEVICE and passed >= VOUCHED


class AttestationWatch:
    """Follows one device; every event is given once. Times in ns since the Unix epoch."""

    def __init__(self, now_ns: int) -> None:
        self.phase = Phase.WAITING
        self.reason = "no epoch yet"
        self.tpm_kind: str | None = None
        self._opened_ns = now_ns
        self._expires_ns = now_ns + FIRST_EPOCH_NS
        self._stepped_down = False

    @property
    def good(self) -> bool:
        """Whether an epoch is open that nothing speaks against."""
        return self.phase in (Phase.ATTESTED, Phase.OVERDUE)

    @property
    def fault(self) -> str | None:
        """Why no writing mode may be entered; ``None`` while waiting for a first epoch, or attested."""
        return self.reason if self.phase in (Phase.ENDED, Phase.FAILED) else None

    def opened(self, *, opened_ns: int, expires_ns: int, tpm_kind: str) -> bool:
        """A new epoch; whether it ends a fault."""
        before, self.phase = self.phase, Phase.ATTESTED
        self.reason, self.tpm_kind = "", tpm_kind
        self._opened_ns, self._expires_ns = opened_ns, expires_ns
        self._stepped_down = False
        return before not in (Phase.WAITING, Phase.ATTESTED)

    def failed(self, code: str, found: str, expected: str) -> Event | None:
        """The device's TPM vouched for something that is not approved; ``None`` where that is known already."""
        if self.phase is Phase.FAILED:
            return None
        self.phase, self.reason = Phase.FAILED, f"{code}: {found}"
        self._stepped_down = True
        return Event("attestation-failed", self.reason, expected, step_down=True)

    def check(self, now_ns: int) -> Event | None:
        """What time brought: an epoch whose successor is late, or one that is about to end without."""
        if self.phase is Phase.FAILED:
            return None
        life = self._expires_ns - self._opened_ns
        left_ns = self._expires_ns - now_ns
        if not self._stepped_down and left_ns <= min(STEP_DOWN_NS, life // 8):
            self._stepped_down = True
            found = "no epoch was opened" if self.phase is Phase.WAITING else "the epoch ends without a successor"
            self.phase, self.reason = Phase.ENDED, found
            return Event("attestation-ended", found, "evidence in time", step_down=True)
        share, whole = OVERDUE_AFTER
        if self.phase is Phase.ATTESTED and left_ns <= life - life * share // whole:
            self.phase = Phase.OVERDUE
            self.reason = f"no new evidence, {left_ns // NS_PER_S} s before the epoch ends"
            return Event("attestation-overdue", self.reason, "evidence in time: does the TPM answer?", step_down=False)
        return None

    def summary(self) -> dict[str, Any]:
        """For the snapshot."""
        return {
            "phase": str(self.phase),
            "reason": self.reason or None,
            "tpm_kind": self.tpm_kind,
            "expires_ns": self._expires_ns if self.good else None,
        }
