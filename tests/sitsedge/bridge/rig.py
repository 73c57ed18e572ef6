"""The bridge over controllers in memory, as the process it is or as a task in their loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fieldbus.uadp import DataSetSample
from sitsedge.bridge.app import BridgeApp
from sitsedge.bridge.config import BridgeConfig
from sitsedge.bridge.sample import BAD_GONE
from sitsedge.config import load_model
from tests.sitsedge.bridge.controllers import LAYOUT
from tests.sitsedge.bridge.support import Bridge

WAIT_S = 60.0
Sees = Callable[[DataSetSample], bool]


class Rig:
    """A bridge and what it sends, asked from the loop that the controllers live in. ``app`` None: it is a process."""

    def __init__(self, bridge: Bridge, app: BridgeApp | None) -> None:
        self.bridge = bridge
        self.app = app

    async def until(self, sees: Sees) -> DataSetSample:
        """The first of the next samples that fits."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for sample in await asyncio.to_thread(self.bridge.samples, 1):
                    if sees(sample):
                        return sample

    async def wait(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        if self.app is None:
            return await asyncio.to_thread(self.bridge.wait, what)
        async with asyncio.timeout(WAIT_S):
            while True:
                status = {**self.app.status(), "state": self.app.state}
                if len(status["stations"]) == 1:
                    status = {**status["stations"][0], **status}
                if what(status):
                    return status
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def bridged(folder: Path, *stations: dict[str, Any], process: bool = False, **more: object) -> AsyncIterator[Rig]:
    """The bridge over ``stations``, as the process it is or as a task of this loop."""
    (folder / "state.xml").write_text(LAYOUT, encoding="utf-8")
    bridge = Bridge(folder, *stations)
    bridge.config |= {"source_age_ms_max": 1000, "poll_ms": 20, **more}
    try:
        if process:
            bridge.start()
            yield Rig(bridge, None)
            assert (await asyncio.to_thread(bridge.stop))[0] == 0
        else:
            path = bridge.write_config()
            app = BridgeApp(load_model(path, BridgeConfig), path.parent)
            running_app = asyncio.create_task(app.run())
            yield Rig(bridge, app)
            app.stop()
            await running_app
    finally:
        bridge.close()


def good(sample: DataSetSample) -> bool:
    return sample.good


def gone(sample: DataSetSample) -> bool:
    return sample.field_status == (BAD_GONE,) * len(sample.values) and not any(map(_is_number, sample.values))


def _is_number(value: object) -> bool:
    return value is not None
