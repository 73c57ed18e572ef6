"""The sealed circuit file ``SITSR1C2``: canonical encoding, strict decoding. Layout in docs/interfaces.md.

A decoded circuit is complete: its program writes the commitment, every output and every wire behind the inputs except
the salt exactly once, and reads only wires that already have a value.
"""

from __future__ import annotations

import struct
from typing import Final

from attest.proof import circuit as plain
from attest.proof.circuit import BitsOp, Constraint, Curve, LinearCombination, MulOp, OutOp
from attest.proof.errors import CircuitError
from attest.proof.sealed.circuit import (
    COMMITMENT_WIRE,
    CommitOp,
    FieldCombination,
    FieldConstraint,
    FieldMulOp,
    Op,
    SealedCircuit,
)

MAGIC: Final = b"SITSR1C2"
COEFFICIENT_BYTES: Final = 32

_HEADER: Final = struct.Struct(">8sBIIIIIII")
_TERM: Final = struct.Struct(">Iq")
_FIELD_TERM: Final = struct.Struct(f">I{COEFFICIENT_BYTES}s")
_OP_BITS, _OP_MUL, _OP_OUT, _OP_FIELD_MUL, _OP_COMMIT = 1, 2, 3, 4, 5
_OP_BYTES_MIN: Final = 3
_CONSTRAINT_BYTES_MIN: Final = 6


def encode(circuit: SealedCircuit) -> bytes:
    """Canonical bytes. Raises :class:`CircuitError` if the circuit breaks a rule of the format."""
    counts = (circuit.n_inputs, circuit.n_outputs, circuit.n_witness, circuit.n_field)
    rows = (len(circuit.ops), len(circuit.constraints), len(circuit.field_constraints))
    out = bytearray(_HEADER.pack(MAGIC, circuit.curve, *counts, *rows))
    for op in circuit.ops:
        _encode_op(op, out)
    for row in circuit.constraints:
        for part in (row.a, row.b, row.c):
            _encode_lc(part, out)
    for field_row in circuit.field_constraints:
        for side in (field_row.a, field_row.b, field_row.c):
            _encode_field_lc(side, out)
    data = bytes(out)
    decode(data)
    return data


def _error(code: str, found: str, expected: str) -> CircuitError:
    return CircuitError(code, found=found, expected=expected)


def _encode_count(count: int, out: bytearray) -> None:
    if count > plain.LC_TERMS_MAX:
        raise _error("circuit-limit", f"{count} terms", f"at most {plain.LC_TERMS_MAX} in one linear combination")
    out += struct.pack(">H", count)


def _encode_lc(lc: LinearCombination, out: bytearray) -> None:
    _encode_count(len(lc.terms), out)
    for wire, coefficient in lc.terms:
        if not plain.COEFFICIENT_MIN <= coefficient <= plain.COEFFICIENT_MAX:
            raise _error("circuit-limit", f"coefficient {coefficient}", "a 64-bit integer")
        out += _TERM.pack(wire, coefficient)


def _encode_field_lc(lc: FieldCombination, out: bytearray) -> None:
    _encode_count(len(lc.terms), out)
    for wire, coefficient in lc.terms:
        out += _FIELD_TERM.pack(wire, coefficient.to_bytes(COEFFICIENT_BYTES, "big"))


def _encode_op(op: Op, out: bytearray) -> None:
    match op:
        case BitsOp(value, k, first):
            out.append(_OP_BITS)
            _encode_lc(value, out)
            out += struct.pack(">BI", k, first)
        case MulOp(a, b, shift, wire):
            out.append(_OP_MUL)
            _encode_lc(a, out)
            _encode_lc(b, out)
            out += struct.pack(">BI", shift, wire)
        case OutOp(value, index):
            out.append(_OP_OUT)
            _encode_lc(value, out)
            out += struct.pack(">I", index)
        case FieldMulOp(left, right, wire):
            out.append(_OP_FIELD_MUL)
            _encode_field_lc(left, out)
            _encode_field_lc(right, out)
            out += struct.pack(">I", wire)
        case CommitOp(element):
            out.append(_OP_COMMIT)
            _encode_field_lc(element, out)


def decode(data: bytes) -> SealedCircuit:
    """Strict decoding: every byte string gives a circuit or one :class:`CircuitError`.

    Counts are checked against the limits and against the bytes present before anything is allocated.
    """
    return _Decoder(data).run()


class _Decoder:
    def __init__(self, data: bytes) -> None:
        if len(data) > plain.FILE_BYTES_MAX:
            raise _error("circuit-limit", f"{len(data)} bytes", f"at most {plain.FILE_BYTES_MAX}")
        if len(data) < _HEADER.size:
            raise _error("circuit-format", f"{len(data)} bytes", f"a header of {_HEADER.size} bytes")
        magic, curve, *counts = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise _error("circuit-format", f"magic {magic!r}", repr(MAGIC))
        if curve not in (Curve.BN254, Curve.BLS12_381):
            raise _error("circuit-format", f"curve {curve}", "1 (BN254) or 2 (BLS12-381)")
        inputs, outputs, witness, field, n_ops, n_rows, n_field_rows = counts
        for what, found, least, most in (
            ("inputs", inputs, 1, plain.SIGNALS_MAX),
            ("outputs", outputs, 1, plain.SIGNALS_MAX),
            ("integer wires", witness, 0, plain.WIRES_MAX),
            ("field wires", field, 1, plain.WIRES_MAX),
            ("wires", 3 + inputs + outputs + witness + field, 1, plain.WIRES_MAX),
            ("operations", n_ops, 1, plain.OPS_MAX),
            ("integer constraints", n_rows, 1, plain.CONSTRAINTS_MAX),
            ("field constraints", n_field_rows, 1, plain.CONSTRAINTS_MAX - n_rows),
        ):
            if not least <= found <= most:
                raise _error("circuit-limit", f"{found} {what}", f"{least} to {most}")
        left = len(data) - _HEADER.size
        need = n_ops * _OP_BYTES_MIN + (n_rows + n_field_rows) * _CONSTRAINT_BYTES_MIN
        if need > left:
            raise _error("circuit-format", f"{left} bytes after the header", f"at least {need}")
        self.data, self.at, self.terms = data, _HEADER.size, 0
        self.counts = (n_ops, n_rows, n_field_rows)
        self.shape = SealedCircuit(Curve(curve), inputs, outputs, witness, field, (), (), ())
        self.modulus = self.shape.modulus
        self.defined = bytearray(self.shape.n_wires)
        self.defined[0] = self.defined[self.shape.salt_wire] = 1
        self.defined[self.shape.first_input : self.shape.first_witness] = b"\x01" * inputs

    def run(self) -> SealedCircuit:
        shape, (n_ops, n_rows, n_field_rows) = self.shape, self.counts
        ops = tuple([self._op() for _ in range(n_ops)])
        self.defined[shape.ctx_wire] = 1
        missing = self.defined.find(0)
        if missing >= 0:
            raise _error("circuit-program", f"no operation writes wire {missing}", "every wire written once")
        rows = tuple([Constraint(self._lc(), self._lc(), self._lc()) for _ in range(n_rows)])
        field_rows = tuple(
            [FieldConstraint(self._field_lc(), self._field_lc(), self._field_lc()) for _ in range(n_field_rows)]
        )
        if self.at != len(self.data):
            raise _error("circuit-format", f"{len(self.data) - self.at} trailing bytes", "none")
        return SealedCircuit(
            shape.curve, shape.n_inputs, shape.n_outputs, shape.n_witness, shape.n_field, ops, rows, field_rows
        )

    def _unpack(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        if size > len(self.data) - self.at:
            raise _error("circuit-format", "a truncated file", f"{size} more bytes at byte {self.at}")
        out: tuple[int, ...] = struct.unpack_from(layout, self.data, self.at)
        self.at += size
        return out

    def _take_terms(self, layout: struct.Struct) -> bytes:
        (n,) = self._unpack(">H")
        self.terms += n
        if self.terms > plain.TERMS_MAX:
            raise _error("circuit-limit", f"over {plain.TERMS_MAX} terms", f"at most {plain.TERMS_MAX}")
        end = self.at + n * layout.size
        if end > len(self.data):
            raise _error("circuit-format", "a truncated linear combination", f"{n} terms at byte {self.at}")
        taken, self.at = self.data[self.at : end], end
        return taken

    def _check_wires(self, terms: tuple[tuple[int, int], ...]) -> None:
        last = -1
        for wire, coefficient in terms:
            if wire <= last:
                raise _error("circuit-format", f"wire {wire} after {last}", "strictly ascending wires")
            if coefficient == 0:
                raise _error("circuit-format", "a zero coefficient", "non-zero coefficients")
            last = wire
        if last >= self.shape.n_wires:
            raise _error("circuit-format", f"wire {last}", f"below {self.shape.n_wires}")

    def _lc(self) -> LinearCombination:
        terms = tuple(_TERM.iter_unpack(self._take_terms(_TERM)))
        self._check_wires(terms)
        for wire, _ in terms:
            if wire == COMMITMENT_WIRE or wire >= self.shape.salt_wire:
                raise _error("circuit-format", f"field wire {wire} among integers", "an integer wire")
        return LinearCombination(terms)

    def _field_lc(self) -> FieldCombination:
        raw = _FIELD_TERM.iter_unpack(self._take_terms(_FIELD_TERM))
        terms = tuple((wire, int.from_bytes(coefficient, "big")) for wire, coefficient in raw)
        self._check_wires(terms)
        if any(coefficient >= self.modulus for _, coefficient in terms):
            raise _error("circuit-format", "a coefficient not below r", "coefficients in [1, r)")
        return FieldCombination(terms)

    def _require_defined(self, terms: tuple[tuple[int, int], ...]) -> None:
        for wire, _ in terms:
            if not self.defined[wire]:
                raise _error("circuit-program", f"wire {wire} read before it has a value", "a defined wire")

    def _program_lc(self) -> LinearCombination:
        lc = self._lc()
        self._require_defined(lc.terms)
        return lc

    def _program_field_lc(self) -> FieldCombination:
        lc = self._field_lc()
        self._require_defined(lc.terms)
        return lc

    def _define(self, wire: int) -> None:
        if self.defined[wire]:
            raise _error("circuit-program", f"wire {wire} written twice", "every wire written once")
        self.defined[wire] = 1

    def _define_between(self, wire: int, first: int, end: int, what: str) -> None:
        if not first <= wire < end:
            raise _error("circuit-program", f"wire {wire} written", what)
        self._define(wire)

    def _define_integer(self, wire: int) -> None:
        self._define_between(wire, self.shape.first_witness, self.shape.salt_wire, "a private integer wire")

    def _op(self) -> Op:
        (tag,) = self._unpack(">B")
        if tag == _OP_BITS:
            value = self._program_lc()
            k, first = self._unpack(">BI")
            if not 1 <= k <= plain.BITS_MAX:
                raise _error("circuit-format", f"{k} bits", f"1 to {plain.BITS_MAX}")
            for i in range(k):
                self._define_integer(first + i)
            return BitsOp(value, k, first)
        if tag == _OP_MUL:
            a, b = self._program_lc(), self._program_lc()
            shift, wire = self._unpack(">BI")
            if shift > plain.SHIFT_MAX:
                raise _error("circuit-format", f"shift {shift}", f"at most {plain.SHIFT_MAX}")
            self._define_integer(wire)
            return MulOp(a, b, shift, wire)
        if tag == _OP_OUT:
            value = self._program_lc()
            (index,) = self._unpack(">I")
            if index >= self.shape.n_outputs:
                raise _error("circuit-format", f"output {index}", f"below {self.shape.n_outputs}")
            self._define(self.shape.first_output + index)
            return OutOp(value, index)
        if tag == _OP_FIELD_MUL:
            left, right = self._program_field_lc(), self._program_field_lc()
            (wire,) = self._unpack(">I")
            self._define_between(wire, self.shape.salt_wire, self.shape.n_wires, "a field wire behind the salt")
            return FieldMulOp(left, right, wire)
        if tag == _OP_COMMIT:
            element = self._program_field_lc()
            self._define(COMMITMENT_WIRE)
            return CommitOp(element)
        raise _error("circuit-format", f"operation {tag:#04x}", "0x01 to 0x05")
