"""The float network as the pipeline sees it: graph after the passes, and the chain of dense layers where it is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sitsedge.compiler.graph.float_graph import Conv, Dense, FloatGraph, Floats, Softmax
from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import Imported, import_graph, import_graph_bytes
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.passes import simplify
from sitsedge.compiler.quantiser.chains import network_of
from sitsedge.compiler.quantiser.lower import lower

RUN_ELEMENTS_MAX = 1 << 24
"""Elements of all values held at once while the float network runs over the calibration rows: 128 MiB."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedNetwork:
    """``graph`` computes flat ``n_outputs`` values from flat ``n_inputs``; ``chain`` is the same, or None.

    ``is_class``: the output is the index of a class. ``node_counts`` are those of the file, ``passes`` those after
    every pass that changed something.
    """

    graph: FloatGraph
    chain: FloatNetwork | None
    is_class: bool
    node_counts: tuple[tuple[str, int], ...]
    passes: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]

    @property
    def n_inputs(self) -> int:
        return self.graph.input.size

    @property
    def n_outputs(self) -> int:
        return self.graph.by_name()[self.graph.output].size

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the input and of every layer with weights, in order."""
        if self.chain is not None:
            return self.chain.sizes
        weighted = [node.size for node in self.graph.nodes if isinstance(node, Dense | Conv)]
        return (self.n_inputs, *weighted)

    def run(self, x: Floats) -> Floats:
        """Outputs (rows, outputs) in physical units for inputs (rows, inputs) in physical units."""
        at_once = max(1, RUN_ELEMENTS_MAX // sum(node.size for node in self.graph.nodes))
        parts = [run(self.graph, x[start : start + at_once]) for start in range(0, len(x), at_once)]
        return np.concatenate([part.reshape(len(part), -1) for part in parts]) if parts else np.zeros((0, 1))


def import_network(path: Path, *, n_outputs: int) -> ImportedNetwork:
    """Read and simplify the file at ``path``; ``n_outputs`` is how many outputs the limits file lists.

    A final softmax over several classes with one listed output is read as the index of the largest. Raises
    ``OnnxImportError``, and ``QuantiseError`` for what has no integer form.
    """
    return _network(import_graph(path), n_outputs)


def import_network_bytes(data: bytes, *, n_outputs: int) -> ImportedNetwork:
    """``import_network`` of the bytes of a file."""
    return _network(import_graph_bytes(data), n_outputs)


def _network(imported: Imported, n_outputs: int) -> ImportedNetwork:
    graph, passes = simplify(imported.graph)
    last = graph.by_name()[graph.output]
    is_class = last.kind == "ArgMax" or (isinstance(last, Softmax) and n_outputs == 1 < last.size)
    counts = tuple((step.name, step.nodes) for step in passes)
    chain = network_of(graph)
    if isinstance(last, Softmax) and is_class:
        graph = lower(graph, class_output=True)
    return ImportedNetwork(graph, chain, is_class, imported.operators, counts)
