"""Runs the plant in real time: one thread that steps, scans and publishes on a schedule without drift.

The OPC UA server lives in another thread of the process. The two share two references, each replaced as a
whole: the request image (written there, read here) and the applied image (the other way round).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from fieldbus.errors import FieldbusError
from fieldbus.uadp import DataSetLayout, LayoutWriter
from sitsedge.plant.arbiter import Applied, RequestImage
from sitsedge.plant.parameters import STEP_NS
from sitsedge.plant.record import PlantRecord
from sitsedge.plant.sealing import Sealing
from sitsedge.plant.simulate import SCAN_STEPS, PlantCell

KEY_STEPS = 500  # twice a second the key file is looked at
BEHIND_MAX_NS = 1_000_000_000  # after a longer pause (suspend, debugger) plant time stops instead of racing


@dataclass(slots=True)
class Counters:
    """What the real-time thread did; written by it alone."""

    steps: int = 0
    published: int = 0
    skipped: int = 0  # cycles not published because a newer one was already due
    send_errors: int = 0
    reanchored: int = 0
    late_us_max: int = 0


class RealtimePlant:
    """Owns the cell. ``send`` takes a datagram; ``on_change`` is called when the applied image changes."""

    def __init__(
        self,
        cell: PlantCell,
        *,
        layout: DataSetLayout,
        publish_hz: int,
        send: Callable[[bytes], None],
        record: PlantRecord,
        on_change: Callable[[], None] = lambda: None,
        sealing: Sealing | None = None,
    ) -> None:
        self._cell = cell
        self._sealing = sealing
        self._writer = LayoutWriter(layout, security=None if sealing is None else sealing.writer)
        self._publish_steps = 1000 // publish_hz
        self._send = send
        self.record = record
        self._on_change = on_change
        self.request = RequestImage()
        self.applied: Applied = cell.applied
        self.measured = cell.stand.measured()
        self.counters = Counters()
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="plant", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def alive(self) -> bool:
        """False once the thread has ended, by :meth:`stop` or by a failure kept in ``failure``."""
        return self._thread.is_alive()

    def _main(self) -> None:
        try:
            self._loop()
        except Exception as error:
            self.failure = error
            raise

    def _loop(self) -> None:
        wake_steps = min(SCAN_STEPS, self._publish_steps)
        due_ns = time.monotonic_ns()
        while not self._stop.is_set():
            now_ns = time.monotonic_ns()
            late_ns = now_ns - due_ns
            if late_ns < 0:
                time.sleep(-late_ns / 1e9)
                continue
            self.counters.late_us_max = max(self.counters.late_us_max, late_ns // 1000)
            if late_ns > BEHIND_MAX_NS:
                self.counters.reanchored += 1
                due_ns, late_ns = now_ns, 0
            for step in range(wake_steps):
                self.advance(age_ns=late_ns - step * STEP_NS)
            due_ns += wake_steps * STEP_NS

    def advance(self, *, age_ns: int) -> None:
        """One step whose moment lies ``age_ns`` in the past; publishes when a publish cycle is due."""
        cell, counters = self._cell, self.counters
        before = cell.applied
        cell.step(self.request, time.time_ns() - age_ns)
        counters.steps += 1
        after = cell.applied
        if after is not before:
            self.applied = after
            if _differs(before, after):
                self._on_change()
        if self._sealing is not None and counters.steps % KEY_STEPS == 0:
            self._sealing.follow(time.time_ns())
        if (counters.steps - 1) % self._publish_steps == 0:
            self._publish(age_ns)

    def _publish(self, age_ns: int) -> None:
        measured = self._cell.stand.measured()
        self.measured = measured
        self.record.add(self._cell.stand, measured, self._cell.applied)
        if age_ns >= self._publish_steps * STEP_NS:
            self.counters.skipped += 1
            return
        # The sampling time is the moment this state belongs to, so a late step cannot look fresh.
        try:
            self._send(self._writer.write(t_source_ns=time.time_ns() - age_ns, values=measured))
        except FieldbusError:
            self.counters.send_errors += 1
            return
        self.counters.published += 1


def _differs(a: Applied, b: Applied) -> bool:
    """Whether anything a client could be waiting for has changed."""
    return (
        a.sequence != b.sequence
        or a.gap_correction_mm != b.gap_correction_mm
        or a.speed_trim_percent != b.speed_trim_percent
        or a.mode is not b.mode
        or a.watchdog_tripped != b.watchdog_tripped
        or a.refused_count != b.refused_count
    )
