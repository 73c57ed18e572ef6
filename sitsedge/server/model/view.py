"""What the appliance knows of itself at one moment: plain values, each from one place that is named here.

A value that is not known is ``None`` and becomes Bad_NoData; a number that nobody gave is never a zero. What was said
by a process has a :class:`Word`, with the moment and whether that process still speaks, because the value of a process
that fell silent is an old value and must look like one. Times are ns since the Unix epoch, durations what they say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Reach(StrEnum):
    """Whether the process behind a value still speaks."""

    FRESH = "fresh"
    SILENT = "silent"  # it runs, or may, and has said nothing for too long: values are Uncertain
    GONE = "gone"  # it has stopped or died: values are Bad


class Health(IntEnum):
    """DeviceHealthEnumeration of OPC 10000-100, 4.5.4: the status signals of NAMUR NE 107."""

    NORMAL = 0
    FAILURE = 1
    CHECK_FUNCTION = 2
    OFF_SPEC = 3
    MAINTENANCE_REQUIRED = 4


@dataclass(frozen=True, slots=True)
class Word:
    """When a process last said something, and whether it still does."""

    t_ns: int
    reach: Reach = Reach.FRESH


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of raw durations, in milliseconds, as measured: nothing is subtracted or smoothed."""

    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None


NOT_MEASURED = Percentiles()


@dataclass(frozen=True, slots=True)
class GateView:
    """``gate.json``. Reasons are empty where there is nothing to give a reason for."""

    word: Word
    mode: str | None = None
    ceiling: str | None = None
    ceiling_reason: str | None = None
    verified: bool | None = None
    verified_reason: str | None = None
    epoch: int | None = None
    attestation_mode: str | None = None
    attestation_phase: str | None = None
    attestation_reason: str | None = None
    tpm_kind: str | None = None
    expires_ns: int | None = None
    accepted: int | None = None
    refused: Mapping[str, int] | None = None
    alarms: Mapping[str, int] | None = None
    verify: Percentiles = NOT_MEASURED
    write: Percentiles = NOT_MEASURED
    plc_connected: bool | None = None
    plc_auto: bool | None = None
    ledger_size: int | None = None
    proof_policy: str | None = None
    proofs_owed: int | None = None
    proofs_received: int | None = None
    proofs_late: int | None = None
    oldest_owed_ms: float | None = None
    hold: bool | None = None


@dataclass(frozen=True, slots=True)
class LoopView:
    """``sitsd.json``."""

    word: Word
    module_digest: str | None = None
    development_keys: bool | None = None
    cycles: int | None = None
    refused: Mapping[str, int] | None = None
    missed: int | None = None
    superseded: int | None = None
    kernel_dropped: int | None = None
    unanswered: int | None = None
    late: int | None = None
    frame_to_verdict: Percentiles = NOT_MEASURED  # Δe
    prove: Percentiles = NOT_MEASURED
    end_to_end: Percentiles = NOT_MEASURED
    unattributed: Percentiles = NOT_MEASURED  # P50 and P99 only
    clock_kind: str | None = None
    clock_hold: str | None = None
    clock_error_ns: int | None = None
    clock_reason: str | None = None
    w_sync_ns: int | None = None
    ledger_size: int | None = None
    attestation_failures: int | None = None
    attestation_error: str | None = None
    attestation_since_ns: int | None = None
    realtime: bool | None = None


@dataclass(frozen=True, slots=True)
class BridgeView:
    """``bridge.json``, where the source comes through the bridge."""

    word: Word
    connected: bool | None = None
    forwarded: int | None = None
    bad_quality: int | None = None
    dropped: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class ProverView:
    """``prover.json``, where proofs follow their commands."""

    word: Word
    made: int | None = None
    failed: int | None = None
    waiting: int | None = None
    keeps_up: bool | None = None


@dataclass(frozen=True, slots=True)
class EpochView:
    """The newest epoch-opened record of the gate's ledger."""

    t_ns: int
    number: int
    opened_ns: int
    deployment_digest: str
    module_digest: str
    boot_policy: str
    ak_name: str


@dataclass(frozen=True, slots=True)
class CommandView:
    """The newest command and, once there is one, its own receipt; physical values in the order of the outputs."""

    t_ns: int
    record: bytes
    epoch: int
    sequence: int
    t_source_ns: int
    t_decided_ns: int
    mode: str
    time_quality: str
    proof_kind: int
    proof: bytes | None
    outputs: tuple[float, ...]
    receipt: bytes | None = None
    applied: tuple[float, ...] | None = None
    read_back: tuple[float, ...] | None = None
    state: str | None = None
    proof_verified: bool | None = None
    t_accepted_ns: int | None = None
    t_written_ns: int | None = None
    t_read_back_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RefusalView:
    """The newest refusal: by the gate (party ``gate``) or by the loop before anything was sent (``device``)."""

    t_ns: int
    party: str
    code: str
    found: str
    expected: str
    epoch: int
    sequence: int
    count: int = 1
    record: bytes | None = None


@dataclass(frozen=True, slots=True)
class ProcessView:
    """One process: what it says of itself (``running``, …) or what is seen from outside (``silent``, ``dead``)."""

    state: str
    alive: bool
    t_ns: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class HealthView:
    """The worst of what is wrong now, and all of it in words."""

    t_ns: int
    health: Health
    diagnostics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """Everything at one moment; what is missing has never been heard of."""

    t_ns: int
    gate: GateView | None = None
    loop: LoopView | None = None
    bridge: BridgeView | None = None
    prover: ProverView | None = None
    epoch: EpochView | None = None
    command: CommandView | None = None
    refusal: RefusalView | None = None
    health: HealthView | None = None
    processes: Mapping[str, ProcessView] = field(default_factory=dict)
