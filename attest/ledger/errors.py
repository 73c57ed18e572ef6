"""Errors of the ledger."""

from __future__ import annotations

from attest.errors import AttestError


class LedgerError(AttestError):
    """A ledger that cannot be opened, written or proved from.

    Codes: ``ledger-missing``, ``ledger-foreign``, ``ledger-newer``, ``ledger-torn``, ``ledger-origin``,
    ``ledger-busy``, ``ledger-io``, ``ledger-range``, ``ledger-kind``, ``ledger-signer``, ``ledger-closed``,
    ``merkle-proof``, ``note-format``, ``note-signature``, ``ledger-cut``, ``anchors``.
    """


class LedgerQueueFull(LedgerError):
    """The writer's bounded queue is full: the record was not taken, the caller must refuse its cycle."""


class LedgerWriterFailed(LedgerError):
    """The writer stopped; ``found`` says why. Nothing is taken any more, nothing unacknowledged is promised."""
