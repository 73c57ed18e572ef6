"""The question every property comes down to: is a neuron's last accumulator at most a threshold, over a box?

Requantising and clamping never fall when the accumulator rises, so ``y ≤ b`` and ``y ≥ b`` in counts are exactly
bounds of the accumulator; no rounding is left in the question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.bounds.crown import activation
from sitsedge.compiler.graph.reference import products
from sitsedge.compiler.reference import IntegerLayer, IntegerModel, Ints


def run_layers(layers: tuple[IntegerLayer, ...], rows: Ints) -> Ints:
    """What ``IntegerLayer.run`` gives layer after layer, by exact products in float64 where they fit: far faster."""
    value = rows
    for layer in layers:
        value = activation(layer, products(value, layer.columns().T) + layer.bias)
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """``sign · v ≤ threshold`` for accumulator v of output ``output`` of ``model`` and all x in ``low … high``."""

    model: IntegerModel
    low: Ints
    high: Ints
    output: int
    sign: int
    threshold: int

    def excess(self, rows: Ints) -> Ints:
        """``sign · v - threshold`` for rows of inputs, exact: above zero where the goal is broken."""
        value = run_layers(self.model.layers[:-1], rows)
        last = self.model.layers[-1]
        acc = value @ last.columns()[self.output] + last.bias[self.output]
        return np.asarray(self.sign * acc - self.threshold, dtype=np.int64)

    def output_bound(self, excess: int) -> int:
        """What an excess of at most ``excess`` says of the output in counts: its upper bound, or its lower one."""
        last, k = self.model.layers[-1], self.output
        acc = np.full(last.bias.size, self.sign * (self.threshold + excess), dtype=np.int64)
        return int(activation(last, acc)[k])


def at_most(model: IntegerModel, low: Ints, high: Ints, output: int, bound: int) -> Goal | bool:
    """The goal that output ``output`` is at most ``bound`` counts, or the answer where the clamp alone gives it."""
    last = model.layers[-1]
    shift, rounding = int(last.shift[output]), int(last.rounding[output])
    if last.activation != "none":
        if int(last.high[output]) <= bound:
            return True
        if int(last.low[output]) > bound:
            return False
    # (v + rounding) >> shift ≤ bound  ⟺  v + rounding < (bound + 1) · 2^shift
    return Goal(model, low, high, output, 1, ((bound + 1) << shift) - rounding - 1)


def at_least(model: IntegerModel, low: Ints, high: Ints, output: int, bound: int) -> Goal | bool:
    """The goal that output ``output`` is at least ``bound`` counts, or the answer where the clamp alone gives it."""
    last = model.layers[-1]
    shift, rounding = int(last.shift[output]), int(last.rounding[output])
    if last.activation != "none":
        if int(last.low[output]) >= bound:
            return True
        if int(last.high[output]) < bound:
            return False
    # (v + rounding) >> shift ≥ bound  ⟺  v ≥ bound · 2^shift - rounding
    return Goal(model, low, high, output, -1, rounding - (bound << shift))
