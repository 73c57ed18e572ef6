"""The loop itself: one thread that waits for frames and answers; helpers for TPM and disk beside it."""

from __future__ import annotations

import logging
import select
import signal
import time
from collections import deque
from pathlib import Path
from types import FrameType
from typing import Any

from attest.command import CycleRefused as CycleRefusedRecord
from attest.command import LedgerClosed, SessionKey, line, sign_record
from attest.ledger import LedgerError, RecordKind, kind_of
from attest.ledger.writer import IssuedCheckpoint, LedgerWriter
from attest.proof import Curve, Groth16Prover, key_hash
from attest.proof.commitment import statement_commitment
from fieldbus.net import FrameReceiver, NetError, ReceivedFrame
from sitsedge.config import load_deployment
from sitsedge.gate.link import GateLink, LinkError, Message
from sitsedge.loop.budget import Budget, CycleRefused
from sitsedge.loop.checks import InputCheck, OutputCheck, SignalSpec
from sitsedge.loop.deferred import DeferredLane
from sitsedge.loop.epoch import AttestationSetup, EpochKeeper, OpenedEpoch
from sitsedge.loop.gateview import GateView
from sitsedge.loop.ingest import FORGED, Ingest, open_receiver, watch_of
from sitsedge.loop.pipeline import Commit, EpochContext, Pipeline
from sitsedge.loop.returns import ProofReturns
from sitsedge.loop.secured import FORGED_MAX, Secured
from sitsedge.loop.tally import Sent, Tally
from sitsedge.modules import Bundle, Signal
from sitsedge.sandbox import Sandbox, SandboxLimits
from sitsedge.supervisor.state import StateDir, deferred_lane
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import END_COMMANDS, freeze_garbage, notify, realtime_offset_ns

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
IDLE_MS = 100
SNAPSHOT_NS = 500 * NS_PER_MS
QUALITY_NS = 200 * NS_PER_MS
WARM_UP_RUNS = 20
EPOCH_LOST = frozenset({"epoch-unknown", "epoch-expired", "signature"})

log = logging.getLogger("sitsedge.loop")


class Loop:
    """The process: sockets, pipeline, epoch, ledger and their one thread."""

    def __init__(
        self, config: Path, state: StateDir, attestation: AttestationSetup, bundle: Bundle, *, realtime: bool
    ) -> None:
        self.deployment = load_deployment(config)
        self.state = state
        self._bundle = bundle
        self._setup = attestation
        self._realtime = realtime
        self._tally = Tally(self.deployment.device_id)
        self._checkpoints: deque[IssuedCheckpoint] = deque(maxlen=4)
        self._first_key = SessionKey.generate()
        self._ledger = LedgerWriter(
            state.device_ledger,
            origin=self.deployment.device_origin,
            signer=None,  # until an epoch introduces a key
            checkpoint_ms=self.deployment.ledger.checkpoint_ms,
            on_checkpoint=self._checkpoints.append,
        )
        self._receiver: FrameReceiver = open_receiver(self.deployment)
        self._secured = Secured.of(self.deployment, state, now_ns=time.time_ns())
        self._watch = watch_of(self.deployment, self.state.run)
        self._pipeline = self._make_pipeline()
        self._proofs = self._make_returns()
        self._link: GateLink | None = None
        self._link_retry_mono_ns = 0
        self._epoch: EpochContext | None = None
        self._epochs: EpochKeeper | None = None
        self._renewal_asked = False
        self._renew_ns = 0
        self._gate = GateView()
        self._sequence = 0
        self._stopping = False
        self._ending = False  # a stop has begun: no commands any more, only proofs on their way
        self._last_values: dict[str, float] = {}

    def _make_pipeline(self) -> Pipeline:
        config, deployment = self._bundle.config, self.deployment
        prover = None
        if deployment.cycle.proof == "inline":
            prover = Groth16Prover(self._bundle.circuit, self._bundle.proving_key)
        limits = SandboxLimits.of_guest(
            fuel_per_call=config.guest.fuel_per_call, memory_bytes=config.guest.memory_bytes
        )
        cache = self.state.modules / ".machine-code"
        cache.mkdir(mode=0o700, exist_ok=True)
        sandbox = Sandbox.of(self._bundle, limits=limits, engine=deployment.engine, cache_dir=cache)
        self._kernel = sandbox.variant
        pipeline = Pipeline(
            ingest=Ingest(deployment, self._watch, security=None if self._secured is None else self._secured.reader),
            inputs=InputCheck([_spec(signal) for signal in config.inputs]),
            sandbox=sandbox,
            prover=prover,
            outputs=OutputCheck([_spec(signal) for signal in config.outputs]),
            commit=self._commit() if deployment.cycle.proof == "deferred" else None,
        )
        zeros = tuple(max(0, signal.counts[0]) for signal in config.inputs)
        for i in range(WARM_UP_RUNS):
            sandbox.infer(zeros)
            if prover is not None:
                prover.prove(zeros, i.to_bytes(31, "big"))
        return pipeline

    def _commit(self) -> Commit:
        curve, vk_sha256 = Curve.named(self._bundle.config.proof.curve), key_hash(self._bundle.verification_key)
        return lambda inputs, outputs, ctx: statement_commitment(vk_sha256, inputs, outputs, ctx, curve=curve)

    def _make_returns(self) -> ProofReturns | None:
        """The deferred lane, also where only an earlier deployment used it and left proofs owed."""
        cycle = self.deployment.cycle
        if not deferred_lane(self.deployment, self.state):
            return None
        return ProofReturns(
            DeferredLane(self.state.proof_queue, capacity=cycle.proof_queue_max),
            device_id=self.deployment.device_id,
            ledger=self._ledger,
            deadline_ns=cycle.proof_deadline_ms * NS_PER_MS,
            send=self._send,
            commits=cycle.proof == "deferred",
        )

    def _send(self, message: Message) -> None:
        if self._link is None:
            raise LinkError("gate-closed", found="no connection", expected="a running gate")
        self._link.send(message)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(END_COMMANDS, self._on_end)
        refused: deque[tuple[str, str, str]] = deque(maxlen=16)
        self._epochs = EpochKeeper(self._setup, on_refused=lambda *reason: refused.append(reason))
        self._epochs.want()
        self._snapshot("ready")
        freeze_garbage(disable=True)
        notify("READY=1")
        try:
            self._serve(refused)
        finally:
            notify("STOPPING=1")
            self._close()

    def _serve(self, refused: deque[tuple[str, str, str]]) -> None:
        poller = select.poll()
        poller.register(self._receiver.fileno(), select.POLLIN)
        watched = -1
        snapshot_due = quality_due = 0
        told = False
        while not self._stopping:
            link_fd = -1 if self._link is None else self._link.fileno()
            if link_fd != watched:
                if watched >= 0:
                    poller.unregister(watched)
                if link_fd >= 0:
                    poller.register(link_fd, select.POLLIN)
                watched = link_fd
            ready = {fd for fd, _ in poller.poll(IDLE_MS)}
            if self._receiver.fileno() in ready:
                self._frames()
            if watched >= 0 and watched in ready:
                self._answers()
            self._upkeep(refused)
            now = time.monotonic_ns()
            if self._ending and not told and not self._tally.pending:
                told, snapshot_due = True, 0  # who stops this waits for it
            if now >= quality_due:
                self._pipeline.ingest.refresh_quality()
                if self._secured is not None:
                    self._secured.poll(time.time_ns())
                self._receiver.tai_offset_s = self._pipeline.ingest.clock.tai_offset_s
                quality_due = now + QUALITY_NS
            if now >= snapshot_due:
                self._snapshot("running" if self._epoch is not None else "ready")
                notify("WATCHDOG=1")
                snapshot_due = now + SNAPSHOT_NS

    def _frames(self) -> None:
        try:
            frames, superseded = self._receiver.drain_newest(1 if self._secured is None else FORGED_MAX)
        except NetError as error:
            self._tally.refuse(CycleRefused("frame", found=f"{error.code}: {error.found}", expected=error.expected))
            return
        self._tally.superseded += superseded
        if frames:
            self._tally.kernel_dropped = frames[-1].dropped_total
        if not self._ending:
            self._newest_authentic(frames)

    def _newest_authentic(self, frames: list[ReceivedFrame]) -> None:
        """A cycle of the newest frame; what anybody may have sent does not displace the publisher's own before it."""
        while frames:
            if self._cycle(frames.pop()):
                self._tally.superseded += len(frames)
                return

    def _cycle(self, frame: ReceivedFrame) -> bool:
        """False for a frame that the publisher's keys did not let in."""
        self._tally.cycles += 1
        deadline_ns = round(self.deployment.cycle.deadline_ms * NS_PER_MS)
        budget = Budget(start_mono_ns=frame.t_rx_ns - realtime_offset_ns(), deadline_ns=deadline_ns)
        try:
            budget.charge("wake")
            if self._link is None:
                raise CycleRefused("gate-closed", found="no connection to the gate", expected="a running gate")
            if self._proofs is not None:
                self._proofs.check()
            self._sequence += 1
            decision = self._pipeline.run(
                frame, epoch=self._epoch, mode=self._gate.mode, sequence=self._sequence, budget=budget
            )
            self._ledger.submit(RecordKind.COMMAND, decision.data)
            sent = time.monotonic_ns()
            self._link.send({"t": "command", "command": decision.data, "sent_mono_ns": sent})
        except CycleRefused as refused:
            self._tally.refuse(refused)
            return not refused.code.startswith(FORGED)
        except LinkError as error:
            self._unsent(decision.sequence, error)
            if error.code != "gate-busy":
                self._drop_link(error)
        except LedgerError as error:
            self._tally.refuse(CycleRefused(error.code, found=error.found, expected=error.expected))
        else:
            if self._proofs is not None:
                self._proofs.sent(decision.sequence, decision.data)
            self._tally.sent(
                decision.sequence, Sent(budget.start_mono_ns, sent, budget.stages_ns, budget.deadline_mono_ns)
            )
        return True

    def _unsent(self, sequence: int, error: LinkError) -> None:
        """A command that was signed and recorded but never left: the ledger must say so, or an audit would miss it."""
        assert self._epoch is not None
        self._tally.refused[error.code] += 1
        self._record_unsent(sequence, error.code, error.found, error.expected)

    def _record_unsent(self, sequence: int, code: str, found: str, expected: str) -> None:
        assert self._epoch is not None
        record = CycleRefusedRecord(
            device_id=self.deployment.device_id,
            epoch=self._epoch.number,
            sequence=sequence,
            code=code,
            found=line(found),
            expected=line(expected),
            count=1,
            t_ns=time.time_ns(),
        )
        self._submit(RecordKind.CYCLE_REFUSED, sign_record(record, self._epoch.key))

    def _answers(self) -> None:
        try:
            while self._link is not None and (message := self._link.receive(0)) is not None:
                self._answer(message)
        except LinkError as error:
            self._drop_link(error)

    def _answer(self, message: Message) -> None:
        kind = message["t"]
        if kind == "receipt":
            self._ledger.submit(RecordKind.RECEIPT, message["record"])
            self._tally.answered(message["sequence"], code=None, state=message["state"], timing=message["timing"])
            if self._proofs is not None:
                self._proofs.answered(message["sequence"], None)
        elif kind == "refused":
            code = str(message["code"])
            if "record" in message:
                self._submit(kind_of(message["record"]), message["record"])
            self._tally.answered(int(message.get("sequence", 0)), code=code, state="", timing={})
            if self._proofs is not None:
                self._proofs.answered(int(message.get("sequence", 0)), code)
            if code in EPOCH_LOST and self._epoch is not None:
                self._lose_epoch(code)
        elif kind == "mode":
            self._gate.told(message["mode"], message["change"])
            if self._proofs is not None:
                self._proofs.told(message)
        elif kind == "witness":
            self._ledger.submit(RecordKind.WITNESS, message["record"])
            self._ledger.witnessed(message["size"])
            self._gate.witnessed()
        elif self._proofs is not None:
            self._proof_answer(self._proofs, message)

    def _proof_answer(self, proofs: ProofReturns, message: Message) -> None:
        kind = message["t"]
        if kind == "proof-receipt":
            self._submit(RecordKind.PROOF_RECEIPT, message["record"])
            proofs.receipt(message)
        elif kind == "proof-refused":
            proofs.refused(message)
        elif kind == "owed":
            proofs.owed(message)

    # --- beside the loop ---------------------------------------------------------------------------------------------

    def _upkeep(self, refused: deque[tuple[str, str, str]]) -> None:
        """Short things between two frames: link, epoch, records, checkpoints."""
        assert self._epochs is not None
        now = time.monotonic_ns()
        if self._link is None and now >= self._link_retry_mono_ns:
            self._open_link(now)
        while refused:
            code, found, expected = refused.popleft()
            self._tally.refuse(CycleRefused(f"epoch-{code}"[:64], found=found, expected=expected))
        if (opened := self._epochs.poll()) is not None:
            self._take_epoch(opened)
        elif self._epoch is not None and not self._renewal_asked and time.time_ns() > self._renew_ns:
            self._renewal_asked = True
            self._epochs.want()
        key = self._first_key if self._epoch is None else self._epoch.key
        for record in self._tally.due_records(0 if self._epoch is None else self._epoch.number):
            self._submit(RecordKind.CYCLE_REFUSED, sign_record(record, key))
        while self._checkpoints and self._link is not None and self._epoch is not None:
            issued = self._checkpoints.popleft()
            if not self._gate.checkpoint_open:  # else the next one covers what this one does
                self._offer(self._link, issued)
        if self._proofs is not None and self._epoch is not None and self._link is not None:
            self._return_proofs(self._proofs, self._epoch)

    def _offer(self, link: GateLink, issued: IssuedCheckpoint) -> None:
        try:
            link.send({"t": "checkpoint", "note": issued.note, "consistency": list(issued.consistency)})
            self._gate.checkpoint_sent()
        except LinkError as error:
            self._drop_link(error)

    def _return_proofs(self, proofs: ProofReturns, epoch: EpochContext) -> None:
        try:
            proofs.turn(epoch)
        except LedgerError as error:
            self._tally.refused[error.code] += 1
        except LinkError as error:
            if error.code != "gate-busy":
                self._drop_link(error)

    def _take_epoch(self, opened: OpenedEpoch) -> None:
        before = self._epoch
        self._epoch = opened.context
        self._renewal_asked = False
        rules = self.deployment.attestation
        left_s = rules.epoch_s_max - rules.renewal_s
        self._renew_ns = opened.context.expires_ns - round(left_s * NS_PER_S)
        self._sequence = 0
        self._gate.told(opened.mode, opened.change)
        self._submit(RecordKind.EVIDENCE, opened.evidence)
        self._submit(RecordKind.EPOCH_OPENED, opened.record)
        if before is None:  # else the gate has vouched for more since, and said so
            self._ledger.witnessed(opened.witnessed)  # later checkpoints prove that they extend this
        self._ledger.set_signer(opened.context.key)
        if before is not None:
            before.key.erase()
        self._checkpoints.clear()  # signed by the key before
        if self._proofs is not None:
            self._ask_what_is_owed(self._proofs)
        log.info("epoch %d, mode %s", opened.context.number, self._gate.mode.name)

    def _ask_what_is_owed(self, proofs: ProofReturns) -> None:
        try:
            proofs.epoch_opened()
        except LinkError as error:
            self._drop_link(error)

    def _lose_epoch(self, code: str) -> None:
        assert self._epoch is not None
        assert self._epochs is not None
        log.warning("epoch %d lost: %s", self._epoch.number, code)
        self._epoch = None
        self._epochs.want()

    def _open_link(self, now: int) -> None:
        try:
            self._link = GateLink(self._setup.gate_socket, connect_timeout_s=0.5)
            self._gate.connected()
        except LinkError as error:
            log.warning("%s", error)
            self._link_retry_mono_ns = now + 500 * NS_PER_MS

    def _drop_link(self, error: LinkError) -> None:
        log.error("gate lost: %s", error)
        if self._link is not None:
            self._link.close()
        self._link = None
        if self._epoch is not None:
            self._lose_epoch(error.code)

    def _submit(self, kind: RecordKind, data: bytes) -> None:
        try:
            self._ledger.submit(kind, data)
        except LedgerError as error:
            log.error("record lost: %s", error)
            self._tally.refused[error.code] += 1

    def _snapshot(self, state: str, *, newest: int | None = 1000) -> None:
        data: dict[str, Any] = {
            **self._tally.summary(newest=newest),
            "mode": self._gate.mode.name,
            "epoch": None if self._epoch is None else self._epoch.number,
            "module_digest": self._bundle.digest.hex(),
            "deployment": self.deployment.name,
            "ledger_size": self._ledger.size,
            "ledger_queued": self._ledger.queued,
            "time_quality": self._pipeline.ingest.quality.label,
            **self._pipeline.ingest.measures(),
            "source_security": None if self._secured is None else self._secured.summary(),
            "proof": self.deployment.cycle.proof,
            "realtime": self._realtime,
            "kernel": self._kernel,
            "ending": self._ending,
            "development_keys": self._bundle.config.proof.development,
            "attestation": None if self._epochs is None else self._epochs.state.summary(),
        }
        if self._proofs is not None:
            data["proofs"] = self._proofs.summary()
        write_snapshot(self.state.run, "sitsd", state, data)

    def _on_end(self, _: int, __: FrameType | None) -> None:
        self._ending = True

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        self._stopping = True

    def _close(self) -> None:
        """Answers still on their way, last records, ledger, key; the gate stops after this process."""
        deadline = time.monotonic() + 1.0
        while (
            self._link is not None
            and (self._tally.pending or self._gate.checkpoint_open)
            and time.monotonic() < deadline
        ):
            select.select([self._link.fileno()], [], [], 0.05)
            self._answers()
        key = self._first_key if self._epoch is None else self._epoch.key
        epoch = 0 if self._epoch is None else self._epoch.number
        for record in self._tally.due_records(epoch, everything=True):
            self._submit(RecordKind.CYCLE_REFUSED, sign_record(record, key))
        if self._epoch is not None:
            for sequence in self._tally.unanswered_sequences():
                self._record_unsent(
                    sequence, "unanswered", "no answer of the gate at the stop", "one for every command"
                )
        if self._epochs is not None:
            self._epochs.close()
        self._close_ledger(key)
        if self._proofs is not None:
            self._proofs.lane.close()  # after the ledger, whose last word is what it holds
        if self._link is not None:
            self._link.close()
        self._receiver.close()
        if self._secured is not None:
            self._secured.close(time.time_ns())
        if self._setup.signer is not None:
            self._setup.signer.close()
        self._snapshot("stopped", newest=None)
        key.erase()

    def _close_ledger(self, key: SessionKey) -> None:
        """Close the ledger, whose last checkpoint goes to the gate so that nothing at the end is unwitnessed."""
        try:
            size = self._ledger.flush(timeout_s=10.0)
            closed = LedgerClosed(self.deployment.device_origin, size, "stopped", time.time_ns())
            self._submit(RecordKind.LEDGER_CLOSED, sign_record(closed, key))
            self._ledger.close()
        except LedgerError as error:
            log.error("the ledger did not close in order: %s", error)
        if self._link is None or self._epoch is None:
            return
        if self._checkpoints:
            self._offer(self._link, self._checkpoints.pop())  # the newest covers the others


def _spec(signal_config: Signal) -> SignalSpec:
    low, high = signal_config.range
    return SignalSpec.physical(
        signal_config.name,
        signal_config.unit,
        scale=signal_config.scale,
        low=low,
        high=high,
        max_rate=signal_config.max_rate,
    )
