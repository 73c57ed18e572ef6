"""Range properties of any integer graph: intervals over the box, every input of a small one, and a search.

Intervals are exact integers and hold for every operator, but are wide behind the first layers: much stays undecided
here that linear bounds would decide for a chain of dense layers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.bounds.decide import Decision, points_of
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph
from sitsedge.compiler.graph.intervals import graph_bounds
from sitsedge.compiler.graph.model import GraphModel
from sitsedge.compiler.reference import Ints

ROWS = 64
"""Rows run at once: a graph's values may be large."""

SEARCH_SHARE = 0.5
"""Of the time limit; a search that goes on for longer rarely finds more."""

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
    row = _search(goal, now + SEARCH_SHARE * (deadline - now))
    return Decision("undecided", "intervals too wide") if row is None else Decision("refuted", "attack", row)


def _search(goal: Between, deadline: float) -> Ints | None:
    """An input that breaks the goal: random rows and corners, then changes of the worst one that make it worse."""
    rng = np.random.default_rng(SEED)
    shape = (ROWS, goal.low.size)
    corners = np.where(rng.integers(0, 2, shape) == 1, goal.high, goal.low)
    rows = np.concatenate([rng.integers(goal.low, goal.high + 1, shape), corners])
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
