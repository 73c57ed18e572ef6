"""Any leaf as a typed value."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from attest.command.command import ParsedCommand, parse_command
from attest.command.records import ParsedRecord, parse_record
from attest.ledger.kinds import RecordKind, kind_of


@dataclass(frozen=True, slots=True)
class Opaque:
    """A leaf that only ``attest.evidence`` reads: evidence of either sort."""

    digest: bytes
    data: bytes


Decoded: TypeAlias = ParsedCommand | ParsedRecord | Opaque


def decode(data: bytes) -> tuple[RecordKind, Decoded]:
    """Kind and value of a record. Raises ``LedgerError`` or ``CommandError``."""
    kind = kind_of(data)
    if kind is RecordKind.COMMAND:
        return kind, parse_command(data, None)
    if kind is RecordKind.EVIDENCE:
        return kind, Opaque(hashlib.sha256(data).digest(), data)
    return kind, parse_record(data)
