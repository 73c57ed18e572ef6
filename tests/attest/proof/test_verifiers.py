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
    bn254,
    development_setup,
    failed_check,
    key_hash,
    pyecc,
)
from attest.proof.bn254 import P, R
from attest.proof.keys import Proof, VerificationKey
from attest.proof.pyecc import bn128
from attest.proof.signals import to_signals
from tests.attest.proof.support import CTX, Toy, model

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


def point_outside_subgroup() -> bn254.G2Point:
    """On the twist, of an order other than r: the twist's cofactor is about 2^254, so the first x does."""
    for x in range(1, 50):
        data = bytearray(64)
        data[63] = x
        data[0] = 0b1000_0000
        try:
            point = bn254.g2_decompress(bytes(data))
        except bn254.PointFault:
            continue
        assert point is not None
        assert not pyecc.g2_in_subgroup(point)
        return point
    raise AssertionError("no point found")


def with_g2(toy: Toy, name: str, point: bn254.G2Point) -> bytes:
    """The toy's key with beta, gamma or delta replaced."""
    at = 45 + 64 * ("beta", "gamma", "delta").index(name)
    return toy.verification_key[:at] + bn254.g2_compress(point) + toy.verification_key[at + 64 :]


def affine_g1(point: object) -> bn254.G1Point:
    x, y = bn128.normalize(point)
    return bn254.G1Point(int(x), int(y))


# --- acceptance ------------------------------------------------------------------------------------------------


def test_honest_proof_verifies(verifier: ProofVerifier, proven: ProvenInference) -> None:
    assert proven.outputs == Y
    verifier.verify(X, Y, CTX, proven.proof)


def test_raw_signals_verify(native: NativeVerifier, proven: ProvenInference) -> None:
    native.verify_signals([X[0], X[1] % R, Y[0] % R, int.from_bytes(CTX, "big")], proven.proof)


def test_blinding_is_fresh_for_every_proof(prover: Groth16Prover, native: NativeVerifier) -> None:
    proofs = [prover.prove(X, CTX).proof for _ in range(8)]
    parts = {part for proof in proofs for part in (proof[:32], proof[32:96], proof[96:])}
    assert len(parts) == 3 * len(proofs)
    assert all(failed_check(native, X, Y, CTX, proof) is None for proof in proofs)


def test_malleated_proof_verifies_by_design(verifier: ProofVerifier, proven: ProvenInference) -> None:
    """(-A, -B, C) is another proof of the same statement: uniqueness is the command's signature, not these bytes."""
    flipped = bytearray(proven.proof)
    flipped[0] ^= 0b0100_0000
    flipped[32] ^= 0b0100_0000
    assert failed_check(verifier, X, Y, CTX, bytes(flipped)) is None


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
        y0, y1 = key.gamma.y
        opposite = bn254.G2Point(key.gamma.x, (P - y0, P - y1))
        assert key_refusal(engine, replace(key, delta=opposite).encode()) == "key-lint"

    @pytest.mark.parametrize("name", ["beta", "gamma", "delta"])
    def test_generator_in_g2(self, engine: type[NativeVerifier], toy: Toy, name: str) -> None:
        x, y = bn128.normalize(bn128.G2)
        generator = bn254.G2Point((int(x.coeffs[0]), int(x.coeffs[1])), (int(y.coeffs[0]), int(y.coeffs[1])))
        assert key_refusal(engine, with_g2(toy, name, generator)) == "key-lint"

    def test_generator_as_alpha(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = replace(VerificationKey.decode(toy.verification_key), alpha=bn254.G1Point(1, 2))
        assert key_refusal(engine, key.encode()) == "key-lint"

    def test_generator_as_ic(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        broken = replace(key, ic=(*key.ic[:-1], bn254.G1Point(1, P - 2)))
        assert key_refusal(engine, broken.encode()) == "key-lint"

    def test_ic_points_equal(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        assert key_refusal(engine, replace(key, ic=(*key.ic[:-1], key.ic[1])).encode()) == "key-lint"

    def test_ic_points_opposite(self, engine: type[NativeVerifier], toy: Toy) -> None:
        key = VerificationKey.decode(toy.verification_key)
        opposite = bn254.G1Point(key.ic[1].x, P - key.ic[1].y)
        assert key_refusal(engine, replace(key, ic=(*key.ic[:-1], opposite)).encode()) == "key-lint"

    @pytest.mark.parametrize("at", [13, 45, 109, 173, 237, 269])
    def test_point_at_infinity(self, engine: type[NativeVerifier], toy: Toy, at: int) -> None:
        size = 64 if 45 <= at < 237 else 32
        infinity = b"\x40" + bytes(size - 1)
        key = toy.verification_key
        assert key_refusal(engine, key[:at] + infinity + key[at + size :]) == "key-lint"

    @pytest.mark.parametrize("name", ["beta", "gamma", "delta"])
    def test_point_outside_subgroup(self, engine: type[NativeVerifier], toy: Toy, name: str) -> None:
        assert key_refusal(engine, with_g2(toy, name, point_outside_subgroup())) == "key-lint"

    @pytest.mark.parametrize(
        "change",
        [
            lambda key: b"",
            lambda key: key[:-1],
            lambda key: key + b"\0",
            lambda key: b"SITSVK02" + key[8:],
            lambda key: key[:8] + b"\x02" + key[9:],
            lambda key: key[:9] + b"\xff\xff\xff\xff" + key[13:],
            lambda key: key[:9] + bytes(4) + key[13:45],
            lambda key: key[:13] + b"\xbf" + b"\xff" * 31 + key[45:],
            lambda key: key[:13] + bytes([key[13] & 0x3F]) + key[14:],
        ],
        ids=["empty", "short", "long", "magic", "curve", "count-huge", "count-zero", "non-canonical", "uncompressed"],
    )
    def test_hostile_bytes(self, engine: type[NativeVerifier], toy: Toy, change: object) -> None:
        assert callable(change)
        assert key_refusal(engine, change(toy.verification_key)) == "key-lint"


def test_forgery_under_gamma_equals_delta_is_real(toy: Toy) -> None:
    """Why the lint matters: A = α, B = β, C = -IC(x) satisfies the equation for any statement, without a witness."""
    key = VerificationKey.decode(toy.verification_key)
    broken = replace(key, delta=key.gamma)
    signals = to_signals(X, (Y[0] + 1,), CTX, n_public=broken.n_public, curve=broken.curve)
    prepared = pyecc.prepare(broken)
    statement = prepared.ic[0]
    for point, signal in zip(prepared.ic[1:], signals, strict=True):
        statement = bn128.add(statement, bn128.multiply(point, signal))
    forged = Proof(broken.alpha, broken.beta, affine_g1(bn128.neg(statement)))
    assert pyecc.pairing_holds(prepared, signals, forged)
    assert not pyecc.pairing_holds(pyecc.prepare(key), signals, forged)


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


@pytest.mark.parametrize("alias", [X[0] + R, X[0] - R, X[1] % R, 1 << 63, -(1 << 63) - 1, 1 << 300])
def test_aliased_input_is_out_of_range(verifier: ProofVerifier, proven: ProvenInference, alias: int) -> None:
    assert failed_check(verifier, (alias, X[1]), Y, CTX, proven.proof) == "signal-range"


def test_aliased_output_is_out_of_range(verifier: ProofVerifier, proven: ProvenInference) -> None:
    assert failed_check(verifier, X, (Y[0] + R,), CTX, proven.proof) == "signal-range"


@pytest.mark.parametrize("ctx", [b"", CTX[:-1], CTX + b"\0"])
def test_ctx_of_wrong_length_is_out_of_range(verifier: ProofVerifier, proven: ProvenInference, ctx: bytes) -> None:
    assert failed_check(verifier, X, Y, ctx, proven.proof) == "signal-range"


@pytest.mark.parametrize("bad", [-1, R, R + 3, 1 << 256, -(1 << 300)])
def test_raw_signal_not_canonical(verifier: ProofVerifier, proven: ProvenInference, bad: int) -> None:
    with pytest.raises(ProofRefused) as caught:
        verifier.verify_signals([bad, 0, 0, 0], proven.proof)
    assert caught.value.code == "signal-range"


def test_raw_signal_count(verifier: ProofVerifier, proven: ProvenInference) -> None:
    with pytest.raises(ProofRefused) as caught:
        verifier.verify_signals([0, 0, 0], proven.proof)
    assert caught.value.code == "signal-count"


def test_a_value_that_is_no_integer_is_a_type_error(verifier: ProofVerifier, proven: ProvenInference) -> None:
    with pytest.raises(TypeError):
        verifier.verify((1.5, 0), Y, CTX, proven.proof)  # type: ignore[arg-type]


# --- 5 proof-point -----------------------------------------------------------------------------------------------


def bad_points(proof: bytes) -> dict[str, bytes]:
    x_not_on_curve = next(x for x in range(1, 99) if pow(x**3 + 3, (P - 1) // 2, P) != 1)
    outside = bn254.g2_compress(point_outside_subgroup())
    return {
        "empty": b"",
        "short": proof[:-1],
        "long": proof + b"\0",
        "a-infinity": b"\x40" + bytes(31) + proof[32:],
        "b-infinity": proof[:32] + b"\x40" + bytes(63) + proof[96:],
        "c-infinity": proof[:96] + b"\x40" + bytes(31),
        "infinity-not-zero": b"\x40" + bytes(30) + b"\x01" + proof[32:],
        "a-uncompressed-flag": bytes([proof[0] & 0x3F]) + proof[1:],
        "a-off-curve": bytes([0x80]) + x_not_on_curve.to_bytes(31, "big") + proof[32:],
        "a-x-is-p": (P | 1 << 255).to_bytes(32, "big") + proof[32:],
        "a-x-plus-p": (1 + P | 1 << 255).to_bytes(32, "big") + proof[32:],
        "b-real-part-is-p": proof[:64] + P.to_bytes(32, "big") + proof[96:],
        "b-outside-subgroup": proof[:32] + outside + proof[96:],
        "all-zero": bytes(128),
        "all-ones": b"\xff" * 128,
    }


BAD_POINT_NAMES = list(bad_points(b"\x80" + bytes(127)))


@pytest.mark.parametrize("name", BAD_POINT_NAMES)
def test_bad_point(verifier: ProofVerifier, proven: ProvenInference, name: str) -> None:
    assert failed_check(verifier, X, Y, CTX, bad_points(proven.proof)[name]) == "proof-point"


# --- 6 proof-pairing ---------------------------------------------------------------------------------------------


def false_statements(
    prover: Groth16Prover, proof: bytes
) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], bytes, bytes]]:
    other_ctx = bytes([CTX[0] ^ 1]) + CTX[1:]
    other = prover.prove((1, 1), CTX).proof
    return {
        "output-changed": (X, (Y[0] + 1,), CTX, proof),
        "output-negated": (X, (-Y[0],), CTX, proof),
        "input-changed": ((X[0] + 1, X[1]), Y, CTX, proof),
        "inputs-swapped": (X[::-1], Y, CTX, proof),
        "moved-to-another-command": (X, Y, other_ctx, proof),
        "last-ctx-bit": (X, Y, CTX[:-1] + bytes([CTX[-1] ^ 1]), proof),
        "proof-of-other-inputs": (X, Y, CTX, other),
        "a-negated": (X, Y, CTX, bytes([proof[0] ^ 0x40]) + proof[1:]),
        "c-of-another-proof": (X, Y, CTX, proof[:96] + other[96:]),
        "a-and-c-swapped": (X, Y, CTX, proof[96:] + proof[32:96] + proof[:32]),
    }


def test_native_names_every_false_statement(
    prover: Groth16Prover, native: NativeVerifier, proven: ProvenInference
) -> None:
    for name, case in false_statements(prover, proven.proof).items():
        assert failed_check(native, *case) == "proof-pairing", name


@pytest.mark.parametrize("name", ["output-changed", "moved-to-another-command", "c-of-another-proof"])
def test_pyecc_agrees_on_false_statements(
    prover: Groth16Prover, pyecc: PyEccVerifier, proven: ProvenInference, name: str
) -> None:
    assert failed_check(pyecc, *false_statements(prover, proven.proof)[name]) == "proof-pairing"


def test_proof_under_another_key_of_the_same_circuit(toy: Toy, proven: ProvenInference) -> None:
    _, other = development_setup(toy.data)
    verifier = NativeVerifier(other, vk_sha256=key_hash(other))
    assert failed_check(verifier, X, Y, CTX, proven.proof) == "proof-pairing"


def test_engines_agree_on_every_flipped_byte(
    native: NativeVerifier, pyecc: PyEccVerifier, proven: ProvenInference
) -> None:
    """One bit of each byte: py_ecc's decoder must say `proof-point` exactly where the Rust one does."""
    for at in range(128):
        mutated = bytearray(proven.proof)
        mutated[at] ^= 1 << (at % 6)
        found = failed_check(native, X, Y, CTX, bytes(mutated))
        assert found in ("proof-point", "proof-pairing")
        try:
            decoded: Proof | None = Proof.decode(bytes(mutated))
        except ProofRefused:
            decoded = None
        in_subgroup = decoded is not None and (decoded.b == Proof.decode(proven.proof).b or _g2_in_subgroup(decoded.b))
        assert found == ("proof-pairing" if in_subgroup else "proof-point"), f"byte {at}"


def _g2_in_subgroup(point: bn254.G2Point) -> bool:
    return pyecc.g2_in_subgroup(point)


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
    assert Proof.decode(proven.proof).encode() == proven.proof
