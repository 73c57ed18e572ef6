"""The rows of every circuit the compiler emits force each wire to the program's value, and no row can be missed."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.proof import Circuit, Curve, Interval
from attest.proof.circuit import decode
from attest.proof.prover import first_unsatisfied
from attest.proof.uniqueness import analyse
from sitsedge.bench.networks import NETWORKS, bench_inputs, bench_model
from sitsedge.compiler.errors import SelfTestError
from sitsedge.compiler.reference import IntegerModel
from sitsedge.compiler.selftest import run_selftest
from sitsedge.gate.rules import _box as gate_box
from sitsedge.modules.config import Signal
from tests.attest.proof.forge import ORDERS, binds, broken, execute, false_witness, without_row
from tests.attest.proof.mutations import changed_rows
from tests.sitsedge.compiler.nets import emit_circuit, models, random_model
from tests.sitsedge.compiler.test_circuit_rows import clamp_model, relu_model, shift_model

FIELD_ORDER = ORDERS[Curve.BN254]
SMALL = {
    "relu": relu_model(),
    "shift": shift_model(),
    "clamp": clamp_model(),
    "two-layers": random_model(1, widths=[2, 3, 2]),
}


def box_of(model: IntegerModel) -> list[Interval]:
    return [Interval(int(low), int(high)) for low, high in zip(model.box_low, model.box_high, strict=True)]


@cache
def bench_case(name: str) -> tuple[Circuit, tuple[Interval, ...]]:
    model = bench_model(name)
    return decode(emit_circuit(model)), tuple(box_of(model))


def refused(circuit: Circuit, box: tuple[Interval, ...] | list[Interval], rows: list[int]) -> None:
    """Without any one of ``rows`` the analysis says so."""
    for index in rows:
        assert not analyse(without_row(circuit, index), box).shown, f"row {index}"


@settings(max_examples=80, deadline=None)
@given(models)
def test_every_random_model_is_shown(model: IntegerModel) -> None:
    assert analyse(decode(emit_circuit(model)), box_of(model)).findings == ()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_measured_networks_are_shown(name: str) -> None:
    circuit, box = bench_case(name)
    assert analyse(circuit, box).findings == ()


def test_the_measured_networks_have_the_documented_numbers_of_constraints() -> None:
    assert [len(bench_case(name)[0].constraints) for name in NETWORKS] == [562, 889, 1832, 3850]


@pytest.mark.parametrize("name", SMALL)
def test_no_row_of_a_small_circuit_can_be_removed_or_changed(name: str) -> None:
    circuit, box = decode(emit_circuit(SMALL[name])), box_of(SMALL[name])
    assert analyse(circuit, box).shown
    refused(circuit, box, list(range(len(circuit.constraints))))
    for index in range(len(circuit.constraints)):
        for what, mutated in changed_rows(circuit, index):
            assert not analyse(mutated, box).shown, what


def test_no_row_of_the_smallest_measured_network_can_be_removed() -> None:
    circuit, box = bench_case(NETWORKS[0])
    refused(circuit, box, list(range(len(circuit.constraints))))


@pytest.mark.parametrize("name", NETWORKS[1:])
def test_no_sampled_row_of_a_larger_network_can_be_removed_or_changed(name: str) -> None:
    circuit, box = bench_case(name)
    rng = random.Random(name)
    refused(circuit, box, rng.sample(range(len(circuit.constraints)), 24))
    for index in rng.sample(range(len(circuit.constraints)), 12):
        what, mutated = rng.choice(list(changed_rows(circuit, index)))
        assert not analyse(mutated, box).shown, what


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", NETWORKS[1:])
def test_no_row_of_a_larger_network_can_be_removed(name: str) -> None:
    circuit, box = bench_case(name)
    refused(circuit, box, list(range(len(circuit.constraints))))


@pytest.mark.parametrize("name", SMALL)
def test_forged_witnesses_of_a_small_circuit_pass_the_native_checker_without_their_row(name: str) -> None:
    """The Rust core agrees with the search: the row stops the forgery, and nothing else does."""
    model = SMALL[name]
    circuit = decode(emit_circuit(model))
    points = np.random.default_rng(5).integers(model.box_low, model.box_high + 1, (24, model.n_inputs)).tolist()
    for index, row in enumerate(circuit.constraints):
        if binds(row):
            continue
        found = false_witness(circuit, index, points, FIELD_ORDER)
        assert found is not None, f"nothing passes without row {index}"
        assert first_unsatisfied(circuit.encode(), found.wires) == index
        assert first_unsatisfied(without_row(circuit, index).encode(), found.wires) is None


def test_a_missing_row_of_a_measured_network_lets_a_false_output_through() -> None:
    """Deep in a network as well: most rows alone hold back a forged command, from the first layer to the last."""
    circuit, _ = bench_case(NETWORKS[0])
    points = bench_inputs(bench_model(NETWORKS[0]), 2)
    rows = [i for i, row in enumerate(circuit.constraints) if not binds(row)]
    first, last = rows[len(rows) // 4], rows[-3]
    for index in (first, last):
        found = false_witness(circuit, index, points, FIELD_ORDER)
        assert found is not None
        assert found.output
        assert broken(without_row(circuit, index), found.wires, FIELD_ORDER) == []


def test_honest_witnesses_of_the_program_are_those_of_the_core() -> None:
    """The search's interpreter and the Rust core read the circuit file alike."""
    circuit, _ = bench_case(NETWORKS[0])
    data = replace(circuit).encode()
    for inputs in bench_inputs(bench_model(NETWORKS[0]), 5):
        assert first_unsatisfied(data, execute(circuit, inputs, 7, {}, FIELD_ORDER)) is None


def test_a_build_whose_circuit_lacks_a_row_is_refused() -> None:
    """The honest rows of the self-test would all pass; only the missing row gives it away."""
    model = SMALL["relu"]
    circuit = decode(emit_circuit(model))
    for index in range(len(circuit.constraints)):
        weakened = without_row(circuit, index).encode()
        with pytest.raises(SelfTestError) as refused:
            run_selftest(
                model,
                wasm=b"",
                wasm_relaxed=b"",
                graph=b"",
                circuit=weakened,
                keys=(b"", b""),
                rows=np.zeros((1, 2), np.int64),
            )
        assert refused.value.code == "selftest"
        assert "force every wire" in refused.value.expected


@settings(max_examples=300, deadline=None)
@given(
    st.floats(1e-6, 1e4),
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.one_of(st.none(), st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted)),
    st.booleans(),
)
def test_the_gate_lets_nothing_in_that_the_circuit_was_not_shown_for(
    scale: float, low: float, high: float, own: list[float] | None, whole: bool
) -> None:
    """The statement holds over the compiler's box; the gate's ranges, whatever its own file says, lie inside."""
    ends = sorted((round(low / scale) * scale, round(high / scale) * scale)) if whole else sorted((low, high))
    signal = Signal(name="x", unit="1", scale=scale, range=(ends[0], ends[1]))
    gate_low, gate_high = gate_box(signal, own)
    assert signal.counts[0] <= gate_low or gate_low > gate_high
    assert gate_high <= signal.counts[1] or gate_low > gate_high
