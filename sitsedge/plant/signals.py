"""The eight measured signals and two outputs of the mill: names, units, counts, ranges and rates in one place.

Ranges are at least 1.5 times, rates at least 1.5 times what hours of simulated running ever showed (tests hold
this), so that a refusal by range or rate means a fault and not a rough strip.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signal:
    """One network signal. ``scale`` is the physical value of one count; ``max_rate`` is per second."""

    name: str
    unit: str
    scale: float
    low: float
    high: float
    max_rate: float


# One standard deviation of normal running is 100 to 600 counts of every input, so that one set of int8 weights serves all.
INPUTS: tuple[Signal, ...] = (
    Signal("entry_thickness_dev", "mm", 0.0001, -0.25, 0.25, 5.0),
    Signal("exit_thickness_dev", "mm", 0.0001, -0.25, 0.25, 5.0),
    Signal("roll_force_dev", "MN", 0.001, -2.0, 2.0, 40.0),
    Signal("gap_position_dev", "mm", 0.0002, -0.9, 0.9, 12.0),
    Signal("entry_temperature_dev", "°C", 0.02, -60.0, 60.0, 1200.0),
    Signal("strip_speed_dev", "m/s", 0.0001, -0.3, 0.3, 6.0),
    Signal("entry_tension_dev", "kN", 0.01, -30.0, 30.0, 800.0),
    Signal("last_gap_correction", "mm", 0.0002, -0.4, 0.4, 12.0),
)
OUTPUTS: tuple[Signal, ...] = (
    Signal("gap_correction", "mm", 0.0005, -0.38, 0.38, 12.0),
    Signal("speed_trim", "%", 0.002, -0.9, 0.9, 40.0),
)
