"""The plant's own record: one row per publish cycle in a bounded ring, saved when the plant stops."""

from __future__ import annotations

import csv
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from sitsedge.plant.arbiter import Applied, BlockMode
from sitsedge.plant.errors import PlantError
from sitsedge.plant.parameters import STEP_S
from sitsedge.plant.stand import Measured, MillStand

ROWS_MAX = 360_000  # an hour at 100 Hz, 26 MB; the newest rows stay
COLUMNS = (
    "time_s",  # plant time since start
    "exit_true_mm",  # deviation in the roll bite: no sensor sees it
    "exit_measured_mm",
    "gap_correction_mm",
    "speed_trim_percent",
    "roll_force_dev_mn",
    "entry_tension_dev_kn",
    "sequence",
    "mode",  # index into MODES
)
MODES = tuple(BlockMode)


class PlantRecord:
    """Written by the plant's thread, read by others; a row is visible only after it is complete."""

    def __init__(self, rows_max: int = ROWS_MAX) -> None:
        self._rows = np.zeros((rows_max, len(COLUMNS)), dtype=np.float64)
        self.count = 0

    def add(self, stand: MillStand, measured: Measured, applied: Applied) -> None:
        """Append one row."""
        self._rows[self.count % len(self._rows)] = (
            stand.steps * STEP_S,
            stand.exit_thickness_dev,
            measured.exit_thickness_dev,
            applied.gap_correction_mm,
            applied.speed_trim_percent,
            measured.roll_force_dev,
            measured.entry_tension_dev,
            applied.sequence,
            MODES.index(applied.mode),
        )
        self.count += 1

    def newest(self, rows: int) -> NDArray[np.float64]:
        """Up to ``rows`` newest rows, oldest first, shape (n, len(COLUMNS))."""
        count = self.count
        size = len(self._rows)
        n = min(rows, count, size)
        return self._rows[np.arange(count - n, count) % size]

    def thickness_std_mm(self, rows: int) -> float | None:
        """Standard deviation of the true exit thickness over the newest rows, mm; ``None`` before there are two."""
        window = self.newest(rows)
        return float(np.std(window[:, 1])) if len(window) > 1 else None

    def save(self, path: Path) -> None:
        """Write all rows as ``.npz`` (arrays by column name) or ``.csv``. Raises PlantError ``record-write``."""
        data = self.newest(len(self._rows))
        try:
            if path.suffix == ".npz":
                np.savez_compressed(path, **dict(zip(COLUMNS, data.T, strict=True)))
                return
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows([f"{value:.9g}" for value in row] for row in data)
        except OSError as error:
            raise PlantError("record-write", found=f"{path}: {error.strerror}", expected="a writable file") from error


def load_record(path: Path) -> dict[str, NDArray[np.float64]]:
    """Columns of a saved record by name. Raises PlantError ``record-read``."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                return {name: np.asarray(file[name], dtype=np.float64) for name in COLUMNS}
        with path.open(newline="", encoding="utf-8") as text:
            header, *rows = csv.reader(text)
        if tuple(header) != COLUMNS:
            raise ValueError(f"columns {header[:4]}")
        data = np.array(rows, dtype=np.float64).reshape(len(rows), len(COLUMNS))
        return dict(zip(COLUMNS, data.T, strict=True))
    except (OSError, KeyError, ValueError, EOFError, BadZipFile) as error:
        raise PlantError("record-read", found=f"{path}: {error}", expected="a record saved by the plant") from error
