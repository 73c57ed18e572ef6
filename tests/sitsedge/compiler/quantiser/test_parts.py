"""The quantiser's parts: lowering keeps the function, scales bind what must be bound, ranges, slopes, estimates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.circuit_plan import count_constraints
from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.graph.float_graph import FloatGraph
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.quantiser.build import slope
from sitsedge.compiler.quantiser.cost import circuit_rows
from sitsedge.compiler.quantiser.factors import shared_factors
from sitsedge.compiler.quantiser.formats import Format
from sitsedge.compiler.quantiser.lower import lower
from sitsedge.compiler.quantiser.problem import pose
from sitsedge.compiler.quantiser.ranges import MARGIN, reach
from sitsedge.compiler.quantiser.scales import CHANNEL, FREE, SINGLE, adapt_input, demands, freedom, give_back
from sitsedge.compiler.reference import IntegerModel
from tests.sitsedge.compiler.nets import models
from tests.sitsedge.compiler.quantiser.float_nets import CASES, Net

WIDE = 1e6


def everything(graph: FloatGraph, top: float = 1.0) -> dict[str, np.ndarray]:
    return {node.name: np.full(node.shape, top) for node in graph.nodes}


@pytest.mark.parametrize("name", [name for name in CASES if name != "classifier"])
def test_lowering_computes_the_same(name: str) -> None:
    made = CASES[name](3)
    lowered = lower(made.graph, class_output=False)
    lowered = adapt_input(lowered, made.scales.inputs.reshape(made.graph.input.shape))
    finished, _ = give_back(lowered, made.scales.outputs, everything(lowered, WIDE))
    wanted = run(made.graph, made.raw).reshape(len(made.raw), -1)
    np.testing.assert_allclose(run(finished, made.raw).reshape(wanted.shape), wanted, rtol=1e-12, atol=1e-12)


def test_a_softmax_of_a_class_output_becomes_its_largest_element() -> None:
    made = CASES["classifier"](3)
    lowered = lower(made.graph, class_output=True)
    np.testing.assert_array_equal(run(lowered, made.raw)[:, 0], run(made.graph, made.raw).argmax(axis=1))


def test_a_table_has_its_own_argument_where_others_read_it() -> None:
    net = Net(0, (2,))
    x = net.dense("x", 2)
    graph = lower(net.graph(net.plus(x, net.function(x, "tanh"))), class_output=False)
    assert [node.kind for node in graph.nodes[1:]] == ["Dense", "Clamp", "Function", "Sum"]


def test_what_readers_demand() -> None:
    net = Net(0, (2, 6))
    into_dense = net.conv("x", 3)
    into_conv = net.conv("x", 3)
    into_table = net.conv("x", 3)
    turned = net.conv("x", 3)
    second = net.conv(into_conv, 2)
    table = net.function(into_table, "tanh")
    transposed = net.conv(net.select(turned, np.arange(18).reshape(3, 6).T, (6, 3)), 2)
    level = demands(
        net.graph(net.dense(net.concat(*(net.flat(v) for v in (into_dense, second, table, transposed))), 1))
    )
    assert [level[name] for name in (into_dense, into_conv, into_table, turned)] == [FREE, CHANNEL, SINGLE, SINGLE]


def test_sources_of_a_sum_lie_on_one_grid() -> None:
    made = CASES["cnn_2d_residual"](2)
    problem = pose(made.graph, made.scales, made.counts, made.raw, class_output=False)
    factors = shared_factors(problem, {node.name: Format(9, saturate=False) for node in problem.graph.nodes})
    sums = [node for node in problem.graph.nodes if node.kind == "Sum"]
    ratios = [np.log2(factors[name] / factors[node.name]) for node in sums for name in node.inputs]
    assert len(ratios) == 4
    np.testing.assert_allclose(ratios, np.rint(ratios), atol=1e-9)


def test_sources_of_a_join_with_one_factor_share_it() -> None:
    made = CASES["branches"](2)
    bound = freedom(lower(made.graph, class_output=False), {})
    joined = next(node for node in made.graph.nodes if node.kind == "Concat")
    leaky = next(node for node in made.graph.nodes if node.kind == "Leaky")
    assert bound.lock[leaky.inputs[0]] == bound.lock[joined.inputs[1]]


@pytest.mark.parametrize("top", [1.0, WIDE])
def test_a_join_of_two_heads_hands_the_output_scales_to_them_unless_they_leave_int16(top: float) -> None:
    net = Net(0, (3,))
    graph = net.graph(net.concat(net.dense("x", 2), net.dense("x", 1)))
    finished, fixed = give_back(graph, np.array([0.1, 0.2, 0.3]), everything(graph, top))
    if top == WIDE:
        assert list(fixed) == [finished.output]
        assert finished.output != graph.output
    else:
        assert {name: factors.tolist() for name, factors in fixed.items()} == {"t1": [0.1, 0.2], "t2": [0.3]}


def test_an_input_of_one_factor_per_channel_goes_into_a_convolution_as_it_is() -> None:
    net = Net(0, (2, 6))
    graph = net.graph(net.conv("x", 3))
    channels = np.broadcast_to([[0.1], [0.2]], (2, 6))
    assert adapt_input(graph, channels) is graph
    assert adapt_input(graph, channels * np.arange(1, 7)).n_nodes == graph.n_nodes + 3


@settings(max_examples=60, deadline=None)
@given(st.floats(0.0, 4.0))
def test_slopes_are_near(value: float) -> None:
    multiplier, shift = slope(value)
    assert abs(multiplier / 2.0**shift - value) <= max(value * 2.0**-9, 2.0**-16)


def test_a_slope_too_steep_is_refused() -> None:
    with pytest.raises(QuantiseError) as refused:
        slope(1e6)
    assert refused.value.code == "unsupported"


def test_ranges() -> None:
    values = np.concatenate([np.random.default_rng(0).normal(size=(20000, 1)), [[40.0]]])
    top = {
        rule: float(reach(values, rule=rule, largest_count=127, saturates=True)[0])
        for rule in ("min-max", "percentile", "mse")
    }
    assert top["min-max"] == pytest.approx(40.0 * MARGIN)
    assert 3.0 < top["percentile"] < 4.0
    assert top["percentile"] < top["mse"] < 40.0
    assert reach(values, rule="min-max", largest_count=127, saturates=False)[0] == pytest.approx(40.0)


@settings(max_examples=40, deadline=None)
@given(models)
def test_the_estimate_of_a_chain_is_its_circuit(model: IntegerModel) -> None:
    assert circuit_rows(graph_of(model)) == sum(count_constraints(model))
