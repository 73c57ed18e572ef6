"""The windowed detector: a bank of moving averages and the largest deviation among them, as one small network.

It looks at the last 30 rows of the three watched sensors. Each filter is the mean of one sensor over its own last
rows, less its healthy mean, divided by how far it may lie from it; the score is the largest, so 1 is the alarm's
threshold. Vibration counts in both directions and over 5 rows, because an imbalance starts at once; a loss of flow
over 30, because a valve or a leak takes little of it and slowly. As a network: normalise, a convolution over the
window with one kernel per filter, a maximum over the filters. (Moving averages against control limits: Montgomery,
*Introduction to Statistical Quality Control*, chapter 9; their union over several statistics as in T² with Q.)

Only ``centre`` and ``reach`` are fitted, both on healthy rows; the kernels are the architecture.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from examples.pump.dataset import HEALTHY_ROWS, Floats
from examples.pump.rule import moving_average
from examples.pump.signals import SCORE, SIGNALS, Signal

WINDOW: Final = 30
"""Rows that the network sees."""

MARGIN: Final = 2.0
"""Alarm beyond this many times the largest deviation among the rows that were fitted: 400 rows have not seen it all."""

SCORE_LIMIT: Final = 4.0
"""Four times the threshold says nothing new, and a narrow range leaves more of the integers to the threshold."""

SCORE_SCALE: Final = 0.005
"""One count is half a percent of the threshold."""

DISPLACED: Final = 3.0
"""Calibration rows are displaced by up to this many reaches, so that the quantiser sees both sides of the threshold."""

CALIBRATION_SEED: Final = 20_261
SCORE_TENSOR: Final = "score"


@dataclass(frozen=True, slots=True)
class Watch:
    """One sensor, how many rows are averaged, and which directions of a deviation count."""

    column: int
    rows: int
    directions: tuple[float, ...]

    @property
    def signal(self) -> Signal:
        """The sensor."""
        return SIGNALS[self.column]


_COLUMN: Final = {signal.tag: column for column, signal in enumerate(SIGNALS)}
WATCHES: Final = (
    Watch(_COLUMN["accelerometer_1"], 5, (1.0, -1.0)),
    Watch(_COLUMN["accelerometer_2"], 5, (1.0, -1.0)),
    Watch(_COLUMN["flow_rate"], WINDOW, (-1.0,)),
)
COLUMNS: Final = [watch.column for watch in WATCHES]


def kernels() -> Floats:
    """One filter per watch and direction: (filters, sensors, window), newest row last."""
    kernel = np.zeros((sum(len(watch.directions) for watch in WATCHES), len(WATCHES), WINDOW))
    k = 0
    for sensor, watch in enumerate(WATCHES):
        for direction in watch.directions:
            kernel[k, sensor, WINDOW - watch.rows :] = direction / watch.rows
            k += 1
    return kernel


def windows(x: Floats) -> Floats:
    """All complete windows (rows - 29, sensors, 30) of physical rows (rows, 8); the last row of each is scored."""
    return np.lib.stride_tricks.sliding_window_view(x[:, COLUMNS], WINDOW, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class FilterBank:
    """``centre`` (sensors,): healthy means. ``reach`` (sensors,): deviations of an average that raise the alarm."""

    centre: Floats
    reach: Floats


def fit(rows: Floats, *, margin: float = MARGIN) -> FilterBank:
    """Centre and reach from healthy rows (rows, 8), at least 400 of them, in the order they were recorded.

    The reach is ``margin`` times the largest deviation of an average within 400 rows from their own mean; of more than
    400 rows the median over stretches of 400, so that one long recording and one short one mean the same.
    """
    if len(rows) < HEALTHY_ROWS or np.isnan(rows[:, COLUMNS]).any():
        raise ValueError(f"at least {HEALTHY_ROWS} rows with a number in every watched column")
    x = rows[:, COLUMNS]
    stretches = x[: len(x) // HEALTHY_ROWS * HEALTHY_ROWS].reshape(-1, HEALTHY_ROWS, len(WATCHES))
    largest = [[_largest(stretch[:, k], watch.rows) for k, watch in enumerate(WATCHES)] for stretch in stretches]
    reach = margin * np.median(largest, axis=0)
    # A sensor that stood still for 400 rows would make any change an alarm: it may move by its resolution.
    resolution = np.array([watch.signal.scale for watch in WATCHES])
    return FilterBank(_single(x.mean(axis=0)), _single(np.maximum(reach, resolution)))


def _largest(values: Floats, width: int) -> float:
    averages = moving_average(values, width)[width - 1 :]
    return float(np.abs(averages - values.mean()).max())


def _single(values: Floats) -> Floats:
    return np.asarray(values, dtype=np.float32).astype(np.float64)


def export(bank: FilterBank, path: Path) -> None:
    """ONNX, float32, [n, 3, 30] → [n, 1]: normalise, Conv, maximum, Clip. A score above 1 is an alarm."""
    constants = {
        "centre": bank.centre[:, None],
        "per_reach": 1.0 / bank.reach[:, None],
        "kernels": kernels(),
        "lowest": np.array(-SCORE_LIMIT),
        "highest": np.array(SCORE_LIMIT),
    }
    initialisers = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()]
    initialisers.append(numpy_helper.from_array(np.array([1], dtype=np.int64), "filters_axis"))
    graph = helper.make_graph(
        [
            helper.make_node("Sub", ["x", "centre"], ["d"], name="centre_inputs"),
            helper.make_node("Mul", ["d", "per_reach"], ["a"], name="scale_inputs"),
            helper.make_node("Conv", ["a", "kernels"], ["f"], name="filters"),
            helper.make_node("ReduceMax", ["f", "filters_axis"], ["m"], name="largest", keepdims=0),
            helper.make_node("Clip", ["m", "lowest", "highest"], [SCORE_TENSOR], name="clip"),
        ],
        "pump-filter-bank",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", len(WATCHES), WINDOW])],
        [helper.make_tensor_value_info(SCORE_TENSOR, TensorProto.FLOAT, ["n", 1])],
        initialisers,
    )
    model = helper.make_model(
        graph, producer_name="sitsedge-pump", opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def input_names() -> list[str]:
    """Names of the flat inputs: sensor and how many rows back."""
    return [f"{watch.signal.tag}_{back}" for watch in WATCHES for back in range(WINDOW - 1, -1, -1)]


def limits_yaml() -> str:
    """The module's limits file: every element of the window is an input."""
    signals = [watch.signal for watch in WATCHES for _ in range(WINDOW)]
    lines = [
        "# Written by examples/pump/filter_bank.py: the sensors' ranges, one input per row of the window.",
        "version: 1",
    ]
    lines.append("inputs:")
    lines += [
        f'  - {{name: {name}, unit: "{s.unit}", scale: {s.scale:g}, range: [{s.low:g}, {s.high:g}]}}'
        for name, s in zip(input_names(), signals, strict=True)
    ]
    lines.append("outputs:")
    lines.append(
        f'  - {{name: {SCORE}, unit: "1", scale: {SCORE_SCALE:g}, limits: [{-SCORE_LIMIT:g}, {SCORE_LIMIT:g}]}}'
    )
    return "\n".join(lines) + "\n"


def calibration_rows(bank: FilterBank, healthy: Floats) -> Floats:
    """Windows (n, 90) of the fitted rows, every second one with one sensor displaced; inside the sensors' ranges."""
    rng = np.random.default_rng(CALIBRATION_SEED)
    drawn = windows(healthy).copy()
    moved = np.arange(1, len(drawn), 2)
    sensor = rng.integers(len(WATCHES), size=len(moved))
    drawn[moved, sensor] += (rng.uniform(-DISPLACED, DISPLACED, len(moved)) * bank.reach[sensor])[:, None]
    low = np.array([watch.signal.low for watch in WATCHES])[:, None]
    high = np.array([watch.signal.high for watch in WATCHES])[:, None]
    return np.clip(drawn, low, high).reshape(len(drawn), -1)


def write_model(bank: FilterBank, healthy: Floats, folder: Path) -> None:
    """``model.onnx``, ``calibration.csv`` and ``limits.yaml`` in ``folder``: what ``module build`` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    export(bank, folder / "model.onnx")
    (folder / "limits.yaml").write_text(limits_yaml(), encoding="utf-8")
    with (folder / "calibration.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(input_names())
        writer.writerows([f"{value:.7g}" for value in row] for row in calibration_rows(bank, healthy))
