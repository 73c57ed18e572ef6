"""How good this machine's wall clock is, from the kernel's own account of it (adjtimex(2), read only)."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from enum import IntEnum

from fieldbus.errors import FieldbusError


class TimeQualityKind(IntEnum):
    """Ordered: a policy asks for at least one of these."""

    FREE = 0
    NTP = 1
    PTP_SW = 2
    PTP_HW = 3

    @property
    def label(self) -> str:
        """``free``, ``ntp``, ``ptp-sw`` or ``ptp-hw``: the word used in files and records."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def from_label(cls, label: str) -> TimeQualityKind:
        """The kind with this label; raises FieldbusError ``time-quality-label``."""
        for kind in cls:
            if kind.label == label:
                return kind
        raise FieldbusError("time-quality-label", found=repr(label), expected=", ".join(kind.label for kind in cls))


@dataclass(frozen=True, slots=True)
class TimeQuality:
    """State of CLOCK_REALTIME. ``max_error_ns``/``estimated_error_ns`` are the kernel's bounds (not a measurement);
    ``tai_offset_s`` is 0 until something sets it."""

    kind: TimeQualityKind
    max_error_ns: int
    estimated_error_ns: int
    tai_offset_s: int


class _Timex(ctypes.Structure):
    """``struct timex`` of the 64-bit Linux ABI, as far as it is read, padded to the kernel's size."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time_s", ctypes.c_long),
        ("time_fraction", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


_STA_UNSYNC = 0x0040
_STA_CLOCKERR = 0x1000
_NS_PER_US = 1_000
_libc = ctypes.CDLL(None, use_errno=True)


def time_quality() -> TimeQuality:
    """Quality of the wall clock now. Costs one system call; poll it beside the loop, not in it.

    A clock that something disciplines is reported as ``ntp``: that the something is PTP must be shown by the
    PTP daemon (``PtpWatch``). Raises FieldbusError ``clock-unreadable``.
    """
    state = _Timex()
    if _libc.adjtimex(ctypes.byref(state)) < 0:
        reason = os.strerror(ctypes.get_errno())
        raise FieldbusError("clock-unreadable", found=reason, expected="adjtimex to report the clock state")
    return quality_of(state.status, state.maxerror, state.esterror, state.tai)


def quality_of(status: int, max_error_us: int, estimated_error_us: int, tai_offset_s: int) -> TimeQuality:
    """TimeQuality of the fields of ``struct timex`` (errors in microseconds, as the kernel gives them)."""
    disciplined = not status & (_STA_UNSYNC | _STA_CLOCKERR)
    return TimeQuality(
        kind=TimeQualityKind.NTP if disciplined else TimeQualityKind.FREE,
        max_error_ns=max_error_us * _NS_PER_US,
        estimated_error_ns=estimated_error_us * _NS_PER_US,
        tai_offset_s=tai_offset_s,
    )
