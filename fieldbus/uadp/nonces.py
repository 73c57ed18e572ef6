"""Whether a MessageNonce is seen for the first time: by its counter (the standard's way), or by remembering it."""

from __future__ import annotations

from collections import OrderedDict

WINDOW = 1_024
"""Counter values behind the newest that may still arrive (RFC 4303, 3.4.3): a second of reordering at 1 kHz."""

MEMORY = 16_384
"""Nonces remembered where publishers do not count them: 16 s at 1 kHz, in about 2 MB."""

_RANDOM_BYTES = 4


class NonceWindow:
    """Sliding window over the nonce's sequence number (UInt32, little-endian, behind 4 random bytes)."""

    __slots__ = ("_seen", "_top")

    def __init__(self, top: int = 0) -> None:
        """``top``: the newest number known from an earlier run; it and all before it count as seen."""
        self._top = top
        self._seen = (1 << WINDOW) - 1 if top else 0  # bit k: top - k was seen

    @property
    def top(self) -> int:
        """The newest number seen; 0 for none."""
        return self._top

    def first_time(self, nonce: bytes) -> bool:
        """True, once, for a nonce whose number is new and not behind the window; 0 is no number."""
        number = int.from_bytes(nonce[_RANDOM_BYTES:], "little")
        ahead = number - self._top
        if ahead > 0:
            self._seen = ((self._seen << ahead) | 1) & ((1 << WINDOW) - 1) if ahead < WINDOW else 1
            self._top = number
            return True
        if number == 0 or -ahead >= WINDOW or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True


class NonceMemory:
    """The newest MEMORY nonces themselves."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def first_time(self, nonce: bytes) -> bool:
        """True, once, for a nonce that is not among the newest ones."""
        if nonce in self._seen:
            return False
        self._seen[nonce] = None
        if len(self._seen) > MEMORY:
            self._seen.popitem(last=False)
        return True
