"""The reference witness of a sealed circuit in plain integers: independent of the native core, slow, exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attest.proof.circuit import BitsOp, Constraint, LinearCombination, MulOp, OutOp
from attest.proof.sealed.circuit import (
    COMMITMENT_WIRE,
    CommitOp,
    FieldCombination,
    FieldConstraint,
    FieldMulOp,
    Op,
    SealedCircuit,
)
from attest.proof.sealed.commitment import SALT_BYTES
from attest.proof.sealed.errors import SealedError

CTX_BYTES: Final = 31


def reference_witness(circuit: SealedCircuit, inputs: Sequence[int], salt: bytes, ctx: bytes) -> list[int]:
    """Every wire as an integer in [0, r).

    Raises :class:`SealedError`: ``input-count``, ``salt-length``, ``ctx-length``, ``witness-range`` where a value
    has no bits (an input far outside the box), ``witness-remainder``.
    """
    if len(inputs) != circuit.n_inputs:
        raise SealedError("input-count", found=f"{len(inputs)} inputs", expected=f"{circuit.n_inputs}")
    if len(salt) != SALT_BYTES:
        raise SealedError("salt-length", found=f"{len(salt)} bytes", expected=f"{SALT_BYTES}")
    if len(ctx) != CTX_BYTES:
        raise SealedError("ctx-length", found=f"{len(ctx)} bytes", expected=f"{CTX_BYTES}")
    wires = [0] * circuit.n_wires
    wires[0] = 1
    wires[circuit.first_input : circuit.first_witness] = inputs
    wires[circuit.salt_wire] = int.from_bytes(salt, "big")
    for op in circuit.ops:
        _step(circuit, op, wires)
    wires[circuit.ctx_wire] = int.from_bytes(ctx, "big")
    return [value % circuit.modulus for value in wires]


def failing_rows(circuit: SealedCircuit, wires: Sequence[int]) -> list[int]:
    """Indices of the rows (integer rows first) that ``wires`` do not satisfy."""
    rows: tuple[Constraint | FieldConstraint, ...] = (*circuit.constraints, *circuit.field_constraints)
    return [
        i
        for i, row in enumerate(rows)
        if (evaluate(row.a, wires) * evaluate(row.b, wires) - evaluate(row.c, wires)) % circuit.modulus
    ]


def evaluate(lc: LinearCombination | FieldCombination, wires: Sequence[int]) -> int:
    """Σ coefficient · wire, not reduced."""
    return sum(coefficient * wires[wire] for wire, coefficient in lc.terms)


def _step(circuit: SealedCircuit, op: Op, wires: list[int]) -> None:
    match op:
        case BitsOp(value, k, first):
            number = evaluate(value, wires)
            if not 0 <= number < 1 << (k + 1):
                raise SealedError("witness-range", found=f"{number}", expected=f"0 to 2^{k + 1} - 1")
            wires[first : first + k] = [number >> i & 1 for i in range(k)]
        case MulOp(a, b, shift, wire):
            product = evaluate(a, wires) * evaluate(b, wires)
            if product & ((1 << shift) - 1):
                raise SealedError("witness-remainder", found=f"{product}", expected=f"a multiple of 2^{shift}")
            wires[wire] = product >> shift
        case OutOp(value, index):
            wires[circuit.first_output + index] = evaluate(value, wires)
        case FieldMulOp(left, right, wire):
            wires[wire] = evaluate(left, wires) * evaluate(right, wires) % circuit.modulus
        case CommitOp(element):
            wires[COMMITMENT_WIRE] = evaluate(element, wires) % circuit.modulus
