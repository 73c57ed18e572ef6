"""From an approved open circuit to the sealed one: same model rows, the inputs private, committed to and bounded.

    statement: there are a salt and inputs x with commitment = Poseidon2(salt, x), low_i <= x_i <= high_i for every
    input, every relation of the deployment within its bounds, and y = M(x) for the model of the open circuit.

The sealed circuit is a function of the open circuit, the box and the relations and of nothing else, so whoever has
those (the plant, an auditor) makes the same file again and compares its digest.

Why field equality is integer equality here: bits are boolean, so Σ 2^i·b_i is an integer below 2^k with k <= 61, which
ties x_i - low_i to an integer in the box; from there every linear combination of the open circuit's rows stays far
below r: :mod:`attest.proof.sealed.uniqueness` shows it for the very circuit that is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from attest.proof.builder import GADGET_BITS_MAX, Interval
from attest.proof.circuit import BitsOp, Circuit, Constraint, Curve, LinearCombination, MulOp, OutOp
from attest.proof.errors import CircuitError
from attest.proof.poseidon2 import SCALAR_MODULUS
from attest.proof.sealed import commitment as com
from attest.proof.sealed.circuit import (
    COMMITMENT_WIRE,
    CommitOp,
    FieldCombination,
    FieldConstraint,
    Op,
    SealedCircuit,
)
from attest.proof.sealed.errors import SealedError
from attest.proof.sealed.hash_rows import HashRows
from attest.proof.sealed.uniqueness import analyse_sealed

_ONE = LinearCombination.constant(1)
_NONE = LinearCombination()


@dataclass(frozen=True, slots=True)
class LinearRelation:
    """low <= Σ inputs[i]·x_i + Σ outputs[j]·y_j <= high over counts, one bound or both; pairs (index, coefficient)."""

    name: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    low: int | None = None
    high: int | None = None

    def value(self, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        """The sum for these values."""
        return sum(c * inputs[i] for i, c in self.inputs) + sum(c * outputs[j] for j, c in self.outputs)


def seal(
    circuit: Circuit,
    *,
    box: Sequence[Interval],
    output_limits: Sequence[Interval] = (),
    relations: Sequence[LinearRelation] = (),
    curve: Curve | None = None,
) -> SealedCircuit:
    """The sealed circuit on ``curve`` (the open circuit's own by default).

    ``box`` has one interval per input; the result must be shown to hold every input to it, to force every wire over it
    and to be the commitment's sponge (:mod:`attest.proof.sealed.uniqueness`). ``output_limits``, needed where a
    relation names outputs, bounds them (the gate's limits: a command beyond them was refused). Raises
    :class:`SealedError` (``sealed-box``, ``sealed-relation``) and
    :class:`attest.proof.errors.CircuitError` (``circuit-unique``).
    """
    if len(box) != circuit.n_inputs:
        raise SealedError("sealed-box", found=f"{len(box)} intervals", expected=f"{circuit.n_inputs}, one per input")
    for i, interval in enumerate(box):
        if not com.INPUT_MIN <= interval.lo <= interval.hi <= com.INPUT_MAX:
            found = f"input {i} in [{interval.lo}, {interval.hi}]"
            raise SealedError("sealed-box", found=found, expected=f"inside [{com.INPUT_MIN}, {com.INPUT_MAX}]")
    work = _Sealing(circuit, circuit.curve if curve is None else curve)
    for i, interval in enumerate(box):
        work.bound(i, interval)
    for relation in relations:
        work.relate(relation, box, output_limits)
    made = work.finish()
    shown = analyse_sealed(made, box)
    if not shown.shown:
        found = "; ".join(map(str, shown.findings))
        raise CircuitError("circuit-unique", found=found, expected="rows that force every wire over this box")
    return made


class _Sealing:
    """Collects operations and rows; integer wires are numbered as they come, field wires behind them."""

    def __init__(self, circuit: Circuit, curve: Curve) -> None:
        self.n_inputs, self.n_outputs, self.curve = circuit.n_inputs, circuit.n_outputs, curve
        self.first_output = COMMITMENT_WIRE + 1
        self.first_input = self.first_output + circuit.n_outputs + 1
        self.n_witness = circuit.n_witness
        move = _mover(circuit, first_output=self.first_output, first_input=self.first_input)
        self.ops: list[Op] = [_moved_op(op, move) for op in circuit.ops]
        self.rows = [_moved_row(row, move) for row in circuit.constraints if not _binds_input(row, circuit)]

    def input(self, index: int) -> LinearCombination:
        return LinearCombination(((self.first_input + index, 1),))

    def bound(self, index: int, box: Interval) -> None:
        """lo <= x <= hi: bits of both distances, or of one where they end exactly at the other edge."""
        x, width = self.input(index), box.hi - box.lo
        if width == 0:
            self.rows.append(Constraint(x - box.lo, _ONE, _NONE))
            return
        bits = width.bit_length()
        self._non_negative(x - box.lo, bits)
        if width != (1 << bits) - 1:
            self._non_negative(box.hi - x, bits)

    def relate(self, relation: LinearRelation, box: Sequence[Interval], limits: Sequence[Interval]) -> None:
        """Rows for each bound, except one that the box alone implies."""
        reach, terms = self._reach(relation, box, limits)
        value = LinearCombination.of(terms)
        least = reach.lo if relation.low is None else max(relation.low, reach.lo)
        most = reach.hi if relation.high is None else min(relation.high, reach.hi)
        if least > most:
            found = f"{relation.name} between {relation.low} and {relation.high}"
            raise SealedError("sealed-relation", found=found, expected=f"values that reach [{reach.lo}, {reach.hi}]")
        open_ended = bool(relation.outputs)
        if relation.low is not None and (open_ended or reach.lo < relation.low):
            self._non_negative(value - relation.low, self._bits(relation, most - relation.low))
        if relation.high is not None and (open_ended or reach.hi > relation.high):
            self._non_negative(relation.high - value, self._bits(relation, relation.high - least))

    def _reach(
        self, relation: LinearRelation, box: Sequence[Interval], limits: Sequence[Interval]
    ) -> tuple[Interval, list[tuple[int, int]]]:
        """The values that the sum can take, and its terms by wire."""
        sides = (
            ("input", relation.inputs, box, self.first_input, self.n_inputs),
            ("output", relation.outputs, limits, self.first_output, self.n_outputs),
        )
        low = high = 0
        terms = []
        for what, pairs, intervals, first, count in sides:
            for i, c in pairs:
                if not 0 <= i < min(count, len(intervals)):
                    found = f"{relation.name} names {what} {i}"
                    raise SealedError("sealed-relation", found=found, expected=f"{len(intervals)} bounded {what}s")
                ends = (c * intervals[i].lo, c * intervals[i].hi)
                low, high = low + min(ends), high + max(ends)
                terms.append((first + i, c))
        return Interval(low, high), terms

    def _bits(self, relation: LinearRelation, most: int) -> int:
        bits = max(most.bit_length(), 1)
        if bits > GADGET_BITS_MAX:
            found = f"{relation.name} over {bits} bits"
            raise SealedError("sealed-relation", found=found, expected=f"at most {GADGET_BITS_MAX}")
        return bits

    def _non_negative(self, distance: LinearCombination, k: int) -> None:
        """0 <= distance < 2^k: k boolean wires and one row that ties their sum to it."""
        first = self.first_input + self.n_inputs + self.n_witness
        self.n_witness += k
        self.ops.append(BitsOp(distance, k, first))
        bits = [LinearCombination(((first + i, 1),)) for i in range(k)]
        self.rows += [Constraint(bit, 1 - bit, _NONE) for bit in bits]
        weighed = LinearCombination.weighted((1 << i, bit) for i, bit in enumerate(bits))
        self.rows.append(Constraint(distance - weighed, _ONE, _NONE))

    def finish(self) -> SealedCircuit:
        """The commitment's rows behind the integer ones."""
        salt = self.first_input + self.n_inputs + self.n_witness
        modulus = SCALAR_MODULUS[self.curve]
        hashed = HashRows(self.curve, salt + 1)
        elements = [FieldCombination(((salt, 1),)), *self._packed(modulus)]
        value = hashed.sponge(elements, self.n_inputs)
        tied = FieldCombination.of((*value.terms, (COMMITMENT_WIRE, -1)), modulus)
        one = FieldCombination(((0, 1),))
        return SealedCircuit(
            curve=self.curve,
            n_inputs=self.n_inputs,
            n_outputs=self.n_outputs,
            n_witness=self.n_witness,
            n_field=1 + len(hashed.ops),
            ops=(*self.ops, *hashed.ops, CommitOp(value)),
            constraints=tuple(self.rows),
            field_constraints=(*hashed.rows, FieldConstraint(tied, one, FieldCombination())),
        )

    def _packed(self, modulus: int) -> Iterator[FieldCombination]:
        """The inputs as the commitment packs them."""
        for at in range(0, self.n_inputs, com.INPUTS_PER_ELEMENT):
            group = range(at, min(at + com.INPUTS_PER_ELEMENT, self.n_inputs))
            weights = [1 << (com.INPUT_BITS * (i - at)) for i in group]
            terms = [(self.first_input + i, weight) for i, weight in zip(group, weights, strict=True)]
            yield FieldCombination.of((*terms, (0, -com.INPUT_MIN * sum(weights))), modulus)


_Move = Callable[[int], int]


def _mover(circuit: Circuit, *, first_output: int, first_input: int) -> _Move:
    """Where a wire of the open circuit is in the sealed one."""
    inputs_end, ctx = 1 + circuit.n_inputs, circuit.ctx_wire

    def move(wire: int) -> int:
        if wire == 0:
            return 0
        if wire < inputs_end:
            return first_input + wire - 1
        if wire <= ctx:
            return first_output + wire - inputs_end
        return first_input + circuit.n_inputs + wire - ctx - 1

    return move


def _moved(lc: LinearCombination, move: _Move) -> LinearCombination:
    return LinearCombination.of((move(wire), c) for wire, c in lc.terms)


def _moved_row(row: Constraint, move: _Move) -> Constraint:
    return Constraint(_moved(row.a, move), _moved(row.b, move), _moved(row.c, move))


def _moved_op(op: BitsOp | MulOp | OutOp, move: _Move) -> Op:
    match op:
        case BitsOp(value, k, first):
            return BitsOp(_moved(value, move), k, move(first))
        case MulOp(a, b, shift, wire):
            return MulOp(_moved(a, move), _moved(b, move), shift, move(wire))
        case OutOp(value, index):
            return OutOp(_moved(value, move), index)


def _binds_input(row: Constraint, circuit: Circuit) -> bool:
    """A row x_i·0 = 0: it binds a public input, and the sealed inputs are private."""
    if row.b.terms or row.c.terms or len(row.a.terms) != 1:
        return False
    return 1 <= row.a.terms[0][0] <= circuit.n_inputs
