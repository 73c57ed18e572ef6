"""Over a field of 257 elements everything can be tried: a circuit that the analysis shows has one assignment per input.

The rows are integers, so the same circuit makes sense over any prime field that is large against its numbers. All
assignments of all wires are searched, whatever the program says; nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from attest.proof import Circuit, CircuitBuilder, Interval, LinearCombination
from attest.proof.uniqueness import analyse
from tests.attest.proof.forge import binds, evaluate, execute, without_row
from tests.attest.proof.mutations import changed_rows

P = 257
"""The Fermat prime: far above twice the largest number below (63), small enough to try every value of a wire."""
BOX = Interval(-8, 7)
CTX = 5


def largest(builder: CircuitBuilder, value: LinearCombination, _: Interval) -> LinearCombination:
    """min(max(x, 3 - x), 5): the bits of the second step are enough for the maximum's own range alone."""
    maximum = 3 - value + builder.relu_shift(2 * value - 3, Interval(-19, 11))
    return builder.at_most(maximum, Interval(-4, 11), 5)


def chosen(builder: CircuitBuilder, value: LinearCombination, _: Interval) -> LinearCombination:
    """max(x, 1 - x) and whether x is larger, from one strict comparison; the maximum's range is needed again."""
    ahead = 2 * value - 1
    v = ahead + 31
    top = v - LinearCombination.weighted((1 << i, bit) for i, bit in enumerate(builder.add_bits(v, 5)))
    builder.add_constraint(top, 32 - top, LinearCombination())
    larger = builder.add_mul(top, LinearCombination.constant(1), shift=5)
    maximum = 1 - value + builder.add_mul(top, ahead, shift=5)
    return larger + builder.relu_shift(maximum - 1, Interval(-7, 8))


def looked_up(builder: CircuitBuilder, value: LinearCombination, _: Interval) -> LinearCombination:
    """Exclusive or of two bits of x + 8, halved and rounded: fits the bits of the second step as a table alone."""
    bits = builder.add_bits(value + 8, 4)
    builder.add_constraint(
        value + 8 - LinearCombination.weighted((1 << i, bit) for i, bit in enumerate(bits)),
        LinearCombination.constant(1),
        LinearCombination(),
    )
    both = builder.add_mul(bits[0], bits[1])
    # 0 … 1 as a table of x, -2 … 2 as a sum.
    return builder.relu_shift(bits[0] + bits[1] - 2 * both, Interval(0, 1), shift=1)


Gadget = Callable[[CircuitBuilder, LinearCombination, Interval], LinearCombination]
GADGETS: dict[str, Gadget] = {
    "relu": lambda b, v, i: b.relu_shift(v, i),
    "relu-shift": lambda b, v, i: b.relu_shift(v, i, shift=2),
    "round-shift": lambda b, v, i: b.round_shift(v, i, shift=1),
    "at-most": lambda b, v, i: b.at_most(v, i, 2),
    "largest": largest,
    "chosen": chosen,
    "looked-up": looked_up,
    "two-layers": lambda b, v, i: b.relu_shift(3 - b.relu_shift(v, i, shift=1), Interval(-1, 3)),
}
NAMED = pytest.mark.parametrize("name", GADGETS)


def circuit_of(name: str) -> Circuit:
    builder = CircuitBuilder(n_inputs=1, n_outputs=1)
    builder.add_out(0, GADGETS[name](builder, builder.input(0), BOX))
    return builder.finish()


def solutions(circuit: Circuit, x: int, most: int) -> list[list[int]]:
    """Every assignment that satisfies all rows, at most ``most``; wires are tried in the order of the program."""
    order = [w for w in range(circuit.n_wires) if w > circuit.ctx_wire] + [1 + circuit.n_inputs]
    place = {wire: i for i, wire in enumerate(order)}
    due: list[list[int]] = [[] for _ in range(len(order) + 1)]
    for number, row in enumerate(circuit.constraints):
        wires = {wire for part in (row.a, row.b, row.c) for wire, _ in part.terms}
        due[max((place[w] + 1 for w in wires if w in place), default=0)].append(number)
    values = [0] * circuit.n_wires
    values[0], values[1], values[circuit.ctx_wire] = 1, x % P, CTX

    def holds(number: int) -> bool:
        row = circuit.constraints[number]
        return (evaluate(row.a, values, P) * evaluate(row.b, values, P) - evaluate(row.c, values, P)) % P == 0

    def search(depth: int) -> Iterator[list[int]]:
        if not all(map(holds, due[depth])):
            return
        if depth == len(order):
            yield list(values)
            return
        for value in range(P):
            values[order[depth]] = value
            yield from search(depth + 1)

    found = []
    for solution in search(0):
        found.append(solution)
        if len(found) == most:
            break
    return found


@NAMED
def test_the_program_s_assignment_is_the_only_one(name: str) -> None:
    circuit = circuit_of(name)
    assert analyse(circuit, [BOX]).shown
    for x in range(BOX.lo, BOX.hi + 1):
        assert solutions(circuit, x, 2) == [execute(circuit, (x,), CTX, {}, P)]


@NAMED
def test_without_any_one_row_there_is_another(name: str) -> None:
    circuit = circuit_of(name)
    for index, row in enumerate(circuit.constraints):
        if not binds(row):
            weakened = without_row(circuit, index)
            assert any(len(solutions(weakened, x, 2)) > 1 for x in (-8, -3, 0, 5, 7)), f"row {index}"


@pytest.mark.parametrize("name", ["relu", "round-shift"])
def test_what_the_analysis_shows_is_so_for_changed_circuits_as_well(name: str) -> None:
    """Mutants that keep exactly the program's assignments exist (a row scaled by two); a false "shown" must not."""
    circuit = circuit_of(name)
    for index in range(len(circuit.constraints)):
        for what, mutated in changed_rows(circuit, index):
            if analyse(mutated, [BOX]).shown:
                for x in range(BOX.lo, BOX.hi + 1):
                    assert solutions(mutated, x, 2) == [execute(mutated, (x,), CTX, {}, P)], what


def test_outside_the_box_nothing_is_promised() -> None:
    """The verifier checks the box on the clear x: beyond the bits no assignment exists, and none is needed."""
    circuit = circuit_of("relu")
    assert [len(solutions(circuit, x, 2)) for x in (-9, 8)] == [0, 0]
    assert not analyse(circuit, [Interval(-9, 8)]).shown
