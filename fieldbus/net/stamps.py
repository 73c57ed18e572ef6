"""Receive stamps of SO_TIMESTAMPING (Linux, Documentation/networking/timestamping.rst) and the drop count beside them.

Both stamps are asked for: the network card's where it makes one, and the kernel's. A card stamps by its own clock
(PHC), which by convention of PTP runs on TAI: a stamp of it is taken for CLOCK_REALTIME only after the TAI offset is
subtracted and only where it then lies within ``HARDWARE_APART_NS_MAX`` before the kernel's. A card nobody
disciplines counts from its power-up; its stamps are refused and counted, never passed on as time.

The kernel begins to stamp a moment after the first socket of the machine has asked for it. Frames before that carry no
stamp and are marked ``user``; the older SO_TIMESTAMPNS has the kernel fill in the time of reading there, unmarked.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from fieldbus.net.frames import Stamp

# Not in the socket module of Python 3.11; values of asm-generic/socket.h (x86-64, arm64).
SO_TIMESTAMPING = 37
SO_RXQ_OVFL = 40
_RX_HARDWARE, _RX_SOFTWARE, _SOFTWARE, _RAW_HARDWARE = 1 << 2, 1 << 3, 1 << 4, 1 << 6
_THREE_TIMESPECS = struct.Struct("@6q")
_U32 = struct.Struct("=I")
_NS_PER_S = 1_000_000_000

HARDWARE_APART_NS_MAX = 10_000_000
"""The kernel stamps a frame micro- to a few milliseconds after the card did; more means another time scale."""

HARDWARE_AHEAD_NS_MAX = 100_000
"""And the card's stamp is earlier, but for the error of the two clocks against each other."""

ANCILLARY_BYTES = socket.CMSG_SPACE(_THREE_TIMESPECS.size) + socket.CMSG_SPACE(_U32.size)

Ancillary = Iterable[tuple[int, int, bytes]]


class Reception(NamedTuple):
    """When a frame came in, by whose stamp, what the kernel had dropped by then (None: it does not say, which means
    none), whether a hardware stamp was there but refused, and when this process woke."""

    t_ns: int
    stamp: Stamp
    dropped: int | None
    refused: bool
    woken_ns: int


def enable(sock: socket.socket) -> None:
    """Ask for both stamps and drop counts. Raises OSError.

    Whether the card makes stamps is its driver's setting (SIOCSHWTSTAMP), which ptp4l makes and which needs
    CAP_NET_ADMIN: not changed here.
    """
    flags = _RX_HARDWARE | _RX_SOFTWARE | _SOFTWARE | _RAW_HARDWARE
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
    sock.setsockopt(socket.SOL_SOCKET, SO_RXQ_OVFL, 1)


def reception(ancillary: Ancillary, *, now_ns: int, tai_offset_s: int) -> Reception:
    """The best stamp among the control messages of one frame; ``now_ns`` (by this process) where there is none."""
    t_ns, stamp, dropped, refused = now_ns, _USER, None, False
    for level, kind, body in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == SO_TIMESTAMPING and len(body) == _THREE_TIMESPECS.size:
            software_s, software_ns, _, _, hardware_s, hardware_ns = _THREE_TIMESPECS.unpack(body)
            if software_s:
                t_ns, stamp = software_s * _NS_PER_S + software_ns, _KERNEL
            if hardware_s or hardware_ns:
                hardware = (hardware_s - tai_offset_s) * _NS_PER_S + hardware_ns
                if -HARDWARE_AHEAD_NS_MAX <= t_ns - hardware <= HARDWARE_APART_NS_MAX:
                    t_ns, stamp = hardware, _HARDWARE
                else:
                    refused = True
        elif kind == SO_RXQ_OVFL and len(body) == _U32.size:
            dropped = _U32.unpack(body)[0]
    return Reception(t_ns, stamp, dropped, refused, now_ns)


_USER: Stamp = "user"
_KERNEL: Stamp = "kernel"
_HARDWARE: Stamp = "hardware"
