"""The bridge process: a task per station, one combiner, one sender, one status snapshot a second."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fieldbus.net import UdpSender
from sitsedge.bridge.combine import Combiner, StationSample
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.forward import Forwarder
from sitsedge.bridge.stations import Deliver, RunningStation
from sitsedge.bridge.stations.connectors import make_connector
from sitsedge.bridge.stations.vendor import VendorStation
from sitsedge.config.stations import OpcUaStation, Station
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import freeze_garbage

if TYPE_CHECKING:
    from fieldbus.opcua import SharedIdentity

SNAPSHOT_NAME = "bridge"
SNAPSHOT_PERIOD_S = 1.0
GRACE_S = 5.0
"""From the start on, before stations that were not reached yet are said to be gone."""

LOOK_S = 0.1
"""How soon a state that changed is in the snapshot."""

_NS_PER_MS = 1_000_000


class BridgeApp:
    """One running bridge. Paths in ``config`` are relative to ``base``.

    Raises CertificateError for our own unusable files, SitsError or FieldbusError for keys of a station that cannot be
    used, NetError for a sender that cannot be opened.
    """

    def __init__(self, config: BridgeConfig, base: Path) -> None:
        self._config = config
        self._base = base
        self._combiner = Combiner(
            {station.name: [tag.name for tag in station.tags] for station in config.stations},
            config.order,
            trigger=config.trigger,
            skew_ns_max=round((config.skew_ms_max or 0) * _NS_PER_MS),
            age_ns_max=round(config.source_age_ms_max * _NS_PER_MS),
        )
        self._identity: SharedIdentity | None = None
        self._stations = [self._station(station) for station in config.stations]
        self._sender = UdpSender(config.send_to.address, config.send_to.port)
        self._forwarder = Forwarder(config, self._sender)
        self._stop = asyncio.Event()

    def _station(self, station: Station) -> RunningStation:
        def deliver(sample: StationSample) -> None:
            now_ns = time.time_ns()
            whole = self._combiner.take(station.name, sample, now_ns)
            if whole is not None:
                self._forwarder.forward(whole, now_ns)

        config = self._config
        if isinstance(station, OpcUaStation):
            return self._server(station, deliver)
        return VendorStation(
            station,
            make_connector(station, self._base),
            deliver,
            poll_ms=config.poll_ms,
            source_age_ms_max=config.source_age_ms_max,
            future_ms_max=config.future_ms_max,
        )

    def _server(self, station: OpcUaStation, deliver: Deliver) -> RunningStation:
        from sitsedge.bridge.stations.opcua import SubscribedStation  # loads asyncua: not where controllers are polled
        from sitsedge.bridge.stations.opcua_client import own_identity

        config = self._config
        if self._identity is None:
            self._identity = own_identity(config, self._base)
        return SubscribedStation(
            station,
            deliver,
            identity=self._identity,
            base=self._base,
            leads=station.name == config.trigger,
            source_age_ms_max=config.source_age_ms_max,
        )

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises FieldbusError for a station that contradicts the configuration."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        freeze_garbage(disable=False)  # takes a while, so before anything has to be on time
        workers = [asyncio.create_task(station.run(), name=station.name) for station in self._stations]
        try:
            await self._watch(workers)
        finally:
            # Both: asyncio.wait_for of Python 3.11 may swallow a cancellation that meets a result.
            for station, worker in zip(self._stations, workers, strict=True):
                station.end()
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await asyncio.gather(*(station.close() for station in self._stations), return_exceptions=True)
            self._sender.close()
            self._snapshot("stopped")

    async def _watch(self, workers: list[asyncio.Task[None]]) -> None:
        """Until asked to stop, or until a station contradicts the configuration."""
        start = due = time.monotonic()
        said = ""
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= due:
                due, said = now + SNAPSHOT_PERIOD_S, ""
                for station in self._stations if now >= start + GRACE_S else ():
                    station.look(time.time_ns())
            if (state := self.state) != said:
                self._snapshot(state)
                said = state
            waiter = asyncio.create_task(self._stop.wait())
            await asyncio.wait({waiter, *workers}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            for worker in workers:
                if worker.done():
                    worker.result()

    def stop(self) -> None:
        """Have ``run`` end, as a signal does."""
        self._stop.set()

    @property
    def state(self) -> str:
        """``connecting``, ``running``, or ``degraded`` where the stations are not all the same."""
        states = {station.state for station in self._stations}
        if len(states) == 1:
            return states.pop()
        return "degraded"

    def _snapshot(self, state: str) -> None:
        write_snapshot(self._base / self._config.run_dir, SNAPSHOT_NAME, state, self.status())

    def status(self) -> dict[str, Any]:
        """What the snapshot says; ``dropped`` is by reason, over the process' life."""
        stations = [station.status() for station in self._stations]
        dropped: Counter[str] = self._combiner.dropped + self._forwarder.dropped
        for station in stations:
            dropped += Counter(station.get("dropped", {}))
        return {
            "connected": all(station["connected"] for station in stations),
            "stations": stations,
            "forwarded": self._forwarder.forwarded,
            "forwarded_bad_quality": self._forwarder.bad_quality,
            "last_t_source_ns": self._forwarder.t_source_ns,
            "unmatched": dict(sorted(self._combiner.unmatched.items())),
            "dropped": dict(sorted(dropped.items())),
        }
