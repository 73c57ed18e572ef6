"""Asks ptp4l how it stands, over its Unix socket. Blocking, with a deadline: never from the loop.

Every question has a new number and only its own answers are taken: a late answer to the last question is no answer
to this one. Nothing is ever set: only GET is spoken.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast

from fieldbus.clock.ptp_messages import (
    MESSAGE_BYTES_MAX,
    CurrentDataSet,
    DataSet,
    DefaultDataSet,
    ManagementId,
    ParentDataSet,
    PortDataSet,
    PortProperties,
    PtpError,
    TimeProperties,
    TimeStatus,
    get_request,
    parse_response,
)

PORTS_MAX = 64
"""Ports of one daemon: more than any switch that runs one has."""

ANSWERS_MAX = 4 * PORTS_MAX
"""Datagrams read for one question, so that a daemon that talks without end is given up."""

TIMEOUT_S = 0.5
"""ptp4l answers within a millisecond; on a loaded machine its next turn may take longer."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PtpStatus:
    """All that is asked for, of one moment (the questions follow each other within milliseconds)."""

    clock: DefaultDataSet
    current: CurrentDataSet
    parent: ParentDataSet
    properties: TimeProperties
    time: TimeStatus
    ports: tuple[PortDataSet, ...]
    port_properties: tuple[PortProperties, ...]


class PtpClient:
    """A requester with a socket of its own in a private folder. Use as a context manager or call ``close``."""

    def __init__(self, path: str, *, domain: int = 0, timeout_s: float = TIMEOUT_S, folder: Path | None = None) -> None:
        """``path``: ptp4l's ``uds_address``, or ``uds_ro_address`` of linuxptp 4. ``folder`` for the own socket
        (default: the temporary one): the daemon answers to a path, so it must see the same folder there, which it does
        not with a service's PrivateTmp.

        Raises PtpError ``ptp-unreachable``.
        """
        if not 0 <= domain <= 0xFF or not timeout_s > 0:
            raise ValueError("domain must be 0 … 255 and timeout_s positive")
        self._domain = domain
        self._timeout_s = timeout_s
        self._port = os.getpid() & 0xFFFF
        self._sequence = 0
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="sits-ptp-", dir=folder)  # 0700; the daemon is root
        except OSError as error:
            raise _unreachable(path, error) from error
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(Path(self._folder.name) / "s"))
            self._socket.connect(path)
        except OSError as error:
            self.close()
            raise _unreachable(path, error) from error
        self._path = path

    def status(self) -> PtpStatus:
        """Ask everything. Raises PtpError ``ptp-unreachable``, ``ptp-silent``, or what ``parse_response`` raises."""
        clock = self._one(ManagementId.DEFAULT_DATA_SET, DefaultDataSet)
        if not 1 <= clock.ports <= PORTS_MAX:
            raise PtpError("ptp-value", found=f"{clock.ports} ports", expected=f"1 … {PORTS_MAX}")
        return PtpStatus(
            clock=clock,
            current=self._one(ManagementId.CURRENT_DATA_SET, CurrentDataSet),
            parent=self._one(ManagementId.PARENT_DATA_SET, ParentDataSet),
            properties=self._one(ManagementId.TIME_PROPERTIES_DATA_SET, TimeProperties),
            time=self._one(ManagementId.TIME_STATUS_NP, TimeStatus),
            ports=self._several(ManagementId.PORT_DATA_SET, PortDataSet, clock.ports),
            port_properties=self._several(ManagementId.PORT_PROPERTIES_NP, PortProperties, clock.ports),
        )

    def _one(self, what: ManagementId, kind: type[_T]) -> _T:
        return self._several(what, kind, 1)[0]

    def _several(self, what: ManagementId, kind: type[_T], count: int) -> tuple[_T, ...]:
        self._sequence = (self._sequence + 1) & 0xFFFF
        deadline = time.monotonic() + self._timeout_s
        request = get_request(what, sequence=self._sequence, port=self._port, domain=self._domain)
        found: dict[object, DataSet] = {}
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.send(request)
            for _ in range(ANSWERS_MAX):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._socket.settimeout(left)
                response = parse_response(
                    self._socket.recv(MESSAGE_BYTES_MAX + 1), port=self._port, domain=self._domain
                )
                if response.sequence != self._sequence or response.id is not what:
                    continue
                found[getattr(response.data, "identity", None)] = response.data
                if len(found) == count:
                    return cast(tuple[_T, ...], tuple(found.values()))
        except TimeoutError:
            pass  # told below, with what was missing
        except OSError as error:
            raise _unreachable(self._path, error) from error
        raise PtpError(
            "ptp-silent",
            found=f"{len(found)} of {count} answers to {what.name} in {self._timeout_s} s",
            expected="all of them",
            hint="is ptp4l running, with this domain number?",
        )

    def close(self) -> None:
        """Close and remove the socket; a second call does nothing."""
        self._socket.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _unreachable(path: str, error: OSError) -> PtpError:
    return PtpError(
        "ptp-unreachable",
        found=f"{path}: {error.strerror or error}",
        expected="the socket of a running ptp4l",
        hint="see uds_address in ptp4l.conf; it must be readable and writable for this user",
    )
