"""Ethernet frames sent at a time of TAI (SO_TXTIME, linux/net_tstamp.h), obeyed by etf and, with a schedule, taprio.

The kernel gives the right to name times by CLOCK_TAI to CAP_NET_ADMIN only; frames that came too late, or whose time
the discipline did not take, come back on the error queue and are counted: they were not sent.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

from fieldbus.net.errors import NetError, from_os_error
from fieldbus.net.ethernet import FRAME_BYTES_MIN, EthernetSender
from fieldbus.net.frames import VlanTag
from fieldbus.net.qdisc import CLOCK_TAI, require_etf

_SO_TXTIME = 61
_REPORT_ERRORS = 2
_EXTENDED_ERROR = struct.Struct("@IBBBxII")
_SOL_PACKET, _PACKET_TX_TIMESTAMP = 263, 16
_ORIGIN_TXTIME, _CODE_INVALID, _CODE_MISSED = 6, 1, 2
_MSG_ERRQUEUE = 0x2000
_NS_PER_S = 1_000_000_000

ERRORS_MAX = 1_024
"""Reports one look takes off the queue."""


@dataclass(slots=True)
class LaunchCounts:
    """Frames that were not sent, since the sender was opened: their time had passed, or was not accepted."""

    missed: int = 0
    invalid: int = 0


class LaunchSender(EthernetSender):
    """Sends each frame at its time. Refuses to open where nothing would obey it: see ``require_etf``.

    Raises NetError ``no-etf``, ``no-taprio``, ``etf-clock``, ``tai-unset`` (CLOCK_TAI equals UTC: nothing has told the
    kernel TAI - UTC), ``not-permitted``, and as EthernetSender.
    """

    def __init__(self, interface: str, target: str, *, vlans: tuple[VlanTag, ...] = (), taprio: bool = False) -> None:
        self.etf = require_etf(interface, taprio=taprio)
        if round((time.clock_gettime_ns(CLOCK_TAI) - time.time_ns()) / _NS_PER_S) == 0:
            raise NetError(
                "tai-unset",
                found="CLOCK_TAI equal to UTC",
                expected="TAI - UTC known to the kernel (37 s in 2026)",
                hint="phc2sys or chrony with leapsectz sets it",
            )
        super().__init__(interface, target, vlans=vlans)
        self.counts = LaunchCounts()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TXTIME, struct.pack("@iI", CLOCK_TAI, _REPORT_ERRORS))
        except PermissionError as error:
            self.close()
            raise NetError(
                "not-permitted", found="no right to send by CLOCK_TAI", expected="CAP_NET_ADMIN beside CAP_NET_RAW"
            ) from error
        except OSError as error:
            self.close()
            raise from_os_error(error, doing="asking for times on", endpoint=interface) from error

    def send_at(self, data: bytes, t_tai_ns: int) -> None:
        """Hand one frame over, to be sent at ``t_tai_ns`` (CLOCK_TAI). Raises NetError as ``send``; a time that has
        passed is reported later, in ``counts`` after ``look``."""
        if not 0 <= t_tai_ns < 1 << 63:
            raise ValueError(f"t_tai_ns {t_tai_ns} is no time")
        control = [(socket.SOL_SOCKET, _SO_TXTIME, struct.pack("@Q", t_tai_ns))]
        try:
            self._socket.sendmsg([(self._header + data).ljust(FRAME_BYTES_MIN, b"\0")], control)
        except OSError as error:
            raise from_os_error(error, doing="sending on", endpoint=self._interface) from error

    def look(self) -> LaunchCounts:
        """Take reports off the error queue; the counts since opening. Never waits."""
        for _ in range(ERRORS_MAX):
            try:
                _, ancillary, _, _ = self._socket.recvmsg(0, 256, _MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError as error:
                raise from_os_error(error, doing="reading reports of", endpoint=self._interface) from error
            self._note(ancillary)
        return self.counts

    def _note(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, body in ancillary:
            if (level, kind) != (_SOL_PACKET, _PACKET_TX_TIMESTAMP) or len(body) < _EXTENDED_ERROR.size:
                continue
            _, origin, _, code, _, _ = _EXTENDED_ERROR.unpack_from(body)
            if origin == _ORIGIN_TXTIME:
                self.counts.missed += code == _CODE_MISSED
                self.counts.invalid += code == _CODE_INVALID
