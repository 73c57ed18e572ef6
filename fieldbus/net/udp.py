"""UDP over IPv4 with kernel receive stamps, drop counts and no unseen truncation (Linux)."""

from __future__ import annotations

import ipaddress
import math
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, TypeAlias

from fieldbus.net.errors import NetError, from_os_error, interface_index

# Not in the socket module of Python 3.11; values of asm-generic/socket.h (x86-64, arm64).
_SO_TIMESTAMPNS = 35
_SO_RXQ_OVFL = 40
_IP_MULTICAST_ALL = 49
_TIMESPEC = struct.Struct("@qq")
_TIMEVAL = struct.Struct("@ll")
_U32 = struct.Struct("=I")

DATAGRAM_BYTES_MAX = 65_507
"""Largest UDP payload over IPv4; the default buffer, so that nothing is ever cut."""

DRAIN_MAX = 1_024
"""Datagrams one drain may discard: bounds its time when frames arrive as fast as they are read."""

RECEIVE_BUFFER_BYTES = 262_144
"""Kernel buffer: a quarter of a second of small frames at 1 kHz; more would only hide a stalled reader."""

Stamp: TypeAlias = Literal["kernel", "user"]
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) + socket.CMSG_SPACE(_U32.size)


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """One datagram.

    ``t_rx_ns``: CLOCK_REALTIME ns at reception; ``stamp`` says who took it: the kernel when the frame came
    in, or (``user``, worse) this process when it woke. ``dropped_total``: datagrams the kernel dropped at
    this socket so far (modulo 2^32). ``source``: sender's (address, port).
    """

    data: bytes
    t_rx_ns: int
    stamp: Stamp
    dropped_total: int
    source: tuple[str, int]


@dataclass(slots=True)
class ReceiverCounts:
    """What a receiver threw away, since it was opened."""

    foreign: int = 0
    """from an address outside ``sources``"""
    truncated: int = 0
    """longer than ``size_max``"""
    superseded: int = 0
    """replaced by a newer one before anybody read it"""


class UdpReceiver:
    """A bound UDP socket; for one thread. Use as a context manager or call ``close``.

    Raises NetError (``port-in-use``, ``no-such-address``, ``no-such-interface``, ``not-permitted``,
    ``bad-address``, …) when it cannot be opened.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        group: str | None = None,
        interface: str | None = None,
        sources: Iterable[str] | None = None,
        size_max: int = DATAGRAM_BYTES_MAX,
        receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES,
    ) -> None:
        """Bind ``address``:``port`` (0: any free one).

        ``group``: IPv4 multicast group to join on ``interface`` (by name; default: the kernel's choice); the
        socket is then bound to the group, so unicast frames to the same port are not seen. ``sources``: only
        these sender addresses are accepted, others are counted (a filter against mix-ups, not against forgery).
        """
        if not 1 <= size_max <= DATAGRAM_BYTES_MAX:
            raise ValueError(f"size_max {size_max} is outside 1 … {DATAGRAM_BYTES_MAX}")
        _check_address(address, multicast=False)
        if group is not None:
            _check_address(group, multicast=True)
        elif interface is not None:
            raise ValueError("interface selects where to join a multicast group; give group as well")
        self._sources = None if sources is None else frozenset(_check_address(item) for item in sources)
        index = interface_index(interface) if interface is not None else 0
        self._size_max = size_max
        self._dropped = 0
        self._timeout_s = math.nan
        self.counts = ReceiverCounts()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._open(address, port, group, index, receive_buffer_bytes)
        except OSError as error:
            self._socket.close()
            raise from_os_error(error, doing="binding", endpoint=f"{group or address}:{port}") from error

    def _open(self, address: str, port: int, group: str | None, index: int, buffer_bytes: int) -> None:
        sock = self._socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        if group is None:
            sock.bind((address, port))
            return
        # Several subscribers of one group on one machine are normal, hence REUSEADDR only here.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        sock.bind((group, port))
        local = "0.0.0.0" if index else address  # noqa: S104 - ip_mreqn: the index decides
        request = socket.inet_aton(group) + socket.inet_aton(local) + struct.pack("@i", index)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)

    @property
    def address(self) -> tuple[str, int]:
        """Bound (address, port)."""
        host, port = self._socket.getsockname()
        return host, port

    def fileno(self) -> int:
        """Descriptor for ``select``-like waiting."""
        return self._socket.fileno()

    def receive(self, timeout_s: float) -> ReceivedFrame | None:
        """The next datagram, or None after ``timeout_s`` (0: do not wait).

        Raises NetError ``datagram-truncated`` for one longer than ``size_max`` (it is lost), ``closed``, or a
        socket error. Foreign senders' datagrams are skipped within the same time-out.
        """
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s {timeout_s} is negative")
        deadline = time.monotonic() + timeout_s
        left = timeout_s
        while True:
            frame = self._receive_one(left)
            if frame is None or self._admits(frame):
                return frame
            left = max(0.0, deadline - time.monotonic())
            if left == 0.0 and timeout_s > 0:
                return None

    def drain_latest(self) -> tuple[ReceivedFrame | None, int]:
        """The newest datagram waiting and how many older ones it superseded; never waits.

        Truncated and foreign ones are counted in ``counts`` and do not count as newest. At most ``DRAIN_MAX``
        datagrams are read.
        """
        latest: ReceivedFrame | None = None
        superseded = 0
        for _ in range(DRAIN_MAX):
            try:
                frame = self._receive_one(0.0)
            except NetError as error:
                if error.code != "datagram-truncated":
                    raise
                continue
            if frame is None:
                break
            if not self._admits(frame):
                continue
            superseded += latest is not None
            latest = frame
        self.counts.superseded += superseded
        return latest, superseded

    def receive_latest(self, timeout_s: float) -> tuple[ReceivedFrame | None, int]:
        """Wait for a datagram, then take the newest of those waiting: (frame or None, superseded)."""
        first = self.receive(timeout_s)
        if first is None:
            return None, 0
        newest, superseded = self.drain_latest()
        if newest is None:
            return first, 0
        self.counts.superseded += 1
        return newest, superseded + 1

    def _receive_one(self, timeout_s: float) -> ReceivedFrame | None:
        flags = 0
        if timeout_s == 0.0:
            flags = socket.MSG_DONTWAIT
        elif timeout_s != self._timeout_s:
            # A blocking recvmsg with a kernel time-out is one system call and wakes earlier than poll + recvmsg.
            seconds = int(timeout_s)
            micros = max(1 if seconds == 0 else 0, int((timeout_s - seconds) * 1e6))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(seconds, micros))
            self._timeout_s = timeout_s
        try:
            data, ancillary, flags, source = self._socket.recvmsg(self._size_max, _ANCILLARY_BYTES, flags)
        except BlockingIOError:
            return None
        except OSError as error:
            if self._socket.fileno() < 0:
                raise NetError("closed", found="a closed receiver", expected="an open one") from error
            raise from_os_error(error, doing="receiving at", endpoint="the socket") from error
        now_ns = time.time_ns()
        stamp: Stamp = "user"
        for level, kind, body in ancillary:
            if level != socket.SOL_SOCKET:
                continue
            if kind == _SO_TIMESTAMPNS and len(body) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(body)
                now_ns = seconds * 1_000_000_000 + nanoseconds
                stamp = "kernel"
            elif kind == _SO_RXQ_OVFL and len(body) == _U32.size:
                self._dropped = _U32.unpack(body)[0]
        if flags & socket.MSG_TRUNC:
            self.counts.truncated += 1
            raise NetError(
                "datagram-truncated",
                found=f"a datagram from {source[0]} longer than {self._size_max} bytes",
                expected=f"at most {self._size_max}",
                hint="raise size_max, or check what that sender is sending",
            )
        return ReceivedFrame(data, now_ns, stamp, self._dropped, (source[0], source[1]))

    def _admits(self, frame: ReceivedFrame) -> bool:
        if self._sources is None or frame.source[0] in self._sources:
            return True
        self.counts.foreign += 1
        return False

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class UdpSender:
    """Sends datagrams to one address. Never blocks: a full buffer is an error, not a wait."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        interface: str | None = None,
        ttl: int = 1,
        bind_address: str | None = None,
    ) -> None:
        """``address``:``port`` may be unicast or an IPv4 multicast group, sent out of ``interface`` with ``ttl``.

        Raises NetError as UdpReceiver does.
        """
        _check_address(address)
        if not 1 <= port <= 0xFFFF:
            raise ValueError(f"port {port} is outside 1 … 65535")
        index = interface_index(interface) if interface is not None else 0
        self._target = (address, port)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            if ipaddress.IPv4Address(address).is_multicast:
                request = bytes(8) + struct.pack("@i", index)
                self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
                self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            if bind_address is not None:
                self._socket.bind((bind_address, 0))
        except OSError as error:
            self._socket.close()
            raise from_os_error(error, doing="opening a sender to", endpoint=f"{address}:{port}") from error

    @property
    def target(self) -> tuple[str, int]:
        """(address, port) that datagrams go to."""
        return self._target

    def send(self, data: bytes) -> None:
        """Send one datagram. Raises NetError ``datagram-too-large``, ``send-buffer-full``, ``network-unreachable``…

        The socket is not connected, so a receiver that is not (yet) there is no error: UDP publishers do not know.
        """
        try:
            self._socket.sendto(data, self._target)
        except OSError as error:
            host, port = self._target
            raise from_os_error(error, doing="sending to", endpoint=f"{host}:{port}") from error

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_address(address: str, *, multicast: bool | None = None) -> str:
    """``address`` if it is a literal IPv4 address (names would need a resolver in the loop)."""
    try:
        parsed = ipaddress.IPv4Address(address)
    except ipaddress.AddressValueError as error:
        raise NetError(
            "bad-address", found=repr(address), expected="a literal IPv4 address such as 192.168.0.10"
        ) from error
    if multicast is not None and parsed.is_multicast is not multicast:
        expected = "a multicast group (224.0.0.0/4)" if multicast else "a local unicast address"
        raise NetError("bad-address", found=address, expected=expected)
    return str(parsed)
