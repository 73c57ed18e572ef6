"""Deciding goals: what is proven is true of every input, what is refuted has an input, the rest is undecided."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds import decide as deciding
from sitsedge.compiler.bounds import milp
from sitsedge.compiler.bounds.attack import attack
from sitsedge.compiler.bounds.crown import crown
from sitsedge.compiler.bounds.decide import decide, points_of
from sitsedge.compiler.bounds.goal import Goal, at_least, at_most
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from tests.sitsedge.compiler.nets import interesting_rows, random_model


def _soon(seconds: float = 1.0) -> float:
    return time.monotonic() + seconds


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), bound=st.integers(-2000, 2000))
def test_a_goal_says_exactly_what_the_output_does(seed: int, bound: int) -> None:
    model = random_model(seed)
    rows = interesting_rows(model, 0)
    outputs = model.run(rows)[:, 0]
    bound = int(outputs[bound % len(outputs)]) + bound % 3 - 1
    for make, broken in ((at_most, outputs > bound), (at_least, outputs < bound)):
        goal = make(model, model.box_low, model.box_high, 0, bound)
        if isinstance(goal, bool):
            assert np.all(broken != goal)
        else:
            assert np.array_equal(goal.excess(rows) > 0, broken)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1))
def test_proven_survives_samples_and_attack_and_refuted_reproduces(seed: int, share: float) -> None:
    model = random_model(seed)
    known = crown(model).ranges[-1]
    sampled = int(model.run(interesting_rows(model, 1, 300))[:, 0].max())
    bound = sampled + round(share * (int(known.out_high[0]) - sampled))
    goal = at_most(model, model.box_low, model.box_high, 0, bound)
    if isinstance(goal, bool):
        return
    decision = decide(goal, _soon(0.3))
    if decision.verdict == "proven":
        rows = np.random.default_rng(seed).integers(model.box_low, model.box_high + 1, (5000, model.n_inputs))
        assert model.run(rows)[:, 0].max() <= bound
        assert attack(goal, _soon(), seed=seed)[1] <= 0
    elif decision.verdict == "refuted":
        assert decision.counterexample is not None
        assert model.run(decision.counterexample)[0] > bound
    else:
        assert decision.counterexample is None


def _small(seed: int) -> tuple[IntegerModel, int]:
    """A model with a box small enough to try out, and its true maximum."""
    model = random_model(seed, widths=[3, 6, 6, 1])
    low = model.box_low
    model = IntegerModel.make(model.layers, low, np.minimum(model.box_high, low + 11))
    points = points_of(model.box_low, model.box_high)
    assert points is not None
    return model, int(model.run(points)[:, 0].max())


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", ["exhaustive", "split", "milp"])
def test_each_method_alone_agrees_with_trying_everything(seed: int, method: str) -> None:
    model, largest = _small(seed)
    for bound, true in ((largest, True), (largest - 1, False)):
        goal = at_most(model, model.box_low, model.box_high, 0, bound)
        if isinstance(goal, bool):
            assert goal == true
            continue
        whole = crown(model)
        if method == "milp":
            outcome = milp.solve(goal, whole, _soon(2))
            assert not outcome.proven or true
            continue
        points = points_of(goal.low, goal.high)
        assert points is not None
        decision = (
            deciding.exhaustive(goal, points) if method == "exhaustive" else deciding.split(goal, whole, _soon(60))
        )
        assert decision.verdict == ("proven" if true else "refuted")


def _ridge() -> IntegerModel:
    """y = 40·x1 + 40·x2 - 50·|x1 + x2|: never above 0, but linear bounds see either half of the ridge alone."""
    first = IntegerLayer.make(
        weights=[[1, 0], [0, 1], [1, 1], [-1, -1]], bias=[1000, 1000, 0, 0], shift=0, activation="relu"
    )
    second = IntegerLayer.make(weights=[[40, 40, -50, -50]], bias=-80_000, shift=0)
    return IntegerModel.make((first, second), [-1000, -1000], [1000, 1000])


def test_the_solver_s_dual_bound_proves_what_linear_bounds_leave_open() -> None:
    model = _ridge()
    assert crown(model).ranges[-1].acc_high[0] > 1000
    goal = at_most(model, model.box_low, model.box_high, 0, 1000)
    assert isinstance(goal, Goal)
    assert milp.solve(goal, crown(model), _soon(20)).proven
    tight = at_most(model, model.box_low, model.box_high, 0, -1)
    assert isinstance(tight, Goal)
    outcome = milp.solve(tight, crown(model), _soon(20))
    assert not outcome.proven
    assert outcome.candidate is not None
    assert tight.excess(outcome.candidate[None])[0] > 0


def test_undecided_is_never_called_proven_when_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _ridge()
    goal = at_most(model, model.box_low, model.box_high, 0, 1000)
    assert isinstance(goal, Goal)
    assert decide(goal, time.monotonic() - 1).verdict == "undecided"
    monkeypatch.setattr(milp, "available", lambda: False)
    outcome = milp.solve(goal, crown(model), _soon())
    assert not outcome.proven
    assert "scipy" in outcome.reason


def test_a_solver_that_claims_a_wrong_solution_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its candidate is run on the reference: one that breaks nothing refutes nothing."""
    model = _ridge()
    goal = at_most(model, model.box_low, model.box_high, 0, 0)
    assert isinstance(goal, Goal)
    claim = milp.Outcome(False, "claimed", np.zeros(2, np.int64))
    monkeypatch.setattr(milp, "solve", lambda *_: claim)
    monkeypatch.setattr(deciding, "SPLIT_SHARE", 0.0)
    assert decide(goal, _soon(0.2)).verdict == "undecided"
