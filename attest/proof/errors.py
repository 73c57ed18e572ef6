"""Errors of ``attest.proof``; all are :class:`attest.errors.AttestError`."""

from __future__ import annotations

from attest.errors import AttestError

KEY_HASH = "key-hash"
KEY_LINT = "key-lint"
SIGNAL_COUNT = "signal-count"
SIGNAL_RANGE = "signal-range"
PROOF_POINT = "proof-point"
PROOF_PAIRING = "proof-pairing"

CHECKS = (KEY_HASH, KEY_LINT, SIGNAL_COUNT, SIGNAL_RANGE, PROOF_POINT, PROOF_PAIRING)
"""Names of the verifier's checks, in the order in which they are made."""


class ProofRefused(AttestError):
    """A key or proof failed a check; ``code`` is one of :data:`CHECKS`."""


class CircuitError(AttestError):
    """Circuit bytes or a circuit under construction break a rule.

    Codes: ``circuit-format``, ``circuit-limit``, ``circuit-program``, ``circuit-bounds``, ``circuit-unique``,
    ``curve-unknown``.
    """


class ProverError(AttestError):
    """The prover or the setup refused its input; ``code`` is the native core's code.

    Codes beside those of the circuit file: ``curve-mismatch``, ``curve-unknown``, ``circuit-unbound``, ``pk-format``,
    ``pk-circuit``, ``input-count``, ``signal-range``, ``ctx-length``, ``witness-range``, ``witness-overflow``,
    ``witness-remainder``, ``unsatisfied``, ``randomness``.
    """


class LayoutError(AttestError):
    """JSON text does not follow the snarkjs layout (code ``snarkjs-layout``)."""
