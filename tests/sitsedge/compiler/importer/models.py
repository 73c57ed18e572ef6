"""ONNX models for tests: a small builder, one model an operator, random networks, ResNet-18 and MobileNetV2."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Floats = NDArray[np.float64]


class Net:
    """A graph under construction; ``op`` appends a node and returns the name of its first output."""

    def __init__(self, *shape: int | str, opset: int = 18, elem: int = TensorProto.FLOAT) -> None:
        self.shape, self.opset, self.elem = shape, opset, elem
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.dtype = np.float32 if elem == TensorProto.FLOAT else np.float64
        self.domains = {"": opset}

    def const(self, value: Any, dtype: Any = None) -> str:
        name = f"w{len(self.weights)}"
        array = np.asarray(value, dtype or self.dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, np.int64)

    def op(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        number = len(self.nodes)
        names = [f"t{number}"] + [f"t{number}.{i}" for i in range(1, outputs)]
        self.nodes.append(
            helper.make_node(kind, list(inputs), names, name=f"{kind.lower()}_{number}", domain=domain, **attributes)
        )
        if domain:
            self.domains.setdefault(domain, 1)
        return names[0]

    def model(self, output: str, shape: tuple[int | str, ...] | None = None) -> Any:
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", self.elem, list(self.shape))],
            [
                helper.make_tensor_value_info(output, self.elem, shape)
                if shape
                else helper.make_empty_tensor_value_info(output)
            ],
            self.weights,
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        # Type and shape of the output as onnx itself infers them; the importer must agree.
        return model if shape else onnx.shape_inference.infer_shapes(model, strict_mode=True)

    def bytes(self, output: str, shape: tuple[int | str, ...] | None = None) -> bytes:
        return bytes(self.model(output, shape).SerializeToString())


def onnx_outputs(data: bytes, rows: Floats, output: str | None = None) -> Floats:
    """ONNX Runtime on ``rows`` one by one, without its own graph optimiser; flattened per row."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    source = session.get_inputs()[0]
    dtype = np.float32 if source.type == "tensor(float)" else np.float64
    fixed = [d if isinstance(d, int) and d > 0 else 1 for d in source.shape]
    names = [output or session.get_outputs()[0].name]
    results = [session.run(names, {source.name: row.reshape(fixed).astype(dtype)})[0] for row in rows]
    return np.asarray([np.asarray(r, np.float64).reshape(-1) for r in results])


def _batch_norm(net: Net, x: str, channels: int, rng: np.random.Generator) -> str:
    parameters = (rng.uniform(0.5, 1.5, channels), rng.normal(size=channels) * 0.1,
                  rng.normal(size=channels) * 0.1, rng.uniform(0.5, 1.5, channels))  # fmt: skip
    return net.op("BatchNormalization", x, *(net.const(p) for p in parameters), epsilon=1e-5)


def _conv(net: Net, x: str, shape: tuple[int, ...], rng: np.random.Generator, **attributes: Any) -> str:
    spread = float(np.sqrt(2.0 / np.prod(shape[1:])))
    return net.op("Conv", x, net.const(rng.normal(size=shape) * spread), kernel_shape=list(shape[2:]), **attributes)


def resnet18(size: int = 64, seed: int = 0, classes: int = 1000) -> bytes:
    """ResNet-18 (He et al., 2016, table 1) in evaluation mode with random weights, batch norm not folded: 69 nodes."""
    rng = np.random.default_rng(seed)
    net = Net("N", 3, size, size)
    x = net.op("Relu", _batch_norm(net, _conv(net, "x", (64, 3, 7, 7), rng, strides=[2, 2], pads=[3] * 4), 64, rng))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    width = 64
    for stage, out in enumerate((64, 128, 256, 512)):
        for block in range(2):
            step = 2 if stage and not block else 1
            y = _conv(net, x, (out, width, 3, 3), rng, strides=[step, step], pads=[1] * 4)
            y = net.op("Relu", _batch_norm(net, y, out, rng))
            y = _batch_norm(net, _conv(net, y, (out, out, 3, 3), rng, pads=[1] * 4), out, rng)
            if step == 2:
                x = _batch_norm(net, _conv(net, x, (out, width, 1, 1), rng, strides=[2, 2]), out, rng)
            x, width = net.op("Relu", net.op("Add", y, x)), out
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    weights = net.const(rng.normal(size=(classes, 512)) * 0.05)
    return net.bytes(net.op("Gemm", x, weights, net.const(np.zeros(classes)), transB=1), ("N", classes))


MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, repeats, stride (Sandler et al., 2018, table 2)."""


def mobilenet_v2(size: int = 64, seed: int = 0, classes: int = 1000) -> bytes:
    """MobileNetV2 in evaluation mode with random weights, batch norm not folded."""
    rng = np.random.default_rng(seed)
    net = Net("N", 3, size, size)
    zero, six = net.const(0.0), net.const(6.0)

    def layer(x: str, shape: tuple[int, ...], *, clip: bool = True, **attributes: Any) -> str:
        made = _batch_norm(net, _conv(net, x, shape, rng, **attributes), shape[0], rng)
        return net.op("Clip", made, zero, six) if clip else made

    x, width = layer("x", (32, 3, 3, 3), strides=[2, 2], pads=[1] * 4), 32
    for expansion, out, repeats, stride in MOBILENET_V2:
        for repeat in range(repeats):
            step, hidden, y = stride if not repeat else 1, width * expansion, x
            if expansion != 1:
                y = layer(y, (hidden, width, 1, 1))
            y = layer(y, (hidden, 1, 3, 3), group=hidden, strides=[step, step], pads=[1] * 4)
            y = layer(y, (out, hidden, 1, 1), clip=False)
            x = net.op("Add", x, y) if step == 1 and width == out else y
            width = out
    x = layer(x, (1280, width, 1, 1))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    weights = net.const(rng.normal(size=(classes, 1280)) * 0.05)
    return net.bytes(net.op("Gemm", x, weights, net.const(np.zeros(classes)), transB=1), ("N", classes))


def checked(data: bytes) -> bytes:
    """``data`` if onnx's own checker and shape inference accept it."""
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    return data
