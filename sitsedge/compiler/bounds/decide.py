"""Decide a goal: linear bounds, a search for counter-examples, halving of a box of few sides, branch and bound, MILP.

Every "proven" is a bound that holds in exact arithmetic (``crown``, ``dual``) or an exact MILP's dual bound (``milp``);
every "refuted" is an input that the integer reference was run on. What neither reaches in time stays undecided, with
the bound that was reached.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sitsedge.compiler.bounds import milp
from sitsedge.compiler.bounds.attack import attack, improve
from sitsedge.compiler.bounds.branch import branch, tightened
from sitsedge.compiler.bounds.crown import Crown, Floats, crown, upper_bounds
from sitsedge.compiler.bounds.goal import Goal
from sitsedge.compiler.reference import Ints

Verdict = Literal["proven", "refuted", "undecided"]

ATTACK_SHARE, SPLIT_SHARE, BRANCH_SHARE = 0.1, 0.35, 0.85
"""Of the time left: for the search, for halving where the box has few sides, for the branches; MILP has the rest."""

POINTS_MAX = 1 << 14
"""A box of at most so many inputs is tried out whole."""

SPLIT_INPUTS_MAX = 16
"""Halving a box helps while it has few sides that are no points."""

SPLIT_PARTS_MAX = 20_000
"""Open parts of the box kept at most: bounds memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What became of one goal. ``counterexample`` (inputs,) in counts only where refuted.

    ``excess`` only where undecided: the goal's excess is proven to be no more than that.
    """

    verdict: Verdict
    method: str
    counterexample: Ints | None = None
    excess: int | None = None


def decide(goal: Goal, deadline: float) -> Decision:
    """Decide ``goal`` by ``deadline`` (``time.monotonic``)."""
    whole = crown(goal.model, goal.low, goal.high)
    if _bound(goal, whole)[0] <= goal.threshold:
        return Decision("proven", "crown")
    if (points := points_of(goal.low, goal.high)) is not None:
        return exhaustive(goal, points)
    started = time.monotonic()
    row, excess = attack(goal, started + ATTACK_SHARE * (deadline - started))
    if excess > 0:
        return _refuted(goal, "attack", row)
    excess_max = _bound(goal, whole)[0] - goal.threshold
    if np.count_nonzero(goal.low < goal.high) <= SPLIT_INPUTS_MAX or len(goal.model.layers) == 1:
        decision = split(goal, whole, time.monotonic() + SPLIT_SHARE * (deadline - time.monotonic()))
        if decision.verdict != "undecided":
            return decision
        excess_max = min(excess_max, decision.excess or excess_max)
    return _exact(goal, whole, excess_max, deadline)


def _exact(goal: Goal, whole: Crown, excess_max: int, deadline: float) -> Decision:
    """Branch and bound over neurons, then MILP with the bounds that it began with."""
    if len(goal.model.layers) > 1:
        until = time.monotonic() + (BRANCH_SHARE if milp.available() else 1) * (deadline - time.monotonic())
        whole, part = tightened(goal, whole, until)
        found = branch(goal, part, until)
        if found.proven:
            return Decision("proven", "crown+branching")
        if found.row is not None:
            return _refuted(goal, "crown+branching", found.row)
        excess_max = min(excess_max, found.excess)
    outcome = milp.solve(goal, whole, deadline)
    if outcome.proven:
        return Decision("proven", "crown+milp")
    if outcome.candidate is not None:
        row, excess = improve(goal, outcome.candidate, deadline)
        if excess > 0:
            return _refuted(goal, "milp", row)
    return Decision("undecided", outcome.reason, excess=excess_max)


def _refuted(goal: Goal, method: str, row: Ints) -> Decision:
    assert goal.excess(row[None])[0] > 0
    assert np.all((row >= goal.low) & (row <= goal.high))
    return Decision("refuted", method, row)


def _bound(goal: Goal, known: Crown) -> tuple[int, Floats]:
    """Upper bound of ``sign · v``, outward to a whole number, and the coefficients of the inputs that gave it."""
    last, bound = goal.model.layers[-1], known.ranges[-1]
    k = goal.output
    plain = int(bound.acc_high[k]) if goal.sign > 0 else -int(bound.acc_low[k])
    rows = goal.sign * last.columns()[k : k + 1].astype(np.float64)
    _, coefficients = upper_bounds(known, rows, goal.sign * last.bias[k : k + 1].astype(np.float64))
    return plain, coefficients[0]


def points_of(box_low: Ints, box_high: Ints) -> Ints | None:
    """Every input of a small box, the last element fastest, or None for a large one."""
    sizes = [int(size) for size in box_high - box_low + 1]
    total = 1
    for size in sizes:
        total *= size
        if total > POINTS_MAX:
            return None
    axes = [range(int(low), int(high) + 1) for low, high in zip(box_low, box_high, strict=True)]
    return np.array(list(itertools.product(*axes)), dtype=np.int64)


def exhaustive(goal: Goal, points: Ints) -> Decision:
    """Try every one of ``points``, which are all the inputs."""
    excess = goal.excess(points)
    worst = int(excess.argmax())
    if excess[worst] > 0:
        return _refuted(goal, "exhaustive", points[worst])
    return Decision("proven", "exhaustive")


def split(goal: Goal, whole: Crown, deadline: float) -> Decision:
    """Halve the box, worst part first, along the side that moves the bound most."""
    order = itertools.count()
    bound, coefficients = _bound(goal, whole)
    parts: list[tuple[int, int, Ints, Ints, Floats]] = [(-bound, next(order), goal.low, goal.high, coefficients)]
    while parts:
        if time.monotonic() > deadline or len(parts) > SPLIT_PARTS_MAX:
            return Decision("undecided", "time", excess=-parts[0][0] - goal.threshold)
        _, _, low, high, coefficients = heapq.heappop(parts)
        j = int((np.abs(coefficients) * (high - low)).argmax())
        if low[j] == high[j]:
            j = int((high - low).argmax())
        middle = (int(low[j]) + int(high[j])) // 2
        for side in (0, 1):
            part_low, part_high = low.copy(), high.copy()
            if side == 0:
                part_high[j] = middle
            else:
                part_low[j] = middle + 1
            known = crown(goal.model, part_low, part_high)
            bound, slope = _bound(goal, known)
            if bound <= goal.threshold:
                continue
            corner = np.where(slope > 0, part_high, part_low)
            if goal.excess(corner[None])[0] > 0:
                return _refuted(goal, "crown+splitting", corner)
            # A single point's bounds still carry the error of the relaxation; its exact value was just tested.
            if np.any(part_low < part_high):
                heapq.heappush(parts, (-bound, next(order), part_low, part_high, slope))
    return Decision("proven", "crown+splitting")
