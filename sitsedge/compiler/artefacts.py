"""The artefacts of one integer graph, and the graph itself: all must agree on every input in the box."""

from __future__ import annotations

from dataclasses import dataclass

from attest.proof.circuit import Curve
from sitsedge.compiler.backends.circuit.emit import emit_circuit
from sitsedge.compiler.backends.onnx import emit_onnx
from sitsedge.compiler.backends.wasm import emit_variants
from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.wasm_check import require_integer_only


@dataclass(frozen=True, slots=True, eq=False)
class Artefacts:
    """Files' bytes; ``wasm_relaxed`` equals ``wasm`` where nothing can use relaxed SIMD.

    ``relaxed_nodes`` are the layers that ``wasm_relaxed`` computes with it; ``rows`` are the circuit's constraints of
    each node by name, ``fixed`` those of its signals.
    """

    wasm: bytes
    wasm_relaxed: bytes
    integer_onnx: bytes
    circuit: bytes
    relaxed_nodes: tuple[str, ...]
    rows: dict[str, int]
    fixed: int

    @property
    def constraints(self) -> int:
        """Constraints of the whole circuit."""
        return self.fixed + sum(self.rows.values())


def emit(graph: IntegerGraph, name: str, *, curve: Curve) -> Artefacts:
    """Every artefact of ``graph``, the same bytes for the same graph.

    Raises ``attest.proof.errors.CircuitError`` where the circuit exceeds its format's limits.
    """
    wasm = emit_variants(graph)
    for module in (wasm.plain, wasm.relaxed):
        require_integer_only(module)
    circuit = emit_circuit(graph, curve=curve)
    return Artefacts(
        wasm=wasm.plain,
        wasm_relaxed=wasm.relaxed,
        integer_onnx=emit_onnx(graph, name),
        circuit=circuit.data,
        relaxed_nodes=wasm.relaxed_nodes,
        rows=circuit.rows,
        fixed=circuit.fixed,
    )
