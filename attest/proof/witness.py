"""The witness program of a circuit in exact Python integers: every wire of one inference.

Slower than the Rust core by orders of magnitude and independent of it: for export to other tools, and as the reference
that the core is held to.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

from attest.proof.circuit import BitsOp, Circuit, LinearCombination, MulOp, Op
from attest.proof.errors import ProverError
from attest.proof.signals import CTX_BYTES, VALUE_MAX, VALUE_MIN


def witness(circuit: Circuit, inputs: Sequence[int], ctx: bytes) -> list[int]:
    """All wires as field elements in [0, r): 1, inputs, outputs, ctx, private wires.

    Raises :class:`ProverError` (``input-count``, ``signal-range``, ``ctx-length``, ``witness-range`` when an input is
    outside the box the circuit was built for, ``witness-remainder``), as the Rust core does.
    """
    wires = signed_witness(circuit, inputs, ctx)
    r = circuit.curve.parameters.r
    return [wire % r for wire in wires]


def signed_witness(circuit: Circuit, inputs: Sequence[int], ctx: bytes) -> list[int]:
    """The same before reduction: signed integers."""
    if len(inputs) != circuit.n_inputs:
        raise ProverError("input-count", found=f"{len(inputs)} inputs", expected=f"{circuit.n_inputs}")
    if len(ctx) != CTX_BYTES:
        raise ProverError("ctx-length", found=f"{len(ctx)} bytes", expected=f"{CTX_BYTES}")
    for value in inputs:
        if not VALUE_MIN <= index(value) <= VALUE_MAX:
            raise ProverError("signal-range", found=f"{value}", expected="a signed 64-bit integer")
    wires = [0] * circuit.n_wires
    wires[0] = 1
    wires[1 : 1 + circuit.n_inputs] = [index(value) for value in inputs]
    for op in circuit.ops:
        _execute(op, wires, 1 + circuit.n_inputs)
    # after the program, which has no value for it: a context is bound, never computed with
    wires[circuit.ctx_wire] = int.from_bytes(ctx, "big")
    return wires


def evaluate(lc: LinearCombination, wires: Sequence[int]) -> int:
    return sum(coefficient * wires[wire] for wire, coefficient in lc.terms)


def first_unsatisfied(circuit: Circuit, wires: Sequence[int]) -> int | None:
    """Index of the first constraint that does not hold over the field, ``None`` if all do."""
    r = circuit.curve.parameters.r
    for i, row in enumerate(circuit.constraints):
        if (evaluate(row.a, wires) * evaluate(row.b, wires) - evaluate(row.c, wires)) % r:
            return i
    return None


def _execute(op: Op, wires: list[int], first_output: int) -> None:
    match op:
        case BitsOp(value, k, first):
            number = evaluate(value, wires)
            if not 0 <= number < 1 << (k + 1):
                raise ProverError("witness-range", found=f"{number} for {k} bits", expected=f"0 to 2^{k + 1} - 1")
            wires[first : first + k] = [(number >> i) & 1 for i in range(k)]
        case MulOp(a, b, shift, wire):
            quotient, remainder = divmod(evaluate(a, wires) * evaluate(b, wires), 1 << shift)
            if remainder:
                raise ProverError("witness-remainder", found=f"remainder {remainder}", expected="an exact shift")
            wires[wire] = quotient
        case _:
            wires[first_output + op.index] = evaluate(op.value, wires)
