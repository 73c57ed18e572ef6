"""Rounding shift and bounds of one accumulator: what they cost, and the rows themselves.

A linear map costs nothing (weights are constants of the circuit). Cases, cheapest first:

* ``constant``: the bounds leave one value;
* ``linear``: no shift and no bound that can be reached;
* ``shift``: requantise only: K boolean rows for v - base·2^s in [0, 2^K), one row that ties them to v. Counting from
  the interval's lower end instead of from zero saves the sign and often more;
* ``relu``: requantise above a lower bound that can be reached: k boolean rows, one for the top bit kept as a
  linear expression, one for the product (docs/interfaces.md, circuit file);
* an upper bound that can be reached adds a second ``relu`` of the excess, ``excess_bits`` + 2 rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.proof.builder import CircuitBuilder, Interval, signed_bits
from attest.proof.circuit import LinearCombination

ONE: Final = LinearCombination.constant(1)
ZERO: Final = LinearCombination()


@dataclass(frozen=True, slots=True)
class NeuronPlan:
    """How one element is proven. ``base`` is the value the bits count from, in units of the activation."""

    kind: str
    base: int
    bits: int
    excess_bits: int

    @property
    def rows(self) -> int:
        """Constraints of this element, without the row that ties an output signal."""
        first = {"constant": 0, "linear": 0, "shift": self.bits + 1, "relu": self.bits + 2}[self.kind]
        return first + (self.excess_bits + 2 if self.excess_bits else 0)


@dataclass(frozen=True, slots=True)
class Rounding:
    """min(max((acc + 2^(shift-1)) >> shift, low), high) for every acc in ``acc``."""

    acc: Interval
    shift: int
    low: int
    high: int

    @property
    def half(self) -> int:
        """The rounding constant 2^(shift-1), 0 without a shift."""
        return (1 << self.shift) >> 1

    @property
    def unbounded(self) -> Interval:
        """Quotients before the bounds."""
        return Interval((self.acc.lo + self.half) >> self.shift, (self.acc.hi + self.half) >> self.shift)

    @property
    def result(self) -> Interval:
        """Values after the bounds."""
        found = self.unbounded
        return Interval(*(min(max(end, self.low), self.high) for end in (found.lo, found.hi)))

    def plan(self) -> NeuronPlan:
        """The cheapest of the cases above that holds for the whole interval."""
        found, result = self.unbounded, self.result
        if result.lo == result.hi:
            return NeuronPlan("constant", result.lo, 0, 0)
        v_low, v_high = self.acc.lo + self.half, self.acc.hi + self.half
        excess = 0
        if found.hi > self.high:
            excess = signed_bits(Interval(result.lo - result.hi, found.hi - result.hi))
        if found.lo < self.low:
            start = self.low << self.shift
            return NeuronPlan("relu", self.low, signed_bits(Interval(v_low - start, v_high - start)), excess)
        if self.shift == 0:
            return NeuronPlan("linear", 0, 0, excess)
        bits = max(1, (v_high - (found.lo << self.shift)).bit_length())
        return NeuronPlan("shift", found.lo, bits, excess)


def requantised(
    builder: CircuitBuilder, parts: list[tuple[int, LinearCombination]], rounding: Rounding
) -> LinearCombination:
    """The requantised sum Σ weight · combination over ``parts``; its range is ``rounding.acc``."""
    plan, shift = rounding.plan(), rounding.shift
    if plan.kind == "constant":
        return LinearCombination.constant(plan.base)
    # The sum counts from the plan's base, so that the gadgets start at zero.
    start = plan.base << shift
    acc = LinearCombination.weighted([(-start, ONE), *parts])
    if plan.kind == "linear":
        value = acc
    elif plan.kind == "shift":
        value = plan.base + quotient(builder, acc + rounding.half, plan.bits, shift)
    else:
        interval = Interval(rounding.acc.lo - start, rounding.acc.hi - start)
        value = plan.base + builder.relu_shift(acc, interval, shift=shift)
    if plan.excess_bits:
        high = rounding.high
        over = Interval(rounding.result.lo - high, rounding.unbounded.hi - high)
        under = Interval(-over.hi, -over.lo)
        if signed_bits(under) > signed_bits(over):
            return value - builder.relu_shift(value - high, over)
        # min(value, high) on one wire, which later sums take independently of everything it was made of.
        value = high - builder.relu_shift(high - value, under)
    return value


def quotient(builder: CircuitBuilder, value: LinearCombination, bits: int, shift: int) -> LinearCombination:
    """value >> shift for 0 ≤ value < 2^bits, as a linear combination of its bits; bits + 1 rows."""
    return weighed(tied_bits(builder, value, bits)[shift:])


def tied_bits(builder: CircuitBuilder, value: LinearCombination, bits: int) -> tuple[LinearCombination, ...]:
    """The bits of 0 ≤ value < 2^bits, lowest first; bits + 1 rows."""
    wires = builder.add_bits(value, bits)
    builder.add_constraint(value - weighed(wires), ONE, ZERO)
    return wires


def weighed(bits: tuple[LinearCombination, ...]) -> LinearCombination:
    """Σ 2^i · bit i."""
    return LinearCombination.weighted((1 << i, bit) for i, bit in enumerate(bits))
