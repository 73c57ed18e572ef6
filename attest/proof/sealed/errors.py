"""Errors of the sealed statement."""

from __future__ import annotations

from attest.errors import AttestError


class SealedError(AttestError):
    """A commitment, a sealed circuit or an opening breaks a rule.

    Codes: ``unsalted``, ``salt-length``, ``salt-reused``, ``input-count``, ``input-range`` (commitments);
    ``sealed-box``, ``sealed-relation``, ``sealed-circuit`` (building a circuit); ``opening-file``,
    ``opening-unknown``, ``opening-wrong`` (openings).
    """
