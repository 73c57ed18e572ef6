"""Files for circom's tools, read back by an independent reading of their published formats; the Python witness."""

from __future__ import annotations

import struct

import pytest

from attest.proof import Curve, Groth16Prover, ProofRefused, ProverError
from attest.proof.circuit import curve_of, decode, on_curve
from attest.proof.r1cs import write_r1cs, write_sym, write_wtns
from attest.proof.witness import first_unsatisfied, signed_witness, witness
from tests.attest.proof.support import BOX, CTX, Toy, model, run, toy_circuit

X = (3, -5)


def sections(data: bytes, magic: bytes, version: int) -> dict[int, bytes]:
    assert data[:4] == magic
    found, count = struct.unpack_from("<II", data, 4)
    assert found == version
    out, at = {}, 12
    for _ in range(count):
        kind, size = struct.unpack_from("<IQ", data, at)
        out[kind] = data[at + 12 : at + 12 + size]
        at += 12 + size
    assert at == len(data)
    return out


def read_rows(data: bytes, n: int) -> list[list[dict[int, int]]]:
    rows, at = [], 0
    for _ in range(n):
        row = []
        for _ in range(3):
            (terms,) = struct.unpack_from("<I", data, at)
            at += 4
            row.append({})
            for _ in range(terms):
                (wire,) = struct.unpack_from("<I", data, at)
                row[-1][wire] = int.from_bytes(data[at + 4 : at + 36], "little")
                at += 36
        rows.append(row)
    assert at == len(data)
    return rows


@pytest.mark.parametrize("curve", list(Curve))
def test_r1cs_holds_the_rows_and_its_witness_satisfies_them(curve: Curve) -> None:
    circuit = toy_circuit(curve)
    r = curve.parameters.r
    parts = sections(write_r1cs(circuit), b"r1cs", 1)
    assert struct.unpack_from("<I", parts[1]) == (32,)
    assert int.from_bytes(parts[1][4:36], "little") == r
    wires, outputs, inputs, private, labels, count = struct.unpack_from("<IIIIQI", parts[1], 36)
    assert (wires, outputs, inputs, private, labels) == (circuit.n_wires, 0, 4, 0, circuit.n_wires)
    rows = read_rows(parts[2], count)
    assert len(rows) == len(circuit.constraints)
    assert struct.unpack(f"<{labels}Q", parts[3]) == tuple(range(circuit.n_wires))

    values = witness(circuit, X, CTX)
    stored = sections(write_wtns(circuit, values), b"wtns", 2)
    assert struct.unpack_from("<I", stored[1], 36) == (circuit.n_wires,)
    read = [int.from_bytes(stored[2][i : i + 32], "little") for i in range(0, len(stored[2]), 32)]
    assert read == values
    for a, b, c in rows:
        x, y, z = (sum(k * read[wire] for wire, k in lc.items()) for lc in (a, b, c))
        assert (x * y - z) % r == 0


def test_sym_names_every_wire_but_the_constant() -> None:
    circuit = toy_circuit()
    lines = write_sym(circuit).splitlines()
    assert lines[:4] == ["1,1,0,main.x[0]", "2,2,0,main.x[1]", "3,3,0,main.y[0]", "4,4,0,main.ctx"]
    assert len(lines) == circuit.n_wires - 1
    assert lines[-1] == f"{circuit.n_wires - 1},{circuit.n_wires - 1},0,main.w[{circuit.n_witness - 1}]"


@pytest.mark.parametrize("change", [lambda w: w[:-1], lambda w: [*w, 0], lambda w: [-1, *w[1:]]])
def test_a_wtns_file_needs_canonical_wires(change: object) -> None:
    assert callable(change)
    circuit = toy_circuit()
    with pytest.raises(ProofRefused):
        write_wtns(circuit, change(witness(circuit, X, CTX)))


@pytest.mark.parametrize("x", [X, (0, 0), (BOX.lo, BOX.hi), (BOX.hi, BOX.lo)])
def test_python_and_native_witness_agree(prover: Groth16Prover, toy: Toy, x: tuple[int, int]) -> None:
    found = witness(toy.circuit, x, CTX)
    assert found == prover.witness(x, CTX)
    assert signed_witness(toy.circuit, x, CTX) == run(toy.circuit, x)
    assert found[3] == model(x) % toy.it.r
    assert first_unsatisfied(toy.circuit, found) is None
    found[3] += 1
    assert first_unsatisfied(toy.circuit, found) is not None


@pytest.mark.parametrize(
    ("inputs", "ctx", "code"),
    [
        ((1,), CTX, "input-count"),
        ((1, 2, 3), CTX, "input-count"),
        ((1 << 63, 0), CTX, "signal-range"),
        ((1, 2), CTX[1:], "ctx-length"),
        ((1000, 0), CTX, "witness-range"),
        ((-1000, 0), CTX, "witness-range"),
    ],
)
def test_both_refuse_a_witness_by_the_same_name(
    prover: Groth16Prover, toy: Toy, inputs: tuple[int, ...], ctx: bytes, code: str
) -> None:
    for refuse in (lambda: witness(toy.circuit, inputs, ctx), lambda: prover.witness(inputs, ctx)):
        with pytest.raises(ProverError) as caught:
            refuse()
        assert caught.value.code == code


def test_a_circuit_moves_to_the_other_curve_by_its_byte_alone() -> None:
    there = on_curve(toy_circuit(Curve.BN254).encode(), Curve.BLS12_381)
    assert there == toy_circuit(Curve.BLS12_381).encode()
    assert (curve_of(there), decode(there).curve) == (Curve.BLS12_381, Curve.BLS12_381)
    assert on_curve(there, Curve.BN254) == toy_circuit().encode()
