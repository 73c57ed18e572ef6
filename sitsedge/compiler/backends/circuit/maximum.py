"""Largest of several values: max(a, b) = b + ReLU(a - b), and the index of the largest.

Both need that a - b has the range of its operands' intervals. Operands that share wires get a wire of their own first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from attest.proof.builder import CircuitBuilder, Interval, signed_bits
from attest.proof.circuit import LinearCombination
from sitsedge.compiler.backends.circuit.requantise import ONE, ZERO, weighed

JOINED_MAX: Final = 12
"""ReLUs of one maximum until it gets a wire of its own: one row in a dozen comparisons keeps every sum short."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """A value of the circuit, its proven bounds, and how many ReLUs it is a sum of, as a maximum."""

    terms: LinearCombination
    low: int
    high: int
    joined: int = 0

    @property
    def wires(self) -> frozenset[int]:
        """Wires it is made of, without the constant."""
        return frozenset(wire for wire, _ in self.terms.terms if wire)


def on_one_wire(builder: CircuitBuilder, value: Bounded) -> Bounded:
    """The same value as a single wire; one row unless it is one already."""
    terms = value.terms.terms
    if len(terms) == 1 and terms[0][0] and terms[0][1] == 1:
        return value
    return Bounded(builder.add_mul(value.terms, ONE), value.low, value.high)


def joined(builder: CircuitBuilder, value: Bounded, over: LinearCombination, other: Bounded) -> Bounded:
    """max(value, other) = value + ``over``."""
    total = Bounded(
        value.terms + over, max(value.low, other.low), max(value.high, other.high), value.joined + other.joined + 1
    )
    return total if total.joined < JOINED_MAX else on_one_wire(builder, total)


def apart(builder: CircuitBuilder, a: Bounded, b: Bounded) -> tuple[Bounded, Bounded]:
    """Both values without a wire in common, or equal."""
    if a.terms == b.terms or not a.wires & b.wires:
        return a, b
    return on_one_wire(builder, a), on_one_wire(builder, b)


def maximum(builder: CircuitBuilder, a: Bounded, b: Bounded) -> Bounded:
    """max(a, b): nothing where the bounds decide, else k + 2 rows for k bits of a - b."""
    if a.low >= b.high or a.terms == b.terms:
        return a
    if b.low >= a.high:
        return b
    a, b = apart(builder, a, b)
    over = builder.relu_shift(a.terms - b.terms, Interval(a.low - b.high, a.high - b.low))
    return joined(builder, b, over, a)


def arg_max(builder: CircuitBuilder, values: Sequence[Bounded]) -> LinearCombination:
    """Index of the largest, the lowest where several are.

    The values are compared with the largest so far, m, one after another. With T = 2^k where x_j > m, that is where
    x_j - m - 1 ≥ 0, and T = 0 elsewhere, T·(j - index) = 2^k·w moves the index and T·(x_j - m) = 2^k·r the maximum:
    k + 3 rows for k bits, and one fewer for the last.
    """
    best, index = values[0], ZERO
    for j, value in enumerate(values[1:], start=1):
        if value.high <= best.low or value.terms == best.terms:
            continue
        if value.low > best.high:
            best, index = value, LinearCombination.constant(j)
            continue
        challenger, best = apart(builder, value, best)
        ahead = challenger.terms - best.terms
        k = signed_bits(Interval(challenger.low - best.high - 1, challenger.high - best.low - 1))
        v = ahead + ((1 << k) - 1)
        top = v - weighed(builder.add_bits(v, k))
        builder.add_constraint(top, (1 << k) - top, ZERO)
        index = index + builder.add_mul(top, j - index, shift=k)
        if all(later.high <= max(challenger.low, best.low) for later in values[j + 1 :]):
            break
        best = joined(builder, best, builder.add_mul(top, ahead, shift=k), challenger)
    return index
