"""Integer model → R1CS circuit file (docs/interfaces.md, ``application/vnd.sits.circuit``).

Public signals are the inputs, the outputs and the context; weights are constants. The statement is
y = M(x) for every x inside the model's box; outside it the verifier refuses x in the clear. With x in the box
every linear combination below stays far under the field's size, so equality in the field is equality of
integers, and the private wires are fully determined by x. Per neuron, following ``circuit_plan``:

* ``relu``: the builder's ReLU-and-shift of acc - base·2^s, where base is the lower bound of the activation;
* ``shift``: w = acc + 2^(s-1) - base·2^s is proven to be K boolean wires; the quotient is the bits from s
  upwards. Counting from the interval's lower end instead of from zero saves the sign and often more.
"""

from __future__ import annotations

from attest.proof.builder import CircuitBuilder, Interval
from attest.proof.circuit import Curve, LinearCombination
from sitsedge.compiler.circuit_plan import NeuronPlan, plan_layer
from sitsedge.compiler.intervals import LayerBounds, model_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel

_ONE = LinearCombination.constant(1)
_ZERO = LinearCombination()


def emit_circuit(model: IntegerModel, *, curve: Curve = Curve.BN254) -> bytes:
    """The circuit file; the same model always gives the same bytes, and the same rows on both curves.

    Raises ``attest.proof.errors.CircuitError`` where the model exceeds the format's limits.
    """
    builder = CircuitBuilder(n_inputs=model.n_inputs, n_outputs=model.n_outputs, curve=curve)
    current = list(builder.inputs())
    for layer, bounds in zip(model.layers, model_bounds(model), strict=True):
        plans = plan_layer(layer, bounds)
        current = [_neuron(builder, layer, bounds, i, plan, current) for i, plan in enumerate(plans)]
    for index, value in enumerate(current):
        builder.add_out(index, value)
    return builder.finish().encode()


def _neuron(
    builder: CircuitBuilder,
    layer: IntegerLayer,
    bounds: LayerBounds,
    i: int,
    plan: NeuronPlan,
    inputs: list[LinearCombination],
) -> LinearCombination:
    """The activation of neuron i as a linear combination."""
    if plan.kind == "constant":
        return LinearCombination.constant(plan.base)
    shift = int(layer.shift[i])
    weights = layer.columns()[i]
    # The bias counts from the plan's base, so that the gadgets start at zero.
    offset = int(layer.bias[i]) - (plan.base << shift)
    acc = LinearCombination.weighted([(offset, _ONE), *((int(w), x) for w, x in zip(weights, inputs, strict=True))])
    interval = Interval(int(bounds.acc_low[i]) - (plan.base << shift), int(bounds.acc_high[i]) - (plan.base << shift))
    if plan.kind == "linear":
        value = acc
    elif plan.kind == "shift":
        value = plan.base + _quotient(builder, acc + int(layer.rounding[i]), plan.bits, shift)
    else:
        value = plan.base + builder.relu_shift(acc, interval, shift=shift)
    if plan.excess_bits:
        high = int(layer.high[i])
        above = (int(bounds.acc_high[i] + layer.rounding[i]) >> shift) - high
        value = value - builder.relu_shift(value - high, Interval(int(bounds.out_low[i]) - high, above))
    return value


def _quotient(builder: CircuitBuilder, value: LinearCombination, bits: int, shift: int) -> LinearCombination:
    """value >> shift for 0 ≤ value < 2^bits, as a linear combination of its bits."""
    wires = builder.add_bits(value, bits)
    tied = LinearCombination.weighted([(1, value), *((-(1 << n), wire) for n, wire in enumerate(wires))])
    builder.add_constraint(tied, _ONE, _ZERO)
    return LinearCombination.weighted((1 << n, wire) for n, wire in enumerate(wires[shift:]))
