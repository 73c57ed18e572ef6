"""Random networks over all operators agree in every artefact: a reduced number here, 10,000 inputs each if slow."""

from __future__ import annotations

import numpy as np
import pytest

from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.graph.integer_weighted import Dense
from sitsedge.compiler.graph.reference import run
from tests.sitsedge.compiler import random_agreement
from tests.sitsedge.compiler.importer.wide_nets import NAMES
from tests.sitsedge.compiler.random_agreement import KINDS, Coverage, Disagreement, agree, inputs_of, run_all


@pytest.mark.parametrize("seed", range(0, 60, 15))
def test_random_networks_agree_everywhere(seed: int) -> None:
    found = run_all(count=4, rows=400, seed=seed)
    assert found.networks + len(found.refused) == 4
    assert found.inputs >= 400 * found.networks > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_random_networks_over_every_operator_agree_on_ten_thousand_inputs() -> None:
    found = run_all(count=2 * len(NAMES), rows=10_000, seed=0)
    assert found.missing() == []
    assert found.inputs >= 10_000 * 100


def test_coverage_names_what_no_network_had() -> None:
    assert Coverage().missing() == [*KINDS, *NAMES]


@pytest.mark.parametrize("way", random_agreement.WAYS)
def test_a_difference_in_any_artefact_is_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_agreement.integer_network(1)
    honest = random_agreement._outputs

    def wrong(graph: IntegerGraph, rows: np.ndarray, asked: str, coverage: Coverage) -> np.ndarray:
        got = honest(graph, rows, asked, coverage)
        got[-1] += asked == way
        return got

    monkeypatch.setattr(random_agreement, "_outputs", wrong)
    with pytest.raises(Disagreement, match=f"one: {way} gives"):
        agree(graph, inputs_of(graph, 40, 1), "one", Coverage())


def test_inputs_hold_corners_and_neighbours_between_which_an_output_changes() -> None:
    graph = next(
        graph
        for graph in map(random_agreement.integer_network, range(100))
        if isinstance(graph.nodes[-1], Dense) and graph.n_inputs > 2
    )
    rows = inputs_of(graph, 400, 3)
    assert len(rows) >= 400
    low, high = graph.input.box_low.reshape(-1), graph.input.box_high.reshape(-1)
    assert any((row == low).all() for row in rows)
    assert any((row == high).all() for row in rows)
    a, b = np.split(rows[200:], 2)
    near = np.abs(a - b).max(axis=1) <= 1
    assert np.any(near & (run(graph, a) != run(graph, b)).any(axis=1))
