"""Proofs and keys from the Rust core, with this package's errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from attest.proof.circuit import Curve
from attest.proof.errors import ProverError

_CURVE_AT: Final = 8
"""The curve byte follows the magic in every circuit format; the core has checked both."""


@contextmanager
def typed() -> Iterator[None]:
    """What the core refuses becomes :class:`ProverError`."""
    from attest import _native

    try:
        yield
    except _native.NativeError as error:
        code, detail = error.args
        raise ProverError(code, found=detail, expected="valid input to the prover") from error


@dataclass(frozen=True, slots=True)
class ProvenInference:
    """``outputs`` are the circuit's y for the inputs; ``proof`` is 128 bytes on BN254, 192 on BLS12-381."""

    outputs: tuple[int, ...]
    proof: bytes
    curve: Curve = Curve.BN254


def development_setup(circuit: bytes) -> tuple[bytes, bytes]:
    """(proving key, verification key) from this machine's randomness alone: nobody else contributed.

    Whoever ran it could have kept the secrets, so the key is "development" and must be shown as such.
    Raises :class:`ProverError` (``circuit-…``, ``randomness``).
    """
    from attest import _native

    with typed():
        return _native.setup(circuit)


def kernels(curve: str) -> list[str]:
    """Names of the kernels this machine can run for ``curve`` (``bn254``, ``bls12-381``), fastest first."""
    from attest import _native

    return _native.kernels(curve)


def first_unsatisfied(circuit: bytes, wires: Sequence[int]) -> int | None:
    """Index of the first constraint that ``wires`` (integers in [0, r)) do not satisfy."""
    from attest import _native

    with typed():
        return _native.check_circuit(circuit, wires)


def run_circuit(circuit: bytes, rows: Sequence[Sequence[int]], ctx: bytes) -> list[list[int]]:
    """Outputs of an open circuit's witness program for every row of inputs; every constraint is checked for each.

    Needs no key and takes tens of microseconds a row for a small circuit. Raises :class:`ProverError` (``unsatisfied``,
    ``witness-range`` for inputs outside the box, ``input-count``, ``signal-range``, ``row-count`` above 2^16,
    ``circuit-sealed``).
    """
    from attest import _native

    with typed():
        return _native.run_circuit(circuit, rows, ctx)


class Groth16Prover:
    """One circuit's prover: tables are built once, then a proof takes a few milliseconds on one thread.

    Thread-safe (calls are serialised), releases the interpreter lock while it computes. Blinding values come from the
    operating system for each proof and are erased after it.
    """

    def __init__(self, circuit: bytes, proving_key: bytes, *, kernel: str | None = None, threads: int = 1) -> None:
        """``threads`` (1 to 8, with the caller's) share the work of one proof; the others sleep between proofs.

        They end with the prover. In a child made by ``os.fork`` the caller's thread does everything; fork while no
        proof is under way, for its locks would stay held in the child.

        ``kernel`` is one of :func:`kernels` (default: what ``SITS_KERNEL`` names, else the fastest).

        Raises :class:`ProverError` (``circuit-…``, ``pk-…``, ``kernel-unknown``, ``kernel-unavailable``,
        ``threads-range``, ``threads-unavailable``).
        """
        from attest import _native

        with typed():
            self._native = _native.Prover(circuit, proving_key, kernel=kernel, threads=threads)
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
        """Rows of the padded system: the least 2^a·3^b not below the constraints; b <= 2 (on BLS12-381 b <= 1)."""
        return self._native.domain_size

    @property
    def kernel(self) -> str:
        """Arithmetic in use, one of :func:`kernels`; every kernel makes the same proofs."""
        return self._native.kernel

    @property
    def threads(self) -> int:
        return self._native.threads

    @property
    def table_bytes(self) -> int:
        return self._native.table_bytes

    @property
    def work_bytes(self) -> int:
        """Memory proofs work in, kept between them; final after the first two (an open circuit allocates no more)."""
        return self._native.work_bytes

    def prove(self, inputs: Sequence[int], ctx: bytes) -> ProvenInference:
        """Runs the circuit on ``inputs`` and proves it, bound to the 31 bytes ``ctx``.

        Raises :class:`ProverError` (``input-count``, ``signal-range``, ``ctx-length``, ``witness-range`` when an input
        is outside the box the circuit was built for).
        """
        with typed():
            outputs, proof = self._native.prove(inputs, ctx)
        return ProvenInference(tuple(outputs), proof, self.curve)

    def witness(self, inputs: Sequence[int], ctx: bytes) -> list[int]:
        """All wires as integers mod r, for tests and diagnosis."""
        with typed():
            return self._native.witness(inputs, ctx)
