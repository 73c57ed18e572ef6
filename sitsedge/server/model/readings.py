"""From a view to one reading a variable: value, StatusCode, source time. Pure, so that every rule can be tested alone.

The rules (codes of OPC 10000-4, 7.39.2, and OPC 10000-8, 6.4.3):

* never heard of: Bad_WaitingForInitialData;
* heard of, but this value is not known: Bad_NoData, never a zero;
* its process is silent: Uncertain_NoCommunicationLastUsableValue, the last value with the time it was said at;
* its process is gone: Bad_NoCommunication, without a value;
* said, and not what this type of value can be: Bad_OutOfRange.

What is read from a ledger is a record of the past and stays Good, with its own time. ``Verified`` is this server's own
judgement: once the gate has been heard of it is Good, and false whenever the gate does not speak or the machine is not
attested, so that nobody who forgets to look at a StatusCode reads an old "true".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from asyncua import ua

from attest.command import Mode
from sitsedge.server.model.names import sits_name
from sitsedge.server.model.spec import Name
from sitsedge.server.model.view import (
    BridgeView,
    CommandView,
    EpochView,
    GateView,
    HealthView,
    LoopView,
    Percentiles,
    ProcessView,
    ProverView,
    Reach,
    RefusalView,
    View,
)

GOOD: Final = ua.StatusCodes.Good
WAITING: Final = ua.StatusCodes.BadWaitingForInitialData
NO_DATA: Final = ua.StatusCodes.BadNoData
SILENT: Final = ua.StatusCodes.UncertainNoCommunicationLastUsableValue
GONE: Final = ua.StatusCodes.BadNoCommunication
OUT_OF_RANGE: Final = ua.StatusCodes.BadOutOfRange

CODES_MAX: Final = 256  # of one table of counts; the product has fewer than a hundred codes
TEXT_CHARACTERS_MAX: Final = 1000
RECORD_BYTES_MAX: Final = 65_536  # as attest.command.records
UINT32_MAX: Final = 2**32 - 1
UINT64_MAX: Final = 2**64 - 1
TIME_NS_MAX: Final = 253_402_300_799 * 10**9  # the year 9999, the last that a DateTime shows
SIMULATED: Final = "swtpm"
NOT_ATTESTED: Final = ("ended", "failed")  # phases of the gate's watch in which no command is accepted


@dataclass(frozen=True, slots=True)
class Reading:
    """One variable's value now; ``value`` is None where ``status`` is Bad."""

    path: str
    value: Any
    status: int
    t_ns: int


Speaker = GateView | LoopView | BridgeView | ProverView
"""What a process says of itself."""

Check = Callable[[Any], Any]
"""Gives the value as it is shown, or raises ValueError."""


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value[:TEXT_CHARACTERS_MAX]


def octets(value: Any) -> bytes:
    if not isinstance(value, bytes) or len(value) > RECORD_BYTES_MAX:
        raise ValueError
    return value


def count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= UINT64_MAX:
        raise ValueError
    return value


def small_count(value: Any) -> int:
    if count(value) > UINT32_MAX:
        raise ValueError
    return int(value)


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def duration(value: Any) -> float:
    """Milliseconds; a difference of two clocks may be negative."""
    return number(value)


def nanoseconds(value: Any) -> float:
    """Nanoseconds as a Duration."""
    return number(value) / 1e6


def moment(value: Any) -> int:
    if count(value) > TIME_NS_MAX:
        raise ValueError
    return int(value)


def mode(value: Any) -> int:
    try:
        return int(Mode[value])
    except KeyError:
        raise ValueError from None


def plain(value: Any) -> Any:
    """For what :mod:`.view` types already."""
    return value


def counts(value: Any) -> tuple[tuple[Name, int], ...]:
    """By code, in their order; what has no code in it is no table."""
    if not isinstance(value, Mapping) or len(value) > CODES_MAX:
        raise ValueError
    return tuple((sits_name(text(code)), count(value[code])) for code in sorted(value))


def total(value: Any) -> int:
    return count(sum(number for _, number in counts(value)))


def texts(value: Any) -> tuple[str, ...]:
    return tuple(text(item) for item in value)


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
    Row("LastCommand.ProofKind", lambda v: int(v.proof_kind), plain),
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


def readings(view: View, *, outputs: tuple[str, ...], processes: tuple[str, ...]) -> Iterator[Reading]:
    """One reading for every variable of the appliance that is not fixed."""
    now = view.t_ns
    yield from _said(GATE, view.gate, now)
    yield from _verified(view.gate, now)
    yield from _said(LOOP, view.loop, now)
    if "bridge" in processes:
        yield from _said(BRIDGE, view.bridge, now)
    if "prover" in processes:
        yield from _said(PROVER, view.prover, now)
    yield from _recorded(EPOCH, view.epoch, now)
    yield from _open_epoch(view.gate, view.epoch, now)
    yield from _recorded(HEALTH, view.health, now)
    yield from _recorded(COMMAND, view.command, now)
    yield from _outputs(view.command, outputs, now)
    yield from _recorded(REFUSAL, view.refusal, now)
    for name in processes:
        for reading in _recorded(PROCESS, view.processes.get(name), now):
            yield Reading(f"Processes.{name}.{reading.path}", reading.value, reading.status, reading.t_ns)


def _said(rows: tuple[Row, ...], source: Speaker | None, now: int) -> Iterator[Reading]:
    """What a process said of itself."""
    if source is None:
        yield from _nothing(rows, now)
        return
    word = source.word
    for row in rows:
        if word.reach is Reach.GONE:
            yield Reading(row.path, None, GONE, word.t_ns)
        else:
            yield _read(row, source, word.t_ns, SILENT if word.reach is Reach.SILENT else GOOD)


def _recorded(
    rows: tuple[Row, ...],
    source: EpochView | CommandView | RefusalView | HealthView | ProcessView | None,
    now: int,
) -> Iterator[Reading]:
    if source is None:
        yield from _nothing(rows, now)
        return
    for row in rows:
        yield _read(row, source, source.t_ns, GOOD)


def _verified(gate: GateView | None, now: int) -> Iterator[Reading]:
    """As ``sitsctl status`` judges."""
    rows = (Row("Verified", lambda v: v[0], flag), Row("VerifiedReason", lambda v: v[1], text))
    if gate is None:
        yield from _nothing(rows, now)
        return
    t_ns = gate.word.t_ns
    judged: tuple[object, object]
    if gate.word.reach is not Reach.FRESH:
        judged, t_ns = (False, "no running gate"), now
    elif gate.attestation_phase in NOT_ATTESTED:
        judged = (False, f"the machine is not attested now: {gate.attestation_phase}")
    else:
        judged = (gate.verified, gate.verified_reason or "")
    for row in rows:
        yield _read(row, judged, t_ns, GOOD)


def _open_epoch(gate: GateView | None, epoch: EpochView | None, now: int) -> Iterator[Reading]:
    """Of the record of the epoch that the gate says is open; that of an older one would be about another."""
    if gate is None or epoch is None:
        yield from _nothing(OPEN_EPOCH, now)
    elif gate.epoch != epoch.number:
        yield from (Reading(row.path, None, NO_DATA, gate.word.t_ns) for row in OPEN_EPOCH)
    else:
        yield from _recorded(OPEN_EPOCH, epoch, now)


def _nothing(rows: tuple[Row, ...], now: int) -> Iterator[Reading]:
    for row in rows:
        yield Reading(row.path, None, WAITING, now)


def _read(row: Row, source: Any, t_ns: int, status: int) -> Reading:
    value = row.take(source)
    if value is None:
        value = row.none
    if value is None:
        return Reading(row.path, None, NO_DATA, t_ns)
    try:
        return Reading(row.path, row.check(value), status, t_ns)
    except ValueError:
        return Reading(row.path, None, OUT_OF_RANGE, t_ns)


def _outputs(command: CommandView | None, names: tuple[str, ...], now: int) -> Iterator[Reading]:
    """Each output and what became of it; a command with another number of outputs is another module's."""
    for position, name in enumerate(names):
        path = f"LastCommand.Outputs.{name}"
        if command is None:
            rows = tuple(Row(f"{path}{part}", plain, plain) for part in ("", ".Applied", ".ReadBack"))
            yield from _nothing(rows, now)
            continue
        for part, values in (("", command.outputs), (".Applied", command.applied), (".ReadBack", command.read_back)):
            fits = values is not None and len(values) == len(names)
            row = Row(f"{path}{part}", itemgetter(position) if fits else _none, number)
            yield _read(row, values, command.t_ns, GOOD)


def _none(_: object) -> None:
    return None
