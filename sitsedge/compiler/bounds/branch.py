"""Branch and bound over hidden neurons: a bend of a rounding's clamp is cut, and both sides are bounded again.

Source: Bunel, Lu, Turkaslan, Torr, Kohli, Kumar, Branch and Bound for Piecewise Linear Neural Network Verification,
JMLR 2020. Accumulators are whole numbers, so ``v ≤ cut`` and ``v ≥ cut + 1`` are all there is. Many parts are worked on
at once, the worst first (``dual``). Where no bend is left, ranges are halved: roundings are stairs.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.bounds import dual
from sitsedge.compiler.bounds.attack import improve
from sitsedge.compiler.bounds.crown import TINY, UNIT, Crown, Floats, Range, activation
from sitsedge.compiler.bounds.dual import Parts, Program, Scaled, lines
from sitsedge.compiler.bounds.goal import Goal
from sitsedge.compiler.reference import Ints

ROOT_STEPS, STEPS = 150, 40
"""Gradient steps for the whole box and for a part. Half as many take far more parts, twice as many gain little."""

PARTS_AT_ONCE = 128
ELEMENTS_AT_ONCE = 1 << 20
"""Numbers in one array: parts at once are fewer where layers are wide. A dozen such arrays live at a time."""

POOL_BYTES_MAX = 1 << 28
"""Open parts kept at most."""

IMPROVE_SECONDS = 0.5
"""Spent on the inputs a bound is attained at, each time they are worse than all before."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Proven, or broken by ``row`` (inputs,), or neither; ``excess`` is proven to be no more than this."""

    proven: bool
    row: Ints | None
    excess: int
    parts: int


def tightened(goal: Goal, known: Crown, deadline: float) -> tuple[Crown, Parts]:
    """Bounds of hidden accumulators by the dual, never wider than ``known``'s: as ranges, and as one part.

    From ``deadline`` (monotonic) on the rest stays as it is.
    """
    program = Program.of(goal)
    ranges = list(known.ranges)
    part = _whole(goal, ranges)
    for k, layer in enumerate(program.layers[1:], start=1):
        # As parts of a program: upper bounds of the sums, then of their negatives.
        found = np.full(2 * layer.bias.size, np.inf)
        at_once = max(1, ELEMENTS_AT_ONCE // max(layer.first, goal.low.size))
        for first in range(0, len(found), at_once):
            if time.monotonic() > deadline:
                break
            rows = np.arange(first, min(first + at_once, len(found)))
            found[rows] = _largest_sums(program.of_sums(k, rows), part, layer.first)
        # Times a power of two is exact.
        high, low = np.floor(found.reshape(2, -1) * layer.step)
        low = np.maximum(ranges[k].acc_low, -np.minimum(low, -ranges[k].acc_low)).astype(np.int64)
        high = np.minimum(ranges[k].acc_high, high).astype(np.int64)
        ranges[k] = Range(low, high, activation(layer.layer, low), activation(layer.layer, high))
        part = _whole(goal, ranges)
    return replace(known, ranges=tuple(ranges)), part


def _largest_sums(sums: Program, part: Parts, hidden: int) -> Floats:
    """Bounds of a program with a target for each part, every part the whole ``part`` up to neuron ``hidden``."""
    rows = np.zeros(len(sums.target), np.int64)
    each = replace(part.take(rows), **{name: getattr(part, name)[rows, :hidden] for name in Parts.__slots__[2:]})
    return sums.ascend(sums.start(each), ROOT_STEPS)[1]


def _whole(goal: Goal, ranges: list[Range]) -> Parts:
    low, high = (np.concatenate([getattr(r, name) for r in ranges[:-1]])[None] for name in ("acc_low", "acc_high"))
    nothing = np.zeros(low.shape)
    return Parts(goal.low[None], goal.high[None], low, high, nothing, nothing)


def branch(goal: Goal, parts: Parts, deadline: float) -> Outcome:
    """Decide ``goal`` of a chain of two layers or more by ``deadline`` (monotonic), or say how far it came.

    ``parts`` have all of the goal's inputs between them; multipliers are of no account.
    """
    return _Search(goal, parts).run(deadline)


class _Search:
    """Open parts by their bound, each as two packed rows: whole numbers in int32, multipliers in float32."""

    def __init__(self, goal: Goal, part: Parts) -> None:
        self._goal = goal
        self._program = Program.of(goal)
        self._rounding = [_refresh_error(self._program, k, part) for k in range(len(self._program.layers))]
        self._at_once = max(
            1, min(PARTS_AT_ONCE, ELEMENTS_AT_ONCE // max(x.weights.size for x in self._program.layers))
        )
        self._sizes = (part.box_low.shape[1], part.low.shape[1])
        self._pool: list[tuple[float, int, Ints, Floats]] = []
        self._order = itertools.count()
        self._pool_max = POOL_BYTES_MAX // (8 * sum(self._sizes) + 8 * self._sizes[1] + 256)
        self._worst = int(np.iinfo(np.int64).min)
        self._root = part
        self._parts = 0

    def run(self, deadline: float) -> Outcome:
        """As ``branch``."""
        if time.monotonic() > deadline:
            return Outcome(False, None, int(np.iinfo(np.int64).max), 0)
        before = np.full(len(self._root), np.inf)
        if (row := self._bound(self._program.start(self._root), ROOT_STEPS, before, deadline)) is not None:
            return self._outcome(row)
        while self._pool and time.monotonic() < deadline and len(self._pool) < self._pool_max:
            work, bounds = self._pop()
            pieces, before = self._cut(work, bounds)
            if (row := self._bound(pieces, STEPS, before, deadline)) is not None:
                return self._outcome(row)
        return self._outcome(None)

    def _outcome(self, row: Ints | None) -> Outcome:
        return Outcome(not self._pool and row is None, row, self._reached(), self._parts)

    def _reached(self) -> int:
        worst = -self._pool[0][0] if self._pool else 0.0
        # Without a whole number of a bound there is none: only before the first was computed.
        return int(np.floor(worst)) if np.isfinite(worst) else int(np.iinfo(np.int64).max)

    def _bound(self, parts: Parts, steps: int, before: Floats, deadline: float) -> Ints | None:
        """Bound the parts, keep those that stay open; a row that breaks the goal if one turns up."""
        if not len(parts):
            return None
        self._parts += len(parts)
        parts, bounds = self._program.ascend(parts, steps)
        bounds = np.minimum(bounds, before)
        # The excess is a whole number.
        open_ = np.flatnonzero(bounds >= 1)
        whole = np.concatenate([parts.box_low, parts.box_high, parts.low, parts.high], axis=1).astype(np.int32)
        found = np.concatenate([parts.slope, parts.extra], axis=1).astype(np.float32)
        for i in open_:
            heapq.heappush(self._pool, (-float(bounds[i]), next(self._order), whole[i].copy(), found[i].copy()))
        return self._try(parts.take(open_), deadline) if len(open_) else None

    def _try(self, parts: Parts, deadline: float) -> Ints | None:
        """Run the inputs at which bounds are attained on the reference, and improve the worst so far."""
        now = self._program.evaluate(self._program.terms(parts), parts, parts.slope, parts.extra)
        rows = now.inputs.astype(np.int64)
        excess = self._goal.excess(rows)
        i = int(excess.argmax())
        if excess[i] <= self._worst:
            return None
        self._worst = int(excess[i])
        row, worst = improve(self._goal, rows[i], min(deadline, time.monotonic() + IMPROVE_SECONDS))
        return row if worst > 0 else None

    def _pop(self) -> tuple[Parts, Floats]:
        """The worst open parts and their bounds."""
        rows = [heapq.heappop(self._pool) for _ in range(min(self._at_once, len(self._pool)))]
        whole = np.stack([row[2] for row in rows]).astype(np.int64)
        found = np.stack([row[3] for row in rows]).astype(np.float64)
        inputs, hidden = self._sizes
        box_low, box_high, low, high = np.split(whole, [inputs, 2 * inputs, 2 * inputs + hidden], axis=1)
        parts = Parts(box_low, box_high, low, high, *np.split(found, 2, axis=1))
        return parts, np.array([-row[0] for row in rows])

    def _cut(self, work: Parts, bounds: Floats) -> tuple[Parts, Floats]:
        """Both sides of every part, one neuron cut, and the bounds of what they are sides of."""
        neuron, cut = _choose(self._program, work)
        rows = np.arange(len(work))
        # A part whose every accumulator is one number has nothing to cut: it is left as it is.
        solid = work.low[rows, neuron] >= work.high[rows, neuron]
        below, above = work.high.copy(), work.low.copy()
        below[rows, neuron] = np.where(solid, below[rows, neuron], cut)
        above[rows, neuron] = np.where(solid, above[rows, neuron], cut + 1)
        twice = np.tile(rows, 2)
        sides = replace(
            work.take(twice), low=np.concatenate([work.low, above]), high=np.concatenate([below, work.high])
        )
        for k, layer in enumerate(self._program.layers[1:], start=1):
            # Nothing is new to a layer but cuts in the layers before it.
            sides = self._refreshed(sides, k, np.flatnonzero(neuron[twice] < layer.first))
        possible = np.flatnonzero(np.all(sides.low <= sides.high, axis=1))
        sides = sides.take(possible)
        return replace(sides, slope=_settled(self._program, sides)), bounds[twice[possible]]

    def _refreshed(self, parts: Parts, k: int, rows: Ints) -> Parts:
        """With layer ``k`` of ``rows`` bounded anew by lines over the layers before, where that is narrower."""
        if not rows.size:
            return parts
        layer, error = self._program.layers[k], self._rounding[k]
        upper, lower = _sums(self._program, k, parts.take(rows))
        high, low = parts.high.copy(), parts.low.copy()
        at = rows[:, None], np.arange(layer.here.start, layer.here.stop)[None]
        high[at] = np.minimum(high[at], np.floor((upper + error) * layer.step).astype(np.int64))
        low[at] = np.maximum(low[at], np.ceil((lower - error) * layer.step).astype(np.int64))
        return replace(parts, low=low, high=high)


def _sums(program: Program, k: int, parts: Parts) -> tuple[Floats, Floats]:
    """Upper and lower bounds of layer ``k``'s sums, (parts, outputs), but for rounding errors."""
    layer = program.layers[k]
    count, outputs = len(parts), layer.bias.size
    signs = (1.0, -1.0)
    rows = [np.broadcast_to(sign * layer.weights, (count, *layer.weights.shape)) for sign in signs]
    totals = [np.tile(sign * layer.bias, (count, 1)) for sign in signs]
    for before in reversed(program.layers[:k]):
        above, above_at, below, below_at = (x[:, :, None] for x in lines(before, parts))
        for i, row in enumerate(rows):
            up, down = np.maximum(row, 0), np.minimum(row, 0)
            totals[i] += (up @ above_at + down @ below_at)[:, :, 0]
            up *= above.transpose(0, 2, 1)
            down *= below.transpose(0, 2, 1)
            up += down
            totals[i] += up @ before.bias
            rows[i] = (up.reshape(-1, up.shape[2]) @ before.weights).reshape(count, outputs, -1)
    centre, radius = ((parts.box_high + sign * parts.box_low)[:, :, None] / 2 for sign in signs)
    upper, lower = (t + (row @ centre + np.abs(row) @ radius)[:, :, 0] for t, row in zip(totals, rows, strict=True))
    return upper, -lower


def _refresh_error(program: Program, k: int, part: Parts) -> Floats:
    """How far off ``_sums`` may be in any part of ``part`` by rounding, (outputs,).

    Slopes lie in 0 … 1 and offsets are at most |a| + |p| + 1, so no row ever has larger numbers than products of
    absolute weights.
    """
    box = np.maximum(np.abs(part.box_low), np.abs(part.box_high)).max(axis=0).astype(np.float64)
    reach = [box]
    for layer in program.layers[:k]:
        low, high = part.low[:, layer.here].min(axis=0), part.high[:, layer.here].max(axis=0)
        reach.append(np.maximum(*(np.abs(activation(layer.layer, acc)).astype(np.float64) for acc in (low, high))))
    layer = program.layers[k]
    row, magnitude = np.abs(layer.weights), np.abs(layer.bias)
    for i in range(k - 1, -1, -1):
        before = program.layers[i]
        low, high = part.low[:, before.here].min(axis=0), part.high[:, before.here].max(axis=0)
        largest_p = np.maximum(np.abs(low), np.abs(high)) / before.step
        inner = np.abs(before.weights)
        magnitude = magnitude + row @ (reach[i + 1] + 2 * largest_p + 1 + np.abs(before.bias) + inner @ reach[i])
        row = row @ inner
    magnitude = magnitude + 2 * (row @ box)
    widest = max(max(x.weights.shape) for x in program.layers)
    return np.asarray((widest + 16 * (k + 1) + 16) * 2 * UNIT * magnitude + TINY, dtype=np.float64)


def _choose(program: Program, parts: Parts) -> tuple[Ints, Ints]:
    """Per part the neuron to cut and the last accumulator below the cut: where it may change the bound most.

    That is |r| times the height of the triangle that the clamp's bend leaves open, and behind all of those the widest
    stairs, for which the size of r times the range stands.
    """
    now = program.evaluate(program.terms(parts), parts, parts.slope, parts.extra)
    scores, cuts = [], []
    for layer, r in zip(program.layers, now.r, strict=True):
        low, high = parts.low[:, layer.here], parts.high[:, layer.here]
        cut, bent = _bends(layer, low, high)
        at = np.where(bent, cut, (low + high) >> 1)
        triangle = (at + 0.5 - low) * (high - at - 0.5) / np.maximum(high - low, 1) / layer.step
        open_ = activation(layer.layer, low) < activation(layer.layer, high)
        # No triangle is as small as 2^-60 counts; where nothing is open at all, the widest range.
        size = np.where(bent, 1.0, np.where(open_, 2.0**-60, 0.0)) * (np.abs(r) + 2.0**-30) * triangle
        scores.append(np.where(high > low, size, -1.0))
        cuts.append(at)
    score, place = np.concatenate(scores, axis=1), np.concatenate(cuts, axis=1)
    neuron = score.argmax(axis=1)
    return neuron, place[np.arange(len(parts)), neuron]


def _bends(layer: Scaled, low: Ints, high: Ints) -> tuple[Ints, np.ndarray]:
    """The last accumulator before a bend of the clamp inside the range, and whether there is one."""
    own = layer.layer
    if own.activation == "none":
        return low, np.zeros(low.shape, bool)
    # q ≤ low just up to ((low + 1) << s) - rounding - 1, and q < high just up to (high << s) - rounding - 1.
    first, second = ((bound << own.shift) - own.rounding - 1 for bound in (own.low + 1, own.high))
    inside = [(low <= cut) & (cut < high) for cut in (first, second)]
    return np.where(inside[0], first, np.where(inside[1], second, low)), inside[0] | inside[1]


def _settled(program: Program, parts: Parts) -> dual.Floats:
    """Slopes to go on from: 0 where an activation is constant, 1 where no bend is left."""
    slope = parts.slope.copy()
    for layer in program.layers:
        low, high = parts.low[:, layer.here], parts.high[:, layer.here]
        flat = activation(layer.layer, low) == activation(layer.layer, high)
        bent = _bends(layer, low, high)[1]
        slope[:, layer.here] = np.where(flat, 0.0, np.where(bent, slope[:, layer.here], 1.0))
    return slope
