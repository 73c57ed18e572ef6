"""What the ledgers' new records say, kept small: the newest of each thing, and the words of what was refused."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from attest.command import (
    Alarm,
    CycleRefused,
    EpochClosed,
    EpochOpened,
    EpochRefused,
    LateProof,
    ModeChange,
    ParsedCommand,
    Receipt,
    Refusal,
    parse_command,
    parse_record,
)
from attest.errors import AttestError
from attest.ledger import Leaf, RecordKind

WORDS_MAX: Final = 128  # reasons remembered; codes come from signed records, but whoever signs may be broken
RECENT_MAX: Final = 512  # commands that may still get their receipt: read-backs take 200 ms at most by default
RECEIPT_LATE_NS: Final = 2_000_000_000
EVENTS_MAX: Final = 50  # passed on of one step; a flood is counted

#: The device keeps copies of what the gate answered, so each thing is taken from where it was first written.
FROM_GATE: Final = frozenset(
    {
        RecordKind.COMMAND,
        RecordKind.RECEIPT,
        RecordKind.ALARM,
        RecordKind.REFUSAL,
        RecordKind.MODE_CHANGE,
        RecordKind.EPOCH_OPENED,
        RecordKind.EPOCH_REFUSED,
        RecordKind.EPOCH_CLOSED,
    }
)
FROM_DEVICE: Final = frozenset({RecordKind.CYCLE_REFUSED, RecordKind.PROOF})
_NEWEST_ONLY: Final = frozenset({RecordKind.COMMAND, RecordKind.RECEIPT, RecordKind.PROOF})


@dataclass(frozen=True, slots=True)
class Words:
    """The last example of one reason."""

    found: str
    expected: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Told:
    """One record for people: where it lies, and what it says."""

    kind: RecordKind
    index: int
    record: Alarm | Refusal | CycleRefused | ModeChange | EpochOpened | EpochRefused | EpochClosed
    data: bytes


@dataclass(slots=True)
class News:
    """Everything the ledgers told so far; ``events`` is what came since ``begin``.

    ``command`` is the newest command whose receipt is known, or the newest of all while there is none; ``receipt``
    is that command's own.
    """

    words: OrderedDict[str, Words] = field(default_factory=OrderedDict)
    command: ParsedCommand | None = None
    command_data: bytes = b""
    receipt: Receipt | None = None
    receipt_data: bytes = b""
    late_proof: LateProof | None = None
    refusal: Told | None = None
    epoch: Told | None = None
    not_applied_ns: int = 0
    undecodable: int = 0
    events: list[Told] = field(default_factory=list)
    events_dropped: int = 0
    _recent: OrderedDict[bytes, bytes] = field(default_factory=OrderedDict)

    def take(self, leaves: Sequence[Leaf], kinds: frozenset[RecordKind]) -> None:
        """Take in new records of one ledger, in their order; of ``kinds`` only."""
        newest: dict[RecordKind, Leaf] = {}
        for leaf in leaves:
            if leaf.kind not in kinds:
                continue
            if leaf.kind is RecordKind.COMMAND:
                self._recent[hashlib.sha256(leaf.data).digest()] = leaf.data
            if leaf.kind in _NEWEST_ONLY:
                newest[leaf.kind] = leaf
            else:
                self._tell(leaf)
        while len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)
        self._newest(newest)

    def begin(self) -> None:
        """A new round of steps: what was told before has been passed on."""
        self.events, self.events_dropped = [], 0

    def _newest(self, newest: Mapping[RecordKind, Leaf]) -> None:
        if (leaf := newest.get(RecordKind.PROOF)) is not None:
            record = self._record(leaf)
            self.late_proof = record if isinstance(record, LateProof) else self.late_proof
        if (leaf := newest.get(RecordKind.RECEIPT)) is not None and isinstance(record := self._record(leaf), Receipt):
            self._receipted(record, leaf.data)
        if (leaf := newest.get(RecordKind.COMMAND)) is None:
            return
        command = self._command(leaf.data)
        if command is None or (self.receipt is not None and not _overdue(self.receipt, command)):
            return  # its receipt is on its way; until then the one before is shown whole
        self.command, self.command_data = command, leaf.data
        self.receipt, self.receipt_data = None, b""

    def _receipted(self, receipt: Receipt, data: bytes) -> None:
        command_data = self._recent.get(receipt.command_digest)
        command = None if command_data is None else self._command(command_data)
        if command is not None and command_data is not None:
            self.command, self.command_data = command, command_data
            self.receipt, self.receipt_data = receipt, data

    def _command(self, data: bytes) -> ParsedCommand | None:
        try:
            return parse_command(data, None)
        except AttestError:
            self.undecodable += 1
            return None

    def _record(self, leaf: Leaf) -> object:
        try:
            return parse_record(leaf.data).record
        except AttestError:
            self.undecodable += 1
            return None

    def _tell(self, leaf: Leaf) -> None:
        record = self._record(leaf)
        if not isinstance(record, _FOR_PEOPLE):
            return
        told = Told(leaf.kind, leaf.index, record, leaf.data)
        if isinstance(record, Alarm | Refusal | CycleRefused | EpochRefused):
            self.words[record.code] = Words(record.found, record.expected, record.t_ns)
            self.words.move_to_end(record.code)
            if len(self.words) > WORDS_MAX:
                self.words.popitem(last=False)
        if isinstance(record, Refusal | CycleRefused):
            self.refusal = told
        elif isinstance(record, Alarm) and record.code == "not-applied":
            self.not_applied_ns = record.t_ns
        elif isinstance(record, EpochOpened):
            self.epoch = told
        if len(self.events) < EVENTS_MAX:
            self.events.append(told)
        else:
            self.events_dropped += 1


def _overdue(receipt: Receipt, command: ParsedCommand) -> bool:
    """Whether this command has waited so long that its receipt is missing, not late."""
    return command.command.header.t_decided_ns - receipt.t_accepted_ns > RECEIPT_LATE_NS


_FOR_PEOPLE: Final = (Alarm, Refusal, CycleRefused, ModeChange, EpochOpened, EpochRefused, EpochClosed)
