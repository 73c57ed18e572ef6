"""What operators are written with: values with their ONNX shapes, and the graph nodes made so far.

An ONNX shape has a batch dimension, which is 1 here (a symbolic batch is taken as 1); the float graph's shape is the
same without it. Dropping a leading 1 never changes the order of the elements, so the two differ in name only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sitsedge.compiler.graph.float_graph import (
    Affine,
    Clamp,
    Conv,
    Dense,
    Floats,
    Function,
    Node,
    Remembered,
    Select,
    Shape,
    Sum,
)
from sitsedge.compiler.importer.limits import (
    ELEMENTS_MAX,
    INDICES_MAX,
    MACS_MAX,
    PARAMETERS_MAX,
    RANK_MAX,
    VALUE_ELEMENTS_MAX,
    refuse,
    require,
)
from sitsedge.compiler.importer.tensors import Array

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Quantised:
    """Scale of an integer value between QuantizeLinear and DequantizeLinear; the graph keeps the real value."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Data:
    """A computed value: its name in the float graph and its ONNX shape."""

    name: str
    shape: Shape
    quantised: Quantised | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)


Value = Data | Array


def graph_shape(shape: Shape) -> Shape:
    """The float graph's shape of a value of ONNX shape ``shape``: without the batch of 1."""
    if not shape:
        return (1,)
    return shape[1:] if len(shape) > 1 and shape[0] == 1 else shape


@dataclass(slots=True, eq=False)
class Builder:
    """Appends nodes; ``origin`` and ``base`` are set to the ONNX node and its first output before each operator."""

    nodes: list[Node]
    origin: str = ""
    base: str = ""
    remembered: list[Remembered] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _parameters: int = 0
    _indices: int = 0
    _elements: int = 0
    _macs: int = 0

    def reserve(self, names: list[str]) -> None:
        """Keep ``names`` of the file for its own values."""
        self._names.update(names)

    def fresh(self) -> str:
        """An unused value name that tells where it comes from."""
        number = 0
        while (name := f"{self.base}~{number}") in self._names:
            number += 1
        self._names.add(name)
        return name

    def add(self, node: Node) -> Node:
        """Append ``node``."""
        if not node.shape or min(node.shape) < 1 or len(node.shape) > RANK_MAX:
            raise refuse("node-shape", f"a result of shape {list(node.shape)}", f"1 to {RANK_MAX} dimensions, none 0")
        require(node.size, VALUE_ELEMENTS_MAX, "elements of one value", "use a smaller input")
        self._elements += node.size
        require(self._elements, ELEMENTS_MAX, "elements of all values together", "use a smaller input or network")
        self.nodes.append(node)
        return node

    def made(self, node: Node, shape: Shape) -> Data:
        """Append ``node`` and give its value the ONNX shape ``shape``."""
        return Data(self.add(node).name, shape)

    def unary(self, x: Data, make: Callable[..., Node], **fields: Any) -> Data:
        """Append an element-wise node."""
        node = make(name=self.fresh(), inputs=(x.name,), shape=graph_shape(x.shape), origin=self.origin, **fields)
        return self.made(node, x.shape)

    def select(self, x: Data, indices: IntArray) -> Data:
        """Elements of ``x`` at flat ``indices`` (any ONNX shape); scale of a quantised value stays."""
        shape = tuple(int(d) for d in indices.shape)
        require(indices.size, VALUE_ELEMENTS_MAX, "elements of one value", "use a smaller input")
        whole = indices.size == x.size and bool(np.array_equal(indices.reshape(-1), np.arange(x.size)))
        if whole and graph_shape(shape) == graph_shape(x.shape):
            return replace(x, shape=shape)
        self._indices += indices.size
        require(self._indices, INDICES_MAX, "elements of reshapes and slices")
        target = graph_shape(shape)
        node = Select(
            name=self.fresh(),
            inputs=(x.name,),
            shape=target,
            origin=self.origin,
            indices=np.array(indices.reshape(target), np.int64),
        )
        return replace(self.made(node, shape), quantised=x.quantised)

    def reshape(self, x: Data, shape: Shape) -> Data:
        """The same elements in another shape."""
        return self.select(x, positions(shape))

    def expand(self, x: Data, shape: Shape) -> Data:
        """``x`` broadcast to ``shape``."""
        if shape == x.shape:
            return x
        require(math.prod(shape), VALUE_ELEMENTS_MAX, "elements of one value", "use a smaller input")
        return self.select(x, np.broadcast_to(positions(x.shape), shape))

    def clamp(self, x: Data, low: float, high: float) -> Data:
        """``min(max(x, low), high)``."""
        return self.unary(x, Clamp, low=low, high=high)

    def function(self, x: Data, function: str, *parameters: float) -> Data:
        """A function of every element."""
        return self.unary(x, Function, function=function, parameters=parameters)

    def dense(self, x: Data, weights: Floats, bias: Floats, shape: Shape) -> Data:
        """``W·x + b``; weights (out, in); the result has the ONNX shape ``shape``."""
        flat = self.reshape(x, (x.size,))
        self._count(weights, bias, macs=weights.size)
        node = Dense(
            name=self.fresh(),
            inputs=(flat.name,),
            shape=(len(weights),),
            origin=self.origin,
            weights=weights,
            bias=bias,
        )
        return self.reshape(self.made(node, (len(weights),)), shape)

    def conv(self, x: Data, node: Conv) -> Data:
        """Append a convolution whose result shape is in ``node``."""
        space = math.prod(node.shape[1:])
        self._count(node.weights, node.bias, macs=node.weights.size * space)
        return self.made(node, (1, *node.shape))

    def sum(self, values: list[Data]) -> Data:
        """Sum of values after broadcasting them to one shape."""
        shape = broadcast(*(value.shape for value in values))
        inputs = tuple(self.expand(value, shape).name for value in values)
        node = Sum(name=self.fresh(), inputs=inputs, shape=graph_shape(shape), origin=self.origin)
        return self.made(node, shape)

    def affine(self, x: Data, factor: Array, offset: Array) -> Data:
        """``factor·x + offset`` with broadcasting; one factor and offset a channel where that suffices."""
        shape = broadcast(x.shape, factor.shape, offset.shape)
        require(math.prod(shape), VALUE_ELEMENTS_MAX, "elements of one value", "use a smaller input")
        x = self.expand(x, shape)
        target = graph_shape(shape)
        pairs = [np.broadcast_to(np.asarray(v, np.float64), shape).reshape(target[0], -1) for v in (factor, offset)]
        firsts = [np.array(v[:, 0]) for v in pairs]
        if all(np.array_equal(v, np.broadcast_to(f[:, None], v.shape)) for v, f in zip(pairs, firsts, strict=True)):
            return self._affine(x, firsts[0], firsts[1])
        flat = self.reshape(x, (x.size,))
        return self.reshape(self._affine(flat, pairs[0].reshape(-1).copy(), pairs[1].reshape(-1).copy()), shape)

    def _affine(self, x: Data, factor: Floats, offset: Floats) -> Data:
        self._count(factor, offset, macs=x.size)
        return self.unary(x, Affine, factor=factor, offset=offset)

    def work(self, operations: int) -> None:
        """Count comparisons of a pooling with the multiplications."""
        self._count(macs=operations)

    def _count(self, *constants: Floats, macs: int) -> None:
        for constant in constants:
            if not np.all(np.isfinite(constant)):
                raise refuse("tensor-value", "a factor that is not finite", "finite constants")
            self._parameters += constant.size
        self._macs += macs
        require(self._parameters, PARAMETERS_MAX, "constants", "train a smaller network")
        require(self._macs, MACS_MAX, "multiplications of one inference", "use a smaller network or input")

    def remember(self, value: Data, quantised: Quantised, low: int, high: int) -> Data:
        """Note the scale of ``value`` and mark it as quantised."""
        self.remembered.append(Remembered(value.name, quantised.scale, quantised.zero_point, low, high))
        return replace(value, quantised=quantised)


def positions(shape: Shape) -> IntArray:
    """Flat positions 0, 1, … in ``shape``."""
    require(math.prod(shape), VALUE_ELEMENTS_MAX, "elements of one value", "use a smaller input")
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


def broadcast(*shapes: Shape) -> Shape:
    """The common shape, or ``node-shape`` where there is none."""
    try:
        return tuple(int(d) for d in np.broadcast_shapes(*shapes))
    except ValueError:
        raise refuse(
            "node-shape", f"shapes {', '.join(str(list(s)) for s in shapes)}", "shapes that broadcast to one"
        ) from None
