"""What one neuron costs in the circuit, from its interval bounds; the emitter follows the same plan.

A linear map costs nothing (weights are constants of the circuit). Cases, cheapest first:

* ``constant``: the bounds leave one value;
* ``linear``: no shift and no bound that can be reached;
* ``shift``: requantise only: K boolean rows for v - q_low·2^s in [0, 2^K), one row that ties them to v;
* ``relu``: requantise above a lower bound that can be reached: k boolean rows, one for the top bit kept as a
  linear expression, one for the product (docs/interfaces.md, circuit file);
* an upper bound that can be reached adds a second ``relu`` of the excess, ``excess_bits`` + 2 rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from sitsedge.compiler.intervals import LayerBounds, model_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel

CONTEXT_ROWS = 1
"""One row ``ctx · 0 = 0`` keeps the context bound."""


@dataclass(frozen=True, slots=True)
class NeuronPlan:
    """How one neuron is proven. ``base`` is the value the bits count from, in units of the activation."""

    kind: str
    base: int
    bits: int
    excess_bits: int

    @property
    def rows(self) -> int:
        """Constraints of this neuron, without the row that ties an output signal."""
        first = {"constant": 0, "linear": 0, "shift": self.bits + 1, "relu": self.bits + 2}[self.kind]
        return first + (self.excess_bits + 2 if self.excess_bits else 0)


def _signed_bits(low: int, high: int) -> int:
    """Smallest k ≥ 1 with -2^k ≤ low and high < 2^k."""
    return max(1, (-low - 1).bit_length() if low < 0 else 0, high.bit_length() if high > 0 else 0)


def plan_layer(layer: IntegerLayer, bounds: LayerBounds) -> tuple[NeuronPlan, ...]:
    """Plans of every neuron of one layer."""
    plans = []
    for i in range(layer.weights.shape[0]):
        shift = int(layer.shift[i])
        v_low = int(bounds.acc_low[i] + layer.rounding[i])
        v_high = int(bounds.acc_high[i] + layer.rounding[i])
        out_low, out_high = int(bounds.out_low[i]), int(bounds.out_high[i])
        clamped = layer.activation != "none"
        low_active = clamped and (v_low >> shift) < layer.low[i]
        high_active = clamped and (v_high >> shift) > layer.high[i]
        if out_low == out_high:
            plans.append(NeuronPlan("constant", out_low, 0, 0))
            continue
        excess = 0
        if high_active:
            excess = _signed_bits(out_low - out_high, (v_high >> shift) - out_high)
        if low_active:
            base = int(layer.low[i])
            bits = _signed_bits(v_low - (base << shift), v_high - (base << shift))
            plans.append(NeuronPlan("relu", base, bits, excess))
        elif shift == 0:
            plans.append(NeuronPlan("linear", 0, 0, excess))
        else:
            base = v_low >> shift
            bits = max(1, (v_high - (base << shift)).bit_length())
            plans.append(NeuronPlan("shift", base, bits, excess))
    return tuple(plans)


def plan_model(model: IntegerModel) -> tuple[tuple[NeuronPlan, ...], ...]:
    """Plans layer by layer."""
    return tuple(plan_layer(layer, bounds) for layer, bounds in zip(model.layers, model_bounds(model), strict=True))


def count_constraints(model: IntegerModel) -> tuple[int, ...]:
    """Constraints per layer, then the fixed rows: one per input, per output and for the context."""
    layers = [sum(plan.rows for plan in plans) for plans in plan_model(model)]
    return (*layers, model.n_inputs + model.n_outputs + CONTEXT_ROWS)
