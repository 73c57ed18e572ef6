"""Batch-norm folding and its relatives: affine maps vanish into the dense and convolution layers beside them.

Invariant: outputs are equal in exact arithmetic; in float64 they are checked to differ by rounding only.
Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", 2018, section 3.2 (folding into the layer before); the layer after is the same algebra.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sitsedge.compiler.graph.float_graph import Affine, Clamped, Conv, Dense, FloatGraph, Floats, Node, Select
from sitsedge.compiler.passes.rewrite import Rewrite


def affine_folding(graph: FloatGraph) -> FloatGraph:
    """Fold every affine map into the layer before it, else into the one after it; join dense layers in a row."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if isinstance(node, Affine):
            _into_producer(work, node)
        elif isinstance(node, Dense | Conv):
            _from_producer(work, node)
    return work.finish()


def _into_producer(work: Rewrite, node: Affine) -> None:
    before = work.producer(node)
    if not isinstance(before, Dense | Conv | Affine) or not work.once(before):
        return
    made = _scaled(before, node.factor, node.offset)
    if before.activation == "none":
        _replaced(work, node, made)
    elif node.activation == "none" and np.ptp(node.factor) == 0.0 and np.ptp(node.offset) == 0.0 and node.factor[0]:
        # Limits are the same for all channels, so they move along where the map is, too; a negative one swaps them.
        moved = sorted(float(bound * node.factor[0] + node.offset[0]) for bound in (before.low, before.high))
        _replaced(work, replace(node, low=moved[0], high=moved[1]), made)


def _scaled(layer: Dense | Conv | Affine, factor: Floats, offset: Floats) -> Dense | Conv | Affine:
    """The layer followed by ``factor·x + offset`` on every output channel."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(layer, Affine):
            return replace(layer, factor=layer.factor * factor, offset=layer.offset * factor + offset)
        spread = factor.reshape(-1, *(1,) * (layer.weights.ndim - 1))
        return replace(layer, weights=layer.weights * spread, bias=layer.bias * factor + offset)


def _replaced(work: Rewrite, node: Clamped, made: Dense | Conv | Affine) -> None:
    """``made`` takes the place of ``node``, with the limits of ``node``, unless its numbers overflowed."""
    constants = (made.factor, made.offset) if isinstance(made, Affine) else (made.weights, made.bias)
    if all(np.all(np.isfinite(values)) for values in constants):
        origin = _joined(made.origin, node.origin)
        work.put(replace(made, name=node.name, low=node.low, high=node.high, origin=origin))


def _from_producer(work: Rewrite, node: Dense | Conv) -> None:
    before = work.producer(node)
    if isinstance(before, Affine) and before.activation == "none":
        made = _absorbed(node, before.factor, before.offset)
        if made is not None:
            _replaced(work, node, replace(made, inputs=before.inputs))
    elif isinstance(node, Dense) and isinstance(before, Dense) and before.activation == "none" and work.once(before):
        _dense_pair(work, node, before)
    elif isinstance(node, Dense) and isinstance(before, Select) and work.once(before):
        inner = work.producer(before)
        if isinstance(inner, Affine) and inner.activation == "none":
            spread = [
                np.repeat(v, inner.size // len(v))[before.indices.reshape(-1)] for v in (inner.factor, inner.offset)
            ]
            gather = replace(before, name=work.fresh(before.name), inputs=inner.inputs)
            made = _absorbed(node, spread[0], spread[1])
            if made is not None:
                work.put(gather)
                _replaced(work, node, replace(made, inputs=(gather.name,)))


def _absorbed(node: Dense | Conv, factor: Floats, offset: Floats) -> Dense | Conv | None:
    """The layer of ``factor·x + offset``; None where padding must stay zero but the offset is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(node, Dense):
            return replace(node, weights=node.weights * factor, bias=node.bias + node.weights @ offset)
        if any(node.pads) and np.any(offset):
            return None
        # Input channels of group g are g·(ic/groups) … in order.
        outputs, per_group = node.weights.shape[:2]
        group = np.repeat(np.arange(node.groups), outputs // node.groups)
        mine = [v.reshape(node.groups, per_group)[group] for v in (factor, offset)]
        spread = (outputs, per_group, *(1,) * (node.weights.ndim - 2))
        added = (node.weights * mine[1].reshape(spread)).reshape(outputs, -1).sum(axis=1)
        return replace(node, weights=node.weights * mine[0].reshape(spread), bias=node.bias + added)


def _dense_pair(work: Rewrite, node: Dense, before: Dense) -> None:
    if len(node.weights) * before.weights.shape[1] > node.weights.size + before.weights.size:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        weights, bias = node.weights @ before.weights, node.weights @ before.bias + node.bias
    _replaced(work, node, replace(node, inputs=before.inputs, weights=weights, bias=bias, origin=before.origin))


def pad_folding(graph: FloatGraph) -> FloatGraph:
    """Zero padding in front of a convolution becomes the convolution's own padding. Invariant: bit-equal."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if isinstance(node, Conv):
            before = work.producer(node)
            if isinstance(before, Conv) and _only_pads(before, work.producer(before)):
                pads = tuple(a + b for a, b in zip(node.pads, before.pads, strict=True))
                origin = _joined(before.origin, node.origin)
                work.put(replace(node, inputs=before.inputs, pads=pads, origin=origin))
    return work.finish()


def _only_pads(node: Conv, source: Node) -> bool:
    identity = node.groups == source.shape[0] == len(node.weights) and node.weights.size == node.groups
    plain = node.activation == "none" and all(s == 1 for s in node.strides)
    return identity and plain and bool(np.all(node.weights == 1.0) and not np.any(node.bias))


def _joined(*origins: str) -> str:
    """Origins of joined nodes, each once, bounded."""
    parts: list[str] = []
    for origin in origins:
        parts.extend(part for part in origin.split(" + ") if part and part not in parts)
    return " + ".join(parts[:8])
