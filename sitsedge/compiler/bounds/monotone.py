"""Monotonicity: bounds of the difference of a model's outputs at two inputs that differ in one element.

With δ the difference of two accumulators of a neuron and 2^s its step, the difference of its roundings lies in
δ/2^s ± (1 - 2^-s), and clamping never turns a difference round and never makes it larger. So the difference of the
activations lies between two lines over δ, and ``crown.upper_bounds`` runs on differences as it does on values: the
biases cancel, and the input's difference is one number t ≥ 0.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.bounds.crown import Crown, Lines, Range, crown, line_above, upper_bounds
from sitsedge.compiler.bounds.decide import POINTS_MAX, SPLIT_PARTS_MAX, Verdict, points_of
from sitsedge.compiler.bounds.dual import Parts, Program, Scaled, Terms
from sitsedge.compiler.bounds.goal import Goal, run_layers
from sitsedge.compiler.bounds.graph_crown import graph_crown
from sitsedge.compiler.graph.model import GraphModel
from sitsedge.compiler.intervals import layer_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel, Ints

ROWS = 256
POINTS = 33
"""Rows tried, and values of the input for each."""

CHUNK = 4096
"""Rows run at once."""

ATTACK_SHARE, RAISE_SHARE = 0.2, 0.5
"""Of the time left: for the search, then for parts of the raise with bounds that are searched for."""

SEARCH_STEPS = 100
RAISES_MAX = 200
"""Parts of the raise tried; where so many do not do, halving it more does not either."""

ROUNDS_IDLE_MAX = 40
"""Of the search without a worse pair; more rarely find one."""

SEED = 0x4D01


@dataclass(frozen=True, slots=True, eq=False)
class Monotone:
    """``sign · (y(x') - y(x)) ≥ -tolerance`` in counts for x, x' in ``low … high`` with x' ≥ x in ``element`` alone."""

    model: IntegerModel | GraphModel
    low: Ints
    high: Ints
    output: int
    element: int
    sign: int
    tolerance: int

    def fall(self, first: Ints, second: Ints) -> Ints:
        """``sign · (y(first) - y(second))`` for rows, exact; above ``tolerance`` where the property is broken."""
        return self.values(first) - self.values(second)

    def values(self, rows: Ints) -> Ints:
        """``sign · y`` for rows, exact."""
        model = self.model
        run = model.run if isinstance(model, GraphModel) else lambda part: run_layers(model.layers, part)
        parts = [run(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]
        outputs = np.concatenate([part.reshape(len(part), -1)[:, self.output] for part in parts])
        return np.asarray(self.sign * outputs, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PairDecision:
    """What became of it; ``pair`` (2, inputs) in counts only where refuted, the smaller value first."""

    verdict: Verdict
    method: str
    pair: Ints | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """x in ``low … high``, and x' = x + t in one element for t in ``t_low … t_high``."""

    low: Ints
    high: Ints
    t_low: int
    t_high: int


def decide_monotone(goal: Monotone, deadline: float) -> PairDecision:
    """Decide ``goal`` by ``deadline`` (``time.monotonic``)."""
    width = int(goal.high[goal.element] - goal.low[goal.element])
    whole = _Part(goal.low, goal.high, 0, width)
    chain = isinstance(goal.model, IntegerModel)
    if width == 0 or (largest_fall(goal, whole) if chain else _span(goal, deadline)) <= goal.tolerance:
        return PairDecision("proven", "crown")
    if (points := points_of(goal.low, goal.high)) is not None:
        return _exhaustive(goal, points)
    started = time.monotonic()
    pair = worst_pair(goal, started + ATTACK_SHARE * (deadline - started))
    if goal.fall(pair[:1], pair[1:])[0] > goal.tolerance:
        return _refuted(goal, "attack", pair)
    if not isinstance(goal.model, IntegerModel):
        return PairDecision("undecided", "bounds too wide")
    now = time.monotonic()
    if _by_raise(goal, whole, now + RAISE_SHARE * (deadline - now)):
        return PairDecision("proven", "crown+splitting")
    return _split(goal, whole, deadline)


def _span(goal: Monotone, deadline: float) -> int:
    """No output of a graph falls by more than its bounds are apart."""
    assert isinstance(goal.model, GraphModel)
    least, most, _, _ = graph_crown(goal.model.graph, goal.low, goal.high, deadline).output(goal.output)
    return most - least


def _refuted(goal: Monotone, method: str, pair: Ints) -> PairDecision:
    assert goal.fall(pair[:1], pair[1:])[0] > goal.tolerance
    assert np.all(pair[0] <= pair[1])
    assert np.flatnonzero(pair[0] != pair[1]).tolist() == [goal.element]
    return PairDecision("refuted", method, pair)


def largest_fall(goal: Monotone, part: _Part) -> int:
    """Upper bound of ``goal.fall`` over a part of the box of a chain, in counts."""
    _, differences = _followed(goal, part)
    k, last = goal.output, differences.model.layers[-1]
    row = -goal.sign * last.columns()[k : k + 1].astype(np.float64)
    upper, _ = upper_bounds(differences, row, np.zeros(1))
    return _counts(goal, float(upper[0]))


def _counts(goal: Monotone, upper: float) -> int:
    """q(v) - q(v') ≤ ceil((v - v') / 2^s); clamping makes no difference larger."""
    assert isinstance(goal.model, IntegerModel)
    return max(0, -(-int(np.floor(upper)) >> int(goal.model.layers[-1].shift[goal.output])))


def _followed(goal: Monotone, part: _Part) -> tuple[Crown, Crown]:
    """Bounds of values at both inputs, and of the differences, layer by layer."""
    assert isinstance(goal.model, IntegerModel)
    high = part.high.copy()
    high[goal.element] = min(int(high[goal.element]) + part.t_high, int(goal.high[goal.element]))
    values = crown(goal.model, part.low, high)
    low_t, high_t = np.zeros_like(part.low), np.zeros_like(part.high)
    low_t[goal.element], high_t[goal.element] = part.t_low, part.t_high
    layers = tuple(replace(layer, bias=np.zeros_like(layer.bias)) for layer in goal.model.layers)
    differences = Crown(IntegerModel(layers, low_t, high_t), low_t, high_t, (), ())
    for layer, bound in zip(layers[:-1], values.ranges[:-1], strict=True):
        acc = _differences(layer, differences, layer.columns().astype(np.float64))
        lines, out_low, out_high = _relax(layer, bound, *acc)
        differences = replace(
            differences,
            ranges=(*differences.ranges, Range(*acc, out_low, out_high)),
            lines=(*differences.lines, lines),
        )
    return values, differences


def searched_fall(goal: Monotone, part: _Part) -> int:
    """As ``largest_fall``, with multipliers that are searched for: tighter, and dozens of times the work."""
    values, differences = _followed(goal, part)
    asked = Goal(differences.model, differences.low, differences.high, goal.output, -goal.sign, 0)
    program = Program.of(asked)
    if not program.layers:
        return largest_fall(goal, part)
    ranges = differences.ranges
    low, high = (np.concatenate([getattr(r, name) for r in ranges])[None] for name in ("acc_low", "acc_high"))
    slope = np.zeros(low.shape)
    r = program.target[None]
    terms = []
    for layer, lines in zip(reversed(program.layers), reversed(differences.lines), strict=True):
        slope[:, layer.here] = np.where(r >= 0, lines.upper_slope, lines.lower_slope) * layer.step
        r = (slope[:, layer.here] * r) @ layer.weights
    for layer, bound, differing in zip(program.layers, values.ranges, ranges, strict=False):
        terms.append(_terms(layer, bound, differing))
    parts = Parts(differences.low[None], differences.high[None], low, high, slope, np.zeros(low.shape))
    upper = program.ascend(parts, SEARCH_STEPS, tuple(terms))[1]
    return min(largest_fall(goal, part), _counts(goal, float(upper[0])))


def _terms(layer: Scaled, bound: Range, differing: Range) -> Terms:
    """A difference of activations lies in clip(δ ± (1 - 2^-s)), between bounds as in ``_relax``."""
    reach, turn = _reach(layer.layer, bound)
    ends = differing.acc_low / layer.step, differing.acc_high / layer.step
    off = (layer.step - 1) / layer.step
    points = []
    for shift, least, most in ((off, turn, reach), (-off, -reach, -turn)):
        p = np.stack([*ends, np.clip(least - shift, *ends), np.clip(most - shift, *ends)])[:, None]
        points += [p, np.clip(p + shift, least, most)]
    return Terms(*points)


def _by_raise(goal: Monotone, whole: _Part, deadline: float) -> bool:
    """Whether searched bounds prove every raise, in parts of the raise that are halved where they do not."""
    parts, tried = [whole], 0
    while parts:
        part = parts.pop()
        tried += 1
        if time.monotonic() > deadline or tried > RAISES_MAX:
            return False
        # x + t has to stay in the box.
        high = part.high.copy()
        high[goal.element] = goal.high[goal.element] - part.t_low
        if searched_fall(goal, replace(part, high=high)) <= goal.tolerance:
            continue
        if part.t_low == part.t_high:
            return False
        parts += _halves(part, part.low.size)
    return True


def _differences(layer: IntegerLayer, known: Crown, columns: np.ndarray) -> tuple[Ints, Ints]:
    """Bounds of the differences of the next layer's accumulators."""
    before = known.ranges[-1] if known.ranges else None
    plain = layer_bounds(layer, *((known.low, known.high) if before is None else (before.out_low, before.out_high)))
    upper, _ = upper_bounds(known, np.concatenate([columns, -columns]), np.zeros(2 * len(columns)))
    whole = np.floor(upper).astype(np.int64)
    return np.maximum(plain.acc_low, -whole[len(columns) :]), np.minimum(plain.acc_high, whole[: len(columns)])


def _reach(layer: IntegerLayer, bound: Range) -> tuple[Ints, Ints]:
    """The largest difference of activations, and the smallest one that a rising line above has to reach."""
    reach = bound.out_high - bound.out_low
    free = np.ones(len(reach), bool)
    if layer.activation != "none":
        q_low, q_high = ((acc + layer.rounding) >> layer.shift for acc in (bound.acc_low, bound.acc_high))
        free = (q_low >= layer.low) & (q_high <= layer.high)
    # Where a clamp may hold one of the two, the difference lies anywhere between its full size and zero.
    return reach, np.where(free, -reach, 0)


def _relax(layer: IntegerLayer, bound: Range, low: Ints, high: Ints) -> tuple[Lines, Ints, Ints]:
    """Lines and bounds of the activations' differences for accumulators' differences in ``low … high``."""
    step = np.int64(1) << layer.shift
    reach, turn = _reach(layer, bound)
    parts = [array.astype(np.float64) for array in (low, high, step - 1, step, turn, reach)]
    v_low, v_high, shift, size, bottom, top = parts
    upper = line_above(v_low, v_high, shift, size, bottom, top)
    slope, offset = line_above(-v_high, -v_low, shift, size, bottom, top)
    out_high = np.clip((high + step - 1) >> layer.shift, turn, reach)
    out_low = -np.clip((-low + step - 1) >> layer.shift, turn, reach)
    return Lines(*upper, slope, -offset), out_low, out_high


def _exhaustive(goal: Monotone, points: Ints) -> PairDecision:
    """Every pair of a small box: the largest value before each point, along the element."""
    assert len(points) <= POINTS_MAX
    shape = tuple(int(size) for size in goal.high - goal.low + 1)
    values = goal.values(points).reshape(shape)
    falls = np.maximum.accumulate(values, axis=goal.element) - values
    at = np.unravel_index(int(falls.argmax()), shape)
    if falls[at] <= goal.tolerance:
        return PairDecision("proven", "exhaustive")
    line = tuple(slice(None) if j == goal.element else int(i) for j, i in enumerate(at))
    end = int(at[goal.element])
    second = goal.low + np.array(at, dtype=np.int64)
    first = second.copy()
    first[goal.element] = goal.low[goal.element] + int(values[line][: end + 1].argmax())
    return _refuted(goal, "exhaustive", np.stack([first, second]))


def worst_pair(goal: Monotone, deadline: float) -> Ints:
    """The pair that falls most, from lines through random rows that then move coordinate by coordinate.

    Stops early at one that breaks the goal, and after ``ROUNDS_IDLE_MAX`` rounds without gain.
    """
    rng = np.random.default_rng(SEED)
    j = goal.element
    grid = np.unique(np.rint(np.linspace(goal.low[j], goal.high[j], POINTS)).astype(np.int64))
    # Neighbours show the roundings, the grid shows the slope.
    values = np.unique(np.clip(np.concatenate([grid, grid + 1, grid + 2]), goal.low[j], goal.high[j]))

    def worst(rows: Ints) -> tuple[Ints, int, Ints]:
        lines = np.repeat(rows[:, None], len(values), axis=1)
        lines[:, :, j] = values
        outputs = goal.values(lines.reshape(-1, rows.shape[1])).reshape(len(rows), -1)
        before = np.maximum.accumulate(outputs, axis=1)
        row, end = np.unravel_index(int((before - outputs).argmax()), outputs.shape)
        start = int(outputs[row, : end + 1].argmax())
        return rows[row], int(before[row, end] - outputs[row, end]), lines[row, [start, int(end)]]

    row, fall, pair = worst(rng.integers(goal.low, goal.high + 1, (ROWS, goal.low.size)))
    idle = 0
    while fall <= goal.tolerance and idle < ROUNDS_IDLE_MAX and time.monotonic() < deadline:
        rows = np.repeat(row[None], ROWS, axis=0)
        moved = rng.random(rows.shape) < 2 / rows.shape[1]
        rows = np.where(moved, rng.integers(goal.low, goal.high + 1, rows.shape), rows)
        better, larger, its_pair = worst(rows)
        idle += 1
        if larger > fall:
            row, fall, pair, idle = better, larger, its_pair, 0
    return pair


def _split(goal: Monotone, whole: _Part, deadline: float) -> PairDecision:
    """Halve box or distance, worst part first, along the side that is largest beside the whole's."""
    order = itertools.count()
    spans = np.append(whole.high - whole.low, whole.t_high).astype(np.float64)
    parts: list[tuple[int, int, _Part]] = [(-largest_fall(goal, whole), next(order), whole)]
    while parts:
        if time.monotonic() > deadline or len(parts) > SPLIT_PARTS_MAX:
            return PairDecision("undecided", "time")
        part = heapq.heappop(parts)[2]
        sizes = np.append(part.high - part.low, part.t_high - part.t_low)
        side = int((sizes / np.maximum(spans, 1)).argmax())
        if sizes[side] == 0:
            # One pair: the search's own test of it decides.
            pair = np.stack([part.low, part.low])
            pair[1, goal.element] += part.t_low
            if goal.fall(pair[:1], pair[1:])[0] > goal.tolerance:
                return _refuted(goal, "crown+splitting", pair)
            continue
        for half in _halves(part, side):
            # x + t has to stay in the box.
            if half.low[goal.element] + half.t_low > goal.high[goal.element]:
                continue
            fall = largest_fall(goal, half)
            if fall > goal.tolerance:
                heapq.heappush(parts, (-fall, next(order), half))
    return PairDecision("proven", "crown+splitting")


def _halves(part: _Part, side: int) -> tuple[_Part, _Part]:
    if side == part.low.size:
        middle = (part.t_low + part.t_high) // 2
        return replace(part, t_high=middle), replace(part, t_low=middle + 1)
    low, high = part.low.copy(), part.high.copy()
    middle = (int(low[side]) + int(high[side])) // 2
    high[side], low[side] = middle, middle + 1
    return replace(part, high=high), replace(part, low=low)
