"""False witnesses for circuits that lack one row: what that row alone prevents. Knows nothing of the analysis.

The program is run over the field with some of its writes replaced; each kind of row has its own cheat. With the row in
place every cheat must fail; without it, one must pass and change an output (or at least a private wire).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from attest.proof import Circuit, Constraint, Curve, LinearCombination
from attest.proof.circuit import BitsOp, MulOp, OutOp

ORDERS = {
    Curve.BN254: 21888242871839275222246405745257275088548364400416034343698204186575808495617,
    Curve.BLS12_381: 52435875175126190479447740508185965837690552500527637822603658699938581184513,
}
"""r of EIP-197 and of the BLS12-381 parameters; written out, so that the tests do not lean on what they test."""

Overrides = dict[int, int]


def evaluate(lc: LinearCombination, wires: Sequence[int], r: int) -> int:
    return sum(c * wires[w] for w, c in lc.terms) % r


def execute(circuit: Circuit, inputs: Sequence[int], ctx: int, overrides: Overrides, r: int) -> list[int]:
    """All wires as field elements; ``overrides`` replaces what the program writes to single wires."""
    wires = [0] * circuit.n_wires
    wires[0] = 1
    wires[1 : 1 + len(inputs)] = [x % r for x in inputs]
    wires[circuit.ctx_wire] = ctx
    for op in circuit.ops:
        match op:
            case BitsOp(value, k, first):
                number = evaluate(value, wires, r)
                for i in range(k):
                    wires[first + i] = overrides.get(first + i, (number >> i) & 1) % r
            case MulOp(a, b, shift, wire):
                product = evaluate(a, wires, r) * evaluate(b, wires, r) * pow(2, -shift, r)
                wires[wire] = overrides.get(wire, product) % r
            case OutOp(value, index):
                wire = 1 + circuit.n_inputs + index
                wires[wire] = overrides.get(wire, evaluate(value, wires, r)) % r
    return wires


def broken(circuit: Circuit, wires: Sequence[int], r: int) -> list[int]:
    return [i for i, row in enumerate(circuit.constraints) if not _holds(row, wires, r)]


def _holds(row: Constraint, wires: Sequence[int], r: int) -> bool:
    return (evaluate(row.a, wires, r) * evaluate(row.b, wires, r) - evaluate(row.c, wires, r)) % r == 0


def binds(row: Constraint) -> bool:
    """A row s·0 = 0."""
    return not row.b.terms and not row.c.terms and len(row.a.terms) == 1


def without_row(circuit: Circuit, index: int) -> Circuit:
    return replace(circuit, constraints=circuit.constraints[:index] + circuit.constraints[index + 1 :])


@dataclass(frozen=True, slots=True)
class FalseWitness:
    """A witness that breaks exactly one row; ``output`` tells whether an output changed, not only a private wire."""

    wires: list[int]
    output: bool


def false_witness(circuit: Circuit, index: int, points: Sequence[Sequence[int]], r: int) -> FalseWitness | None:
    """The best false witness that row ``index`` alone stops, over the given inputs."""
    outputs = range(1 + circuit.n_inputs, circuit.ctx_wire)
    best: FalseWitness | None = None
    for inputs in points:
        honest = execute(circuit, inputs, 7, {}, r)
        for overrides in _cheats(circuit, circuit.constraints[index], honest, r):
            wires = execute(circuit, inputs, 7, overrides, r)
            if broken(circuit, wires, r) != [index]:
                continue
            best = FalseWitness(wires, any(wires[w] != honest[w] for w in outputs))
            if best.output:
                return best
    return best


def _cheats(circuit: Circuit, row: Constraint, honest: Sequence[int], r: int) -> Iterator[Overrides]:
    for op in circuit.ops:
        match op:
            case BitsOp(value, k, first):
                bits = [LinearCombination(((first + i, 1),)) for i in range(k)]
                top = value - LinearCombination(tuple((first + i, 1 << i) for i in range(k)))
                if row.a in bits:
                    yield from _odd_bit(op, bits.index(row.a), honest, r)
                elif row.a == top and set(row.c.terms) == set():
                    yield from _loose_sum(op, honest)
            case MulOp(a, b, _, wire) if (row.a, row.b) == (a, b):
                yield {wire: honest[wire] + 1}
                yield {wire: honest[wire] - 1}
            case OutOp(_, index) if (1 + circuit.n_inputs + index, -1) in row.a.terms:
                yield {1 + circuit.n_inputs + index: honest[1 + circuit.n_inputs + index] + 1}


def _odd_bit(op: BitsOp, i: int, honest: Sequence[int], r: int) -> Iterator[Overrides]:
    """Bit i takes whatever turns the top bit over, or makes up for another bit that is flipped."""
    wire = op.first + i
    for sign in (1, -1):
        yield {wire: honest[wire] + sign * (1 << (op.k - i))}
    for j in set(range(op.k)) - {i}:
        flip = 1 - 2 * honest[op.first + j]
        yield {op.first + j: honest[op.first + j] + flip, wire: honest[wire] - flip * pow(2, j - i, r)}


def _loose_sum(op: BitsOp, honest: Sequence[int]) -> Iterator[Overrides]:
    """Bits that are bits, but of another number."""
    yield {op.first + i: 0 for i in range(op.k)}
    yield {op.first + i: 1 for i in range(op.k)}
    for i in range(op.k):
        yield {op.first + i: 1 - honest[op.first + i]}
