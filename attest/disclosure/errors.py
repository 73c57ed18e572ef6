"""What can be wrong with a sealed export or an opening."""

from __future__ import annotations

from attest.errors import AttestError


class DisclosureError(AttestError):
    """Codes: ``export-io``, ``export-exists``, ``export-format`` (files), ``export-empty``, ``export-mixed``,
    ``export-limit``, ``export-rules``, ``export-keys``, ``export-outputs`` (making one), ``openings-format``,
    ``opening-unknown``, ``opening-wrong`` (openings), ``salt-reused``; and those of a report that ends at once.
    """
