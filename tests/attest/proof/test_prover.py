"""The prover and set-up on bad input: typed errors, no panic, keys bound to their circuit."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest

from attest import _native
from attest.proof import Curve, Groth16Prover, NativeVerifier, ProverError, development_setup, failed_check
from attest.proof.circuit import Constraint, LinearCombination
from attest.proof.prover import run_circuit
from tests.attest.proof.bad_points import g1_outside_subgroup, g2_outside_subgroup
from tests.attest.proof.support import BOX, CTX, Toy, model, without_row

PK_HEADER_BYTES = 53


def refusal(circuit: bytes, key: bytes) -> str:
    with pytest.raises(ProverError) as caught:
        Groth16Prover(circuit, key)
    return caught.value.code


def test_properties(prover: Groth16Prover, toy: Toy) -> None:
    assert (prover.n_inputs, prover.n_outputs) == (2, 1)
    assert prover.n_constraints == len(toy.circuit.constraints)
    assert prover.domain_size >= prover.n_constraints
    assert prover.table_bytes > 0


def test_kernels_are_chosen_by_name_and_prove_the_same_statements(
    native: NativeVerifier, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SITS_KERNEL", raising=False)
    fastest = Groth16Prover(toy.data, toy.proving_key).kernel
    for name in sorted({"scalar", fastest}):
        monkeypatch.setenv("SITS_KERNEL", name)
        prover = Groth16Prover(toy.data, toy.proving_key)
        assert prover.kernel == name
        for x in [(0, 0), (BOX.lo, BOX.hi)]:
            proven = prover.prove(x, CTX)
            assert proven.outputs == (model(x),)
            assert failed_check(native, x, proven.outputs, CTX, proven.proof) is None


@pytest.mark.parametrize("name", ["", "avx2", "IFMA", "scalar,ifma"])
def test_unknown_kernel(toy: Toy, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SITS_KERNEL", name)
    assert refusal(toy.data, toy.proving_key) == "kernel-unknown"


@pytest.mark.parametrize("x", [(BOX.lo, BOX.lo), (BOX.lo, BOX.hi), (BOX.hi, BOX.lo), (BOX.hi, BOX.hi), (0, 0)])
def test_edges_of_the_box_prove(prover: Groth16Prover, native: NativeVerifier, x: tuple[int, int]) -> None:
    proven = prover.prove(x, CTX)
    assert proven.outputs == (model(x),)
    assert failed_check(native, x, proven.outputs, CTX, proven.proof) is None


@pytest.mark.parametrize("ctx", [bytes(31), b"\xff" * 31])
def test_extreme_contexts_prove(prover: Groth16Prover, native: NativeVerifier, ctx: bytes) -> None:
    proven = prover.prove((1, 2), ctx)
    assert failed_check(native, (1, 2), proven.outputs, ctx, proven.proof) is None


@pytest.mark.parametrize(
    ("inputs", "ctx", "code"),
    [
        ((), CTX, "input-count"),
        ((1,), CTX, "input-count"),
        ((1, 2, 3), CTX, "input-count"),
        ((1 << 64, 0), CTX, "signal-range"),
        ((1, 2), CTX[:-1], "ctx-length"),
        ((1, 2), CTX + b"\0", "ctx-length"),
        (((1 << 63) - 1, -(1 << 63)), CTX, "witness-range"),
    ],
)
def test_bad_input(prover: Groth16Prover, inputs: tuple[int, ...], ctx: bytes, code: str) -> None:
    with pytest.raises(ProverError) as caught:
        prover.prove(inputs, ctx)
    assert caught.value.code == code
    # A refused call leaves nothing behind that could disturb the next proof.
    assert prover.prove((1, 2), CTX).outputs == (model((1, 2)),)


def test_key_of_another_circuit_is_refused(toy: Toy) -> None:
    other = without_row(toy.circuit, 0).encode()
    assert refusal(other, toy.proving_key) == "pk-circuit"


def test_circuit_that_leaves_a_signal_unbound_gets_no_keys(toy: Toy) -> None:
    ctx_row = len(toy.circuit.constraints) - 1
    with pytest.raises(ProverError) as caught:
        development_setup(without_row(toy.circuit, ctx_row).encode())
    assert caught.value.code == "circuit-unbound"


def test_setup_is_fresh_every_time(toy: Toy) -> None:
    assert development_setup(toy.data)[1] != toy.verification_key


def test_hostile_key_files_give_typed_errors(toy: Toy) -> None:
    key = toy.proving_key
    assert refusal(toy.data, b"") == "pk-format"
    assert refusal(toy.data, b"SITSPK02" + key[8:]) == "pk-format"
    assert refusal(toy.data, key[:8] + bytes([3 - toy.curve]) + key[9:]) == "pk-format"
    assert refusal(toy.data, key[:-1]) == "pk-format"
    assert refusal(toy.data, key + b"\0") == "pk-format"
    for at in (41, 45, 49):
        assert refusal(toy.data, key[:at] + b"\xff\xff\xff\xff" + key[at + 4 :]) == "pk-format"


def test_damaged_key_points_are_refused(toy: Toy) -> None:
    """Any changed coordinate leaves the curve or the canonical range; seeded, so a failure repeats."""
    rng = random.Random(20)
    for _ in range(60):
        at = rng.randrange(PK_HEADER_BYTES, len(toy.proving_key))
        mutated = bytearray(toy.proving_key)
        mutated[at] ^= 1 << rng.randrange(8)
        assert refusal(toy.data, bytes(mutated)) == "pk-format"


def test_g2_key_point_outside_the_subgroup_is_refused(toy: Toy) -> None:
    point, size = g2_outside_subgroup(toy.curve), toy.it.coordinate_bytes
    encoded = b"".join(c.to_bytes(size, "big") for c in (*reversed(point.x), *reversed(point.y)))
    beta_2 = PK_HEADER_BYTES + 3 * 2 * size  # after alpha, beta and delta in G1
    broken = toy.proving_key[:beta_2] + encoded + toy.proving_key[beta_2 + len(encoded) :]
    assert refusal(toy.data, broken) == "pk-format"


def test_g1_key_point_outside_the_subgroup_is_refused(toy: Toy) -> None:
    if toy.curve is Curve.BN254:
        assert toy.it.b == 3  # cofactor 1: no such point exists
        return
    point, size = g1_outside_subgroup(toy.curve), toy.it.coordinate_bytes
    encoded = point.x.to_bytes(size, "big") + point.y.to_bytes(size, "big")
    for at in (PK_HEADER_BYTES, len(toy.proving_key) - len(encoded)):
        broken = toy.proving_key[:at] + encoded + toy.proving_key[at + len(encoded) :]
        assert refusal(toy.data, broken) == "pk-format"


def test_threads_take_turns(prover: Groth16Prover, native: NativeVerifier) -> None:
    results: dict[int, bytes] = {}

    def work(i: int) -> None:
        results[i] = prover.prove((i, -i), CTX).proof

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(failed_check(native, (i, -i), (model((i, -i)),), CTX, p) is None for i, p in results.items())
    assert len(results) == 6


def test_check_circuit_refuses_bad_wires(toy: Toy) -> None:
    with pytest.raises(_native.NativeError) as caught:
        _native.check_circuit(toy.data, [0] * (toy.circuit.n_wires - 1))
    assert caught.value.args[0] == "signal-count"
    with pytest.raises(_native.NativeError) as caught:
        _native.check_circuit(toy.data, [-1] * toy.circuit.n_wires)
    assert caught.value.args[0] == "signal-range"


def test_run_circuit_gives_the_outputs_of_every_row(toy: Toy) -> None:
    rows = [(x, y) for x in range(BOX.lo, BOX.hi + 1) for y in range(BOX.lo, BOX.hi + 1)]
    assert run_circuit(toy.data, rows, CTX) == [[model(row)] for row in rows]
    assert run_circuit(toy.data, [], CTX) == []


def lc(*terms: tuple[int, int]) -> LinearCombination:
    return LinearCombination(terms)


@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("kind", ["integers", "context", "beyond-128-bits"])
def test_run_circuit_finds_a_constraint_that_does_not_hold(toy: Toy, at: int, kind: str) -> None:
    one, large, ctx = lc((0, 1)), lc((1, 1 << 62)), lc((toy.circuit.ctx_wire, 1))
    wrong = {
        "integers": Constraint(one, one, lc((0, 2))),
        "context": Constraint(one, one, ctx),
        "beyond-128-bits": Constraint(large, large, one),
    }
    rows = list(toy.circuit.constraints)
    rows[at] = wrong[kind]
    broken = replace(toy.circuit, constraints=tuple(rows)).encode()
    with pytest.raises(ProverError) as caught:
        run_circuit(broken, [(BOX.hi, 0)], CTX)
    assert caught.value.code == "unsatisfied"
    assert f"constraint {at % len(rows)} for row 0" in str(caught.value)


def test_run_circuit_takes_rows_of_the_context_into_account(toy: Toy) -> None:
    """A row that holds for one context only."""
    one, ctx = lc((0, 1)), lc((toy.circuit.ctx_wire, 1))
    bound = replace(toy.circuit, constraints=(*toy.circuit.constraints, Constraint(ctx, ctx, one))).encode()
    assert run_circuit(bound, [(1, 2)], bytes(30) + b"\1") == [[model((1, 2))]]
    with pytest.raises(ProverError):
        run_circuit(bound, [(1, 2)], CTX)


@pytest.mark.parametrize(
    ("rows", "ctx", "code"),
    [
        ([(0, 0), (10_000, 0)], CTX, "witness-range"),
        ([(0, 0, 0)], CTX, "input-count"),
        ([(0,)], CTX, "input-count"),
        ([(1 << 64, 0)], CTX, "signal-range"),
        ([(0, 0)], CTX[1:], "ctx-length"),
        ([()] * ((1 << 16) + 1), CTX, "row-count"),
    ],
    ids=["outside", "too-many", "too-few", "too-large", "context", "rows"],
)
def test_run_circuit_refuses(toy: Toy, rows: list[tuple[int, ...]], ctx: bytes, code: str) -> None:
    with pytest.raises(ProverError) as caught:
        run_circuit(toy.data, rows, ctx)
    assert caught.value.code == code
