"""Strict ONNX import: one chain of dense layers with ReLU or Clip, everything else is refused by name.

Accepted (default operator domain, opsets 9 to 28): Gemm; MatMul with a constant right factor; Add, Sub, Mul,
Div with a constant; Relu; Clip; Identity; Constant. One input and one output tensor of shape [batch, n] or
[n] with a fixed n. Source of the operator semantics: ONNX operator specification, opset 28.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from sitsedge.compiler.errors import OnnxImportError
from sitsedge.compiler.fold import Chain
from sitsedge.compiler.network import FloatNetwork, Floats
from sitsedge.compiler.onnx_tensors import read_tensor

FILE_BYTES_MAX = 64 << 20
"""Largest ONNX file: the circuit of anything larger would exceed the circuit format's own 64 MiB."""

OPSET_MIN, OPSET_MAX = 9, 28
"""Below 9, Gemm needs explicit broadcasting; above 28 the semantics have not been reviewed."""

NODES_MAX = 4096
"""Most nodes of one graph: a chain of this length is no control network."""

_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_SUPPORTED = ("Gemm", "MatMul", *_ARITHMETIC, "Relu", "Clip", "Identity", "Constant")
_ADVICE = {
    "Sigmoid": "use Relu or Clip inside; leave a final Sigmoid out and move its threshold to the logit",
    "Tanh": "use Relu, or Clip to [-1, 1] (hard tanh)",
    "LeakyRelu": "use Relu",
    "Softmax": "leave it out and compare the logits",
    "Conv": "only dense layers are compiled; express a small convolution as one Gemm",
    "BatchNormalization": "fold it into the preceding layer when exporting (evaluation mode)",
    "Dropout": "export in evaluation mode, where Dropout vanishes",
    "Reshape": "feed and return tensors of shape [batch, n]",
    "Flatten": "feed and return tensors of shape [batch, n]",
    "Cast": "export the whole model in float32",
}


def import_onnx(path: Path) -> FloatNetwork:
    """Read the file at ``path``; see ``import_bytes``."""
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise _oversize(size)
        data = path.read_bytes()
    except OSError as error:
        raise OnnxImportError(
            "onnx-unreadable", found=f"{path}: {error.strerror}", expected="a readable ONNX file"
        ) from error
    return import_bytes(data)


def import_bytes(data: bytes) -> FloatNetwork:
    """Turn the bytes of an ONNX file into a float network, or raise ``OnnxImportError``."""
    if len(data) > FILE_BYTES_MAX:
        raise _oversize(len(data))
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise OnnxImportError(
            "onnx-syntax", found="bytes that are no protocol buffer", expected="an ONNX model"
        ) from error
    _check_model(model)
    return _Importer(model.graph).run()


def _oversize(size: int) -> OnnxImportError:
    return OnnxImportError("oversize", found=f"{size} bytes", expected=f"at most {FILE_BYTES_MAX} bytes")


def _check_model(model: Any) -> None:
    if not model.HasField("graph"):
        raise OnnxImportError("onnx-syntax", found="a model without a graph", expected="an ONNX model")
    opsets = {entry.domain or "ai.onnx": int(entry.version) for entry in model.opset_import}
    version = opsets.get("ai.onnx")
    if version is None or not OPSET_MIN <= version <= OPSET_MAX:
        raise OnnxImportError(
            "opset",
            found="no default opset" if version is None else f"opset {version}",
            expected=f"default operator set {OPSET_MIN} to {OPSET_MAX}",
            hint=f"export with opset_version={min(18, OPSET_MAX)}",
        )
    if model.functions or model.training_info or model.graph.sparse_initializer:
        raise OnnxImportError(
            "onnx-feature",
            found="model functions, training information or sparse weights",
            expected="a plain inference graph",
            hint="inline functions and export dense weights",
        )
    if len(model.graph.node) > NODES_MAX:
        raise OnnxImportError("oversize", found=f"{len(model.graph.node)} nodes", expected=f"at most {NODES_MAX} nodes")


class _Importer:
    """Walks the nodes in file order; ``current`` is the name of the one tensor that carries data."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._constants: dict[str, Floats] = {}
        self._names: set[str] = set()
        for tensor in graph.initializer:
            self._define(tensor.name)
            self._constants[tensor.name] = read_tensor(tensor, f"weight tensor {tensor.name!r}")
        self._current, width, self._rank = self._input()
        self._chain = Chain(width)
        self._operators: Counter[str] = Counter()

    def run(self) -> FloatNetwork:
        for index, node in enumerate(self._graph.node):
            try:
                self._node(node)
            except OnnxImportError as refused:
                # A nested read does not know its node; name it here once.
                refused.node = refused.node or node.name or f"#{index}"
                refused.operator = refused.operator or node.op_type
                raise
        outputs = [value.name for value in self._graph.output]
        if outputs != [self._current]:
            raise OnnxImportError(
                "graph-output",
                found=f"outputs {outputs[:4]}",
                expected=f"exactly the end of the chain, {self._current!r}",
                hint="the graph must be one chain without branches",
            )
        layers = self._chain.finish()
        self._operators.pop("Constant", None)
        return FloatNetwork(layers, tuple(sorted(self._operators.items())))

    def _define(self, name: str) -> None:
        if not name or name in self._names:
            raise OnnxImportError(
                "graph-name", found=f"tensor name {name!r} missing or defined twice", expected="unique names"
            )
        self._names.add(name)

    def _input(self) -> tuple[str, int, int]:
        """Name, width and rank of the single data input."""
        inputs = [value for value in self._graph.input if value.name not in self._constants]
        if len(inputs) != 1:
            raise OnnxImportError(
                "graph-input",
                found=f"{len(inputs)} input tensors",
                expected="one input tensor of shape [batch, n]",
                hint="concatenate the signals into one vector, in the order of the limits file",
            )
        value = inputs[0]
        self._define(value.name)
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or tensor.elem_type not in (
            onnx.TensorProto.FLOAT,
            onnx.TensorProto.DOUBLE,
        ):
            raise OnnxImportError(
                "graph-input", found=f"input {value.name!r} of another type", expected="a float32 or float64 tensor"
            )
        dims = list(tensor.shape.dim)
        if len(dims) not in (1, 2) or not dims[-1].HasField("dim_value") or dims[-1].dim_value < 1:
            raise OnnxImportError(
                "dynamic-shape",
                found=f"input {value.name!r} of rank {len(dims)} or without a fixed last dimension",
                expected="shape [batch, n] or [n] with a fixed n",
                hint="export with a fixed number of features; only the batch may be symbolic",
            )
        if len(dims) == 2 and dims[0].HasField("dim_value") and dims[0].dim_value != 1:
            raise OnnxImportError(
                "dynamic-shape",
                found=f"input {value.name!r} with a fixed batch of {dims[0].dim_value}",
                expected="a batch of 1 or a symbolic batch",
                hint="export with batch size 1",
            )
        return value.name, int(dims[-1].dim_value), len(dims)

    def _node(self, node: Any) -> None:
        operator = node.op_type
        if node.domain not in ("", "ai.onnx") or operator not in _SUPPORTED:
            raise OnnxImportError(
                "unsupported-operator",
                found=f"{node.domain + '.' if node.domain else ''}{operator}",
                expected=f"one of {', '.join(_SUPPORTED)}",
                hint=_ADVICE.get(operator, "rewrite the model with dense layers, Relu and Clip"),
            )
        if len(node.output) != 1:
            raise OnnxImportError("node-shape", found=f"{len(node.output)} outputs", expected="one output")
        attributes = self._attributes(node)
        if operator == "Constant":
            self._constant(node, attributes)
            return
        constants = [self._constants.get(name) for name in node.input]
        if operator == "Identity" and len(constants) == 1 and constants[0] is not None:
            self._define(node.output[0])
            self._constants[node.output[0]] = constants[0]
            return
        if list(node.input).count(self._current) != 1:
            raise OnnxImportError(
                "branch",
                found=f"inputs {list(node.input)[:4]}",
                expected=f"the current tensor {self._current!r} exactly once",
                hint="skip connections and parallel branches are not compiled",
            )
        self._operators[operator] += 1
        if operator == "Gemm":
            self._gemm(node, attributes)
        elif operator == "MatMul":
            self._dense(self._constant_input(node, 1, required=True), None)
        elif operator in _ARITHMETIC:
            self._arithmetic(node)
        elif operator == "Relu":
            self._chain.clamp(0.0, np.inf)
        elif operator == "Clip":
            self._clip(node, attributes)
        self._define(node.output[0])
        self._current = node.output[0]

    @staticmethod
    def _attributes(node: Any) -> dict[str, Any]:
        allowed = {
            "Gemm": {"alpha", "beta", "transA", "transB"},
            "Clip": {"min", "max"},
            "Constant": {"value", "value_float", "value_floats"},
        }.get(node.op_type, set())
        found = {attribute.name: attribute for attribute in node.attribute}
        if len(found) != len(node.attribute) or not set(found) <= allowed:
            raise OnnxImportError(
                "attribute",
                found=f"attributes {sorted(found)[:6]}",
                expected=f"only {sorted(allowed)}, each once" if allowed else "no attribute",
            )
        return found

    def _constant(self, node: Any, attributes: dict[str, Any]) -> None:
        self._define(node.output[0])
        if len(attributes) != 1 or node.input:
            raise OnnxImportError("attribute", found="not exactly one value", expected="one value")
        ((name, attribute),) = attributes.items()
        if name == "value":
            value = read_tensor(attribute.t, f"constant {node.output[0]!r}")
        else:
            value = np.asarray(attribute.f if name == "value_float" else list(attribute.floats), np.float64)
            if not np.all(np.isfinite(value)):
                raise OnnxImportError("tensor-value", found="NaN or infinity", expected="finite values")
        self._constants[node.output[0]] = value

    def _constant_input(self, node: Any, index: int, *, required: bool) -> Floats | None:
        """Constant at input ``index``; None when it is absent and not required."""
        name = node.input[index] if index < len(node.input) else ""
        if not name and not required:
            return None
        if name in self._names and name not in self._constants and name != self._current:
            raise OnnxImportError(
                "branch",
                found=f"input {index} is {name!r}, an earlier tensor of the chain",
                expected="a constant",
                hint="skip connections and parallel branches are not compiled",
            )
        if name not in self._constants:
            raise OnnxImportError(
                "not-constant",
                found=f"input {index} is {name!r}, which is computed or missing",
                expected="a constant of the file",
                hint="only the data may vary; weights must be initialisers or Constant nodes",
            )
        return self._constants[name]

    def _dense(self, matrix: Floats | None, offset: Floats | None) -> None:
        """Append a dense layer from ``matrix`` (width, outputs) as ONNX writes it."""
        if matrix is None or matrix.ndim != 2 or matrix.shape[0] != self._chain.width:
            raise OnnxImportError(
                "node-shape",
                found="no matrix" if matrix is None else f"weights of shape {list(matrix.shape)}",
                expected=f"shape [{self._chain.width}, outputs]",
            )
        outputs = int(matrix.shape[1])
        bias = np.zeros(outputs) if offset is None else self._row(offset, outputs)
        self._chain.affine(matrix.T.copy(), bias)

    def _row(self, value: Floats, width: int) -> Floats:
        """``value`` broadcast to (width,); refuses shapes that would change the data's shape."""
        flat = value.reshape(-1)
        leading = value.shape[:-1]
        if flat.size not in (1, width) or any(d != 1 for d in leading) or value.ndim > self._rank:
            raise OnnxImportError(
                "node-shape",
                found=f"a constant of shape {list(value.shape)}",
                expected=f"a scalar or shape [{width}]",
            )
        return np.array(np.broadcast_to(flat, (width,)))

    def _gemm(self, node: Any, attributes: dict[str, Any]) -> None:
        if node.input[0] != self._current or self._rank != 2:
            raise OnnxImportError(
                "node-shape", found="data that is not the first, two-dimensional factor", expected="data × weights"
            )
        alpha = float(attributes["alpha"].f) if "alpha" in attributes else 1.0
        beta = float(attributes["beta"].f) if "beta" in attributes else 1.0
        if ("transA" in attributes and attributes["transA"].i) or not np.isfinite([alpha, beta]).all():
            raise OnnxImportError(
                "attribute", found="transA set or alpha/beta not finite", expected="transA = 0 and finite factors"
            )
        matrix = self._constant_input(node, 1, required=True)
        offset = self._constant_input(node, 2, required=False)
        if matrix is not None and "transB" in attributes and attributes["transB"].i:
            matrix = matrix.T
        self._dense(None if matrix is None else alpha * matrix, None if offset is None else beta * offset)

    def _arithmetic(self, node: Any) -> None:
        if len(node.input) != 2:
            raise OnnxImportError("node-shape", found=f"{len(node.input)} inputs", expected="two inputs")
        data_first = node.input[0] == self._current
        width = self._chain.width
        constant = self._constant_input(node, 1 if data_first else 0, required=True)
        row = self._row(constant, width) if constant is not None else np.zeros(width)
        ones, zeros = np.ones(width), np.zeros(width)
        operator = node.op_type
        if operator == "Add":
            self._chain.scale(ones, row)
        elif operator == "Sub":
            self._chain.scale(ones, -row) if data_first else self._chain.scale(-ones, row)
        elif operator == "Mul":
            self._chain.scale(row, zeros)
        elif data_first and np.all(row != 0.0):
            with np.errstate(over="ignore"):
                self._chain.scale(1.0 / row, zeros)
        else:
            raise OnnxImportError(
                "node-shape", found="division by the data or by zero", expected="data divided by non-zero constants"
            )

    def _clip(self, node: Any, attributes: dict[str, Any]) -> None:
        if node.input[0] != self._current:
            raise OnnxImportError("node-shape", found="the data as a bound", expected="the data as first input")
        bounds = [-np.inf, np.inf]
        for index, name in enumerate(("min", "max")):
            value = self._constant_input(node, index + 1, required=False)
            if value is not None:
                bounds[index] = float(self._row(value, 1)[0])
            elif name in attributes:
                bounds[index] = float(attributes[name].f)
        if not bounds[0] < bounds[1]:
            raise OnnxImportError("attribute", found=f"bounds {bounds}", expected="min below max")
        self._chain.clamp(bounds[0], bounds[1])
