"""The appliance's alarms: names, severities and what they mean for people (NAMUR NE 107; OPC 10000-9, 5.5.2).

An alarm says that somebody should do something, so single refusals are events, not alarms. Severities follow the groups
of OPC 10000-5, 6.4.2: 801–1000 act now, 601–800 act in this shift, 401–600 look into it, below that: it can wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Ne107(StrEnum):
    """The status signals of NAMUR NE 107, worst first in ``RANK``."""

    FAILURE = "failure"
    CHECK_FUNCTION = "check-function"
    OFF_SPEC = "off-spec"
    MAINTENANCE_REQUIRED = "maintenance-required"
    NORMAL = "normal"


RANK: Final = {status: rank for rank, status in enumerate(Ne107)}


@dataclass(frozen=True, slots=True)
class AlarmSpec:
    """One kind of alarm. ``latched``: it stays active until people act, not until the reason is gone."""

    name: str
    severity: int
    ne107: Ne107
    meaning: str
    latched: bool = False


_TABLE: Final = (
    AlarmSpec("SecurityIncident", 950, Ne107.FAILURE, "a signed command carried a wrong proof", latched=True),
    AlarmSpec("AttestationFailed", 900, Ne107.FAILURE, "the machine is not attested; no command is accepted"),
    AlarmSpec("AttestationOverdue", 650, Ne107.MAINTENANCE_REQUIRED, "the next attestation is late"),
    AlarmSpec("GateDown", 900, Ne107.FAILURE, "the gate does not run or says nothing"),
    AlarmSpec("LoopDown", 900, Ne107.FAILURE, "the loop does not run or says nothing"),
    AlarmSpec("BridgeDown", 800, Ne107.FAILURE, "the bridge does not run, says nothing or has no connection"),
    AlarmSpec("ProverDown", 600, Ne107.MAINTENANCE_REQUIRED, "the prover does not run or says nothing"),
    AlarmSpec("NotApplied", 850, Ne107.FAILURE, "the PLC took a command and does not apply it"),
    AlarmSpec("PlcUnreachable", 850, Ne107.FAILURE, "the gate cannot reach the PLC"),
    AlarmSpec("HeartbeatLost", 800, Ne107.FAILURE, "no command was accepted in time; the PLC goes to fail-safe"),
    AlarmSpec("ClockQuality", 750, Ne107.OFF_SPEC, "the clock is not good enough for this deployment"),
    AlarmSpec("SourceSilent", 750, Ne107.FAILURE, "no frame arrives"),
    AlarmSpec("FramesLost", 600, Ne107.OFF_SPEC, "frames are stale, lost, out of order or of bad quality"),
    AlarmSpec("InputLimits", 700, Ne107.OFF_SPEC, "an input is outside its limits"),
    AlarmSpec("OutputLimits", 700, Ne107.OFF_SPEC, "an output was outside its limits and refused"),
    AlarmSpec("LaneWithdrawn", 700, Ne107.CHECK_FUNCTION, "proofs are overdue; nothing counts as verified"),
    AlarmSpec("LedgerUnreadable", 600, Ne107.MAINTENANCE_REQUIRED, "a ledger cannot be read"),
    AlarmSpec("CertificateExpiring", 400, Ne107.MAINTENANCE_REQUIRED, "a certificate of this appliance ends soon"),
)
ALARMS: Final = {spec.name: spec for spec in _TABLE}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one alarm now; ``severity`` and ``ne107`` where they differ from the table."""

    active: bool
    message: str = ""
    severity: int | None = None
    ne107: Ne107 | None = None


QUIET: Final = Finding(active=False)


def worst(findings: dict[str, Finding]) -> Ne107:
    """The device's health: the worst status of all active alarms."""
    statuses = [finding.ne107 or ALARMS[name].ne107 for name, finding in findings.items() if finding.active]
    return min(statuses, key=RANK.__getitem__, default=Ne107.NORMAL)
