"""One small model an operator (and variant), each with data flowing through; shared by importer and pass tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.sitsedge.compiler.importer.models import Net

CASES: dict[str, bytes] = {}

RNG = np.random.default_rng(7)


def case(
    name: str, *shape: int | str, opset: int = 18, out: tuple[int | str, ...] | None = None
) -> Callable[[Callable[[Net], str]], None]:
    """Register ``make(net) -> output`` as the case ``name``."""

    def register(make: Callable[[Net], str]) -> None:
        net = Net(*shape, opset=opset)
        CASES[name] = net.bytes(make(net), out)

    return register


def unary(name: str, kind: str, *shape: int | str, opset: int = 18, **attributes: Any) -> None:
    case(name, *shape, opset=opset)(lambda net: net.op(kind, "x", **attributes))


def draw(*shape: int) -> Any:
    return RNG.normal(size=shape)


VECTOR, PICTURE, SERIES = ("N", 6), ("N", 4, 7, 6), ("N", 4, 9)

for kind in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus", "Neg", "Softmax"):
    unary(kind.lower(), kind, *VECTOR)
unary("softmax-11", "Softmax", *VECTOR, opset=11)
unary("softmax-picture-11", "Softmax", *PICTURE, opset=11, axis=1)
unary("leaky-relu", "LeakyRelu", *PICTURE, alpha=0.3)
unary("hard-sigmoid", "HardSigmoid", *VECTOR)
unary("hard-sigmoid-set", "HardSigmoid", *VECTOR, alpha=0.3, beta=0.4)
unary("elu", "Elu", *VECTOR, alpha=0.7)
unary("gelu", "Gelu", *VECTOR, opset=20)
unary("gelu-tanh", "Gelu", *VECTOR, opset=20, approximate="tanh")
unary("erf", "Erf", *VECTOR)
unary("clip-6", "Clip", *VECTOR, opset=9, min=-0.5, max=0.75)
case("clip", *VECTOR)(lambda n: n.op("Clip", "x", n.const(-0.5), n.const(0.75)))
case("clip-high-only", *VECTOR)(lambda n: n.op("Clip", "x", "", n.const(0.75)))
case("min", *VECTOR)(lambda n: n.op("Min", "x", n.const(0.5)))
case("max", *VECTOR)(lambda n: n.op("Max", n.const([0.5]), "x"))
case("prelu", *PICTURE)(lambda n: n.op("PRelu", "x", n.const(draw(4, 1, 1))))
case("prelu-one", *PICTURE)(lambda n: n.op("PRelu", "x", n.const([0.2])))

for kind in ("Add", "Sub", "Mul", "Div"):
    for where, shape in (("vector", (6,)), ("scalar", ()), ("row", (1, 6))):
        value = draw(*shape) + 3.0
        case(f"{kind.lower()}-{where}", *VECTOR)(lambda n, k=kind, v=value: n.op(k, "x", n.const(v)))
    if kind != "Div":
        case(f"{kind.lower()}-first", *VECTOR)(lambda n, k=kind: n.op(k, n.const(draw(6)), "x"))
    case(f"{kind.lower()}-channel", *PICTURE)(lambda n, k=kind: n.op(k, "x", n.const(draw(4, 1, 1) + 3)))
    case(f"{kind.lower()}-last-axis", *PICTURE)(lambda n, k=kind: n.op(k, "x", n.const(draw(6) + 3)))
    case(f"{kind.lower()}-each", *SERIES)(lambda n, k=kind: n.op(k, "x", n.const(draw(1, 4, 9) + 3)))
case("add-grows", *VECTOR)(lambda n: n.op("Add", "x", n.const(draw(1, 3, 6))))
case("add-values", *PICTURE)(lambda n: n.op("Add", n.op("Relu", "x"), "x"))
case("sub-values", *PICTURE)(lambda n: n.op("Sub", n.op("Relu", "x"), "x"))
case("add-broadcast-values", *PICTURE)(lambda n: n.op("Add", n.op("GlobalAveragePool", "x"), "x"))
case("mul-values", *PICTURE)(lambda n: n.op("Mul", n.op("Relu", "x"), "x"))
case("mul-gate", *PICTURE)(lambda n: n.op("Mul", n.op("GlobalAveragePool", "x"), "x"))
case("mul-gate-second", *SERIES)(lambda n: n.op("Mul", "x", n.op("GlobalAveragePool", "x")))
case("mul-positions", *PICTURE)(lambda n: n.op("Mul", "x", n.op("ReduceMean", "x", n.ints(1))))
case("pow-square", *PICTURE)(lambda n: n.op("Pow", "x", n.const(2.0)))
case("pow-one", *VECTOR)(lambda n: n.op("Relu", n.op("Pow", "x", n.const(1.0))))
case("sum-three", *VECTOR)(lambda n: n.op("Sum", "x", n.op("Relu", "x"), n.const(draw(6)), n.op("Tanh", "x")))

case("gemm", *VECTOR)(lambda n: n.op("Gemm", "x", n.const(draw(6, 3)), n.const(draw(3))))
case("gemm-turned", *VECTOR)(
    lambda n: n.op("Gemm", "x", n.const(draw(3, 6)), n.const(draw(1, 3)), transB=1, alpha=0.5, beta=2.0)
)
case("gemm-no-bias", *VECTOR)(lambda n: n.op("Gemm", "x", n.const(draw(6, 3))))
case("matmul", *VECTOR)(lambda n: n.op("MatMul", "x", n.const(draw(6, 3))))
case("matmul-vector", *VECTOR)(lambda n: n.op("MatMul", "x", n.const(draw(6))))
case("matmul-unbatched", 6)(lambda n: n.op("MatMul", "x", n.const(draw(6, 3))))
case("matmul-rows", *SERIES)(lambda n: n.op("MatMul", "x", n.const(draw(9, 5))))
case("matmul-left", *SERIES)(lambda n: n.op("MatMul", n.const(draw(3, 4)), "x"))
case("matmul-four-axes", *PICTURE)(lambda n: n.op("MatMul", "x", n.const(draw(6, 5))))

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "strided": {"strides": [2, 3]},
    "padded": {"pads": [1, 2, 0, 1]},
    "dilated": {"dilations": [2, 1], "pads": [2, 1, 2, 1]},
    "same-upper": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "same-lower": {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    "valid": {"auto_pad": "VALID"},
}
for name, attributes in CONVOLUTIONS.items():
    case(f"conv-{name}", *PICTURE)(
        lambda n, a=attributes: n.op("Conv", "x", n.const(draw(5, 4, 3, 2)), n.const(draw(5)), **a)
    )
case("conv-groups", *PICTURE)(lambda n: n.op("Conv", "x", n.const(draw(6, 2, 3, 3)), group=2))
case("conv-depthwise", *PICTURE)(lambda n: n.op("Conv", "x", n.const(draw(8, 1, 3, 3)), group=4, pads=[1] * 4))
case("conv-1d", *SERIES)(lambda n: n.op("Conv", "x", n.const(draw(5, 4, 3)), strides=[2], pads=[1, 0], dilations=[2]))
case("pad-conv", *PICTURE)(
    lambda n: n.op("Conv", n.op("Pad", "x", n.ints(0, 0, 1, 2, 0, 0, 0, 1)), n.const(draw(5, 4, 3, 3)), pads=[1] * 4)
)
case("pad-channels-last", "N", 5, 6, 3)(lambda n: n.op("Pad", "x", n.ints(0, 1, 2, 0, 0, 1, 0, 0)))
case("pad-series-channels-last", "N", 5, 3)(lambda n: n.op("Pad", "x", n.ints(0, 1, 0, 0, 2, 0)))

POOLS: dict[str, dict[str, Any]] = {
    "plain": {"kernel_shape": [3, 2]},
    "strided": {"kernel_shape": [3, 2], "strides": [2, 2]},
    "padded": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    "ceil": {"kernel_shape": [2, 4], "strides": [2, 3], "ceil_mode": 1},
    "same": {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
}
for name, attributes in POOLS.items():
    unary(f"max-pool-{name}", "MaxPool", *PICTURE, **attributes)
    unary(f"average-pool-{name}", "AveragePool", *PICTURE, **attributes)
unary("average-pool-count-pads", "AveragePool", *PICTURE, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
unary("max-pool-1d", "MaxPool", *SERIES, kernel_shape=[3], strides=[2])
unary("max-pool-dilated", "MaxPool", *PICTURE, kernel_shape=[2, 2], dilations=[2, 3])
unary("average-pool-1d", "AveragePool", *SERIES, kernel_shape=[3], pads=[1, 1])
for kind in ("GlobalAveragePool", "GlobalMaxPool"):
    unary(kind.lower(), kind, *PICTURE)
    unary(f"{kind.lower()}-1d", kind, *SERIES)
for kind in ("ReduceMean", "ReduceSum", "ReduceMax"):
    for label, axes, keep in (("space", (2, 3), 1), ("last", (-1,), 0), ("channel", (1,), 1), ("outer", (1, 3), 0)):
        case(f"{kind.lower()}-{label}", *PICTURE)(
            lambda n, k=kind, a=axes, d=keep: n.op(k, "x", n.ints(*a), keepdims=d)
        )
case("reduce-mean-noop-unused", *PICTURE)(
    lambda n: n.op("ReduceMean", "x", n.ints(2, 3), keepdims=1, noop_with_empty_axes=0)
)
unary("reduce-mean-13", "ReduceMean", *PICTURE, opset=13, axes=[2, 3], keepdims=0)

unary("flatten", "Flatten", *PICTURE)
case("flatten-0", *VECTOR)(lambda n: n.op("Relu", n.op("Flatten", "x", axis=0)))
unary("flatten-2", "Flatten", *PICTURE, axis=2)
unary("transpose", "Transpose", *PICTURE, perm=[0, 2, 3, 1])
unary("transpose-all", "Transpose", *SERIES)
case("reshape", *PICTURE)(lambda n: n.op("Reshape", "x", n.ints(0, -1, 2)))
case("squeeze", "N", 4, 1, 6)(lambda n: n.op("Squeeze", "x", n.ints(2)))
unary("squeeze-11", "Squeeze", "N", 4, 1, 6, opset=11, axes=[2])
case("unsqueeze", *VECTOR)(lambda n: n.op("Unsqueeze", "x", n.ints(1, -1)))
case("slice", *PICTURE)(lambda n: n.op("Slice", "x", n.ints(1, -2), n.ints(3, -100), n.ints(1, 3), n.ints(1, -2)))
unary("slice-9", "Slice", *PICTURE, opset=9, starts=[1], ends=[100], axes=[2])
case("gather", *PICTURE)(lambda n: n.op("Gather", "x", n.ints(2, 0, -1), axis=1))
case("gather-one", *PICTURE)(lambda n: n.op("Gather", "x", n.const(1, np.int64), axis=2))
case("split", *PICTURE)(lambda n: n.op("Concat", n.op("Split", "x", n.ints(3, 1), axis=1, outputs=2), "x", axis=1))
case("expand", "N", 4, 1)(lambda n: n.op("Expand", "x", n.ints(1, 1, 5)))
case("concat", *PICTURE)(lambda n: n.op("Concat", "x", n.op("Relu", "x"), axis=1))
case("concat-last", *PICTURE)(lambda n: n.op("Concat", "x", n.op("Relu", "x"), axis=-1))
case("concat-batch", *PICTURE)(lambda n: n.op("Concat", "x", n.op("Relu", "x"), axis=0))
unary("depth-to-space", "DepthToSpace", *PICTURE, blocksize=2)
unary("depth-to-space-crd", "DepthToSpace", *PICTURE, blocksize=2, mode="CRD")
unary("space-to-depth", "SpaceToDepth", "N", 3, 4, 6, blocksize=2)
unary("argmax", "ArgMax", *VECTOR, axis=1)
case("nothing", *VECTOR)(
    lambda n: n.op("Relu", n.op("Cast", n.op("Dropout", n.op("Identity", "x")), to=TensorProto.DOUBLE))
)
case("batch-norm", *PICTURE)(
    lambda n: n.op("BatchNormalization", "x", *(n.const(abs(draw(4)) + 0.2) for _ in range(4)), epsilon=1e-3)
)


@case("shape-chain", *PICTURE)
def _(net: Net) -> str:
    """view(x.size(0), -1) as PyTorch writes it."""
    batch = net.op("Unsqueeze", net.op("Gather", net.op("Shape", "x"), net.const(0, np.int64), axis=0), net.ints(0))
    return net.op("Reshape", "x", net.op("Concat", batch, net.ints(-1), axis=0))


@case("channel-shuffle", *PICTURE)
def _(net: Net) -> str:
    parts = net.op("Transpose", net.op("Reshape", "x", net.ints(1, 2, 2, 7, 6)), perm=[0, 2, 1, 3, 4])
    return net.op("Conv", net.op("Reshape", parts, net.ints(1, 4, 7, 6)), net.const(draw(4, 1, 3, 3)), group=4)


@case("hard-swish-decomposed", *PICTURE)
def _(net: Net) -> str:
    """x·relu6(x + 3)/6."""
    x = net.op("Conv", "x", net.const(draw(5, 4, 3, 3)))
    gate = net.op("Clip", net.op("Add", x, net.const(3.0)), net.const(0.0), net.const(6.0))
    return net.op("Div", net.op("Mul", x, gate), net.const(6.0))


@case("hard-swish-gate-scaled", *VECTOR)
def _(net: Net) -> str:
    gate = net.op("Clip", net.op("Add", "x", net.const(3.0)), net.const(0.0), net.const(6.0))
    return net.op("Mul", "x", net.op("Mul", gate, net.const(1 / 6)))


@case("hard-swish-by-hard-sigmoid", *VECTOR)
def _(net: Net) -> str:
    return net.op("Mul", net.op("HardSigmoid", "x", alpha=1 / 6, beta=0.5), "x")


@case("gelu-decomposed", *PICTURE)
def _(net: Net) -> str:
    """As PyTorch writes it before opset 20."""
    x = net.op("Conv", "x", net.const(draw(3, 4, 3, 3)))
    gate = net.op("Add", net.op("Erf", net.op("Div", x, net.const(2**0.5))), net.const(1.0))
    return net.op("Mul", net.op("Mul", x, gate), net.const(0.5))


@case("gelu-gate-halved", *VECTOR)
def _(net: Net) -> str:
    gate = net.op("Add", net.op("Erf", net.op("Mul", "x", net.const(0.5**0.5))), net.const(1.0))
    return net.op("Mul", net.op("Mul", gate, net.const(0.5)), "x")


@case("silu", *VECTOR)
def _(net: Net) -> str:
    return net.op("Mul", "x", net.op("Sigmoid", "x"))


@case("keras-channels-last", "N", 8, 6, 3)
def _(net: Net) -> str:
    """As tf2onnx writes it: transpose, convolve, transpose back, dense on the channels-last flattening."""
    x = net.op("Transpose", net.op("Mul", "x", net.const([0.5, 0.25, 2.0])), perm=[0, 3, 1, 2])
    x = net.op("Transpose", net.op("Conv", x, net.const(draw(4, 3, 3, 3)), pads=[1] * 4), perm=[0, 2, 3, 1])
    x = net.op("Relu", net.op("Add", x, net.const(draw(4))))
    x = net.op("Reshape", net.op("ReduceMean", x, net.ints(1, 2), keepdims=1), net.ints(-1, 4))
    return net.op("Add", net.op("MatMul", x, net.const(draw(4, 2))), net.const(draw(2)))


@case("constants-computed", *VECTOR)
def _(net: Net) -> str:
    filled = net.op("ConstantOfShape", net.ints(6), value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2.5]))
    scaled = net.op("Div", net.op("Sqrt", filled), net.op("Expand", net.const([3.0]), net.ints(6)))
    return net.op("Mul", "x", net.op("Where", net.op("Equal", scaled, filled), filled, scaled))


@case("scaler", *VECTOR, out=("N", 6))
def _(net: Net) -> str:
    offset, scale = draw(6).tolist(), (abs(draw(6)) + 0.1).tolist()
    return net.op("Scaler", "x", domain="ai.onnx.ml", offset=offset, scale=scale)


@case("linear-regressor", *VECTOR, out=("N", 2))
def _(net: Net) -> str:
    return net.op(
        "LinearRegressor", "x", domain="ai.onnx.ml", targets=2,
        coefficients=draw(12).tolist(), intercepts=draw(2).tolist(),
    )  # fmt: skip


@case("constant-node", *VECTOR)
def _(net: Net) -> str:
    value = numpy_helper.from_array(np.asarray([1, 2, 3, 4, 5, 6], np.float32))
    return net.op("Add", "x", net.op("Constant", value=value))
