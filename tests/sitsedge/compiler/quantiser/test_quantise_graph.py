"""The quantiser on graphs of every kind: error against float, formats proven, choices that mean something."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sitsedge.compiler.backends.wasm import emit_variants
from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph import integer_weighted as iw
from sitsedge.compiler.graph.float_graph import Dense, FloatGraph
from sitsedge.compiler.graph.float_run import run as run_float
from sitsedge.compiler.graph.intervals import prove
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.quantise import Goal, Scales, quantise
from sitsedge.compiler.quantiser.chains import network_of
from sitsedge.compiler.quantiser.formats import FAST_BITS
from sitsedge.compiler.quantiser.search import quantise_graph
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from tests.sitsedge.compiler.quantiser.float_nets import CASES, Case, Net, case, normalised

RMS = {"branches": 0.04, "cnn_2d_residual": 0.04}
"""Largest root-mean-square error of unseen rows by case, as a share of the output's span: twice the goal, because
300 rows say little about layers of a hundred inputs; 0.005 for the others."""

GOALS = {"cnn_2d_residual": Goal(0.02, 0.1), "branches": Goal(0.02, 0.1)}
"""Coarser where the search would otherwise widen value after value."""

FIT_ROWS = 300


def unseen_error(made: Case, found: QuantisedGraph) -> np.ndarray:
    raw = made.raw[FIT_ROWS:]
    got = run(found.graph, made.counts[FIT_ROWS:])
    wanted = run_float(made.graph, raw).reshape(len(raw), -1)
    return (got * made.scales.outputs - wanted) / np.ptp(wanted, axis=0)


@cache
def quantised(name: str, seed: int) -> tuple[Case, QuantisedGraph]:
    made = CASES[name](seed)
    found = quantise_graph(
        made.graph, made.scales, made.counts[:FIT_ROWS], made.raw[:FIT_ROWS], goal=GOALS.get(name, Goal()),
        class_output=name == "classifier",
    )  # fmt: skip
    return made, found


@pytest.mark.parametrize("name", [name for name in CASES if name != "classifier"])
def test_unseen_rows_stay_near_the_float_network(name: str) -> None:
    made, found = quantised(name, 1)
    error = unseen_error(made, found)
    assert np.sqrt((error**2).mean(axis=0)).max() <= RMS.get(name, 0.005)
    prove(found.graph)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_classifier_gives_the_class(seed: int) -> None:
    made, found = quantised("classifier", seed)
    wanted = run_float(made.graph, made.raw[FIT_ROWS:]).argmax(axis=1)
    assert (run(found.graph, made.counts[FIT_ROWS:])[:, 0] != wanted).mean() <= 0.03


def test_every_layer_reports_its_error() -> None:
    made, found = quantised("cnn_1d", 1)
    assert found.layers.keys() == {node.name for node in made.graph.nodes[1:]}
    assert all(0 < error < 0.05 for error in found.layers.values())


def test_the_same_files_give_the_same_graph() -> None:
    made, found = quantised("mlp_tanh", 1)
    again = quantise_graph(made.graph, made.scales, made.counts[:FIT_ROWS], made.raw[:FIT_ROWS], goal=Goal())
    assert again.formats == found.formats
    np.testing.assert_array_equal(run(again.graph, made.counts), run(found.graph, made.counts))


def relu_cnn(seed: int) -> Case:
    """Behind the first layer every value is a ReLU's: all of them can be 7-bit unsigned."""
    net = Net(seed, (3, 12))
    x, mean, deviation = normalised(net)
    x = net.conv(net.conv(x, 6, low=0.0), 6, low=0.0)
    return case(net, net.dense(net.pool(x), 2), mean, deviation)


def test_speed_takes_fast_activations_and_a_stricter_goal_widens_some() -> None:
    made = relu_cnn(3)
    rows = made.counts[:FIT_ROWS], made.raw[:FIT_ROWS]
    loose = quantise_graph(made.graph, made.scales, *rows, goal=Goal(0.05, 0.3), prefer="speed")
    strict = quantise_graph(made.graph, made.scales, *rows, goal=Goal(0.005, 0.03), prefer="speed")
    bounds = prove(loose.graph)
    read = [bounds[node.name] for node in loose.graph.nodes if node.name in ("t2", "t3")]
    assert all(bound.low.min() >= 0 and bound.high.max() < 1 << FAST_BITS for bound in read)
    assert strict.meets_goal
    assert strict.wide > loose.wide
    assert strict.rms < loose.rms


@pytest.mark.parametrize("name", ["mlp_tanh", "cnn_2d_residual"])
def test_speed_reads_values_of_both_signs_fast_too(name: str) -> None:
    """Six bits and a sign span no more than seven bits; the inputs' own twelve bits are left."""
    made = CASES[name](1)
    rows = made.counts[:FIT_ROWS], made.raw[:FIT_ROWS]
    fast = quantise_graph(made.graph, made.scales, *rows, goal=Goal(0.05, 0.3), prefer="speed")
    assert fast.meets_goal
    assert fast.wide == 1
    weighted = [node.name for node in fast.graph.nodes if isinstance(node, iw.Dense | iw.Conv)]
    assert emit_variants(fast.graph).relaxed_nodes == tuple(weighted[1:])


def test_rows_are_no_more_than_speeds_where_rows_are_wanted() -> None:
    made = relu_cnn(4)
    rows = made.counts[:FIT_ROWS], made.raw[:FIT_ROWS]
    few = quantise_graph(made.graph, made.scales, *rows, goal=Goal(0.02, 0.1), prefer="rows")
    fast = quantise_graph(made.graph, made.scales, *rows, goal=Goal(0.02, 0.1), prefer="speed")
    assert few.meets_goal
    assert few.rows <= fast.rows


def mlp(seed: int, shape: tuple[int, ...] = (6,)) -> Case:
    net = Net(seed, shape)
    x, mean, deviation = ("x", np.zeros(shape[0]), np.ones(shape[0])) if len(shape) > 1 else normalised(net)
    x = net.clamp(net.dense(x, 8), -1.0, 2.0)
    return case(net, net.dense(net.dense(x, 6, low=0.0), 2), mean, deviation)


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_a_chain_of_dense_layers_is_what_the_chain_search_gives(shape: tuple[int, ...]) -> None:
    made = mlp(5, shape)
    found = quantise_graph(made.graph, made.scales, made.counts, made.raw, goal=Goal())
    network = network_of(made.graph)
    assert network is not None
    alone = quantise(network, made.scales, made.counts, made.raw, goal=Goal())
    assert found.chain is not None
    assert (found.rows, found.rms, found.chain.choice) == (alone.constraints, alone.rms, alone.choice)
    np.testing.assert_array_equal(run(found.graph, made.counts), alone.model.run(made.counts))
    np.testing.assert_allclose(network.run(made.raw), run_float(made.graph, made.raw), rtol=1e-9, atol=1e-9)
    assert set(found.layers) == {node.name for node in found.graph.nodes}


def test_a_chain_that_eight_bit_weights_leave_above_the_goal_gets_finer_ones() -> None:
    made = mlp(5)
    network = network_of(made.graph)
    assert network is not None
    strict = Goal(0.0007, 0.01)
    assert not quantise(network, made.scales, made.counts, made.raw, goal=strict).meets_goal
    found = quantise_graph(made.graph, made.scales, made.counts, made.raw, goal=strict)
    assert found.meets_goal
    assert found.chain is None
    assert any(format_.fine for format_ in found.formats.values())
    hopeless = quantise_graph(made.graph, made.scales, made.counts, made.raw, goal=Goal(1e-9, 1e-9))
    assert hopeless.chain is not None


@pytest.mark.parametrize("name", list(CASES))
def test_other_graphs_are_no_chain(name: str) -> None:
    assert network_of(CASES[name](1).graph) is None


def test_an_output_may_leave_int16() -> None:
    """y = 40·a in counts of 0.001: the output needs int32, and no hidden value does. Its weight has eight bits."""
    net = Net(0, (1, 2))
    x = net.flat(net.leaky("x"))
    net.nodes.append(Dense(name="y", inputs=(x,), shape=(1,), weights=np.array([[40.0, 0.0]]), bias=np.zeros(1)))
    graph = FloatGraph(tuple(net.nodes), "y")
    scales = Scales(np.full(2, 0.25), np.array([0.001]), np.full(2, -100), np.full(2, 100))
    counts = np.random.default_rng(0).integers(0, 101, (80, 2))
    found = quantise_graph(graph, scales, counts, counts * 0.25, goal=Goal())
    assert run(found.graph, counts).max() > 1 << 15
    np.testing.assert_allclose(run(found.graph, counts)[:, 0] * 0.001, 40 * 0.25 * counts[:, 0], atol=1.0)


def single(build: str, *, outputs: np.ndarray, steps: float = 0.01) -> tuple[FloatGraph, Scales, np.ndarray]:
    net = Net(0, (3,))
    output = {
        "softmax": lambda: net.softmax(net.dense("x", 3)),
        "negative-slope": lambda: net.leaky(net.dense("x", 3), -0.5),
        "input": lambda: "x",
    }[build]()
    counts = np.random.default_rng(0).integers(-100, 101, (60, 3))
    return net.graph(output), Scales(np.full(3, steps), outputs, np.full(3, -100), np.full(3, 100)), counts


@pytest.mark.parametrize(
    ("build", "code"), [("softmax", "softmax"), ("negative-slope", "unsupported"), ("input", "no-layer")]
)
def test_what_has_no_integer_form_is_refused(build: str, code: str) -> None:
    graph, scales, counts = single(build, outputs=np.full(3, 0.01))
    with pytest.raises(QuantiseError) as refused:
        quantise_graph(graph, scales, counts, counts * 0.01, goal=Goal())
    assert refused.value.code == code


def test_an_output_scale_finer_than_the_formats_is_refused() -> None:
    net = Net(0, (2, 2))
    graph = net.graph(net.dense(net.leaky("x"), 1))
    scales = Scales(np.ones(4), np.full(1, 1e-9), np.full(4, -100), np.full(4, 100))
    counts = np.random.default_rng(0).integers(-100, 101, (60, 4))
    with pytest.raises(QuantiseError) as refused:
        quantise_graph(graph, scales, counts, counts * 1.0, goal=Goal())
    assert refused.value.code in ("output-scale", "accumulator-width")


def test_a_dead_input_stays_out_of_the_weights() -> None:
    """A channel whose box is the single value 0 must not decide how fine the other weights are."""
    net = Net(0, (2, 1))
    y = net.add(Dense, (net.flat(net.leaky("x")),), (1,), weights=np.array([[1.0, 1e6]]), bias=np.zeros(1))
    scales = Scales(np.full(2, 0.01), np.full(1, 0.01), np.array([-1000, 0]), np.array([1000, 0]))
    counts = np.column_stack([np.arange(-1000, 1000, 20), np.zeros(100, np.int64)])
    found = quantise_graph(net.graph(y), scales, counts, counts * 0.01, goal=Goal())
    assert found.peak < 0.01
