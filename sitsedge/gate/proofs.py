"""What the gate is owed in the deferred lane: commitments it accepted, the proofs that follow, and its word on both.

1. an accepted commitment is owed a proof until its deadline
2. a proof that verifies settles it, late or not, with a signed receipt
3. one owed longer than its deadline, or more than the backlog allows: "verified" is withdrawn with a signed record;
   the mode steps down and no further commitment is accepted
4. "verified" returns when nothing is owed any more, or when people approve a writing mode again, which writes off what
   was owed until then (it stays unproven, and an audit says so)
5. from a withdrawal on the lane is on hold until people have confirmed a mode: a prover that fell behind once would
   fall behind again, and the claim would come and go without end

The gate's ledger is the memory: ``replay`` rebuilds all of this from it after a stop or a crash. A mark beside the
ledger says how far back it has to read; a mark that is missing or damaged costs time, nothing else.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest import jsontext
from attest.command import (
    Accepted,
    Command,
    CommandError,
    LateProof,
    ProofKind,
    ProofReceipt,
    ProofStatus,
    ProofVerifier,
    Receipt,
    line,
    parse_command,
    parse_record,
)
from attest.errors import AttestError
from attest.ledger import Ledger, RecordKind
from sitsedge.errors import SitsError
from sitsedge.gate.book import GateBook

NS_PER_MS: Final = 1_000_000
PAGE_BYTES_MAX: Final = 128 * 1024  # of commands in one packet
PAGE_COMMANDS_MAX: Final = 512
MARK_BYTES_MAX: Final = 256
VERIFIERS_MAX: Final = 4

log = logging.getLogger(__name__)


class ProofRejected(SitsError):
    """A late proof that settles nothing; ``forged`` means that the session signed one that is wrong.

    Codes: ``malformed``, ``signature``, ``epoch-unknown``, ``proof-unknown`` (nobody owes it), ``proof-kind``,
    ``proof-signals``, ``proof-point``, ``proof-forged``.
    """

    def __init__(self, code: str, *, found: str, expected: str, digest: bytes = b"", sequence: int = 0) -> None:
        super().__init__(code, found=found, expected=expected)
        self.digest = digest
        self.sequence = sequence

    @property
    def forged(self) -> bool:
        """Whether this is a security incident."""
        return self.code in ("proof-signals", "proof-point", "proof-forged")


@dataclass(slots=True)
class Owed:
    """One accepted command without its proof. ``index`` is that of its record once that is durable, -1 before."""

    data: bytes
    command: Command
    due_ns: int
    index: int = -1


@dataclass(frozen=True, slots=True)
class Settled:
    """A proof that was taken: the signed receipt, ``fresh`` unless it was given before."""

    digest: bytes
    receipt: bytes
    fresh: bool


@dataclass(frozen=True, slots=True)
class DeskLimits:
    """The rules' limits: how long a proof may take, how many may be owed, and what kind it must be."""

    deadline_ns: int
    backlog_max: int


KeyOf = Callable[[bytes], tuple[ProofVerifier, ProofKind]]
"""``key(module_digest)`` for a module this gate knows; raises ``SitsError`` or ``AttestError``."""


class ProofDesk:
    """All methods in the gate's event loop; times are CLOCK_REALTIME nanoseconds."""

    def __init__(self, limits: DeskLimits, *, book: GateBook, key_of: KeyOf, mark: Path) -> None:
        self._limits = limits
        self._book = book
        self._key_of = key_of
        self._keys: OrderedDict[bytes, tuple[ProofVerifier, ProofKind]] = OrderedDict()
        self._mark = mark
        self._marked = -1
        self._owed: OrderedDict[bytes, Owed] = OrderedDict()
        self._written_off: OrderedDict[bytes, Owed] = OrderedDict()
        self._proven: OrderedDict[bytes, bytes] = OrderedDict()  # receipts given lately, for a client that lost one
        self.withdrawn: str | None = None
        """Why the gate does not stand by "verified", ``None`` while it does."""
        self.hold = False
        """Whether the loop is asked to send no commitments, although nothing may be owed any more (rule 5)."""
        self.received = self.late = 0

    @property
    def owed(self) -> int:
        """Number of proofs owed."""
        return len(self._owed)

    def oldest_due_ns(self) -> int:
        """When the first owed proof is due; 0 when none is owed."""
        return next(iter(self._owed.values())).due_ns if self._owed else 0

    # --- 1: commitments ----------------------------------------------------------------------------------------------

    def accepted(self, verdict: Accepted, data: bytes) -> Callable[[int], None] | None:
        """Note an accepted command; for a commitment, what to call with the record's index once it is durable."""
        command = verdict.parsed.command
        if command.proof_kind is not ProofKind.COMMITMENT:
            return None
        owed = Owed(data, command, verdict.now_ns + self._limits.deadline_ns)
        self._owed[verdict.parsed.digest] = owed

        def durable(index: int) -> None:
            owed.index = index

        return durable

    def page(self, after: tuple[int, int]) -> tuple[list[bytes], tuple[int, int] | None]:
        """Commands that owe a proof, beyond (epoch, sequence) ``after``, and where the next page begins, if any."""
        rows: list[bytes] = []
        size, last = 0, after
        for owed in self._owed.values():
            header = owed.command.header
            if (header.epoch, header.sequence) <= after:
                continue
            size += len(owed.data)
            if rows and (size > PAGE_BYTES_MAX or len(rows) == PAGE_COMMANDS_MAX):
                return rows, last
            rows.append(owed.data)
            last = (header.epoch, header.sequence)
        return rows, None

    # --- 2: proofs ---------------------------------------------------------------------------------------------------

    def settle(self, data: bytes, session_public: bytes, now_ns: int) -> Settled:
        """Take one signed late proof. Raises :class:`ProofRejected`."""
        try:
            parsed = parse_record(data)
            parsed.verify(session_public)
        except CommandError as error:
            raise ProofRejected(error.code, found=error.found, expected=error.expected) from error
        late = parsed.record
        if not isinstance(late, LateProof):
            raise ProofRejected("malformed", found=late.KIND, expected=LateProof.KIND)
        digest = late.command_digest
        if (again := self._proven.get(digest)) is not None:
            return Settled(digest, again, fresh=False)
        owed = self._owed.get(digest) or self._written_off.get(digest)
        if owed is None:
            raise ProofRejected(
                "proof-unknown", found=f"a proof for {digest.hex()}", expected="a command that owes one", digest=digest
            )
        self._verify(late, owed, digest)
        is_late = now_ns > owed.due_ns
        header = owed.command.header
        receipt = ProofReceipt(
            gate_id=self._book.gate_id,
            epoch=header.epoch,
            sequence=header.sequence,
            command_digest=digest,
            proof_digest=hashlib.sha256(late.proof).digest(),
            late=is_late,
            t_ns=now_ns,
        )
        record = self._book.sign(receipt)
        self._owed.pop(digest, None)
        self._written_off.pop(digest, None)
        self._proven[digest] = record
        if len(self._proven) > self._limits.backlog_max:
            self._proven.popitem(last=False)
        self.received += 1
        self.late += is_late
        return Settled(digest, record, fresh=True)

    def _verify(self, late: LateProof, owed: Owed, digest: bytes) -> None:
        command = owed.command
        header = command.header

        def reject(code: str, found: str, expected: str) -> ProofRejected:
            return ProofRejected(code, found=found, expected=expected, digest=digest, sequence=header.sequence)

        if (late.epoch, late.sequence) != (header.epoch, header.sequence):
            found = f"a proof for {late.epoch}/{late.sequence}"
            raise reject("proof-unknown", found, f"{header.epoch}/{header.sequence} as its command says")
        try:
            verifier, kind = self._key(header.module_digest)
        except (SitsError, AttestError) as error:
            raise reject("proof-kind", f"{error.code}: {error.found}", "the key of the command's module") from error
        if late.proof_kind is not kind:
            raise reject("proof-kind", late.proof_kind.name, kind.name)
        try:
            failed = verifier.verify(command.inputs, command.outputs, header.ctx(), late.proof)
        except AttestError as refusal:
            failed = refusal.code
        if failed is None:
            return
        code = "proof-forged" if "pairing" in failed else "proof-signals" if "signal" in failed else "proof-point"
        raise reject(code, f"check {failed} failed", "a proof of the statement committed to")

    def _key(self, module_digest: bytes) -> tuple[ProofVerifier, ProofKind]:
        if module_digest not in self._keys:
            self._keys[module_digest] = self._key_of(module_digest)
            if len(self._keys) > VERIFIERS_MAX:
                self._keys.popitem(last=False)
        return self._keys[module_digest]

    # --- 3, 4: the gate's word ---------------------------------------------------------------------------------------

    def check(self, now_ns: int) -> str | None:
        """Apply the rules; the reason when "verified" was withdrawn by this call."""
        if self.withdrawn is not None:
            if not self._owed:
                self._status("cleared", verified=True, found="no proof owed", expected="none", now_ns=now_ns)
            return None
        due = self.oldest_due_ns()
        if due and now_ns > due:
            late_ms = (now_ns - due) // NS_PER_MS
            expected = f"one in {self._limits.deadline_ns // NS_PER_MS} ms"
            self._status(
                "proof-deadline", verified=False, found=f"a proof {late_ms} ms late", expected=expected, now_ns=now_ns
            )
        elif len(self._owed) > self._limits.backlog_max:
            found, expected = f"{len(self._owed)} proofs owed", f"at most {self._limits.backlog_max}"
            self._status("proof-backlog", verified=False, found=found, expected=expected, now_ns=now_ns)
        return self.withdrawn

    def approve(self, names: tuple[str, ...], now_ns: int) -> None:
        """People approved a writing mode: what is owed and caused the withdrawal is written off."""
        if self.withdrawn is None:
            return
        found = line(f"{len(self._owed)} proofs written off by {', '.join(names)}")
        self._status("approved", verified=True, found=found, expected="their proofs", now_ns=now_ns)
        self._write_off()

    def resume(self) -> None:
        """People confirmed a mode: commitments are welcome again, unless "verified" is still withdrawn."""
        if self.withdrawn is None:
            self.hold = False

    def _write_off(self) -> None:
        self._written_off |= self._owed
        self._owed = OrderedDict()
        while len(self._written_off) > self._limits.backlog_max:
            self._written_off.popitem(last=False)

    def _status(self, code: str, *, verified: bool, found: str, expected: str, now_ns: int) -> None:
        self.withdrawn = None if verified else code
        self.hold = self.hold or not verified
        log.log(logging.INFO if verified else logging.ERROR, "verified: %s (%s: %s)", verified, code, found)
        self._book.record(
            ProofStatus(self._book.gate_id, verified, code, len(self._owed), line(found), line(expected), now_ns)
        )

    # --- memory ------------------------------------------------------------------------------------------------------

    def replay(self, path: Path, public: bytes) -> None:
        """Rebuild everything from the gate's ledger. Raises ``LedgerError`` or ``CommandError`` for a damaged one."""
        if not path.exists():
            return
        ledger = Ledger.open_readonly(path)
        try:
            for leaf in ledger.iterate(self._read_mark(ledger.size)):
                if leaf.kind is RecordKind.COMMAND:
                    self._replay_command(leaf.index, leaf.data)
                elif leaf.kind in (RecordKind.RECEIPT, RecordKind.PROOF_RECEIPT, RecordKind.PROOF_STATUS):
                    parsed = parse_record(leaf.data)
                    if self._owed or leaf.kind is RecordKind.PROOF_STATUS:
                        parsed.verify(public)
                        self._replay_record(parsed.record, leaf.data)
        finally:
            ledger.close()
        self.hold = self.withdrawn is not None  # a start is a decision of people: what was cleared before it is over

    def _replay_command(self, index: int, data: bytes) -> None:
        parsed = parse_command(data, None)
        if parsed.command.proof_kind is ProofKind.COMMITMENT:
            due_ns = parsed.command.header.t_decided_ns + self._limits.deadline_ns  # until its receipt says better
            self._owed[parsed.digest] = Owed(data, parsed.command, due_ns, index)

    def _replay_record(self, record: object, data: bytes) -> None:
        if isinstance(record, Receipt):
            owed = self._owed.get(record.command_digest)
            if owed is not None:
                owed.due_ns = record.t_accepted_ns + self._limits.deadline_ns
        elif isinstance(record, ProofReceipt):
            if self._owed.pop(record.command_digest, None) is not None:
                self._proven[record.command_digest] = data
                if len(self._proven) > self._limits.backlog_max:
                    self._proven.popitem(last=False)
            self._written_off.pop(record.command_digest, None)
        elif isinstance(record, ProofStatus):
            self.withdrawn = None if record.verified else record.code
            if record.code == "approved":
                self._write_off()

    def keep_mark(self, durable_size: int) -> None:
        """Note from which record on a replay has to read; ``durable_size`` is the ledger's acknowledged size."""
        first = next(iter(self._owed.values())).index if self._owed else durable_size
        if first < 0 or first == self._marked:
            return
        try:
            part = self._mark.with_name(self._mark.name + ".part")
            part.write_text(jsontext.dumps({"replay_from": first}), encoding="ascii")
            part.replace(self._mark)  # not synced: an old or empty mark only costs time
            self._marked = first
        except OSError as error:
            log.warning("the replay mark was not written: %s", error.strerror)

    def _read_mark(self, size: int) -> int:
        try:
            with self._mark.open("rb") as file:
                value = jsontext.loads(file.read(MARK_BYTES_MAX))["replay_from"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        return value if type(value) is int and 0 <= value <= size else 0
