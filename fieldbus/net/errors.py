"""Errors of the network layer: what the operating system refused, in the words of this product."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct

from fieldbus.errors import FieldbusError

_SIOCGIFADDR = 0x8915
_NAME_BYTES_MAX = 16


class NetError(FieldbusError):
    """A socket could not be opened, or a datagram not taken or sent. ``code`` says which case."""


def interface_index(name: str) -> int:
    """Index of a network interface; raises NetError ``no-such-interface`` with the names there are."""
    try:
        return socket.if_nametoindex(name)
    except (OSError, ValueError) as error:
        names = ", ".join(known for _, known in socket.if_nameindex())
        raise NetError(
            "no-such-interface",
            found=repr(name),
            expected=f"one of {names}",
            hint="name the interface as `ip link` shows it",
        ) from error


def interface_address(index: int) -> str:
    """First IPv4 address of an interface; raises NetError ``no-such-address``, or OSError."""
    name = socket.if_indextoname(index)
    request = struct.pack("256s", name.encode()[: _NAME_BYTES_MAX - 1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            raise NetError(
                "no-such-address",
                found=f"{name} without an IPv4 address",
                expected="one, to join a group for chosen senders",
                hint=f"`ip address add … dev {name}`",
            ) from error
    return socket.inet_ntoa(reply[20:24])


def from_os_error(error: OSError, *, doing: str, endpoint: str) -> NetError:
    """The NetError of an OSError raised while ``doing`` something at ``endpoint`` (address:port)."""
    code, expected, hint = _KNOWN.get(
        error.errno or 0, ("socket-error", "success", "see the system message in `found`")
    )
    return NetError(code, found=f"{error.strerror or error} while {doing} {endpoint}", expected=expected, hint=hint)


_KNOWN: dict[int, tuple[str, str, str]] = {
    errno.EADDRINUSE: (
        "port-in-use",
        "a free UDP port",
        "stop the other program (`ss -lunp` shows it) or choose another port",
    ),
    errno.EADDRNOTAVAIL: (
        "no-such-address",
        "an address of this machine",
        "`ip address` lists them; use 0.0.0.0 for all",
    ),
    errno.EACCES: ("not-permitted", "a permitted operation", "ports below 1024 need CAP_NET_BIND_SERVICE"),
    errno.EPERM: ("not-permitted", "a permitted operation", "a firewall rule or missing capability refused it"),
    errno.EMSGSIZE: ("datagram-too-large", "a datagram that fits", "send fewer fields per DataSetMessage"),
    errno.ENETUNREACH: ("network-unreachable", "a route", "check the interface is up and has an address"),
    errno.EHOSTUNREACH: ("network-unreachable", "a route", "check cabling and the peer's address"),
    errno.ENETDOWN: ("network-down", "an interface that is up", "`ip link set … up`"),
    errno.ENODEV: ("no-such-interface", "an interface of this machine", "`ip link` lists them"),
    errno.EAGAIN: ("send-buffer-full", "room in the socket's send buffer", "the link is slower than the sender"),
    errno.ENOBUFS: ("send-buffer-full", "room in the device queue", "the link is slower than the sender"),
}
