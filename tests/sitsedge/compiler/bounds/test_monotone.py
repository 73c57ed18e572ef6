"""Monotonicity against pairs of inputs that differ in one element."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds.monotone import Monotone, _Part, decide_monotone, largest_fall, searched_fall
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from tests.sitsedge.compiler.nets import random_model


def _goal(model: IntegerModel, element: int, sign: int, tolerance: int) -> Monotone:
    return Monotone(model, model.box_low, model.box_high, 0, element, sign, tolerance)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sign=st.sampled_from([1, -1]), slack=st.integers(0, 40))
def test_proven_holds_for_sampled_pairs_and_refuted_reproduces(seed: int, sign: int, slack: int) -> None:
    model = random_model(seed)
    rng = np.random.default_rng(seed)
    j = int(rng.integers(model.n_inputs))
    first = rng.integers(model.box_low, model.box_high + 1, (4000, model.n_inputs))
    second = first.copy()
    second[:, j] = rng.integers(first[:, j], model.box_high[j] + 1)
    goal = _goal(model, j, sign, slack)
    decision = decide_monotone(goal, time.monotonic() + 0.2)
    if decision.verdict == "proven":
        assert goal.fall(first, second).max() <= slack
    elif decision.verdict == "refuted":
        assert decision.pair is not None
        smaller, larger = decision.pair
        assert smaller[j] < larger[j]
        assert np.array_equal(np.delete(smaller, j), np.delete(larger, j))
        change = int(model.run(larger)[0]) - int(model.run(smaller)[0])
        assert sign * change < -slack
    else:
        assert decision.pair is None


def _rising() -> IntegerModel:
    """y = relu(3x) + relu(x + 5·z), rounded by 2^3: rises with x wherever z is."""
    first = IntegerLayer.make(weights=[[3, 0], [1, 5]], bias=0, shift=3, activation="relu")
    return IntegerModel.make((first, IntegerLayer.make(weights=[[2, 7]], bias=0, shift=0)), [-900, -900], [900, 900])


def test_a_rising_network_is_proven_within_its_rounding_and_falling_is_refuted() -> None:
    model = _rising()
    # Each of the two roundings may differ by less than one: 2 + 7 counts at most.
    assert decide_monotone(_goal(model, 0, 1, 9), time.monotonic() + 5).verdict == "proven"
    refuted = decide_monotone(_goal(model, 0, -1, 9), time.monotonic() + 5)
    assert refuted.verdict == "refuted"


@pytest.mark.parametrize("sign", [1, -1])
def test_small_boxes_are_tried_out_whole(sign: int) -> None:
    model = IntegerModel.make(_rising().layers, [-20, -20], [20, 20])
    decision = decide_monotone(_goal(model, 0, sign, 0), time.monotonic() + 5)
    assert (decision.verdict, decision.method) == ("proven" if sign > 0 else "refuted", "exhaustive")


def test_undecided_when_time_is_over() -> None:
    decision = decide_monotone(_goal(_rising(), 0, 1, 0), time.monotonic() - 1)
    assert decision.verdict == "undecided"


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sign=st.sampled_from([1, -1]))
def test_searched_bounds_of_falls_hold_and_are_never_looser(seed: int, sign: int) -> None:
    model = random_model(seed, widths=[3, 6, 5, 2] if seed % 2 else [2, 5, 2])
    goal = _goal(model, 0, sign, 0)
    width = int(model.box_high[0] - model.box_low[0])
    rng = np.random.default_rng(seed)
    t_low, t_high = np.sort(rng.integers(0, width + 1, 2))
    high = model.box_high.copy()
    high[0] -= t_low
    part = _Part(model.box_low, high, int(t_low), int(t_high))
    searched = searched_fall(goal, part)
    assert searched <= largest_fall(goal, part)
    first = rng.integers(part.low, part.high + 1, (1000, model.n_inputs))
    second = first.copy()
    second[:, 0] += rng.integers(t_low, np.minimum(t_high, model.box_high[0] - first[:, 0]) + 1)
    assert goal.fall(first, second).max() <= searched
