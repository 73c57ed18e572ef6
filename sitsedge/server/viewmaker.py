"""From one look at everything to the plain values that the address space shows. No I/O.

Snapshots come from other processes, perhaps of another release: what is not there or not of its kind is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from attest.command import CycleRefused, EpochOpened, LateProof, ProofKind, Refusal
from attest.command.enums import INLINE_PROOFS
from sitsedge.server.alarms import ALARMS, Finding, Ne107, worst
from sitsedge.server.judge import NO_PROCESS, SNAPSHOT_FRESH_S, Facts, Process
from sitsedge.server.model import (
    BridgeView,
    CommandView,
    EpochView,
    GateView,
    Health,
    HealthView,
    LoopView,
    Percentiles,
    ProcessView,
    ProverView,
    Reach,
    RefusalView,
    View,
    Word,
)
from sitsedge.server.news import News, Told
from sitsedge.server.reader import Reader, whole

NS_PER_S: Final = 1_000_000_000
HEALTH: Final = {
    Ne107.NORMAL: Health.NORMAL,
    Ne107.FAILURE: Health.FAILURE,
    Ne107.CHECK_FUNCTION: Health.CHECK_FUNCTION,
    Ne107.OFF_SPEC: Health.OFF_SPEC,
    Ne107.MAINTENANCE_REQUIRED: Health.MAINTENANCE_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """What does not change while a deployment runs: the scale (physical units per count) of each output."""

    output_scales: tuple[float, ...]


def make_view(facts: Facts, findings: Mapping[str, Finding], shape: Shape, now_ns: int) -> View:
    """Everything at this moment."""
    processes = facts.processes
    diagnostics = tuple(
        f"{name}: {finding.message or ALARMS[name].meaning}" for name, finding in findings.items() if finding.active
    )
    return View(
        t_ns=now_ns,
        gate=_gate(processes.get("gate", NO_PROCESS), now_ns),
        loop=_loop(processes.get("sitsd", NO_PROCESS), now_ns),
        bridge=_bridge(processes.get("bridge", NO_PROCESS), now_ns),
        prover=_prover(processes.get("prover", NO_PROCESS), now_ns),
        epoch=_epoch(facts.news.epoch),
        command=_command(facts.news, shape),
        refusal=_refusal(facts.news.refusal),
        health=HealthView(now_ns, HEALTH[worst(dict(findings))], diagnostics),
        processes={name: _process(process, now_ns) for name, process in processes.items()},
    )


def _word(process: Process, now_ns: int) -> Word:
    reach = Reach.FRESH
    if not process.alive or process.state == "stopped":
        reach = Reach.GONE
    elif process.age_s > SNAPSHOT_FRESH_S:
        reach = Reach.SILENT
    return Word(now_ns - round(process.age_s * NS_PER_S), reach)


def _process(process: Process, now_ns: int) -> ProcessView:
    state = process.state
    if process.data and not process.alive and state != "stopped":
        state = "dead"
    elif process.alive and process.age_s > SNAPSHOT_FRESH_S:
        state = "silent"
    t_ns = now_ns - round(process.age_s * NS_PER_S)
    return ProcessView(state, process.alive, t_ns, whole(process.data.get("pid")))


def _percentiles(data: Reader) -> Percentiles:
    return Percentiles(*(data.number(name) for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")))


def _gate(process: Process, now_ns: int) -> GateView | None:
    if not process.data:
        return None
    data = Reader(process.data)
    attested, proofs = data.below("attestation"), data.below("proofs")
    return GateView(
        word=_word(process, now_ns),
        mode=data.text("mode"),
        ceiling=data.text("ceiling"),
        ceiling_reason=data.reason("ceiling_reason"),
        verified=data.flag("verified"),
        verified_reason=data.reason("verified_reason"),
        epoch=data.whole("epoch"),
        attestation_mode=data.text("attestation_mode"),
        attestation_phase=attested.text("phase"),
        attestation_reason=attested.reason("reason"),
        tpm_kind=attested.text("tpm_kind"),
        expires_ns=attested.whole("expires_ns"),
        accepted=data.whole("accepted"),
        refused=data.counts("refused"),
        alarms=data.counts("alarms"),
        verify=_percentiles(data.below("verify")),
        write=_percentiles(data.below("write")),
        plc_connected=data.flag("plc_connected"),
        # What was read before the connection went is not what the PLC does now.
        plc_auto=None if data.flag("plc_connected") is False else data.flag("auto_active"),
        ledger_size=data.whole("ledger_size"),
        proof_policy=proofs.text("policy"),
        proofs_owed=proofs.whole("owed"),
        proofs_received=proofs.whole("received"),
        proofs_late=proofs.whole("late"),
        oldest_owed_ms=proofs.number("oldest_age_ms"),
        hold=proofs.flag("hold"),
    )


def _loop(process: Process, now_ns: int) -> LoopView | None:
    if not process.data:
        return None
    data = Reader(process.data)
    latency, clock, delta = data.below("latency"), data.below("clock"), data.below("delta_e")
    attempts = data.below("attestation")
    to_verdict = [delta.number(name) for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")]
    return LoopView(
        word=_word(process, now_ns),
        module_digest=data.text("module_digest"),
        development_keys=data.flag("development_keys"),
        cycles=data.whole("cycles"),
        refused=data.counts("refused"),
        missed=data.whole("missed"),
        superseded=data.whole("superseded"),
        kernel_dropped=data.whole("kernel_dropped"),
        unanswered=data.whole("unanswered"),
        late=data.whole("late"),
        frame_to_verdict=Percentiles(*(None if value is None else value / 1e6 for value in to_verdict)),
        prove=_percentiles(latency.below("stages").below("prove")),
        end_to_end=_percentiles(latency),
        unattributed=Percentiles(latency.number("unattributed_ms"), latency.number("unattributed_p99_ms")),
        clock_kind=clock.text("kind"),
        clock_hold=clock.text("hold"),
        clock_error_ns=clock.whole("error_ns_max"),
        clock_reason=clock.text("reason"),
        w_sync_ns=data.whole("w_sync_ns"),
        ledger_size=data.whole("ledger_size"),
        attestation_failures=attempts.whole("failing"),
        attestation_error=attempts.text("error"),
        attestation_since_ns=attempts.whole("since_ns"),
        realtime=data.flag("realtime"),
    )


def _bridge(process: Process, now_ns: int) -> BridgeView | None:
    if not process.data:
        return None
    data = Reader(process.data)
    return BridgeView(
        word=_word(process, now_ns),
        connected=data.flag("connected"),
        forwarded=data.whole("forwarded"),
        bad_quality=data.whole("forwarded_bad_quality"),
        dropped=data.counts("dropped"),
    )


def _prover(process: Process, now_ns: int) -> ProverView | None:
    if not process.data:
        return None
    data = Reader(process.data)
    return ProverView(
        word=_word(process, now_ns),
        made=data.whole("made"),
        failed=data.whole("failed"),
        waiting=data.whole("waiting"),
        keeps_up=data.below("pace").flag("keeps_up"),
    )


def _epoch(told: Told | None) -> EpochView | None:
    if told is None or not isinstance(record := told.record, EpochOpened):
        return None
    return EpochView(
        t_ns=record.t_opened_ns,
        number=record.epoch,
        opened_ns=record.t_opened_ns,
        deployment_digest=record.deployment_digest.hex(),
        module_digest=record.module_digest.hex(),
        boot_policy=record.boot_policy,
        ak_name=record.ak_name.hex(),
    )


def _command(news: News, shape: Shape) -> CommandView | None:
    if news.command is None:
        return None
    command, header, receipt = news.command.command, news.command.command.header, news.receipt
    return CommandView(
        t_ns=header.t_decided_ns,
        record=news.command_data,
        epoch=header.epoch,
        sequence=header.sequence,
        t_source_ns=header.t_source_ns,
        t_decided_ns=header.t_decided_ns,
        mode=header.mode.name,
        time_quality=command.time_quality.name.lower().replace("_", "-"),
        proof_kind=int(command.proof_kind),
        proof=_proof(command.proof_kind, command.proof, news.command.digest, news.late_proof),
        outputs=_physical(command.outputs, shape) or (),
        receipt=None if receipt is None else news.receipt_data,
        applied=None if receipt is None else _physical(receipt.applied, shape),
        read_back=None if receipt is None else _physical(receipt.read_back, shape),
        state=None if receipt is None else receipt.state.value,
        proof_verified=None if receipt is None else receipt.proof_verified,
        t_accepted_ns=None if receipt is None else receipt.t_accepted_ns,
        t_written_ns=None if receipt is None else receipt.t_written_ns or None,
        t_read_back_ns=None if receipt is None else receipt.t_read_back_ns or None,
    )


def _proof(kind: ProofKind, proof: bytes, digest: bytes, late: LateProof | None) -> bytes | None:
    if kind in INLINE_PROOFS:
        return proof
    return late.proof if late is not None and late.command_digest == digest else None


def _physical(counts: Sequence[int], shape: Shape) -> tuple[float, ...] | None:
    """``None`` where nothing was written or read, or it does not fit the module."""
    if not counts or len(counts) != len(shape.output_scales):
        return None
    return tuple(count * scale for count, scale in zip(counts, shape.output_scales, strict=True))


def _refusal(told: Told | None) -> RefusalView | None:
    if told is None:
        return None
    record = told.record
    if isinstance(record, Refusal):
        return RefusalView(
            record.t_ns,
            "gate",
            record.code,
            record.found,
            record.expected,
            record.epoch,
            record.sequence,
            record=told.data,
        )
    if isinstance(record, CycleRefused):
        return RefusalView(
            record.t_ns,
            "device",
            record.code,
            record.found,
            record.expected,
            record.epoch,
            record.sequence,
            count=record.count,
            record=told.data,
        )
    return None
