"""Mixed-integer program of a goal for HiGHS (through scipy), with big-M constants from the linear bounds.

Per hidden neuron the activation lies in clip(p, low, high) for (v + 2^(s-1) - 2^s + 1) / 2^s ≤ p ≤ (v + 2^(s-1)) / 2^s;
a bend that can be reached takes one binary (Tjeng, Xiao, Tedrake, ICLR 2019). Inputs and activations are real numbers
here, so the program's values contain all of the integer model's, and an upper bound of it is one of the model. A
solution is only a candidate: its inputs are rounded and run on the integer reference.

HiGHS computes in floating point and lets constraints be off by ``TOLERANCE``. What that can move the objective by is
computed from the weights and kept as a margin: "proven" needs no solution, or a dual bound, below the threshold less
that margin. This is no certificate checked in exact arithmetic, and the method "crown+milp" in a report says so.
"""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from sitsedge.compiler.bounds.crown import Crown, Floats, Range
from sitsedge.compiler.bounds.goal import Goal
from sitsedge.compiler.reference import IntegerLayer, Ints

TOLERANCE = 1e-6
"""HiGHS's mip_feasibility_tolerance: how far a constraint or a binary may be off."""

BINARIES_MAX = 2000
"""More are out of reach in any time a build allows."""

TIME_LIMIT, INFEASIBLE = 1, 2
"""``status`` of ``scipy.optimize.milp``."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """``proven``, or an input in counts to try on the reference, or neither with the reason."""

    proven: bool
    reason: str
    candidate: Ints | None = None


def available() -> bool:
    """Whether scipy with HiGHS is installed (the extra ``exact``)."""
    return importlib.util.find_spec("scipy") is not None


def solve(goal: Goal, known: Crown, deadline: float) -> Outcome:
    """Look for the goal's largest accumulator until ``deadline``; ``known`` are the bounds over the goal's box."""
    if not available():
        return Outcome(False, "without scipy there is no exact search")
    seconds = deadline - time.monotonic()
    program = _Program(known)
    if seconds <= 0 or program.binaries > BINARIES_MAX:
        return Outcome(False, "time" if seconds <= 0 else f"{program.binaries} bends, more than {BINARIES_MAX}")
    last = goal.model.layers[-1]
    count = 2.0 ** -int(last.shift[goal.output])
    weights = goal.sign * last.columns()[goal.output] * count
    offset = (goal.sign * int(last.bias[goal.output]) - goal.threshold) * count
    # The goal is broken from one accumulator step above the threshold on.
    cutoff = count - offset - TOLERANCE - float(np.abs(weights) @ program.slack)
    result = program.maximise(weights, cutoff, seconds)
    dual = result.mip_dual_bound
    if result.status == INFEASIBLE or (dual is not None and np.isfinite(dual) and -float(dual) < cutoff):
        return Outcome(True, "")
    reason = "time" if result.status == TIME_LIMIT else "broken only where rounding is left open"
    if result.x is None:
        return Outcome(False, reason)
    rounded = np.clip(np.rint(result.x[: goal.low.size]), goal.low, goal.high)
    return Outcome(False, reason, rounded.astype(np.int64))


class _Program:
    """Variables: inputs, then per hidden layer its activations, then the binaries of their bends."""

    def __init__(self, known: Crown) -> None:
        self._low = [float(bound) for bound in known.low]
        self._high = [float(bound) for bound in known.high]
        self._entries: list[tuple[int, int, float]] = []
        self._right: list[float] = []
        self._integral: list[int] = []
        self._first = 0
        self.slack: Floats = np.full(known.low.size, TOLERANCE)
        for layer, bound in zip(known.model.layers[:-1], known.ranges[:-1], strict=True):
            self._layer(layer, bound)

    @property
    def binaries(self) -> int:
        """Number of bends."""
        return len(self._integral)

    def _variables(self, low: Ints, high: Ints) -> int:
        first = len(self._low)
        self._low += [float(bound) for bound in low]
        self._high += [float(bound) for bound in high]
        return first

    def _binary(self) -> int:
        index = self._variables(np.zeros(1, np.int64), np.ones(1, np.int64))
        self._integral.append(index)
        return index

    def _row(self, entries: list[tuple[int, float]], right: float) -> None:
        """Σ coefficient · variable ≤ right."""
        row = len(self._right)
        self._entries += [(row, index, value) for index, value in entries if value]
        self._right.append(right)

    def _layer(self, layer: IntegerLayer, bound: Range) -> None:
        """Rows of every neuron that is not constant; ``slack`` becomes what tolerances may move each activation by."""
        sources = self._first
        self._first = self._variables(bound.out_low, bound.out_high)
        step = np.exp2(layer.shift.astype(np.float64))
        columns = layer.columns()
        reach = np.zeros(len(step))
        for i in np.flatnonzero(bound.out_low < bound.out_high):
            terms = [(sources + int(j), float(columns[i, j] / step[i])) for j in np.flatnonzero(columns[i])]
            a, low, high = self._first + int(i), float(layer.low[i]), float(layer.high[i])
            upper = float(layer.rounding[i])
            lower = upper - float(step[i]) + 1
            below = max(0.0, low - (float(bound.acc_low[i]) + upper) / float(step[i]))
            above = max(0.0, (float(bound.acc_high[i]) + lower) / float(step[i]) - high)
            # a ≤ max(p, low) at the largest p
            right = (float(layer.bias[i]) + upper) / float(step[i])
            entries = [(a, 1.0), *((index, -value) for index, value in terms)]
            if below:
                bend = self._binary()
                self._row([*entries, (bend, below)], right + below)
                self._row([(a, 1.0), (bend, low - float(bound.out_high[i]))], low)
            else:
                self._row(entries, right)
            # a ≥ min(p, high) at the smallest p
            right = -(float(layer.bias[i]) + lower) / float(step[i])
            entries = [(a, -1.0), *terms]
            if above:
                bend = self._binary()
                self._row([*entries, (bend, -above)], right)
                self._row([(a, -1.0), (bend, high - float(bound.out_low[i]))], -float(bound.out_low[i]))
            else:
                self._row(entries, right)
            reach[i] = below + above + float(bound.out_high[i] - bound.out_low[i])
        self.slack = (np.abs(columns) @ self.slack) / step + TOLERANCE * (1 + reach)

    def maximise(self, weights: Floats, cutoff: float, seconds: float) -> Any:
        """Maximise ``weights`` (last activations,) where that is at least ``cutoff``; scipy's result object."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # an extra, and slow to import
        from scipy.sparse import csr_array

        targets = range(self._first, self._first + len(weights))
        self._row([(index, -float(w)) for index, w in zip(targets, weights, strict=True)], -cutoff)
        objective = np.zeros(len(self._low))
        objective[self._first : self._first + len(weights)] = -weights
        integrality = np.zeros(len(self._low))
        integrality[self._integral] = 1
        row, column, value = (np.array(part) for part in zip(*self._entries, strict=True))
        matrix = csr_array((value, (row.astype(int), column.astype(int))), shape=(len(self._right), len(self._low)))
        return milp(
            objective,
            integrality=integrality,
            bounds=Bounds(np.array(self._low), np.array(self._high)),
            constraints=LinearConstraint(matrix, ub=np.array(self._right)),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
