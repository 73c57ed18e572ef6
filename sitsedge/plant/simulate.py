"""The plant without sockets, faster than real time: training data, and the comparison run of the demo."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sitsedge.plant.arbiter import Applied, Arbiter, RequestImage
from sitsedge.plant.parameters import STEP_S, MillParameters
from sitsedge.plant.stand import Measured, MillStand

SCAN_STEPS = 2
SETTLE_S = 5.0  # the monitor's own transient after lock-on; left out of every standard deviation

Floats = NDArray[np.float64]
Controller = Callable[[Measured], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Trace:
    """One run, a row per publish cycle. Lengths in mm, time in s, trim in %."""

    time_s: Floats
    exit_true_mm: Floats  # deviation in the roll bite
    exit_measured_mm: Floats
    tension_kn: Floats
    gap_correction_mm: Floats
    speed_trim_percent: Floats
    measured: Floats  # shape (rows, 8), the DataSet's order

    def thickness_std_um(self) -> float:
        """Standard deviation of the true exit thickness after settling, µm."""
        return float(np.std(self.exit_true_mm[self.time_s >= SETTLE_S])) * 1000.0


@dataclass(frozen=True, slots=True)
class Loop:
    """How the network's path is imitated."""

    period_s: float = 0.010
    delay_s: float = 0.010  # from the sampling of the inputs until the PLC has the request
    drop_probability: float = 0.0  # commands lost on the way, drawn from a stream of their own


class PlantCell:
    """Stand and request block together, stepped by 1 ms: the part that the live plant shares with simulations."""

    def __init__(self, seed: int, parameters: MillParameters | None = None) -> None:
        self.stand = MillStand(seed, parameters)
        self.arbiter = Arbiter()
        self.applied: Applied = self.arbiter.scan(RequestImage(), 0)

    def step(self, image: RequestImage, now_ns: int) -> None:
        """Advance 1 ms; the request image is looked at every second step (PLC scan 2 ms)."""
        if self.stand.steps % SCAN_STEPS == 0:
            self.applied = self.arbiter.scan(image, now_ns)
        self.stand.step(self.applied.gap_correction_mm, self.applied.speed_trim_percent)


def run(
    controller: Controller | None, cell: PlantCell, *, seconds: float, loop: Loop, seed: int
) -> Iterator[tuple[float, PlantCell, Measured]]:
    """Yield time, cell and inputs at every sample of a run; without a controller the block stays in MAN."""
    period = max(1, round(loop.period_s / STEP_S))
    delay = round(loop.delay_s / STEP_S)
    losses = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, 0x10555))))
    pending: deque[tuple[int, RequestImage]] = deque()
    image = RequestImage()
    sequence = 0
    for step in range(round(seconds / STEP_S)):
        while pending and pending[0][0] <= step:
            image = pending.popleft()[1]
        cell.step(image, 0)
        if step % period:
            continue
        measured = cell.stand.measured()
        if controller is not None:
            gap, trim = controller(measured)
            sequence += 1
            if losses.random() >= loop.drop_probability:
                request = RequestImage(gap, trim, sequence, sequence, 0, auto_request=True)
                pending.append((step + 1 + delay, request))
        yield step * STEP_S, cell, measured


def simulate(
    controller: Controller | None,
    seconds: float,
    seed: int,
    *,
    loop: Loop | None = None,
    parameters: MillParameters | None = None,
) -> Trace:
    """Run the plant for ``seconds``; ``controller`` maps the eight inputs to (gap correction mm, speed trim %).

    ``None`` leaves the PLC's own control alone: the baseline. Same arguments give the same arrays.
    """
    rows: list[tuple[float, ...]] = []
    inputs: list[Measured] = []
    cell = PlantCell(seed, parameters)
    for now_s, _, measured in run(controller, cell, seconds=seconds, loop=loop or Loop(), seed=seed):
        rows.append(
            (now_s, cell.stand.exit_thickness_dev, measured.exit_thickness_dev,
             cell.stand.entry_tension_kn - cell.stand.lock_on.entry_tension_kn,
             cell.applied.gap_correction_mm, cell.applied.speed_trim_percent)
        )  # fmt: skip
        inputs.append(measured)
    time, exit_true, exit_seen, tension, gap, trim = np.array(rows, dtype=np.float64).T
    return Trace(time, exit_true, exit_seen, tension, gap, trim, np.array(inputs, dtype=np.float64))
