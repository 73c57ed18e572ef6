"""Poseidon2 as rows: the sponge of :mod:`attest.proof.sealed.commitment` over linear combinations.

Linear layers cost nothing, x^5 three rows: x·x = x₂, x₂·x₂ = x₄, x₄·x = x₅. That makes 240 rows a permutation. In the
partial rounds two words of the state are sums over all boxes before them, so these rows grow; their coefficients are
field elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attest.proof.circuit import Curve
from attest.proof.poseidon2 import FULL_ROUNDS, SCALAR_MODULUS, parameters
from attest.proof.sealed.circuit import FieldCombination, FieldConstraint, FieldMulOp
from attest.proof.sealed.commitment import RATE, capacity

_State = tuple[FieldCombination, FieldCombination, FieldCombination]
_NONE = FieldCombination()
_EXTERNAL = ((2, 1, 1), (1, 2, 1), (1, 1, 2))
_INTERNAL = ((2, 1, 1), (1, 2, 1), (1, 1, 3))


class HashRows:
    """Operations and rows of one sponge; new wires are numbered from ``first_wire``."""

    def __init__(self, curve: Curve, first_wire: int) -> None:
        self._curve, self._modulus, self._next = curve, SCALAR_MODULUS[curve], first_wire
        self.ops: list[FieldMulOp] = []
        self.rows: list[FieldConstraint] = []

    def sponge(self, elements: Sequence[FieldCombination], n_inputs: int) -> FieldCombination:
        """The commitment to ``elements`` (salt first) as a linear combination of wires."""
        state: _State = (_NONE, _NONE, self._constant(capacity(n_inputs)))
        for at in range(0, len(elements), RATE):
            block = (*elements[at : at + RATE], _NONE)
            state = self._permute((self._sum(state[0], block[0]), self._sum(state[1], block[1]), state[2]))
        return state[0]

    def _permute(self, state: _State) -> _State:
        p = parameters(self._curve)
        half = FULL_ROUNDS // 2
        state = self._mix(_EXTERNAL, state)
        for constants in p.full[:half]:
            state = self._full_round(state, constants)
        for constant in p.partial:
            head = self._fifth_power(self._sum(state[0], self._constant(constant)))
            state = self._mix(_INTERNAL, (head, state[1], state[2]))
        for constants in p.full[half:]:
            state = self._full_round(state, constants)
        return state

    def _full_round(self, state: _State, constants: tuple[int, int, int]) -> _State:
        a, b, c = [self._fifth_power(self._sum(x, self._constant(k))) for x, k in zip(state, constants, strict=True)]
        return self._mix(_EXTERNAL, (a, b, c))

    def _mix(self, matrix: tuple[tuple[int, int, int], ...], state: _State) -> _State:
        a, b, c = [self._weighted(zip(row, state, strict=True)) for row in matrix]
        return a, b, c

    def _fifth_power(self, x: FieldCombination) -> FieldCombination:
        square = self._product(x, x)
        return self._product(self._product(square, square), x)

    def _product(self, a: FieldCombination, b: FieldCombination) -> FieldCombination:
        wire = FieldCombination(((self._next, 1),))
        self.ops.append(FieldMulOp(a, b, self._next))
        self.rows.append(FieldConstraint(a, b, wire))
        self._next += 1
        return wire

    def _constant(self, value: int) -> FieldCombination:
        return FieldCombination.of(((0, value),), self._modulus)

    def _sum(self, *parts: FieldCombination) -> FieldCombination:
        return self._weighted((1, part) for part in parts)

    def _weighted(self, parts: Iterable[tuple[int, FieldCombination]]) -> FieldCombination:
        return FieldCombination.of(
            ((wire, weight * c) for weight, part in parts for wire, c in part.terms), self._modulus
        )
