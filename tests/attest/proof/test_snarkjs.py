"""snarkjs layout: round trips, the layout itself, strict import."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attest.proof import Curve, Groth16Prover, ProofRefused, snarkjs
from attest.proof.bn254 import R
from attest.proof.errors import LayoutError
from tests.attest.proof.support import CTX, Toy
from tests.attest.proof.trapdoor import Trapdoor

Json = dict[str, object]


@pytest.fixture(scope="module")
def proof(prover: Groth16Prover) -> bytes:
    return prover.prove((3, -5), CTX).proof


def test_proof_round_trips_and_has_the_layout(proof: bytes, toy: Toy) -> None:
    text = snarkjs.export_proof(proof, curve=toy.curve)
    assert snarkjs.import_proof(text) == (toy.curve, proof)
    body = json.loads(text)
    name = {Curve.BN254: "bn128", Curve.BLS12_381: "bls12381"}[toy.curve]
    assert (body["protocol"], body["curve"]) == ("groth16", name)
    assert body["pi_a"][2] == body["pi_c"][2] == "1"
    assert body["pi_b"][2] == ["1", "0"]
    x, y = int(body["pi_a"][0]), int(body["pi_a"][1])
    assert (y * y - x**3 - toy.it.b) % toy.it.p == 0


def test_public_signals_round_trip(curve: Curve) -> None:
    signals = [0, 1, curve.parameters.r - 5, int.from_bytes(CTX, "big")]
    assert snarkjs.import_public(snarkjs.export_public(signals, curve=curve), curve=curve) == signals


def test_verification_key_round_trips(toy: Toy) -> None:
    text = snarkjs.export_verification_key(toy.verification_key)
    assert snarkjs.import_verification_key(text) == toy.verification_key
    body = json.loads(text)
    assert body["nPublic"] == 4
    assert len(body["IC"]) == 5


def test_a_signal_outside_the_field_is_refused_both_ways(curve: Curve) -> None:
    r = curve.parameters.r
    for signal in (-1, r, r + 1):
        with pytest.raises(ProofRefused):
            snarkjs.export_public([signal], curve=curve)
        with pytest.raises(LayoutError):
            snarkjs.import_public(json.dumps([str(signal)]), curve=curve)


def test_public_signals_of_the_larger_field_do_not_fit_the_smaller() -> None:
    text = snarkjs.export_public([R], curve=Curve.BLS12_381)
    with pytest.raises(LayoutError):
        snarkjs.import_public(text, curve=Curve.BN254)


@pytest.mark.parametrize("text", ['["-1"]', '["01"]', '["0x1"]', "[1]", '["1e3"]', "{}", "[", '["٣"]', '[""]'])
def test_import_refuses_public_signals(text: str) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_public(text, curve=Curve.BN254)


def changed(text: str, **members: object) -> str:
    body = json.loads(text)
    body.update(members)
    return json.dumps({k: v for k, v in body.items() if v is not None})


@pytest.mark.parametrize(
    "members",
    [
        {"pi_a": None},
        {"pi_a": ["1", "2"]},
        {"pi_a": ["1", "3", "1"]},
        {"pi_a": ["1", "2", "0"]},
        {"pi_a": ["9" * 115, "2", "1"]},
        {"pi_b": [["1", "2"], ["3", "4"], ["1", "0"]]},
        {"pi_b": [["1", "2"], ["3", "4"]]},
        {"pi_b": [["1"], ["3", "4"], ["1", "0"]]},
        {"pi_c": "1"},
        {"protocol": "plonk"},
        {"curve": "bls12_381"},
        {"curve": ["bn128"]},
    ],
)
def test_import_refuses_a_proof(proof: bytes, toy: Toy, members: Json) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_proof(changed(snarkjs.export_proof(proof, curve=toy.curve), **members))


def test_import_refuses_a_coordinate_above_the_modulus(proof: bytes, toy: Toy) -> None:
    text = snarkjs.export_proof(proof, curve=toy.curve)
    x, y, one = json.loads(text)["pi_a"]
    with pytest.raises(LayoutError):
        snarkjs.import_proof(changed(text, pi_a=[str(int(x) + toy.it.p), y, one]))


def test_import_refuses_a_proof_under_the_name_of_the_other_curve(proof: bytes, toy: Toy) -> None:
    other = {Curve.BN254: "bls12381", Curve.BLS12_381: "bn128"}[toy.curve]
    with pytest.raises(LayoutError):
        snarkjs.import_proof(changed(snarkjs.export_proof(proof, curve=toy.curve), curve=other))


@pytest.mark.parametrize(
    "members", [{"nPublic": 3}, {"nPublic": True}, {"nPublic": 10**9}, {"IC": []}, {"vk_beta_2": 1}]
)
def test_import_refuses_a_key(toy: Toy, members: Json) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_verification_key(changed(snarkjs.export_verification_key(toy.verification_key), **members))


def test_import_lints_a_key(toy: Toy) -> None:
    text = snarkjs.export_verification_key(toy.verification_key)
    forged = changed(text, vk_delta_2=json.loads(text)["vk_gamma_2"])
    with pytest.raises(ProofRefused) as caught:
        snarkjs.import_verification_key(forged)
    assert caught.value.code == "key-lint"


def test_import_takes_the_generator_as_gamma_only_when_asked(curve: Curve) -> None:
    key = replace(Trapdoor.make(curve, 1), gamma=1).key()
    text = snarkjs.export_verification_key(key.encode(), fixed_gamma=True)
    assert snarkjs.import_verification_key(text, fixed_gamma=True) == key.encode()
    with pytest.raises(ProofRefused) as caught:
        snarkjs.import_verification_key(text)
    assert caught.value.code == "key-lint"


@pytest.mark.parametrize("text", ["", "[]", "[" * 100000, " " * (snarkjs.TEXT_CHARS_MAX + 1)])
def test_import_refuses_text(text: str) -> None:
    with pytest.raises(LayoutError):
        snarkjs.import_proof(text)


def mutate(value: object, path: int, new: object) -> object:
    """``value`` with one of its parts replaced, chosen by the digits of ``path``."""
    if isinstance(value, dict) and value:
        key = sorted(value)[path % len(value)]
        return {**value, key: mutate(value[key], path // len(value), new)}
    if isinstance(value, list) and value:
        at = path % len(value)
        return [*value[:at], mutate(value[at], path // len(value), new), *value[at + 1 :]]
    return new


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.integers().map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.integers(0, 1 << 20), new=JSON_VALUES)
def test_any_replaced_member_gives_a_typed_error_or_the_same_key(toy: Toy, path: int, new: object) -> None:
    text = snarkjs.export_verification_key(toy.verification_key)
    changed_text = json.dumps(mutate(json.loads(text), path, new))
    try:
        found = snarkjs.import_verification_key(changed_text)
    except (LayoutError, ProofRefused):
        return
    assert found == toy.verification_key  # the other name of its curve, or what was there before


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200) | JSON_VALUES.map(json.dumps))
def test_any_text_gives_a_typed_error(text: str) -> None:
    for parse in (snarkjs.import_proof, snarkjs.read_verification_key):
        with pytest.raises(LayoutError):
            parse(text)
