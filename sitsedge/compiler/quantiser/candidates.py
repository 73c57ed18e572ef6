"""The formats the search starts from: one for all values, or the fast ones value by value."""

from __future__ import annotations

import itertools

from sitsedge.compiler.graph.float_graph import Clamped
from sitsedge.compiler.quantiser.formats import FAST_BITS, TABLE_BITS_MAX, Format
from sitsedge.compiler.quantiser.problem import Problem
from sitsedge.compiler.quantiser.ranges import RULES
from sitsedge.compiler.quantiser.trial import choosing

OPEN_BITS = (6, 7, 8, 9, 10, 11, 12)
SATURATED_BITS = (7, 8, 10, 12)
CLIPPED_BITS_MAX = 8
"""With more bits, cutting off what is rare gains nothing."""


def uniform(*, large: bool) -> list[Format]:
    """Formats tried for all values at once; few for a ``large`` network, as each trial then takes seconds."""
    if large:
        return [Format(7, saturate=True, rule="mse"), Format(7, saturate=True), Format(12, saturate=True)]
    saturated = [
        Format(bits, saturate=True, rule=rule)
        for bits, rule in itertools.product(SATURATED_BITS, RULES)
        if bits <= CLIPPED_BITS_MAX or rule == RULES[0]
    ]
    return [*(Format(bits, saturate=False) for bits in OPEN_BITS), *saturated]


def fast(problem: Problem, rule: str) -> dict[str, Format]:
    """Formats whose counts span at most 127: seven bits, or six and a sign. Tables' arguments are not multiplied."""
    formats = {}
    for name, node in problem.graph.by_name().items():
        if name in problem.table_fed:
            formats[name] = Format(TABLE_BITS_MAX, saturate=True)
        elif isinstance(node, Clamped):
            formats[name] = Format(FAST_BITS - (node.low < 0.0), saturate=True, rule=rule)
        else:
            formats[name] = Format(FAST_BITS - bool(problem.values[name].min() < 0.0), saturate=True, rule=rule)
    return {name: formats[name] for name in choosing(problem)}
