"""The float graph: what import gives, what the passes rewrite and what the quantiser reads.

Values are float64 tensors with static shapes and no batch dimension: (C), (C, L) or (C, H, W), channels first
(between two ``Select`` nodes other ranks occur). Every value has one name and one producer (SSA), a node's name is
the name of the value it makes, and nodes are in an order in which every input comes first. The meaning of every
node in numpy is ``sitsedge.compiler.graph.float_run``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Shape = tuple[int, ...]

FUNCTIONS = ("sigmoid", "tanh", "hard-sigmoid", "hard-swish", "silu", "elu", "softplus", "gelu", "gelu-tanh", "erf")
"""Kinds of ``Function``, each one number to one number; back ends see them as exact integer tables only."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """Makes the value ``name`` of ``shape`` from the values ``inputs``.

    ``origin`` says which nodes of the ONNX file it comes from ("conv1 (Conv)"), for errors and the report.
    """

    name: str
    inputs: tuple[str, ...]
    shape: Shape
    origin: str = ""

    @property
    def kind(self) -> str:
        """Class name, for counts and reports."""
        return type(self).__name__

    @property
    def size(self) -> int:
        """Number of elements of the value."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Input(Node):
    """The model's input in physical units; exactly one, with no inputs of its own."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Clamped(Node):
    """A node whose result is limited: ``min(max(·, low), high)``; ``-inf`` and ``inf`` mean no limit."""

    low: float = -math.inf
    high: float = math.inf

    @property
    def activation(self) -> str:
        """``none``, ``relu`` or ``clamp``."""
        if self.low == -math.inf and self.high == math.inf:
            return "none"
        return "relu" if self.low == 0.0 and self.high == math.inf else "clamp"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dense(Clamped):
    """``W·x + b`` of a value of shape (in): ``weights`` (out, in), ``bias`` (out); result (out)."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Conv(Clamped):
    """Convolution (cross-correlation) of (ic, L) or (ic, H, W) with zero padding.

    ``weights`` (oc, ic/groups, k) or (oc, ic/groups, kh, kw) and ``bias`` (oc); ``strides`` and ``dilations`` per
    spatial axis; ``pads`` all begins then all ends, as in ONNX. Average pooling arrives here as a depthwise
    convolution with equal weights, padding as one with the weight 1.
    """

    weights: Floats
    bias: Floats
    strides: Shape
    pads: Shape
    dilations: Shape
    groups: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Affine(Clamped):
    """``factor[c]·x + offset[c]`` channel by channel; both of shape (C), C the value's first dimension."""

    factor: Floats
    offset: Floats


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sum(Clamped):
    """Element-wise sum of two or more values of one shape (residual addition)."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Clamp(Clamped):
    """Only the limits: ReLU, ReLU6, clip, the saturation of a quantised model."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MaxPool(Node):
    """Maximum over windows of the spatial axes; ``pads`` all begins then all ends, padding never wins."""

    kernel: Shape
    strides: Shape
    pads: Shape
    dilations: Shape


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Leaky(Node):
    """``x`` where x ≥ 0, ``slope·x`` elsewhere."""

    slope: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Function(Node):
    """One of ``FUNCTIONS`` on every element; ``parameters``: (alpha, beta) of hard-sigmoid, (alpha,) of elu."""

    function: str
    parameters: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Product(Node):
    """Element-wise product of two values of one shape, or of a value and one factor a channel, (C, 1) or (C, 1, 1).

    A gate, or a square. What is part of an activation the passes turn into one ``Function``.
    """


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Select(Node):
    """``y.flat[i] = x.flat[indices.flat[i]]``: reshape, transpose, slice, expand; ``indices`` has ``shape``."""

    indices: Indices


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Concat(Node):
    """Values joined along ``axis`` of their shapes."""

    axis: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Softmax(Node):
    """Softmax over all elements; last node only. The quantiser makes it an arg-max where the output is a class."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ArgMax(Node):
    """Index of the largest element as a value of shape (1); the lowest index wins a tie; last node only."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """Scale a quantised model gives the value ``value``: real = scale·(integer − zero_point), integers low … high."""

    value: str
    scale: float
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class FloatGraph:
    """Nodes in topological order, the first one the ``Input``; ``output`` names the value that leaves.

    ``remembered`` holds scales of QuantizeLinear/DequantizeLinear models for values that still exist, ``notes`` what
    the importer left out on purpose, in words for the report.
    """

    nodes: tuple[Node, ...]
    output: str
    remembered: tuple[Remembered, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def input(self) -> Input:
        """The input node."""
        first = self.nodes[0]
        assert isinstance(first, Input), "a graph starts with its input"
        return first

    def by_name(self) -> Mapping[str, Node]:
        """Every node by the name of its value."""
        return {node.name: node for node in self.nodes}

    @property
    def output_shape(self) -> Shape:
        """Shape of the value that leaves."""
        return self.by_name()[self.output].shape

    def uses(self) -> Counter[str]:
        """How often each value is read; leaving the graph counts once."""
        counted = Counter(name for node in self.nodes for name in node.inputs)
        counted[self.output] += 1
        return counted

    def counts(self) -> tuple[tuple[str, int], ...]:
        """Number of nodes of each kind without the input, by name."""
        return tuple(sorted(Counter(node.kind for node in self.nodes[1:]).items()))

    @property
    def n_nodes(self) -> int:
        """Number of nodes without the input."""
        return len(self.nodes) - 1
