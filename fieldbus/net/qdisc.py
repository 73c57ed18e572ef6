"""Which queueing disciplines an interface has, by netlink (rtnetlink(7), linux/pkt_sched.h). Read only, no rights.

SO_TXTIME is silently ignored where no etf discipline is there to obey it: so a sender at given times looks first.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from fieldbus.net.errors import NetError, from_os_error, interface_index

_RTM_NEWQDISC, _RTM_GETQDISC = 36, 38
_NLM_F_REQUEST, _NLM_F_DUMP = 0x1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_TCA_KIND, _TCA_OPTIONS, _TCA_ETF_PARMS = 1, 2, 1
_NLMSG = struct.Struct("@IHHII")
_TCMSG = struct.Struct("@BxxxiIII")
_ATTRIBUTE = struct.Struct("@HH")
_ETF = struct.Struct("@iiI")
_ATTRIBUTE_TYPE = 0x3FFF  # the upper two bits are flags
_ETF_DEADLINE, _ETF_OFFLOAD = 1, 2

ANSWER_BYTES_MAX = 65_536
ANSWERS_MAX = 1_024
"""Datagrams of one dump: an interface has one discipline per queue, at most a few thousand in 64 KiB pieces."""

CLOCK_TAI = 11


@dataclass(frozen=True, slots=True)
class Etf:
    """Settings of an etf discipline: how long before its time a frame is handed to the driver, the clock of the times,
    whether times are deadlines, whether the card keeps them by itself."""

    delta_ns: int
    clock_id: int
    deadline: bool
    offload: bool


@dataclass(frozen=True, slots=True)
class Qdisc:
    """One discipline: ``kind`` as ``tc qdisc`` names it (``etf``, ``taprio``, ``noqueue``, …)."""

    kind: str
    handle: int
    parent: int
    etf: Etf | None = None


def qdiscs(interface: str) -> tuple[Qdisc, ...]:
    """All disciplines of ``interface``. Raises NetError ``no-such-interface``, ``netlink``."""
    index = interface_index(interface)
    request = _NLMSG.pack(_NLMSG.size + _TCMSG.size, _RTM_GETQDISC, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0)
    found: list[Qdisc] = []
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
            link.settimeout(1.0)
            link.send(request + _TCMSG.pack(0, index, 0, 0, 0))
            for _ in range(ANSWERS_MAX):
                done, part = parse_answer(link.recv(ANSWER_BYTES_MAX), index)
                found += part
                if done:
                    return tuple(found)
    except OSError as error:
        raise from_os_error(error, doing="asking for the disciplines of", endpoint=interface) from error
    raise _wrong(f"more than {ANSWERS_MAX} answers")


def parse_answer(data: bytes, index: int) -> tuple[bool, list[Qdisc]]:
    """(whether the dump is over, disciplines of interface ``index``). Raises NetError ``netlink``."""
    found: list[Qdisc] = []
    at = 0
    while at < len(data):
        if len(data) - at < _NLMSG.size:
            raise _wrong("a cut message")
        length, kind, _, _, _ = _NLMSG.unpack_from(data, at)
        if not _NLMSG.size <= length <= len(data) - at:
            raise _wrong(f"a message of {length} bytes in {len(data) - at}")
        body = data[at + _NLMSG.size : at + length]
        if kind == _NLMSG_DONE:
            return True, found
        if kind == _NLMSG_ERROR:
            raise _wrong("an error instead of a list")
        if kind == _RTM_NEWQDISC:
            if len(body) < _TCMSG.size:
                raise _wrong("a cut message")
            _, where, handle, parent, _ = _TCMSG.unpack_from(body)
            if where == index:
                found.append(_qdisc(body[_TCMSG.size :], handle, parent))
        at += length + (-length) % 4
    return False, found


def _qdisc(body: bytes, handle: int, parent: int) -> Qdisc:
    attributes = dict(_attributes(body))
    kind = attributes.get(_TCA_KIND, b"").rstrip(b"\0").decode("ascii", "replace")
    etf = None
    if kind == "etf":
        settings = dict(_attributes(attributes.get(_TCA_OPTIONS, b""))).get(_TCA_ETF_PARMS, b"")
        if len(settings) < _ETF.size:
            raise _wrong(f"etf settings of {len(settings)} bytes")
        delta, clock, flags = _ETF.unpack_from(settings)
        etf = Etf(delta, clock, bool(flags & _ETF_DEADLINE), bool(flags & _ETF_OFFLOAD))
    return Qdisc(kind, handle, parent, etf)


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while len(body) - at >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if not _ATTRIBUTE.size <= length <= len(body) - at:
            raise _wrong(f"an attribute of {length} bytes in {len(body) - at}")
        yield kind & _ATTRIBUTE_TYPE, body[at + _ATTRIBUTE.size : at + length]
        at += length + (-length) % 4


def _wrong(found: str) -> NetError:
    return NetError("netlink", found=found, expected="a list of queueing disciplines")


def require_etf(interface: str, *, taprio: bool = False) -> Etf:
    """The etf discipline that will obey the times of frames. Raises NetError ``no-etf``, ``no-taprio``, ``etf-clock``,
    naming what was found.

    ``taprio``: a gate schedule (IEEE 802.1Qbv) must be there as well.
    """
    there = qdiscs(interface)
    names = ", ".join(item.kind for item in there) or "none"
    etf = next((item.etf for item in there if item.etf is not None), None)
    if etf is None:
        raise NetError(
            "no-etf",
            found=f"{names} on {interface}",
            expected="an etf discipline: without one the kernel ignores the times of frames",
            hint=f"tc qdisc replace dev {interface} … etf clockid CLOCK_TAI delta 200000 [offload]",
        )
    if taprio and not any(item.kind == "taprio" for item in there):
        raise NetError(
            "no-taprio", found=f"{names} on {interface}", expected="a taprio schedule", hint="see tc-taprio(8)"
        )
    if etf.clock_id != CLOCK_TAI or etf.deadline:
        found = f"clock {etf.clock_id}{', deadline mode' if etf.deadline else ''} on {interface}"
        raise NetError("etf-clock", found=found, expected="CLOCK_TAI and times that are exact, not deadlines")
    return etf
