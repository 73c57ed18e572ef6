"""Sealed proofs by the core: its witness is the reference's, both engines verify, and one changed thing refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import _native
from attest.proof import (
    CircuitError,
    Curve,
    Groth16Prover,
    NativeVerifier,
    ProofRefused,
    ProofVerifier,
    ProverError,
    PyEccVerifier,
    development_setup,
    key_hash,
)
from attest.proof.circuit import LinearCombination
from attest.proof.prover import first_unsatisfied
from attest.proof.sealed import Salt, SealedError, commit
from attest.proof.sealed.format import decode, encode
from attest.proof.sealed.prover import SealedProof, SealedProver, sealed_signals, verify_sealed
from attest.proof.sealed.witness import failing_rows, reference_witness
from tests.attest.proof.sealed.cases import CTX, SALT, X_OTHER, X, model, open_circuit, sealed
from tests.attest.proof.sealed.forging import forged_without

CURVES = tuple(Curve)
Engine = type[NativeVerifier | PyEccVerifier]
ENGINES: tuple[Engine, ...] = (NativeVerifier, PyEccVerifier)
Shown = tuple[bytes, tuple[int, ...], bytes, bytes]
"""Commitment, outputs, ctx, proof."""
CTX_OTHER = bytes(31)


@dataclass(frozen=True)
class Made:
    data: bytes
    prover: SealedProver
    verification_key: bytes
    proof: SealedProof

    def verifier(self, engine: Engine) -> ProofVerifier:
        return _verifier(engine, self.verification_key)


@cache
def _verifier(engine: Engine, verification_key: bytes) -> ProofVerifier:
    return engine(verification_key, vk_sha256=key_hash(verification_key))


@cache
def made(curve: Curve) -> Made:
    data = encode(sealed(curve))
    proving_key, verification_key = development_setup(data)
    prover = SealedProver(data, proving_key)
    return Made(data, prover, verification_key, prover.prove(X, Salt(SALT), CTX))


@pytest.mark.parametrize("curve", CURVES)
def test_native_witness_is_the_reference_witness(curve: Curve) -> None:
    for x in (X, X_OTHER, (-5, -4, 3), (6, 7, 3)):
        salt = Salt.generate()
        wires = made(curve).prover.witness(x, salt, CTX)
        assert wires == reference_witness(sealed(curve), x, salt.reveal(), CTX)
        assert first_unsatisfied(made(curve).data, wires) is None


def test_native_and_reference_name_the_same_row() -> None:
    circuit = sealed()
    for row in (0, 5, 20, 40, len(circuit.constraints), circuit.n_rows - 1):
        forged = forged_without(circuit, row)
        assert first_unsatisfied(made(Curve.BN254).data, forged) == row == failing_rows(circuit, forged)[0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("curve", CURVES)
def test_proof_verifies(curve: Curve, engine: Engine) -> None:
    it = made(curve)
    assert it.proof.outputs == (model(X),)
    assert int.from_bytes(it.proof.commitment, "big") == commit(X, Salt(SALT), curve)
    assert len(it.proof.proof) == curve.parameters.proof_bytes
    verify_sealed(it.verifier(engine), it.proof.commitment, it.proof.outputs, CTX, it.proof.proof)


def other_salt(it: Made, curve: Curve) -> Shown:
    again = it.prover.prove(X, Salt(SALT[::-1]), CTX)
    assert again.outputs == it.proof.outputs
    return again.commitment, it.proof.outputs, CTX, it.proof.proof


def other_inputs_same_outputs(it: Made, curve: Curve) -> Shown:
    assert model(X_OTHER) == model(X)
    value = commit(X_OTHER, Salt(SALT), curve)
    return value.to_bytes(32, "big"), it.proof.outputs, CTX, it.proof.proof


def commitment_altered(it: Made, curve: Curve) -> Shown:
    value = (int.from_bytes(it.proof.commitment, "big") + 1) % curve.parameters.r
    return value.to_bytes(32, "big"), it.proof.outputs, CTX, it.proof.proof


def ctx_altered(it: Made, curve: Curve) -> Shown:
    return it.proof.commitment, it.proof.outputs, CTX_OTHER, it.proof.proof


def outputs_altered(it: Made, curve: Curve) -> Shown:
    return it.proof.commitment, (it.proof.outputs[0] + 1,), CTX, it.proof.proof


def proof_of_another_command(it: Made, curve: Curve) -> Shown:
    return it.proof.commitment, it.proof.outputs, CTX, it.prover.prove(X, Salt(SALT), CTX_OTHER).proof


MOVES = (
    other_salt,
    other_inputs_same_outputs,
    commitment_altered,
    ctx_altered,
    outputs_altered,
    proof_of_another_command,
)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_one_thing_changed(move: Callable[..., Shown], curve: Curve) -> None:
    with pytest.raises(ProofRefused) as caught:
        verify_sealed(made(curve).verifier(NativeVerifier), *move(made(curve), curve))
    assert caught.value.code == "proof-pairing"


@pytest.mark.parametrize("curve", CURVES)
def test_one_thing_changed_in_the_second_engine(curve: Curve) -> None:
    with pytest.raises(ProofRefused) as caught:
        verify_sealed(made(curve).verifier(PyEccVerifier), *commitment_altered(made(curve), curve))
    assert caught.value.code == "proof-pairing"


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(
    ("commitment", "outputs", "ctx"),
    [
        (b"", (0,), CTX),
        (bytes(31), (0,), CTX),
        (b"\xff" * 32, (0,), CTX),
        (bytes(32), (1 << 63,), CTX),
        (bytes(32), (0,), bytes(32)),
        (bytes(32), (0,), bytes(30)),
    ],
)
def test_signal_range(curve: Curve, commitment: bytes, outputs: tuple[int, ...], ctx: bytes) -> None:
    with pytest.raises(ProofRefused) as caught:
        sealed_signals(commitment, outputs, ctx, curve)
    assert caught.value.code == "signal-range"


@pytest.mark.parametrize("curve", CURVES)
def test_commitment_plus_r_is_no_second_form(curve: Curve) -> None:
    value = int.from_bytes(made(curve).proof.commitment, "big") + curve.parameters.r
    with pytest.raises(ProofRefused) as caught:
        sealed_signals(value.to_bytes(32, "big"), (0,), CTX, curve)
    assert caught.value.code == "signal-range"


@pytest.mark.parametrize("curve", CURVES)
def test_salt_reused(curve: Curve) -> None:
    salt = Salt.generate()
    made(curve).prover.prove(X, salt, CTX)
    with pytest.raises(SealedError) as caught:
        made(curve).prover.prove(X, salt, CTX)
    assert caught.value.code == "salt-reused"


def test_core_takes_no_salt_of_another_length() -> None:
    it = made(Curve.BN254)
    _, core = it.prover, _native.Prover(it.data, development_setup(it.data)[0])
    for length in (0, 30, 32):
        with pytest.raises(_native.NativeError) as caught:
            core.prove_sealed(X, bytes(range(length)), CTX)
        assert caught.value.args[0] == "salt-length"


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(
    "x", [(-6, -3, 3), (15, -3, 3), (6, -9, 3), (6, 8, 3), (6, -3, 2), (6, -3, 4), (14, 4, 3), (-5, -5, 3), (10, 7, 4)]
)
def test_statement_that_does_not_hold_has_no_proof(curve: Curve, x: tuple[int, ...]) -> None:
    """Each edge of the box exceeded by one, and the relations' bounds."""
    with pytest.raises(ProverError) as caught:
        made(curve).prover.prove(x, Salt.generate(), CTX)
    assert caught.value.code in ("unsatisfied", "witness-range")


def test_open_and_sealed_provers_do_not_take_each_other() -> None:
    it = made(Curve.BN254)
    sealed_core = _native.Prover(it.data, development_setup(it.data)[0])
    with pytest.raises(_native.NativeError) as caught:
        sealed_core.prove(X, CTX)
    assert caught.value.args[0] == "circuit-sealed"
    plain = open_circuit().encode()
    open_core = _native.Prover(plain, development_setup(plain)[0])
    assert (sealed_core.sealed, open_core.sealed) == (True, False)
    with pytest.raises(_native.NativeError) as caught:
        open_core.prove_sealed(X, SALT, CTX)
    assert caught.value.args[0] == "circuit-open"


def test_open_prover_is_what_it_was() -> None:
    plain = open_circuit().encode()
    proving_key, verification_key = development_setup(plain)
    proven = Groth16Prover(plain, proving_key).prove(X, CTX)
    assert proven.outputs == (model(X),)
    NativeVerifier(verification_key, vk_sha256=key_hash(verification_key)).verify(X, proven.outputs, CTX, proven.proof)


def test_circuit_without_its_ctx_row_is_refused_at_setup() -> None:
    circuit = sealed()
    bound = LinearCombination(((circuit.ctx_wire, 1),))
    rows = tuple(row for row in circuit.constraints if row.a != bound)
    with pytest.raises(ProverError) as caught:
        development_setup(encode(replace(circuit, constraints=rows)))
    assert caught.value.code == "circuit-unbound"


def test_circuit_without_the_commitments_row_is_refused_at_setup() -> None:
    circuit = sealed()
    weakened = replace(circuit, field_constraints=circuit.field_constraints[:-1])
    with pytest.raises(ProverError) as caught:
        development_setup(encode(weakened))
    assert caught.value.code == "circuit-unbound"


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_both_parsers_take_the_same_files(data: st.DataObject) -> None:
    """Any damage: either both see a circuit or both refuse with the same code."""
    damaged = bytearray(made(Curve.BN254).data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, min(len(damaged), 3000) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    try:
        decode(bytes(damaged))
        python = "circuit"
    except CircuitError as error:
        python = error.code
    try:
        first_unsatisfied(bytes(damaged), [])
        native = "none"
    except ProverError as error:
        native = "circuit" if error.code == "signal-count" else error.code
    assert native == python
