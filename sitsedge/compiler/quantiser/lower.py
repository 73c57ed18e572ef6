"""Rewrites a float graph into the nodes the quantiser knows how to make integer; the function computed stays.

What is left: Dense, Conv, Affine, Sum, Product, Clamp (a sum of one value), MaxPool, Leaky, Function (becomes a table),
Select, Concat, and ArgMax as the last node. Invariant: same output for every input, except that a final Softmax of a
class output becomes the index of its largest element.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.float_graph import (
    Affine,
    ArgMax,
    Clamp,
    Concat,
    FloatGraph,
    Function,
    Leaky,
    MaxPool,
    Node,
    Select,
    Softmax,
)
from sitsedge.compiler.passes.linear import affine_folding

RANK_MAX = 3

PASSING = (MaxPool, Leaky, Select, Concat)
"""Nodes whose result keeps the physical value of a count of what they read."""


def lower(graph: FloatGraph, *, class_output: bool) -> FloatGraph:
    """``class_output``: the limits file declares the output as a class index. Raises ``QuantiseError``."""
    graph = affine_folding(replace(graph, nodes=tuple(map(_ramp, graph.nodes))))
    nodes: list[Node] = [graph.input]
    by_name: dict[str, Node] = {graph.input.name: graph.input}
    made = {graph.input.name: graph.input.name}
    for node in graph.nodes[1:]:
        renamed = replace(node, inputs=tuple(made[name] for name in node.inputs))
        lowered = _lower_node(renamed, by_name, class_output=class_output)
        nodes += lowered
        by_name.update((new.name, new) for new in lowered)
        made[node.name] = lowered[-1].name if lowered else renamed.inputs[0]
    last = by_name[made[graph.output]]
    while isinstance(last, Select) and np.array_equal(last.indices.reshape(-1), np.arange(last.size)):
        # Outputs leave as a flat list, so a last reshape says nothing.
        if last.size != by_name[last.inputs[0]].size:
            break
        last = by_name[last.inputs[0]]
    if last.name == graph.input.name:
        raise QuantiseError(
            "no-layer", found="a graph that only hands its input on", expected="at least one layer with weights"
        )
    found = replace(graph, nodes=live(tuple(nodes), last.name), output=last.name)
    found = replace(found, nodes=_own_arguments(found))
    _check(found)
    return found


def _ramp(node: Node) -> Node:
    """A hard sigmoid is a line between two limits: exact without a table, and part of the layer before it."""
    if not isinstance(node, Function) or node.function != "hard-sigmoid":
        return node
    alpha, beta = node.parameters
    channels = node.shape[0]
    return Affine(
        name=node.name, inputs=node.inputs, shape=node.shape, origin=node.origin, low=0.0, high=1.0,
        factor=np.full(channels, alpha), offset=np.full(channels, beta),
    )  # fmt: skip


def _own_arguments(graph: FloatGraph) -> tuple[Node, ...]:
    """Gives a table's argument a value of its own where something else reads it too.

    An argument saturates where its table ends and has few bits; other readers must not suffer from either.
    """
    by_name, uses = graph.by_name(), graph.uses()

    def shared(name: str) -> bool:
        node = by_name[name]
        passes = isinstance(node, PASSING)
        return uses[name] > 1 or (passes and any(shared(source) for source in node.inputs))

    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Function) and shared(node.inputs[0]):
            before = by_name[node.inputs[0]]
            own = Clamp(name=f"{node.name}.argument", inputs=node.inputs, shape=before.shape, origin=node.origin)
            nodes += [own, replace(node, inputs=(own.name,))]
        else:
            nodes.append(node)
    return tuple(nodes)


def live(nodes: tuple[Node, ...], output: str) -> tuple[Node, ...]:
    """The nodes ``output`` depends on, in their order; the input always stays."""
    needed = {output, nodes[0].name}
    for node in reversed(nodes):
        if node.name in needed:
            needed.update(node.inputs)
    return tuple(node for node in nodes if node.name in needed)


def _lower_node(node: Node, known: dict[str, Node], *, class_output: bool) -> list[Node]:
    _refuse_unsupported(node)
    match node:
        case Clamp():
            if node.activation == "none":
                return []
            return [node]
        case Softmax():
            if not class_output:
                raise QuantiseError(
                    "softmax",
                    found=f"probabilities of {node.size} classes as output ({node.origin or node.name})",
                    expected="a class index, or the values in front of the softmax",
                    hint="declare one output with scale 1 in the limits file, or export the model without its softmax",
                )
            return _arg_max(node, known[node.inputs[0]])
        case ArgMax():
            return _arg_max(node, known[node.inputs[0]])
        case Select():
            before = known[node.inputs[0]]
            if isinstance(before, Select):
                indices = before.indices.reshape(-1)[node.indices]
                return [replace(node, inputs=before.inputs, indices=indices)]
            return [node]
        case _:
            return [node]


def _refuse_unsupported(node: Node) -> None:
    """What has no integer form; raises ``QuantiseError`` naming the ONNX node it comes from."""
    where = node.origin or node.name
    match node:
        case Leaky() if node.slope < 0.0:
            raise QuantiseError(
                "unsupported", found=f"a negative slope of {node.slope:g} ({where})", expected="a slope of at least 0"
            )
        case MaxPool() if any(d != 1 for d in node.dilations):
            raise QuantiseError(
                "unsupported",
                found=f"max pooling with dilations {node.dilations} ({where})",
                expected="windows of neighbours",
                hint="use a stride or a larger kernel in place of the dilation",
            )
        case _:
            return


def _arg_max(node: Node, before: Node) -> list[Node]:
    """The index of the largest of all elements, which are made one flat value first."""
    if len(before.shape) == 1:
        return [ArgMax(name=node.name, inputs=(before.name,), shape=(1,), origin=node.origin)]
    flat = Select(
        name=f"{node.name}.flat", inputs=(before.name,), shape=(before.size,), indices=np.arange(before.size),
        origin=node.origin,
    )  # fmt: skip
    return [flat, ArgMax(name=node.name, inputs=(flat.name,), shape=(1,), origin=node.origin)]


def _check(graph: FloatGraph) -> None:
    for node in graph.nodes:
        if not 1 <= len(node.shape) <= RANK_MAX:
            raise QuantiseError(
                "unsupported",
                found=f"a value of shape {node.shape} ({node.origin or node.name})",
                expected="values of one to three dimensions",
                hint="reshape so that channels come first and at most two dimensions follow",
            )
