"""The protocols that captures are read for; loads none of them."""

from __future__ import annotations

from enum import StrEnum


class Protocol(StrEnum):
    """Protocols that captures are read for."""

    UADP = "uadp"
    S7 = "s7"
    CIP = "cip"
    SLMP = "slmp"
