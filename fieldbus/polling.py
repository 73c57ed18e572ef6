"""Polling of one controller: samples every period, bad ones at once when it is gone, reconnects with back-off.

One poller has one connection and knows nothing of others, so a dead controller never holds up another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fieldbus.errors import FieldbusError
from fieldbus.sample import BAD_NO_COMMUNICATION, Sample, bad


class Connector(Protocol):
    """What a vendor's connector does for the poller. Every method raises FieldbusError."""

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        """Names and units, in the order of ``read``."""

    async def connect(self) -> None:
        """Connect and discover what ``read`` needs."""

    async def read(self) -> tuple[Sample, ...]:
        """One sample per tag."""

    async def close(self) -> None:
        """End the connection."""

    @property
    def connected(self) -> bool:
        """False once the connection has failed."""


@dataclass(slots=True)
class Backoff:
    """Waits that double from ``first_s`` to ``max_s``."""

    first_s: float = 0.5
    max_s: float = 30.0
    failures: int = 0

    def next_s(self) -> float:
        """The wait after one more failure."""
        self.failures += 1
        return min(self.max_s, self.first_s * 2.0 ** min(self.failures - 1, 30))

    def reset(self) -> None:
        self.failures = 0


class Poller:
    """Runs one connector. ``faults`` counts failures by code, ``late_total`` periods that a read overran."""

    def __init__(
        self,
        connector: Connector,
        deliver: Callable[[tuple[Sample, ...]], None],
        *,
        period_s: float,
        backoff: Backoff | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        if not period_s > 0:
            raise ValueError("the period must be positive")
        self._connector, self._deliver, self._period_s = connector, deliver, period_s
        self._backoff = backoff or Backoff()
        self._now_ns = now_ns
        self.faults: dict[str, int] = {}
        self.last_fault: FieldbusError | None = None
        """The latest of them, whether or not it is over."""
        self.late_total = 0
        self.reconnects_total = 0

    async def run(self) -> None:
        """Poll until cancelled; the connection is closed then."""
        try:
            while True:
                try:
                    await self._connector.connect()
                    self._backoff.reset()
                    await self._poll()
                except FieldbusError as error:
                    self._fault(error)
                    await self._connector.close()
                await asyncio.sleep(self._backoff.next_s())
                self.reconnects_total += 1
        finally:
            await self._connector.close()

    async def _poll(self) -> None:
        due = asyncio.get_running_loop().time()
        while True:
            try:
                self._deliver(await self._connector.read())
            except FieldbusError as error:
                if not self._connector.connected:
                    raise
                self._fault(error)
            due += self._period_s
            wait = due - asyncio.get_running_loop().time()
            if wait <= 0:
                self.late_total += 1
                due -= wait
            await asyncio.sleep(max(0.0, wait))

    def _fault(self, error: FieldbusError) -> None:
        """Count it; no value outlives the connection it came by."""
        self.faults[error.code] = self.faults.get(error.code, 0) + 1
        self.last_fault = error
        now_ns = self._now_ns()
        self._deliver(tuple(bad(tag, unit, BAD_NO_COMMUNICATION, now_ns) for tag, unit in self._connector.tags))
