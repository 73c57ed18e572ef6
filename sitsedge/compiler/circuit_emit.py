"""Integer model → R1CS circuit file (docs/interfaces.md, ``application/vnd.sits.circuit``).

Public signals are the inputs, the outputs and the context; weights are constants. The statement is
y = M(x) for every x inside the model's box; outside it the verifier refuses x in the clear. With x in the box
every linear combination below stays far under the field's size, so equality in the field is equality of
integers, and the private wires are fully determined by x. Every neuron is ``backends.circuit.requantise``'s.
"""

from __future__ import annotations

from attest.proof.builder import CircuitBuilder
from attest.proof.circuit import Curve, LinearCombination
from sitsedge.compiler.backends.circuit.requantise import ONE, requantised
from sitsedge.compiler.circuit_plan import roundings
from sitsedge.compiler.intervals import LayerBounds, model_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel


def emit_circuit(model: IntegerModel, *, curve: Curve = Curve.BN254) -> bytes:
    """The circuit file; the same model always gives the same bytes, and the same rows on both curves.

    Raises ``attest.proof.errors.CircuitError`` where the model exceeds the format's limits.
    """
    builder = CircuitBuilder(n_inputs=model.n_inputs, n_outputs=model.n_outputs, curve=curve)
    current = list(builder.inputs())
    for layer, bounds in zip(model.layers, model_bounds(model), strict=True):
        current = _layer(builder, layer, bounds, current)
    for index, value in enumerate(current):
        builder.add_out(index, value)
    return builder.finish().encode()


def _layer(
    builder: CircuitBuilder, layer: IntegerLayer, bounds: LayerBounds, inputs: list[LinearCombination]
) -> list[LinearCombination]:
    """The layer's activations as linear combinations."""
    return [
        requantised(
            builder,
            [(int(bias), ONE), *((int(w), x) for w, x in zip(weights, inputs, strict=True))],
            rounding,
        )
        for bias, weights, rounding in zip(layer.bias, layer.columns(), roundings(layer, bounds), strict=True)
    ]
