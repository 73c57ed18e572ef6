"""What the other side of a ledger checks before it vouches for a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from attest.ledger.errors import LedgerError
from attest.ledger.merkle import EMPTY_ROOT, verify_consistency
from attest.ledger.note import Checkpoint, parse_checkpoint


def check_extension(
    note: bytes,
    consistency: Sequence[bytes],
    *,
    origin: str,
    public: bytes,
    seen: Checkpoint | None,
) -> Checkpoint:
    """Verify that ``note`` is ``origin``'s checkpoint signed by ``public`` and extends ``seen``.

    ``seen`` is the last checkpoint vouched for (``None``: none yet). Raises ``LedgerError``: ``note-format``,
    ``note-signature``, ``ledger-origin``, ``ledger-cut`` (smaller than seen, or not an extension of it).
    """
    signed = parse_checkpoint(note)
    checkpoint = signed.checkpoint
    if checkpoint.origin != origin:
        raise LedgerError("ledger-origin", found=checkpoint.origin, expected=origin)
    signed.verify(public)
    old, old_root = (0, EMPTY_ROOT) if seen is None else (seen.size, seen.root)
    if checkpoint.size < old:
        raise LedgerError("ledger-cut", found=f"{checkpoint.size} records", expected=f"at least {old}")
    try:
        verify_consistency(old, old_root, checkpoint.size, checkpoint.root, consistency)
    except LedgerError as error:
        found = f"size {checkpoint.size}: {error.found}"
        raise LedgerError("ledger-cut", found=found, expected=f"an extension of the {old} records seen") from error
    return checkpoint
