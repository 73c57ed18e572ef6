"""UtcTime (OPC 10000-6, 5.2.2.5): 100 ns ticks since 1601-01-01, against Unix nanoseconds."""

from __future__ import annotations

from fieldbus.uadp.errors import UadpError

UNIX_EPOCH_TICKS = 116_444_736_000_000_000
"""Ticks from 1601-01-01 to 1970-01-01: 134,774 days."""

NS_PER_TICK = 100
INT64_MAX = 2**63 - 1


def ticks_to_ns(ticks: int, picoseconds: int = 0) -> int:
    """Unix nanoseconds of ``ticks`` plus ``picoseconds`` x 10 ps, rounded down; negative before 1970."""
    return (ticks - UNIX_EPOCH_TICKS) * NS_PER_TICK + picoseconds // 100


def ns_to_ticks(ns: int) -> int:
    """Ticks of Unix nanoseconds, rounded down. Raises UadpError ``time-range`` outside 1601 … Int64."""
    ticks = ns // NS_PER_TICK + UNIX_EPOCH_TICKS
    if not 0 < ticks <= INT64_MAX:
        raise UadpError("time-range", found=f"{ns} ns", expected="a time after 1601 that fits Int64 ticks")
    return ticks
