"""What one neuron of a chain costs in the circuit, from its bounds; ``backends.circuit.requantise`` plans it."""

from __future__ import annotations

from attest.proof.builder import Interval
from sitsedge.compiler.backends.circuit.requantise import NeuronPlan, Rounding
from sitsedge.compiler.intervals import LayerBounds, model_bounds
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN, IntegerLayer, IntegerModel

CONTEXT_ROWS = 1
"""One row ``ctx · 0 = 0`` keeps the context bound."""


def roundings(layer: IntegerLayer, bounds: LayerBounds) -> tuple[Rounding, ...]:
    """Range, shift and bounds of every neuron of one layer."""
    clamped = layer.activation != "none"
    return tuple(
        Rounding(
            Interval(int(bounds.acc_low[i]), int(bounds.acc_high[i])),
            int(layer.shift[i]),
            int(layer.low[i]) if clamped else INT32_MIN,
            int(layer.high[i]) if clamped else INT32_MAX,
        )
        for i in range(layer.weights.shape[0])
    )


def plan_layer(layer: IntegerLayer, bounds: LayerBounds) -> tuple[NeuronPlan, ...]:
    """Plans of every neuron of one layer."""
    return tuple(rounding.plan() for rounding in roundings(layer, bounds))


def plan_model(model: IntegerModel) -> tuple[tuple[NeuronPlan, ...], ...]:
    """Plans layer by layer."""
    return tuple(plan_layer(layer, bounds) for layer, bounds in zip(model.layers, model_bounds(model), strict=True))


def count_constraints(model: IntegerModel) -> tuple[int, ...]:
    """Constraints per layer, then the fixed rows: one per input, per output and for the context."""
    layers = [sum(plan.rows for plan in plans) for plans in plan_model(model)]
    return (*layers, model.n_inputs + model.n_outputs + CONTEXT_ROWS)
