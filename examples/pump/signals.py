"""The eight sensors of the SKAB water-circulation test bench: column, tag, unit, resolution and limits.

``scale`` is physical units per count. The ranges are much wider than any recorded value, faults included; a value
outside is refused by the loop's input check and gets no score.
The file's column ``Volume Flow RateRMS`` is in litres per minute, ``Temperature`` that of the engine body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAMESPACE: Final = "urn:sitsedge:example:pump"


@dataclass(frozen=True, slots=True)
class Signal:
    """``column``: header in the recordings. ``tag``: name in the deployment; its node is ``Pump/<tag>``.

    ``tolerance_rel`` (share of the value) and ``tolerance`` (physical units) add up in squares to how far a
    *healthy* reading may lie beside the recorded ones; ``watched``: whether a larger displacement is a fault.
    """

    column: str
    tag: str
    unit: str
    scale: float
    low: float
    high: float
    tolerance_rel: float
    tolerance: float
    watched: bool

    @property
    def path(self) -> str:
        """Browse path below Objects."""
        return f"Pump/{self.tag}"


# Temperatures and mains voltage follow the weather and the grid, so a healthy reading may be anywhere in a wide
# band and they are not watched; motor current and pressure are too noisy in one sample to name a fault.
SIGNALS: Final = (
    Signal("Accelerometer1RMS", "accelerometer_1", "g", 0.0001, 0.0, 3.0, 0.05, 0.0005, True),
    Signal("Accelerometer2RMS", "accelerometer_2", "g", 0.0001, 0.0, 3.0, 0.05, 0.0005, True),
    Signal("Current", "motor_current", "A", 0.001, 0.0, 10.0, 0.10, 0.1, False),
    Signal("Pressure", "pressure", "bar", 0.001, -3.0, 6.0, 0.0, 0.2, False),
    Signal("Temperature", "engine_temperature", "°C", 0.01, 0.0, 150.0, 0.0, 10.0, False),
    Signal("Thermocouple", "water_temperature", "°C", 0.01, 0.0, 100.0, 0.0, 5.0, False),
    Signal("Voltage", "voltage", "V", 0.02, 0.0, 400.0, 0.0, 10.0, False),
    Signal("Volume Flow RateRMS", "flow_rate", "l/min", 0.01, 0.0, 200.0, 0.005, 0.2, True),
)

COLUMNS: Final = tuple(signal.column for signal in SIGNALS)
LABEL: Final = "anomaly"
TIME: Final = "datetime"

SCORE: Final = "anomaly_score"
SCORE_SCALE: Final = 0.01
SCORE_LIMIT: Final = 20.0
"""The score is a log-odds, clamped: beyond ±20 it says nothing new and would only hold a moving average."""


def limits_yaml() -> str:
    """The module's limits file."""
    lines = [
        "# Written by examples/pump/train.py from examples/pump/signals.py.",
        "# scale: physical value of one count.",
        "version: 1",
        "inputs:",
    ]
    lines += [
        f'  - {{name: {s.tag}, unit: "{s.unit}", scale: {s.scale:g}, range: [{s.low:g}, {s.high:g}]}}' for s in SIGNALS
    ]
    lines += [
        "outputs:",
        f'  - {{name: {SCORE}, unit: "1", scale: {SCORE_SCALE:g}, limits: [{-SCORE_LIMIT:g}, {SCORE_LIMIT:g}]}}',
    ]
    return "\n".join(lines) + "\n"
