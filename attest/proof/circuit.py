"""The circuit file ``SITSR1C1``: values, canonical encoding, strict decoding.

Layout in docs/interfaces.md ("Circuit file"). A decoded circuit is complete: its program writes every output and
every private wire exactly once and reads only wires that already have a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

from attest.proof import bls12_381, bn254
from attest.proof.errors import CircuitError
from attest.proof.points import PairingCurve

MAGIC: Final = b"SITSR1C1"
FILE_BYTES_MAX: Final = 64 << 20
"""The whole file is kept in memory and hashed; ten times the largest network measured."""
SIGNALS_MAX: Final = 1024
"""Inputs, and outputs; a command with more would not fit one Ethernet frame."""
WIRES_MAX: Final = 1 << 20
CONSTRAINTS_MAX: Final = 1 << 20
OPS_MAX: Final = WIRES_MAX
"""Every operation writes a wire, so a program with more could never be complete."""
TERMS_MAX: Final = 1 << 24
LC_TERMS_MAX: Final = (1 << 16) - 1
"""The count of one linear combination is a u16."""
BITS_MAX: Final = 63
SHIFT_MAX: Final = 126
"""Shifts act on 128-bit values."""
COEFFICIENT_MIN: Final = -(1 << 63)
COEFFICIENT_MAX: Final = (1 << 63) - 1

_HEADER: Final = struct.Struct(">8sBIIIII")
_TERM: Final = struct.Struct(">Iq")
_OP_BITS, _OP_MUL, _OP_OUT = 1, 2, 3
_OP_BYTES_MIN: Final = 7
_CONSTRAINT_BYTES_MIN: Final = 6

CurveName = Literal["bn254", "bls12-381"]


class Curve(IntEnum):
    """Curve byte of circuit and key files."""

    BN254 = 1
    BLS12_381 = 2

    @property
    def text(self) -> CurveName:
        """The name in configuration and on the command line."""
        return "bn254" if self is Curve.BN254 else "bls12-381"

    @property
    def parameters(self) -> PairingCurve:
        """Moduli, generators and encodings."""
        return bn254.CURVE if self is Curve.BN254 else bls12_381.CURVE

    @classmethod
    def named(cls, text: str) -> Curve:
        """The curve of a ``text``; raises :class:`CircuitError` (``curve-unknown``)."""
        for curve in cls:
            if curve.text == text:
                return curve
        raise CircuitError("curve-unknown", found=repr(text)[:40], expected=" or ".join(curve.text for curve in cls))


@dataclass(frozen=True, slots=True)
class LinearCombination:
    """Σ coefficient · wire, ``terms`` sorted by wire, coefficients non-zero 64-bit integers; immutable."""

    terms: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> LinearCombination:
        """From (wire, coefficient) pairs in any order; equal wires add up, zeros disappear."""
        sums: dict[int, int] = {}
        for wire, coefficient in pairs:
            sums[wire] = sums.get(wire, 0) + coefficient
        return cls(tuple((wire, sums[wire]) for wire in sorted(sums) if sums[wire]))

    @classmethod
    def constant(cls, value: int) -> LinearCombination:
        return cls(((0, value),) if value else ())

    @classmethod
    def weighted(cls, parts: Iterable[tuple[int, LinearCombination]]) -> LinearCombination:
        """Σ weight · combination in one pass (a dense layer's row)."""
        return cls.of((wire, weight * c) for weight, part in parts for wire, c in part.terms)

    @property
    def constant_value(self) -> int | None:
        """The value if no wire but the constant occurs."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == 0 else None

    def __add__(self, other: LinearCombination | int) -> LinearCombination:
        return LinearCombination.of((*self.terms, *_lift(other).terms))

    __radd__ = __add__

    def __neg__(self) -> LinearCombination:
        return LinearCombination(tuple((wire, -c) for wire, c in self.terms))

    def __sub__(self, other: LinearCombination | int) -> LinearCombination:
        return self + (-_lift(other))

    def __rsub__(self, other: LinearCombination | int) -> LinearCombination:
        return _lift(other) - self

    def __mul__(self, factor: int) -> LinearCombination:
        return LinearCombination(tuple((wire, c * factor) for wire, c in self.terms) if factor else ())

    __rmul__ = __mul__


def _lift(value: LinearCombination | int) -> LinearCombination:
    return LinearCombination.constant(value) if isinstance(value, int) else value


@dataclass(frozen=True, slots=True)
class BitsOp:
    """Bits 0..k-1 of ``value`` to wires ``first``..``first + k - 1``; needs 0 <= value < 2^(k+1)."""

    value: LinearCombination
    k: int
    first: int


@dataclass(frozen=True, slots=True)
class MulOp:
    """``wire`` = (a·b) >> shift with zero remainder."""

    a: LinearCombination
    b: LinearCombination
    shift: int
    wire: int


@dataclass(frozen=True, slots=True)
class OutOp:
    """Output ``index`` = ``value``."""

    value: LinearCombination
    index: int


Op = BitsOp | MulOp | OutOp


@dataclass(frozen=True, slots=True)
class Constraint:
    """a·b = c over the field."""

    a: LinearCombination
    b: LinearCombination
    c: LinearCombination


@dataclass(frozen=True, slots=True)
class Circuit:
    """A complete circuit; wires are 1, inputs, outputs, ctx, private wires in this order."""

    curve: Curve
    n_inputs: int
    n_outputs: int
    n_witness: int
    ops: tuple[Op, ...]
    constraints: tuple[Constraint, ...]

    @property
    def n_wires(self) -> int:
        return 2 + self.n_inputs + self.n_outputs + self.n_witness

    @property
    def ctx_wire(self) -> int:
        return 1 + self.n_inputs + self.n_outputs

    def encode(self) -> bytes:
        """Canonical bytes. Raises :class:`CircuitError` if the circuit breaks a rule of the format."""
        out = bytearray(
            _HEADER.pack(
                MAGIC,
                self.curve,
                self.n_inputs,
                self.n_outputs,
                self.n_witness,
                len(self.ops),
                len(self.constraints),
            )
        )
        for op in self.ops:
            _encode_op(op, out)
        for row in self.constraints:
            for part in (row.a, row.b, row.c):
                _encode_lc(part, out)
        data = bytes(out)
        decode(data)
        return data


def _error(code: str, found: str, expected: str) -> CircuitError:
    return CircuitError(code, found=found, expected=expected)


def _encode_lc(lc: LinearCombination, out: bytearray) -> None:
    if len(lc.terms) > LC_TERMS_MAX:
        raise _error("circuit-limit", f"{len(lc.terms)} terms", f"at most {LC_TERMS_MAX} in one linear combination")
    out += struct.pack(">H", len(lc.terms))
    for wire, coefficient in lc.terms:
        if not COEFFICIENT_MIN <= coefficient <= COEFFICIENT_MAX:
            raise _error("circuit-limit", f"coefficient {coefficient}", "a 64-bit integer")
        out += _TERM.pack(wire, coefficient)


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


def curve_of(data: bytes) -> Curve:
    """The curve a circuit file names, without decoding the rest; raises :class:`CircuitError` (``circuit-format``)."""
    if data[: len(MAGIC)] != MAGIC or data[len(MAGIC) : len(MAGIC) + 1] not in (b"\x01", b"\x02"):
        raise _error("circuit-format", f"a file that starts with {data[:9]!r}", f"{MAGIC!r} and a curve byte")
    return Curve(data[len(MAGIC)])


def on_curve(data: bytes, curve: Curve) -> bytes:
    """The same circuit file on another curve: rows are integers far below either r, so only the curve byte differs.

    Raises :class:`CircuitError` (``circuit-format``).
    """
    curve_of(data)
    return data[: len(MAGIC)] + bytes([curve]) + data[len(MAGIC) + 1 :]


def decode(data: bytes) -> Circuit:
    """Strict decoding: every byte string gives a circuit or one :class:`CircuitError`.

    Counts are checked against the limits and against the bytes present before anything is allocated.
    """
    return _Decoder(data).run()


class _Decoder:
    def __init__(self, data: bytes) -> None:
        if len(data) > FILE_BYTES_MAX:
            raise _error("circuit-limit", f"{len(data)} bytes", f"at most {FILE_BYTES_MAX}")
        if len(data) < _HEADER.size:
            raise _error("circuit-format", f"{len(data)} bytes", f"a header of {_HEADER.size} bytes")
        magic, curve, inputs, outputs, witness, n_ops, n_constraints = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise _error("circuit-format", f"magic {magic!r}", repr(MAGIC))
        if curve not in (Curve.BN254, Curve.BLS12_381):
            raise _error("circuit-format", f"curve {curve}", "1 (BN254) or 2 (BLS12-381)")
        for what, found, least, most in (
            ("inputs", inputs, 1, SIGNALS_MAX),
            ("outputs", outputs, 1, SIGNALS_MAX),
            ("private wires", witness, 0, WIRES_MAX - 2 - inputs - outputs),
            ("operations", n_ops, 1, OPS_MAX),
            ("constraints", n_constraints, 1, CONSTRAINTS_MAX),
        ):
            if not least <= found <= most:
                raise _error("circuit-limit", f"{found} {what}", f"{least} to {most}")
        left = len(data) - _HEADER.size
        need = n_ops * _OP_BYTES_MIN + n_constraints * _CONSTRAINT_BYTES_MIN
        if need > left:
            raise _error("circuit-format", f"{left} bytes after the header", f"at least {need}")
        self.data, self.at, self.terms = data, _HEADER.size, 0
        self.curve, self.n_inputs, self.n_outputs, self.n_witness = Curve(curve), inputs, outputs, witness
        self.n_ops, self.n_constraints = n_ops, n_constraints
        self.n_wires = 2 + inputs + outputs + witness
        self.defined = bytearray(self.n_wires)
        self.defined[: inputs + 1] = b"\x01" * (inputs + 1)

    def run(self) -> Circuit:
        ops = tuple([self._op() for _ in range(self.n_ops)])
        ctx = 1 + self.n_inputs + self.n_outputs
        self.defined[ctx] = 1
        missing = self.defined.find(0)
        if missing >= 0:
            raise _error("circuit-program", f"no operation writes wire {missing}", "every wire written once")
        rows = tuple([Constraint(self._lc(), self._lc(), self._lc()) for _ in range(self.n_constraints)])
        if self.at != len(self.data):
            raise _error("circuit-format", f"{len(self.data) - self.at} trailing bytes", "none")
        return Circuit(self.curve, self.n_inputs, self.n_outputs, self.n_witness, ops, rows)

    def _unpack(self, layout: str) -> tuple[int, ...]:
        size = struct.calcsize(layout)
        if size > len(self.data) - self.at:
            raise _error("circuit-format", "a truncated file", f"{size} more bytes at byte {self.at}")
        out: tuple[int, ...] = struct.unpack_from(layout, self.data, self.at)
        self.at += size
        return out

    def _lc(self) -> LinearCombination:
        (n,) = self._unpack(">H")
        self.terms += n
        if self.terms > TERMS_MAX:
            raise _error("circuit-limit", f"over {TERMS_MAX} terms", f"at most {TERMS_MAX}")
        end = self.at + n * _TERM.size
        if end > len(self.data):
            raise _error("circuit-format", "a truncated linear combination", f"{n} terms at byte {self.at}")
        terms = tuple(_TERM.iter_unpack(self.data[self.at : end]))
        self.at = end
        last = -1
        for wire, coefficient in terms:
            if wire <= last:
                raise _error("circuit-format", f"wire {wire} after {last}", "strictly ascending wires")
            if coefficient == 0:
                raise _error("circuit-format", "a zero coefficient", "non-zero coefficients")
            last = wire
        if last >= self.n_wires:
            raise _error("circuit-format", f"wire {last}", f"below {self.n_wires}")
        return LinearCombination(terms)

    def _program_lc(self) -> LinearCombination:
        lc = self._lc()
        for wire, _ in lc.terms:
            if not self.defined[wire]:
                raise _error("circuit-program", f"wire {wire} read before it has a value", "a defined wire")
        return lc

    def _define(self, wire: int) -> None:
        if self.defined[wire]:
            raise _error("circuit-program", f"wire {wire} written twice", "every wire written once")
        self.defined[wire] = 1

    def _define_private(self, wire: int) -> None:
        if not self.n_wires - self.n_witness <= wire < self.n_wires:
            raise _error("circuit-program", f"wire {wire} written", "a private wire")
        self._define(wire)

    def _op(self) -> Op:
        (tag,) = self._unpack(">B")
        if tag == _OP_BITS:
            value = self._program_lc()
            k, first = self._unpack(">BI")
            if not 1 <= k <= BITS_MAX:
                raise _error("circuit-format", f"{k} bits", f"1 to {BITS_MAX}")
            for i in range(k):
                self._define_private(first + i)
            return BitsOp(value, k, first)
        if tag == _OP_MUL:
            a, b = self._program_lc(), self._program_lc()
            shift, wire = self._unpack(">BI")
            if shift > SHIFT_MAX:
                raise _error("circuit-format", f"shift {shift}", f"at most {SHIFT_MAX}")
            self._define_private(wire)
            return MulOp(a, b, shift, wire)
        if tag == _OP_OUT:
            value = self._program_lc()
            (index,) = self._unpack(">I")
            if index >= self.n_outputs:
                raise _error("circuit-format", f"output {index}", f"below {self.n_outputs}")
            self._define(1 + self.n_inputs + index)
            return OutOp(value, index)
        raise _error("circuit-format", f"operation {tag:#04x}", "0x01, 0x02 or 0x03")
