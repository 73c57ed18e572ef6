"""Element-wise nodes move across gathers, towards a layer that can take them in.

Models with channels last and row-wise matrix products arrive as layer, gather, affine map; the map goes back to the
layer. A normalisation of the input goes the other way. Invariant: bit-equal, each element sees the same operations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sitsedge.compiler.graph.float_graph import (
    Affine,
    Conv,
    Dense,
    FloatGraph,
    Floats,
    Function,
    Indices,
    Input,
    Leaky,
    Select,
    Sum,
)
from sitsedge.compiler.passes.rewrite import Rewrite


def element_motion(graph: FloatGraph) -> FloatGraph:
    """Back across a gather of a layer's whole result; forward from the input where channels stay channels."""
    work = Rewrite(graph)
    for name in list(work.nodes):
        node = work.nodes.get(name)
        if isinstance(node, Affine | Function | Leaky):
            _back(work, node)
        elif isinstance(node, Select):
            _forward(work, node)
    return work.finish()


def _back(work: Rewrite, node: Affine | Function | Leaky) -> None:
    gather = work.producer(node)
    if not isinstance(gather, Select) or not work.once(gather):
        return
    source = work.producer(gather)
    if not isinstance(source, Dense | Conv | Affine | Sum) or not work.once(source) or source.size > gather.size:
        return
    moved: Affine | Function | Leaky
    if isinstance(node, Affine):
        per_element = [np.repeat(v, node.size // len(v)) for v in (node.factor, node.offset)]
        pair = [_per_channel(v, gather.indices, source.shape[0], source.size) for v in per_element]
        if pair[0] is None or pair[1] is None:
            return
        moved = replace(node, factor=pair[0], offset=pair[1])
    else:
        moved = node
    inner = replace(moved, name=work.fresh(node.name), inputs=gather.inputs, shape=source.shape)
    work.put(inner)
    work.put(replace(gather, name=node.name, inputs=(inner.name,)))


def _per_channel(values: Floats, indices: Indices, channels: int, size: int) -> Floats | None:
    """Value of each source channel, None where elements of one channel differ or a channel is not read."""
    channel = indices.reshape(-1) // (size // channels)
    made = np.full(channels, np.nan)
    made[channel] = values
    return made if np.array_equal(made[channel], values) and not np.any(np.isnan(made)) else None


def _forward(work: Rewrite, gather: Select) -> None:
    node = work.producer(gather)
    if not isinstance(node, Affine) or node.activation != "none" or not work.once(node):
        return
    source = work.producer(node)
    if not isinstance(work.producer(source) if isinstance(source, Select) else source, Input):
        return
    pair = []
    for values in (node.factor, node.offset):
        moved = np.repeat(values, node.size // len(values))[gather.indices].reshape(gather.shape[0], -1)
        if not np.array_equal(moved, np.broadcast_to(moved[:, :1], moved.shape)):
            return
        pair.append(moved[:, 0].copy())
    inner = replace(gather, name=work.fresh(gather.name), inputs=node.inputs)
    work.put(inner)
    work.put(replace(node, name=gather.name, inputs=(inner.name,), shape=gather.shape, factor=pair[0], offset=pair[1]))
