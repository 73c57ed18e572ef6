"""The one error of the EtherNet/IP and CIP codec, templates and connector."""

from __future__ import annotations

from fieldbus.cursor import WireError


class CipError(WireError):
    """Bytes that are no EtherNet/IP telegram, a layout that cannot be trusted, or a controller that refuses."""
