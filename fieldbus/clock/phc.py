"""The network card's clock (PHC): which one an interface has, and how far CLOCK_REALTIME is from it. Read only."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import socket
import struct
import time

_SIOCETHTOOL = 0x8946
_ETHTOOL_GET_TS_INFO = 0x41
_TS_INFO = struct.Struct("@IIiI3II3I")
_IFREQ = struct.Struct("@16sP16x")
_NS_PER_S = 1_000_000_000
_READINGS = 5


def phc_index(interface: str) -> int | None:
    """N of ``/dev/ptpN`` for an interface (ethtool's ETHTOOL_GET_TS_INFO); None: it has no clock, or is not there."""
    buffer = array.array("B", _TS_INFO.pack(_ETHTOOL_GET_TS_INFO, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0))
    request = _IFREQ.pack(interface.encode()[:15], buffer.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            fcntl.ioctl(probe.fileno(), _SIOCETHTOOL, request)
        except OSError:
            return None
    index: int = _TS_INFO.unpack(buffer.tobytes())[2]
    return index if index >= 0 else None


def apart_ns(index: int, *, tai_offset_s: int) -> int | None:
    """CLOCK_REALTIME minus the card's clock, the latter taken as TAI; None where it cannot be read.

    Of several readings, each between two of CLOCK_REALTIME, the one that took the shortest counts; half of that time
    (a few microseconds over PCIe) is its error.
    """
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(f"/dev/ptp{index}", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            clock = (~descriptor << 3) | 3  # clock id of a descriptor (linux/posix-timers.h, FD_TO_CLOCKID)
            readings = [_reading(clock) for _ in range(_READINGS)]
        except OSError:
            return None
    _, middle, card = min(readings)
    return middle - (card - tai_offset_s * _NS_PER_S)


def _reading(clock: int) -> tuple[int, int, int]:
    before = time.time_ns()
    card = time.clock_gettime_ns(clock)
    after = time.time_ns()
    return after - before, (before + after) // 2, card
