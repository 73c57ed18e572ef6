"""Builds circuits: wires, witness program and constraint rows side by side, with the gadgets a network needs.

Inputs are signed integers inside a box that the verifier checks on the clear values, so every gadget takes the
interval of its argument (from interval analysis over that box) and spends only as many bits as the interval needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from attest.proof.circuit import BitsOp, Circuit, Constraint, Curve, LinearCombination, MulOp, Op, OutOp
from attest.proof.errors import CircuitError

GADGET_BITS_MAX: Final = 61
"""2^k and twice it must fit the 64-bit coefficients of a row."""

_ZERO: Final = LinearCombination()
_ONE: Final = LinearCombination.constant(1)


@dataclass(frozen=True, slots=True)
class Interval:
    """Closed integer interval."""

    lo: int
    hi: int

    def __post_init__(self) -> None:
        if self.lo > self.hi:
            raise CircuitError("circuit-bounds", found=f"[{self.lo}, {self.hi}]", expected="lo <= hi")


def rounded(bounds: Interval, shift: int) -> Interval:
    """The interval of ``acc + 2^(shift-1)`` (rounding term of evidence §2; none for shift 0)."""
    half = (1 << shift) >> 1
    return Interval(bounds.lo + half, bounds.hi + half)


def signed_bits(bounds: Interval) -> int:
    """Least k >= 1 with -2^k <= lo and hi < 2^k."""
    return max(bounds.hi.bit_length() if bounds.hi > 0 else 0, (-bounds.lo - 1).bit_length() if bounds.lo < 0 else 0, 1)


class CircuitBuilder:
    """Collects operations and rows; :meth:`finish` checks the whole and returns the :class:`Circuit`."""

    def __init__(self, *, n_inputs: int, n_outputs: int, curve: Curve = Curve.BN254) -> None:
        self.n_inputs = n_inputs
        self.n_outputs = n_outputs
        self.curve = curve
        self._first_private = 2 + n_inputs + n_outputs
        self._next = self._first_private
        self._ops: list[Op] = []
        self._rows: list[Constraint] = []

    @property
    def n_constraints(self) -> int:
        """Rows so far, without those that :meth:`finish` adds to bind the public signals."""
        return len(self._rows)

    def input(self, index: int) -> LinearCombination:
        if not 0 <= index < self.n_inputs:
            raise CircuitError("circuit-bounds", found=f"input {index}", expected=f"below {self.n_inputs}")
        return LinearCombination(((1 + index, 1),))

    def inputs(self) -> tuple[LinearCombination, ...]:
        return tuple(self.input(i) for i in range(self.n_inputs))

    def add_bits(self, value: LinearCombination, k: int) -> tuple[LinearCombination, ...]:
        """Bits 0..k-1 of ``value`` as new private wires, each with its boolean row b·(1-b) = 0.

        The caller must bind them to ``value`` (see the gadgets): the boolean rows alone do not.
        """
        first = self._next
        self._next += k
        self._ops.append(BitsOp(value, k, first))
        bits = tuple(LinearCombination(((first + i, 1),)) for i in range(k))
        for bit in bits:
            self.add_constraint(bit, 1 - bit, _ZERO)
        return bits

    def add_mul(self, a: LinearCombination, b: LinearCombination, *, shift: int = 0) -> LinearCombination:
        """New private wire (a·b) >> shift and its row a·b = 2^shift · wire."""
        wire = LinearCombination(((self._next, 1),))
        self._ops.append(MulOp(a, b, shift, self._next))
        self._next += 1
        self.add_constraint(a, b, wire * (1 << shift))
        return wire

    def add_out(self, index: int, value: LinearCombination) -> None:
        """Output ``index`` equals ``value``: the operation and the row (value - y)·1 = 0."""
        self._ops.append(OutOp(value, index))
        self.add_constraint(value - LinearCombination(((1 + self.n_inputs + index, 1),)), _ONE, _ZERO)

    def add_constraint(self, a: LinearCombination, b: LinearCombination, c: LinearCombination) -> None:
        self._rows.append(Constraint(a, b, c))

    def relu_shift(self, acc: LinearCombination, bounds: Interval, *, shift: int = 0) -> LinearCombination:
        """ReLU((acc + 2^(shift-1)) >> shift), k + 2 rows for k bits; fewer where the interval decides the sign.

        With v = acc + 2^(s-1) + 2^k and bits b_i of v: T = v - Σ 2^i b_i must be 0 or 2^k (one row), and
        T·q = 2^k·r with q = Σ_{i>=s} 2^(i-s) b_i (one row) leaves r = q where the argument is non-negative, else 0.
        """
        rounded_bounds = rounded(bounds, shift)
        if rounded_bounds.hi >> shift <= 0:
            return _ZERO
        if rounded_bounds.lo >= 0 and shift == 0:
            return acc
        k = self._bits_for(rounded_bounds)
        v = acc + (((1 << shift) >> 1) + (1 << k))
        bits = self.add_bits(v, k)
        top = v - _weigh(bits)
        self.add_constraint(top, (1 << k) - top, _ZERO)
        return self.add_mul(top, _weigh(bits[shift:]), shift=k)

    def round_shift(self, acc: LinearCombination, bounds: Interval, *, shift: int) -> LinearCombination:
        """(acc + 2^(shift-1)) >> shift with its sign, k + 2 rows; the result is linear in the bits."""
        if shift == 0:
            return acc
        k = self._bits_for(rounded(bounds, shift))
        k = max(k, shift)
        v = acc + (((1 << shift) >> 1) + (1 << k))
        bits = self.add_bits(v, k + 1)
        self.add_constraint(v - _weigh(bits), _ONE, _ZERO)
        return _weigh(bits[shift:]) - (1 << (k - shift))

    def at_most(self, q: LinearCombination, bounds: Interval, ceiling: int) -> LinearCombination:
        """min(q, ceiling) = ceiling - ReLU(ceiling - q)."""
        return ceiling - self.relu_shift(ceiling - q, Interval(ceiling - bounds.hi, ceiling - bounds.lo))

    def at_least(self, q: LinearCombination, bounds: Interval, floor: int) -> LinearCombination:
        """max(q, floor) = floor + ReLU(q - floor)."""
        return floor + self.relu_shift(q - floor, Interval(bounds.lo - floor, bounds.hi - floor))

    def clamp(self, q: LinearCombination, bounds: Interval, *, floor: int, ceiling: int) -> LinearCombination:
        """max(floor, min(q, ceiling)); rows only for the sides the interval can reach."""
        clipped = Interval(floor, ceiling)
        low = self.at_most(q, bounds, clipped.hi)
        return self.at_least(low, Interval(min(bounds.lo, ceiling), min(bounds.hi, ceiling)), clipped.lo)

    def finish(self) -> Circuit:
        """Adds the rows that bind the public signals, checks completeness, returns the circuit."""
        rows = [*self._rows, *self._binding_rows()]
        circuit = Circuit(
            self.curve,
            self.n_inputs,
            self.n_outputs,
            self._next - self._first_private,
            tuple(self._ops),
            tuple(rows),
        )
        circuit.encode()
        return circuit

    def _binding_rows(self) -> Sequence[Constraint]:
        """x_i·0 = 0 and ctx·0 = 0: without a row, a public signal would have no IC point and any value would verify."""
        wires = (*range(1, 1 + self.n_inputs), 1 + self.n_inputs + self.n_outputs)
        return [Constraint(LinearCombination(((wire, 1),)), _ZERO, _ZERO) for wire in wires]

    @staticmethod
    def _bits_for(bounds: Interval) -> int:
        k = signed_bits(bounds)
        if k > GADGET_BITS_MAX:
            raise CircuitError(
                "circuit-bounds", found=f"an interval of {k} bits", expected=f"at most {GADGET_BITS_MAX}"
            )
        return k


def _weigh(bits: Sequence[LinearCombination]) -> LinearCombination:
    return LinearCombination.weighted((1 << i, bit) for i, bit in enumerate(bits))
