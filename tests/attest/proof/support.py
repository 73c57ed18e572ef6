"""A toy network (2 inputs, 2 hidden ReLU neurons, 1 output), its keys, and a reference interpreter of circuits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attest.proof import Circuit, CircuitBuilder, Constraint, Curve, Interval, LinearCombination
from attest.proof.circuit import BitsOp, MulOp
from attest.proof.points import PairingCurve

CTX = bytes(range(1, 32))
BOX = Interval(-8, 7)
WEIGHTS = ((3, -2), (-1, 4))
BIAS = (5, -3)
SHIFT = 2
LAST_WEIGHTS = (2, -3)
LAST_BIAS = 1


@dataclass(frozen=True, slots=True)
class Toy:
    circuit: Circuit
    data: bytes
    proving_key: bytes
    verification_key: bytes

    @property
    def curve(self) -> Curve:
        return self.circuit.curve

    @property
    def it(self) -> PairingCurve:
        """Parameters and encodings of the curve."""
        return self.circuit.curve.parameters


def hidden_bounds(row: tuple[int, ...], bias: int) -> Interval:
    lo = bias + sum(min(w * BOX.lo, w * BOX.hi) for w in row)
    hi = bias + sum(max(w * BOX.lo, w * BOX.hi) for w in row)
    return Interval(lo, hi)


def model(x: tuple[int, int]) -> int:
    """The network as integer formulas (evidence rules §2)."""
    hidden = []
    for row, bias in zip(WEIGHTS, BIAS, strict=True):
        acc = bias + sum(w * v for w, v in zip(row, x, strict=True))
        hidden.append(max(0, (acc + (1 << (SHIFT - 1))) >> SHIFT))
    return LAST_BIAS + sum(w * h for w, h in zip(LAST_WEIGHTS, hidden, strict=True))


def toy_circuit(curve: Curve = Curve.BN254) -> Circuit:
    builder = CircuitBuilder(n_inputs=2, n_outputs=1, curve=curve)
    hidden = []
    for row, bias in zip(WEIGHTS, BIAS, strict=True):
        acc = LinearCombination.weighted(zip(row, builder.inputs(), strict=True)) + bias
        hidden.append(builder.relu_shift(acc, hidden_bounds(row, bias), shift=SHIFT))
    builder.add_out(0, LinearCombination.weighted(zip(LAST_WEIGHTS, hidden, strict=True)) + LAST_BIAS)
    return builder.finish()


def value(lc: LinearCombination, wires: list[int]) -> int:
    return sum(c * wires[w] for w, c in lc.terms)


def run(circuit: Circuit, x: tuple[int, ...], ctx: bytes = CTX) -> list[int]:
    """All wires as plain integers; an independent reading of the format's text."""
    wires = [0] * circuit.n_wires
    wires[0] = 1
    wires[1 : 1 + len(x)] = x
    wires[circuit.ctx_wire] = int.from_bytes(ctx, "big")
    for op in circuit.ops:
        if isinstance(op, BitsOp):
            v = value(op.value, wires)
            assert 0 <= v < 1 << (op.k + 1)
            wires[op.first : op.first + op.k] = [(v >> i) & 1 for i in range(op.k)]
        elif isinstance(op, MulOp):
            wires[op.wire], remainder = divmod(value(op.a, wires) * value(op.b, wires), 1 << op.shift)
            assert remainder == 0
        else:
            wires[1 + circuit.n_inputs + op.index] = value(op.value, wires)
    return wires


def holds(row: Constraint, wires: list[int], curve: Curve) -> bool:
    return (value(row.a, wires) * value(row.b, wires) - value(row.c, wires)) % curve.parameters.r == 0


def failing_rows(circuit: Circuit, wires: list[int]) -> list[int]:
    return [i for i, row in enumerate(circuit.constraints) if not holds(row, wires, circuit.curve)]


def without_row(circuit: Circuit, index: int) -> Circuit:
    rows = circuit.constraints
    return replace(circuit, constraints=rows[:index] + rows[index + 1 :])
