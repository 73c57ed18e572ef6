"""Small made-up recordings and a replay process."""

from __future__ import annotations

from pathlib import Path

HEADER = "datetime;P;Q;label"


def write_csv(path: Path, *rows: str, header: str = HEADER, end: str = "\n") -> Path:
    path.write_text(end.join([header, *rows]) + end, encoding="utf-8")
    return path
