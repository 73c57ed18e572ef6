"""The gate itself: evidence opens an epoch, commands are judged, accepted ones are written and receipted.

Order for one accepted command: judge → record the command → write to the PLC → read back → signed receipt →
durable → receipt sent. A receipt therefore always speaks of something that survives a power cut.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attest.command import (
    Accepted,
    CommandError,
    EpochClosed,
    GateRules,
    GateState,
    Mode,
    ModeChange,
    OpenEpoch,
    ProofVerifier,
    ReadBack,
    Refusal,
    Refused,
    Witness,
    judge,
    line,
    parse_record,
)
from attest.command.judge import CHECKS
from attest.command.records import REFUSED_BYTES_MAX
from attest.errors import AttestError
from attest.ledger import LedgerError, RecordKind
from sitsedge.gate.attestation import AttestationWatch, Event
from sitsedge.gate.book import GateBook
from sitsedge.gate.delivery import Delivery, receipt_of, send_receipt
from sitsedge.gate.epochs import EpochDesk, EpochRejected
from sitsedge.gate.link import Message
from sitsedge.gate.modes import WRITING, Change, IncidentLatch, ModeKeeper, ModeRefused
from sitsedge.gate.proofs import ProofDesk, ProofRejected
from sitsedge.gate.server import Connection
from sitsedge.telemetry.durations import DurationRing

NS_PER_MS = 1_000_000
INCIDENT_CODES = frozenset({"proof-signals", "proof-point", "proof-moved", "proof-statement", "proof-forged"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GateSetup:
    """What one gate needs to know; all of it from its own files."""

    rules: GateRules
    silence_ns: int


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """The verifier of the module's key, and the model's own outputs for the diagnosis after a failed pairing."""

    verifier: ProofVerifier
    explain: Callable[[tuple[int, ...]], Sequence[int]]


class Gate:
    """One gate: epoch, order, limits, mode. Runs in one event loop; no method blocks on I/O.

    ``delivery`` is ``None`` where there is no PLC: such a gate only records.
    """

    def __init__(
        self,
        setup: GateSetup,
        *,
        book: GateBook,
        desk: EpochDesk,
        modes: ModeKeeper,
        delivery: Delivery | None,
        proof: ProofCheck,
        announce: Callable[[Message], None],
        latch: IncidentLatch,
        proofs: ProofDesk,
        watch: AttestationWatch | None = None,
    ) -> None:
        self._setup = setup
        self.book = book
        self._desk = desk
        self.modes = modes
        self._delivery = delivery
        self._proof = proof
        self._announce = announce
        self._latch = latch
        self.proofs = proofs
        self.watch = AttestationWatch(time.time_ns()) if watch is None else watch
        self._epoch: OpenEpoch | None = None
        self._state = GateState(0)
        self._next: OpenEpoch | None = None
        self._next_outputs: tuple[int, ...] | None = None
        self._last_accepted_mono_ns = 0
        self._silent = True
        self._mode_changes = 0
        self.accepted = 0
        self.refused: Counter[str] = Counter()
        self.verify_ring = DurationRing()

    @property
    def epoch_number(self) -> int | None:
        """The open epoch, if there is one."""
        return self._epoch.number if self._epoch is not None else None

    async def handle(self, connection: Connection, message: Message, received_mono_ns: int) -> None:
        """One packet from a client."""
        kind = message["t"]
        if kind == "command":
            await self._command(connection, message, received_mono_ns)
        elif kind == "challenge":
            nonce = connection.new_nonce()
            connection.send({"t": "nonce", "nonce": nonce, "witnessed": self._desk.challenged(nonce)})
        elif kind == "evidence":
            self._evidence(connection, message)
        elif kind == "checkpoint":
            self._checkpoint(connection, message)
        elif kind == "proof":
            self._late_proof(connection, message)
        elif kind == "owed":
            self._owed(connection, message)
        else:
            connection.send(_refusal("malformed", f"message {kind[:40]!r}", "a known one"))

    # --- epochs and witnesses ----------------------------------------------------------------------------------------

    def _evidence(self, connection: Connection, message: Message) -> None:
        plant = self._delivery.plant_outputs() if self._delivery is not None else None
        try:
            opened, evidence = self._desk.open(connection, message, plant)
        except EpochRejected as rejected:
            self.refused[rejected.code] += 1
            answer = _refusal(rejected.code, rejected.found, rejected.expected)
            self.book.answer_signed(connection, RecordKind.EPOCH_REFUSED, rejected.record, answer)
            if rejected.vouched:
                self._attestation_failed(rejected)
            return
        if self._next is not None:
            self._begin_next()  # never more than two: an audit keeps as many open
        self.book.keep(RecordKind.EVIDENCE, evidence)
        self._next, self._next_outputs = OpenEpoch.of(opened), opened.plant_outputs
        if self._epoch is None:
            self._begin_next()
        if self.watch.opened(opened_ns=opened.t_opened_ns, expires_ns=opened.expires_ns, tpm_kind=opened.tpm_kind):
            log.warning("attested again; the mode stays as it is until people confirm one")
        log.info("epoch %d opened for %s (%s)", opened.epoch, opened.device_id, opened.tpm_kind)
        reply = {"t": "epoch", "epoch": opened.epoch, "expires_ns": opened.expires_ns}
        self.book.answer(connection, opened, reply | self._mode_now())

    def _attestation_failed(self, rejected: EpochRejected) -> None:
        """The device's own TPM shows what nobody approved: step down first, then let the epoch go."""
        event = self.watch.failed(rejected.code, rejected.found, rejected.expected)
        if event is not None:
            self._attestation_event(event)
        self._close_epochs(f"attestation failed: {rejected.code}")

    def _attestation_event(self, event: Event) -> None:
        self.book.alarm(event.code, event.found, event.expected, sequence=0)
        if event.step_down and self.modes.writes:
            self.change_mode(Mode.ADVISORY, (), f"{event.code}: {event.found}")

    def _checkpoint(self, connection: Connection, message: Message) -> None:
        if self._epoch is None:
            connection.send(_refusal("epoch-unknown", "no epoch", "an open epoch"))
            return
        try:
            witness = self._witness(message, self._epoch)
        except AttestError as error:
            self.refused[error.code] += 1
            record = self.book.alarm(error.code, error.found, error.expected, sequence=0)
            connection.send(_refusal(error.code, error.found, error.expected) | {"record": record})
            return
        self.book.answer(connection, witness, {"t": "witness", "size": witness.size})

    def _witness(self, message: Message, epoch: OpenEpoch) -> Witness:
        """By the key of the open epoch, or of the one that follows, which begins with it. Raises ``LedgerError``."""
        try:
            return self._desk.witness(message, epoch.session_public)
        except LedgerError as error:
            if self._next is None or error.code != "note-signature":
                raise
            witness = self._desk.witness(message, self._next.session_public)
        self._begin_next()
        return witness

    # An epoch that follows an open one begins with the first thing its key has signed: commands on their way are still
    # of the one before, and none of them is lost.

    def _begin_next(self) -> None:
        assert self._next is not None
        if self._epoch is not None:
            self._end_epoch(self._epoch, "a newer epoch")
        self._epoch, self._next = self._next, None
        self._state = self._state.successor(self._epoch.number, self._next_outputs)
        self.book.epoch = self._epoch.number

    def _end_epoch(self, epoch: OpenEpoch, reason: str) -> None:
        self.book.record(EpochClosed(self.book.gate_id, epoch.number, line(reason), time.time_ns()))

    def _close_epochs(self, reason: str) -> None:
        """The open one and its successor: nothing is accepted until new evidence opens another."""
        for epoch in (self._epoch, self._next):
            if epoch is not None:
                self._end_epoch(epoch, reason)
        self._epoch = self._next = None
        self.book.epoch = 0

    # --- commands ----------------------------------------------------------------------------------------------------

    async def _command(self, connection: Connection, message: Message, received_mono_ns: int) -> None:
        data = message.get("command")
        if not isinstance(data, bytes):
            connection.send(_refusal("malformed", "another shape", "a command"))
            return
        started = time.monotonic_ns()
        now_ns = time.time_ns()  # the receipt names this instant, so that an auditor judges by the same clock reading
        verdict = self._judge(data, now_ns)
        judged = time.monotonic_ns()
        if isinstance(verdict, Refused):
            self._refuse(connection, data, verdict)
            return
        self.accepted += 1
        self.verify_ring.add(judged - started)
        self._last_accepted_mono_ns = judged
        self._silent = False
        self.book.keep(RecordKind.COMMAND, data, self.proofs.accepted(verdict, data))
        self.check_proofs(now_ns)
        timing = {"received": received_mono_ns, "started": started, "judged": judged}
        if self._delivery is not None and self.modes.writes:
            await self._delivery.write(connection, verdict, now_ns, timing)
            return
        receipt = receipt_of(self.book.gate_id, verdict, accepted_ns=now_ns, state=ReadBack.NOT_WRITTEN)
        send_receipt(self.book, connection, receipt, timing | {"acknowledged": judged})

    def _judge(self, data: bytes, now_ns: int) -> Accepted | Refused:
        verdict = self._judge_in(self._epoch, self._state, data, now_ns)
        following = self._next
        if following is None or isinstance(verdict, Accepted) or verdict.code != "epoch-unknown":
            return verdict
        if verdict.parsed is None or verdict.parsed.command.header.epoch != following.number:
            return verdict
        state = self._state.successor(following.number, self._next_outputs)
        verdict = self._judge_in(following, state, data, now_ns)
        if isinstance(verdict, Accepted) or verdict.check > CHECKS["signature"]:  # that epoch's key signed it
            self._begin_next()
            self._state = state
        return verdict

    def _judge_in(self, epoch: OpenEpoch | None, state: GateState, data: bytes, now_ns: int) -> Accepted | Refused:
        return judge(
            data,
            self._setup.rules,
            state,
            epoch,
            now_ns,
            gate_mode=self.modes.mode,
            verifier=self._proof.verifier,
            explain=self._proof.explain,
            withdrawn=self.proofs.withdrawn,
        )

    def _refuse(self, connection: Connection, data: bytes, refused: Refused) -> None:
        self.refused[refused.code] += 1
        header = refused.parsed.command.header if refused.parsed is not None else None
        sequence = header.sequence if header is not None else 0
        refusal = Refusal(
            gate_id=self.book.gate_id,
            epoch=header.epoch if header is not None else 0,
            sequence=sequence,
            code=refused.code,
            check=refused.check,
            found=line(refused.found),
            expected=line(refused.expected),
            command_digest=hashlib.sha256(data).digest(),
            refused=data[:REFUSED_BYTES_MAX],
            t_ns=time.time_ns(),
        )
        answer = _refusal(refused.code, refused.found, refused.expected) | {"sequence": sequence}
        self.book.answer(connection, refusal, answer)
        if refused.code in INCIDENT_CODES:
            self._incident(refused, sequence)

    def _incident(self, refused: Refused, sequence: int) -> None:
        """A signed command with a wrong proof: end the epoch, step down, keep the evidence (architecture, §8)."""
        self._raise_incident(refused.code, refused.found, refused.expected, sequence)

    def _raise_incident(self, code: str, found: str, expected: str, sequence: int) -> None:
        self.book.alarm("security-incident", f"{code}: {found}", expected, sequence=sequence)
        self._latch.set(f"security incident: {code}")
        self._close_epochs(f"security incident: {code}")
        if self.modes.writes:
            self.change_mode(Mode.ADVISORY, (), f"security incident: {code}")

    # --- proofs that follow ------------------------------------------------------------------------------------------

    def _owed(self, connection: Connection, message: Message) -> None:
        """Name the commands that owe a proof, a page at a time: what a crash made the device forget."""
        after = message.get("after")
        if not isinstance(after, tuple) or len(after) != 2 or not all(type(item) is int for item in after):
            connection.send(_refusal("malformed", "another shape", "an epoch and a sequence"))
            return
        commands, following = self.proofs.page((after[0], after[1]))
        connection.send({"t": "owed", "commands": commands, "next": following, "hold": self.proofs.hold})

    def _late_proof(self, connection: Connection, message: Message) -> None:
        data = message.get("record")
        if not isinstance(data, bytes):
            connection.send(_refusal("malformed", "another shape", "a signed proof"))
            return
        try:
            if self._epoch is None:
                raise ProofRejected("epoch-unknown", found="no epoch", expected="an open epoch")
            if self._next is not None and signed_by(data, self._next.session_public):
                self._begin_next()
            settled = self.proofs.settle(data, self._epoch.session_public, time.time_ns())
        except ProofRejected as rejected:
            self.refused[rejected.code] += 1
            answer = _refusal(rejected.code, rejected.found, rejected.expected)
            connection.send(answer | {"t": "proof-refused", "command_digest": rejected.digest})
            if rejected.forged:
                self._raise_incident(rejected.code, rejected.found, rejected.expected, rejected.sequence)
            return
        answer = {"t": "proof-receipt", "command_digest": settled.digest}
        if settled.fresh:
            self.book.answer_signed(connection, RecordKind.PROOF_RECEIPT, settled.receipt, answer)
        else:
            connection.send(answer | {"record": settled.receipt})

    def check_proofs(self, now_ns: int) -> None:
        """Withdraw "verified" when proofs are overdue or too many, and step down (architecture, §4)."""
        reason = self.proofs.check(now_ns)
        if reason is not None:
            self.book.alarms[reason] += 1
            if self.modes.writes:
                self.change_mode(Mode.ADVISORY, (), f"verified withdrawn: {reason}")
            else:
                self._tell_mode()

    # --- modes and supervision ---------------------------------------------------------------------------------------

    def change_mode(self, to: Mode, approved_by: Sequence[str], reason: str) -> Change:
        """Change the mode, record it, tell clients and PLC. Raises ``ModeRefused``.

        A device whose attestation failed or ran out gets no writing mode before it is attested again.
        """
        if to in WRITING and to >= self.modes.mode and self.watch.fault is not None:
            raise ModeRefused(
                "mode-attestation",
                found=self.watch.fault,
                expected="an attested device",
                hint="end the fault that is named; sitsctl status shows when it is gone",
            )
        change = self.modes.change(to, approved_by, reason)
        self._mode_changes += 1
        now = time.time_ns()
        self.book.record(
            ModeChange(self.book.gate_id, change.before, change.after, change.approved_by, line(reason), now)
        )
        if self.modes.writes and change.after >= change.before:
            self._latch.clear()
            self.proofs.approve(change.approved_by, now)
        if change.after is not Mode.OFF and change.after >= change.before:
            self.proofs.resume()
        self._tell_mode()
        if self._delivery is not None:
            self._delivery.request_auto(self.modes.writes)
        return change

    def _tell_mode(self) -> None:
        self._announce({"t": "mode", "hold": self.proofs.hold} | self._mode_now())

    def _mode_now(self) -> Message:
        """The mode and the number of its change: an answer that waits for the disk may be overtaken by a newer mode."""
        return {"mode": int(self.modes.mode), "change": self._mode_changes}

    def supervise(self) -> None:
        """Called a few times a second: attestation, expiry, owed proofs and silence, each reported once."""
        now_ns = time.time_ns()
        self.check_proofs(now_ns)
        event = self.watch.check(now_ns)
        if event is not None:
            self._attestation_event(event)
        if self._epoch is not None and time.time_ns() >= self._epoch.expires_ns:
            if self._next is not None:
                self._begin_next()
            else:
                self._close_epochs("expired")
        silence = time.monotonic_ns() - self._last_accepted_mono_ns
        if self.modes.writes and not self._silent and silence > self._setup.silence_ns:
            self._silent = True
            self.book.alarm(
                "heartbeat-lost",
                f"no accepted command for {silence // NS_PER_MS} ms",
                f"one in {self._setup.silence_ns // NS_PER_MS} ms; the PLC holds, then ramps to fail-safe",
                sequence=0,
            )

    async def stop(self) -> None:
        """Give AUTO back (the PLC keeps the last applied value in MAN), finish read-backs, close the epoch."""
        if self.modes.mode is not Mode.OFF:
            self.change_mode(Mode.OFF, (), "stop")
        if self._delivery is not None:
            await self._delivery.drain()
        self._close_epochs("stop")


def signed_by(data: bytes, public: bytes) -> bool:
    """Whether ``data`` is a record that this key signed."""
    try:
        parse_record(data).verify(public)
    except CommandError:
        return False
    return True


def _refusal(code: str, found: str, expected: str) -> Message:
    return {"t": "refused", "code": code, "found": found, "expected": expected}
