"""The one error of the S7 codec, layouts and connector."""

from __future__ import annotations

from fieldbus.cursor import WireError


class S7Error(WireError):
    """Bytes that are no S7 telegram, a layout that cannot be trusted, or a CPU that refuses. ``code`` names it."""
