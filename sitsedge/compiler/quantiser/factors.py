"""The factors that several nodes share, chosen before any node is made: per lock, on its grid of powers of two."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from sitsedge.compiler.graph.float_graph import Function
from sitsedge.compiler.quantiser.formats import Format
from sitsedge.compiler.quantiser.problem import Problem
from sitsedge.compiler.quantiser.ranges import reach
from sitsedge.compiler.quantiser.scales import SINGLE

USEFUL: Mapping[str, float] = {"sigmoid": 8.0, "tanh": 4.5}
"""Arguments beyond which a function moves by less than 4·10^-4: a table need not reach further."""


STEPS_MAX = 12
"""Largest spread of a grid's powers of two: what is added to values 4,096 times coarser need not be finer."""


def shared_factors(problem: Problem, formats: Mapping[str, Format]) -> dict[str, float]:
    """Physical value of a count for every node whose factors are one (level ``SINGLE``), by node."""
    bound = problem.freedom
    singles = [name for name in bound.lock if bound.level[name] == SINGLE]
    useful = _useful(problem)
    natural: dict[str, float] = {}
    given: dict[str, float] = {}
    for name in singles:
        lock = bound.lock[name]
        if name in bound.fixed:
            given[lock] = float(bound.fixed[name].flat[0])
        found = formats[name]
        values = problem.values[name][problem.fitted].reshape(-1, 1)
        top = float(reach(values, rule=found.rule, largest_count=found.largest, saturates=found.saturate)[0])
        top = min(top, useful.get(name, math.inf))
        wanted = top / found.largest if found.scale is None else found.scale
        natural[lock] = max(natural.get(lock, 0.0), wanted)
    base: dict[str, float] = {}
    for lock, factor in natural.items():
        grid = bound.grid[lock]
        base[grid] = min(base.get(grid, math.inf), factor if factor > 0.0 else math.inf)
    # A wanted scale is exact where it is the grid's first; the limits file's are exact in any case.
    wanted_scales = {bound.lock[name]: formats[name].scale for name in singles}
    for lock in sorted(natural, key=lambda lock: natural[lock], reverse=True):
        if wanted_scales.get(lock) is not None:
            base[bound.grid[lock]] = natural[lock]
    for lock, factor in given.items():
        base[bound.grid[lock]] = factor
    exponents: dict[str, int] = {}
    for lock, factor in natural.items():
        start = base[bound.grid[lock]]
        exponents[lock] = _steps(factor / start) if math.isfinite(start) else 0
    for lock in given:
        exponents[lock] = 0
    coarsest = {grid: max(e for lock, e in exponents.items() if bound.grid[lock] == grid) for grid in base}
    chosen = {}
    for name in singles:
        lock = bound.lock[name]
        grid = bound.grid[lock]
        exponent = exponents[lock] if lock in given else max(exponents[lock], coarsest[grid] - STEPS_MAX)
        chosen[name] = (base[grid] if math.isfinite(base[grid]) else 1.0) * 2.0**exponent
    return chosen


def _steps(ratio: float) -> int:
    """Smallest power of two that reaches ``ratio``, rounding errors of the ratio aside."""
    return math.ceil(math.log2(ratio) - 1e-9) if ratio > 0.0 else 0


def _useful(problem: Problem) -> dict[str, float]:
    """Reach that suffices for values only saturating functions read."""
    reads: dict[str, list[float]] = {}
    for node in problem.graph.nodes[1:]:
        for name in node.inputs:
            limit = USEFUL.get(node.function, math.inf) if isinstance(node, Function) else math.inf
            reads.setdefault(name, []).append(limit)
    return {name: max(limits) for name, limits in reads.items() if np.isfinite(max(limits))}
