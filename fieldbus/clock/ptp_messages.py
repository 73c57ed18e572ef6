"""PTP management messages (IEEE 1588-2019, clause 15; header 13.3), as ptp4l speaks them on its Unix socket.

A strict codec of what is asked here: GET requests out, responses in. ``…_NP`` data sets are linuxptp's own
("non-portable"; linuxptp, file ``tlv.h``), the others the standard's. All integers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from fieldbus.errors import FieldbusError


class PtpError(FieldbusError):
    """The PTP daemon could not be asked, or answered something that is no answer. ``code`` says which case."""


class ManagementId(IntEnum):
    """What can be asked for (IEEE 1588-2019, table 59; from 0xC000 on linuxptp's)."""

    DEFAULT_DATA_SET = 0x2000
    CURRENT_DATA_SET = 0x2001
    PARENT_DATA_SET = 0x2002
    TIME_PROPERTIES_DATA_SET = 0x2003
    PORT_DATA_SET = 0x2004
    TIME_STATUS_NP = 0xC000
    PORT_PROPERTIES_NP = 0xC004


class PortState(IntEnum):
    """IEEE 1588-2019, table 20; GRAND_MASTER is linuxptp's word for the master port of a grandmaster."""

    INITIALIZING = 1
    FAULTY = 2
    DISABLED = 3
    LISTENING = 4
    PRE_MASTER = 5
    MASTER = 6
    PASSIVE = 7
    UNCALIBRATED = 8
    SLAVE = 9
    GRAND_MASTER = 10


class Timestamping(IntEnum):
    """Who stamps PTP's own messages (linuxptp, ``enum timestamp_type``)."""

    SOFTWARE = 0
    HARDWARE = 1
    LEGACY_HARDWARE = 2
    ONE_STEP = 3
    PEER_ONE_STEP = 4

    @property
    def by_hardware(self) -> bool:
        """True where the network card does."""
        return self is not Timestamping.SOFTWARE


@dataclass(frozen=True, slots=True)
class PortIdentity:
    """``clock``: EUI-64 of the clock; ``port``: its port, from 1."""

    clock: bytes
    port: int


@dataclass(frozen=True, slots=True)
class DefaultDataSet:
    """The daemon's own clock: ``ports`` of it, its identity and domain."""

    ports: int
    clock: bytes
    domain: int


@dataclass(frozen=True, slots=True)
class CurrentDataSet:
    """``offset_ns`` and ``path_delay_ns`` to the parent (fractions of a nanosecond dropped)."""

    steps_removed: int
    offset_ns: int
    path_delay_ns: int


@dataclass(frozen=True, slots=True)
class ParentDataSet:
    """The port synchronised to, and the grandmaster behind it with its declared class and accuracy (table 4, 5)."""

    parent: PortIdentity
    grandmaster: bytes
    clock_class: int
    accuracy: int


@dataclass(frozen=True, slots=True)
class TimeProperties:
    """Time scale of the domain: ``utc_offset_s`` = TAI - UTC where ``utc_offset_valid``; ``leap``: 1 or -1 where the
    current day's last minute has 61 or 59 s."""

    utc_offset_s: int
    utc_offset_valid: bool
    leap: int
    ptp_timescale: bool
    time_traceable: bool
    frequency_traceable: bool
    source: int


@dataclass(frozen=True, slots=True)
class PortDataSet:
    """State and intervals of one port; ``announce_timeout_s``: silence after which its master is given up."""

    identity: PortIdentity
    state: PortState
    announce_timeout_s: float
    sync_interval_s: float


@dataclass(frozen=True, slots=True)
class TimeStatus:
    """linuxptp's view: ``offset_ns`` of the clock it disciplines to the grandmaster at the last Sync, which came in at
    ``ingress_ns`` by that clock."""

    offset_ns: int
    ingress_ns: int
    grandmaster_present: bool
    grandmaster: bytes


@dataclass(frozen=True, slots=True)
class PortProperties:
    """Which interface a port is on and who stamps there."""

    identity: PortIdentity
    state: PortState
    timestamping: Timestamping
    interface: str


DataSet: TypeAlias = (
    DefaultDataSet | CurrentDataSet | ParentDataSet | TimeProperties | PortDataSet | TimeStatus | PortProperties
)


@dataclass(frozen=True, slots=True)
class Response:
    """A data set, who sent it, and the request it answers."""

    id: ManagementId
    sequence: int
    sender: PortIdentity
    data: DataSet


MESSAGE_BYTES_MAX = 1_500
"""linuxptp's own message buffer."""

HEADER = struct.Struct("!BBHBBHqI8sHHBb")
_MANAGEMENT = struct.Struct("!8sHBBBB")
_TLV = struct.Struct("!HHH")
_HEAD_BYTES = HEADER.size + _MANAGEMENT.size
_MANAGEMENT_MESSAGE, _VERSION, _CONTROL, _INTERVAL = 0x0D, 2, 0x04, 0x7F
_GET, _RESPONSE = 0, 2
_TLV_MANAGEMENT, _TLV_ERROR = 0x0001, 0x0002
_EVERY_CLOCK, _EVERY_PORT = b"\xff" * 8, 0xFFFF
_LOG_INTERVAL_MAX = 22
_REFUSALS = {
    1: "response too big",
    2: "no such id",
    3: "wrong length",
    4: "wrong value",
    5: "not setable",
    6: "not supported",
    0xFFFE: "general error",
}


def get_request(what: ManagementId, *, sequence: int, port: int, domain: int) -> bytes:
    """A GET of ``what`` from every port of the daemon, from a requester with no clock and the port number ``port``."""
    size = _HEAD_BYTES + _TLV.size
    header = HEADER.pack(
        _MANAGEMENT_MESSAGE, _VERSION, size, domain, 0, 0, 0, 0, bytes(8), port, sequence, _CONTROL, _INTERVAL
    )
    # No boundary hops: the question is for this daemon, not for the network behind it.
    return header + _MANAGEMENT.pack(_EVERY_CLOCK, _EVERY_PORT, 0, 0, _GET, 0) + _TLV.pack(_TLV_MANAGEMENT, 2, what)


def parse_response(data: bytes, *, port: int, domain: int) -> Response:
    """The data set in a management response to the requester ``port``.

    Raises PtpError: ``ptp-message`` (not a whole management message of version 2 and this domain), ``ptp-addressee``,
    ``ptp-action`` (not a response), ``ptp-refused`` (the daemon's error status), ``ptp-tlv`` (unknown or of the wrong
    size), ``ptp-value``.
    """
    if len(data) < _HEAD_BYTES + _TLV.size or len(data) > MESSAGE_BYTES_MAX:
        raise _wrong("ptp-message", f"{len(data)} bytes", f"{_HEAD_BYTES + _TLV.size} … {MESSAGE_BYTES_MAX}")
    kind, version, length, number, _, _, _, _, clock, sender, sequence, _, _ = HEADER.unpack_from(data)
    if kind & 0x0F != _MANAGEMENT_MESSAGE or version & 0x0F != _VERSION:
        raise _wrong("ptp-message", f"message type {kind & 15}, version {version & 15}", "type 13, version 2")
    if length != len(data) or number != domain:
        found = f"length {length} of {len(data)}, domain {number}"
        raise _wrong("ptp-message", found, f"length {len(data)}, domain {domain}")
    _, target, _, _, action, _ = _MANAGEMENT.unpack_from(data, HEADER.size)
    if target != port:
        raise _wrong("ptp-addressee", f"an answer to port {target}", f"one to port {port}")
    if action & 0x0F != _RESPONSE:
        raise _wrong("ptp-action", f"action {action & 15}", f"{_RESPONSE} (response)")
    what, body = _tlv(data)
    return Response(what, sequence, PortIdentity(clock, sender), _PARSERS[what](body))


def _tlv(data: bytes) -> tuple[ManagementId, bytes]:
    kind, length, what = _TLV.unpack_from(data, _HEAD_BYTES)
    if length != len(data) - _HEAD_BYTES - 4:
        raise _wrong("ptp-tlv", f"a TLV of {length} bytes", f"{len(data) - _HEAD_BYTES - 4}: one, to the end")
    if kind == _TLV_ERROR:
        # Here `what` is the reason (table 109); the id that was refused follows it.
        raise _wrong("ptp-refused", _REFUSALS.get(what, f"error status {what}"), "an answer")
    if kind != _TLV_MANAGEMENT:
        raise _wrong("ptp-tlv", f"TLV type {kind}", f"{_TLV_MANAGEMENT} (management)")
    try:
        return ManagementId(what), data[_HEAD_BYTES + _TLV.size :]
    except ValueError:
        raise _wrong("ptp-tlv", f"management id 0x{what:04x}", "one that was asked for") from None


def _wrong(code: str, found: str, expected: str) -> PtpError:
    return PtpError(code, found=found, expected=expected, hint="is this the socket of ptp4l (linuxptp 3 or 4)?")


def _unpack(layout: struct.Struct, body: bytes, what: ManagementId) -> tuple[Any, ...]:
    if len(body) != layout.size:
        raise _wrong("ptp-tlv", f"{what.name} of {len(body)} bytes", str(layout.size))
    return layout.unpack(body)


_DEFAULT = struct.Struct("!BxHB4sB8sBx")
_CURRENT = struct.Struct("!Hqq")
_PARENT = struct.Struct("!8sHBxHiBBBHB8s")
_PROPERTIES = struct.Struct("!hBB")
_PORT = struct.Struct("!8sHBbqbBbBbB")
_STATUS = struct.Struct("!qqiiH12si8s")
_PORT_PROPERTIES_HEAD = struct.Struct("!8sHBBB")


def _default(body: bytes) -> DefaultDataSet:
    _, ports, _, _, _, clock, domain = _unpack(_DEFAULT, body, ManagementId.DEFAULT_DATA_SET)
    return DefaultDataSet(ports, clock, domain)


def _current(body: bytes) -> CurrentDataSet:
    steps, offset, delay = _unpack(_CURRENT, body, ManagementId.CURRENT_DATA_SET)
    return CurrentDataSet(steps, offset >> 16, delay >> 16)  # TimeInterval (5.3.2): 2^-16 ns


def _parent(body: bytes) -> ParentDataSet:
    clock, port, _, _, _, _, clock_class, accuracy, _, _, grandmaster = _unpack(
        _PARENT, body, ManagementId.PARENT_DATA_SET
    )
    return ParentDataSet(PortIdentity(clock, port), grandmaster, clock_class, accuracy)


def _properties(body: bytes) -> TimeProperties:
    offset, flags, source = _unpack(_PROPERTIES, body, ManagementId.TIME_PROPERTIES_DATA_SET)
    if flags & 3 == 3:
        raise _wrong("ptp-value", "a minute of both 61 and 59 s", "at most one of them")
    leap = (flags & 1) - (flags >> 1 & 1)
    return TimeProperties(
        utc_offset_s=offset,
        utc_offset_valid=bool(flags & 4),
        leap=leap,
        ptp_timescale=bool(flags & 8),
        time_traceable=bool(flags & 16),
        frequency_traceable=bool(flags & 32),
        source=source,
    )


def _port(body: bytes) -> PortDataSet:
    clock, port, state, _, _, announce, timeout, sync, _, _, _ = _unpack(_PORT, body, ManagementId.PORT_DATA_SET)
    return PortDataSet(
        PortIdentity(clock, port), _state(state), timeout * _interval(announce), sync_interval_s=_interval(sync)
    )


def _status(body: bytes) -> TimeStatus:
    offset, ingress, _, _, _, _, present, grandmaster = _unpack(_STATUS, body, ManagementId.TIME_STATUS_NP)
    return TimeStatus(offset, ingress, bool(present), grandmaster)


def _port_properties(body: bytes) -> PortProperties:
    head = _PORT_PROPERTIES_HEAD
    clock, port, state, stamping, size = _unpack(head, body[: head.size], ManagementId.PORT_PROPERTIES_NP)
    text, rest = body[head.size : head.size + size], body[head.size + size :]
    if len(text) != size or rest not in (b"", b"\0"):  # padded to an even length
        raise _wrong("ptp-tlv", f"an interface name of {size} bytes in {len(body)}", "one that fills its TLV")
    if stamping not in Timestamping.__members__.values():
        raise _wrong("ptp-value", f"time stamping {stamping}", "0 … 4")
    if not text.isascii():
        raise _wrong("ptp-value", f"interface {text!r}", "ASCII")
    return PortProperties(PortIdentity(clock, port), _state(state), Timestamping(stamping), text.decode("ascii"))


def _state(number: int) -> PortState:
    try:
        return PortState(number)
    except ValueError:
        raise _wrong("ptp-value", f"port state {number}", "1 … 10") from None


def _interval(log2: int) -> float:
    if abs(log2) > _LOG_INTERVAL_MAX:
        raise _wrong("ptp-value", f"an interval of 2^{log2} s", f"2^-{_LOG_INTERVAL_MAX} … 2^{_LOG_INTERVAL_MAX}")
    return float(2.0**log2)


_PARSERS: dict[ManagementId, Callable[[bytes], DataSet]] = {
    ManagementId.DEFAULT_DATA_SET: _default,
    ManagementId.CURRENT_DATA_SET: _current,
    ManagementId.PARENT_DATA_SET: _parent,
    ManagementId.TIME_PROPERTIES_DATA_SET: _properties,
    ManagementId.PORT_DATA_SET: _port,
    ManagementId.TIME_STATUS_NP: _status,
    ManagementId.PORT_PROPERTIES_NP: _port_properties,
}
