"""Rows for ``module evaluate``: a .npy file of numbers, read strictly, and counts that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.graph.float_graph import Floats
from sitsedge.compiler.reference import INT16_MAX, Ints

FILE_BYTES_MAX = 1 << 30
"""Largest file of rows: four thousand pictures of 48 × 192 as float64 with room to spare."""

ROWS_MAX = 1 << 16
"""Most rows: more change no scale."""

INPUT_COUNTS = 2047
"""Counts of the largest input where no scale is given: twelve bits, finer than any sensor or picture."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """``scale`` physical units are one count of each input, which lies in ``low … high`` counts; all (inputs,)."""

    scale: Floats
    low: Ints
    high: Ints

    def counts(self, rows: Floats) -> Ints:
        """Rows in counts, limited to the box."""
        return np.clip(np.rint(rows / self.scale), self.low, self.high).astype(np.int64)

    def outside(self, rows: Floats) -> int:
        """How many elements ``counts`` limits."""
        wide = np.rint(rows / self.scale)
        return int(((wide < self.low) | (wide > self.high)).sum())


def scaling_of(rows: Floats, scale: float | None, *, each: bool) -> Scaling:
    """The box the rows span, of every input by itself where ``each``, else one box for all.

    Without ``scale`` the largest input is ``INPUT_COUNTS``. Raises ``CompileError`` (``input-scale``) for a scale that
    is not positive or needs more than int16.
    """
    low, high = (np.broadcast_to(end(rows, axis=0 if each else None), rows.shape[1:]) for end in (np.min, np.max))
    largest = np.maximum(np.abs(low), np.abs(high))
    chosen = np.where(largest > 0, largest, 1.0) / INPUT_COUNTS if scale is None else np.full(len(low), scale)
    if not np.all(np.isfinite(chosen) & (chosen > 0)) or np.any(largest / chosen > INT16_MAX):
        raise CompileError(
            "input-scale",
            found=f"a scale of {chosen[0]:g} for inputs up to {largest.max():g}",
            expected=f"a positive scale of at least {largest.max() / INT16_MAX:g}",
        )
    return Scaling(chosen, *(np.rint(end / chosen).astype(np.int64) for end in (low, high)))


def read_rows(path: Path, inputs: int) -> Floats:
    """(rows, inputs) float64 from a .npy file of shape (rows, …); raises ``CompileError`` (``rows``)."""

    def refuse(found: str, expected: str) -> CompileError:
        return CompileError("rows", found=f"{path.name}: {found}", expected=expected)

    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise refuse(f"{size} bytes", f"at most {FILE_BYTES_MAX}")
        # Mapped, not read: a header that promises more than the file holds is refused before memory is taken.
        given = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise refuse(error.strerror or "unreadable", "a .npy file") from error
    except (ValueError, EOFError) as error:
        raise refuse("another format, or cut off", "a .npy file of numbers") from error
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "fiu":
        raise refuse("no array of numbers", "a .npy array of real numbers or integers")
    if given.ndim < 1 or not 1 <= len(given) <= ROWS_MAX or given.size != len(given) * inputs:
        raise refuse(f"shape {given.shape}", f"1 to {ROWS_MAX} rows of {inputs} inputs")
    rows = np.array(given, dtype=np.float64).reshape(len(given), inputs)
    if not np.all(np.isfinite(rows)):
        raise refuse("numbers that are not finite", "finite numbers")
    return rows
