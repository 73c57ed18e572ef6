"""Groth16 proofs that a command's outputs are the approved model's outputs for its inputs.

Verifiers import neither a device library nor, before they are constructed, the native extension.
"""

from attest.proof.builder import CircuitBuilder, Interval
from attest.proof.circuit import Circuit, Constraint, Curve, LinearCombination
from attest.proof.errors import CHECKS, CircuitError, ProofRefused, ProverError
from attest.proof.keys import key_hash
from attest.proof.prover import Groth16Prover, ProvenInference, development_setup
from attest.proof.verifier import NativeVerifier, ProofVerifier, PyEccVerifier, failed_check

__all__ = [
    "CHECKS",
    "Circuit",
    "CircuitBuilder",
    "CircuitError",
    "Constraint",
    "Curve",
    "Groth16Prover",
    "Interval",
    "LinearCombination",
    "NativeVerifier",
    "ProofRefused",
    "ProofVerifier",
    "ProvenInference",
    "ProverError",
    "PyEccVerifier",
    "development_setup",
    "failed_check",
    "key_hash",
]
