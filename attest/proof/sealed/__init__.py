"""The sealed statement (evidence rules §3): the committed inputs lie in the box, satisfy the relations, and y = M(x).

A third party verifies it from ``[commitment, y_0 … y_{m-1}, ctx]`` with the same verifiers as an open proof, and learns
no input: :mod:`commitment` (salted Poseidon2), :mod:`build` (open circuit to sealed circuit), :mod:`format` (file),
:mod:`witness` (reference), :mod:`prover`.
"""

from attest.proof.sealed.build import LinearRelation, seal
from attest.proof.sealed.circuit import SealedCircuit
from attest.proof.sealed.commitment import Salt, commit
from attest.proof.sealed.errors import SealedError

__all__ = ["LinearRelation", "Salt", "SealedCircuit", "SealedError", "commit", "seal"]
