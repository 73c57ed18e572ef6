"""The one error of the SLMP codec and connector."""

from __future__ import annotations

from fieldbus.cursor import WireError


class SlmpError(WireError):
    """Bytes that are no SLMP frame, a device that is not known, or a CPU that refuses. ``code`` names it."""
