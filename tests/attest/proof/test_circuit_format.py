"""The circuit file: round trips, one negative vector per rule, and agreement of the two parsers on any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import _native
from attest.proof import CircuitError, LinearCombination
from attest.proof.circuit import LC_TERMS_MAX, MAGIC, decode
from tests.attest.proof.support import toy_circuit

TOY = toy_circuit().encode()
HEADER = ">8sBIIIII"
HEADER_BYTES = struct.calcsize(HEADER)


def native_code(data: bytes) -> str | None:
    """The Rust parser's refusal; an accepted circuit then complains about the empty list of wires."""
    with pytest.raises(_native.NativeError) as caught:
        _native.check_circuit(data, [])
    code = caught.value.args[0]
    return None if code == "signal-count" else str(code)


def python_code(data: bytes) -> str | None:
    try:
        decode(data)
    except CircuitError as error:
        return error.code
    return None


def lc(*terms: tuple[int, int]) -> bytes:
    return struct.pack(">H", len(terms)) + b"".join(struct.pack(">Iq", *term) for term in terms)


def bits(value: bytes, k: int, first: int) -> bytes:
    return b"\x01" + value + struct.pack(">BI", k, first)


def mul(a: bytes, b: bytes, shift: int, wire: int) -> bytes:
    return b"\x02" + a + b + struct.pack(">BI", shift, wire)


def out(value: bytes, index: int) -> bytes:
    return b"\x03" + value + struct.pack(">I", index)


def file(
    *ops: bytes,
    rows: tuple[bytes, ...] = (lc((1, 1)) + lc() + lc(),),
    inputs: int = 1,
    outputs: int = 1,
    witness: int = 1,
    magic: bytes = MAGIC,
    curve: int = 1,
    n_ops: int | None = None,
    n_rows: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """Wires: 0 one, 1 x, 2 y, 3 ctx, 4 private."""
    counts = (len(ops) if n_ops is None else n_ops, len(rows) if n_rows is None else n_rows)
    header = struct.pack(HEADER, magic, curve, inputs, outputs, witness, *counts)
    return header + b"".join(ops) + b"".join(rows) + tail


X, W = lc((1, 1)), lc((4, 1))
SET_W = mul(X, X, 0, 4)
GOOD = (SET_W, out(W, 0))

NEGATIVE = {
    "magic": (file(*GOOD, magic=b"SITSR1C9"), "circuit-format"),
    "curve-unknown": (file(*GOOD, curve=3), "circuit-format"),
    "no-inputs": (file(*GOOD, inputs=0), "circuit-limit"),
    "too-many-inputs": (file(*GOOD, inputs=1025), "circuit-limit"),
    "no-outputs": (file(*GOOD, outputs=0), "circuit-limit"),
    "too-many-outputs": (file(*GOOD, outputs=1025), "circuit-limit"),
    "too-many-wires": (file(*GOOD, witness=1 << 20), "circuit-limit"),
    "no-operations": (file(), "circuit-limit"),
    "no-constraints": (file(*GOOD, rows=()), "circuit-limit"),
    "too-many-constraints": (file(*GOOD, n_rows=(1 << 20) + 1), "circuit-limit"),
    "too-many-operations": (file(*GOOD, n_ops=(1 << 20) + 1), "circuit-limit"),
    "counts-beyond-bytes": (file(*GOOD, n_ops=1 << 20, n_rows=1 << 20), "circuit-format"),
    "truncated-terms": (file(*GOOD)[:-8], "circuit-format"),
    "trailing-bytes": (file(*GOOD, tail=b"\0"), "circuit-format"),
    "header-only": (file(*GOOD)[:HEADER_BYTES], "circuit-format"),
    "empty": (b"", "circuit-format"),
    "unknown-operation": (file(b"\x04" + SET_W[1:], out(W, 0)), "circuit-format"),
    "bits-zero": (file(bits(X, 0, 4), out(X, 0)), "circuit-format"),
    "bits-too-many": (file(bits(X, 64, 4), out(X, 0), witness=64), "circuit-format"),
    "shift-too-large": (file(mul(X, X, 127, 4), out(W, 0)), "circuit-format"),
    "output-index": (file(SET_W, out(W, 1)), "circuit-format"),
    "wires-descending": (file(mul(lc((1, 1), (0, 1)), X, 0, 4), out(W, 0)), "circuit-format"),
    "wire-repeated": (file(mul(lc((1, 1), (1, 2)), X, 0, 4), out(W, 0)), "circuit-format"),
    "wire-unknown": (file(*GOOD, rows=(lc((5, 1)) + lc() + lc(),)), "circuit-format"),
    "zero-coefficient": (file(*GOOD, rows=(lc((1, 0)) + lc() + lc(),)), "circuit-format"),
    "reads-undefined-wire": (file(mul(W, X, 0, 4), out(W, 0)), "circuit-program"),
    "reads-ctx": (file(mul(lc((3, 1)), X, 0, 4), out(W, 0)), "circuit-program"),
    "writes-twice": (file(SET_W, SET_W, out(W, 0)), "circuit-program"),
    "writes-output-twice": (file(SET_W, out(W, 0), out(X, 0)), "circuit-program"),
    "writes-input": (file(mul(X, X, 0, 1), out(X, 0)), "circuit-program"),
    "writes-ctx": (file(mul(X, X, 0, 3), out(X, 0)), "circuit-program"),
    "writes-beyond": (file(bits(X, 2, 4), out(X, 0)), "circuit-program"),
    "writes-far-beyond": (file(bits(X, 2, 0xFFFFFFFF), out(X, 0)), "circuit-program"),
    "wire-never-written": (file(SET_W, out(W, 0), witness=2), "circuit-program"),
    "output-never-written": (file(SET_W), "circuit-program"),
}


@pytest.mark.parametrize("rule", NEGATIVE)
def test_refuses(rule: str) -> None:
    data, code = NEGATIVE[rule]
    assert python_code(data) == code
    assert native_code(data) == code


def test_minimal_file_is_accepted_by_both_parsers() -> None:
    assert python_code(file(*GOOD)) is None
    assert native_code(file(*GOOD)) is None


def test_bls12_381_is_accepted_by_both_parsers() -> None:
    assert python_code(file(*GOOD, curve=2)) is None
    assert native_code(file(*GOOD, curve=2)) is None


def test_toy_round_trips() -> None:
    assert decode(TOY).encode() == TOY


def test_oversized_file_is_refused_before_parsing() -> None:
    data = bytes((64 << 20) + 1)
    assert python_code(data) == "circuit-limit"
    assert native_code(data) == "circuit-limit"


def test_encode_refuses_what_the_format_cannot_hold() -> None:
    circuit = toy_circuit()
    row = circuit.constraints[0]
    wide = LinearCombination(((1, 1 << 63),))
    long = LinearCombination(tuple((i, 1) for i in range(LC_TERMS_MAX + 1)))
    for bad in (wide, long):
        broken = type(circuit)(
            circuit.curve,
            circuit.n_inputs,
            circuit.n_outputs,
            circuit.n_witness,
            circuit.ops,
            (*circuit.constraints, type(row)(bad, bad, bad)),
        )
        with pytest.raises(CircuitError):
            broken.encode()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_parsers_agree_on_mutated_files(data: st.DataObject) -> None:
    """A value or one typed error, the same in both languages, and what is accepted is canonical."""
    mutated = bytearray(TOY)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "insert"]))
        if kind == "set":
            mutated[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del mutated[at : at + data.draw(st.integers(1, 12))]
        else:
            mutated[at:at] = data.draw(st.binary(min_size=1, max_size=12))
        if not mutated:
            break
    found = python_code(bytes(mutated))
    assert native_code(bytes(mutated)) == found
    if found is None:
        assert decode(bytes(mutated)).encode() == bytes(mutated)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-5, 5))),
    st.lists(st.tuples(st.integers(0, 5), st.integers(-5, 5))),
)
def test_linear_combinations_are_a_module(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    wires = [1, 7, -3, 11, 100, -50]

    def value(combination: LinearCombination) -> int:
        assert all(c for _, c in combination.terms)
        assert [w for w, _ in combination.terms] == sorted({w for w, _ in combination.terms})
        return sum(c * wires[w] for w, c in combination.terms)

    a, b = LinearCombination.of(left), LinearCombination.of(right)
    assert value(a + b) == value(a) + value(b)
    assert value(a - b) == value(a) - value(b)
    assert value(3 * a) == 3 * value(a)
    assert value(0 * a) == 0
    assert value(2 - a) == 2 - value(a)
    assert value(a + 4) == value(a) + 4
    if a.constant_value is not None:
        assert value(a) == a.constant_value
