"""What an integer graph is not: one refusal for every rule of its formats, names and shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph, Node
from sitsedge.compiler.graph.integer_nodes import ArgMax, Concat, Leaky, MaxPool, Product, Select, Sum, Table
from sitsedge.compiler.graph.integer_weighted import Conv, Dense

X = Input.make("x", (4, 5), box_low=-10, box_high=10)


def graph(*nodes: Node, source: Input = X) -> IntegerGraph:
    return IntegerGraph.make(source, nodes)


def flat(name: str = "f", source: str = "x") -> Select:
    return Select.make(name, source, indices=np.arange(20), shape=(20,))


REFUSED: dict[str, Callable[[], Any]] = {
    "box-above-int16": lambda: Input.make("x", (1,), box_low=0, box_high=1 << 15),
    "box-below-int16": lambda: Input.make("x", (1,), box_low=-(1 << 15) - 1, box_high=0),
    "box-upside-down": lambda: Input.make("x", (1,), box_low=1, box_high=0),
    "shape-of-rank-four": lambda: Input.make("x", (1, 1, 1, 1), box_low=0, box_high=1),
    "shape-of-rank-zero": lambda: Input.make("x", (), box_low=0, box_high=1),
    "shape-with-nothing-in-it": lambda: Input.make("x", (3, 0), box_low=0, box_high=1),
    "shape-too-large": lambda: Input.make("x", (1 << 12, 1 << 12), box_low=0, box_high=1),
    "dense-weights-no-matrix": lambda: Dense.make("d", "x", weights=[1, 2]),
    "dense-weight-below-minus-127": lambda: Dense.make("d", "x", weights=[[-128]]),
    "dense-weight-above-127": lambda: Dense.make("d", "x", weights=[[128]]),
    "dense-bias-beyond-int32": lambda: Dense.make("d", "x", weights=[[1]], bias=1 << 31),
    "dense-shift-negative": lambda: Dense.make("d", "x", weights=[[1]], shift=-1),
    "dense-shift-above-30": lambda: Dense.make("d", "x", weights=[[1]], shift=31),
    "dense-in-shift-above-8": lambda: Dense.make("d", "x", weights=[[1]], in_shift=9),
    "dense-low-above-high": lambda: Dense.make("d", "x", weights=[[1]], low=3, high=2),
    "dense-high-beyond-int32": lambda: Dense.make("d", "x", weights=[[1]], high=1 << 31),
    "dense-bias-of-another-length": lambda: Dense.make("d", "x", weights=[[1]], bias=[1, 2]),
    "dense-of-another-width": lambda: graph(flat(), Dense.make("d", "f", weights=[[1] * 19])),
    "dense-on-positions": lambda: graph(Dense.make("d", "x", weights=[[1] * 20])),
    "conv-weights-of-rank-three": lambda: Conv.make("c", "x", weights=[[[1]]]),
    "conv-groups-no-divisor": lambda: Conv.make("c", "x", weights=np.ones((3, 1, 1, 1)), groups=2),
    "conv-no-groups": lambda: Conv.make("c", "x", weights=np.ones((3, 1, 1, 1)), groups=0),
    "conv-stride-zero": lambda: Conv.make("c", "x", weights=np.ones((1, 4, 1, 1)), strides=(1, 0)),
    "conv-dilation-zero": lambda: Conv.make("c", "x", weights=np.ones((1, 4, 1, 1)), dilations=(0, 1)),
    "conv-pad-negative": lambda: Conv.make("c", "x", weights=np.ones((1, 4, 1, 1)), pads=(0, -1, 0, 0)),
    "conv-kernel-beyond-the-source": lambda: graph(Conv.make("c", "x", weights=np.ones((1, 4, 1, 6)))),
    "conv-rows-over-one-dimension": lambda: graph(
        Conv.make("c", "x", weights=np.ones((1, 4, 2, 1)), pads=(1, 0, 0, 0))
    ),
    "conv-of-another-depth": lambda: graph(Conv.make("c", "x", weights=np.ones((1, 3, 1, 1)))),
    "conv-on-a-flat-value": lambda: graph(flat(), Conv.make("c", "f", weights=np.ones((1, 20, 1, 1)))),
    "sum-of-nothing": lambda: Sum.make("s", ()),
    "sum-up-shifts-of-another-length": lambda: Sum.make("s", ("x",), up_shifts=(1, 1)),
    "sum-up-shift-above-14": lambda: Sum.make("s", ("x",), up_shifts=(15,)),
    "sum-shift-above-30": lambda: Sum.make("s", ("x",), shift=31),
    "sum-low-above-high": lambda: Sum.make("s", ("x",), low=1, high=0),
    "sum-bound-beyond-int32": lambda: Sum.make("s", ("x",), high=1 << 31),
    "sum-of-two-shapes": lambda: graph(flat(), Sum.make("s", ("x", "f"))),
    "pool-kernel-zero": lambda: MaxPool.make("p", "x", kernel=(1, 0), strides=(1, 1)),
    "pool-padding-as-wide-as-the-kernel": lambda: MaxPool.make(
        "p", "x", kernel=(1, 2), strides=(1, 1), pads=(0, 2, 0, 0)
    ),
    "pool-beyond-the-source": lambda: graph(MaxPool.make("p", "x", kernel=(1, 6), strides=(1, 1))),
    "leaky-multiplier-negative": lambda: Leaky.make("l", "x", multiplier=-1, shift=0),
    "leaky-shift-above-15": lambda: Leaky.make("l", "x", multiplier=1, shift=16),
    "table-entry-beyond-int16": lambda: Table.make("t", "x", values=[1 << 15], first=0),
    "table-of-nothing": lambda: Table.make("t", "x", values=[], first=0),
    "table-too-long": lambda: Table.make("t", "x", values=np.zeros(4097), first=0),
    "table-argument-beyond-int16": lambda: Table.make("t", "x", values=[0, 0], first=32767),
    "select-index-negative": lambda: Select.make("s", "x", indices=[-1], shape=(1,)),
    "select-index-beyond-the-source": lambda: graph(Select.make("s", "x", indices=[20], shape=(1,))),
    "select-fewer-indices-than-elements": lambda: Select.make("s", "x", indices=[0], shape=(2,)),
    "concat-of-nothing": lambda: Concat.make("c", ()),
    "concat-axis-beyond-the-shape": lambda: graph(Concat.make("c", ("x", "x"), axis=2)),
    "concat-of-ranks": lambda: graph(flat(), Concat.make("c", ("x", "f"))),
    "concat-of-shapes": lambda: graph(
        Select.make("f", "x", indices=np.arange(6), shape=(2, 3)), Concat.make("c", ("x", "f"), axis=1)
    ),
    "argmax-of-positions": lambda: graph(ArgMax("a", "x")),
    "argmax-inside": lambda: graph(flat(), ArgMax("a", "f"), Sum.make("s", ("a",))),
    "no-node": graph,
    "product-shift-above-30": lambda: Product.make("p", "x", "x", shift=31),
    "product-low-above-high": lambda: Product.make("p", "x", "x", low=1, high=0),
    "product-bound-beyond-int32": lambda: Product.make("p", "x", "x", high=1 << 31),
    "product-of-two-shapes": lambda: graph(flat(), Product.make("p", "x", "f")),
    "product-of-a-gate-for-positions": lambda: graph(
        Select.make("g", "x", indices=[0, 1, 2, 3, 4], shape=(1, 5)), Product.make("p", "x", "g")
    ),
    "too-many-nodes": lambda: graph(*(Sum.make(f"s{i}", ("x",)) for i in range(4097))),
    "source-unknown": lambda: graph(Sum.make("s", ("y",))),
    "source-computed-later": lambda: graph(Sum.make("a", ("b",)), Sum.make("b", ("x",))),
    "name-used-twice": lambda: graph(Sum.make("a", ("x",)), Sum.make("a", ("a",))),
    "name-of-the-input": lambda: graph(Sum.make("x", ("x",))),
    "name-empty": lambda: graph(Sum.make("", ("x",))),
    "value-nothing-reads": lambda: graph(Sum.make("a", ("x",)), Sum.make("b", ("x",))),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_outside_the_formats_is_refused(rule: str) -> None:
    with pytest.raises(QuantiseError) as refused:
        REFUSED[rule]()
    assert refused.value.code == "integer-format"


def test_numbers_cannot_be_changed_afterwards() -> None:
    node = Dense.make("d", "x", weights=[[1]])
    with pytest.raises(ValueError, match="read-only"):
        node.weights[0, 0] = 2


def test_shapes_of_every_value() -> None:
    made = graph(
        Conv.make("c", "x", weights=np.ones((6, 2, 1, 3)), groups=2, strides=(1, 2), pads=(0, 1, 0, 1)),
        MaxPool.make("p", "c", kernel=(1, 2), strides=(1, 1)),
        Select.make("s", "p", indices=np.arange(12), shape=(3, 2, 2)),
        Concat.make("k", ("s", "s"), axis=1),
        Leaky.make("l", "k", multiplier=1, shift=2),
    )
    assert made.shapes == {"x": (4, 5), "c": (6, 3), "p": (6, 2), "s": (3, 2, 2), "k": (3, 4, 2), "l": (3, 4, 2)}
    assert (made.n_inputs, made.n_outputs, made.output) == (20, 24, "l")
