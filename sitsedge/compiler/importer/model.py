"""From the bytes of a file to a checked ONNX graph: size, syntax, opsets, names, order, and which output is meant.

Nothing here looks at what a node computes; after it, every tensor a node reads has exactly one earlier producer.
"""

from __future__ import annotations

import stat
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.importer.limits import (
    FILE_BYTES_MAX,
    ML_OPSET_MAX,
    NAME_LENGTH_MAX,
    NODES_MAX,
    OPSET_MAX,
    OPSET_MIN,
    label,
    refuse,
    require,
    shown,
)
from sitsedge.compiler.importer.obstacles import grouped, unknown
from sitsedge.compiler.importer.registry import DEFAULT_DOMAINS, HOPELESS, ML_DOMAIN
from sitsedge.compiler.importer.wire import scan

_FLOAT_TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)


@dataclass(frozen=True, slots=True, eq=False)
class CheckedModel:
    """The graph with its opset, the nodes the chosen output needs, in file order, and what was left out."""

    graph: Any
    opset: int
    nodes: tuple[tuple[int, Any], ...]
    output: str
    n_file_nodes: int
    notes: tuple[str, ...]


def read_file(path: Path) -> bytes:
    """The bytes of an ONNX file within the size limit."""
    try:
        found = path.stat()
        require(found.st_size, FILE_BYTES_MAX, "bytes")
        if not stat.S_ISREG(found.st_mode):
            # A pipe that nobody writes to would keep us waiting, a device never ends.
            raise refuse("onnx-unreadable", f"{path}: no regular file", "a readable ONNX file")
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise refuse("onnx-unreadable", f"{path}: {error.strerror}", "a readable ONNX file") from error
    require(len(data), FILE_BYTES_MAX, "bytes")
    return data


def check_model(data: bytes, output: str | None) -> CheckedModel:
    """Parse and check ``data``; ``output`` names the graph output to compile where there are several."""
    require(len(data), FILE_BYTES_MAX, "bytes")
    scan(data, onnx.ModelProto.DESCRIPTOR)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise refuse("onnx-syntax", "bytes that are no protocol buffer", "an ONNX model") from error
    if not model.HasField("graph"):
        raise refuse("onnx-syntax", "a model without a graph", "an ONNX model")
    opset = _opset(model)
    _features(model)
    graph = model.graph
    producers = _producers(graph)
    _order(graph, producers)
    _advised(graph)
    chosen, notes = _output(graph, producers, output)
    nodes = tuple(_needed(graph, producers, chosen))
    n_file_nodes = sum(node.op_type != "Constant" for node in graph.node)
    return CheckedModel(graph, opset, nodes, chosen, n_file_nodes, notes)


def _opset(model: Any) -> int:
    opsets: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain in DEFAULT_DOMAINS else entry.domain
        # skl2onnx writes the default domain twice for some models; two equal lines leave nothing open.
        if opsets.get(domain, entry.version) != entry.version:
            found = f"domain {shown(domain) or 'ai.onnx'!r} imported as {opsets[domain]} and as {entry.version}"
            raise refuse("opset", found, "one version a domain")
        opsets[domain] = int(entry.version)
    version = opsets.get("")
    if version is None or not OPSET_MIN <= version <= OPSET_MAX:
        raise refuse(
            "opset",
            "no default opset" if version is None else f"opset {version}",
            f"default operator set {OPSET_MIN} to {OPSET_MAX}",
            f"export with opset_version={min(18, OPSET_MAX)}",
        )
    if not 1 <= opsets.get(ML_DOMAIN, 1) <= ML_OPSET_MAX:
        raise refuse("opset", f"{ML_DOMAIN} {opsets[ML_DOMAIN]}", f"{ML_DOMAIN} 1 to {ML_OPSET_MAX}")
    return version


def _features(model: Any) -> None:
    graph = model.graph
    for present, what, hint in (
        (model.functions, "model functions", "inline functions when exporting"),
        (model.training_info, "training information", "export for inference"),
        (graph.sparse_initializer, "sparse weights", "export dense weights"),
    ):
        if present:
            raise refuse("onnx-feature", what, "a plain inference graph", hint)
    require(len(graph.node), NODES_MAX, "nodes")


def _producers(graph: Any) -> dict[str, int]:
    """Index of the node making each tensor, -1 for inputs and initialisers; every name is defined once."""
    weights = {tensor.name for tensor in graph.initializer}
    # Up to IR version 3 every initialiser was listed as an input too.
    outside = [tensor.name for tensor in graph.initializer]
    outside += [value.name for value in graph.input if value.name not in weights]
    producers: dict[str, int] = {}
    for name in outside:
        _define(producers, name, -1)
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            try:
                _define(producers, name, index)
            except OnnxImportError as error:
                raise _named(error, index, node) from None
        _no_subgraph(index, node)
    return producers


def _define(producers: dict[str, int], name: str, index: int) -> None:
    if not name or len(name) > NAME_LENGTH_MAX or name in producers:
        raise refuse(
            "graph-name",
            f"tensor name {shown(name)!r} empty, too long or defined twice",
            f"unique names of 1 to {NAME_LENGTH_MAX} characters",
        )
    producers[name] = index


def _no_subgraph(index: int, node: Any) -> None:
    if any(a.HasField("g") or a.graphs or a.ref_attr_name for a in node.attribute):
        raise _named(
            refuse(
                "onnx-feature",
                "a node with a subgraph",
                "one flat graph",
                "If, Loop and Scan decide while running; export with the branch fixed and loops unrolled",
            ),
            index,
            node,
        )


def _advised(graph: Any) -> None:
    """A well-known operator that cannot be compiled is named before anything is said about inputs and outputs."""
    given = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    found = list(unknown(enumerate(graph.node), given))
    known = next((refused for refused in found if refused.operator in HOPELESS), None)
    if known is not None:
        inputs = (f"the input: {len(given)} input tensors, not one",) if len(given) > 1 else ()
        known.others = (*grouped([refused for refused in found if refused is not known]), *inputs)
        raise known


def _order(graph: Any, producers: Mapping[str, int]) -> None:
    """Every tensor a node reads must come from an input, a weight or an earlier node."""
    backwards = False
    for index, node in enumerate(graph.node):
        for name in filter(None, node.input):
            if name not in producers:
                raise _named(
                    refuse("graph-undefined", f"input {shown(name)!r}, which nothing makes", "a tensor of the graph"),
                    index,
                    node,
                )
            backwards = backwards or producers[name] >= index
    if not backwards:
        return
    cyclic = _in_cycle(graph, producers)
    if cyclic is not None:
        raise _named(
            refuse("graph-cycle", "a node that needs its own result", "a graph without cycles"),
            cyclic,
            graph.node[cyclic],
        )
    raise refuse(
        "graph-order",
        "nodes that read tensors of later nodes",
        "nodes in topological order, as ONNX demands",
        "run onnx.compose or the exporter's sort over the file",
    )


def _in_cycle(graph: Any, producers: Mapping[str, int]) -> int | None:
    """Index of a node that takes part in a cycle or hangs on one; None where there is no cycle (Kahn's algorithm)."""
    waits = [0] * len(graph.node)
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(graph.node):
        for name in filter(None, node.input):
            if producers[name] >= 0:
                waits[index] += 1
                readers.setdefault(producers[name], []).append(index)
    ready = deque(index for index, count in enumerate(waits) if not count)
    while ready:
        for reader in readers.get(ready.popleft(), ()):
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    return next((index for index, count in enumerate(waits) if count), None)


def _output(graph: Any, producers: Mapping[str, int], wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """The tensor to compile and a note where outputs were left out.

    Classifiers of scikit-learn have a label and a probability output; the label follows from the probabilities.
    """
    names = [value.name for value in graph.output]
    for name in names:
        if name not in producers:
            raise refuse("graph-output", f"output {shown(name)!r}, which nothing makes", "a tensor of the graph")
    numeric: dict[str, str] = {}
    for value in graph.output:
        node = graph.node[producers[value.name]] if producers[value.name] >= 0 else None
        if node is not None and node.op_type == "ZipMap" and node.domain == ML_DOMAIN and len(node.input) == 1:
            numeric[value.name] = node.input[0]
        elif value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in _FLOAT_TYPES:
            numeric[value.name] = value.name
    if len(names) == 1 and not numeric:
        numeric = {names[0]: names[0]}
    candidates = [name for name in numeric if wanted in (None, name)]
    if len(candidates) != 1 or len(set(names)) != len(names):
        raise refuse(
            "graph-output",
            f"outputs {[shown(name) for name in names[:4]]}" if names else "no output",
            "one numeric output" if wanted is None else f"one output {shown(wanted)!r}",
            "concatenate several outputs into one vector, in the order of the limits file",
        )
    chosen = candidates[0]
    dropped = [shown(name) for name in names if name != chosen]
    notes = (f"outputs left out: {', '.join(dropped)}",) if dropped else ()
    return numeric[chosen], notes


def _needed(graph: Any, producers: Mapping[str, int], output: str) -> Iterable[tuple[int, Any]]:
    """Nodes the output depends on, in file order."""
    needed: set[int] = set()
    todo = [producers[output]]
    while todo:
        index = todo.pop()
        if index >= 0 and index not in needed:
            needed.add(index)
            todo.extend(producers[name] for name in graph.node[index].input if name)
    return ((index, graph.node[index]) for index in sorted(needed))


def _named(error: OnnxImportError, index: int, node: Any) -> OnnxImportError:
    error.node, error.operator = label(index, node), shown(node.op_type)
    return error
