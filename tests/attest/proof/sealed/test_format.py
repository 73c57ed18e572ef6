"""The sealed circuit file: round trip, and one refusal per rule, by both parsers."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

import pytest

from attest.proof import CircuitError, Curve, LinearCombination, ProverError
from attest.proof.circuit import BitsOp, Constraint, MulOp, OutOp
from attest.proof.prover import first_unsatisfied
from attest.proof.sealed.circuit import (
    CommitOp,
    FieldCombination,
    FieldConstraint,
    FieldMulOp,
    Op,
    SealedCircuit,
)
from attest.proof.sealed.format import MAGIC, decode, encode
from tests.attest.proof.sealed.cases import sealed

LC, FLC = LinearCombination, FieldCombination
COUNTS = ("inputs", "outputs", "witness", "field", "ops", "rows", "field_rows")
NONE, F_NONE = LC(), FLC()


def tiny() -> SealedCircuit:
    """1, commitment 1, y 2, ctx 3 | x 4, bit 5, product 6 | salt 7, square 8."""
    return SealedCircuit(
        Curve.BN254,
        n_inputs=1,
        n_outputs=1,
        n_witness=2,
        n_field=2,
        ops=(
            BitsOp(LC(((4, 1),)), 1, 5),
            MulOp(LC(((4, 1),)), LC(((5, 1),)), 0, 6),
            OutOp(LC(((6, 1),)), 0),
            FieldMulOp(FLC(((7, 1),)), FLC(((4, 2), (7, 3))), 8),
            CommitOp(FLC(((8, 1),))),
        ),
        constraints=(Constraint(LC(((5, 1),)), LC(((0, 1), (5, -1))), NONE), Constraint(LC(((3, 1),)), NONE, NONE)),
        field_constraints=(FieldConstraint(FLC(((7, 1),)), FLC(((4, 2), (7, 3))), FLC(((8, 1),))),),
    )


def raw(circuit: SealedCircuit) -> bytes:
    """The bytes of a circuit that need not follow the rules: what the encoder would write without its check."""
    import attest.proof.sealed.format as module

    original = module.decode
    module.decode = lambda data: circuit  # type: ignore[assignment]
    try:
        return encode(circuit)
    finally:
        module.decode = original


def with_op(at: int, op: Op) -> bytes:
    ops = list(tiny().ops)
    ops[at] = op
    return raw(replace(tiny(), ops=tuple(ops)))


def with_count(name: str, value: int) -> bytes:
    data = bytearray(encode(tiny()))
    struct.pack_into(">I", data, 9 + 4 * COUNTS.index(name), value)
    return bytes(data)


def with_row(row: Constraint) -> bytes:
    return raw(replace(tiny(), constraints=(row, *tiny().constraints)))


def with_field_row(a: FieldCombination) -> bytes:
    return raw(replace(tiny(), field_constraints=(FieldConstraint(a, F_NONE, F_NONE),)))


GOOD = encode(tiny())
R = Curve.BN254.parameters.r
NEGATIVE = {
    "magic": (b"SITSR1C3" + GOOD[8:], "circuit-format"),
    "curve-unknown": (MAGIC + b"\x03" + GOOD[9:], "circuit-format"),
    "short": (GOOD[:30], "circuit-format"),
    "truncated": (GOOD[:-1], "circuit-format"),
    "trailing": (GOOD + b"\x00", "circuit-format"),
    **{f"no-{name}": (with_count(name, 0), "circuit-limit") for name in COUNTS if name != "witness"},
    **{f"too-many-{name}": (with_count(name, (1 << 20) + 1), "circuit-limit") for name in COUNTS},
    "too-many-signals": (with_count("inputs", 1025), "circuit-limit"),
    "counts-over-bytes": (with_count("field_rows", 1000), "circuit-format"),
    "operation-unknown": (GOOD[:37] + b"\x06" + GOOD[38:], "circuit-format"),
    "commitment-twice": (with_op(3, CommitOp(FLC(((7, 1),)))), "circuit-program"),
    "commitment-never": (with_op(4, OutOp(LC(((6, 1),)), 0)), "circuit-program"),
    "salt-written": (with_op(3, FieldMulOp(FLC(((7, 1),)), FLC(((7, 1),)), 7)), "circuit-program"),
    "product-into-integer": (with_op(3, FieldMulOp(FLC(((7, 1),)), FLC(((7, 1),)), 6)), "circuit-program"),
    "product-beyond": (with_op(3, FieldMulOp(FLC(((7, 1),)), FLC(((7, 1),)), 9)), "circuit-program"),
    "integer-into-field": (with_op(1, MulOp(LC(((4, 1),)), LC(((5, 1),)), 0, 8)), "circuit-program"),
    "input-written": (with_op(1, MulOp(LC(((4, 1),)), LC(((5, 1),)), 0, 4)), "circuit-program"),
    "undefined-read": (with_op(3, FieldMulOp(FLC(((8, 1),)), FLC(((7, 1),)), 8)), "circuit-program"),
    "ctx-read": (with_op(3, FieldMulOp(FLC(((3, 1),)), FLC(((7, 1),)), 8)), "circuit-program"),
    "salt-among-integers": (with_op(2, OutOp(LC(((7, 1),)), 0)), "circuit-format"),
    "commitment-among-integers": (with_row(Constraint(LC(((1, 1),)), NONE, NONE)), "circuit-format"),
    "field-wire-among-integers": (with_row(Constraint(LC(((8, 1),)), NONE, NONE)), "circuit-format"),
    "coefficient-zero": (with_field_row(FLC(((7, 0),))), "circuit-format"),
    "coefficient-r": (with_field_row(FLC(((7, R),))), "circuit-format"),
    "wires-descending": (with_field_row(FLC(((8, 1), (7, 1)))), "circuit-format"),
    "wire-twice": (with_field_row(FLC(((7, 1), (7, 1)))), "circuit-format"),
    "wire-beyond": (with_field_row(FLC(((9, 1),))), "circuit-format"),
    "output-beyond": (with_op(2, OutOp(LC(((6, 1),)), 1)), "circuit-format"),
    "bits-none": (with_op(0, BitsOp(LC(((4, 1),)), 0, 5)), "circuit-format"),
    "shift-over": (with_op(1, MulOp(LC(((4, 1),)), LC(((5, 1),)), 127, 6)), "circuit-format"),
}


def python_code(data: bytes) -> str | None:
    try:
        decode(data)
    except CircuitError as error:
        return error.code
    return None


def native_code(data: bytes) -> str | None:
    with pytest.raises(ProverError) as caught:
        first_unsatisfied(data, [])
    return None if caught.value.code == "signal-count" else caught.value.code


@pytest.mark.parametrize("curve", tuple(Curve))
def test_round_trip(curve: Curve) -> None:
    data = encode(sealed(curve))
    assert decode(data) == sealed(curve)
    assert encode(decode(data)) == data
    assert native_code(data) is None


GOLDEN = {
    Curve.BN254: "7f8b9893cfa0220d78767aa26a950d438dedd44a1655b24ac3117bb08d77ade8",
    Curve.BLS12_381: "590ce70c977ac74c8ff1b48c9230a96c8cc68f4f4a934a12f4bbb3f7ff3fff3e",
}
"""Keys and exports name a sealed circuit by this digest, so a later version must make the same bytes."""


@pytest.mark.parametrize("curve", tuple(Curve))
def test_golden_circuit(curve: Curve) -> None:
    assert hashlib.sha256(encode(sealed(curve))).hexdigest() == GOLDEN[curve]


def test_good_file() -> None:
    assert (python_code(GOOD), native_code(GOOD)) == (None, None)


@pytest.mark.parametrize("rule", NEGATIVE)
def test_refuses(rule: str) -> None:
    data, code = NEGATIVE[rule]
    assert (python_code(data), native_code(data)) == (code, code)


@pytest.mark.parametrize("lc", [LC(((4, 1 << 63),)), LC(((4, -(1 << 63) - 1),))])
def test_integer_coefficients_have_64_bits(lc: LinearCombination) -> None:
    with pytest.raises(CircuitError) as caught:
        encode(replace(tiny(), constraints=(Constraint(lc, NONE, NONE),)))
    assert caught.value.code == "circuit-limit"


def test_too_many_terms_in_one_combination() -> None:
    lc = FLC(tuple((i, 1) for i in range(1 << 16)))
    with pytest.raises(CircuitError) as caught:
        encode(replace(tiny(), field_constraints=(FieldConstraint(lc, F_NONE, F_NONE),)))
    assert caught.value.code == "circuit-limit"
