"""The one error of reading captures."""

from __future__ import annotations

from fieldbus.cursor import WireError


class CaptureError(WireError):
    """A file that is no capture, or traffic in it that cannot be followed. ``code`` names the case."""
