"""Gadgets equal their integer formula on every value of their interval, and the Rust witness equals the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.proof import CircuitBuilder, CircuitError, Groth16Prover, Interval, LinearCombination, development_setup
from attest.proof.builder import signed_bits
from attest.proof.prover import first_unsatisfied
from tests.attest.proof.support import BOX, CTX, Toy, failing_rows, model, run

Gadget = Callable[[CircuitBuilder, LinearCombination], LinearCombination]


def outputs_of(gadget: Gadget, values: list[int]) -> list[int]:
    """The gadget on a single input wire, by the reference interpreter, all rows checked."""
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    builder.add_out(0, gadget(builder, builder.input(0)))
    circuit = builder.finish()
    found = []
    for v in values:
        wires = run(circuit, (v,))
        assert failing_rows(circuit, wires) == []
        found.append(wires[2])
    return found


def edges(bounds: Interval, k: int) -> list[int]:
    wanted = {bounds.lo, bounds.lo + 1, bounds.hi, bounds.hi - 1, 0, -1, 1, -(1 << k), (1 << k) - 1}
    return sorted(v for v in wanted if bounds.lo <= v <= bounds.hi)


intervals = st.tuples(st.integers(-3000, 3000), st.integers(0, 4000)).map(lambda t: Interval(t[0], t[0] + t[1]))


@settings(max_examples=60, deadline=None)
@given(intervals, st.integers(0, 12), st.data())
def test_relu_shift_equals_its_formula(bounds: Interval, shift: int, data: st.DataObject) -> None:
    values = [*edges(bounds, signed_bits(bounds)), data.draw(st.integers(bounds.lo, bounds.hi))]
    half = (1 << shift) >> 1
    expected = [max(0, (v + half) >> shift) for v in values]
    assert outputs_of(lambda b, x: b.relu_shift(x, bounds, shift=shift), values) == expected


@settings(max_examples=60, deadline=None)
@given(intervals, st.integers(0, 12), st.data())
def test_round_shift_equals_its_formula(bounds: Interval, shift: int, data: st.DataObject) -> None:
    values = [*edges(bounds, signed_bits(bounds)), data.draw(st.integers(bounds.lo, bounds.hi))]
    half = (1 << shift) >> 1
    expected = [(v + half) >> shift for v in values]
    assert outputs_of(lambda b, x: b.round_shift(x, bounds, shift=shift), values) == expected


@settings(max_examples=60, deadline=None)
@given(intervals, st.integers(-200, 200), st.integers(0, 300), st.data())
def test_clamp_equals_its_formula(bounds: Interval, floor: int, width: int, data: st.DataObject) -> None:
    ceiling = floor + width
    values = [*edges(bounds, signed_bits(bounds)), data.draw(st.integers(bounds.lo, bounds.hi))]
    expected = [max(floor, min(v, ceiling)) for v in values]
    assert outputs_of(lambda b, x: b.clamp(x, bounds, floor=floor, ceiling=ceiling), values) == expected


@pytest.mark.parametrize("k", [1, 4, 7, 30, 60, 61])
def test_accumulator_boundaries(k: int) -> None:
    """-2^k, -1, 0 and 2^k - 1: the ends of the bit decomposition."""
    bounds = Interval(-(1 << k), (1 << k) - 1)
    values = [bounds.lo, -1, 0, bounds.hi]
    assert signed_bits(bounds) == k
    assert outputs_of(lambda b, x: b.relu_shift(x, bounds), values) == [max(0, v) for v in values]


def test_relu_costs_k_plus_2_rows() -> None:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    builder.relu_shift(builder.input(0), Interval(-100, 100))
    assert builder.n_constraints == 7 + 2


def test_decided_signs_cost_nothing() -> None:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    x = builder.input(0)
    assert builder.relu_shift(x, Interval(-9, 0)) == LinearCombination()
    assert builder.relu_shift(x, Interval(0, 9)) == x
    assert builder.clamp(x, Interval(0, 9), floor=0, ceiling=9) == x
    assert builder.n_constraints == 0


def test_interval_too_wide_for_the_coefficients_is_refused() -> None:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    with pytest.raises(CircuitError) as caught:
        builder.relu_shift(builder.input(0), Interval(-(1 << 62), 1 << 62))
    assert caught.value.code == "circuit-bounds"


def test_empty_interval_is_refused() -> None:
    with pytest.raises(CircuitError):
        Interval(1, 0)


def test_unknown_input_is_refused() -> None:
    with pytest.raises(CircuitError):
        CircuitBuilder(n_inputs=1, n_outputs=1).input(1)


def test_missing_output_is_refused() -> None:
    with pytest.raises(CircuitError):
        CircuitBuilder(n_inputs=1, n_outputs=1).finish()


def test_toy_network_equals_its_model_on_the_whole_box(toy: Toy) -> None:
    for x0 in range(BOX.lo, BOX.hi + 1):
        for x1 in range(BOX.lo, BOX.hi + 1):
            wires = run(toy.circuit, (x0, x1))
            assert wires[3] == model((x0, x1))
            assert failing_rows(toy.circuit, wires) == []


@pytest.mark.parametrize("x", [(-8, -8), (-8, 7), (7, -8), (7, 7), (0, 0), (3, -5)])
def test_native_witness_equals_the_reference(prover: Groth16Prover, toy: Toy, x: tuple[int, int]) -> None:
    wires = prover.witness(x, CTX)
    assert wires == [v % toy.it.r for v in run(toy.circuit, x)]
    assert first_unsatisfied(toy.data, wires) is None


def test_wide_values_take_the_slow_path_and_still_prove() -> None:
    """Products beyond the 16-bit tables, negative ones too."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    x, y = builder.inputs()
    product = builder.add_mul(x, y)
    builder.add_out(0, builder.add_mul(product, x))
    data = builder.finish().encode()
    proving_key, _ = development_setup(data)
    prover = Groth16Prover(data, proving_key)
    for a, b in [(1 << 20, -3), (-(1 << 20), 1 << 20), (70000, 70000), (-1, -1)]:
        assert prover.prove((a, b), CTX).outputs == (a * a * b,)
