"""Circuits and witnesses in the files that circom's tools read: ``.r1cs``, ``.wtns`` and ``.sym``.

Formats as published by iden3 (r1cs binary format, version 1; wtns, version 2): sections of type, size and data,
numbers little-endian, field elements in 32 bytes. The wires keep their numbers and order. Every public signal is
declared a public input, because circom would put outputs before inputs; the statement is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from attest.proof.circuit import Circuit, LinearCombination
from attest.proof.signals import require_canonical, require_count

FIELD_BYTES: Final = 32
"""Both scalar fields have at most 255 bits."""

_R1CS_VERSION: Final = 1
_WTNS_VERSION: Final = 2
_HEADER, _CONSTRAINTS, _LABELS = 1, 2, 3
_WTNS_HEADER, _WTNS_VALUES = 1, 2


def write_r1cs(circuit: Circuit) -> bytes:
    """The ``.r1cs`` file: n_inputs + n_outputs + 1 public inputs in the order of docs/interfaces.md."""
    r = circuit.curve.parameters.r
    n_public = circuit.n_inputs + circuit.n_outputs + 1
    header = struct.pack("<I", FIELD_BYTES) + r.to_bytes(FIELD_BYTES, "little")
    counts = (circuit.n_wires, 0, n_public, 0, circuit.n_wires, len(circuit.constraints))
    header += struct.pack("<IIIIQI", *counts)
    rows = bytearray()
    for row in circuit.constraints:
        for lc in (row.a, row.b, row.c):
            _write_lc(lc, r, rows)
    labels = struct.pack(f"<{circuit.n_wires}Q", *range(circuit.n_wires))
    return _file(b"r1cs", _R1CS_VERSION, [(_HEADER, header), (_CONSTRAINTS, bytes(rows)), (_LABELS, labels)])


def write_wtns(circuit: Circuit, wires: Sequence[int]) -> bytes:
    """The ``.wtns`` file of all wires as field elements in [0, r).

    Raises :class:`~attest.proof.errors.ProofRefused` (``signal-count``, ``signal-range``).
    """
    require_count(len(wires), circuit.n_wires)
    require_canonical(wires, curve=circuit.curve)
    r = circuit.curve.parameters.r
    header = struct.pack("<I", FIELD_BYTES) + r.to_bytes(FIELD_BYTES, "little") + struct.pack("<I", len(wires))
    values = b"".join(wire.to_bytes(FIELD_BYTES, "little") for wire in wires)
    return _file(b"wtns", _WTNS_VERSION, [(_WTNS_HEADER, header), (_WTNS_VALUES, values)])


def write_sym(circuit: Circuit) -> str:
    """The ``.sym`` file: one line ``label,wire,component,name`` for each wire but the constant."""
    names = [f"x[{i}]" for i in range(circuit.n_inputs)] + [f"y[{i}]" for i in range(circuit.n_outputs)]
    names += ["ctx", *(f"w[{i}]" for i in range(circuit.n_witness))]
    return "".join(f"{wire},{wire},0,main.{name}\n" for wire, name in enumerate(names, 1))


def _write_lc(lc: LinearCombination, r: int, out: bytearray) -> None:
    out += struct.pack("<I", len(lc.terms))
    for wire, coefficient in lc.terms:
        out += struct.pack("<I", wire) + (coefficient % r).to_bytes(FIELD_BYTES, "little")


def _file(magic: bytes, version: int, sections: Sequence[tuple[int, bytes]]) -> bytes:
    out = bytearray(magic + struct.pack("<II", version, len(sections)))
    for kind, data in sections:
        out += struct.pack("<IQ", kind, len(data)) + data
    return bytes(out)
