"""Float graphs that are a chain of dense layers: quantised by ``compiler.quantise``, whose search is made for them."""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.fold import Chain
from sitsedge.compiler.graph.float_graph import Affine, Clamp, Clamped, Dense, FloatGraph, Select
from sitsedge.compiler.network import FloatNetwork, Floats
from sitsedge.compiler.quantise import Quantised
from sitsedge.compiler.reference import Ints


def network_of(graph: FloatGraph) -> FloatNetwork | None:
    """The chain a graph is, adjacent affine maps folded; None where it is no chain or one too large for the search.

    Flat values only, apart from an input that is flattened first.
    """
    chain: Chain | None = None
    before = graph.input.name
    for node in graph.nodes[1:]:
        if node.inputs != (before,) or len(node.shape) != 1:
            return None
        before = node.name
        if isinstance(node, Select):
            if not np.array_equal(node.indices, np.arange(graph.input.size)) or chain is not None:
                return None
            continue
        if not isinstance(node, Dense | Affine | Clamp):
            return None
        try:
            chain = chain or Chain(graph.input.size)
            _append(chain, node)
        except OnnxImportError:
            # Too wide or with weights that overflow when folded: the general path folds nothing.
            return None
    if chain is None or before != graph.output:
        return None
    try:
        return FloatNetwork(chain.finish())
    except OnnxImportError:
        return None


def _append(chain: Chain, node: Dense | Affine | Clamp) -> None:
    if isinstance(node, Dense):
        chain.affine(node.weights, node.bias)
    elif isinstance(node, Affine):
        chain.scale(node.factor, node.offset)
    if isinstance(node, Clamped) and node.activation != "none":
        chain.clamp(node.low, node.high)


def layer_errors(network: FloatNetwork, found: Quantised, counts: Ints, raw: Floats) -> dict[str, float]:
    """Root-mean-square error of every layer relative to its spread, by the names of ``graph.chain.graph_of``.

    What a count of a hidden neuron stands for is the factor that fits best.
    """
    errors = {}
    value = counts
    for index, (layer, wanted) in enumerate(zip(found.model.layers, network.activations(raw), strict=True)):
        value = layer.run(value)
        real = np.clip(wanted, network.layers[index].low, network.layers[index].high)
        power = np.maximum((value.astype(np.float64) ** 2).sum(axis=0), 1.0)
        missed = value * ((value * real).sum(axis=0) / power) - real
        spread = float(real.std())
        errors[f"l{index}"] = float(np.sqrt((missed**2).mean())) / (spread if spread > 0 else 1.0)
    return errors
