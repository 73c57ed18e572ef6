"""UDP over IPv4 with receive stamps, drop counts and no unseen truncation (Linux)."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from fieldbus.net import stamps
from fieldbus.net.errors import NetError, from_os_error, interface_address, interface_index
from fieldbus.net.frames import ReceivedFrame
from fieldbus.net.receiver import RECEIVE_BUFFER_BYTES, FrameReceiver

# Not in the socket module of Python 3.11; values of linux/in.h.
_IP_MULTICAST_ALL = 49
_IP_ADD_SOURCE_MEMBERSHIP = 39

DATAGRAM_BYTES_MAX = 65_507
"""Largest UDP payload over IPv4; the default buffer, so that nothing is ever cut."""

SOURCES_MAX = 10
"""Senders one group is joined for: the kernel's own limit (net.ipv4.igmp_max_msf)."""


class UdpReceiver(FrameReceiver):
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
        tai_offset_s: int = 0,
    ) -> None:
        """Bind ``address``:``port`` (0: any free one).

        ``group``: IPv4 multicast group to join on ``interface`` (by name; default: the kernel's choice); the
        socket is then bound to the group, so unicast frames to the same port are not seen. ``sources``: only
        these sender addresses are accepted, others are counted (a filter against mix-ups, not against forgery); with a
        group it is joined for these senders alone (RFC 3376), so the network need not carry the others' datagrams.
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
        if group is not None and self._sources is not None and not 1 <= len(self._sources) <= SOURCES_MAX:
            raise ValueError(f"{len(self._sources)} sources of one group; the kernel takes 1 … {SOURCES_MAX}")
        super().__init__(
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            size_max=size_max,
            ancillary_bytes=stamps.ANCILLARY_BYTES,
            tai_offset_s=tai_offset_s,
        )
        try:
            self._open(address, port, group, index, receive_buffer_bytes)
        except NetError:
            self._socket.close()
            raise
        except OSError as error:
            self._socket.close()
            raise from_os_error(error, doing="binding", endpoint=f"{group or address}:{port}") from error

    def _open(self, address: str, port: int, group: str | None, index: int, buffer_bytes: int) -> None:
        sock = self._socket
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        stamps.enable(sock)
        if group is None:
            sock.bind((address, port))
            return
        # Several subscribers of one group on one machine are normal, hence REUSEADDR only here.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        sock.bind((group, port))
        local = "0.0.0.0" if index else address  # noqa: S104 - ip_mreqn: the index decides
        if self._sources is None:
            request = socket.inet_aton(group) + socket.inet_aton(local) + struct.pack("@i", index)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            return
        # ip_mreq_source has no index: the interface is named by its address. The switches then filter too (IGMPv3).
        local = interface_address(index) if index else address
        for source in sorted(self._sources):
            request = socket.inet_aton(group) + socket.inet_aton(local) + socket.inet_aton(source)
            sock.setsockopt(socket.IPPROTO_IP, _IP_ADD_SOURCE_MEMBERSHIP, request)

    @property
    def address(self) -> tuple[str, int]:
        """Bound (address, port)."""
        host, port = self._socket.getsockname()
        return host, port

    def _frame(
        self, data: bytes, source: Any, ancillary: stamps.Ancillary, reception: stamps.Reception
    ) -> ReceivedFrame | None:
        if self._sources is not None and source[0] not in self._sources:
            self.counts.foreign += 1
            return None
        return ReceivedFrame(data, reception.t_ns, reception.stamp, self._dropped, (source[0], source[1]))


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
