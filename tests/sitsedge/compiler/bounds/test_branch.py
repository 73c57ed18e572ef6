"""Branch and bound over neurons: agrees with trying everything, and stops where it has to."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds import branch as branching
from sitsedge.compiler.bounds import milp
from sitsedge.compiler.bounds.branch import branch, tightened
from sitsedge.compiler.bounds.crown import crown
from sitsedge.compiler.bounds.decide import decide, points_of
from sitsedge.compiler.bounds.goal import Goal, at_most
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from tests.sitsedge.compiler.nets import interesting_rows, random_model


def _soon(seconds: float = 0.1) -> float:
    return time.monotonic() + seconds


def _whole_model(goal: Goal, deadline: float) -> branching.Outcome:
    return branch(goal, tightened(goal, crown(goal.model, goal.low, goal.high), deadline)[1], deadline)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_tightened_ranges_hold_and_are_never_wider(seed: int) -> None:
    model = random_model(seed, widths=[3, 6, 5, 2])
    goal = Goal(model, model.box_low, model.box_high, 0, 1, 0)
    known = crown(model)
    narrow = tightened(goal, known, _soon(60))[0]
    value = interesting_rows(model, seed, 60)
    for layer, old, new in zip(model.layers, known.ranges, narrow.ranges, strict=True):
        acc, value = layer.accumulate(value), layer.run(value)
        assert np.all((new.acc_low <= acc) & (acc <= new.acc_high))
        assert np.all((new.out_low <= value) & (value <= new.out_high))
        assert np.all((old.acc_low <= new.acc_low) & (new.acc_high <= old.acc_high))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), more=st.integers(-1, 40))
def test_what_it_says_is_what_trying_every_input_says(seed: int, more: int) -> None:
    model = random_model(seed, widths=[3, 6, 6, 1])
    low = model.box_low
    high = np.minimum(model.box_high, low + 11)
    points = points_of(low, high)
    assert points is not None
    largest = int(model.run(points)[:, 0].max())
    goal = at_most(model, low, high, 0, largest + more)
    if isinstance(goal, bool):
        return
    outcome = _whole_model(goal, _soon())
    excess = goal.excess(points).max()
    if outcome.proven:
        assert more >= 0
    elif outcome.row is not None:
        assert goal.excess(outcome.row[None])[0] > 0
        assert np.all((low <= outcome.row) & (outcome.row <= high))
    else:
        assert excess <= outcome.excess


def _ridges() -> IntegerModel:
    """y = Σ 3·relu(z) - 4·relu(-z) of eight sums z: bends that lines see one side of at a time."""
    pairs = np.random.default_rng(8).integers(-3, 4, (8, 20))
    first = IntegerLayer.make(weights=np.concatenate([pairs, -pairs]), bias=0, shift=0, activation="relu")
    second = IntegerLayer.make(weights=[[3] * 8 + [-4] * 8], bias=0, shift=0)
    return IntegerModel.make((first, second), [-50] * 20, [50] * 20)


def _reached(model: IntegerModel) -> int:
    """The largest output that corners and samples show; the true one is larger."""
    return int(model.run(interesting_rows(model, 0, 2000))[:, 0].max())


def _true(model: IntegerModel) -> Goal:
    """A goal that holds, a quarter of the way from there to where linear bounds prove it at once."""
    reached, top = _reached(model), int(crown(model).ranges[-1].acc_high[0])
    goal = at_most(model, model.box_low, model.box_high, 0, reached + (top - reached) // 4)
    assert isinstance(goal, Goal)
    return goal


def test_it_proves_what_linear_bounds_leave_open_in_many_dimensions() -> None:
    goal = _true(_ridges())
    assert crown(goal.model).ranges[-1].acc_high[0] > goal.threshold
    assert _whole_model(goal, _soon(30)).proven
    assert decide(goal, _soon(60)).method == "crown+branching"


def test_an_input_that_breaks_the_goal_is_found_where_bounds_are_attained() -> None:
    model = _ridges()
    goal = at_most(model, model.box_low, model.box_high, 0, _reached(model) // 2)
    assert isinstance(goal, Goal)
    outcome = _whole_model(goal, _soon(30))
    assert outcome.row is not None
    assert goal.excess(outcome.row[None])[0] > 0


def test_no_time_is_no_proof() -> None:
    outcome = _whole_model(_true(_ridges()), time.monotonic() - 1)
    assert (outcome.proven, outcome.row, outcome.parts) == (False, None, 0)


def test_no_memory_is_no_proof_and_says_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = _true(_ridges())
    monkeypatch.setattr(branching, "POOL_BYTES_MAX", 0)
    monkeypatch.setattr(milp, "available", lambda: False)
    outcome = _whole_model(goal, _soon(30))
    assert not outcome.proven
    # The bound of the whole box is all it has.
    assert outcome.parts == 1
    decision = decide(goal, _soon(30))
    assert decision.verdict == "undecided"
    assert decision.excess is not None
    assert goal.output_bound(decision.excess) > goal.threshold
