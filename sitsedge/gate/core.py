"""The gate itself: evidence opens an epoch, commands are judged, accepted ones are written and receipted.

Order for one accepted command: judge → record the command → write to the PLC → read back → signed receipt →
durable → receipt sent. A receipt therefore always speaks of something that survives a power cut.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attest.command import (
    Accepted,
    Alarm,
    EpochClosed,
    GateKey,
    GateRules,
    GateState,
    Mode,
    ModeChange,
    OpenEpoch,
    ProofVerifier,
    ReadBack,
    Receipt,
    Record,
    Refusal,
    Refused,
    judge,
    line,
    sign_record,
)
from attest.command.records import REFUSED_BYTES_MAX
from attest.errors import AttestError
from attest.ledger import RecordKind
from attest.ledger.writer import LedgerWriter
from sitsedge.gate.epochs import EpochDesk, EpochRejected
from sitsedge.gate.link import Message
from sitsedge.gate.modes import Change, ModeKeeper
from sitsedge.gate.plc import Applied, PlcError, PlcPort
from sitsedge.gate.server import Connection
from sitsedge.telemetry.durations import DurationRing

NS_PER_MS = 1_000_000
READBACK_FIRST_S = 0.003  # one PLC scan after the write
READBACK_STEP_S = 0.004
READBACKS_MAX = 16  # read-backs under way; more means a PLC that does not answer
READBACK_TOLERANCE_COUNTS = 1
INCIDENT_CODES = frozenset({"proof-signals", "proof-point", "proof-moved", "proof-statement", "proof-forged"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GateSetup:
    """What one gate needs to know; all of it from its own files."""

    gate_id: str
    rules: GateRules
    scales: tuple[float, ...]
    silence_ns: int
    readback_ns: int


class Gate:
    """One gate: epoch, order, limits, mode, PLC, ledger. Runs in one event loop; no method blocks on I/O."""

    def __init__(
        self,
        setup: GateSetup,
        *,
        key: GateKey,
        ledger: LedgerWriter,
        desk: EpochDesk,
        modes: ModeKeeper,
        plc: PlcPort | None,
        verifier: ProofVerifier | None,
        explain: Callable[[tuple[int, ...]], Sequence[int]] | None,
        announce: Callable[[Message], None],
    ) -> None:
        self._setup = setup
        self._key = key
        self._ledger = ledger
        self._desk = desk
        self.modes = modes
        self._plc = plc
        self._verifier = verifier
        self._explain = explain
        self._announce = announce
        self._epoch: OpenEpoch | None = None
        self._state = GateState(0)
        self._readbacks: set[asyncio.Task[None]] = set()
        self._last_accepted_mono_ns = 0
        self._silent = True
        self._not_applied = False
        self.accepted = 0
        self.refused: Counter[str] = Counter()
        self.alarms: Counter[str] = Counter()
        self.verify_ring = DurationRing()
        self.write_ring = DurationRing()
        self.last_applied: Applied | None = None

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
            seen = self._desk.seen
            answer = {"t": "nonce", "nonce": connection.new_nonce(), "mode": int(self.modes.mode)}
            connection.send(answer | {"witnessed": seen.size if seen is not None else 0})
        elif kind == "evidence":
            self._evidence(connection, message)
        elif kind == "checkpoint":
            self._checkpoint(connection, message)
        else:
            connection.send(
                {"t": "refused", "code": "malformed", "found": f"message {kind[:40]!r}", "expected": "a known one"}
            )

    # --- epochs and witnesses ----------------------------------------------------------------------------------------

    def _evidence(self, connection: Connection, message: Message) -> None:
        try:
            opened, evidence = self._desk.open(connection, message, self._plant_outputs())
        except EpochRejected as rejected:
            self.refused[rejected.code] += 1
            answer = {"t": "refused", "code": rejected.code, "found": rejected.found, "expected": rejected.expected}
            record = rejected.record
            self._ledger.submit(RecordKind.EPOCH_REFUSED, record, self._answer(connection, answer | {"record": record}))
            return
        if self._epoch is not None:
            self._close_epoch("a newer epoch")
        self._ledger.submit(RecordKind.EVIDENCE, evidence)
        record = sign_record(opened, self._key)
        self._epoch = OpenEpoch.of(opened)
        self._state = self._state.successor(opened.epoch, opened.plant_outputs)
        log.info("epoch %d opened for %s (%s)", opened.epoch, opened.device_id, opened.tpm_kind)
        reply = {"t": "epoch", "epoch": opened.epoch, "expires_ns": opened.expires_ns, "record": record}
        reply["mode"] = int(self.modes.mode)
        self._ledger.submit(RecordKind.EPOCH_OPENED, record, self._answer(connection, reply))

    def _checkpoint(self, connection: Connection, message: Message) -> None:
        if self._epoch is None:
            connection.send({"t": "refused", "code": "epoch-unknown", "found": "no epoch", "expected": "an open epoch"})
            return
        try:
            witness = self._desk.witness(message, self._epoch.session_public)
        except AttestError as error:
            self.refused[error.code] += 1
            record = self._alarm(error.code, error.found, error.expected, sequence=0)
            connection.send(
                {"t": "refused", "code": error.code, "found": error.found, "expected": error.expected, "record": record}
            )
            return
        record = sign_record(witness, self._key)
        answer = {"t": "witness", "size": witness.size, "record": record}
        self._ledger.submit(RecordKind.WITNESS, record, self._answer(connection, answer))

    def _close_epoch(self, reason: str) -> None:
        assert self._epoch is not None
        self._record(EpochClosed(self._setup.gate_id, self._epoch.number, line(reason), time.time_ns()))
        self._epoch = None

    def _plant_outputs(self) -> tuple[int, ...] | None:
        if self.last_applied is None:
            return None
        pairs = zip(self.last_applied.values, self._setup.scales, strict=True)
        return tuple(round(value / scale) for value, scale in pairs)

    # --- commands ----------------------------------------------------------------------------------------------------

    async def _command(self, connection: Connection, message: Message, received_mono_ns: int) -> None:
        data, sent = message.get("command"), message.get("sent_mono_ns")
        if not isinstance(data, bytes) or not isinstance(sent, int) or isinstance(sent, bool):
            connection.send({"t": "refused", "code": "malformed", "found": "another shape", "expected": "a command"})
            return
        started = time.monotonic_ns()
        now_ns = time.time_ns()  # the receipt names this instant, so that an auditor judges by the same clock reading
        mode = self.modes.mode
        verdict = judge(
            data,
            self._setup.rules,
            self._state,
            self._epoch,
            now_ns,
            gate_mode=mode,
            verifier=self._verifier,
            explain=self._explain,
        )
        judged = time.monotonic_ns()
        if isinstance(verdict, Refused):
            self._refuse(connection, data, verdict)
            return
        self.accepted += 1
        self.verify_ring.add(judged - started)
        self._last_accepted_mono_ns = judged
        self._silent = False
        self._ledger.submit(RecordKind.COMMAND, data)
        timing = {"received": received_mono_ns, "started": started, "judged": judged}
        if self._plc is None or not self.modes.writes:
            timing["acknowledged"] = judged
            receipt = self._receipt(verdict, accepted_ns=now_ns, state=ReadBack.NOT_WRITTEN)
            self._send_receipt(connection, receipt, timing)
            return
        await self._write(connection, verdict, now_ns, timing)

    async def _write(self, connection: Connection, verdict: Accepted, accepted_ns: int, timing: dict[str, int]) -> None:
        assert self._plc is not None
        command = verdict.parsed.command
        sequence = command.header.sequence
        values = [count * scale for count, scale in zip(command.outputs, self._setup.scales, strict=True)]
        started = time.monotonic_ns()
        try:
            await self._plc.write(sequence=sequence, values=values, valid_until_ns=accepted_ns + self._setup.silence_ns)
        except PlcError as error:
            self._alarm(error.code, error.found, error.expected, sequence=sequence)
            timing["acknowledged"] = 0
            receipt = self._receipt(verdict, accepted_ns=accepted_ns, state=ReadBack.NOT_APPLIED)
            self._send_receipt(connection, receipt, timing)
            return
        acknowledged = time.monotonic_ns()
        timing["acknowledged"] = acknowledged
        self.write_ring.add(acknowledged - started)
        written_ns = time.time_ns()
        if len(self._readbacks) >= READBACKS_MAX:
            receipt = self._receipt(verdict, accepted_ns=accepted_ns, state=ReadBack.PENDING, written_ns=written_ns)
            self._send_receipt(connection, receipt, timing)
            return
        task = asyncio.create_task(self._read_back(connection, verdict, accepted_ns, written_ns, timing))
        self._readbacks.add(task)
        task.add_done_callback(self._readbacks.discard)

    async def _read_back(
        self, connection: Connection, verdict: Accepted, accepted_ns: int, written_ns: int, timing: dict[str, int]
    ) -> None:
        """Poll until the PLC shows this sequence or a later one, or the time for it is over."""
        assert self._plc is not None
        header = verdict.parsed.command.header
        deadline = time.monotonic_ns() + self._setup.readback_ns
        wait_s = READBACK_FIRST_S
        applied: Applied | None = None
        while time.monotonic_ns() < deadline:
            await asyncio.sleep(wait_s)
            wait_s = READBACK_STEP_S
            try:
                applied = await self._plc.read_back()
            except PlcError as error:
                log.warning("read-back: %s", error)
                continue
            self.last_applied = applied
            if applied.sequence >= header.sequence:
                break
        self._send_receipt(connection, self._judge_read_back(verdict, applied, accepted_ns, written_ns), timing)

    def _judge_read_back(
        self, verdict: Accepted, applied: Applied | None, accepted_ns: int, written_ns: int
    ) -> Receipt:
        command = verdict.parsed.command
        counts = self._plant_outputs() if applied is not None else None
        if applied is None or counts is None:
            state = ReadBack.PENDING
        elif applied.sequence < command.header.sequence or not applied.auto_active:
            state = ReadBack.NOT_APPLIED
        elif applied.sequence > command.header.sequence:
            state = ReadBack.OK  # already the next command's values
        else:
            close = all(abs(a - b) <= READBACK_TOLERANCE_COUNTS for a, b in zip(counts, command.outputs, strict=True))
            state = ReadBack.OK if close else ReadBack.NOT_APPLIED
        self._note_application(state, command.header.sequence, applied)
        return self._receipt(
            verdict,
            accepted_ns=accepted_ns,
            state=state,
            written_ns=written_ns,
            read_back=counts or (),
            read_back_ns=time.time_ns() if counts else 0,
        )

    def _note_application(self, state: ReadBack, sequence: int, applied: Applied | None) -> None:
        """One alarm when commands stop taking effect, none for every command after it."""
        failing = state is ReadBack.NOT_APPLIED
        if failing and not self._not_applied:
            found = (
                "no read-back"
                if applied is None
                else f"applied sequence {applied.sequence}, AUTO {applied.auto_active}"
            )
            self._alarm("not-applied", found, f"sequence {sequence} applied in AUTO", sequence=sequence)
        self._not_applied = failing

    def _receipt(
        self,
        verdict: Accepted,
        *,
        accepted_ns: int,
        state: ReadBack,
        written_ns: int = 0,
        read_back: tuple[int, ...] = (),
        read_back_ns: int = 0,
    ) -> Receipt:
        command = verdict.parsed.command
        return Receipt(
            gate_id=self._setup.gate_id,
            epoch=command.header.epoch,
            sequence=command.header.sequence,
            command_digest=verdict.parsed.digest,
            accepted=command.outputs,
            applied=command.outputs if written_ns else (),
            read_back=read_back,
            state=state,
            proof_verified=verdict.proof_verified,
            t_accepted_ns=accepted_ns,
            t_written_ns=written_ns,
            t_read_back_ns=read_back_ns,
        )

    def _send_receipt(self, connection: Connection, receipt: Receipt, timing: dict[str, int]) -> None:
        record = sign_record(receipt, self._key)
        answer: Message = {"t": "receipt", "sequence": receipt.sequence, "state": receipt.state.value, "record": record}
        self._ledger.submit(RecordKind.RECEIPT, record, self._answer(connection, answer | {"timing": timing}))

    def _refuse(self, connection: Connection, data: bytes, refused: Refused) -> None:
        self.refused[refused.code] += 1
        header = refused.parsed.command.header if refused.parsed is not None else None
        record = sign_record(
            Refusal(
                gate_id=self._setup.gate_id,
                epoch=header.epoch if header else 0,
                sequence=header.sequence if header else 0,
                code=refused.code,
                check=refused.check,
                found=line(refused.found),
                expected=line(refused.expected),
                command_digest=hashlib.sha256(data).digest(),
                refused=data[:REFUSED_BYTES_MAX],
                t_ns=time.time_ns(),
            ),
            self._key,
        )
        answer: Message = {"t": "refused", "code": refused.code, "found": refused.found, "expected": refused.expected}
        answer |= {"sequence": header.sequence if header else 0, "record": record}
        self._ledger.submit(RecordKind.REFUSAL, record, self._answer(connection, answer))
        if refused.code in INCIDENT_CODES:
            self._incident(refused, header.sequence if header else 0)

    def _incident(self, refused: Refused, sequence: int) -> None:
        """A signed command with a wrong proof: end the epoch, step down, keep the evidence (architecture, §8)."""
        self._alarm("security-incident", f"{refused.code}: {refused.found}", refused.expected, sequence=sequence)
        self._close_epoch(f"security incident: {refused.code}")
        if self.modes.writes:
            self.change_mode(Mode.ADVISORY, (), f"security incident: {refused.code}")

    # --- modes, alarms, supervision ----------------------------------------------------------------------------------

    def change_mode(self, to: Mode, approved_by: Sequence[str], reason: str) -> Change:
        """Change the mode, record it, tell clients and PLC. Raises ``ModeRefused``."""
        change = self.modes.change(to, approved_by, reason)
        now = time.time_ns()
        self._record(
            ModeChange(self._setup.gate_id, change.before, change.after, change.approved_by, line(reason), now)
        )
        self._announce({"t": "mode", "mode": int(change.after)})
        if self._plc is not None:
            task = asyncio.create_task(self._follow_mode())
            self._readbacks.add(task)
            task.add_done_callback(self._readbacks.discard)
        return change

    async def _follow_mode(self) -> None:
        assert self._plc is not None
        try:
            await self._plc.request_auto(self.modes.writes)
        except PlcError as error:
            self._alarm(error.code, error.found, error.expected, sequence=0)

    def supervise(self) -> None:
        """Called a few times a second: expiry and silence, each reported once."""
        now_ns = time.time_ns()
        if self._epoch is not None and now_ns >= self._epoch.expires_ns:
            self._close_epoch("expired")
        silence = time.monotonic_ns() - self._last_accepted_mono_ns
        if self.modes.writes and not self._silent and silence > self._setup.silence_ns:
            self._silent = True
            self._alarm(
                "heartbeat-lost",
                f"no accepted command for {silence // NS_PER_MS} ms",
                f"one in {self._setup.silence_ns // NS_PER_MS} ms; the PLC holds, then ramps to fail-safe",
                sequence=0,
            )

    async def stop(self) -> None:
        """Give AUTO back (the PLC keeps the last applied value in MAN), finish read-backs, close the epoch."""
        if self.modes.mode is not Mode.OFF:
            self.change_mode(Mode.OFF, (), "stop")
        if self._readbacks:
            await asyncio.wait(self._readbacks, timeout=2.0)
        if self._epoch is not None:
            self._close_epoch("stop")

    def _alarm(self, code: str, found: str, expected: str, *, sequence: int) -> bytes:
        self.alarms[code] += 1
        log.error("alarm %s: %s (expected %s)", code, found, expected)
        epoch = self._epoch.number if self._epoch is not None else 0
        record = Alarm(self._setup.gate_id, epoch, sequence, code, line(found), line(expected), time.time_ns())
        return self._record(record)

    def _record(self, record: Record) -> bytes:
        data = sign_record(record, self._key)
        self._ledger.submit(RecordKind(record.KIND), data)
        return data

    def _answer(self, connection: Connection, message: Message) -> Callable[[int], None]:
        """An acknowledgement callback for the ledger's thread: send once the record is durable."""
        loop = asyncio.get_running_loop()

        def acknowledged(_: int) -> None:
            loop.call_soon_threadsafe(connection.send, message)

        return acknowledged
