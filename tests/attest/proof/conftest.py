"""One toy network with keys on each curve for the whole session: making keys takes longer than most tests."""

from __future__ import annotations

import pytest

from attest.proof import Curve, Groth16Prover, NativeVerifier, PyEccVerifier, development_setup, key_hash
from tests.attest.proof.support import Toy, toy_circuit


@pytest.fixture(scope="session", params=list(Curve), ids=[curve.text for curve in Curve])
def curve(request: pytest.FixtureRequest) -> Curve:
    found: Curve = request.param
    return found


@pytest.fixture(scope="session")
def toy(curve: Curve) -> Toy:
    circuit = toy_circuit(curve)
    data = circuit.encode()
    return Toy(circuit, data, *development_setup(data))


@pytest.fixture(scope="session")
def prover(toy: Toy) -> Groth16Prover:
    return Groth16Prover(toy.data, toy.proving_key)


@pytest.fixture(scope="session")
def native(toy: Toy) -> NativeVerifier:
    return NativeVerifier(toy.verification_key, vk_sha256=key_hash(toy.verification_key))


@pytest.fixture(scope="session")
def pyecc(toy: Toy) -> PyEccVerifier:
    return PyEccVerifier(toy.verification_key, vk_sha256=key_hash(toy.verification_key))
