"""The demo's picture: exit thickness with and without the controller. Needs matplotlib (extra ``examples``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sitsedge.plant.errors import PlantError

Floats = NDArray[np.float64]
WITHOUT, WITH = "#b0623a", "#1f5f8b"  # distinct in print and for colour-blind readers
UM = 1000.0


@dataclass(frozen=True, slots=True)
class Curve:
    """True exit-thickness deviation over time: seconds and millimetres, same length."""

    time_s: Floats
    deviation_mm: Floats

    def std_um(self) -> float:
        """Standard deviation in µm."""
        return float(np.std(self.deviation_mm)) * UM


def draw(
    path: Path,
    *,
    with_controller: Curve,
    without_controller: Curve,
    title: str = "Exit thickness, hot-strip mill stand",
) -> None:
    """Write a PNG: both deviations over time on one axis, and their distributions beside it.

    Raises PlantError ``picture-library`` where matplotlib is missing, ``picture-write``.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlantError(
            "picture-library",
            found="no matplotlib",
            expected="the plotting library",
            hint="install the extra 'examples'",
        ) from error
    # Without pyplot: no global state and no display, so this may run in any process.
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    over_time, spread = figure.subplots(1, 2, width_ratios=(4, 1), sharey=True)
    curves = (("without", without_controller, WITHOUT), ("with", with_controller, WITH))
    reach = max((float(np.max(np.abs(c.deviation_mm))) for _, c, _ in curves if len(c.deviation_mm)), default=0.0)
    bins = np.linspace(-UM * reach - 1.0, UM * reach + 1.0, 61)
    for name, curve, colour in curves:
        label = f"{name} controller: σ = {curve.std_um():.1f} µm"
        over_time.plot(curve.time_s, UM * curve.deviation_mm, color=colour, linewidth=0.8, label=label)
        spread.hist(UM * curve.deviation_mm, bins=bins, orientation="horizontal", color=colour, alpha=0.6, density=True)
    over_time.set_xlabel("time, s")
    over_time.set_ylabel("exit thickness − nominal, µm")
    over_time.set_title(title)
    over_time.legend(loc="upper right", ncols=2, framealpha=0.9)
    over_time.grid(visible=True, alpha=0.3)
    over_time.margins(x=0, y=0.18)  # room for the legend above the curves
    spread.set_xlabel("density, 1/µm")
    spread.grid(visible=True, alpha=0.3)
    try:
        figure.savefig(path, dpi=130, metadata={"Software": "sitsedge"})
    except OSError as error:
        raise PlantError("picture-write", found=f"{path}: {error.strerror}", expected="a writable file") from error
