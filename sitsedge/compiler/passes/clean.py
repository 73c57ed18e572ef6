"""Passes that only remove: dead code, nodes that change nothing, chains of gathers.

Invariant of all three: outputs are bit-equal, since no arithmetic changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sitsedge.compiler.graph.float_graph import Affine, Clamp, Concat, Dense, FloatGraph, Node, Select, Sum
from sitsedge.compiler.passes.rewrite import Rewrite


def dead_code(graph: FloatGraph) -> FloatGraph:
    """Drop nodes the output does not depend on."""
    work = Rewrite(graph)
    work.changed = True
    made = work.finish()
    return graph if len(made.nodes) == len(graph.nodes) else made


def no_ops(graph: FloatGraph) -> FloatGraph:
    """Drop affine maps by 1 and 0, limits that are none, gathers in place and concatenations of one value."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if node is not None and _nothing(work, node):
            work.alias(name, node.inputs[0])
    return work.finish()


def _nothing(work: Rewrite, node: Node) -> bool:
    match node:
        case Affine():
            return node.activation == "none" and bool(np.all(node.factor == 1.0) and np.all(node.offset == 0.0))
        case Clamp():
            return node.activation == "none"
        case Select():
            return node.shape == work.producer(node).shape and _in_place(node)
        case Concat():
            return len(node.inputs) == 1
        case Sum():
            return len(node.inputs) == 1 and node.activation == "none"
    return False


def _in_place(node: Select) -> bool:
    return bool(np.array_equal(node.indices.reshape(-1), np.arange(node.size)))


def shape_chains(graph: FloatGraph) -> FloatGraph:
    """Gather after gather is one gather; a gather of a dense layer's outputs or inputs only reorders its weights."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if isinstance(node, Select):
            _join(work, node)
        elif isinstance(node, Dense):
            _reorder_inputs(work, node)
    return work.finish()


def _join(work: Rewrite, node: Select) -> None:
    inner = work.producer(node)
    if isinstance(inner, Select):
        indices = inner.indices.reshape(-1)[node.indices]
        work.put(replace(node, inputs=inner.inputs, indices=indices))
    elif isinstance(inner, Dense) and work.once(inner) and len(node.shape) == 1 and node.size <= inner.size:
        rows = node.indices
        work.put(replace(inner, name=node.name, shape=node.shape, weights=inner.weights[rows], bias=inner.bias[rows]))


def _reorder_inputs(work: Rewrite, node: Dense) -> None:
    gather = work.producer(node)
    if not isinstance(gather, Select):
        return
    source = work.producer(gather)
    flat = gather.indices.reshape(-1)
    # Only permutations: columns added up from repeated elements would round differently.
    if len(source.shape) != 1 or source.size != gather.size or len(np.unique(flat)) != flat.size:
        return
    weights = np.empty_like(node.weights)
    weights[:, flat] = node.weights
    work.put(replace(node, inputs=gather.inputs, weights=weights))
