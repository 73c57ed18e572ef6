"""The plant process: real-time thread, OPC UA server, one status snapshot a second, a record at the end."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fieldbus.net import UdpSender
from sitsedge.plant.arbiter import RequestImage
from sitsedge.plant.config import PlantConfig
from sitsedge.plant.errors import PlantError
from sitsedge.plant.plc import STATUS_PERIOD_S, PlcServer, mirror_forever
from sitsedge.plant.realtime import RealtimePlant
from sitsedge.plant.record import PlantRecord
from sitsedge.plant.sealing import Sealing
from sitsedge.plant.signals import dataset_layout
from sitsedge.plant.simulate import PlantCell
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import freeze_garbage

SNAPSHOT_PERIOD_S = 1.0
WINDOW_S = 10.0
SWITCH_INTERVAL_S = 0.0005  # the plant's thread must not wait 5 ms for the interpreter lock

log = logging.getLogger(__name__)


class PlantApp:
    """One running plant. Paths in ``config`` are relative to ``base``."""

    def __init__(self, config: PlantConfig, base: Path) -> None:
        self._config = config
        self._base = base
        p = config.publish
        layout = dataset_layout(
            publisher_id=p.publisher_id,
            writer_group_id=p.writer_group_id,
            data_set_writer_id=p.data_set_writer_id,
        )
        self._sealing = None if p.security is None else Sealing(p.security, base)
        self._sender = UdpSender(p.address, p.port, interface=p.interface)
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.plant = RealtimePlant(
            PlantCell(config.seed),
            layout=layout,
            publish_hz=p.hz,
            send=self._sender.send,
            record=PlantRecord(),
            on_change=self._on_change,
            sealing=self._sealing,
        )
        self.plc = PlcServer(config.opcua.endpoint, config.security(base), self._on_request)
        self._started_ns = 0

    async def run(self) -> None:
        """Run until SIGTERM, SIGINT or ``duration_s``. Raises PlantError; the record is written in any case."""
        self._loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, stop.set)
        await self.plc.start()
        freeze_garbage(disable=False)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._started_ns = time.time_ns()
        self.plant.start()
        tasks = [
            asyncio.create_task(mirror_forever(self.plc, changed=self._changed, applied=lambda: self.plant.applied)),
            asyncio.create_task(self._status_forever()),
        ]
        try:
            await self._wait(stop, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.plant.stop()
            await self.plc.stop()
            self._sender.close()
            if self._sealing is not None:
                self._sealing.close()
            if self._config.record is not None:
                self.plant.record.save(self._base / self._config.record)
            self._snapshot("stopped")

    async def _wait(self, stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
        """Return when asked to stop; raise when the plant's thread or a task has failed."""
        end = None if self._config.duration_s is None else time.monotonic() + self._config.duration_s
        while not stop.is_set():
            self._snapshot("running")
            left = SNAPSHOT_PERIOD_S if end is None else min(SNAPSHOT_PERIOD_S, end - time.monotonic())
            if left <= 0:
                return
            waiter = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait([waiter, *tasks], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            for task in tasks:
                if task in done:
                    task.result()
            if not self.plant.alive:
                raise PlantError(
                    "plant-thread", found=repr(self.plant.failure), expected="a running plant"
                ) from self.plant.failure

    async def _status_forever(self) -> None:
        while True:
            await self.plc.show_status(self.plant.measured, self.plant.applied.scans)
            await asyncio.sleep(STATUS_PERIOD_S)

    def _on_change(self) -> None:
        """Called in the plant's thread; the loop is closed only after that thread has ended."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._changed.set)

    def _on_request(self, image: RequestImage) -> None:
        self.plant.request = image

    def _snapshot(self, state: str) -> None:
        write_snapshot(self._base / self._config.run_dir, "plant", state, self.status())

    def status(self) -> dict[str, Any]:
        """What the snapshot says; lengths in mm, times as named."""
        plant, applied, counters = self.plant, self.plant.applied, self.plant.counters
        rows = round(WINDOW_S * self._config.publish.hz)
        std = plant.record.thickness_std_mm(rows)
        return {
            "seed": self._config.seed,
            "started_ns": self._started_ns,
            "plant_s": round(counters.steps / 1000, 3),
            **({} if std is None else {"thickness_std_mm": std}),
            "window_s": min(WINDOW_S, plant.record.count / self._config.publish.hz),
            "exit_thickness_dev_mm": plant.measured.exit_thickness_dev,
            "mode": applied.mode.value,
            "scans": applied.scans,
            "watchdog_tripped": applied.watchdog_tripped,
            "watchdog_trips": applied.trip_count,
            "heartbeat": plant.request.heartbeat,
            "applied_sequence": applied.sequence,
            "applied_gap_correction_mm": applied.gap_correction_mm,
            "applied_speed_trim_percent": applied.speed_trim_percent,
            "requests_taken": applied.taken_count,
            "requests_refused": applied.refused_count,
            "requests_clamped": applied.clamped_count,
            "last_refusal": applied.refused.value,
            "writes": self.plc.writes,
            "writes_refused": self.plc.refused_writes,
            "published": counters.published,
            "publish_skipped": counters.skipped,
            "send_errors": counters.send_errors,
            "reanchored": counters.reanchored,
            "late_us_max": counters.late_us_max,
        }
