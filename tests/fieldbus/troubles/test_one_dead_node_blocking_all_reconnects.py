"""Public trouble: one controller does not answer, and the reconnects of all others wait behind it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from fieldbus.polling import Backoff, Poller
from fieldbus.sample import BAD_NO_COMMUNICATION, Sample
from tests.fieldbus.fake_plc import FakePlc
from tests.fieldbus.troubles.controllers import VENDORS

LONG_S = 30.0
"""Deadline of a connection that hangs: longer than the test takes, so that nobody may wait for it."""
WAIT_S = 20.0


class Seen:
    """What one poller delivered; ``until`` waits for a state of its first tag."""

    def __init__(self) -> None:
        self.newest: Sample | None = None
        self._changed = asyncio.Event()

    def take(self, samples: tuple[Sample, ...]) -> None:
        self.newest = samples[0]
        self._changed.set()

    async def until(self, good: bool) -> Sample:
        async with asyncio.timeout(WAIT_S):
            while self.newest is None or self.newest.good is not good:
                self._changed.clear()
                await self._changed.wait()
        return self.newest


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_dead_and_a_hanging_controller_keep_no_other_from_coming_back(vendor: str) -> None:
    case = VENDORS[vendor]
    async with contextlib.AsyncExitStack() as stack:
        dead, hanging, living = (FakePlc(case.protocol, case.controller().answer) for _ in range(3))
        for plc in (dead, hanging, living):
            await plc.start()
            stack.push_async_callback(plc.stop)
        await dead.stop()
        hanging.misbehave = "silent"
        seen = [Seen() for _ in range(3)]
        tasks = [
            asyncio.create_task(
                Poller(case.connector(plc.port, LONG_S), one.take, period_s=0.01, backoff=Backoff(0.01, 0.05)).run()
            )
            for plc, one in zip((dead, hanging, living), seen, strict=True)
        ]
        try:
            assert (await seen[0].until(False)).status == BAD_NO_COMMUNICATION
            for _ in range(2):
                await seen[2].until(True)
                await living.stop()
                await seen[2].until(False)
                await living.start()
            await seen[2].until(True)
            assert seen[1].newest is None, "it hangs still, and nobody waited for it"
            await dead.start()
            await seen[0].until(True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
