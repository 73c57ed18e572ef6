"""Revoked device records: a list signed with the plant's policy key (CDDL ``revocation-list.cddl``).

A record is revoked when its machine is replaced, stolen or sold. The list expires, as a certificate revocation list
does (RFC 5280 §5.1.2.5): a verifier that is given an old list notices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from attest import cbor, cose
from attest.evidence.errors import EnrolError
from attest.structures import DIGEST_BYTES

CONTENT_TYPE: Final = "application/vnd.sits.revocation-list+cbor"
FORMAT: Final = 1
MAX_REVOKED: Final = 4096  # a plant's devices over decades; bounds the file
REASON_CHARS: Final = 128
MAX_LIST_BYTES: Final = 4 * 1024 * 1024  # 4096 entries with the longest reasons
_ENTRY_FIELDS: Final = 3


@dataclass(frozen=True, slots=True)
class Revoked:
    """One record that does not count from ``at_ns`` on."""

    record_id: bytes
    at_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class RevocationList:
    """A parsed list; whether its signature holds is ``cose.verify``'s business."""

    version: int
    issued_ns: int
    not_after_ns: int
    entries: tuple[Revoked, ...] = ()

    def find(self, record_id: bytes, now_ns: int) -> Revoked | None:
        """The entry that revokes this record at ``now_ns``."""
        return next((e for e in self.entries if e.record_id == record_id and e.at_ns <= now_ns), None)

    def current_at(self, now_ns: int) -> bool:
        """Whether the list may still be used at ``now_ns``."""
        return now_ns < self.not_after_ns

    def revoke(self, entry: Revoked, *, issued_ns: int, not_after_ns: int) -> RevocationList:
        """The next version with ``entry``; revoking a record again keeps the earlier moment.

        Raises ``EnrolError`` (``revocation-list``) where the list is full or the reason does not fit.
        """
        if not 1 <= len(entry.reason) <= REASON_CHARS or len(entry.record_id) != DIGEST_BYTES:
            raise EnrolError(
                "revocation-list",
                found=f"a record id of {len(entry.record_id)} bytes and a reason of {len(entry.reason)} characters",
                expected=f"{DIGEST_BYTES} bytes and 1..{REASON_CHARS} characters",
            )
        known = {old.record_id: old for old in self.entries}
        before = known.get(entry.record_id)
        known[entry.record_id] = entry if before is None or entry.at_ns < before.at_ns else before
        if len(known) > MAX_REVOKED:
            raise EnrolError("revocation-list", found=f"{len(known)} records", expected=f"at most {MAX_REVOKED}")
        entries = tuple(sorted(known.values(), key=lambda e: e.record_id))
        return replace(self, version=self.version + 1, issued_ns=issued_ns, not_after_ns=not_after_ns, entries=entries)

    def encode(self) -> bytes:
        """The payload, deterministic CBOR."""
        return cbor.dumps(
            {
                1: FORMAT,
                2: self.version,
                3: self.issued_ns,
                4: self.not_after_ns,
                5: [[e.record_id, e.at_ns, e.reason] for e in self.entries],
            }
        )

    def sign(self, signer: cose.Signer) -> bytes:
        """The signed list file."""
        return cose.sign1(self.encode(), signer=signer, content_type=CONTENT_TYPE)


def parse_list(data: bytes) -> tuple[RevocationList, cose.Sign1]:
    """Parse a signed list; the caller verifies the envelope. Raises ``AttestError`` subclasses."""
    message = cose.parse_sign1(data, content_type=CONTENT_TYPE, max_bytes=MAX_LIST_BYTES)
    fields = cbor.Fields(cbor.loads(message.payload, max_bytes=MAX_LIST_BYTES), "revocation list")
    fields.integer(1, low=FORMAT, high=FORMAT)
    parsed = RevocationList(
        version=fields.integer(2, low=1, high=2**32 - 1),
        issued_ns=fields.integer(3),
        not_after_ns=fields.integer(4),
        entries=tuple(_entry(item) for item in fields.array(5, high=MAX_REVOKED)),
    )
    fields.done()
    ids = [entry.record_id for entry in parsed.entries]
    if any(second <= first for first, second in pairwise(ids)):
        raise _bad("record ids out of order or twice", "each once, ascending")
    return parsed, message


def _entry(value: cbor.CborValue) -> Revoked:
    if not isinstance(value, tuple) or len(value) != _ENTRY_FIELDS:
        raise _bad("another entry", "record id, moment and reason")
    record_id, at_ns, reason = value
    if not isinstance(record_id, bytes) or len(record_id) != DIGEST_BYTES:
        raise _bad("another record id", f"{DIGEST_BYTES} bytes")
    if not isinstance(at_ns, int) or isinstance(at_ns, bool) or at_ns < 0:
        raise _bad("another moment", "nanoseconds since the Unix epoch")
    if not isinstance(reason, str) or not 1 <= len(reason) <= REASON_CHARS:
        raise _bad("another reason", f"text of 1..{REASON_CHARS} characters")
    return Revoked(record_id, at_ns, reason)


def _bad(found: str, expected: str) -> EnrolError:
    return EnrolError("revocation-list", found=found, expected=expected)
