"""The circuit back end equals the reference, costs what it says, and its rows force every wire."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.proof import Circuit, Curve, Interval
from attest.proof.circuit import decode, on_curve
from attest.proof.errors import CircuitError, ProofRefused
from attest.proof.prover import Groth16Prover, development_setup, first_unsatisfied
from attest.proof.uniqueness import analyse
from attest.proof.verifier import NativeVerifier, key_hash
from attest.proof.witness import signed_witness
from sitsedge.compiler.backends.circuit.emit import GraphCircuit, emit_circuit
from sitsedge.compiler.circuit_plan import count_constraints
from sitsedge.compiler.graph.chain import graph_of as chain
from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.graph.integer_nodes import ArgMax, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.reference import run
from sitsedge.compiler.reference import IntegerModel
from tests.attest.proof.forge import ORDERS, binds, false_witness, without_row
from tests.attest.proof.mutations import changed_rows
from tests.sitsedge.compiler.backends.test_onnx_backend import CASES, graph_of, run_onnx
from tests.sitsedge.compiler.nets import models
from tests.support.random_graphs import graphs, interesting_rows, random_graph

CONTEXT = bytes(31)
GADGETS = {
    "requantise": graph_of((2,), Dense.make("d", "x", weights=[[3, -2]], shift=[2]), low=-4, high=5),
    "clamp": graph_of((2,), Dense.make("d", "x", weights=[[3, -2]], shift=[1], low=[-2], high=[4]), low=-4, high=5),
    "minimum": graph_of((2,), Dense.make("d", "x", weights=[[1, -1]], high=[3]), low=-4, high=5),
    "residual": graph_of(
        (2,), Leaky.make("l", "x", multiplier=3, shift=3), Sum.make("s", ("x", "l"), shift=1), low=-40, high=30
    ),
    "product": graph_of(
        (2,), Select.make("t", "x", indices=[1, 0], shape=(2,)), Product.make("p", "x", "t", shift=1, high=9),
        low=-4, high=5,
    ),
    "gate": graph_of(
        (1, 3), MaxPool.make("g", "x", kernel=(1, 3), strides=(1, 1)), Product.make("p", "x", "g", shift=2),
        low=-3, high=3,
    ),
    "square": graph_of((2,), Product.make("p", "x", "x", shift=2, low=1), low=-5, high=4),
    "conv": graph_of(
        (1, 4), Conv.make("c", "x", weights=[[[[2, -3]]]], shift=2, low=0, pads=(0, 1, 0, 0)), low=-3, high=3
    ),
    "maximum": graph_of((1, 4), MaxPool.make("m", "x", kernel=(1, 3), strides=(1, 1)), low=-3, high=4),
    "repeated": graph_of(
        (2,), Select.make("s", "x", indices=[0, 1, 0, 1], shape=(1, 4)),
        MaxPool.make("m", "s", kernel=(1, 3), strides=(1, 1)),
        Leaky.make("l", "m", multiplier=1, shift=1), low=-3, high=4,
    ),
    "arg-max": graph_of((3,), ArgMax("a", "x"), low=-2, high=2),
    "table": graph_of((1,), Table.make("t", "x", values=[3, -1, 4, 1, -5, 9, -2, 6], first=-2), low=-2, high=4),
}  # fmt: skip
NAMED = pytest.mark.parametrize("name", GADGETS)


@cache
def emitted(name: str) -> tuple[Circuit, tuple[Interval, ...]]:
    return decode(emit_circuit(GADGETS[name]).data), box_of(GADGETS[name])


def box_of(graph: IntegerGraph) -> tuple[Interval, ...]:
    ends = zip(graph.input.box_low.reshape(-1).tolist(), graph.input.box_high.reshape(-1).tolist(), strict=True)
    return tuple(Interval(low, high) for low, high in ends)


def run_circuit(graph: IntegerGraph, made: GraphCircuit, rows: np.ndarray) -> list[list[int]]:
    """Outputs of the witness program; the native checker finds every row satisfied."""
    circuit = decode(made.data)
    found = []
    for row in rows.tolist():
        wires = signed_witness(circuit, row, CONTEXT)
        assert first_unsatisfied(made.data, [wire % ORDERS[Curve.BN254] for wire in wires]) is None
        found.append(wires[1 + graph.n_inputs : circuit.ctx_wire])
    return found


@settings(max_examples=25, deadline=None)
@given(graphs, st.integers(0, 2**32 - 1))
def test_witness_and_runtime_equal_the_reference_and_every_wire_is_forced(graph: IntegerGraph, seed: int) -> None:
    rows = interesting_rows(graph, seed, 3)
    expected = run(graph, rows).tolist()
    made = emit_circuit(graph)
    assert run_circuit(graph, made, rows) == expected
    assert run_onnx(graph, rows).tolist() == expected
    assert analyse(decode(made.data), box_of(graph)).findings == ()
    assert len(decode(made.data).constraints) == made.n_constraints
    assert list(made.rows) == [node.name for node in graph.nodes]


@pytest.mark.parametrize("name", CASES)
def test_every_argument_of_one_node(name: str) -> None:
    """All 256 inputs: every boundary of every requantise is among them."""
    rows = np.arange(-128, 128)[:, None]
    assert run_circuit(CASES[name], emit_circuit(CASES[name]), rows) == run(CASES[name], rows).tolist()


@NAMED
def test_every_input_of_a_small_graph(name: str) -> None:
    graph = GADGETS[name]
    axes = [range(side.lo, side.hi + 1, 1 if graph.n_inputs < 4 else 2) for side in box_of(graph)]
    rows = np.array(np.meshgrid(*axes)).reshape(graph.n_inputs, -1).T
    rows = rows[:: max(1, len(rows) // 150)]
    assert run_circuit(graph, emit_circuit(graph), rows) == run(graph, rows).tolist()


@NAMED
def test_no_row_can_be_removed_or_changed(name: str) -> None:
    circuit, box = emitted(name)
    assert analyse(circuit, box).shown
    for index in range(len(circuit.constraints)):
        assert not analyse(without_row(circuit, index), box).shown, f"row {index}"
        for what, mutated in list(changed_rows(circuit, index))[index % 4 :: 4]:
            assert not analyse(mutated, box).shown, what


@NAMED
def test_every_row_alone_stops_a_forged_witness(name: str) -> None:
    circuit, box = emitted(name)
    rng = np.random.default_rng(3)
    points = rng.integers([side.lo for side in box], [side.hi + 1 for side in box], (24, len(box))).tolist()
    for index, row in enumerate(circuit.constraints):
        if not binds(row):
            assert false_witness(circuit, index, points, ORDERS[Curve.BN254]) is not None, f"row {index}"


@pytest.mark.parametrize("seed", [2, 25])
def test_a_proof_of_a_graph_verifies_and_one_of_other_outputs_does_not(seed: int) -> None:
    graph = random_graph(seed)
    circuit = emit_circuit(graph).data
    proving_key, verification_key = development_setup(circuit)
    row = interesting_rows(graph, seed, 3)[-1].tolist()
    proven = Groth16Prover(circuit, proving_key).prove(row, CONTEXT)
    assert list(proven.outputs) == run(graph, np.array(row)).tolist()
    verifier = NativeVerifier(verification_key, vk_sha256=key_hash(verification_key))
    verifier.verify(row, proven.outputs, CONTEXT, proven.proof)
    with pytest.raises(ProofRefused):
        verifier.verify(row, [proven.outputs[0] + 1, *proven.outputs[1:]], CONTEXT, proven.proof)


def test_both_curves_have_the_same_rows() -> None:
    for graph in GADGETS.values():
        made = emit_circuit(graph)
        assert emit_circuit(graph, curve=Curve.BLS12_381).data == on_curve(made.data, Curve.BLS12_381)


@settings(max_examples=25, deadline=None)
@given(models)
def test_a_chain_of_layers_costs_what_it_did(model: IntegerModel) -> None:
    assert emit_circuit(chain(model)).n_constraints <= sum(count_constraints(model))


def rows_of(graph: IntegerGraph) -> list[int]:
    return list(emit_circuit(graph).rows.values())


def test_rows_of_every_node() -> None:
    """What docs/interfaces.md says a node costs."""
    assert rows_of(graph_of((2, 3), Select.make("s", "x", indices=[5, 0], shape=(2,)))) == [0]
    assert rows_of(graph_of((1,), Dense.make("d", "x", weights=[[5]], bias=[7]))) == [0]
    # 8 bits and their tie; 8 bits, top and product
    assert rows_of(graph_of((1,), Dense.make("d", "x", weights=[[1]], bias=[-8], shift=[4]))) == [9]
    assert rows_of(graph_of((1,), Dense.make("d", "x", weights=[[1]], low=[0]))) == [9]
    # 1 comparison of bytes in 8 bits, and the value's own wire where a layer reads it
    pool = MaxPool.make("m", "x", kernel=(1, 2), strides=(1, 2))
    assert rows_of(graph_of((1, 2), pool)) == [10]
    assert rows_of(graph_of((1, 2), pool, Leaky.make("l", "m", multiplier=0, shift=0)))[0] == 11
    # 8 bits, their tie, 11 products of 4 bits, 15 choices
    values = np.random.default_rng(1).integers(-99, 99, 256)
    assert rows_of(graph_of((1,), Table.make("t", "x", values=values, first=-128))) == [8 + 1 + 11 + 15]
    assert rows_of(graph_of((1,), Table.make("t", "x", values=3 * np.arange(256), first=-128))) == [0]
    # three comparisons in 8 bits; the last moves the index alone
    assert rows_of(graph_of((4,), ArgMax("a", "x"), low=0)) == [3 * (8 - 1 + 3) - 1]


def test_rows_of_windows_are_compared_once() -> None:
    """3 · 3 windows one step apart share the maxima of their rows: 2 comparisons down and 2 across, not 8."""
    pool = MaxPool.make("m", "x", kernel=(3, 3), strides=(1, 1))
    [rows] = rows_of(graph_of((1, 4, 3), pool))
    assert rows == (4 * 2 + 2 * 2) * 10


@pytest.mark.parametrize("shape", [(1025,), (2, 600)])
def test_a_graph_of_too_many_inputs_is_refused(shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    with pytest.raises(CircuitError) as refused:
        emit_circuit(graph_of(shape, Select.make("s", "x", indices=np.zeros(size, np.int64), shape=(size,))))
    assert refused.value.code == "circuit-limit"


def test_a_graph_of_too_many_outputs_is_refused() -> None:
    with pytest.raises(CircuitError) as refused:
        emit_circuit(graph_of((1,), Select.make("s", "x", indices=np.zeros(1025, np.int64), shape=(1025,))))
    assert refused.value.code == "circuit-limit"


def test_a_graph_of_too_many_rows_is_refused_while_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sitsedge.compiler.backends.circuit.emit.CONSTRAINTS_MAX", 100)
    with pytest.raises(CircuitError) as refused:
        emit_circuit(graph_of((64,), Leaky.make("l", "x", multiplier=0, shift=0)))
    assert refused.value.code == "circuit-limit"
    assert int(refused.value.found.split()[0]) < 120


def test_a_maximum_of_many_values_is_shown_as_well() -> None:
    """Its sum is broken up by wires of its own; 40 classes need more than any window of a usual network."""
    for graph in (
        graph_of((40,), Dense.make("d", "x", weights=np.eye(40, dtype=int) - np.eye(40, k=1)), ArgMax("a", "d")),
        graph_of((1, 7, 7), MaxPool.make("m", "x", kernel=(7, 7), strides=(7, 7))),
    ):
        made = emit_circuit(graph)
        assert analyse(decode(made.data), box_of(graph)).findings == ()
        rows = interesting_rows(graph, 5, 3)
        assert run_circuit(graph, made, rows) == run(graph, rows).tolist()
