"""What every receiver does alike: wait, take the newest, count what it threw away. For one thread each."""

from __future__ import annotations

import math
import socket
import struct
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from fieldbus.net import stamps
from fieldbus.net.errors import NetError, from_os_error
from fieldbus.net.frames import ReceivedFrame, ReceiverCounts

_TIMEVAL = struct.Struct("@ll")

DRAIN_MAX = 1_024
"""Frames one drain may discard: bounds its time when frames arrive as fast as they are read."""

RECEIVE_BUFFER_BYTES = 262_144
"""Kernel buffer: a quarter of a second of small frames at 1 kHz; more would only hide a stalled reader."""


class FrameReceiver(ABC):
    """A socket that frames are read from; ``tai_offset_s`` brings a network card's stamps to CLOCK_REALTIME."""

    def __init__(self, sock: socket.socket, *, size_max: int, ancillary_bytes: int, tai_offset_s: int = 0) -> None:
        self._socket = sock
        self._size_max = size_max
        self._ancillary_bytes = ancillary_bytes
        self._dropped = 0
        self._timeout_s = math.nan
        self.tai_offset_s = tai_offset_s
        self.counts = ReceiverCounts()

    @abstractmethod
    def _frame(
        self, data: bytes, source: Any, ancillary: stamps.Ancillary, reception: stamps.Reception
    ) -> ReceivedFrame | None:
        """The frame of what one ``recvmsg`` gave, or None (counted) if it is not one that is admitted."""

    def fileno(self) -> int:
        """Descriptor for ``select``-like waiting."""
        return self._socket.fileno()

    def receive(self, timeout_s: float) -> ReceivedFrame | None:
        """The next frame, or None after ``timeout_s`` (0: do not wait).

        Raises NetError ``datagram-truncated`` for one longer than ``size_max`` (it is lost), ``closed``, or a
        socket error. Frames that are not admitted are skipped within the same time-out.
        """
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s {timeout_s} is negative")
        deadline = time.monotonic() + timeout_s
        left = timeout_s
        while True:
            came, frame = self._receive_one(left)
            if frame is not None or not came:
                return frame
            left = max(0.0, deadline - time.monotonic())
            if left == 0.0 and timeout_s > 0:
                return None

    def drain_latest(self) -> tuple[ReceivedFrame | None, int]:
        """The newest frame waiting and how many older ones it superseded; as ``drain_newest``."""
        newest, superseded = self.drain_newest(1)
        return (newest[0] if newest else None), superseded

    def drain_newest(self, keep: int) -> tuple[list[ReceivedFrame], int]:
        """The newest ``keep`` frames waiting, oldest first, and how many still older ones gave way; never waits.

        Truncated and foreign ones are counted in ``counts`` and do not count as newest. At most ``DRAIN_MAX``
        are read.
        """
        newest: list[ReceivedFrame] = []
        superseded = 0
        for _ in range(DRAIN_MAX):
            try:
                came, frame = self._receive_one(0.0)
            except NetError as error:
                if error.code != "datagram-truncated":
                    raise
                continue
            if not came:
                break
            if frame is None:
                continue
            if len(newest) == keep:
                superseded += 1
                del newest[0]
            newest.append(frame)
        self.counts.superseded += superseded
        return newest, superseded

    def receive_latest(self, timeout_s: float) -> tuple[ReceivedFrame | None, int]:
        """Wait for a frame, then take the newest of those waiting: (frame or None, superseded)."""
        first = self.receive(timeout_s)
        if first is None:
            return None, 0
        newest, superseded = self.drain_latest()
        if newest is None:
            return first, 0
        self.counts.superseded += 1
        return newest, superseded + 1

    def _receive_one(self, timeout_s: float) -> tuple[bool, ReceivedFrame | None]:
        """(whether anything came, the frame if it is admitted)."""
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
            data, ancillary, flags, source = self._socket.recvmsg(self._size_max, self._ancillary_bytes, flags)
        except BlockingIOError:
            return False, None
        except OSError as error:
            if self._socket.fileno() < 0:
                raise NetError("closed", found="a closed receiver", expected="an open one") from error
            raise from_os_error(error, doing="receiving at", endpoint="the socket") from error
        reception = stamps.reception(ancillary, now_ns=time.time_ns(), tai_offset_s=self.tai_offset_s)
        self.counts.unstamped += reception.refused
        if reception.dropped is not None:
            self._dropped = reception.dropped
        if flags & socket.MSG_TRUNC:
            self.counts.truncated += 1
            raise NetError(
                "datagram-truncated",
                found=f"one from {source[0]} longer than {self._size_max} bytes",
                expected=f"at most {self._size_max}",
                hint="raise size_max, or check what that sender is sending",
            )
        return True, self._frame(data, source, ancillary, reception)

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
