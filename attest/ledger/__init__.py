"""The append-only record: a Merkle log in SQLite, its signed checkpoints, its writer thread, its audit."""

from attest.ledger.errors import LedgerError, LedgerQueueFull, LedgerWriterFailed
from attest.ledger.kinds import RecordKind, kind_of
from attest.ledger.merkle import verify_consistency, verify_inclusion
from attest.ledger.note import Checkpoint, SignedCheckpoint, parse_checkpoint, sign_checkpoint
from attest.ledger.store import Leaf, Ledger
from attest.ledger.writer import IssuedCheckpoint, LedgerWriter

__all__ = [
    "Checkpoint",
    "IssuedCheckpoint",
    "Leaf",
    "Ledger",
    "LedgerError",
    "LedgerQueueFull",
    "LedgerWriter",
    "LedgerWriterFailed",
    "RecordKind",
    "SignedCheckpoint",
    "kind_of",
    "parse_checkpoint",
    "sign_checkpoint",
    "verify_consistency",
    "verify_inclusion",
]
