"""Range properties of any integer graph: intervals, every input of a small box, linear bounds, a search, halving.

Chains of dense layers have a finer search (``decide``). Here parts differ in their inputs alone, so boxes with many
sides are decided by their first bounds or hardly ever.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.bounds.decide import Decision, points_of
from sitsedge.compiler.bounds.graph_crown import graph_crown
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph
from sitsedge.compiler.graph.intervals import graph_bounds
from sitsedge.compiler.graph.model import GraphModel
from sitsedge.compiler.reference import Ints

ROWS = 64
"""Rows run at once: a graph's values may be large."""

FIRST_SHARE, SEARCH_SHARE = 0.4, 0.3
"""Of the time left: for bounds over the whole box, then for the search; one that goes on rarely finds more."""

PART_NUMBERS_MAX = 1 << 23
"""Input elements of all open parts; each takes 32 bytes."""

ROUNDS_MAX = 400
SEED = 0x6A7


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """``least ≤ y ≤ most`` in counts for output ``output`` and all x in ``low … high``, flat (inputs,)."""

    model: GraphModel
    low: Ints
    high: Ints
    output: int
    least: int
    most: int

    def excess(self, rows: Ints) -> Ints:
        """How far outside the output is, above zero where the property is broken; exact."""
        parts = [self.model.run(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)]
        outputs = np.concatenate([part.reshape(len(part), -1)[:, self.output] for part in parts])
        return np.asarray(np.maximum(outputs - self.most, self.least - outputs), dtype=np.int64)


def output_bounds(graph: IntegerGraph, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Interval bounds of the outputs, flat, for inputs in ``low … high``, flat and inside the graph's box."""
    shape = graph.input.shape
    source = Input.make(graph.input.name, shape, box_low=low.reshape(shape), box_high=high.reshape(shape))
    bound = graph_bounds(replace(graph, input=source))[graph.output]
    return bound.low.reshape(-1), bound.high.reshape(-1)


def decide_between(goal: Between, deadline: float) -> Decision:
    """Decide ``goal`` by ``deadline`` (``time.monotonic``)."""
    lows, highs = output_bounds(goal.model.graph, goal.low, goal.high)
    if goal.least <= lows[goal.output] and highs[goal.output] <= goal.most:
        return Decision("proven", "intervals")
    if (points := points_of(goal.low, goal.high)) is not None and len(points) <= ROUNDS_MAX * ROWS:
        excess = goal.excess(points)
        worst = int(excess.argmax())
        return (
            Decision("refuted", "exhaustive", points[worst]) if excess[worst] > 0 else Decision("proven", "exhaustive")
        )
    now = time.monotonic()
    whole = _Part(goal, goal.low, goal.high, now + FIRST_SHARE * (deadline - now))
    if whole.excess <= 0:
        return Decision("proven", "crown")
    now = time.monotonic()
    row = _search(goal, whole.corners, now + SEARCH_SHARE * (deadline - now))
    if row is not None:
        return Decision("refuted", "attack", row)
    return _split(goal, whole, deadline)


class _Part:
    """A part of the box: how far outside the output may be there, and where the bounds would be attained."""

    def __init__(self, goal: Between, low: Ints, high: Ints, deadline: float) -> None:
        self.low, self.high = low, high
        known = graph_crown(goal.model.graph, low, high, deadline)
        least, most, above, below = known.output(goal.output)
        over, under = most - goal.most, goal.least - least
        self.excess = max(over, under)
        slope = above if over >= under else -below
        self.corners = np.stack([np.where(line > 0, high, low) for line in (above, -below)])
        weight = np.abs(slope) * (high - low)
        self.side = int(weight.argmax()) if weight.max(initial=0) > 0 else int((high - low).argmax())


def _split(goal: Between, whole: _Part, deadline: float) -> Decision:
    """Halve the box, worst part first, along the side that moves the bound most."""
    order = itertools.count()
    parts: list[tuple[int, int, _Part]] = [(-whole.excess, next(order), whole)]
    while parts:
        if time.monotonic() > deadline or len(parts) * whole.low.size > PART_NUMBERS_MAX:
            return Decision("undecided", "time", excess=-parts[0][0])
        part = heapq.heappop(parts)[2]
        j = part.side
        middle = (int(part.low[j]) + int(part.high[j])) // 2
        for first, last in ((int(part.low[j]), middle), (middle + 1, int(part.high[j]))):
            low, high = part.low.copy(), part.high.copy()
            low[j], high[j] = first, last
            half = _Part(goal, low, high, deadline)
            if half.excess <= 0:
                continue
            excess = goal.excess(half.corners)
            if excess.max() > 0:
                return Decision("refuted", "crown+splitting", half.corners[int(excess.argmax())])
            # One point is only its corners, which were just tried.
            if np.any(low < high):
                heapq.heappush(parts, (-half.excess, next(order), half))
    return Decision("proven", "crown+splitting")


def _search(goal: Between, first: Ints, deadline: float) -> Ints | None:
    """An input that breaks the goal: ``first``, random rows, corners, then changes of the worst that make it worse."""
    rng = np.random.default_rng(SEED)
    shape = (ROWS, goal.low.size)
    corners = np.where(rng.integers(0, 2, shape) == 1, goal.high, goal.low)
    rows = np.concatenate([first, rng.integers(goal.low, goal.high + 1, shape), corners])
    best: Ints = rows[0]
    worst = int(np.iinfo(np.int64).min)
    for _ in range(ROUNDS_MAX):
        excess = goal.excess(rows)
        i = int(excess.argmax())
        if excess[i] > worst:
            best, worst = rows[i], int(excess[i])
        if worst > 0:
            return best
        if time.monotonic() > deadline:
            return None
        # Few coordinates at a time, to the ends of the box or anywhere: what helps is kept.
        moved = rng.random(shape) < rng.choice([1.5 / goal.low.size, 0.1, 0.5])
        anywhere = rng.integers(goal.low, goal.high + 1, shape)
        ends = np.where(rng.integers(0, 2, shape) == 1, goal.high, goal.low)
        rows = np.where(moved, np.where(rng.random(shape) < 0.5, ends, anywhere), best)
    return None
