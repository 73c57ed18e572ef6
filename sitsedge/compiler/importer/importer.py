"""ONNX file → float graph. Limits, names and order first, then one operator after the other, nothing executed.

Source of the operator semantics: ONNX operator specification, opset 28, and ai.onnx.ml 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.graph.float_graph import FloatGraph, Input, Shape
from sitsedge.compiler.importer import constants
from sitsedge.compiler.importer.builder import Builder, Data, Value, graph_shape
from sitsedge.compiler.importer.call import Call
from sitsedge.compiler.importer.limits import INPUTS_MAX, label, refuse, require, shown
from sitsedge.compiler.importer.model import CheckedModel, check_model, read_file
from sitsedge.compiler.importer.obstacles import lowering, require_importable
from sitsedge.compiler.importer.registry import DEFAULT_DOMAINS, QUANTISED
from sitsedge.compiler.importer.tensors import TensorReader, type_name

INPUT_TYPES = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16)


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """The graph before the passes, ONNX node counts and operators.

    ``counts``: nodes in the file, those the output needs ("dead code"), those that are not constant ("constant
    folding"); ``operators``: how many of each operator are left by then.
    """

    graph: FloatGraph
    counts: tuple[tuple[str, int], ...]
    operators: tuple[tuple[str, int], ...]


def import_graph(path: Path, *, output: str | None = None, input_shape: Shape | None = None) -> Imported:
    """Read the file at ``path``; weights may lie in other files of the same folder. See ``import_graph_bytes``."""
    return import_graph_bytes(read_file(path), folder=path.resolve().parent, output=output, input_shape=input_shape)


def import_graph_bytes(
    data: bytes, *, folder: Path | None = None, output: str | None = None, input_shape: Shape | None = None
) -> Imported:
    """Turn the bytes of an ONNX file into a float graph, or raise ``OnnxImportError``.

    ``folder`` is where external weights may lie (None forbids them), ``output`` names the output to compile where
    there are several, ``input_shape`` replaces the input's shape (batch included) where the file leaves sizes open.
    """
    # Overflow and NaN of hostile constants are refused where they arise; numpy need not warn about them.
    with np.errstate(all="ignore"):
        return _Importer(check_model(data, output), TensorReader(folder), input_shape).run()


class _Importer:
    def __init__(self, model: CheckedModel, reader: TensorReader, input_shape: Shape | None) -> None:
        self._model = model
        self._reader = reader
        self._weights: Mapping[str, Any] = {tensor.name: tensor for tensor in model.graph.initializer}
        given = {value.name for value in model.graph.input} - set(self._weights)
        require_importable(model.nodes, given, lambda: _input(model.graph, self._weights, input_shape))
        self._values: dict[str, Value] = {}
        source = _input(model.graph, self._weights, input_shape)
        self._values[source.name] = source
        node = Input(name=source.name, inputs=(), shape=graph_shape(source.shape), origin="input")
        self._builder = Builder([node])
        self._builder.reserve([source.name])

    def run(self) -> Imported:
        operators: Counter[str] = Counter()
        for index, node in self._model.nodes:
            with _naming(index, node):
                operators[shown(node.op_type)] += self._node(index, node)
        output = self._value(self._model.output)
        if not isinstance(output, Data) or len(self._builder.nodes) == 1:
            raise refuse("no-layer", "an output that is constant or the input itself", "a network")
        declared = next((v for v in self._model.graph.output if v.name == self._model.output), None)
        if declared is not None:
            _declared(declared, output.shape)
        output = self._builder.reshape(output, (output.size,))
        graph = FloatGraph(tuple(self._builder.nodes), output.name, tuple(self._builder.remembered), self._model.notes)
        needed = sum(node.op_type != "Constant" for _, node in self._model.nodes)
        counts = (("file", self._model.n_file_nodes), ("dead code", needed), ("constant folding", operators.total()))
        return Imported(graph, counts, tuple(sorted((+operators).items())))

    def _value(self, name: str) -> Value:
        """The value of a tensor name; weights are read when first needed."""
        if name not in self._values:
            self._values[name] = self._reader.read(self._weights[name], f"weight tensor {shown(name)!r}")
        return self._values[name]

    def _node(self, index: int, node: Any) -> bool:
        """Import one node; says whether it computes something (and is no constant)."""
        inputs = [self._value(name) if name else None for name in node.input]
        call = Call(node, self._model.opset, self._builder, self._reader, inputs)
        self._builder.origin = f"{label(index, node)} ({shown(node.op_type)})"
        self._builder.base = shown(node.output[0]) if node.output else f"#{index}"
        default = node.domain in DEFAULT_DOMAINS
        made: Value | list[Data]
        if default and node.op_type in constants.OTHERS:
            made = constants.OTHERS[node.op_type](call)
        elif default and constants.foldable(call):
            made = constants.fold(call)
        else:
            call.may_be_quantised = default and node.op_type in QUANTISED
            made = lowering(node)(call)
        call.done()
        results = made if isinstance(made, list) else [made]
        names = list(node.output)
        if any(names[len(results) :]) or not names:
            raise refuse("node-shape", f"{len(names)} outputs", f"{len(results)}", "only the first output is computed")
        self._values.update((name, value) for name, value in zip(names, results, strict=False) if name)
        return isinstance(results[0], Data)


@contextmanager
def _naming(index: int, node: Any) -> Iterator[None]:
    """Adds node and operator to a refusal that does not know them."""
    try:
        yield
    except OnnxImportError as refused:
        refused.node = refused.node or label(index, node)
        refused.operator = refused.operator or shown(node.op_type)
        raise


INPUTS_SHOWN = 4
"""Of several input tensors in a refusal."""


def _not_one(inputs: list[Any]) -> OnnxImportError:
    """No input tensor, or several, which are named: not all of them need be signals."""
    names = ", ".join(shown(value.name) for value in inputs[:INPUTS_SHOWN])
    more = ", …" if len(inputs) > INPUTS_SHOWN else ""
    return refuse(
        "graph-input",
        f"{len(inputs)} input tensors" + (f": {names}{more}" if inputs else ""),
        "one input tensor",
        "concatenate the signals into one vector, in the order of the limits file"
        # tf2onnx does this to the mean and variance of a Keras Normalization layer; the file has no values for them.
        "; an input named like a layer is a constant that the exporter lost: fold that layer into the weights"
        if inputs
        else "export the network, not only its constants",
    )


def _input(graph: Any, weights: Mapping[str, Any], override: Shape | None) -> Data:
    """Name and shape of the one data input."""
    inputs = [value for value in graph.input if value.name not in weights]
    if len(inputs) != 1:
        raise _not_one(inputs)
    value = inputs[0]
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.elem_type not in INPUT_TYPES:
        refusal = refuse(
            "graph-input",
            f"input {shown(value.name)!r} of type {type_name(tensor.elem_type)}",
            "a tensor of float16, float32 or float64",
            "feed real numbers; embeddings of integer tokens are not compiled",
        )
        reader = next(((i, node) for i, node in enumerate(graph.node) if value.name in node.input), None)
        if reader is not None:
            refusal.node, refusal.operator = label(*reader), shown(reader[1].op_type)
        raise refusal
    shape = _dims(tensor)
    if len(shape) > 1 and shape[0] is None:
        shape[0] = 1
    if override is not None:
        if len(override) != len(shape) or any(d not in (None, o) for d, o in zip(shape, override, strict=True)):
            raise refuse("graph-input", f"shape {list(override)} for {shape}", "a shape that fits the file's")
        shape = list(override)
    fixed = tuple(d for d in shape if d is not None and d > 0)
    if not 1 <= len(shape) <= 4 or len(fixed) != len(shape):
        raise refuse(
            "dynamic-shape",
            f"input {shown(value.name)!r} of shape {shape}",
            "shape [batch, n], [batch, channels, length], [batch, channels, height, width] or [n], only the batch open",
            "export with fixed sizes; only the batch may be symbolic",
        )
    if len(fixed) > 1 and fixed[0] != 1:
        raise refuse(
            "dynamic-shape",
            f"input {shown(value.name)!r} with a fixed batch of {fixed[0]}",
            "a batch of 1 or a symbolic batch",
            "export with batch size 1",
        )
    made = Data(value.name, fixed)
    require(made.size, INPUTS_MAX, "inputs")
    return made


def _dims(tensor: Any) -> list[int | None]:
    """Declared dimensions; None where one is open, which old exporters write as -1 or 0."""
    return [int(d.dim_value) if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim]


def _declared(value: Any, shape: Shape) -> None:
    """The file's own statement about the output must agree with what was computed."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return
    dims = _dims(value.type.tensor_type)
    if len(dims) != len(shape) or any(d not in (None, s) for d, s in zip(dims, shape, strict=True)):
        raise refuse(
            "graph-output",
            f"output {shown(value.name)!r} declared as {dims}",
            f"shape {list(shape)}, which the nodes compute",
            "the file contradicts itself; export it again",
        )
