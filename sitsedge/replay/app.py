"""The replay process: reads the recordings, serves them, keeps a journal and one status snapshot a second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from sitsedge.replay.config import ReplayConfig
from sitsedge.replay.errors import ReplayError
from sitsedge.replay.pace import Pace
from sitsedge.replay.recording import Recording, read_recording
from sitsedge.replay.server import ReplayServer
from sitsedge.telemetry import write_snapshot
from sitsedge.telemetry.process import freeze_garbage

SNAPSHOT_PERIOD_S = 1.0
SNAPSHOT_NAME = "plant"  # what stands in for the plant, as the simulated mill does in its demo
JOURNAL_HEADER = "t_source_ns,recording,row\n"
TURNS_PER_ROW = 3
"""At ``max`` speed, turns of the event loop given to the sessions after each row, so that they are not starved."""

log = logging.getLogger(__name__)


class ReplayApp:
    """One replay. Paths in ``config`` are relative to ``base``; all recordings are read and checked first."""

    def __init__(self, config: ReplayConfig, base: Path) -> None:
        self._config = config
        self._base = base
        self._recordings = [self._read(name) for name in config.recordings]
        self._rows_total = sum(len(recording.rows) for recording in self._recordings)
        self._rows_played = 0
        self._bad_cells = 0
        self._late_s_max = 0.0
        self._state = "ready"
        self._now_playing = ""
        self._stop = asyncio.Event()
        self._server = ReplayServer(config, base)

    def _read(self, name: str) -> Recording:
        config = self._config
        columns = [column.column for column in config.columns]
        return read_recording(self._base / name, columns, time_column=config.time_column, delimiter=config.delimiter)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, also after the last row. Raises ReplayError, FieldbusError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        await self._server.start()
        freeze_garbage(disable=False)
        player = asyncio.create_task(self._play_all())
        try:
            while not self._stop.is_set():
                self._snapshot(self._state)
                await self._wait(player)
        finally:
            player.cancel()
            await asyncio.gather(player, return_exceptions=True)
            await self._server.stop()
            self._snapshot("stopped")

    async def _wait(self, player: asyncio.Task[None]) -> None:
        """One snapshot period, less if asked to stop; raises what ended the player."""
        waiter = asyncio.create_task(self._stop.wait())
        watched = {waiter} if player.done() else {waiter, player}
        await asyncio.wait(watched, timeout=SNAPSHOT_PERIOD_S, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()
        if player.done():
            player.result()

    async def _play_all(self) -> None:
        if self._config.start == "on-subscription":
            await self._server.subscribed.wait()
        await asyncio.sleep(self._config.lead_s)
        self._state = "running"
        pace = Pace(self._config.speed, gap_s_max=self._config.gap_s_max)
        with self._journal() as journal:
            for recording in self._recordings:
                await self._play(recording, pace, journal)
        await self._server.finish()
        self._state = "finished"
        self._snapshot(self._state)
        log.info("played %d rows", self._rows_played)

    async def _play(self, recording: Recording, pace: Pace, journal: TextIOWrapper | None) -> None:
        loop = asyncio.get_running_loop()
        self._now_playing = name = _shown(recording.path)
        for number, row in enumerate(recording.rows):
            due_s = pace.due_s(row.time, loop.time())
            wait_s = due_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            else:
                self._late_s_max = max(self._late_s_max, -wait_s)
                for _ in range(TURNS_PER_ROW):
                    await asyncio.sleep(0)
            t_source_ns = await self._server.play(row, number=number, recording=name)
            self._rows_played += 1
            self._bad_cells += 0 if row.good else sum(not isinstance(cell, float) for cell in row.cells)
            if journal is not None:
                journal.write(f"{t_source_ns},{name},{number}\n")

    @contextlib.contextmanager
    def _journal(self) -> Any:
        if self._config.journal is None:
            yield None
            return
        path = self._base / self._config.journal
        try:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.write(JOURNAL_HEADER)
                yield file
        except OSError as error:
            raise ReplayError(
                "journal", found=f"{path}: {error.strerror}", expected="a file this process can write"
            ) from error

    def _snapshot(self, state: str) -> None:
        write_snapshot(self._base / self._config.run_dir, SNAPSHOT_NAME, state, self.status())

    def status(self) -> dict[str, Any]:
        """What the snapshot says."""
        return {
            "kind": "replay",
            "endpoint": self._config.endpoint,
            "speed": self._config.speed,
            "recording": self._now_playing,
            "rows_total": self._rows_total,
            "rows_played": self._rows_played,
            "bad_cells": self._bad_cells,
            "late_s_max": round(self._late_s_max, 6),
            "finished": self._state == "finished",
        }


def _shown(path: Path) -> str:
    """Folder and file name, by which the recordings of one set differ; a comma would break the journal."""
    return "/".join(path.resolve().parts[-2:]).replace(",", "_")
