"""Checked kinds of numbers and names in a limits file, and counts of physical values."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("a finite number")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("a letter, then letters, digits, '_', '.' or '-', at most 64")
    return value


def _ascending(value: tuple[float, float]) -> tuple[float, float]:
    if not value[0] < value[1]:
        raise ValueError("[low, high] with low below high")
    return value


def _not_descending(value: tuple[float, float]) -> tuple[float, float]:
    if not value[0] <= value[1]:
        raise ValueError("[low, high] with low not above high")
    return value


Number = Annotated[float, AfterValidator(_finite)]
Positive = Annotated[float, Field(gt=0), AfterValidator(_finite)]
NotNegative = Annotated[float, Field(ge=0), AfterValidator(_finite)]
Span = Annotated[tuple[Number, Number], AfterValidator(_ascending)]
Part = Annotated[tuple[Number, Number], AfterValidator(_not_descending)]
SignalName = Annotated[str, AfterValidator(_name)]


def to_counts(value: float, scale: float) -> int:
    """Counts of a physical value: round half to even."""
    return int(np.rint(value / scale))


def exact_ratio(value: float, scale: float) -> Fraction:
    """``value / scale`` of the decimal numbers as a file writes them: 0.4 / 0.0005 is 800, not a float beside it."""
    return Fraction(repr(float(value))) / Fraction(repr(float(scale)))
