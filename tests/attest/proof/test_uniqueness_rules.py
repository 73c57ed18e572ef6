"""Ranges of the analysis that gadgets of several values lean on: shown where they hold, refused one step beyond."""

from __future__ import annotations

import pytest

from attest.proof import Circuit, CircuitBuilder, Interval, LinearCombination
from attest.proof.uniqueness import analyse

BYTE = Interval(0, 255)


def weighed(bits: tuple[LinearCombination, ...]) -> LinearCombination:
    return LinearCombination.weighted((1 << i, bit) for i, bit in enumerate(bits))


def finding(circuit: Circuit, *box: Interval) -> str | None:
    findings = analyse(circuit, box).findings
    return findings[0].code if findings else None


def maximum_circuit(n: int, bits: int) -> Circuit:
    """Largest of n bytes less 128, rectified with ``bits`` bits."""
    builder = CircuitBuilder(n_inputs=n, n_outputs=1)
    largest = builder.input(0)
    for value in builder.inputs()[1:]:
        largest = largest + builder.relu_shift(value - largest, Interval(-255, 255))
    edge = (1 << bits) - 1
    builder.add_out(0, builder.relu_shift(largest - 128, Interval(-edge, edge)))
    return builder.finish()


@pytest.mark.parametrize("n", [2, 3, 9, 25])
def test_a_maximum_has_the_range_of_its_operands(n: int) -> None:
    assert finding(maximum_circuit(n, 7), *[BYTE] * n) is None


def test_a_maximum_that_needs_one_bit_more_is_refused() -> None:
    assert finding(maximum_circuit(3, 7), BYTE, BYTE, Interval(0, 256)) == "range"


def test_a_very_long_maximum_ends_and_is_not_shown() -> None:
    """Beyond the cases the analysis looks at it says so, whatever is true."""
    assert finding(maximum_circuit(132, 7), *[BYTE] * 132) == "range"


def strict_circuit(offset: int) -> Circuit:
    """y + T·(x - y) / 2^k with T from x - y - offset, then eight bits of it."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    x, y = builder.inputs()
    v = x - y - offset + 512
    top = v - weighed(builder.add_bits(v, 9))
    builder.add_constraint(top, 512 - top, LinearCombination())
    largest = y + builder.add_mul(top, x - y, shift=9)
    builder.add_out(0, builder.relu_shift(largest - 128, Interval(-128, 127)))
    return builder.finish()


@pytest.mark.parametrize(("offset", "shown"), [(-1, False), (0, True), (1, True), (2, False)])
def test_a_product_is_a_maximum_only_where_the_comparison_says_so(offset: int, shown: bool) -> None:
    assert (finding(strict_circuit(offset), BYTE, BYTE) is None) == shown


def product_circuit(*, same: bool) -> Circuit:
    """Exclusive or of two bits, of one value or of two, in one more bit."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1)
    taken = []
    for value in builder.inputs():
        bits = builder.add_bits(value, 2)
        builder.add_constraint(value - weighed(bits), LinearCombination.constant(1), LinearCombination())
        taken.append(bits)
    a, b = taken[0][0], taken[0][1] if same else taken[1][1]
    exclusive = a + b - 2 * builder.add_mul(a, b)
    bit = builder.add_bits(exclusive, 1)
    builder.add_constraint(exclusive - bit[0], LinearCombination.constant(1), LinearCombination())
    builder.add_out(0, bit[0])
    return builder.finish()


def test_products_of_bits_are_tabulated_for_one_value_only() -> None:
    pair = Interval(0, 3)
    assert finding(product_circuit(same=True), pair, pair) is None
    assert finding(product_circuit(same=False), pair, pair) == "range"


@pytest.mark.parametrize(("high", "shown"), [(4095, True), (4096, False)])
def test_values_of_more_than_twelve_bits_are_not_tabulated(high: int, shown: bool) -> None:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    value = builder.input(0)
    bits = builder.add_bits(value, high.bit_length())
    builder.add_constraint(value - weighed(bits), LinearCombination.constant(1), LinearCombination())
    exclusive = bits[0] + bits[1] - 2 * builder.add_mul(bits[0], bits[1])
    (again,) = builder.add_bits(exclusive, 1)
    builder.add_constraint(exclusive - again, LinearCombination.constant(1), LinearCombination())
    builder.add_out(0, again)
    assert (finding(builder.finish(), Interval(0, high)) is None) == shown
