"""ONNX file → chain of dense layers: the graph importer and its passes, for networks that are one chain.

What is no chain (convolutions, residual additions, tables) is refused by the node that breaks it. Operators, limits
and refusals are those of ``sitsedge.compiler.importer``.
"""

from __future__ import annotations

from pathlib import Path

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.fold import WEIGHTS_MAX, WIDTH_MAX
from sitsedge.compiler.graph.float_graph import Affine, Clamp, Dense, FloatGraph, Node
from sitsedge.compiler.importer import Imported, import_graph, import_graph_bytes
from sitsedge.compiler.importer.limits import FILE_BYTES_MAX, OPSET_MAX, OPSET_MIN
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantiser.chains import network_of

__all__ = ["FILE_BYTES_MAX", "OPSET_MAX", "OPSET_MIN", "import_bytes", "import_onnx"]

_ADVICE = {
    "Function": "use Relu or Clip inside; leave a final Sigmoid out and move its threshold to the logit",
    "Softmax": "leave it out and compare the logits",
    "ArgMax": "leave it out and compare the logits",
    "Leaky": "use Relu",
}


def import_onnx(path: Path) -> FloatNetwork:
    """Read the file at ``path``; see ``import_bytes``."""
    return _network(import_graph(path))


def import_bytes(data: bytes) -> FloatNetwork:
    """Turn the bytes of an ONNX file into a float network, or raise ``OnnxImportError``."""
    return _network(import_graph_bytes(data))


def _network(imported: Imported) -> FloatNetwork:
    graph, passes = simplify(imported.graph)
    network = network_of(graph)
    if network is None:
        raise _no_chain(graph)
    counts = tuple((step.name, step.nodes) for step in passes)
    return FloatNetwork(network.layers, imported.operators, counts)


def _no_chain(graph: FloatGraph) -> OnnxImportError:
    """The refusal of a graph that ``network_of`` does not take, at the first node that is the reason."""
    before = graph.input.name
    widest = max(node.size for node in graph.nodes)
    for node in graph.nodes[1:]:
        if node.inputs != (before,):
            return _refusal(node, "branch", "a branch or a skip connection", "one chain of layers")
        if not isinstance(node, Dense | Affine | Clamp):
            return _refusal(node, "unsupported-operator", f"a {node.kind}", "dense layers with Relu or Clip")
        before = node.name
    if widest > WIDTH_MAX:
        found, expected = f"a layer of {widest} values", f"at most {WIDTH_MAX}"
    else:
        weights = sum(node.weights.size for node in graph.nodes if isinstance(node, Dense))
        if weights <= WEIGHTS_MAX:
            return OnnxImportError(
                "tensor-value",
                found="weights that overflow float64 when consecutive layers are combined",
                expected="finite weights",
            )
        found, expected = f"{weights} weights", f"at most {WEIGHTS_MAX}"
    return OnnxImportError("oversize", found=found, expected=expected, hint="train a smaller network")


def _refusal(node: Node, code: str, found: str, expected: str) -> OnnxImportError:
    name, _, operator = node.origin.rpartition(" (")
    return OnnxImportError(
        code,
        found=found,
        expected=expected,
        hint=_ADVICE.get(node.kind, "use dense layers, Relu and Clip; this path takes multi-layer perceptrons"),
        node=name,
        operator=operator.rstrip(")"),
    )
