"""A made-up test bench in SKAB's file layout: three pump speeds, drifting temperatures, faults in the middle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from examples.pump.signals import COLUMNS

ROWS = 600
FAULT = slice(420, 560)
SPEEDS = {"valve1": (0.03, 30.0), "valve2": (0.08, 75.0), "other": (0.2, 125.0)}


def bench_rows(rng: np.random.Generator, speed: tuple[float, float], rows: int) -> np.ndarray:
    vibration, flow = speed
    mean = np.array([vibration, 1.3 * vibration, 1.0 + 10 * vibration, 0.1, 70.0, 25.0, 230.0, flow])
    noise = np.array([0.01 * vibration, 0.01 * vibration, 0.3, 0.25, 0.5, 0.05, 10.0, 0.4])
    drift = rng.normal(0, [0, 0, 0, 0, 4, 1, 0, 0])
    return np.asarray(mean + drift + noise * rng.normal(size=(rows, 8)))


def write_bench(root: Path, *, seed: int = 1) -> Path:
    """Write the recordings below ``root``; files 1 and 2 of each group."""
    rng = np.random.default_rng(seed)
    _write(root / "anomaly-free" / "anomaly-free.csv", bench_rows(rng, SPEEDS["other"], 900), None)
    for group, speed in SPEEDS.items():
        for number in (1, 2):
            x = bench_rows(rng, speed, ROWS)
            faulty = np.zeros(ROWS)
            faulty[FAULT] = 1
            x[FAULT, 7] *= 0.8
            _write(root / group / f"{number}.csv", x, faulty)
    return root


def _write(path: Path, x: np.ndarray, faulty: np.ndarray | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [";".join(["datetime", *COLUMNS, *(() if faulty is None else ("anomaly", "changepoint"))])]
    for k, row in enumerate(x):
        cells = [f"2020-01-01 {k // 3600:02}:{k // 60 % 60:02}:{k % 60:02}", *(f"{value:.6g}" for value in row)]
        lines.append(";".join([*cells, *(() if faulty is None else (f"{faulty[k]:.1f}", "0.0"))]))
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
