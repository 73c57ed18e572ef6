"""The calibration file: CSV, the first line names the inputs, every other line is one row in physical units.

Every fifth row is held out: it chooses nothing and only measures. Rows outside the declared ranges cannot
occur in operation (the input check refuses them), so they are left out and counted; a file with many of
them contradicts the limits file and is refused.
"""

from __future__ import annotations

import math
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitsedge.compiler.errors import CalibrationError
from sitsedge.compiler.network import Floats
from sitsedge.compiler.reference import Ints
from sitsedge.modules.limits import Limits

FILE_BYTES_MAX = 64 << 20
ROWS_MAX = 200_000
"""Bounds of time and memory: 200,000 rows already take minutes to fit."""

ROWS_MIN = 20
"""Fewer rows say nothing about ranges, and leave fewer than four for the held-out part."""

HELD_OUT_EVERY = 5
FIT_ROWS_MAX = 4096
"""The search uses at most this many rows, evenly spaced; more do not change the choice."""

NAMES_SHOWN = 4
"""Of each kind in a refused header; more are counted."""

OUTSIDE_SHARE_MAX = 0.1
"""Above this share of rows outside the ranges, one of the two files is wrong."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Rows inside the ranges: physical values (rows, n) and counts (rows, n), fitted and held-out."""

    fit_raw: Floats
    fit_counts: Ints
    held_raw: Floats
    held_counts: Ints
    rows_total: int
    rows_outside: int


def read_calibration(path: Path, limits: Limits) -> Calibration:
    """Read and split the file; raises ``CalibrationError`` with line and column."""
    file = str(path)
    lines = _text(path).split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if len(lines) - 1 > ROWS_MAX:
        raise _error(file, ROWS_MAX + 2, 1, f"{len(lines) - 1} rows", f"at most {ROWS_MAX} rows")
    order = _header(file, lines[0].rstrip("\r") if lines else "", limits)
    names = [limits.inputs[k].name for k in np.argsort(order)]
    rows = [_row(file, number, line.rstrip("\r"), names) for number, line in enumerate(lines[1:], start=2)]
    if len(rows) < ROWS_MIN:
        raise _error(file, len(lines) + 1, 1, f"{len(rows)} rows", f"at least {ROWS_MIN} rows")
    return _split(file, np.array(rows, dtype=np.float64)[:, order], limits)


def _text(path: Path) -> str:
    """The file's text, read with a bound: a device or a pipe has no size to ask for, and no end."""
    file = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _error(file, 1, 1, "no regular file", "a readable CSV file")
        with path.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise _error(file, 1, 1, f"more than {FILE_BYTES_MAX} bytes", f"at most {FILE_BYTES_MAX} bytes")
        # With or without the byte order mark that spreadsheets put in front.
        return data.decode("utf-8-sig")
    except OSError as error:
        raise _error(file, 1, 1, error.strerror or "no file", "a readable CSV file") from error
    except UnicodeDecodeError as error:
        hint = 'save the file as "CSV UTF-8"'
        raise _error(file, 1, 1, f"a byte at {error.start} that is not UTF-8", "UTF-8 text", hint) from error


def _error(file: str, line: int, column: int, found: str, expected: str, hint: str = "") -> CalibrationError:
    return CalibrationError(
        "calibration", file=file, line=line, column=column, found=found, expected=expected, hint=hint
    )


def _header(file: str, line: str, limits: Limits) -> list[int]:
    """Column of each input, in the order of the limits file."""
    names = [name.strip() for name in line.split(",")]
    wanted = [signal.name for signal in limits.inputs]
    if sorted(names) != sorted(wanted):
        missing = [name for name in wanted if name not in names]
        extra = [name for name in names if name not in wanted]
        twice = sorted({name for name in names if names.count(name) > 1})
        lists = (("lacking", missing), ("having", extra), ("naming twice", twice))
        found = [f"{what} {_few(some)}" for what, some in lists if some]
        raise _error(
            file, 1, 1,
            f"a header {' and '.join(found)}",
            f"exactly the {len(wanted)} input names of the limits file, comma-separated, in any order",
            _header_hint(line, extra),
        )  # fmt: skip
    return [names.index(name) for name in wanted]


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")


def _header_hint(line: str, extra: list[str]) -> str:
    """What is mostly behind a header that does not fit."""
    if ";" in line or "\t" in line:
        return "the columns are separated by something else: export with commas, and points in the numbers"
    if '"' in line:
        return "export without quotation marks"
    if "" in extra:
        return "a column without a name is mostly a row number: export without it (pandas: index=False)"
    if extra and all(_is_number(name) for name in extra):
        return "the first line has to name the inputs"
    return "columns that are no inputs, such as times and labels, are left out of this file"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _row(file: str, number: int, line: str, names: list[str]) -> list[float]:
    """One line; ``names`` are those of its columns."""
    cells = line.split(",")
    if len(cells) != len(names):
        found = "an empty line" if not line.strip() else f"{len(cells)} value{'s' * (len(cells) != 1)}"
        raise _error(file, number, 1, found, f"{len(names)} values")
    values = []
    column = 1
    for name, cell in zip(names, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        # float() also takes digit groups, which no CSV writer means.
        if not math.isfinite(value) or "_" in cell:
            raise _error(
                file, number, column, f"{name} = {cell[:40]!r}", "a finite decimal number",
                "leave rows with missing values out",
            )  # fmt: skip
        values.append(value)
        column += len(cell) + 1
    return values


def _split(file: str, raw: Floats, limits: Limits) -> Calibration:
    scale = np.array([signal.scale for signal in limits.inputs])
    low, high = limits.box
    counts = np.rint(raw / scale)
    outside = (counts < low) | (counts > high)
    keep = ~outside.any(axis=1)
    if (~keep).mean() > OUTSIDE_SHARE_MAX:
        row, column = (int(i) for i in np.argwhere(outside)[0])
        signal = limits.inputs[column]
        raise _error(
            file, row + 2, 1,
            f"{int((~keep).sum())} of {len(keep)} rows outside the ranges, first {signal.name} = {raw[row, column]:g}",
            f"at most {OUTSIDE_SHARE_MAX:.0%} of rows outside; {signal.name} is declared "
            f"{signal.range[0]:g} … {signal.range[1]:g}{'' if signal.unit == '1' else f' {signal.unit}'}",
            "widen the range in the limits file or correct the data",
        )  # fmt: skip
    raw, kept = raw[keep], counts[keep].astype(np.int64)
    held = np.arange(len(raw)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    fit = np.flatnonzero(~held)
    fit = fit[np.linspace(0, len(fit) - 1, min(len(fit), FIT_ROWS_MAX)).astype(np.int64)]
    return Calibration(raw[fit], kept[fit], raw[held], kept[held], len(keep), int((~keep).sum()))
