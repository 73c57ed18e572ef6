"""The sealed counterpart of :mod:`attest.proof.uniqueness`: what the rows of a sealed circuit leave open is nothing.

For any salt and any values of the input wires that satisfy the rows: the inputs are integers inside the box, every
other wire and every output has the value of the program, and the commitment is the sponge of salt and inputs.

1. the integer rows are those of an open circuit over private inputs, so they are analysed as such; bits that are tied
   to x_i - low or high - x_i assert the box instead of relying on it, which is why each input must have them;
2. each field operation has its row a·b = w over wires that are forced, and the commitment its row (v - c)·1 = 0, all of
   it exact in the field;
3. no row is left over.

That the relations of a deployment are among the asserted values is for whoever knows the relations; sealing is
deterministic, so an auditor compares circuit digests.
"""

from __future__ import annotations

from collections.abc import Sequence

from attest.proof.builder import Interval
from attest.proof.circuit import BitsOp, Circuit, Constraint, LinearCombination, MulOp, Op, OutOp
from attest.proof.errors import CircuitError
from attest.proof.sealed.circuit import (
    COMMITMENT_WIRE,
    CommitOp,
    FieldCombination,
    FieldConstraint,
    FieldMulOp,
    SealedCircuit,
)
from attest.proof.uniqueness import FINDINGS_MAX, Analysis, Finding, Uniqueness

_ONE = LinearCombination.constant(1)
_NONE = LinearCombination()


def analyse_sealed(circuit: SealedCircuit, box: Sequence[Interval]) -> Uniqueness:
    """Analyses a decoded sealed circuit; ``box`` is what its rows must assert, one interval per input.

    Raises :class:`CircuitError` (``circuit-bounds``) if the box does not fit the circuit.
    """
    if len(box) != circuit.n_inputs:
        raise CircuitError("circuit-bounds", found=f"{len(box)} intervals", expected=f"{circuit.n_inputs}")
    opened, foreign = _opened(circuit, box)
    analysis = Analysis(opened, box, asserting=True)
    findings = list(analysis.run().findings)
    findings += [Finding("row-unused", f"row {index}", "integer wires only") for index in foreign]
    asserted = set(analysis.asserted)
    for index, side in enumerate(box):
        if not _bounded(circuit, asserted, index, side):
            findings.append(Finding("range", f"input {index}", f"rows that hold it to {side.lo} … {side.hi}"))
    findings += _field_findings(circuit)
    return Uniqueness(circuit.n_rows, circuit.n_wires, tuple(findings[:FINDINGS_MAX]))


def _opened(circuit: SealedCircuit, box: Sequence[Interval]) -> tuple[Circuit, list[int]]:
    """The integer part as an open circuit, with rows x·0 = 0 instead of x = low; rows that name other wires apart."""
    fixed = {_fixed_row(circuit, i, side) for i, side in enumerate(box) if side.lo == side.hi}
    rows: list[Constraint] = []
    foreign: list[int] = []
    for index, row in enumerate(circuit.constraints):
        if row in fixed:
            continue
        try:
            rows.append(Constraint(*(_moved(circuit, part) for part in (row.a, row.b, row.c))))
        except KeyError:
            foreign.append(index)
    rows += [Constraint(LinearCombination(((1 + i, 1),)), _NONE, _NONE) for i in range(circuit.n_inputs)]
    ops: list[Op] = []
    for op in circuit.ops:
        match op:
            case BitsOp(value, k, first):
                ops.append(BitsOp(_moved(circuit, value), k, _place(circuit, first)))
            case MulOp(a, b, shift, wire):
                ops.append(MulOp(_moved(circuit, a), _moved(circuit, b), shift, _place(circuit, wire)))
            case OutOp(value, index):
                ops.append(OutOp(_moved(circuit, value), index))
            case FieldMulOp() | CommitOp():
                pass
    opened = Circuit(circuit.curve, circuit.n_inputs, circuit.n_outputs, circuit.n_witness, tuple(ops), tuple(rows))
    return opened, foreign


def _place(circuit: SealedCircuit, wire: int) -> int:
    """Number of an integer wire in the open circuit; KeyError for the commitment and field wires."""
    if wire == 0:
        return 0
    if circuit.first_output <= wire <= circuit.ctx_wire:
        return wire - circuit.first_output + 1 + circuit.n_inputs
    if circuit.first_input <= wire < circuit.first_witness:
        return wire - circuit.first_input + 1
    if circuit.first_witness <= wire < circuit.salt_wire:
        return wire - circuit.first_witness + 2 + circuit.n_inputs + circuit.n_outputs
    raise KeyError(wire)


def _moved(circuit: SealedCircuit, lc: LinearCombination) -> LinearCombination:
    return LinearCombination.of((_place(circuit, wire), c) for wire, c in lc.terms)


def _fixed_row(circuit: SealedCircuit, index: int, side: Interval) -> Constraint:
    """(x - value)·1 = 0: an input of one value."""
    return Constraint(LinearCombination(((circuit.first_input + index, 1),)) - side.lo, _ONE, _NONE)


def _bounded(
    circuit: SealedCircuit, asserted: set[tuple[tuple[tuple[int, int], ...], int]], index: int, side: Interval
) -> bool:
    """Whether rows hold the input to its side: both distances, or one whose bits end exactly at the other edge."""
    x, width = LinearCombination(((1 + index, 1),)), side.hi - side.lo
    if width == 0:
        return _fixed_row(circuit, index, side) in circuit.constraints
    above = {k for terms, k in asserted if terms == (x - side.lo).terms}
    below = {k for terms, k in asserted if terms == (side.hi - x).terms}
    exact = any(width == (1 << k) - 1 for k in above | below)
    return bool(above and below) or exact


def _field_findings(circuit: SealedCircuit) -> list[Finding]:
    """Field rows are in the order of their operations: one each, over wires that are forced before it."""
    findings: list[Finding] = []
    rows, first = circuit.field_constraints, len(circuit.constraints)
    forced = {0, *range(circuit.first_input, circuit.salt_wire + 1)}
    number = commitments = 0
    operands: tuple[FieldCombination, ...]
    new: set[int]
    for op in circuit.ops:
        match op:
            case FieldMulOp(a, b, wire):
                expected = FieldConstraint(a, b, FieldCombination(((wire, 1),)))
                where, operands = f"wire {wire}", (a, b)
                new = {wire}
            case CommitOp(value):
                tied = FieldCombination.of((*value.terms, (COMMITMENT_WIRE, -1)), circuit.modulus)
                expected = FieldConstraint(tied, FieldCombination(((0, 1),)), FieldCombination())
                where, operands = "commitment", (value,)
                new = set()
                commitments += 1
            case BitsOp() | MulOp() | OutOp():
                continue
        known = all(w in forced for part in operands for w, _ in part.terms) and not new & forced
        if number >= len(rows) or rows[number] != expected or not known:
            findings.append(Finding("wire-free", where, f"its row ({first + number}) over wires that are forced"))
        forced |= new
        number += 1
    if commitments != 1:
        findings.append(Finding("signal-unbound", "commitment", "one operation and its row"))
    if missing := set(range(circuit.salt_wire, circuit.n_wires)) - forced:
        findings.append(Finding("wire-free", f"wire {min(missing)}", "an operation whose row forces it"))
    if number < len(rows):
        findings.append(Finding("row-unused", f"row {first + number}", "a part in the commitment"))
    return findings
