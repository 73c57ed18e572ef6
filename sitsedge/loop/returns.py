"""Finished proofs on their way back: signed by the session key, into the device's ledger, to the gate, settled."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from attest.command import Alarm, LateProof, SessionKey, line, sign_record
from attest.ledger import RecordKind
from attest.ledger.writer import LedgerWriter
from sitsedge.gate.link import Message
from sitsedge.loop.budget import CycleRefused
from sitsedge.loop.deferred import DeferredLane
from sitsedge.loop.pipeline import EpochContext
from sitsedge.prover.queue import KIND_BY_SIZE, Proven

NS_PER_MS: Final = 1_000_000
UNANSWERED_MAX: Final = 512  # accepted commands kept until their receipt; beyond, the gate names them again
UNANSWERED_NS: Final = 5_000 * NS_PER_MS  # a receipt takes a read-back; one that takes longer was lost on its way
BACKLOG_RETRY_NS: Final = 1_000 * NS_PER_MS
PROOFS_A_TURN: Final = 2  # each costs the gate a verification, which the next command may have to wait for

log = logging.getLogger("sitsedge.loop")


class ProofReturns:
    """The loop's part of the lane; all methods on the loop's thread. ``send`` raises what the gate's link raises.

    ``commits`` is false where only an earlier deployment used the lane: a proof inline needs not wait for it.
    """

    def __init__(
        self,
        lane: DeferredLane,
        *,
        device_id: str,
        ledger: LedgerWriter,
        deadline_ns: int,
        send: Callable[[Message], None],
        commits: bool = True,
    ) -> None:
        self.lane = lane
        self._device_id = device_id
        self._ledger = ledger
        self._deadline_ns = deadline_ns
        self._send = send
        self._commits = commits
        self._unanswered: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        self._listed: set[bytes] | None = None
        self._held: Proven | None = None
        self._backlog_until_mono_ns = 0
        self._hold = False
        self.recorded = 0

    def check(self) -> None:
        """Before a command is decided: would it be taken, and is there room for its job? Raises ``CycleRefused``.

        A gate that refused one because of its backlog is asked again once a second, not a hundred times; one that
        has put the lane on hold is not asked at all.
        """
        if self._hold:
            raise CycleRefused(
                "proof-backlog",
                found="a lane on hold since verified was withdrawn",
                expected="no proof owed and a mode people have confirmed since",
            )
        if time.monotonic_ns() < self._backlog_until_mono_ns:
            raise CycleRefused("proof-backlog", found="a gate that waits for earlier proofs", expected="none overdue")
        self.lane.check()

    def told(self, message: Message) -> None:
        """Whether the gate wants commitments now, as it says with every mode and in every list of what it is owed."""
        self._hold = self._commits and message.get("hold") is True

    def sent(self, sequence: int, command: bytes) -> None:
        """Keep a command until the gate says whether it accepted it."""
        self._unanswered[sequence] = command, time.monotonic_ns()
        if len(self._unanswered) > UNANSWERED_MAX:
            self._unanswered.popitem(last=False)

    def answered(self, sequence: int, code: str | None) -> None:
        """An accepted command (``code`` ``None``) owes a proof from now on."""
        command, _ = self._unanswered.pop(sequence, (None, 0))
        if code == "proof-backlog":
            self._backlog_until_mono_ns = time.monotonic_ns() + BACKLOG_RETRY_NS
        if code is None and command is not None:
            self.lane.submit(command, due_ns=time.time_ns() + self._deadline_ns)

    def epoch_opened(self) -> None:
        """Ask the gate what it is owed, and offer it again what it has not confirmed."""
        self._unanswered.clear()
        self.lane.offer_again()
        self.ask()

    def ask(self) -> None:
        """Begin the gate's list anew."""
        self._listed = set()
        self._send({"t": "owed", "after": (0, 0)})

    def owed(self, message: Message) -> None:
        """One page of the gate's list: whatever is on it has to be in the queue."""
        self.told(message)
        if self._listed is None:
            return
        for command in message["commands"]:
            self._listed.add(hashlib.sha256(command).digest())
            self.lane.submit(command, due_ns=time.time_ns() + self._deadline_ns)
        following = message["next"]
        if following is not None:
            self._send({"t": "owed", "after": tuple(following)})
            return
        self.lane.owed(frozenset(self._listed))
        self._listed = None

    def turn(self, epoch: EpochContext) -> None:
        """A few finished proofs to ledger and gate, and what the lane has to say. Raises ``LedgerError``."""
        if self.lane.lost.is_set() or self._receipt_lost():
            self.lane.lost.clear()
            self._unanswered.clear()
            self.ask()
        while (event := self.lane.event()) is not None:
            alarm = Alarm(
                self._device_id, epoch.number, 0, event.code, line(event.found), line(event.expected), time.time_ns()
            )
            self._ledger.submit(RecordKind.ALARM, sign_record(alarm, epoch.key))
        for _ in range(PROOFS_A_TURN):
            proven = self._held or self.lane.poll()
            if proven is None:
                return
            self._held = proven  # until it is on its way: a full ledger or a lost gate must not lose it
            self._return(proven, epoch.key)
            self._held = None

    def _receipt_lost(self) -> bool:
        if not self._unanswered:
            return False
        _, sent = next(iter(self._unanswered.values()))
        return time.monotonic_ns() - sent > UNANSWERED_NS

    def _return(self, proven: Proven, key: SessionKey) -> None:
        header = proven.command.header
        record = LateProof(
            device_id=self._device_id,
            epoch=header.epoch,
            sequence=header.sequence,
            command_digest=proven.digest,
            proof_kind=KIND_BY_SIZE[len(proven.proof)],
            proof=proven.proof,
            t_ns=time.time_ns(),
        )
        data = sign_record(record, key)
        if not proven.recorded:
            self._ledger.submit(RecordKind.PROOF, data, lambda _: self.lane.recorded(proven.digest))
            self.recorded += 1
        self._send({"t": "proof", "record": data})

    def receipt(self, message: Message) -> None:
        """The gate has verified a proof; the caller keeps its record."""
        self.lane.confirmed(message["command_digest"])

    def refused(self, message: Message) -> None:
        """The gate did not take a proof: it is owed none for this command, or it will say why in its ledger."""
        code, digest = str(message["code"]), message["command_digest"]
        log.error("proof of %s: %s", digest.hex()[:16], code)
        if code == "proof-unknown" and digest:
            self.lane.confirmed(digest)

    def summary(self) -> dict[str, Any]:
        """For the snapshot."""
        state = self.lane.state
        age_ms = None
        if state.oldest_due_ns:
            age_ms = (time.time_ns() - state.oldest_due_ns + self._deadline_ns) // NS_PER_MS
        return {
            "queued": state.queued,
            "unsettled": state.proven,
            "failed": state.failed,
            "oldest_age_ms": age_ms,
            "fault": state.fault,
            "recorded": self.recorded,
        }
