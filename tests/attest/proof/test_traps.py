"""Every trap that proof systems are known to fall into, each by its name, on both curves and with both engines.

* keys with γ = ±δ accept a forgery made without a witness: ``test_gamma_delta_*``
* an input x accepted as x + r, negative or over-long signals (semaphore #16, snarkjs PR 480): ``test_aliasing_*``
* a wrong number of signals: ``test_wrong_number_of_signals``
* one point, several encodings; infinity, off the curve, outside the subgroup (G2 of both curves, G1 of BLS12-381):
  ``test_one_encoding_per_point``, ``test_bad_point_in_a_key``
* malleated proofs verify: signature and sequence bind them (snarkjs #383): ``test_malleated_proofs_*``
* a public signal that no row binds: ``test_unbound_signal_*``
* a witness bit or an output that can be flipped: ``test_flipped_*``
* edges of ranges: -2^k, -1, 0, 2^k - 1, box ± 1: ``test_boundaries_*``
* blinding used twice, also across threads, forks and restarts: ``test_blinding_*``
* a proof moved to another command, model, device, gate, epoch: ``test_moved_*``
* key files that allocate before they are known to be right (gnark CVE-2024-50354): ``test_hostile_header_*``
* joined checks whose errors cancel (gnark CVE-2024-45039): ``test_errors_that_cancel_in_a_batch``
* commitments that guessing small values opens (gnark CVE-2024-45040): ``test_proof_elements_hide_small_values``
* a quotient that is free where the divisor is 0 (ark-r1cs-std ``mul_by_inverse``): ``test_product_with_zero_is_bound``

What a missing row lets through is in ``test_circuit_mutation``; the lint rule by rule is in ``test_verifiers``.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from attest import _native
from attest.command import (
    Accepted,
    Command,
    CommandHeader,
    GateRules,
    GateState,
    InputRule,
    Mode,
    OpenEpoch,
    OutputRule,
    ProofKind,
    Refused,
    SessionKey,
    TimeQuality,
    judge,
    sign_command,
)
from attest.proof import (
    CircuitBuilder,
    Curve,
    Groth16Prover,
    Interval,
    NativeVerifier,
    ProofRefused,
    ProofVerifier,
    ProverError,
    PyEccVerifier,
    development_setup,
    failed_check,
    key_hash,
    pyecc,
)
from attest.proof.errors import LayoutError
from attest.proof.keys import Proof, VerificationKey
from attest.proof.points import G1Point, G2Point, PointFault
from attest.proof.prover import first_unsatisfied
from attest.proof.signals import to_signals
from attest.proof.snarkjs import export_public, import_public
from tests.attest.proof.forge import ORDERS, binds, execute, without_row
from tests.attest.proof.support import BOX, CTX, model, toy_circuit

ROOT = Path(__file__).resolve().parents[3]
X = (3, -5)
Y = (model(X),)
GROWTH_MIB_MAX = 16
"""What refusing a few bytes may cost; the interpreter's own noise is a few MiB."""
CURVES = pytest.mark.parametrize("curve", list(Curve), ids=lambda curve: curve.text)
ENGINES = pytest.mark.parametrize("engine", ["native", "py-ecc"])


@dataclass(frozen=True)
class Rig:
    """The toy network on one curve with keys, prover, a proof of (X, Y, CTX) and both verifiers."""

    curve: Curve
    circuit: bytes
    proving_key: bytes
    verification_key: bytes
    prover: Groth16Prover
    proof: bytes
    native: NativeVerifier
    py_ecc: PyEccVerifier

    def verifier(self, engine: str) -> ProofVerifier:
        return self.native if engine == "native" else self.py_ecc

    @property
    def key(self) -> VerificationKey:
        return VerificationKey.decode(self.verification_key)


@cache
def rig(curve: Curve) -> Rig:
    circuit = replace(toy_circuit(), curve=curve).encode()
    proving, verification = development_setup(circuit)
    prover = Groth16Prover(circuit, proving)
    digest = key_hash(verification)
    native, slow = (engine(verification, vk_sha256=digest) for engine in (NativeVerifier, PyEccVerifier))
    assert isinstance(native, NativeVerifier)
    assert isinstance(slow, PyEccVerifier)
    return Rig(curve, circuit, proving, verification, prover, prover.prove(X, CTX).proof, native, slow)


def refused_signals(verifier: ProofVerifier, signals: list[int], proof: bytes) -> str | None:
    try:
        verifier.verify_signals(signals, proof)
    except ProofRefused as refusal:
        return refusal.code
    return None


def key_refusal(engine: str, key: bytes) -> str:
    with pytest.raises(ProofRefused) as caught:
        (NativeVerifier if engine == "native" else PyEccVerifier)(key, vk_sha256=key_hash(key))
    return caught.value.code


def affine(lib: object, point: object) -> G1Point:
    x, y = lib.normalize(point)  # type: ignore[attr-defined]
    return G1Point(int(x), int(y))


def affine2(lib: object, point: object) -> G2Point:
    x, y = lib.normalize(point)  # type: ignore[attr-defined]
    return G2Point((int(x.coeffs[0]), int(x.coeffs[1])), (int(y.coeffs[0]), int(y.coeffs[1])))


def negative(curve: Curve, point: G1Point) -> G1Point:
    return G1Point(point.x, curve.parameters.p - point.y)


def negative2(curve: Curve, point: G2Point) -> G2Point:
    p = curve.parameters.p
    return G2Point(point.x, (-point.y[0] % p, -point.y[1] % p))


@CURVES
@ENGINES
def test_the_rig_is_honest(curve: Curve, engine: str) -> None:
    assert failed_check(rig(curve).verifier(engine), X, Y, CTX, rig(curve).proof) is None


# --- keys with γ = ±δ --------------------------------------------------------------------------------------------


@CURVES
@pytest.mark.parametrize("sign", [1, -1], ids=["equal", "opposite"])
def test_gamma_delta_forgery_needs_no_witness_and_both_engines_refuse_the_key(curve: Curve, sign: int) -> None:
    """A = α, B = β, C = ∓IC(x) satisfies the equation of any statement, also of one the model denies."""
    key = rig(curve).key
    broken = replace(key, delta=key.gamma if sign > 0 else negative2(curve, key.gamma))
    false = to_signals(X, (Y[0] + 1,), CTX, n_public=key.n_public, curve=curve)
    prepared = pyecc.prepare(broken)
    statement = affine(prepared.pairing.lib, prepared.pairing.combine(prepared.ic, (1, *false)))
    forged = Proof(key.alpha, key.beta, negative(curve, statement) if sign > 0 else statement, curve)
    assert pyecc.pairing_holds(prepared, false, forged), "the forgery is real"
    assert refused_signals(rig(curve).native, false, forged.encode()) == "proof-pairing"
    for engine in ("native", "py-ecc"):
        assert key_refusal(engine, broken.encode()) == "key-lint"


@CURVES
@ENGINES
@pytest.mark.parametrize("name", ["beta", "gamma", "delta"])
def test_gamma_delta_known_to_the_forger(curve: Curve, engine: str, name: str) -> None:
    """A key nobody contributed to keeps the generator: with δ = G the forger divides C by one and is done."""
    generator = curve.parameters.g2_generator
    for point in (generator, negative2(curve, generator)):
        assert key_refusal(engine, replace(rig(curve).key, **{name: point}).encode()) == "key-lint"


# --- aliasing ----------------------------------------------------------------------------------------------------


@CURVES
@ENGINES
@pytest.mark.parametrize("position", range(4))
def test_aliasing_x_plus_r(curve: Curve, engine: str, position: int) -> None:
    """x and x + r are the same field element: accepting both let a token be spent twice."""
    r = ORDERS[curve]
    signals = to_signals(X, Y, CTX, n_public=4, curve=curve)
    for alias in (signals[position] + r, signals[position] - r, signals[position] + 2 * r):
        shifted = [*signals[:position], alias, *signals[position + 1 :]]
        assert refused_signals(rig(curve).verifier(engine), shifted, rig(curve).proof) == "signal-range"


@CURVES
@ENGINES
@pytest.mark.parametrize("alias", ["+r", "-r", "mod r", "64 bits"])
def test_aliasing_of_a_command_s_values(curve: Curve, engine: str, alias: str) -> None:
    r = ORDERS[curve]
    inputs = {"+r": (X[0] + r, X[1]), "-r": (X[0] - r, X[1]), "mod r": (X[0], X[1] % r), "64 bits": (1 << 63, X[1])}
    assert failed_check(rig(curve).verifier(engine), inputs[alias], Y, CTX, rig(curve).proof) == "signal-range"


@CURVES
def test_aliasing_in_an_imported_file(curve: Curve) -> None:
    """The bound is r, not the larger base field's p: a verifier that checked p accepted x + r."""
    r = ORDERS[curve]
    assert import_public(json.dumps(["1", str(r - 1)]), curve=curve) == [1, r - 1]
    for text in (str(r), str(r + 1), str(curve.parameters.p - 1), "-1", "01", "1.0", ""):
        with pytest.raises(LayoutError):
            import_public(json.dumps(["1", text]), curve=curve)
    with pytest.raises(ProofRefused) as caught:
        export_public([r], curve=curve)
    assert caught.value.code == "signal-range"


@CURVES
@ENGINES
def test_wrong_number_of_signals(curve: Curve, engine: str) -> None:
    verifier, proof = rig(curve).verifier(engine), rig(curve).proof
    for inputs, outputs in (((), ()), (X[:1], Y), ((*X, 0), Y), (X, (*Y, 0)), (X, ())):
        assert failed_check(verifier, inputs, outputs, CTX, proof) == "signal-count"
    signals = to_signals(X, Y, CTX, n_public=4, curve=curve)
    for wrong in ([], signals[:-1], [*signals, 0], [1, *signals]):
        assert refused_signals(verifier, wrong, proof) == "signal-count"


# --- points ------------------------------------------------------------------------------------------------------


def decodable(decode: Callable[[bytes], object | None], size: int, curve: Curve, good: bool) -> bytes:
    """Bytes of the first x that has (or has not) a point; where there is a cofactor such points lie outside."""
    for x in range(1, 200):
        data = bytearray(x.to_bytes(size, "big"))
        data[0] |= curve.parameters.smaller
        try:
            decode(bytes(data))
        except PointFault:
            if not good:
                return bytes(data)
            continue
        if good:
            return bytes(data)
    raise AssertionError("no such x")


def bad_encodings(curve: Curve, honest: bytes, decode: Callable[[bytes], object | None]) -> dict[str, bytes]:
    """Encodings of a G1 or G2 point that must be refused, by name."""
    it, size = curve.parameters, len(honest)
    flags = honest[0] & it.flag_mask
    last = int.from_bytes(honest[-it.coordinate_bytes :], "big") & ((1 << (8 * it.coordinate_bytes - 3)) - 1)
    head = bytes([honest[0]])
    cases = {
        "infinity": bytes([it.infinity]) + bytes(size - 1),
        "infinity-not-zero": bytes([it.infinity]) + bytes(size - 2) + b"\1",
        "zero": bytes(size),
        "ones": b"\xff" * size,
        "off-curve": decodable(decode, size, curve, good=False),
        "x-is-p": with_x(it.p, flags, size),
    }
    for flag in range(256):
        if flag & ~it.flag_mask or flag in (it.smaller, it.larger):
            continue
        cases[f"flags-{flag:02x}"] = bytes([(honest[0] & ~it.flag_mask & 0xFF) | flag]) + honest[1:]
    if size > it.coordinate_bytes:
        cases["real-part-is-p"] = head + honest[1 : it.coordinate_bytes] + it.p.to_bytes(it.coordinate_bytes, "big")
        if last + it.p < 1 << (8 * it.coordinate_bytes):
            shifted = (last + it.p).to_bytes(it.coordinate_bytes, "big")
            cases["real-part-plus-p"] = honest[: it.coordinate_bytes] + shifted
    if size > it.coordinate_bytes or curve is Curve.BLS12_381:
        cases["outside-subgroup"] = decodable(decode, size, curve, good=True)
    return cases


def with_x(x: int, flags: int, size: int) -> bytes:
    data = bytearray(x.to_bytes(size, "big"))
    data[0] |= flags
    return bytes(data)


def parts(curve: Curve) -> dict[str, tuple[int, int]]:
    it = curve.parameters
    return {
        "A": (0, it.g1_bytes),
        "B": (it.g1_bytes, it.g1_bytes + it.g2_bytes),
        "C": (it.g1_bytes + it.g2_bytes, it.proof_bytes),
    }


@CURVES
@ENGINES
@pytest.mark.parametrize("part", "ABC")
def test_one_encoding_per_point(curve: Curve, engine: str, part: str) -> None:
    it, proof = curve.parameters, rig(curve).proof
    start, end = parts(curve)[part]
    decode = it.g2_decompress if part == "B" else it.g1_decompress
    cases = bad_encodings(curve, proof[start:end], decode)
    assert ("outside-subgroup" in cases) == (part == "B" or curve is Curve.BLS12_381)
    for name, data in cases.items():
        changed = proof[:start] + data + proof[end:]
        assert failed_check(rig(curve).verifier(engine), X, Y, CTX, changed) == "proof-point", name
    for wrong in (b"", proof[:-1], proof + b"\0", proof * 2):
        assert failed_check(rig(curve).verifier(engine), X, Y, CTX, wrong) == "proof-point"


@CURVES
@ENGINES
def test_bad_point_in_a_key(curve: Curve, engine: str) -> None:
    it, key = curve.parameters, rig(curve).verification_key
    first, g2 = 13, it.g2_bytes
    places = {"alpha": (first, it.g1_bytes), "ic": (len(key) - it.g1_bytes, it.g1_bytes)}
    places |= {n: (first + it.g1_bytes + i * g2, g2) for i, n in enumerate(("beta", "gamma", "delta"))}
    for where, (start, size) in places.items():
        decode = it.g2_decompress if size == g2 else it.g1_decompress
        for name, data in bad_encodings(curve, key[start : start + size], decode).items():
            assert key_refusal(engine, key[:start] + data + key[start + size :]) == "key-lint", f"{where} {name}"


@ENGINES
def test_a_proof_of_the_other_curve(engine: str) -> None:
    for curve, other in itertools.permutations(Curve):
        assert failed_check(rig(curve).verifier(engine), X, Y, CTX, rig(other).proof) == "proof-point"
        relabelled = bytearray(rig(curve).verification_key)
        relabelled[8] = other
        assert key_refusal(engine, bytes(relabelled)) == "key-lint"


# --- malleability ------------------------------------------------------------------------------------------------


def malleated(curve: Curve) -> dict[str, bytes]:
    """Other proofs of the same statement, made from one proof and public values only."""
    proof, prepared = Proof.decode(rig(curve).proof, curve), pyecc.prepare(rig(curve).key)
    it, lib = prepared.pairing, prepared.pairing.lib
    r, factor = ORDERS[curve], 0x5EED
    scaled = replace(
        proof,
        a=affine(lib, lib.multiply(it.g1(proof.a), factor)),
        b=affine2(lib, lib.multiply(it.g2(proof.b), pow(factor, -1, r))),
    )
    shifted = replace(
        proof,
        b=affine2(lib, lib.add(it.g2(proof.b), lib.multiply(prepared.delta, factor))),
        c=affine(lib, lib.add(it.g1(proof.c), lib.multiply(it.g1(proof.a), factor))),
    )
    negated = replace(proof, a=negative(curve, proof.a), b=negative2(curve, proof.b))
    return {name: p.encode() for name, p in (("negated", negated), ("scaled", scaled), ("shifted", shifted))}


@CURVES
@ENGINES
def test_malleated_proofs_verify_by_design(curve: Curve, engine: str) -> None:
    for name, proof in malleated(curve).items():
        assert proof != rig(curve).proof
        assert failed_check(rig(curve).verifier(engine), X, Y, CTX, proof) is None, name


MS, T0 = 1_000_000, 1_790_000_000_000_000_000
SESSION, STRANGER = SessionKey.generate(), SessionKey.generate()
HEADER = CommandHeader(
    version=1,
    device_id="TPM2:0x81000001",
    gate_id="gate-1",
    epoch=7,
    sequence=100,
    t_source_ns=T0 - 5 * MS,
    t_decided_ns=T0 - 2 * MS,
    module_digest=hashlib.sha256(b"module").digest(),
    deployment_digest=hashlib.sha256(b"deployment").digest(),
    mode=Mode.AUTO,
)
KINDS = {Curve.BN254: ProofKind.GROTH16_BN254, Curve.BLS12_381: ProofKind.GROTH16_BLS12_381}
EPOCH = OpenEpoch(
    7, HEADER.device_id, SESSION.public, HEADER.module_digest, HEADER.deployment_digest, T0 + 3_600_000 * MS
)


def rules(curve: Curve) -> GateRules:
    return GateRules(
        gate_id="gate-1",
        inputs=(InputRule("x0", BOX.lo, BOX.hi), InputRule("x1", BOX.lo, BOX.hi)),
        outputs=(OutputRule("y0", -1000, 1000),),
        source_age_ms_max=50,
        decision_age_ms_max=20,
        decide_ms_max=30,
        future_ms_max=2,
        proof_kind=KINDS[curve],
    )


def command(curve: Curve, *, proof: bytes | None = None, x: tuple[int, int] = X, **changes: object) -> Command:
    header = replace(HEADER, **changes)  # type: ignore[arg-type]
    made = rig(curve).prover.prove(x, header.ctx()).proof if proof is None else proof
    return Command(header, x, (model(x),), KINDS[curve], made, TimeQuality.PTP_SW)


def gate(curve: Curve, data: bytes, state: GateState | None = None) -> str:
    """The gate's verdict on one command: ``accepted`` or the code of the refusal."""
    verdict = judge(
        data,
        rules(curve),
        GateState(7, None) if state is None else state,
        EPOCH,
        T0,
        gate_mode=Mode.AUTO,
        verifier=rig(curve).native,  # type: ignore[arg-type]
    )
    if isinstance(verdict, Refused):
        return verdict.code
    assert isinstance(verdict, Accepted)
    assert verdict.proof_verified
    return "accepted"


@CURVES
def test_malleated_proofs_do_not_pass_the_gate_twice_nor_without_the_session_key(curve: Curve) -> None:
    honest = command(curve)
    proof = Proof.decode(honest.proof, curve)
    other = replace(proof, a=negative(curve, proof.a), b=negative2(curve, proof.b)).encode()
    assert failed_check(rig(curve).native, X, Y, HEADER.ctx(), other) is None, "it verifies, so it must be bound"
    signed = sign_command(honest, SESSION)
    changed = replace(honest, proof=other)
    assert signed.count(honest.proof) == 1
    assert gate(curve, signed.replace(honest.proof, other)) == "signature"
    assert gate(curve, sign_command(changed, STRANGER)) == "signature"
    state = GateState(7, None)
    assert gate(curve, signed, state) == "accepted"
    assert gate(curve, signed, state) == "replay"
    assert gate(curve, sign_command(changed, SESSION), state) == "replay", "even the session itself cannot do it twice"


# --- moved proofs ------------------------------------------------------------------------------------------------

MOVES: dict[str, dict[str, object]] = {
    "device": {"device_id": "TPM2:0x81000002"},
    "gate": {"gate_id": "gate-2"},
    "epoch": {"epoch": 8},
    "command": {"sequence": 101},
    "source-time": {"t_source_ns": HEADER.t_source_ns + 1},
    "decision-time": {"t_decided_ns": HEADER.t_decided_ns + 1},
    "module": {"module_digest": hashlib.sha256(b"another module").digest()},
    "deployment": {"deployment_digest": hashlib.sha256(b"another deployment").digest()},
    "mode": {"mode": Mode.SUPERVISED},
}


@CURVES
@pytest.mark.parametrize("what", MOVES)
def test_moved_to_another(curve: Curve, what: str) -> None:
    honest = command(curve)
    header = replace(HEADER, **MOVES[what])  # type: ignore[arg-type]
    assert header.ctx() != HEADER.ctx()
    assert failed_check(rig(curve).native, X, Y, header.ctx(), honest.proof) == "proof-pairing"


@CURVES
def test_moved_to_the_next_command_is_refused_by_the_gate(curve: Curve) -> None:
    state, honest = GateState(7, None), command(curve)
    assert gate(curve, sign_command(honest, SESSION), state) == "accepted"
    moved = command(curve, proof=honest.proof, sequence=101)
    assert gate(curve, sign_command(moved, SESSION), state) == "proof-moved"


@CURVES
@ENGINES
def test_moved_to_another_model(curve: Curve, engine: str) -> None:
    """The same shape with one weight changed, and the same model under another set-up."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1, curve=curve)
    builder.add_out(0, 2 * builder.input(0) + builder.input(1))
    for circuit in (builder.finish().encode(), rig(curve).circuit):
        _, key = development_setup(circuit)
        other = (NativeVerifier if engine == "native" else PyEccVerifier)(key, vk_sha256=key_hash(key))
        assert failed_check(other, X, Y, CTX, rig(curve).proof) == "proof-pairing"


# --- circuits ----------------------------------------------------------------------------------------------------


@CURVES
def test_unbound_signal_gets_no_keys(curve: Curve) -> None:
    """Without its row x·0 = 0 an input no weight uses would have IC = 0, and any value of it would verify."""
    builder = CircuitBuilder(n_inputs=2, n_outputs=1, curve=curve)
    builder.add_out(0, builder.input(0))
    circuit = builder.finish()
    development_setup(circuit.encode())
    loose = [i for i, row in enumerate(circuit.constraints) if binds(row) and row.a.terms != ((1, 1),)]
    assert len(loose) == 2, "x_1 and ctx"
    for index in loose:
        with pytest.raises(ProverError) as caught:
            development_setup(without_row(circuit, index).encode())
        assert caught.value.code == "circuit-unbound"


@CURVES
def test_flipped_witness_bits_and_outputs_are_unsatisfiable(curve: Curve) -> None:
    circuit = replace(toy_circuit(), curve=curve)
    honest = execute(circuit, X, int.from_bytes(CTX, "big"), {}, ORDERS[curve])
    assert honest == rig(curve).prover.witness(X, CTX)
    assert first_unsatisfied(rig(curve).circuit, honest) is None
    for wire in (*range(3, 4), *range(circuit.ctx_wire + 1, circuit.n_wires)):
        for changed in (1 - honest[wire], honest[wire] + 1, -honest[wire], honest[wire] + ORDERS[curve] // 2):
            if (changed - honest[wire]) % ORDERS[curve]:
                wires = [*honest[:wire], changed % ORDERS[curve], *honest[wire + 1 :]]
                assert first_unsatisfied(rig(curve).circuit, wires) is not None, f"wire {wire}"


@CURVES
def test_product_with_zero_is_bound(curve: Curve) -> None:
    """T·q = 2^k·w leaves w no freedom, also where T = 0: nothing here is defined by a division."""
    builder = CircuitBuilder(n_inputs=1, n_outputs=1, curve=curve)
    builder.add_out(0, builder.relu_shift(builder.input(0), Interval(-16, 15)))
    circuit = builder.finish()
    product = circuit.n_wires - 1
    for x in (-16, -1, 0, 15):
        for value in (1, -1, 7, ORDERS[curve] // 2):
            overrides = {product: max(x, 0) + value}
            assert first_unsatisfied(circuit.encode(), execute(circuit, (x,), 0, overrides, ORDERS[curve])) is not None


@CURVES
def test_boundaries_of_the_accumulator(curve: Curve) -> None:
    """-2^k, -1, 0 and 2^k - 1 prove the right output and no other; one step further there is no witness."""
    builder = CircuitBuilder(n_inputs=1, n_outputs=1, curve=curve)
    builder.add_out(0, builder.relu_shift(builder.input(0), Interval(-16, 15)))
    circuit = builder.finish().encode()
    proving, key = development_setup(circuit)
    prover, verifier = Groth16Prover(circuit, proving), NativeVerifier(key, vk_sha256=key_hash(key))
    for x in (-16, -15, -1, 0, 1, 14, 15):
        proven = prover.prove((x,), CTX)
        assert proven.outputs == (max(x, 0),)
        assert failed_check(verifier, (x,), proven.outputs, CTX, proven.proof) is None
        for wrong in {x, -x, 0, 1, 15, 16, max(x, 0) + 1, max(x, 0) - 1} - {max(x, 0)}:
            assert failed_check(verifier, (x,), (wrong,), CTX, proven.proof) == "proof-pairing"
    for x in (-17, 16, -(1 << 31), 1 << 31, -(1 << 63), (1 << 63) - 1):
        with pytest.raises(ProverError) as caught:
            prover.prove((x,), CTX)
        assert caught.value.code == "witness-range"


@CURVES
def test_boundaries_of_the_box_are_the_gate_s(curve: Curve) -> None:
    """Inside the bits but outside the box a proof may exist; the gate refuses the clear value."""
    for x in itertools.product((BOX.lo, BOX.hi), repeat=2):
        assert gate(curve, sign_command(command(curve, x=x), SESSION)) == "accepted"
    for x in ((BOX.lo - 1, 0), (BOX.hi + 1, 0), (0, BOX.lo - 1), (0, BOX.hi + 1)):
        outside = replace(command(curve), inputs=x, outputs=(model(x),))
        assert gate(curve, sign_command(outside, SESSION)) == "input-range"


# --- blinding ----------------------------------------------------------------------------------------------------


def no_part_twice(curve: Curve, proofs: list[bytes]) -> None:
    for start, end in parts(curve).values():
        assert len({proof[start:end] for proof in proofs}) == len(proofs)
    assert all(failed_check(rig(curve).native, X, Y, CTX, proof) is None for proof in proofs)


@CURVES
def test_blinding_is_used_once_in_one_process(curve: Curve) -> None:
    made: list[bytes] = [rig(curve).proof]

    def work() -> None:
        made.extend(rig(curve).prover.prove(X, CTX).proof for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    no_part_twice(curve, [*made, *(Groth16Prover(rig(curve).circuit, rig(curve).proving_key).prove(X, CTX).proof,)])


FORKED = """
import os, sys
from pathlib import Path
from attest.proof import Groth16Prover
folder = Path(sys.argv[1])
prover = Groth16Prover((folder / "c").read_bytes(), (folder / "pk").read_bytes())
x, ctx = (3, -5), bytes(range(1, 32))
print(prover.prove(x, ctx).proof.hex(), flush=True)
for _ in range(3):
    child = os.fork()
    if child == 0:
        for _ in range(2):
            os.write(1, prover.prove(x, ctx).proof.hex().encode() + b"\\n")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(prover.prove(x, ctx).proof.hex(), flush=True)
"""


@CURVES
def test_blinding_is_used_once_across_forks_and_restarts(curve: Curve, tmp_path: Path) -> None:
    """A generator seeded in the process would give a fork or a restored machine the same values again."""
    (tmp_path / "c").write_bytes(rig(curve).circuit)
    (tmp_path / "pk").write_bytes(rig(curve).proving_key)
    proofs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", FORKED, str(tmp_path)],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        proofs += [bytes.fromhex(line) for line in done.stdout.split()]
    assert len(proofs) == 2 * (1 + 3 * 3)
    no_part_twice(curve, proofs)


@CURVES
def test_proof_elements_hide_small_values(curve: Curve) -> None:
    """Whoever guesses the witness can compute α + Σ w·A from the proving key; it must not be the proof's A."""
    it, data = curve.parameters, rig(curve).proving_key
    size, first = 2 * it.coordinate_bytes, 53
    lib = pyecc.pairing(curve).lib
    wires = rig(curve).prover.witness(X, CTX)

    def column(number: int) -> object | None:
        at = first + number * size
        raw = data[at : at + size]
        if raw[0] & it.infinity:
            return None
        x, y = (int.from_bytes(raw[i : i + it.coordinate_bytes], "big") for i in (0, it.coordinate_bytes))
        assert it.g1_on_curve(x, y), "read in the right place"
        return pyecc.pairing(curve).g1(G1Point(x, y))

    guess, a_at = column(0), 3 + 2 * it.g2_bytes * 2 // size
    for i, wire in enumerate(wires):
        point = column(a_at + i)
        guess = guess if point is None else lib.add(guess, lib.multiply(point, wire))
    assert affine(lib, guess) != Proof.decode(rig(curve).proof, curve).a


# --- joined checks -----------------------------------------------------------------------------------------------


@CURVES
@ENGINES
def test_errors_that_cancel_in_a_batch(curve: Curve, engine: str) -> None:
    """C + E in one proof and C - E in another: a plain product of the equations would accept both."""
    lib = pyecc.pairing(curve).lib
    first, second = (Proof.decode(rig(curve).prover.prove(X, CTX).proof, curve) for _ in range(2))
    error = lib.multiply(lib.G1, 12345)
    bad = [
        replace(proof, c=affine(lib, lib.add(pyecc.pairing(curve).g1(proof.c), e))).encode()
        for proof, e in ((first, error), (second, lib.neg(error)))
    ]
    batch = [(X, Y, CTX, bad[0]), (X, Y, CTX, rig(curve).proof), (X, Y, CTX, bad[1])]
    assert rig(curve).verifier(engine).verify_batch(batch) == ["proof-pairing", None, "proof-pairing"]


# --- memory ------------------------------------------------------------------------------------------------------

HOSTILE = """
import resource, sys
from pathlib import Path
from attest import _native
from attest.proof import NativeVerifier, ProofRefused, PyEccVerifier, key_hash
folder = Path(sys.argv[1])
circuit, proving, key = ((folder / name).read_bytes() for name in ("c", "pk", "vk"))
huge = b"\\xff\\xff\\xff\\xff"
def attempt(make):
    try:
        make()
    except (ProofRefused, _native.NativeError):
        return
    raise SystemExit("accepted")
def round():
    for data in (key[:9] + huge + key[13:], key[:9] + b"\\x00\\x00\\x08\\x01" + key[13:], key[:9] + huge, key * 200):
        for engine in (NativeVerifier, PyEccVerifier):
            attempt(lambda: engine(data, vk_sha256=key_hash(data)))
    for at in (41, 45, 49):
        attempt(lambda: _native.Prover(circuit, proving[:at] + huge + proving[at + 4:]))
        attempt(lambda: _native.Prover(circuit, proving[:at] + huge))
    for at in (9, 13, 17, 21, 25):
        for tail in (circuit[at + 4:], b""):
            attempt(lambda: _native.setup(circuit[:at] + huge + tail))
            attempt(lambda: _native.setup(circuit[:at] + b"\\x00\\x0f\\xff\\xff" + tail))
attempt(lambda: _native.setup(b""))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@CURVES
def test_hostile_header_is_refused_before_memory_is_taken(curve: Curve, tmp_path: Path) -> None:
    """Counts of four billion in a header of a few bytes: peak memory of the process must not notice."""
    files = {"c": rig(curve).circuit, "pk": rig(curve).proving_key, "vk": rig(curve).verification_key}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < GROWTH_MIB_MAX * 1024, f"{done.stdout.strip()} KiB"


@CURVES
@pytest.mark.parametrize("name", ["circuit", "proving_key", "verification_key"])
def test_hostile_header_has_a_typed_error(curve: Curve, name: str) -> None:
    data = bytearray(getattr(rig(curve), name))
    data[8] = 77
    attempt: dict[str, Callable[[bytes], object]] = {
        "circuit": _native.setup,
        "proving_key": lambda key: _native.Prover(rig(curve).circuit, key),
        "verification_key": _native.Verifier,
    }
    with pytest.raises(_native.NativeError):
        attempt[name](bytes(data))
