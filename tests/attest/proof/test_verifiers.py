"""The verifiers: each check by its name, in order, and the two engines agree on everything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from attest.proof import (
    Groth16Prover,
    NativeVerifier,
    ProofRefused,
    ProofVerifier,
    ProvenInference,
    PyEccVerifier,
    development_setup,
    failed_check,
    key_hash,
    pyecc,
)
from attest.proof.circuit import Curve
from attest.proof.keys import Proof, VerificationKey
from attest.proof.points import G1Point
from attest.proof.signals import to_signals
from tests.attest.proof import bad_points
from tests.attest.proof.support import CTX, Toy, model
from tests.attest.proof.trapdoor import Trapdoor

X = (3, -5)
Y = (model(X),)


@pytest.fixture(scope="module")
def proven(prover: Groth16Prover) -> ProvenInference:
    return prover.prove(X, CTX)


@pytest.fixture(params=["native", "pyecc"])
def verifier(request: pytest.FixtureRequest) -> ProofVerifier:
    found: ProofVerifier = request.getfixturevalue(request.param)
    return found


def key_refusal(engine: type[NativeVerifier] | type[PyEccVerifier], key: bytes, pinned: bytes | None = None) -> str:
    with pytest.raises(ProofRefused) as caught:
        engine(key, vk_sha256=key_hash(key) if pinned is None else pinned)
    return caught.value.code


# --- acceptance ------------------------------------------------------------------------------------------------


def test_honest_proof_verifies(verifier: ProofVerifier, proven: ProvenInference) -> None:
    assert proven.outputs == Y
    verifier.verify(X, Y, CTX, proven.proof)


def test_raw_signals_verify(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    verifier.verify_signals([X[0], X[1] % toy.it.r, Y[0] % toy.it.r, int.from_bytes(CTX, "big")], proven.proof)


def test_a_verifier_names_its_curve(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    assert verifier.curve is proven.curve is toy.curve
    assert len(proven.proof) == toy.it.proof_bytes == {Curve.BN254: 128, Curve.BLS12_381: 192}[toy.curve]


def test_blinding_is_fresh_for_every_proof(prover: Groth16Prover, native: NativeVerifier, toy: Toy) -> None:
    proofs = [prover.prove(X, CTX).proof for _ in range(8)]
    b_at, c_at = toy.it.g1_bytes, toy.it.g1_bytes + toy.it.g2_bytes
    parts = {part for proof in proofs for part in (proof[:b_at], proof[b_at:c_at], proof[c_at:])}
    assert len(parts) == 3 * len(proofs)
    assert all(failed_check(native, X, Y, CTX, proof) is None for proof in proofs)


def test_malleated_proof_verifies_by_design(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    """(-A, -B, C) is another proof of the same statement: uniqueness is the command's signature, not these bytes."""
    other = bad_points.negated(proven.proof, toy.curve)
    assert other != proven.proof
    assert failed_check(verifier, X, Y, CTX, other) is None


# --- 1 key-hash, 2 key-lint --------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [NativeVerifier, PyEccVerifier])
class TestKey:
    def test_key_of_another_model(self, engine: type[NativeVerifier], toy: Toy) -> None:
        _, other = development_setup(toy.data)
        assert key_refusal(engine, other, pinned=key_hash(toy.verification_key)) == "key-hash"

    def test_gamma_equals_delta(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        assert key_refusal(engine, replace(key, delta=key.gamma).encode()) == "key-lint"

    def test_gamma_equals_minus_delta(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        broken = replace(key, delta=bad_points.opposite_g2(toy.curve, key.gamma))
        assert key_refusal(engine, broken.encode()) == "key-lint"

    @pytest.mark.parametrize("name", bad_points.G2_NAMES)
    def test_generator_in_g2(self, engine: type[NativeVerifier], toy: Toy, name: str) -> None:
        generator = toy.it.g2_generator
        assert key_refusal(engine, bad_points.with_g2(toy.verification_key, name, generator)) == "key-lint"
        opposite = bad_points.opposite_g2(toy.curve, generator)
        assert key_refusal(engine, bad_points.with_g2(toy.verification_key, name, opposite)) == "key-lint"

    def test_generator_as_alpha(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = replace(VerificationKey.decode(toy.verification_key), alpha=toy.it.g1_generator)
        assert key_refusal(engine, key.encode()) == "key-lint"

    def test_generator_as_ic(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        opposite = bad_points.opposite_g1(toy.curve, toy.it.g1_generator)
        assert key_refusal(engine, replace(key, ic=(*key.ic[:-1], opposite)).encode()) == "key-lint"

    def test_ic_points_equal(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        assert key_refusal(engine, replace(key, ic=(*key.ic[:-1], key.ic[1])).encode()) == "key-lint"

    def test_ic_points_opposite(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        opposite = bad_points.opposite_g1(toy.curve, key.ic[1])
        assert key_refusal(engine, replace(key, ic=(*key.ic[:-1], opposite)).encode()) == "key-lint"

    @pytest.mark.parametrize("place", ["alpha", "beta", "gamma", "delta", "ic0", "ic1"])
    def test_point_at_infinity(self, engine: type[NativeVerifier], toy: Toy, place: str) -> None:
        at, size = bad_points.point_places(toy.verification_key)[place]
        broken = toy.verification_key[:at] + bad_points.infinity(toy.curve, size) + toy.verification_key[at + size :]
        assert key_refusal(engine, broken) == "key-lint"

    @pytest.mark.parametrize("name", bad_points.G2_NAMES)
    def test_g2_point_outside_subgroup(self, engine: type[NativeVerifier], toy: Toy, name: str) -> None:
        outside = bad_points.g2_outside_subgroup(toy.curve)
        assert key_refusal(engine, bad_points.with_g2(toy.verification_key, name, outside)) == "key-lint"

    @pytest.mark.parametrize("place", ["alpha", "ic"])
    def test_g1_point_outside_subgroup(self, engine: type[NativeVerifier], toy: Toy, place: str) -> None:
        if toy.curve is Curve.BN254:
            assert pyecc.pairing(toy.curve).lib.curve_order == toy.it.r  # cofactor 1: no such point exists
            return
        key = VerificationKey.decode(toy.verification_key)
        outside = bad_points.g1_outside_subgroup(toy.curve)
        broken = replace(key, alpha=outside) if place == "alpha" else replace(key, ic=(*key.ic[:-1], outside))
        assert key_refusal(engine, broken.encode()) == "key-lint"

    def test_coordinate_not_below_the_modulus(self, engine: type[NativeVerifier], toy: Toy) -> None:
        at, size = bad_points.point_places(toy.verification_key)["alpha"]
        alias = (toy.it.p | toy.it.smaller << 8 * (size - 1)).to_bytes(size, "big")
        assert key_refusal(engine, toy.verification_key[:at] + alias + toy.verification_key[at + size :]) == "key-lint"

    def test_key_of_one_curve_under_the_byte_of_the_other(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = toy.verification_key
        assert key_refusal(engine, key[:8] + bytes([3 - toy.curve]) + key[9:]) == "key-lint"

    @pytest.mark.parametrize(
        "change",
        [
            lambda key: b"",
            lambda key: key[:-1],
            lambda key: key + b"\0",
            lambda key: b"SITSVK02" + key[8:],
            lambda key: key[:8] + b"\x00" + key[9:],
            lambda key: key[:8] + b"\x03" + key[9:],
            lambda key: key[:9] + b"\xff\xff\xff\xff" + key[13:],
            lambda key: key[:9] + bytes(4) + key[13:45],
            lambda key: key[:13] + bytes([key[13] & 0x1F]) + key[14:],
        ],
        ids=[
            "empty",
            "short",
            "long",
            "magic",
            "curve-zero",
            "curve-3",
            "count-huge",
            "count-zero",
            "uncompressed",
        ],
    )
    def test_hostile_bytes(self, engine: type[NativeVerifier], toy: Toy, change: object) -> None:
        assert callable(change)
        assert key_refusal(engine, change(toy.verification_key)) == "key-lint"


def test_forgery_under_gamma_equals_delta_is_real(toy: Toy) -> None:
    """Why the lint matters: A = α, B = β, C = -IC(x) satisfies the equation for any statement, without a witness."""
    key = VerificationKey.decode(toy.verification_key)
    broken = replace(key, delta=key.gamma)
    signals = to_signals(X, (Y[0] + 1,), CTX, n_public=broken.n_public, curve=toy.curve)
    prepared, lib = pyecc.prepare(broken), pyecc.pairing(toy.curve).lib
    x, y = lib.normalize(lib.neg(prepared.pairing.combine(prepared.ic, (1, *signals))))
    forged = Proof(broken.alpha, broken.beta, G1Point(int(x.n), int(y.n)), toy.curve)
    assert pyecc.pairing_holds(prepared, signals, forged)
    assert not pyecc.pairing_holds(pyecc.prepare(key), signals, forged)


@pytest.mark.parametrize("engine", [NativeVerifier, PyEccVerifier])
class TestFixedGamma:
    """Keys of other tools' ceremonies have γ = the generator: accepted only where asked for, nothing else with it."""

    @staticmethod
    def trapdoor(curve: Curve, **changes: int) -> Trapdoor:
        return replace(Trapdoor.make(curve, 4), gamma=1, **changes)

    def test_accepted_only_when_asked_for(self, engine: type[NativeVerifier], curve: Curve) -> None:
        trapdoor = self.trapdoor(curve)
        key = trapdoor.key().encode()
        assert key_refusal(engine, key) == "key-lint"
        verifier = engine(key, vk_sha256=key_hash(key), fixed_gamma=True)
        signals = to_signals(X, Y, CTX, n_public=4, curve=curve)
        assert failed_check(verifier, X, Y, CTX, trapdoor.prove(signals)) is None
        assert failed_check(verifier, X, (Y[0] + 1,), CTX, trapdoor.prove(signals)) == "proof-pairing"

    @pytest.mark.parametrize("changes", [{"delta": 1}, {"delta": -1}, {"beta": 1}, {"gamma": -1}])
    def test_relaxes_nothing_else(self, engine: type[NativeVerifier], curve: Curve, changes: dict[str, int]) -> None:
        key = replace(self.trapdoor(curve), **changes).key().encode()
        with pytest.raises(ProofRefused) as caught:
            engine(key, vk_sha256=key_hash(key), fixed_gamma=True)
        assert caught.value.code == "key-lint"


# --- 3 signal-count, 4 signal-range ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [((), ()), (X[:1], Y), ((*X, 0), Y), (X, ()), (X, (*Y, 0)), ((0,) * 5000, Y)],
)
def test_wrong_number_of_signals(
    verifier: ProofVerifier, proven: ProvenInference, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> None:
    assert failed_check(verifier, inputs, outputs, CTX, proven.proof) == "signal-count"


def test_moving_a_value_between_inputs_and_outputs_changes_nothing_the_key_cannot_see(native: NativeVerifier) -> None:
    """The key knows only the total; the split is fixed by the deployment, so equal totals pass this check."""
    assert failed_check(native, (*X, Y[0]), (), CTX, bytes(128)) == "proof-point"


def test_aliased_input_is_out_of_range(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    r = toy.it.r
    for alias in (X[0] + r, X[0] - r, X[1] % r, 1 << 63, -(1 << 63) - 1, 1 << 300):
        assert failed_check(verifier, (alias, X[1]), Y, CTX, proven.proof) == "signal-range"


def test_aliased_output_is_out_of_range(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    assert failed_check(verifier, X, (Y[0] + toy.it.r,), CTX, proven.proof) == "signal-range"


@pytest.mark.parametrize("ctx", [b"", CTX[:-1], CTX + b"\0"])
def test_ctx_of_wrong_length_is_out_of_range(verifier: ProofVerifier, proven: ProvenInference, ctx: bytes) -> None:
    assert failed_check(verifier, X, Y, ctx, proven.proof) == "signal-range"


def test_raw_signal_not_canonical(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    for bad in (-1, toy.it.r, toy.it.r + 3, 1 << 256, -(1 << 300)):
        with pytest.raises(ProofRefused) as caught:
            verifier.verify_signals([bad, 0, 0, 0], proven.proof)
        assert caught.value.code == "signal-range"


def test_raw_signal_below_the_order_is_canonical(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    with pytest.raises(ProofRefused) as caught:
        verifier.verify_signals([toy.it.r - 1, 0, 0, 0], proven.proof)
    assert caught.value.code == "proof-pairing"


def test_raw_signal_count(verifier: ProofVerifier, proven: ProvenInference) -> None:
    with pytest.raises(ProofRefused) as caught:
        verifier.verify_signals([0, 0, 0], proven.proof)
    assert caught.value.code == "signal-count"


def test_a_value_that_is_no_integer_is_a_type_error(verifier: ProofVerifier, proven: ProvenInference) -> None:
    with pytest.raises(TypeError):
        verifier.verify((1.5, 0), Y, CTX, proven.proof)  # type: ignore[arg-type]


# --- 5 proof-point -----------------------------------------------------------------------------------------------


def test_bad_points(verifier: ProofVerifier, toy: Toy, proven: ProvenInference) -> None:
    cases = bad_points.bad_proofs(proven.proof, toy.curve)
    assert {name: failed_check(verifier, X, Y, CTX, case) for name, case in cases.items()} == dict.fromkeys(
        cases, "proof-point"
    )


# --- 6 proof-pairing ---------------------------------------------------------------------------------------------


def false_statements(
    prover: Groth16Prover, proof: bytes, curve: Curve
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], bytes, bytes]]:
    other_ctx = bytes([CTX[0] ^ 1]) + CTX[1:]
    other = prover.prove((1, 1), CTX).proof
    it = curve.parameters
    b_at, c_at, sign = it.g1_bytes, it.g1_bytes + it.g2_bytes, it.smaller ^ it.larger
    return {
        "output-changed": (X, (Y[0] + 1,), CTX, proof),
        "output-negated": (X, (-Y[0],), CTX, proof),
        "input-changed": ((X[0] + 1, X[1]), Y, CTX, proof),
        "inputs-swapped": (X[::-1], Y, CTX, proof),
        "moved-to-another-command": (X, Y, other_ctx, proof),
        "last-ctx-bit": (X, Y, CTX[:-1] + bytes([CTX[-1] ^ 1]), proof),
        "proof-of-other-inputs": (X, Y, CTX, other),
        "a-negated": (X, Y, CTX, bytes([proof[0] ^ sign]) + proof[1:]),
        "c-of-another-proof": (X, Y, CTX, proof[:c_at] + other[c_at:]),
        "a-and-c-swapped": (X, Y, CTX, proof[c_at:] + proof[b_at:c_at] + proof[:b_at]),
    }


def test_native_names_every_false_statement(
    prover: Groth16Prover, native: NativeVerifier, proven: ProvenInference
) -> None:
    for name, case in false_statements(prover, proven.proof, proven.curve).items():
        assert failed_check(native, *case) == "proof-pairing", name


@pytest.mark.parametrize("name", ["output-changed", "moved-to-another-command", "c-of-another-proof"])
def test_pyecc_agrees_on_false_statements(
    prover: Groth16Prover, pyecc: PyEccVerifier, proven: ProvenInference, name: str
) -> None:
    assert failed_check(pyecc, *false_statements(prover, proven.proof, proven.curve)[name]) == "proof-pairing"


def test_proof_under_another_key_of_the_same_circuit(toy: Toy, proven: ProvenInference) -> None:
    _, other = development_setup(toy.data)
    verifier = NativeVerifier(other, vk_sha256=key_hash(other))
    assert failed_check(verifier, X, Y, CTX, proven.proof) == "proof-pairing"


def test_engines_agree_on_every_flipped_byte(native: NativeVerifier, toy: Toy, proven: ProvenInference) -> None:
    """One bit of each byte: py_ecc's decoder must say `proof-point` exactly where the Rust one does."""
    honest, engine = Proof.decode(proven.proof, toy.curve), pyecc.pairing(toy.curve)
    for at in range(len(proven.proof)):
        mutated = bytearray(proven.proof)
        mutated[at] ^= 1 << (at % 5)
        try:
            decoded = Proof.decode(bytes(mutated), toy.curve)
        except ProofRefused:
            expected = "proof-point"
        else:
            # only what changed: an honest point's slow check says nothing new
            inside = decoded.a == honest.a or engine.g1_in_subgroup(decoded.a)
            inside = inside and (decoded.b == honest.b or engine.g2_in_subgroup(decoded.b))
            inside = inside and (decoded.c == honest.c or engine.g1_in_subgroup(decoded.c))
            expected = "proof-pairing" if inside else "proof-point"
        assert failed_check(native, X, Y, CTX, bytes(mutated)) == expected, f"byte {at}"


# --- batches -----------------------------------------------------------------------------------------------------


def test_a_batch_of_honest_proofs_verifies(verifier: ProofVerifier, prover: Groth16Prover) -> None:
    inputs = [(i, -i) for i in range(4)]
    statements = [(x, (model(x),), CTX, prover.prove(x, CTX).proof) for x in inputs]
    assert verifier.verify_batch(statements) == [None] * 4
    assert verifier.verify_batch([]) == []


def test_a_batch_names_each_culprit_by_its_check(
    verifier: ProofVerifier, toy: Toy, prover: Groth16Prover, proven: ProvenInference
) -> None:
    honest = (X, Y, CTX, proven.proof)
    statements = [
        honest,
        (X, (Y[0] + 1,), CTX, proven.proof),
        (X[:1], Y, CTX, proven.proof),
        ((1 << 70, 0), Y, CTX, proven.proof),
        (X, Y, CTX, bad_points.bad_proofs(proven.proof, toy.curve)["b-outside-subgroup"]),
        honest,
    ]
    expected = [None, "proof-pairing", "signal-count", "signal-range", "proof-point", None]
    assert verifier.verify_batch(statements) == expected


def test_errors_that_cancel_in_a_plain_sum_are_found_in_a_batch(
    verifier: ProofVerifier, toy: Toy, prover: Groth16Prover, proven: ProvenInference
) -> None:
    """Two proofs that exchanged their C: the sum of the two equations holds, each alone does not."""
    x = (1, 1)
    other, c_at = prover.prove(x, CTX).proof, toy.it.g1_bytes + toy.it.g2_bytes
    statements = [
        (X, Y, CTX, proven.proof[:c_at] + other[c_at:]),
        (x, (model(x),), CTX, other[:c_at] + proven.proof[c_at:]),
    ]
    assert verifier.verify_batch(statements) == ["proof-pairing"] * 2


# --- order of the checks -----------------------------------------------------------------------------------------


def test_the_first_failing_check_is_named(verifier: ProofVerifier, toy: Toy) -> None:
    """Everything wrong at once, then mended one by one."""
    assert failed_check(verifier, (1 << 70,), Y, b"", b"") == "signal-count"
    assert failed_check(verifier, (1 << 70, 0), Y, b"", b"") == "signal-range"
    assert failed_check(verifier, X, Y, CTX, b"") == "proof-point"
    broken = toy.verification_key[:-1]
    assert key_refusal(type(verifier), broken, pinned=bytes(32)) == "key-hash"  # type: ignore[arg-type]
    assert key_refusal(type(verifier), broken) == "key-lint"  # type: ignore[arg-type]


def test_both_encoders_agree(toy: Toy, proven: ProvenInference) -> None:
    assert VerificationKey.decode(toy.verification_key).encode() == toy.verification_key
    assert Proof.decode(proven.proof, toy.curve).encode() == proven.proof
