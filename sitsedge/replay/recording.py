"""Recorded sensor files: one header line, one row per instant, cells separated by a declared character.

What makes a row unreadable (its time, its number of cells) refuses the file by line; what makes one *value*
unusable (an empty cell, NaN, text) makes that value a :class:`BadCell`, which is played with a bad status and
never becomes a number.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from sitsedge.replay.errors import RecordingError

LINE_BYTES_MAX = 16 * 1024
"""A row of 64 channels has about 1 KiB; a longer line is no sensor recording."""

ROWS_MAX = 1_000_000
"""Eleven days of one row a second; the rows are held in memory."""

COLUMNS_MAX = 256

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_SHOWN_MAX = 40


class BadCell(Enum):
    """Why a cell has no number."""

    MISSING = "missing"
    NOT_A_NUMBER = "not a number"


Cell = float | BadCell


@dataclass(frozen=True, slots=True)
class Row:
    """``line`` in the file (from 1), the recorded ``time`` as written (no zone is assumed), cells in column order."""

    line: int
    time: dt.datetime
    cells: tuple[Cell, ...]

    @property
    def good(self) -> bool:
        """Whether every cell is a number."""
        return not any(isinstance(cell, BadCell) for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Recording:
    """The chosen ``columns`` of one file, rows in time order."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def read_recording(path: Path, columns: Sequence[str], *, time_column: str, delimiter: str = ";") -> Recording:
    """Read ``columns`` (by header name) of the file.

    Raises :class:`RecordingError` with file and line: ``file-unreadable``, ``not-text``, ``line-too-long``,
    ``quote``, ``header`` (column missing, repeated or empty; no rows), ``cells`` (a row of another width),
    ``time`` (no ISO 8601 date and time), ``time-order`` (a row earlier than the one before), ``too-long``.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError("the delimiter is one character, and no quote or line end")
    if len(set(columns)) != len(columns) or not columns:
        raise ValueError("columns are one or more different names")
    file = str(path)
    try:
        with path.open("rb") as stream:
            lines = _lines(file, stream)
            header = next(lines, (1, ""))[1].split(delimiter)
            places = _places(file, header, (time_column, *columns))
            rows = tuple(_rows(file, lines, places, width=len(header), delimiter=delimiter))
    except OSError as error:
        raise RecordingError(
            "file-unreadable",
            file=file,
            line=1,
            found=error.strerror or type(error).__name__,
            expected="a readable file",
        ) from error
    if not rows:
        raise RecordingError("header", file=file, line=1, found="no rows", expected="a header line and rows")
    return Recording(path, tuple(columns), rows)


def _lines(file: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """(line number, text without its end) of every line; bounded memory for any bytes."""
    number = 0
    while raw := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(raw) > LINE_BYTES_MAX:
            raise RecordingError(
                "line-too-long",
                file=file,
                line=number,
                found=f"over {LINE_BYTES_MAX} bytes",
                expected=f"at most {LINE_BYTES_MAX}",
            )
        if number > ROWS_MAX + 1:
            raise RecordingError(
                "too-long", file=file, line=number, found=f"over {ROWS_MAX} rows", expected=f"at most {ROWS_MAX}"
            )
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise RecordingError(
                "not-text", file=file, line=number, found=f"byte {error.start} is not UTF-8", expected="UTF-8 text"
            ) from error
        if '"' in text or "\0" in text:
            # Quoting lets one cell hold delimiters and line ends; no sensor recording needs it.
            raise RecordingError(
                "quote", file=file, line=number, found="a quote or zero character", expected="plain cells"
            )
        yield number, text.rstrip("\r\n")


def _places(file: str, header: Sequence[str], wanted: Sequence[str]) -> tuple[int, ...]:
    names = [name.strip() for name in header]
    if len(names) > COLUMNS_MAX:
        raise RecordingError(
            "header", file=file, line=1, found=f"{len(names)} columns", expected=f"at most {COLUMNS_MAX}"
        )
    for name in wanted:
        if names.count(name) != 1:
            times = "no" if name not in names else f"{names.count(name)} times the"
            raise RecordingError(
                "header",
                file=file,
                line=1,
                found=f"{times} column {name!r} among {', '.join(names)[:200]!r}",
                expected=f"the column {name!r} once",
                hint="check the delimiter and the column names in the configuration",
            )
    return tuple(names.index(name) for name in wanted)


def _rows(
    file: str, lines: Iterator[tuple[int, str]], places: tuple[int, ...], *, width: int, delimiter: str
) -> Iterator[Row]:
    previous: dt.datetime | None = None
    for number, text in lines:
        cells = text.split(delimiter)
        if len(cells) != width:
            raise RecordingError(
                "cells",
                file=file,
                line=number,
                found=f"{len(cells)} cells" if text else "an empty line",
                expected=f"{width} as in the header",
            )
        time = _time(file, number, cells[places[0]])
        if previous is not None and time < previous:
            raise RecordingError(
                "time-order",
                file=file,
                line=number,
                found=f"{time.isoformat(sep=' ')} after {previous.isoformat(sep=' ')}",
                expected="rows in time order",
            )
        previous = time
        yield Row(number, time, tuple(read_cell(cells[place]) for place in places[1:]))


def _time(file: str, line: int, text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise RecordingError(
            "time",
            file=file,
            line=line,
            found=repr(text[:_SHOWN_MAX]),
            expected="a date and time such as 2020-03-09 10:14:33, without a zone",
        )
    return moment


def read_cell(text: str) -> Cell:
    """The number in a cell. Only plain decimal notation counts: ``nan``, ``inf``, ``1_000``, ``0x10`` do not."""
    text = text.strip()
    if not text:
        return BadCell.MISSING
    if _NUMBER.fullmatch(text) is None:
        return BadCell.NOT_A_NUMBER
    value = float(text)
    return value if math.isfinite(value) else BadCell.NOT_A_NUMBER
