"""Sealed proofs from the Rust core, and what a verifier of one is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from attest.proof.circuit import Curve
from attest.proof.errors import SIGNAL_RANGE, ProofRefused
from attest.proof.poseidon2 import SCALAR_MODULUS
from attest.proof.prover import typed
from attest.proof.sealed.commitment import Salt
from attest.proof.sealed.format import MAGIC
from attest.proof.signals import CTX_BYTES, VALUE_MAX, VALUE_MIN
from attest.proof.verifier import ProofVerifier

COMMITMENT_BYTES: Final = 32
_CURVE_AT: Final = len(MAGIC)


@dataclass(frozen=True, slots=True)
class SealedProof:
    """``commitment`` is 32 bytes, big-endian; ``proof`` is 128 bytes on BN254, 192 on BLS12-381."""

    commitment: bytes
    outputs: tuple[int, ...]
    proof: bytes


class SealedProver:
    """One sealed circuit's prover. Thread-safe; releases the interpreter lock while it computes.

    Wires of full size make a proof take several times as long as the open one. The core overwrites inputs, salt and
    everything computed from them when a proof is done.
    """

    def __init__(self, circuit: bytes, proving_key: bytes) -> None:
        """Raises :class:`attest.proof.errors.ProverError` (``circuit-…``, ``pk-…``, ``kernel-…``)."""
        from attest import _native

        with typed():
            self._native = _native.Prover(circuit, proving_key)
        self.curve = Curve(circuit[_CURVE_AT])

    @property
    def n_inputs(self) -> int:
        return self._native.n_inputs

    @property
    def n_outputs(self) -> int:
        return self._native.n_outputs

    @property
    def n_constraints(self) -> int:
        return self._native.n_constraints

    @property
    def domain_size(self) -> int:
        return self._native.domain_size

    @property
    def table_bytes(self) -> int:
        return self._native.table_bytes

    @property
    def kernel(self) -> str:
        return self._native.kernel

    def prove(self, inputs: Sequence[int], salt: Salt, ctx: bytes) -> SealedProof:
        """Takes the salt, which serves no other proof after that, and proves the statement bound to ``ctx``.

        Raises :class:`attest.proof.sealed.SealedError` (``salt-reused``) and
        :class:`attest.proof.errors.ProverError` (``input-count``, ``signal-range``, ``ctx-length``; ``witness-range``
        or ``unsatisfied`` where the statement does not hold for these inputs).
        """
        taken = salt.take()
        with typed():
            commitment, outputs, proof = self._native.prove_sealed(inputs, taken, ctx)
        return SealedProof(commitment, tuple(outputs), proof)

    def witness(self, inputs: Sequence[int], salt: Salt, ctx: bytes) -> list[int]:
        """All wires as integers mod r, for tests and diagnosis; does not spend the salt."""
        with typed():
            return self._native.witness_sealed(inputs, salt.reveal(), ctx)


def sealed_signals(commitment: bytes, outputs: Sequence[int], ctx: bytes, curve: Curve) -> list[int]:
    """``[commitment, y_0 … y_{m-1}, ctx]`` as field elements; a negative value v becomes r - |v|.

    Raises :class:`ProofRefused` (``signal-range``): a commitment that is not the one 32-byte form of an element, an
    output outside 64 bits, a ctx that is not 31 bytes long.
    """
    r = SCALAR_MODULUS[curve]
    value = int.from_bytes(commitment, "big")
    if len(commitment) != COMMITMENT_BYTES or value >= r:
        found = f"a commitment of {len(commitment)} bytes, {commitment[:COMMITMENT_BYTES].hex()}"
        raise ProofRefused(SIGNAL_RANGE, found=found, expected=f"{COMMITMENT_BYTES} bytes below r")
    for i, output in enumerate(outputs):
        if not VALUE_MIN <= output <= VALUE_MAX:
            raise ProofRefused(SIGNAL_RANGE, found=f"output {i} = {output}", expected="a signed 64-bit integer")
    if len(ctx) != CTX_BYTES:
        raise ProofRefused(SIGNAL_RANGE, found=f"a ctx of {len(ctx)} bytes", expected=f"{CTX_BYTES}")
    return [value, *(output % r for output in outputs), int.from_bytes(ctx, "big")]


def verify_sealed(verifier: ProofVerifier, commitment: bytes, outputs: Sequence[int], ctx: bytes, proof: bytes) -> None:
    """Returns if ``proof`` shows the sealed statement under the verifier's key; raises :class:`ProofRefused`."""
    verifier.verify_signals(sealed_signals(commitment, outputs, ctx, verifier.curve), proof)
