"""Weights of twelve bits: the same sums from two of eight, and the default goal met by small convolution networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.graph import integer_weighted as iw
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.quantise import Goal
from sitsedge.compiler.quantiser import search
from sitsedge.compiler.quantiser.fine import FINE_IN_SHIFT_MAX, FINE_WEIGHT_MAX, split, twice
from sitsedge.compiler.quantiser.formats import Format
from sitsedge.compiler.quantiser.problem import pose
from sitsedge.compiler.quantiser.reasons import EIGHT_BITS_DO
from sitsedge.compiler.quantiser.search import quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph, choosing, trial
from sitsedge.compiler.quantiser.weights import Layer
from sitsedge.compiler.reference import IN_SHIFT_MAX, WEIGHT_MAX
from tests.sitsedge.compiler.quantiser.float_nets import Case, cnn_1d
from tests.sitsedge.compiler.quantiser.test_quantise_graph import FIT_ROWS, relu_cnn, unseen_error


def a_layer(groups: int, per_group: int, outputs: int) -> Layer:
    weights = np.zeros((outputs, per_group, 1, 1))
    channels = groups * per_group
    return Layer(
        weights, np.zeros(outputs), (1, 1), (0, 0, 0, 0), (1, 1), groups, -np.inf, np.inf, (channels, 1, 1),
        (outputs, 1, 1),
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_the_halves_of_a_weight_give_its_sums(data: st.DataObject, groups: int, per_group: int) -> None:
    outputs, channels = 2 * groups, groups * per_group
    layer = a_layer(groups, per_group, outputs)
    numbers = st.integers(-FINE_WEIGHT_MAX, FINE_WEIGHT_MAX)
    weights = np.array(data.draw(st.lists(numbers, min_size=outputs * per_group, max_size=outputs * per_group)))
    weights = weights.reshape(outputs, per_group, 1, 1)
    shifts = np.array(data.draw(st.lists(st.integers(0, FINE_IN_SHIFT_MAX), min_size=channels, max_size=channels)))
    halves, both = split(layer, weights, shifts)
    assert np.abs(halves).max() <= WEIGHT_MAX
    assert both.max() <= IN_SHIFT_MAX
    x = np.random.default_rng(channels).integers(-100, 101, (5, channels))
    order = twice(channels, groups)
    doubled = iw.Conv.make("d", "x", weights=halves, in_shift=both, groups=groups)
    of_group = (x << shifts).reshape(5, groups, per_group)
    wanted = np.einsum("rgc,goc->rgo", of_group, weights.reshape(groups, -1, per_group)).reshape(5, outputs)
    got = np.einsum(
        "rgc,goc->rgo",
        x[:, order].reshape(5, groups, -1),
        doubled.columns().reshape(groups, -1, 2 * per_group),
    ).reshape(5, outputs)
    np.testing.assert_array_equal(got, wanted)


def trials(made: Case, *formats: Format) -> list[QuantisedGraph]:
    problem = pose(made.graph, made.scales, made.counts[:FIT_ROWS], made.raw[:FIT_ROWS], class_output=False)
    return [trial(problem, dict.fromkeys(choosing(problem), format_), Goal(), {}) for format_ in formats]


def test_twelve_bits_are_several_times_nearer_than_eight_and_cost_few_rows() -> None:
    eight, twelve = trials(relu_cnn(1), Format(12, saturate=False), Format(12, saturate=False, fine=True))
    assert twelve.rms < eight.rms / 3
    assert twelve.rows < 1.3 * eight.rows
    assert max(np.abs(node.weights).max() for node in twelve.graph.nodes if isinstance(node, iw.Dense | iw.Conv)) <= 127
    prove(twelve.graph)


def test_a_small_convolution_network_meets_the_default_goal() -> None:
    made = cnn_1d(1)
    found = quantise_graph(made.graph, made.scales, made.counts[:FIT_ROWS], made.raw[:FIT_ROWS], goal=Goal())
    assert found.meets_goal
    assert any(format_.fine for format_ in found.formats.values())
    error = unseen_error(made, found)
    assert np.sqrt((error**2).mean(axis=0)).max() < 2 * Goal().rms


def test_layers_get_eight_bits_back_where_the_goal_is_still_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "RESERVE", 1.0)
    made = cnn_1d(1)
    found = quantise_graph(made.graph, made.scales, made.counts[:FIT_ROWS], made.raw[:FIT_ROWS], goal=Goal())
    assert found.meets_goal
    assert {format_.fine for format_ in found.formats.values()} == {False, True}
    assert EIGHT_BITS_DO in found.reasons.values()


def test_eight_bits_stay_where_they_meet_the_goal() -> None:
    made = relu_cnn(1)
    rows = made.counts[:FIT_ROWS], made.raw[:FIT_ROWS]
    found = quantise_graph(made.graph, made.scales, *rows, goal=Goal(0.01, 0.05))
    assert found.meets_goal
    assert not any(format_.fine for format_ in found.formats.values())
