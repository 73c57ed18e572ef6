"""Properties of graphs that are no chains: proven by intervals or trying all, refuted by an input, or undecided."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds.graphs import Between, decide_between, output_bounds
from sitsedge.compiler.bounds.monotone import Monotone, decide_monotone
from sitsedge.compiler.graph.integer_graph import Input
from sitsedge.compiler.graph.model import GraphModel
from tests.support.random_graphs import random_graph


def _part(model: GraphModel, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A part of the box, and rows inside."""
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(model.box_low, model.box_high + 1, (2, model.n_inputs)), axis=0)
    return ends[0], ends[1], rng.integers(ends[0], ends[1] + 1, (60, model.n_inputs))


def _outputs(model: GraphModel, rows: np.ndarray) -> np.ndarray:
    return model.run(rows).reshape(len(rows), -1)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_intervals_of_a_part_of_the_box_hold(seed: int) -> None:
    model = GraphModel(random_graph(seed))
    low, high, rows = _part(model, seed)
    lows, highs = output_bounds(model.graph, low, high)
    outputs = _outputs(model, rows)
    assert np.all((lows <= outputs) & (outputs <= highs))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), share=st.floats(0, 1))
def test_proven_holds_for_samples_and_refuted_reproduces(seed: int, share: float) -> None:
    model = GraphModel(random_graph(seed))
    low, high, rows = _part(model, seed)
    sampled = _outputs(model, rows)[:, 0]
    lows, highs = output_bounds(model.graph, low, high)
    most = int(sampled.max()) + round(share * int(highs[0] - sampled.max())) - int(share < 0.2)
    goal = Between(model, low, high, 0, int(lows[0]), most)
    decision = decide_between(goal, time.monotonic() + 0.2)
    if decision.verdict == "proven":
        assert sampled.max() <= most
    elif decision.verdict == "refuted":
        assert decision.counterexample is not None
        assert np.all((low <= decision.counterexample) & (decision.counterexample <= high))
        assert _outputs(model, decision.counterexample[None])[0, 0] > most
    else:
        assert most < highs[0]


@pytest.mark.parametrize("seed", range(6))
def test_monotone_in_a_graph_is_what_pairs_show(seed: int) -> None:
    graph = random_graph(seed)
    flat_low = graph.input.box_low.reshape(-1)
    # Two elements may move, the others stay: small enough to try out.
    high = flat_low.copy()
    high[:2] = np.minimum(high[:2] + 9, graph.input.box_high.reshape(-1)[:2])
    shape = graph.input.shape
    source = Input.make(graph.input.name, shape, box_low=flat_low.reshape(shape), box_high=high.reshape(shape))
    model = GraphModel(replace(graph, input=source))
    for sign in (1, -1):
        goal = Monotone(model, flat_low, high, 0, 0, sign, 0)
        decision = decide_monotone(goal, time.monotonic() + 5)
        others = int(high[1] - flat_low[1]) + 1 if high.size > 1 else 1
        lines = [goal.values(_line(flat_low, high, second)) for second in range(others)]
        falls = max(int((np.maximum.accumulate(line) - line).max()) for line in lines)
        assert decision.verdict == ("refuted" if falls > 0 else "proven")


def _line(low: np.ndarray, high: np.ndarray, second: int) -> np.ndarray:
    """All values of element 0, element 1 at its low plus ``second``."""
    rows = np.repeat(low[None], int(high[0] - low[0]) + 1, axis=0)
    if low.size > 1:
        rows[:, 1] += second
    rows[:, 0] = np.arange(low[0], high[0] + 1)
    return rows
