"""A cheating prover for sealed circuits: what a missing row would allow, and the best try against all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from attest.proof.circuit import BitsOp, MulOp, OutOp
from attest.proof.sealed.circuit import COMMITMENT_WIRE, CommitOp, FieldMulOp, SealedCircuit
from attest.proof.sealed.witness import evaluate, failing_rows
from tests.attest.proof.sealed.cases import CTX, SALT, X


def assigned(circuit: SealedCircuit, x: Sequence[int], chosen: Mapping[int, int]) -> list[int]:
    """The witness program in the field without any check; wires in ``chosen`` get that value instead of their own."""
    r = circuit.modulus
    wires = [0] * circuit.n_wires
    wires[0], wires[circuit.salt_wire] = 1, int.from_bytes(SALT, "big")
    wires[circuit.ctx_wire] = int.from_bytes(CTX, "big")
    wires[circuit.first_input : circuit.first_witness] = [v % r for v in x]
    for op in circuit.ops:
        match op:
            case BitsOp(value, k, first):
                number = evaluate(value, wires) % r
                number = number if number < r // 2 else number - r
                results = {first + i: number >> i & 1 for i in range(k)}
            case MulOp(a, b, shift, wire):
                results = {wire: evaluate(a, wires) * evaluate(b, wires) * pow(1 << shift, -1, r)}
            case OutOp(value, index):
                results = {circuit.first_output + index: evaluate(value, wires)}
            case FieldMulOp(left, right, wire):
                results = {wire: evaluate(left, wires) * evaluate(right, wires)}
            case CommitOp(element):
                results = {COMMITMENT_WIRE: evaluate(element, wires)}
        for wire, value in results.items():
            wires[wire] = chosen.get(wire, value) % r
    return wires


def integer_part(circuit: SealedCircuit) -> SealedCircuit:
    """Without the hash, which any x satisfies: trying many x is then fast."""
    ops = tuple(op for op in circuit.ops if not isinstance(op, FieldMulOp | CommitOp))
    return replace(circuit, ops=ops, field_constraints=())


def satisfying(circuit: SealedCircuit, x: Sequence[int]) -> bool:
    """Whether the honest bits, or some with one of them replaced so that their sum fits, satisfy all rows."""
    circuit = integer_part(circuit)
    honest = assigned(circuit, x, {})
    if not failing_rows(circuit, honest):
        return True
    groups = [op for op in circuit.ops if isinstance(op, BitsOp)]
    changes = (change for op in groups for change in _bent_bits(circuit, honest, op))
    return any(not failing_rows(circuit, assigned(circuit, x, change)) for change in changes)


def _bent_bits(circuit: SealedCircuit, wires: list[int], op: BitsOp) -> Iterator[dict[int, int]]:
    """One bit bent so that the sum of the bits is right (it is no bit any more)."""
    missing = evaluate(op.value, wires) - sum(wires[op.first + i] << i for i in range(op.k))
    for i in range(op.k):
        yield {op.first + i: wires[op.first + i] + missing * pow(1 << i, -1, circuit.modulus)}


def forged_without(circuit: SealedCircuit, row: int) -> list[int]:
    """A false witness that only row ``row`` refuses; fails the test where none is found."""
    hashing = row >= len(circuit.constraints)
    tried = circuit if hashing else integer_part(circuit)
    for x, chosen in _hash_attempts(circuit, row) if hashing else _attempts(tried, row):
        if failing_rows(tried, assigned(tried, x, chosen)) == [row]:
            return assigned(circuit, x, chosen)
    raise AssertionError(f"no false witness passes without row {row}")


def _hash_attempts(circuit: SealedCircuit, row: int) -> Iterator[tuple[Sequence[int], dict[int, int]]]:
    """Another value of the wire that the row defines: the same salt and inputs then have another commitment."""
    target = circuit.field_constraints[row - len(circuit.constraints)]
    honest = assigned(circuit, X, {})
    for wire, _ in target.c.terms or target.a.terms:
        if wire:
            yield X, {wire: honest[wire] + 1}


def _attempts(circuit: SealedCircuit, row: int) -> Iterator[tuple[Sequence[int], dict[int, int]]]:
    """Each wire of the row changed, with all that depends on it, and inputs beyond box and relations."""
    target, honest = circuit.constraints[row], assigned(circuit, X, {})
    touched = {w for lc in (target.a, target.b, target.c) for w, _ in lc.terms if w}
    for wire in sorted(touched, reverse=True):
        yield X, {wire: honest[wire] + 1}
        yield X, {wire: 1 - honest[wire]}
    groups = [op for op in circuit.ops if isinstance(op, BitsOp) and touched & set(range(op.first, op.first + op.k))]
    for op in groups:
        yield from _turned_signs(circuit, honest, op)
        for x in _beyond(X):
            yield x, {}
            yield from ((x, change) for change in _bent_bits(circuit, assigned(circuit, x, {}), op))
    if groups and groups[0] is circuit.ops[0]:
        yield from _other_tops(circuit, groups[0])
    for x in _beyond(X):
        yield x, {}


def _beyond(x: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for i in range(len(x)):
        for value in range(-40, 41):
            yield (*x[:i], value, *x[i + 1 :])
    for a in range(-5, 15):
        for b in range(-8, 8):
            yield (a, b, x[2])


def _turned_signs(
    circuit: SealedCircuit, wires: list[int], op: BitsOp
) -> Iterator[tuple[Sequence[int], dict[int, int]]]:
    """A bit of the model's gadget that is no bit, so that the top bit turns around."""
    r = circuit.modulus
    top = (evaluate(op.value, wires) - sum(wires[op.first + i] << i for i in range(op.k))) % r
    for i in range(op.k):
        yield X, {op.first + i: wires[op.first + i] + (2 * top - (1 << op.k)) * pow(1 << i, -1, r)}


def _other_tops(circuit: SealedCircuit, bits: BitsOp) -> Iterator[tuple[Sequence[int], dict[int, int]]]:
    """Bits of another number in the model's gadget, where the product still divides: a top "bit" of any value."""
    for x in _beyond(X):
        v = evaluate(bits.value, assigned(circuit, x, {})) % circuit.modulus
        for number in range(1 << bits.k):
            if (v - number) * number % (1 << bits.k) == 0 and v - number not in (0, 1 << bits.k):
                yield x, {bits.first + i: number >> i & 1 for i in range(bits.k)}
