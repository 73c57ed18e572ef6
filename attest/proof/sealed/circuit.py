"""Sealed circuits as values: what ``SITSR1C2`` files hold (:mod:`attest.proof.sealed.format`).

They differ from open circuits (:mod:`attest.proof.circuit`) in what is public and in what a wire may hold. Wires are 1,
commitment, outputs, ctx | inputs, integer wires, field wires; only those before the bar are public, and the first field
wire is the salt. Integer wires hold exact integers and have integer rows; the commitment, ctx and the field wires hold
any field element and occur in field rows, whose coefficients are field elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from attest.proof.circuit import BitsOp, Constraint, Curve, MulOp, OutOp
from attest.proof.poseidon2 import SCALAR_MODULUS

COMMITMENT_WIRE: Final = 1


@dataclass(frozen=True, slots=True)
class FieldCombination:
    """Σ coefficient · wire, ``terms`` sorted by wire, coefficients in [1, r)."""

    terms: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]], modulus: int) -> FieldCombination:
        """From (wire, integer) pairs in any order; equal wires add up, zeros disappear."""
        sums: dict[int, int] = {}
        for wire, coefficient in pairs:
            sums[wire] = (sums.get(wire, 0) + coefficient) % modulus
        return cls(tuple((wire, sums[wire]) for wire in sorted(sums) if sums[wire]))


@dataclass(frozen=True, slots=True)
class FieldMulOp:
    """``wire`` = a·b in the field."""

    a: FieldCombination
    b: FieldCombination
    wire: int


@dataclass(frozen=True, slots=True)
class CommitOp:
    """The commitment = ``value``."""

    value: FieldCombination


Op = BitsOp | MulOp | OutOp | FieldMulOp | CommitOp


@dataclass(frozen=True, slots=True)
class FieldConstraint:
    """a·b = c over the field, with coefficients of full size."""

    a: FieldCombination
    b: FieldCombination
    c: FieldCombination


@dataclass(frozen=True, slots=True)
class SealedCircuit:
    """A complete sealed circuit; rows are the integer rows, then the field rows."""

    curve: Curve
    n_inputs: int
    n_outputs: int
    n_witness: int
    n_field: int
    ops: tuple[Op, ...]
    constraints: tuple[Constraint, ...]
    field_constraints: tuple[FieldConstraint, ...]

    @property
    def modulus(self) -> int:
        return SCALAR_MODULUS[self.curve]

    @property
    def first_output(self) -> int:
        return COMMITMENT_WIRE + 1

    @property
    def ctx_wire(self) -> int:
        return self.first_output + self.n_outputs

    @property
    def first_input(self) -> int:
        return self.ctx_wire + 1

    @property
    def first_witness(self) -> int:
        return self.first_input + self.n_inputs

    @property
    def salt_wire(self) -> int:
        return self.first_witness + self.n_witness

    @property
    def n_wires(self) -> int:
        return self.salt_wire + self.n_field

    @property
    def n_public(self) -> int:
        return self.ctx_wire

    @property
    def n_rows(self) -> int:
        return len(self.constraints) + len(self.field_constraints)
