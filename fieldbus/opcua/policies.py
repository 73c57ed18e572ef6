"""How a client behaves towards its server: waits, watches, security policy. No OPC UA library is loaded for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """Waits between attempts double from ``first_s`` to ``max_s``, each shortened by up to half at random so
    that several clients do not return in step. ``health_s``: how often the server is asked for its state, how long it
    may take to answer, and how long a subscription may be silent at least. ``verify_s``: how often the browse paths
    are resolved anew."""

    first_s: float = 0.2
    max_s: float = 10.0
    health_s: float = 1.0
    verify_s: float = 5.0

    def __post_init__(self) -> None:
        if not (0 < self.first_s <= self.max_s and self.health_s > 0 and self.verify_s > 0):
            raise ValueError("reconnect times must be positive and first_s at most max_s")
        if not all(math.isfinite(item) for item in (self.max_s, self.health_s, self.verify_s)):
            raise ValueError("reconnect times must be finite")


class PolicyChoice(StrEnum):
    """Security policies (OPC 10000-7, 6.6.165 and 6.6.173); SignAndEncrypt always.

    ``STRONGEST`` asks the server which endpoints it has and takes the first of AES256_SHA256_RSAPSS and
    BASIC256SHA256 that is offered. The list is then compared with the one the server gives under encryption: who
    removed the better one on the way is found out (code ``policy-downgrade``). Nothing weaker is ever used.
    """

    BASIC256SHA256 = "Basic256Sha256"
    AES256_SHA256_RSAPSS = "Aes256_Sha256_RsaPss"
    STRONGEST = "strongest"
