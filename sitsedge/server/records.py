"""Any record of a ledger for a client, with what is needed to check it without trusting this server.

A record comes with its inclusion proof (RFC 9162, 2.1.3) in the tree of the newest signed checkpoint that covers it, or
none where no checkpoint does yet. Sizes and work are bounded whatever is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from attest.command import LateProof, ProofKind, parse_command, parse_record
from attest.command.enums import INLINE_PROOFS
from attest.errors import AttestError
from attest.ledger import Ledger, LedgerError, RecordKind, parse_checkpoint
from sitsedge.errors import SitsError

ANSWER_BYTES_MAX: Final = 512 * 1024  # half of a message of the server; only evidence with a long log is larger
LATE_PROOF_RECORDS_MAX: Final = 20_000  # looked through for the proof of a commitment: minutes of a fast loop
SEARCH_RECORDS_MAX: Final = 50_000  # looked at in one search; only long stretches without commands need so many


class FetchError(SitsError):
    """Nothing can be given; codes ``record-unknown``, ``record-large``, ``record-kind``, ``proof-owed``, ``ledger``."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A record: its kind, its exact bytes, the signed note and its proof (both empty where none covers it)."""

    kind: str
    data: bytes
    index: int
    tree_size: int
    checkpoint: bytes
    inclusion: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FetchedProof:
    """The proof of one command, inline or as it followed, and the signed command, which holds the whole statement."""

    kind: ProofKind
    proof: bytes
    command: bytes


def fetch_record(path: Path, index: int) -> Fetched:
    """One record of the ledger at ``path``. Raises :class:`FetchError`."""
    try:
        ledger = Ledger.open_readonly(path)
        try:
            return _record(ledger, index)
        finally:
            ledger.close()
    except LedgerError as error:
        raise _refused(error) from error


def _record(ledger: Ledger, index: int) -> Fetched:
    leaf = ledger.read(index)
    if len(leaf.data) > ANSWER_BYTES_MAX:
        raise FetchError("record-large", found=f"{len(leaf.data)} bytes", expected=f"at most {ANSWER_BYTES_MAX}")
    note = ledger.last_checkpoint()
    size = 0 if note is None else parse_checkpoint(note).checkpoint.size
    if note is None or index >= size:
        return Fetched(str(leaf.kind), leaf.data, index, 0, b"", ())
    return Fetched(str(leaf.kind), leaf.data, index, size, note, tuple(ledger.inclusion(index, size)))


def fetch_proof(gate: Path, device: Path, epoch: int, sequence: int) -> FetchedProof:
    """The proof of one accepted command. Raises :class:`FetchError`.

    A deferred proof is looked for among the newest records of the device's ledger.
    """
    try:
        ledger = Ledger.open_readonly(gate)
        try:
            data = _find_command(ledger, (epoch, sequence))
        finally:
            ledger.close()
        parsed = parse_command(data, None)
        kind, proof = parsed.command.proof_kind, parsed.command.proof
        if kind is ProofKind.COMMITMENT:
            kind, proof = _late_proof(device, parsed.digest)
    except AttestError as error:
        raise _refused(error) from error
    if kind not in INLINE_PROOFS:
        raise FetchError("record-kind", found="a command without proof", expected="one that is proven")
    return FetchedProof(kind, proof, data)


def _find_command(ledger: Ledger, wanted: tuple[int, int]) -> bytes:
    """By halving: a gate accepts commands in rising order of epoch and sequence, and records them as it does."""
    low, high, left = 0, ledger.size, SEARCH_RECORDS_MAX
    while low < high:
        middle = (low + high) // 2
        found = None
        for leaf in islice(ledger.iterate(middle), min(high - middle, left)):
            left -= 1
            if leaf.kind is RecordKind.COMMAND:
                found = leaf
                break
        if left <= 0:
            break
        if found is None:
            high = middle  # no command from here to what is known to come after
            continue
        header = parse_command(found.data, None).command.header
        key = (header.epoch, header.sequence)
        if key == wanted:
            return found.data
        if key < wanted:
            low = found.index + 1
        else:
            high = middle
    raise FetchError(
        "record-unknown",
        found=f"no command {wanted[0]}-{wanted[1]}" + (" within the search" if left <= 0 else ""),
        expected="one that the gate accepted",
    )


def _late_proof(device: Path, digest: bytes) -> tuple[ProofKind, bytes]:
    """Raises ``LedgerError``, ``CommandError`` or :class:`FetchError` ``proof-owed``."""
    ledger = Ledger.open_readonly(device)
    try:
        first = max(0, ledger.size - LATE_PROOF_RECORDS_MAX)
        for leaf in islice(ledger.iterate(first), LATE_PROOF_RECORDS_MAX):
            if leaf.kind is RecordKind.PROOF and digest in leaf.data:
                record = parse_record(leaf.data).record
                if isinstance(record, LateProof) and record.command_digest == digest:
                    return record.proof_kind, record.proof
    finally:
        ledger.close()
    raise FetchError("proof-owed", found="no proof among the newest records", expected="a proof that has come")


def _refused(error: AttestError) -> FetchError:
    code = "record-unknown" if error.code == "ledger-range" else "ledger"
    return FetchError(code, found=error.found, expected=error.expected)
