"""The SKAB recordings: which files there are, which of them train, and their rows as arrays.

Split, by file number and nothing else: odd-numbered files of each group train (their first 400 rows, of which
none is labelled anomalous), even-numbered ones are never read by the training. Fault kinds and pump speeds
occur in both; what the detector has to bridge is the days and the drift between two files.
``leaderboard.py`` reads all files by a protocol of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from examples.pump.signals import COLUMNS, LABEL, TIME
from sitsedge.replay.errors import RecordingError
from sitsedge.replay.recording import BadCell, read_recording

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

GROUPS: Final = ("valve1", "valve2", "other")
FREE: Final = "anomaly-free/anomaly-free.csv"
HEALTHY_ROWS: Final = 400


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One file. ``x`` (rows, 8) physical values, NaN where a cell has no number; ``faulty`` (rows,) the labels."""

    name: str
    path: Path
    x: Floats
    faulty: Bools


def load_run(root: Path, name: str, *, labelled: bool = True) -> Run:
    """Read ``root/name``. Raises RecordingError with file and line, also for a label that is neither 0 nor 1."""
    path = root / name
    recording = read_recording(path, (*COLUMNS, LABEL) if labelled else COLUMNS, time_column=TIME)
    cells = np.array([[np.nan if isinstance(cell, BadCell) else cell for cell in row.cells] for row in recording.rows])
    if not labelled:
        return Run(name, path, cells, np.zeros(len(cells), dtype=np.bool_))
    labels = cells[:, -1]
    wrong = np.flatnonzero((labels != 0.0) & (labels != 1.0))
    if wrong.size:
        row = recording.rows[int(wrong[0])]
        raise RecordingError(
            "label", file=str(path), line=row.line, found=str(row.cells[-1]), expected="0 or 1 in column 'anomaly'"
        )
    return Run(name, path, cells[:, :-1], labels == 1.0)


def numbered(root: Path) -> list[str]:
    """Names such as ``valve1/3.csv`` of all numbered files below ``root``, in order of group and number."""
    names = []
    for group in GROUPS:
        found = [path for path in (root / group).glob("*.csv") if path.stem.isdecimal()]
        names += [f"{group}/{path.name}" for path in sorted(found, key=lambda path: int(path.stem))]
    if not names or not (root / FREE).is_file():
        raise RecordingError(
            "dataset",
            file=str(root),
            line=1,
            found="no SKAB recordings",
            expected=f"the folder that holds {FREE}, valve1/, valve2/ and other/",
            hint="the data are at https://github.com/waico/SKAB, folder data",
        )
    return names


def train_names(root: Path) -> list[str]:
    """The odd-numbered files."""
    return [name for name in numbered(root) if _number(name) % 2 == 1]


def unseen_names(root: Path) -> list[str]:
    """The even-numbered files, which no part of the training reads."""
    return [name for name in numbered(root) if _number(name) % 2 == 0]


def _number(name: str) -> int:
    return int(Path(name).stem)


def healthy(run: Run) -> Floats:
    """The first 400 rows. Raises RecordingError for a row that is labelled faulty or has no number in a column."""
    x = run.x[:HEALTHY_ROWS]
    bad = np.flatnonzero(run.faulty[:HEALTHY_ROWS] | np.isnan(x).any(axis=1))
    if bad.size:
        raise RecordingError(
            "training-row",
            file=str(run.path),
            line=int(bad[0]) + 2,
            found="a row labelled faulty, or one with a cell that is no number",
            expected=f"{HEALTHY_ROWS} healthy rows to train on",
        )
    return x
