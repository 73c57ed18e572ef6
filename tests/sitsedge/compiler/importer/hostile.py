"""The negative corpus: one hostile or unsupported file a rule, with the refusal's code and the node it must name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from sitsedge.compiler.importer.limits import OPSET_MAX
from tests.sitsedge.compiler.importer.models import Net


@dataclass(frozen=True)
class Hostile:
    """Bytes, the code they must be refused with, and the operator that must be named (empty: the file as a whole)."""

    data: bytes
    code: str
    operator: str = ""


CORPUS: dict[str, Hostile] = {}


def plain() -> tuple[Net, str]:
    net = Net("N", 3)
    return net, net.op("Gemm", "x", net.const(np.ones((3, 2))), net.const([0, 0]))


def add(rule: str, data: bytes, code: str, operator: str = "") -> None:
    assert rule not in CORPUS
    CORPUS[rule] = Hostile(data, code, operator)


def model(rule: str, code: str, change: Callable[[Any], None], operator: str = "") -> None:
    """The plain model after ``change``."""
    net, out = plain()
    proto = net.model(out, ("N", 2))
    change(proto)
    add(rule, bytes(proto.SerializeToString()), code, operator)


def weights(rule: str, code: str, tensor: Any) -> None:
    def change(proto: Any) -> None:
        tensor.name = proto.graph.initializer[0].name
        proto.graph.initializer[0].CopyFrom(tensor)

    model(rule, code, change, "Gemm")


def net(
    rule: str, code: str, *shape: int | str, operator: str, opset: int = 18
) -> Callable[[Callable[[Net], str]], None]:
    """The network ``make`` builds on an input of ``shape``; the last node is the culprit."""

    def register(make: Callable[[Net], str]) -> None:
        made = Net(*shape, opset=opset)
        add(rule, made.bytes(make(made), ("N", "M")), code, operator)

    return register


def tensor(**fields: Any) -> Any:
    made = numpy_helper.from_array(np.ones((3, 2), np.float32))
    for name, value in fields.items():
        if name == "dims":
            made.dims[:] = value
        else:
            setattr(made, name, value)
    return made


def external(location: str, *, dims: tuple[int, ...] = (3, 2), **entries: str) -> Any:
    made = TensorProto(data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in ({"location": location} | entries).items():
        entry = made.external_data.add()
        entry.key, entry.value = key, value
    return made


def sparse(length: int) -> Any:
    """A tensor of ``length`` elements of which one is stored."""
    return helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]), helper.make_tensor("i", TensorProto.INT64, [1], [0]),
        [length],
    )  # fmt: skip


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited protocol buffer field."""
    length, size = b"", len(payload)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload


def nested(depth: int) -> bytes:
    """A graph in an attribute of a node of a graph …, ``depth`` times."""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


# The file
add("not-protobuf", b"\xff\xff\xff\xffnot an onnx file", "onnx-syntax")
add("empty", b"", "onnx-syntax")
add("truncated-field", field(7, b"abc")[:-1], "onnx-syntax")
add("group-wire-type", b"\x0b\x0c", "onnx-syntax")
add("endless-varint", b"\x08" + b"\xff" * 11, "onnx-syntax")
add("million-empty-nodes", field(7, field(1, b"") * 600_000), "oversize")
add("million-empty-strings", field(7, field(1, field(1, b"") * 600_000)), "oversize")
add("deep-nesting", nested(40), "oversize")
add("text-not-utf8", field(7, field(1, field(4, b"Rel\xff"))), "onnx-syntax")
add("packed-integers", field(7, field(5, field(7, b"\1" * (9 << 20)))), "oversize")
model("opset-missing", "opset", lambda m: m.ClearField("opset_import"))
model("opset-too-old", "opset", lambda m: m.opset_import[0].CopyFrom(helper.make_opsetid("", 8)))
model("opset-too-new", "opset", lambda m: m.opset_import[0].CopyFrom(helper.make_opsetid("", OPSET_MAX + 1)))
model("opset-in-two-versions", "opset", lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 17)))
model("ml-opset-too-new", "opset", lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 99)))
model("functions", "onnx-feature", lambda m: m.functions.add(name="f"))
model("training", "onnx-feature", lambda m: m.training_info.add())
model("sparse-weights", "onnx-feature", lambda m: m.graph.sparse_initializer.add())
model("too-many-nodes", "oversize", lambda m: m.graph.node.extend([helper.make_node("Relu", ["x"], ["q"])] * 5000))


# Names and order
def cycle(proto: Any) -> None:
    proto.graph.node[0].input[0] = "b"
    proto.graph.node.extend([helper.make_node("Relu", ["t0"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"])])


def backwards(proto: Any) -> None:
    proto.graph.node.insert(0, helper.make_node("Relu", ["t0"], ["a"]))


model("cycle", "graph-cycle", cycle, "Gemm")
model("self-loop", "graph-cycle", lambda m: m.graph.node.append(helper.make_node("Relu", ["s"], ["s"])), "Relu")
model("unsorted", "graph-order", backwards)
model("undefined-input", "graph-undefined", lambda m: m.graph.node[0].input.__setitem__(0, "nowhere"), "Gemm")
model("undefined-output", "graph-output", lambda m: setattr(m.graph.output[0], "name", "nowhere"))
model("duplicate-weight", "graph-name", lambda m: setattr(m.graph.initializer[1], "name", "w0"))
model("duplicate-value", "graph-name", lambda m: m.graph.node.append(helper.make_node("Relu", ["x"], ["t0"])), "Relu")
model("weight-shadows-value", "graph-name", lambda m: setattr(m.graph.initializer[1], "name", "t0"), "Gemm")
model("nameless-weight", "graph-name", lambda m: setattr(m.graph.initializer[1], "name", ""))
model("endless-name", "graph-name", lambda m: setattr(m.graph.initializer[1], "name", "n" * 1000))
model("two-inputs", "graph-input", lambda m: m.graph.input.append(
    helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 3])))  # fmt: skip
model("no-input", "graph-input", lambda m: (m.graph.node[0].input.__setitem__(0, "w0"), m.graph.input.pop()))
model("integer-input", "graph-input", lambda m: m.graph.input[0].CopyFrom(
    helper.make_tensor_value_info("x", TensorProto.INT32, ["N", 3])), "Gemm")  # fmt: skip
model("two-outputs", "graph-output", lambda m: m.graph.output.append(
    helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])))  # fmt: skip
model("no-output", "graph-output", lambda m: m.graph.output.pop())
model("wrong-declared-output", "graph-output", lambda m: m.graph.output[0].CopyFrom(
    helper.make_tensor_value_info("t0", TensorProto.FLOAT, ["N", 7])))  # fmt: skip
model("constant-output", "no-layer", lambda m: setattr(m.graph.output[0], "name", "w0"))

# Shapes of the input
for rule, dims, code in (
    ("dynamic-features", ["N", "features"], "dynamic-shape"),
    ("fixed-batch", [7, 3], "dynamic-shape"),
    ("scalar-input", [], "dynamic-shape"),
    ("rank-five", [1, 1, 1, 1, 3], "dynamic-shape"),
    ("huge-input", [1, 1 << 40], "oversize"),
):
    model(rule, code, lambda m, d=dims: m.graph.input[0].CopyFrom(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, d)))  # fmt: skip

# Tensors
weights("two-gigabyte-tensor", "tensor-size", tensor(dims=[1 << 20, 512]))
weights("exabyte-tensor", "tensor-size", tensor(dims=[1 << 40, 1 << 20]))
weights("negative-dimension", "tensor-size", tensor(dims=[-3, -2]))
weights("many-dimensions", "tensor-size", tensor(dims=[1] * 40))
weights("short-tensor", "tensor-size", tensor(raw_data=struct.pack("<5f", *range(5))))
weights("ragged-tensor", "tensor-size", tensor(raw_data=struct.pack("<6f", *range(6)) + b"\0"))
weights("no-data", "tensor-size", tensor(raw_data=b""))
weights("string-tensor", "tensor-type", tensor(data_type=TensorProto.STRING))
weights("unknown-type", "tensor-type", tensor(data_type=999))
weights("nan-weight", "tensor-value", numpy_helper.from_array(np.full((3, 2), np.nan, np.float32)))
weights("infinite-weight", "tensor-value", numpy_helper.from_array(np.full((3, 2), np.inf, np.float32)))
weights("integer-out-of-type", "tensor-value",
        TensorProto(data_type=TensorProto.INT8, dims=[3, 2], int32_data=[300] * 6))  # fmt: skip
for rule, place in (
    ("external-parent", "../secret"), ("external-absolute", "/etc/passwd"), ("external-deep", "a/b"),
    ("external-dot", ".."), ("external-empty", ""), ("external-missing", "absent.bin"),
    ("external-null-byte", "weights.bin\0"), ("external-endless-name", "w" * 5000), ("external-folder", "folder"),
    ("external-through-link", "linked/secret"), ("external-back-and-forth", "folder/../../secret"),
):  # fmt: skip
    weights(rule, "tensor-external", external(place))
weights("external-bad-offset", "tensor-external", external("weights.bin", offset="-1"))
weights("external-huge-length", "oversize", external("weights.bin", length="99999999999"))
weights("external-two-gigabytes", "tensor-size", external("weights.bin", dims=(1 << 29, 1)))
weights("external-short", "tensor-size", external("weights.bin", offset="1000000"))
weights("external-link", "tensor-external", external("link.bin"))
weights("external-pipe", "tensor-external", external("pipe.bin"))

add("million-external-entries", field(7, field(5, field(13, b"") * 600_000)), "oversize")


def types(depth: int) -> bytes:
    """A sequence of sequences of … as the type of a value."""
    kind = b""
    for _ in range(depth):
        kind = field(4, field(1, kind))
    return field(7, field(13, field(2, kind)))


add("deep-types", types(40), "oversize")
add("million-dimensions", field(7, field(5, field(1, b"\1" * (9 << 20)))), "oversize")
add("million-weights", field(7, field(5, b"") * 600_000), "oversize")
add("million-metadata", field(14, b"") * 600_000, "oversize")

# Operators
for kind in ("LSTM", "Resize", "LayerNormalization", "Mish", "Sign", "NoSuchOperator"):
    net(f"unsupported-{kind.lower()}", "unsupported-operator", "N", 3, operator=kind)(lambda n, k=kind: n.op(k, "x"))
net("foreign-domain", "unsupported-operator", "N", 3, operator="Relu")(
    lambda n: n.op("Relu", "x", domain="com.example")
)
net("inner-softmax", "unsupported-operator", "N", 3, operator="Softmax")(
    lambda n: n.op("Relu", n.op("Softmax", "x", axis=1))
)
net("unknown-attribute", "attribute", "N", 3, operator="Relu")(lambda n: n.op("Relu", "x", alpha=0.1))
net("attribute-type", "attribute", "N", 3, operator="LeakyRelu")(lambda n: n.op("LeakyRelu", "x", alpha=1))
net("attribute-infinite", "attribute", "N", 3, operator="LeakyRelu")(
    lambda n: n.op("LeakyRelu", "x", alpha=float("inf"))
)
net("transposed-data", "attribute", "N", 3, operator="Gemm")(
    lambda n: n.op("Gemm", "x", n.const(np.ones((3, 2))), transA=1)
)
net("clip-upside-down", "attribute", "N", 3, operator="Clip")(lambda n: n.op("Clip", "x", n.const(2.0), n.const(1.0)))
net("computed-bound", "not-constant", "N", 3, operator="Clip")(lambda n: n.op("Clip", "x", n.op("Relu", "x")))
net("computed-weights", "not-constant", "N", 3, operator="MatMul")(lambda n: n.op("MatMul", "x", "x"))
net("sum-of-nothing", "not-computed", "N", 3, operator="Sum")(lambda n: n.op("Add", "x", n.op("Sum")))
net("divided-by-data", "not-computed", "N", 3, operator="Div")(lambda n: n.op("Div", n.const([1.0]), "x"))
net("divided-by-zero", "node-shape", "N", 3, operator="Div")(lambda n: n.op("Div", "x", n.const([0.0])))
net("missing-weights", "node-shape", "N", 3, operator="MatMul")(lambda n: n.op("MatMul", "x"))
net("wrong-weights", "node-shape", "N", 3, operator="MatMul")(lambda n: n.op("MatMul", "x", n.const(np.ones((4, 2)))))
net("wrong-bias", "node-shape", "N", 3, operator="Gemm")(
    lambda n: n.op("Gemm", "x", n.const(np.ones((3, 2))), n.const([0, 0, 0]))
)
net("wrong-broadcast", "node-shape", "N", 3, operator="Add")(lambda n: n.op("Add", "x", n.const(np.ones(4))))
net("wrong-channels", "node-shape", "N", 3, 8, operator="Conv")(
    lambda n: n.op("Conv", "x", n.const(np.ones((2, 4, 3))))
)
net("wrong-groups", "node-shape", "N", 4, 8, operator="Conv")(
    lambda n: n.op("Conv", "x", n.const(np.ones((3, 2, 3))), group=2)
)
net("three-dimensional", "node-shape", "N", 3, 8, operator="Conv")(
    lambda n: n.op("Conv", n.op("Reshape", "x", n.ints(1, 3, 2, 2, 2)), n.const(np.ones((2, 3, 1, 1, 1))))
)
net("kernel-too-large", "node-shape", "N", 3, 8, operator="Conv")(
    lambda n: n.op("Conv", "x", n.const(np.ones((2, 3, 9))))
)
net("zero-stride", "attribute", "N", 3, 8, operator="MaxPool")(
    lambda n: n.op("MaxPool", "x", kernel_shape=[2], strides=[0])
)
net("huge-kernel", "node-shape", "N", 3, 8, operator="MaxPool")(lambda n: n.op("MaxPool", "x", kernel_shape=[1 << 40]))
net("huge-padding", "attribute", "N", 3, 8, operator="Conv")(
    lambda n: n.op("Conv", "x", n.const(np.ones((2, 3, 3))), pads=[1 << 40, 0])
)
net("negative-padding", "attribute", "N", 3, 8, operator="Conv")(
    lambda n: n.op("Conv", "x", n.const(np.ones((2, 3, 3))), pads=[-1, 0])
)
net("padding-bomb", "oversize", "N", 1 << 17, 1, 1, operator="Conv")(
    lambda n: n.op("Conv", "x", n.const(np.ones((1, 1 << 17, 1, 1))), pads=[1000] * 4)
)
net("window-bomb", "oversize", "N", 1, 500, 500, operator="MaxPool")(
    lambda n: n.op("MaxPool", "x", kernel_shape=[250, 250])
)
net("reshape-bomb", "node-shape", "N", 3, operator="Reshape")(lambda n: n.op("Reshape", "x", n.ints(1 << 40, 1 << 40)))
net("expand-bomb", "oversize", "N", 3, 1, operator="Expand")(lambda n: n.op("Expand", "x", n.ints(1, 3, 1 << 40)))
net("expand-bomb-constant", "oversize", "N", 3, operator="Expand")(
    lambda n: n.op("Add", "x", n.op("Expand", n.const([1.0]), n.ints(1 << 20, 1 << 20)))
)
net("constant-bomb", "oversize", "N", 3, operator="ConstantOfShape")(
    lambda n: n.op("Add", "x", n.op("ConstantOfShape", n.ints(1 << 40)))
)
net("tile-bomb", "unsupported-operator", "N", 3, operator="Tile")(
    lambda n: n.op("Add", "x", n.op("Tile", n.const([1.0]), n.ints(1 << 40)))
)
net("tile-bomb-of-data", "unsupported-operator", "N", 3, operator="Tile")(
    lambda n: n.op("Tile", "x", n.ints(1, 1 << 40))
)
net("gather-bomb", "oversize", "N", 3, operator="Gather")(
    lambda n: n.op("Add", "x", n.op("Gather", n.const(np.ones((2, 1 << 12))), n.const(np.zeros(1 << 11), np.int64)))
)
net("where-bomb", "oversize", "N", 3, operator="Where")(
    lambda n: n.op(
        "Add", "x", n.op("Where", n.const(np.ones((1 << 12, 1)), np.bool_), n.const(np.ones(1 << 12)), n.const([0.0]))
    )
)
net("fine-range-bomb", "oversize", "N", 3, operator="Range")(
    lambda n: n.op("Add", "x", n.op("Range", n.const(0.0), n.const(1e30), n.const(1e-30)))
)
net("endless-range-bomb", "constant", "N", 3, operator="Range")(
    lambda n: n.op("Add", "x", n.op("Range", n.const(0.0, np.float64), n.const(1e300, np.float64),
                                    n.const(1e-300, np.float64)))
)  # fmt: skip
net("sparse-constant", "attribute", "N", 3, operator="Constant")(
    lambda n: n.op("Add", "x", n.op("Constant", sparse_value=sparse(1 << 40)))
)
net("scale-bomb", "quantised", "N", 3, operator="DequantizeLinear")(
    lambda n: n.op(
        "Add",
        "x",
        n.op("DequantizeLinear", n.const(np.zeros((1 << 12, 1)), np.int8), n.const(np.ones(1 << 12)), axis=1),
    )
)


def doubling(n: Net, start: str, times: int = 40) -> str:
    for _ in range(times):
        start = n.op("Concat", start, start, axis=0)
    return start


net("doubling-bomb", "oversize", "N", 3, operator="Concat")(
    lambda n: n.op("Add", "x", n.op("ReduceProd", doubling(n, n.const(np.ones(4)))))
)
net("doubling-bomb-of-data", "oversize", "N", 3, operator="Concat")(lambda n: doubling(n, "x"))


@net("flood-of-constants", "oversize", "N", 3, operator="ConstantOfShape")
def _(n: Net) -> str:
    """Each is allowed, all of them are not."""
    x = "x"
    for _ in range(40):
        x = n.op("Add", x, n.op("ReduceProd", n.op("ConstantOfShape", n.ints(1 << 21))))
    return x


net("range-bomb", "oversize", "N", 3, operator="Range")(
    lambda n: n.op("Add", "x", n.op("Range", n.const(0, np.int64), n.const(1 << 50, np.int64), n.const(1, np.int64)))
)
net("broadcast-bomb", "oversize", "N", 3, operator="Mul")(
    lambda n: n.op("Add", "x", n.op("Mul", n.const(np.ones((1 << 12, 1))), n.const(np.ones(1 << 12))))
)
net("value-bomb", "oversize", "N", 1 << 12, 1, operator="Add")(
    lambda n: n.op("Add", "x", n.const(np.ones((1, 1 << 12))))
)


@net("value-flood", "oversize", "N", 1 << 11, 1, operator="Relu")
def _(n: Net) -> str:
    """Forty values of four million elements, all of them needed at the end."""
    x = n.op("Expand", "x", n.ints(1, 1 << 11, 1 << 11))
    return n.op("Sum", *(n.op("Relu", x) for _ in range(40)))


@net("comparison-flood", "oversize", "N", 1, 500, 500, operator="MaxPool")
def _(n: Net) -> str:
    x = "x"
    for _ in range(400):
        x = n.op("MaxPool", x, kernel_shape=[7, 7], pads=[3] * 4)
    return x


net("gather-outside", "node-shape", "N", 3, operator="Gather")(lambda n: n.op("Gather", "x", n.ints(3), axis=1))
net("axis-outside", "node-shape", "N", 3, operator="Gather")(lambda n: n.op("Gather", "x", n.ints(0), axis=2))
net("transpose-twice", "attribute", "N", 3, operator="Transpose")(lambda n: n.op("Transpose", "x", perm=[0, 0]))
net("slice-step-zero", "node-shape", "N", 3, operator="Slice")(
    lambda n: n.op("Slice", "x", n.ints(0), n.ints(1), n.ints(1), n.ints(0))
)
net("empty-result", "node-shape", "N", 3, operator="Slice")(
    lambda n: n.op("Slice", "x", n.ints(2), n.ints(1), n.ints(1))
)
net("squeeze-wide", "node-shape", "N", 3, operator="Squeeze")(lambda n: n.op("Squeeze", "x", n.ints(1)))
net("split-wrong", "node-shape", "N", 3, operator="Split")(
    lambda n: n.op("Split", "x", n.ints(1, 1), axis=1, outputs=2)
)
net("concat-ragged", "node-shape", "N", 3, 4, operator="Concat")(
    lambda n: n.op("Concat", "x", n.op("Slice", "x", n.ints(0), n.ints(2), n.ints(2)), axis=1)
)
net("cast-to-integer", "cast", "N", 3, operator="Cast")(lambda n: n.op("Cast", "x", to=TensorProto.INT32))
net("training-batch-norm", "attribute", "N", 3, 4, operator="BatchNormalization")(
    lambda n: n.op("BatchNormalization", "x", *(n.const(np.ones(3)) for _ in range(4)), training_mode=1)
)
net("negative-variance", "tensor-value", "N", 3, 4, operator="BatchNormalization")(
    lambda n: n.op("BatchNormalization", "x", *(n.const(np.full(3, v)) for v in (1, 1, 1, -1)))
)
net("wrong-batch-norm", "node-shape", "N", 3, 4, operator="BatchNormalization")(
    lambda n: n.op("BatchNormalization", "x", *(n.const(np.ones(2)) for _ in range(4)))
)
net("softmax-over-part", "node-shape", "N", 3, 4, operator="Softmax")(lambda n: n.op("Softmax", "x", axis=1))
net("pad-batch", "node-shape", "N", 3, 4, operator="Pad")(lambda n: n.op("Pad", "x", n.ints(1, 0, 0, 0, 0, 0)))
net("pad-reflect", "attribute", "N", 3, 4, operator="Pad")(
    lambda n: n.op("Pad", "x", n.ints(0, 0, 1, 0, 0, 1), mode="reflect")
)
net("pad-value", "attribute", "N", 3, 4, operator="Pad")(
    lambda n: n.op("Pad", "x", n.ints(0, 0, 1, 0, 0, 1), n.const(1.0))
)
net("max-pool-indices", "node-shape", "N", 3, 4, operator="MaxPool")(
    lambda n: n.op("MaxPool", "x", kernel_shape=[2], outputs=2)
)
net("quantised-arithmetic", "quantised", "N", 3, operator="Add")(
    lambda n: n.op("Add", n.op("QuantizeLinear", "x", n.const(0.1), n.const(0, np.int8)), n.const([1.0]))
)
net("quantised-scale-zero", "quantised", "N", 3, operator="QuantizeLinear")(
    lambda n: n.op("QuantizeLinear", "x", n.const(0.0), n.const(0, np.int8))
)
net("quantised-per-channel", "quantised", "N", 3, operator="QuantizeLinear")(
    lambda n: n.op("QuantizeLinear", "x", n.const([0.1, 0.2, 0.3]), n.const([0, 0, 0], np.int8))
)
net("dequantised-otherwise", "quantised", "N", 3, operator="DequantizeLinear")(
    lambda n: n.op("DequantizeLinear", n.op("QuantizeLinear", "x", n.const(0.1), n.const(0, np.int8)), n.const(0.2),
                   n.const(0, np.int8))
)  # fmt: skip
net("integer-division-by-zero", "constant", "N", 3, operator="Div")(
    lambda n: n.op("Reshape", "x", n.op("Div", n.ints(1, 3), n.ints(0, 1)))
)
net("subgraph", "onnx-feature", "N", 3, operator="Relu")(
    lambda n: n.op("Relu", "x", body=helper.make_graph([], "inner", [], []))
)
