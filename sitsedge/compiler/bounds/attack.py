"""Search for inputs that break a goal: random rows, corners, gradient steps, then single coordinates.

It proves nothing. Whatever it returns was evaluated by the integer reference, so a find is a counter-example.
"""

from __future__ import annotations

import time

import numpy as np

from sitsedge.compiler.bounds.crown import activation
from sitsedge.compiler.bounds.goal import Goal
from sitsedge.compiler.graph.reference import products
from sitsedge.compiler.reference import Ints

STARTS = 192
STEPS = 24
"""Gradient steps from every start; the step shrinks from a half to a hundredth of the box."""

SWEEPS_MAX = 3
POINTS = 9
"""Values tried for one coordinate, ends of the box included."""

SEED = 0x51D5
"""Fixed: equal files give equal answers wherever time is not what decides."""


def attack(goal: Goal, deadline: float, *, starts: int = STARTS, seed: int = SEED) -> tuple[Ints, int]:
    """The worst input found (inputs,) and its excess; stops early at a broken goal or at ``deadline`` (monotonic)."""
    rng = np.random.default_rng(seed)
    third = max(1, starts // 3)
    shape = (third, goal.low.size)
    rows = np.concatenate(
        [
            rng.integers(goal.low, goal.high + 1, (starts, goal.low.size)),
            np.where(rng.integers(0, 2, shape) == 1, goal.high, goal.low),
            [(goal.low + goal.high) // 2],
        ]
    )
    best, worst = _worst(goal, rows)
    for step in range(STEPS):
        if worst > 0 or time.monotonic() > deadline:
            return best, worst
        share = 0.5 * (0.02 ** (step / max(STEPS - 1, 1)))
        move = np.sign(gradient(goal, rows)) * np.maximum(np.rint(share * (goal.high - goal.low)), 1)
        rows = np.clip(rows + move.astype(np.int64), goal.low, goal.high)
        best, worst = _better(goal, rows, best, worst)
    return improve(goal, best, deadline)


def gradient(goal: Goal, rows: Ints) -> np.ndarray:
    """Slope of the goal's accumulator at each row, clamps as 0 or 1 and rounding as the identity; (rows, inputs)."""
    value, masks = rows, []
    for layer in goal.model.layers[:-1]:
        acc = products(value, layer.columns().T) + layer.bias
        q = (acc + layer.rounding) >> layer.shift
        free = np.ones(q.shape) if layer.activation == "none" else ((q >= layer.low) & (q <= layer.high)).astype(float)
        masks.append(free / np.exp2(layer.shift))
        value = activation(layer, acc)
    slope = np.broadcast_to(goal.sign * goal.model.layers[-1].columns()[goal.output], (len(rows), value.shape[1]))
    for layer, mask in zip(reversed(goal.model.layers[:-1]), reversed(masks), strict=True):
        slope = (slope * mask) @ layer.columns()
    return np.asarray(slope, dtype=np.float64)


def improve(goal: Goal, row: Ints, deadline: float) -> tuple[Ints, int]:
    """Move one coordinate after another of ``row`` to its best value while that helps; the row and its excess."""
    best, worst = _worst(goal, row[None])
    for _ in range(SWEEPS_MAX):
        before = worst
        for j in range(best.size):
            if worst > 0 or time.monotonic() > deadline:
                return best, worst
            values = np.rint(np.linspace(goal.low[j], goal.high[j], POINTS)).astype(np.int64)
            near = np.clip(best[j] + np.array([-2, -1, 1, 2]), goal.low[j], goal.high[j])
            rows = np.repeat(best[None], POINTS + 4, axis=0)
            rows[:, j] = np.concatenate([values, near])
            best, worst = _better(goal, rows, best, worst)
        if worst == before:
            break
    return best, worst


def _worst(goal: Goal, rows: Ints) -> tuple[Ints, int]:
    excess = goal.excess(rows)
    i = int(excess.argmax())
    return rows[i].astype(np.int64), int(excess[i])


def _better(goal: Goal, rows: Ints, best: Ints, worst: int) -> tuple[Ints, int]:
    row, excess = _worst(goal, rows)
    return (row, excess) if excess > worst else (best, worst)
