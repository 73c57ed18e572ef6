"""A polled controller as a station: each poll is a sample, and a controller that is gone says so at once."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from fieldbus.cip.connector import CipConnector
from fieldbus.polling import Backoff, Connector, Poller
from fieldbus.sample import Sample as TagSample
from fieldbus.sample import TimeSource
from fieldbus.slmp.connector import SlmpConnector
from sitsedge.bridge.combine import StationSample
from sitsedge.bridge.sample import BAD_GONE, BAD_NO_DATA, FieldValue, bad_fields, number_of
from sitsedge.bridge.stations import Deliver
from sitsedge.config.stations import PolledStation

POLLS_KEPT = 128
"""Durations of the last polls; the slowest of them is held against the deployment's claim."""

FIRST_WAIT_S = 0.2
_MS_PER_S = 1000.0
_NS_PER_MS = 1e6


class TimedConnector:
    """A connector that notes when it was asked.

    A telegram without a time of its own was answered after that moment, so a sample with it is never younger than it
    says; the moment of reception would hide how long the controller took.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.asked_ns = 0
        """CLOCK_REALTIME of the last ``read``."""
        self.took_ms: deque[float] = deque(maxlen=POLLS_KEPT)
        """Durations of the last reads that were answered."""
        self.connects_total = 0

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        return self._connector.tags

    @property
    def connected(self) -> bool:
        return self._connector.connected

    async def connect(self) -> None:
        await self._connector.connect()
        self.connects_total += 1

    async def close(self) -> None:
        await self._connector.close()

    async def read(self) -> tuple[TagSample, ...]:
        self.asked_ns = time.time_ns()
        start = time.monotonic_ns()
        samples = await self._connector.read()
        self.took_ms.append((time.monotonic_ns() - start) / _NS_PER_MS)
        return samples


class VendorStation:
    """One S7, CIP or SLMP controller, polled every ``poll_ms`` (the cycle's period unless the station has its own)."""

    def __init__(
        self,
        station: PolledStation,
        connector: Connector,
        deliver: Deliver,
        *,
        poll_ms: float,
        source_age_ms_max: float,
        future_ms_max: float,
    ) -> None:
        self._station = station
        self._inner = connector
        self._timed = TimedConnector(connector)
        self._deliver = deliver
        self._poll_ms = poll_ms if station.poll_ms is None else station.poll_ms
        self._age_ms_max, self._future_ms_max = source_age_ms_max, future_ms_max
        self._off_ms = 0.0
        self._poller = Poller(
            self._timed,
            self._take,
            period_s=self._poll_ms / _MS_PER_S,
            backoff=Backoff(
                min(FIRST_WAIT_S, station.reconnect_ms_max / _MS_PER_S), station.reconnect_ms_max / _MS_PER_S
            ),
        )
        self._bad: dict[str, int] = {name: BAD_GONE for name, _ in connector.tags}
        self._samples = 0

    @property
    def name(self) -> str:
        """As the deployment calls it."""
        return self._station.name

    @property
    def state(self) -> str:
        """See :class:`~sitsedge.bridge.stations.RunningStation`."""
        if not self._timed.connected:
            return "connecting"
        return "degraded" if self._bad or self._findings() else "running"

    async def run(self) -> None:
        """Poll until cancelled."""
        await self._poller.run()

    def end(self) -> None:
        """See :class:`~sitsedge.bridge.stations.RunningStation`; the poller is cancelled as asked."""

    async def close(self) -> None:
        """End the connection."""
        await self._timed.close()

    def look(self, now_ns: int) -> None:
        """Say again that there are no values, while there is no connection."""
        if not self._timed.connected:
            self._say(StationSample(now_ns, bad_fields(len(self._timed.tags), BAD_GONE)))

    def _take(self, samples: tuple[TagSample, ...]) -> None:
        fields, now_ns = tuple(map(_field, samples)), time.time_ns()
        if all(field.value is None for field in fields):
            # A program that stands still leaves its own time standing, and these fields have no time but ours.
            self._say(StationSample(now_ns, fields))
            return
        by_plc = samples[0].time_source is TimeSource.PLC
        t_ns = samples[0].t_source_ns if by_plc else self._timed.asked_ns
        self._off_ms = (now_ns - t_ns) / _NS_PER_MS if by_plc else 0.0
        if not -self._future_ms_max <= (now_ns - t_ns) / _NS_PER_MS <= self._age_ms_max:
            t_ns = now_ns
            fields = tuple(field if field.value is None else FieldValue(None, BAD_NO_DATA) for field in fields)
        self._say(StationSample(t_ns, fields))

    def _say(self, sample: StationSample) -> None:
        names = (name for name, _ in self._timed.tags)
        self._bad = {name: field.status for name, field in zip(names, sample.fields, strict=True) if field.status}
        self._samples += 1
        self._deliver(sample)

    def _findings(self) -> list[str]:
        """What the deployment claims and this controller does not keep."""
        found, slowest = [], max(self._timed.took_ms, default=0.0)
        if slowest > self._age_ms_max:
            found.append(f"latency-claim: a poll took {slowest:.1f} ms, the deployment allows {self._age_ms_max:g} ms")
        if not -self._future_ms_max <= self._off_ms <= self._age_ms_max:
            allowed = f"allowed are {self._age_ms_max:g} ms and {self._future_ms_max:g} ms ahead"
            found.append(f"plc-clock: the values' own time is {self._off_ms:.1f} ms behind, {allowed}")
        return found

    def status(self) -> dict[str, Any]:
        """What the snapshot says of it."""
        took, error = sorted(self._timed.took_ms), self._poller.last_fault
        return {
            "name": self.name,
            "protocol": self._station.protocol,
            "address": f"{self._station.host}:{self._station.port}",
            "state": self.state,
            "connected": self._timed.connected,
            "connects": self._timed.connects_total,
            "controller": self._controller(),
            "faults": dict(sorted(self._poller.faults.items())),
            "last_error": None if self._timed.connected or error is None else str(error),
            "findings": self._findings(),
            "bad_tags": {name: f"{status:#010x}" for name, status in sorted(self._bad.items())},
            "poll_ms": self._poll_ms,
            "poll_took_ms": {"p50": round(took[len(took) // 2], 3), "max": round(took[-1], 3)} if took else None,
            "polls_late": self._poller.late_total,
            "samples": self._samples,
        }

    def _controller(self) -> str:
        """What the controller last said it is."""
        if isinstance(self._inner, CipConnector):
            identity = self._inner.identity
            return "" if identity is None else f"{identity.name} {identity.mode.value}"
        return self._inner.model if isinstance(self._inner, SlmpConnector) else ""


def _field(sample: TagSample) -> FieldValue:
    """The field of a tag. A BOOL is 1 or 0: the block's layout, the tag's type or the device say that it is one."""
    value = sample.value
    return number_of(int(value) if isinstance(value, bool) else value, sample.status)
