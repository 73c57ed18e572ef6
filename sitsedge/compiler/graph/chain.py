"""A chain of dense layers as an integer graph, and back: ``IntegerModel`` is the special case of the graph."""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.graph.integer_graph import Input, IntegerGraph
from sitsedge.compiler.graph.integer_weighted import Dense
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN, IntegerLayer, IntegerModel


def graph_of(model: IntegerModel) -> IntegerGraph:
    """The graph of a chain; the same integers for every input."""
    current = Input.make("x", (model.n_inputs,), box_low=model.box_low, box_high=model.box_high)
    nodes: list[Dense] = []
    name = current.name
    for index, layer in enumerate(model.layers):
        bounded = layer.activation != "none"
        node = Dense.make(
            f"l{index}",
            name,
            weights=layer.weights,
            bias=layer.bias,
            shift=layer.shift,
            in_shift=layer.in_shift,
            low=layer.low if bounded else INT32_MIN,
            high=layer.high if bounded else INT32_MAX,
        )
        nodes.append(node)
        name = node.name
    return IntegerGraph.make(current, tuple(nodes))


def model_of(graph: IntegerGraph) -> IntegerModel | None:
    """The chain a graph is, or None where a node is no Dense or reads something else than the node before it."""
    layers = []
    before = graph.input.name
    for node in graph.nodes:
        if not isinstance(node, Dense) or node.source != before:
            return None
        unbounded = bool(np.all(node.low == INT32_MIN) and np.all(node.high == INT32_MAX))
        relu = bool(np.all(node.low == 0) and np.all(node.high == INT32_MAX))
        layers.append(
            IntegerLayer.make(
                weights=node.weights,
                bias=node.bias,
                shift=node.shift,
                in_shift=node.in_shift,
                activation="none" if unbounded else "relu" if relu else "clamp",
                low=node.low,
                high=node.high,
            )
        )
        before = node.name
    return IntegerModel.make(tuple(layers), graph.input.box_low, graph.input.box_high)
