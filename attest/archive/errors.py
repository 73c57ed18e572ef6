"""What can be wrong with an archive."""

from __future__ import annotations

from attest.errors import AttestError


class ArchiveError(AttestError):
    """Codes: ``archive-format``, ``archive-io``, ``archive-other`` (another archive is in that folder),
    ``archive-module``, ``archive-keys``, ``archive-outputs`` (the circuit gives other outputs than the command has).
    """
