"""The Lagrangian bound against the integer reference and against itself in exact arithmetic."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds.branch import _whole
from sitsedge.compiler.bounds.crown import activation, crown
from sitsedge.compiler.bounds.dual import Parts, Program
from sitsedge.compiler.bounds.goal import Goal
from tests.sitsedge.compiler.nets import interesting_rows, random_model


def _question(seed: int) -> tuple[Goal, Parts]:
    """A goal of a random model of two layers or more, and its box as one part."""
    model = random_model(seed, widths=[3, 5, 4, 2] if seed % 2 else [4, 6, 2])
    goal = Goal(model, model.box_low, model.box_high, seed % 2, 1 if seed % 3 else -1, 1000)
    return goal, _whole(goal, list(crown(model).ranges))


def _some(part: Parts, seed: int, size: float) -> Parts:
    """With multipliers that nothing speaks for."""
    rng = np.random.default_rng(seed)
    shape = part.low.shape
    return replace(part, slope=rng.uniform(-0.5, 1.5, shape), extra=rng.normal(0, size, shape))


def _exact(goal: Goal, part: Parts) -> Fraction:
    """The bound at the part's multipliers without rounding errors, by the formula of the module's docstring."""
    layers = Program.of(goal).layers
    last, k = goal.model.layers[-1], goal.output
    r = [goal.sign * Fraction(int(w)) for w in last.columns()[k]]
    total = Fraction(goal.sign * int(last.bias[k]) - goal.threshold)
    float_r = Program.of(goal).target[None]
    for layer in reversed(layers):
        own = layer.layer
        # The multipliers are the floats that were computed; what follows from them is exact.
        mu = (part.slope[:, layer.here] * float_r + part.extra[:, layer.here])[0]
        for i in range(len(r)):
            step, m = 1 << int(own.shift[i]), Fraction(float(mu[i]))
            ends = [int(part.low[0, layer.first + i]), int(part.high[0, layer.first + i])]
            outs = [int(activation(own, np.full(len(r), v))[i]) for v in ends]
            shift = int(own.rounding[i]) if r[i] >= 0 else int(own.rounding[i]) - step + 1
            points = {Fraction(v, step) for v in ends}
            points |= {min(max(out - Fraction(shift, step), min(points)), max(points)) for out in outs}
            values = [r[i] * min(max(p + Fraction(shift, step), outs[0]), outs[1]) - m * p for p in points]
            total += max(values) + m * Fraction(int(own.bias[i]), step)
        columns = own.columns()
        scale = [Fraction(float(x)) / (1 << int(s)) for x, s in zip(mu, own.shift, strict=True)]
        r = [sum((s * int(w) for s, w in zip(scale, column, strict=True)), Fraction(0)) for column in columns.T]
        float_r = mu[None] @ layer.weights
    for x, low, high in zip(r, part.box_low[0], part.box_high[0], strict=True):
        total += max(x * int(low), x * int(high))
    return total


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.0, 1.0, 1e3]))
def test_any_multipliers_bound_every_value_and_the_exact_bound(seed: int, size: float) -> None:
    goal, part = _question(seed)
    part = _some(part, seed, size)
    program = Program.of(goal)
    bound = float(program.certified(program.terms(part), part)[0])
    assert goal.excess(interesting_rows(goal.model, seed, 60)).max() <= bound
    exact = _exact(goal, part)
    assert exact <= Fraction(bound)
    assert bound - float(exact) <= 1e-6 * (abs(bound) + 1)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_steps_never_make_a_bound_worse_and_it_holds(seed: int) -> None:
    goal, part = _question(seed)
    program = Program.of(goal)
    start = program.start(part)
    before = program.certified(program.terms(start), start)[0]
    found, after = program.ascend(start, 30)
    assert after[0] <= before + 1e-4 * (abs(before) + 1)
    assert goal.excess(interesting_rows(goal.model, seed, 60)).max() <= after[0]
    assert np.all((found.slope >= 0) & (found.slope <= 1))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), r=st.floats(-100, 100), mu=st.floats(-100, 100))
def test_four_points_are_all_it_takes(seed: int, r: float, mu: float) -> None:
    """No accumulator in the range has a larger r·a - μ·p than the best of the four."""
    goal, part = _question(seed)
    layer = Program.of(goal).layers[0]
    terms = Program.of(goal).terms(part)[0]
    size = layer.bias.size
    best = terms.best(np.full((1, size), r), np.full((1, size), mu))[0][0]
    for share in np.linspace(0, 1, 101):
        low, high = part.low[0, layer.here], part.high[0, layer.here]
        v = low + np.rint(share * (high - low)).astype(np.int64)
        value = r * activation(layer.layer, v) - mu * (v / layer.step)
        assert np.all(value <= best + 1e-9 * (1 + np.abs(best) + np.abs(mu * v / layer.step)))
