"""Why a value has its format, in words for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sitsedge.compiler.quantiser.formats import TABLE_BITS_MAX, Format

FIXED = "its counts are the output's, whose scale the limits file fixes"
TABLE_ARGUMENT = f"a table reads it, and has entries for {TABLE_BITS_MAX} bits"

REMEMBERED = "follows the scale of the model's own quantiser: with such scales the model keeps its own accuracy"
BESIDE_REMEMBERED = "wide, beside values with the scales of the model's own quantiser"
FINE_WEIGHTS = "its weights need twelve bits: with eight no format of the activations meets the accuracy goal"
EIGHT_BITS_DO = "eight-bit weights are enough here while other layers have twelve"


def uniform_reasons(
    formats: Mapping[str, Format], prefer: Literal["rows", "speed"], *, meets_goal: bool
) -> dict[str, str]:
    """The reason of every value the search did not single out."""
    cheapest = "the fewest circuit rows" if prefer == "rows" else "the most layers on the fast kernel"
    why = (
        f"{cheapest} of all formats that meet the accuracy goal"
        if meets_goal
        else "the most accurate: no format meets the goal"
    )
    return dict.fromkeys(formats, why)


def widened_reason(before: float, after: float) -> str:
    """``before`` and ``after``: root-mean-square errors of the outputs relative to their spans."""
    fell = f"from {before:.2g} to {after:.2g} of their span"
    return f"widened from 7 bits: the outputs' error fell {fell}, more than by widening any other"


def narrowed_reason(before: int, after: int) -> str:
    """``before`` and ``after``: rows of the circuit."""
    return f"narrowed while the goal is still met: {before - after} circuit rows fewer at the last step"
