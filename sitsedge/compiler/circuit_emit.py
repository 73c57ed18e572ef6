"""Integer model → R1CS circuit file (docs/interfaces.md, ``application/vnd.sits.circuit``).

Public signals are the inputs, the outputs and the context; weights are constants. The statement is
y = M(x) for every x inside the model's box; outside it the verifier refuses x in the clear. With x in the box
every linear combination below stays far under the field's size, so equality in the field is equality of
integers, and the private wires are fully determined by x:

* ``shift``: w = v - base·2^s as K boolean wires, Σ 2^i b_i = w. The quotient is the bits from s upwards.
* ``relu``: w = v - base·2^s, k boolean wires for the low bits of w + 2^k; the top bit T = w + 2^k - Σ 2^i b_i
  stays a linear expression with T·(2^k - T) = 0. T = 2^k exactly when w ≥ 0, and then the low bits are w itself,
  so T·q = 2^k·r gives r = max(w, 0) >> s.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from sitsedge.compiler.circuit_plan import NeuronPlan, plan_layer
from sitsedge.compiler.errors import CompileError
from sitsedge.compiler.intervals import model_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel

MAGIC = b"SITSR1C1"
CURVE_BN254 = 1
WIRES_MAX = 1 << 20
CONSTRAINTS_MAX = 1 << 20
TERMS_MAX = 1 << 24
FILE_BYTES_MAX = 64 << 20
"""Limits of the circuit file format."""

Lc = dict[int, int]
"""Wire → coefficient, never zero; wire 0 is the constant 1."""


def combine(*parts: tuple[int, Mapping[int, int]]) -> Lc:
    """Σ factor · part."""
    total: Lc = {}
    for factor, part in parts:
        for wire, coefficient in part.items():
            total[wire] = total.get(wire, 0) + factor * coefficient
    return {wire: coefficient for wire, coefficient in total.items() if coefficient}


def constant(value: int) -> Lc:
    """A constant as a linear combination."""
    return {0: value} if value else {}


ONE = constant(1)
ZERO = constant(0)


class CircuitWriter:
    """Collects operations and constraints in the file's own encoding."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        self.n_inputs, self.n_outputs = n_inputs, n_outputs
        self.context_wire = 1 + n_inputs + n_outputs
        self.n_wires = self.context_wire + 1
        self.n_constraints = 0
        self._n_ops = 0
        self._terms = 0
        self._ops = bytearray()
        self._rows = bytearray()

    def _lc(self, lc: Mapping[int, int]) -> bytes:
        self._terms += len(lc)
        return struct.pack(">H", len(lc)) + b"".join(struct.pack(">Iq", wire, lc[wire]) for wire in sorted(lc))

    def bits(self, value: Lc, count: int) -> list[Lc]:
        """``count`` new boolean wires with the low bits of ``value``; their rows are added."""
        first = self.n_wires
        self.n_wires += count
        self._ops += b"\x01" + self._lc(value) + struct.pack(">BI", count, first)
        self._n_ops += 1
        wires: list[Lc] = [{first + i: 1} for i in range(count)]
        for wire in wires:
            self.row(wire, combine((1, wire), (-1, ONE)), ZERO)
        return wires

    def product(self, a: Lc, b: Lc, shift: int) -> Lc:
        """A new wire r = a·b / 2^shift with the row a·b = 2^shift·r."""
        wire = self.n_wires
        self.n_wires += 1
        self._ops += b"\x02" + self._lc(a) + self._lc(b) + struct.pack(">BI", shift, wire)
        self._n_ops += 1
        self.row(a, b, {wire: 1 << shift})
        return {wire: 1}

    def output(self, value: Lc, index: int) -> None:
        """y_index = value, with its row."""
        self._ops += b"\x03" + self._lc(value) + struct.pack(">I", index)
        self._n_ops += 1
        self.row(value, ONE, {1 + self.n_inputs + index: 1})

    def row(self, a: Lc, b: Lc, c: Lc) -> None:
        """a·b = c."""
        self._rows += self._lc(a) + self._lc(b) + self._lc(c)
        self.n_constraints += 1

    def finish(self) -> bytes:
        """The file; raises ``CompileError`` (``circuit-size``) beyond the format's limits."""
        n_witness = self.n_wires - self.context_wire - 1
        header = struct.pack(
            ">BIIIII",
            CURVE_BN254,
            self.n_inputs,
            self.n_outputs,
            n_witness,
            self._n_ops,
            self.n_constraints,
        )
        data = MAGIC + header + bytes(self._ops) + bytes(self._rows)
        for name, value, most in (
            ("wires", self.n_wires, WIRES_MAX),
            ("constraints", self.n_constraints, CONSTRAINTS_MAX),
            ("terms", self._terms, TERMS_MAX),
            ("bytes", len(data), FILE_BYTES_MAX),
        ):
            if value > most:
                raise CompileError(
                    "circuit-size",
                    found=f"{value} {name}",
                    expected=f"at most {most}",
                    hint="train a smaller network or use coarser input scales",
                )
        return data


def emit_circuit(model: IntegerModel) -> bytes:
    """The circuit file; the same model always gives the same bytes."""
    writer = CircuitWriter(model.n_inputs, model.n_outputs)
    current: list[Lc] = [{1 + j: 1} for j in range(model.n_inputs)]
    for wire in (*range(1, 1 + model.n_inputs), writer.context_wire):
        writer.row({wire: 1}, ZERO, ZERO)
    for layer, bounds in zip(model.layers, model_bounds(model), strict=True):
        plans = plan_layer(layer, bounds)
        current = [_neuron(writer, layer, i, plan, current) for i, plan in enumerate(plans)]
    for index, value in enumerate(current):
        writer.output(value, index)
    return writer.finish()


def _neuron(writer: CircuitWriter, layer: IntegerLayer, i: int, plan: NeuronPlan, inputs: list[Lc]) -> Lc:
    """The activation of neuron i as a linear combination."""
    if plan.kind == "constant":
        return constant(plan.base)
    shift = int(layer.shift[i])
    weights = layer.columns()[i]
    acc = combine(
        (int(layer.bias[i] + layer.rounding[i]), ONE),
        *((int(weights[j]), lc) for j, lc in enumerate(inputs)),
    )
    if plan.kind == "linear":
        value = acc
    elif plan.kind == "shift":
        from_base = combine((1, acc), (-(plan.base << shift), ONE))
        bits = writer.bits(from_base, plan.bits)
        writer.row(combine((1, from_base), *((-(1 << n), bit) for n, bit in enumerate(bits))), ONE, ZERO)
        high = ((1 << (n - shift), bit) for n, bit in enumerate(bits) if n >= shift)
        value = combine((plan.base, ONE), *high)
    else:
        from_base = combine((1, acc), (-(plan.base << shift), ONE))
        value = combine((plan.base, ONE), (1, _relu(writer, from_base, plan.bits, shift)))
    if plan.excess_bits:
        high_bound = int(layer.high[i])
        excess = _relu(writer, combine((1, value), (-high_bound, ONE)), plan.excess_bits, 0)
        value = combine((1, value), (-1, excess))
    return value


def _relu(writer: CircuitWriter, value: Lc, k: int, shift: int) -> Lc:
    """max(value, 0) >> shift for -2^k ≤ value < 2^k."""
    raised = combine((1, value), (1 << k, ONE))
    bits = writer.bits(raised, k)
    top = combine((1, raised), *((-(1 << n), bit) for n, bit in enumerate(bits)))
    writer.row(top, combine((1 << k, ONE), (-1, top)), ZERO)
    quotient = combine(*((1 << (n - shift), bit) for n, bit in enumerate(bits) if n >= shift))
    return writer.product(top, quotient, k)
