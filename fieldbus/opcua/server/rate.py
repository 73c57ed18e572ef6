"""Token buckets, one for each address."""

from __future__ import annotations


class Rate:
    """``per_s`` events a second, ``burst`` at once."""

    __slots__ = ("_at", "_burst", "_per_s", "_tokens")

    def __init__(self, *, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Whether one more event at ``now`` (s, monotonic) is within the rate."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


ADDRESSES_MAX = 1_024
"""Addresses that are remembered; over this all are forgotten, each to begin with a full burst again."""


class Rates:
    """A bucket for each address: who floods spends his own."""

    __slots__ = ("_burst", "_per_s", "_rates")

    def __init__(self, *, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._rates: dict[str, Rate] = {}

    def take(self, address: str, now: float) -> bool:
        """Whether one more event from ``address`` at ``now`` (s, monotonic) is within the rate."""
        if address not in self._rates:
            if len(self._rates) >= ADDRESSES_MAX:
                self._rates.clear()
            self._rates[address] = Rate(per_s=self._per_s, burst=self._burst)
        return self._rates[address].take(now)
