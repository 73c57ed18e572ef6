"""Linear bounds against the integer reference: every value lies inside, every line is on its side."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sitsedge.compiler.bounds.crown import activation, crown
from sitsedge.compiler.intervals import model_bounds
from sitsedge.compiler.reference import IntegerLayer, IntegerModel
from tests.sitsedge.compiler.nets import interesting_rows, models, random_model


@settings(max_examples=60, deadline=None)
@given(model=models, seed=st.integers(0, 1000))
def test_every_value_lies_inside_and_bounds_are_never_wider_than_intervals(model: IntegerModel, seed: int) -> None:
    known = crown(model)
    value = interesting_rows(model, seed, 100)
    for layer, bound, plain in zip(model.layers, known.ranges, model_bounds(model), strict=True):
        acc, value = layer.accumulate(value), layer.run(value)
        assert np.all((bound.acc_low <= acc) & (acc <= bound.acc_high))
        assert np.all((bound.out_low <= value) & (value <= bound.out_high))
        assert np.all((plain.acc_low <= bound.acc_low) & (bound.acc_high <= plain.acc_high))


@settings(max_examples=40, deadline=None)
@given(model=models)
def test_lines_hold_in_exact_arithmetic(model: IntegerModel) -> None:
    known = crown(model)
    for layer, bound, lines in zip(model.layers, known.ranges, known.lines, strict=False):
        for i in range(len(layer.bias)):
            low, high = int(bound.acc_low[i]), int(bound.acc_high[i])
            shift, rounding = int(layer.shift[i]), int(layer.rounding[i])
            bends = [
                (int(edge[i]) << shift) - rounding + step for edge in (layer.low, layer.high) for step in (-1, 0, 1)
            ]
            for v in {low, high, (low + high) // 2, *(min(max(bend, low), high) for bend in bends)}:
                acc = np.zeros(len(layer.bias), np.int64)
                acc[i] = v
                a = int(activation(layer, acc)[i])
                assert a <= Fraction(lines.upper_slope[i]) * v + Fraction(lines.upper_offset[i])
                assert a >= Fraction(lines.lower_slope[i]) * v + Fraction(lines.lower_offset[i])


def test_one_relu_that_may_be_off_gets_the_triangle() -> None:
    """x in [-4, 4]: relu(x) ≤ x/2 + 2, so 2·relu(x) - x ≤ 4, where intervals give 12."""
    first = IntegerLayer.make(weights=[[1], [1]], bias=[0, 100], shift=0, activation="relu")
    second = IntegerLayer.make(weights=[[2, -1]], bias=100, shift=0)
    model = IntegerModel.make((first, second), [-4], [4])
    (low,), (high,) = crown(model).ranges[-1].out_low, crown(model).ranges[-1].out_high
    plain = model_bounds(model)[-1]
    assert (int(plain.out_low[0]), int(plain.out_high[0])) == (-4, 12)
    outputs = model.run(np.arange(-4, 5)[:, None])
    assert (outputs.min(), outputs.max()) == (0, 4)
    assert (low, high) == (-4, 4)


def test_halves_of_a_box_are_bounded_no_looser_where_everything_is_linear() -> None:
    layer = IntegerLayer.make(weights=[[3, -2]], bias=7, shift=2)
    model = IntegerModel.make((layer, IntegerLayer.make(weights=[[5]], bias=0, shift=0)), [-9, -9], [9, 9])
    whole = crown(model)
    for low, high in itertools.product([-9, 0], [-1, 9]):
        if low <= high:
            part = crown(model, np.array([low, -9]), np.array([high, 9]))
            assert part.ranges[-1].acc_high[0] <= whole.ranges[-1].acc_high[0]
            assert part.ranges[-1].acc_low[0] >= whole.ranges[-1].acc_low[0]


def test_error_of_floating_point_is_bounded_not_ignored() -> None:
    """Sums near 2^31 over three layers: the bound of the sum stays on the right side of the exact one."""
    model = random_model(11, widths=[6, 9, 9, 1])
    rows = np.concatenate([interesting_rows(model, seed, 200) for seed in range(10)])
    known = crown(model)
    outputs = model.run(rows)
    assert known.ranges[-1].out_low[0] <= outputs.min()
    assert outputs.max() <= known.ranges[-1].out_high[0]
