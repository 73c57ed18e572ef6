"""Every variable of the appliance that changes: where it is, what it is taken from, what it must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sitsedge.server.model.checks import (
    Check,
    count,
    counts,
    duration,
    flag,
    mode,
    moment,
    nanoseconds,
    octets,
    plain,
    proof_kind,
    small_count,
    text,
    texts,
    total,
)
from sitsedge.server.model.view import Percentiles

SIMULATED: Final = "swtpm"


@dataclass(frozen=True, slots=True)
class Row:
    """One variable: where it is, what it is taken from, what it must be.

    ``none``: shown where the source says that there is nothing, such as a reason for a thing that is well.
    """

    path: str
    take: Callable[[Any], Any]
    check: Check
    none: Any = None


def _percentiles(path: str, take: Callable[[Any], Percentiles], *, short: bool = False) -> tuple[Row, ...]:
    rows = (
        Row(f"{path}.P50", lambda v: take(v).p50_ms, duration),
        Row(f"{path}.P99", lambda v: take(v).p99_ms, duration),
        Row(f"{path}.P999", lambda v: take(v).p999_ms, duration),
        Row(f"{path}.Max", lambda v: take(v).max_ms, duration),
    )
    return rows[:2] if short else rows


GATE: Final = (
    Row("Mode", lambda v: v.mode, mode),
    Row("ModeCeiling", lambda v: v.ceiling, mode),
    Row("ModeCeilingReason", lambda v: v.ceiling_reason, text, none=""),
    Row("ProofPolicy", lambda v: v.proof_policy, text),
    Row("OnHold", lambda v: v.hold, flag),
    Row("PlcConnected", lambda v: v.plc_connected, flag),
    Row("PlcAuto", lambda v: v.plc_auto, flag),
    Row("Epoch.Number", lambda v: v.epoch, count),
    Row("Epoch.Expires", lambda v: v.expires_ns, moment),
    Row("Epoch.AttestationMode", lambda v: v.attestation_mode, text),
    Row("Epoch.AttestationPhase", lambda v: v.attestation_phase, text),
    Row("Epoch.AttestationReason", lambda v: v.attestation_reason, text, none=""),
    Row("Epoch.TpmKind", lambda v: v.tpm_kind, text),
    Row("Epoch.TpmSimulated", lambda v: None if v.tpm_kind is None else v.tpm_kind == SIMULATED, flag),
    *_percentiles("Latency.Gate", lambda v: v.verify),
    *_percentiles("Latency.Write", lambda v: v.write),
    Row("Counters.Accepted", lambda v: v.accepted, count),
    Row("Counters.Refused", lambda v: v.refused, total),
    Row("Counters.RefusedByCode", lambda v: v.refused, counts),
    Row("Counters.AlarmsByCode", lambda v: v.alarms, counts),
    Row("Counters.ProofsOwed", lambda v: v.proofs_owed, count),
    Row("Counters.ProofsReceived", lambda v: v.proofs_received, count),
    Row("Counters.ProofsLate", lambda v: v.proofs_late, count),
    Row("Counters.OldestOwed", lambda v: v.oldest_owed_ms, duration),
    Row("Counters.GateLedgerSize", lambda v: v.ledger_size, count),
)
LOOP: Final = (
    Row("ModuleDigest", lambda v: v.module_digest, text),
    Row("DevelopmentKeys", lambda v: v.development_keys, flag),
    Row("Epoch.AttestationFailures", lambda v: v.attestation_failures, small_count),
    Row("Epoch.AttestationError", lambda v: v.attestation_error, text, none=""),
    Row("Clock.Kind", lambda v: v.clock_kind, text),
    Row("Clock.Hold", lambda v: v.clock_hold, text),
    Row("Clock.ErrorBound", lambda v: v.clock_error_ns, nanoseconds),
    Row("Clock.Reason", lambda v: v.clock_reason, text, none=""),
    Row("Clock.DeltaE", lambda v: v.frame_to_verdict.p99_ms, duration),
    Row("Clock.WSync", lambda v: v.w_sync_ns, nanoseconds),
    Row("Clock.RealTime", lambda v: v.realtime, flag),
    *_percentiles("Latency.FrameToVerdict", lambda v: v.frame_to_verdict),
    *_percentiles("Latency.Proof", lambda v: v.prove),
    *_percentiles("Latency.EndToEnd", lambda v: v.end_to_end),
    *_percentiles("Latency.Unattributed", lambda v: v.unattributed, short=True),
    Row("Counters.Cycles", lambda v: v.cycles, count),
    Row("Counters.CyclesRefused", lambda v: v.refused, total),
    Row("Counters.CyclesRefusedByReason", lambda v: v.refused, counts),
    Row("Counters.Missed", lambda v: v.missed, count),
    Row("Counters.Superseded", lambda v: v.superseded, count),
    Row("Counters.KernelDropped", lambda v: v.kernel_dropped, count),
    Row("Counters.Unanswered", lambda v: v.unanswered, count),
    Row("Counters.Late", lambda v: v.late, count),
    Row("Counters.DeviceLedgerSize", lambda v: v.ledger_size, count),
)
BRIDGE: Final = (
    Row("Bridge.Connected", lambda v: v.connected, flag),
    Row("Bridge.Forwarded", lambda v: v.forwarded, count),
    Row("Bridge.BadQuality", lambda v: v.bad_quality, count),
    Row("Bridge.DroppedByReason", lambda v: v.dropped, counts),
)
PROVER: Final = (
    Row("Prover.Made", lambda v: v.made, count),
    Row("Prover.Failed", lambda v: v.failed, count),
    Row("Prover.Waiting", lambda v: v.waiting, count),
    Row("Prover.KeepsUp", lambda v: v.keeps_up, flag),
)
EPOCH: Final = (Row("DeploymentDigest", lambda v: v.deployment_digest, text),)
OPEN_EPOCH: Final = (
    Row("Epoch.Opened", lambda v: v.opened_ns, moment),
    Row("Epoch.BootPolicy", lambda v: v.boot_policy, text),
    Row("Epoch.AkName", lambda v: v.ak_name, text),
)
HEALTH: Final = (
    Row("DeviceHealth", lambda v: int(v.health), plain),
    Row("DeviceHealthDiagnostics", lambda v: v.diagnostics, texts),
)
COMMAND: Final = (
    Row("LastCommand.Record", lambda v: v.record, octets),
    Row("LastCommand.Proof", lambda v: v.proof, octets),
    Row("LastCommand.ProofKind", lambda v: v.proof_kind, proof_kind),
    Row("LastCommand.ProofVerified", lambda v: v.proof_verified, flag),
    Row("LastCommand.Receipt", lambda v: v.receipt, octets),
    Row("LastCommand.State", lambda v: v.state, text),
    Row("LastCommand.Epoch", lambda v: v.epoch, count),
    Row("LastCommand.Sequence", lambda v: v.sequence, count),
    Row("LastCommand.Mode", lambda v: v.mode, mode),
    Row("LastCommand.TimeQuality", lambda v: v.time_quality, text),
    Row("LastCommand.SourceTime", lambda v: v.t_source_ns, moment),
    Row("LastCommand.DecidedTime", lambda v: v.t_decided_ns, moment),
    Row("LastCommand.AcceptedTime", lambda v: v.t_accepted_ns, moment),
    Row("LastCommand.WrittenTime", lambda v: v.t_written_ns or None, moment),
    Row("LastCommand.ReadBackTime", lambda v: v.t_read_back_ns or None, moment),
)
REFUSAL: Final = (
    Row("LastRefusal.Party", lambda v: v.party, text),
    Row("LastRefusal.Code", lambda v: v.code, text),
    Row("LastRefusal.Found", lambda v: v.found, text),
    Row("LastRefusal.Expected", lambda v: v.expected, text),
    Row("LastRefusal.Time", lambda v: v.t_ns, moment),
    Row("LastRefusal.Epoch", lambda v: v.epoch, count),
    Row("LastRefusal.Sequence", lambda v: v.sequence, count),
    Row("LastRefusal.Count", lambda v: v.count, count),
    Row("LastRefusal.Record", lambda v: v.record, octets),
)
PROCESS: Final = (
    Row("State", lambda v: v.state, text),
    Row("Alive", lambda v: v.alive, flag),
    Row("LastSeen", lambda v: v.t_ns, moment),
    Row("ProcessId", lambda v: v.pid, small_count),
)
