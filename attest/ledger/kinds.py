"""What a leaf is, told by the record itself: the content type in its protected header.

The numbers are stored and never change their meaning.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

from attest import cbor
from attest.ledger.errors import LedgerError


class RecordKind(StrEnum):
    """Every kind of leaf; the content type is ``application/vnd.sits.<kind>+cbor``.

    ``EVIDENCE`` is also what attestation mode ``none`` gives in its place, ``…evidence-none+cbor``.
    """

    COMMAND = "command"
    RECEIPT = "receipt"
    REFUSAL = "refusal"
    EVIDENCE = "evidence"
    EPOCH_OPENED = "epoch-opened"
    EPOCH_REFUSED = "epoch-refused"
    EPOCH_CLOSED = "epoch-closed"
    MODE_CHANGE = "mode-change"
    ALARM = "alarm"
    WITNESS = "witness"
    CYCLE_REFUSED = "cycle-refused"
    PROOF = "proof"
    LEDGER_CLOSED = "ledger-closed"
    PROOF_RECEIPT = "proof-receipt"
    PROOF_STATUS = "proof-status"


UNATTESTED: Final = "application/vnd.sits.evidence-none+cbor"
NUMBERS: Final = {kind: number for number, kind in enumerate(RecordKind, start=1)}
KINDS: Final = {number: kind for kind, number in NUMBERS.items()}
CONTENT_TYPES: Final = {f"application/vnd.sits.{kind}+cbor": kind for kind in RecordKind} | {
    UNATTESTED: RecordKind.EVIDENCE
}

_PROTECTED_BYTES_MAX: Final = 255  # as in attest.cose: alg, kid and the longest content type


def kind_of(data: bytes) -> RecordKind:
    """Kind of a record, from its first bytes only. Raises ``LedgerError`` (``ledger-kind``)."""
    content_type = _content_type(data)
    kind = CONTENT_TYPES.get(content_type)
    if kind is None:
        raise _unknown(f"content type {content_type[:80]!r}")
    return kind


def is_none(data: bytes) -> bool:
    """Whether evidence is that of attestation mode ``none``. Raises as ``kind_of`` does."""
    return _content_type(data) == UNATTESTED


def _content_type(data: bytes) -> str:
    if data[:2] != b"\xd2\x84" or len(data) < 4:
        raise _unknown("bytes that are no COSE_Sign1")
    head = data[2]
    start, size = (4, data[3]) if head == 0x58 else (3, head - 0x40)
    if not (head == 0x58 or 0x40 <= head < 0x58) or len(data) < start + size:
        raise _unknown("no protected header")
    return _header_type(data[start : start + size])


@lru_cache(maxsize=64)  # one header per signer and kind; the limit only bounds memory
def _header_type(protected: bytes) -> str:
    try:
        header = cbor.loads(protected, max_bytes=_PROTECTED_BYTES_MAX, max_depth=1, max_items=8)
    except cbor.CborError as error:
        raise _unknown(f"a protected header with {error.found}") from error
    content_type = header.get(3) if isinstance(header, dict) else None
    if not isinstance(content_type, str):
        raise _unknown("no content type")
    return content_type


def _unknown(found: str) -> LedgerError:
    return LedgerError("ledger-kind", found=found, expected="a record this ledger knows")
