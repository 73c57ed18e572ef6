"""Random networks over every operator the importer takes: each contains one named operator among others.

Small on purpose: a few dozen elements a value, so that ten thousand inputs go through the circuit in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from sitsedge.compiler.importer.registry import ML_OPERATORS, OPERATORS
from tests.sitsedge.compiler.importer.random_nets import Maker

NAMES = (*sorted(OPERATORS), *sorted(ML_OPERATORS))
"""Every operator, in the order the networks of ``wide_net`` go through."""

OPSET = 20
"""The first with Gelu."""

ELEMENTS_MOST = 160
FINAL = ("Softmax", "ArgMax", "LinearRegressor")
FIRST = ("Scaler",)
PICTURES = ("DepthToSpace", "SpaceToDepth")
SPATIAL = ("AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Pad", "QLinearConv")
BEFORE_OTHERS = (*PICTURES, *SPATIAL, "Split", "Slice")
"""Steps that need the input's own shape."""


class _Wide(Maker):
    """Steps by operator name; a step that does not fit the present shape changes nothing."""

    def __init__(self, rng: np.random.Generator, wanted: str) -> None:
        space = int(rng.integers(0, 3))
        if wanted in PICTURES:
            space = 2
        elif wanted in SPATIAL:
            space = int(rng.integers(1, 3))
        elif wanted in FIRST or wanted in ("Squeeze", "Unsqueeze"):
            space = 0
        sizes = [int(rng.integers(2, 5 if space == 2 else 7)) for _ in range(space)]
        shape = (1, int(rng.integers(2, 5)), *sizes)
        if wanted in PICTURES:
            shape = (1, 4, 2 * int(rng.integers(1, 3)), 2)
        super().__init__(rng, shape, opset=OPSET)

    @property
    def size(self) -> int:
        return math.prod(self.shape[1:])

    def channelwise(self) -> list[int]:
        return [self.shape[1], *(1,) * self.space]

    def step(self, name: str) -> None:
        one = _STEPS.get(name)
        if one is None:
            self.x = self.op(name, self.x)
        else:
            one(self)

    def unary(self, name: str, **attributes: object) -> None:
        self.x = self.op(name, self.x, **attributes)

    def with_constant(self, name: str) -> None:
        value = self.draw(*self.pick(self.channelwise(), (), self.shape[-1:]))
        self.x = self.op(name, self.x, value)

    def bounded(self, name: str) -> None:
        self.x = self.op(name, self.x, self.net.const(float(self.rng.normal())))

    def divide(self) -> None:
        self.x = self.op("Div", self.x, self.net.const(self.rng.uniform(0.5, 2, self.pick((), self.shape[-1:]))))

    def batch_norm(self) -> None:
        c = self.shape[1]
        values = [self.rng.uniform(0.5, 2, c), self.rng.normal(size=c), self.rng.normal(size=c)]
        self.x = self.op(
            "BatchNormalization", self.x, *(self.net.const(v) for v in (*values, self.rng.uniform(0.5, 2, c)))
        )

    def product(self) -> None:
        """By a constant, or a gate of the value's own."""
        if self.pick(True, False):
            self.with_constant("Mul")
        else:
            self.x = self.op("Mul", self.x, self.op("Sigmoid", self.x))

    def sum_of_three(self) -> None:
        self.x = self.op("Sum", self.x, self.op("Relu", self.x), self.op("Tanh", self.x))

    def doubled(self) -> None:
        if 2 * self.size <= ELEMENTS_MOST:
            self.x = self.op("Concat", self.op("Relu", self.x), self.x, axis=1)
            self.shape = (1, 2 * self.shape[1], *self.shape[2:])
        else:
            self.x = self.op("Concat", self.x, axis=1)

    def small_conv(self) -> None:
        if self.space:
            self.conv()

    def dense_step(self, name: str) -> None:
        if self.space:
            self.to_vector()
        out = int(self.rng.integers(2, 7))
        inputs = [self.x, self.draw(self.shape[1], out, scale=0.6)]
        self.x = self.op(name, *inputs, *([self.draw(out)] if name == "Gemm" and self.pick(True, False) else []))
        self.shape = (1, out)

    def to_vector(self) -> None:
        self.x = self.op("Flatten", self.x)
        self.shape, self.space = (1, self.size), 0

    def pooled(self, name: str) -> None:
        if not self.space:
            return
        kernel = [min(int(self.rng.integers(1, 4)), size) for size in self.shape[2:]]
        self.x = self.op(name, self.x, kernel_shape=kernel)
        self.shape = (*self.shape[:2], *(size - k + 1 for size, k in zip(self.shape[2:], kernel, strict=True)))

    def global_pool(self, name: str) -> None:
        if self.space:
            self.x = self.op(name, self.x)
            self.shape = (*self.shape[:2], *(1,) * self.space)

    def reduce(self, name: str) -> None:
        axis = int(self.rng.integers(1, len(self.shape)))
        self.x = self.op(name, self.x, self.net.ints(axis), keepdims=1)
        self.shape = (*self.shape[:axis], 1, *self.shape[axis + 1 :])

    def padded(self) -> None:
        """Padding is only taken in front of a convolution."""
        if not self.space:
            return
        around = [int(p) for p in self.rng.integers(0, 2, 2 * self.space)]
        begins, ends = around[: self.space], around[self.space :]
        self.x = self.op("Pad", self.x, self.net.ints(0, 0, *begins, 0, 0, *ends))
        self.shape = (*self.shape[:2], *(s + b + e for s, b, e in zip(self.shape[2:], begins, ends, strict=True)))
        self.conv()

    def prelu(self) -> None:
        self.x = self.op("PRelu", self.x, self.net.const(self.rng.uniform(0, 0.5, self.channelwise())))

    def clip(self) -> None:
        self.x = self.op("Clip", self.x, self.net.const(-0.7), self.net.const(1.5))

    def expand(self) -> None:
        if self.space or 3 * self.size > ELEMENTS_MOST:
            return
        self.x = self.op("Expand", self.op("Unsqueeze", self.x, self.net.ints(2)), self.net.ints(1, self.shape[1], 3))
        self.shape, self.space = (*self.shape, 3), 1

    def there_and_back(self) -> None:
        """Unsqueeze, something in between, Squeeze."""
        if self.space == 2:
            return
        x = self.op("Relu", self.op("Unsqueeze", self.x, self.net.ints(1)))
        self.x = self.op("Squeeze", x, self.net.ints(1))

    def reshaped(self) -> None:
        x = self.op("Sigmoid", self.op("Reshape", self.x, self.net.ints(1, self.size)))
        self.x = self.op("Reshape", x, self.net.ints(*self.shape))

    def transposed(self) -> None:
        if self.space:
            self.channels_last()

    def gathered(self) -> None:
        order = self.rng.permutation(self.shape[1])
        self.x = self.op("Gather", self.x, self.net.ints(*(int(i) for i in order)), axis=1)

    def split(self) -> None:
        if self.shape[1] > 1:
            half = self.shape[1] // 2
            first = self.op("Split", self.x, self.net.ints(half, self.shape[1] - half), axis=1, outputs=2)
            self.x = self.op("Concat", f"{first}.1", self.op("Tanh", first), axis=1)

    def blocks(self, name: str) -> None:
        if self.space != 2:
            return
        _, channels, height, width = self.shape
        if name == "DepthToSpace" and channels % 4 == 0:
            self.shape = (1, channels // 4, 2 * height, 2 * width)
        elif name == "SpaceToDepth" and height % 2 == 0 and width % 2 == 0:
            self.shape = (1, 4 * channels, height // 2, width // 2)
        else:
            return
        self.x = self.op(name, self.x, blocksize=2)

    def scale(self) -> str:
        return self.net.const(float(self.rng.choice([0.01, 0.02, 0.05])))

    def quantised(self) -> None:
        scale, zero = self.scale(), self.net.const(int(self.rng.integers(-20, 20)), np.int8)
        self.x = self.op("DequantizeLinear", self.op("QuantizeLinear", self.x, scale, zero), scale, zero)

    def integers(self, *shape: int) -> str:
        return self.net.const(self.rng.integers(-100, 100, shape), np.int8)

    def quantised_conv(self) -> None:
        if not self.space:
            return
        before, after, zero = self.scale(), self.scale(), self.net.const(0, np.int8)
        out, c = int(self.rng.integers(1, 4)), self.shape[1]
        kernel = [min(2, size) for size in self.shape[2:]]
        scales = self.net.const(self.rng.uniform(0.005, 0.01, out))
        zeros = self.net.const(np.zeros(out), np.int8)
        x = self.op("QuantizeLinear", self.x, before, zero)
        x = self.op("QLinearConv", x, before, zero, self.integers(out, c, *kernel), scales, zeros, after, zero)
        self.x = self.op("DequantizeLinear", x, after, zero)
        self.shape = (1, out, *(size - k + 1 for size, k in zip(self.shape[2:], kernel, strict=True)))

    def quantised_product(self) -> None:
        if self.space:
            self.to_vector()
        before, after, zero = self.scale(), self.scale(), self.net.const(0, np.int8)
        out = int(self.rng.integers(2, 6))
        x = self.op("QuantizeLinear", self.x, before, zero)
        x = self.op(
            "QLinearMatMul",
            x,
            before,
            zero,
            self.integers(self.shape[1], out),
            self.net.const(0.008),
            zero,
            after,
            zero,
        )
        self.x, self.shape = self.op("DequantizeLinear", x, after, zero), (1, out)

    def scaler(self) -> None:
        """First node only: it takes the model's input."""
        n = self.shape[1]
        offset, scale = self.rng.normal(size=n).tolist(), self.rng.uniform(0.5, 2, n).tolist()
        self.x = self.op("Scaler", self.x, domain="ai.onnx.ml", offset=offset, scale=scale)

    def regressor(self) -> None:
        n = self.shape[1]
        self.x = self.op(
            "LinearRegressor", self.x, domain="ai.onnx.ml", targets=2,
            coefficients=self.rng.normal(size=2 * n).tolist(), intercepts=self.rng.normal(size=2).tolist(),
        )  # fmt: skip
        self.shape = (1, 2)


def _named(method: Callable[[_Wide, str], None], *names: str) -> dict[str, Callable[[_Wide], None]]:
    def bound(name: str) -> Callable[[_Wide], None]:
        return lambda maker: method(maker, name)

    return {name: bound(name) for name in names}


_STEPS: dict[str, Callable[[_Wide], None]] = {
    "BatchNormalization": _Wide.batch_norm,
    "Cast": lambda maker: maker.unary("Cast", to=TensorProto.FLOAT),
    "Clip": _Wide.clip,
    "Concat": _Wide.doubled,
    "Conv": _Wide.small_conv,
    "DequantizeLinear": _Wide.quantised,
    "Div": _Wide.divide,
    "Elu": lambda maker: maker.unary("Elu", alpha=0.8),
    "Expand": _Wide.expand,
    "Flatten": _Wide.to_vector,
    "Gather": _Wide.gathered,
    "Gelu": lambda maker: maker.unary("Gelu", approximate=maker.pick("none", "tanh")),
    "HardSigmoid": lambda maker: maker.unary("HardSigmoid", alpha=0.3, beta=0.4),
    "LeakyRelu": lambda maker: maker.unary("LeakyRelu", alpha=float(maker.rng.uniform(0.01, 0.4))),
    "Mul": _Wide.product,
    "PRelu": _Wide.prelu,
    "Pad": _Wide.padded,
    "Pow": lambda maker: setattr(maker, "x", maker.op("Pow", maker.x, maker.net.const(2.0))),
    "QLinearConv": _Wide.quantised_conv,
    "QLinearMatMul": _Wide.quantised_product,
    "QuantizeLinear": _Wide.quantised,
    "Reshape": _Wide.reshaped,
    "Scaler": _Wide.scaler,
    "Slice": Maker.cut,
    "Split": _Wide.split,
    "Squeeze": _Wide.there_and_back,
    "Sum": _Wide.sum_of_three,
    "Transpose": _Wide.transposed,
    "Unsqueeze": _Wide.there_and_back,
    "LinearRegressor": _Wide.regressor,
    **_named(_Wide.with_constant, "Add", "Sub"),
    **_named(_Wide.bounded, "Min", "Max"),
    **_named(_Wide.dense_step, "Gemm", "MatMul"),
    **_named(_Wide.pooled, "AveragePool", "MaxPool"),
    **_named(_Wide.global_pool, "GlobalAveragePool", "GlobalMaxPool"),
    **_named(_Wide.reduce, "ReduceMax", "ReduceMean", "ReduceSum"),
    **_named(_Wide.blocks, "DepthToSpace", "SpaceToDepth"),
}
_INNER = tuple(name for name in NAMES if name not in (*FINAL, *FIRST))


def wide_net(seed: int, wanted: str) -> bytes:
    """A network of up to eight steps with the operator ``wanted`` in it; the same arguments give the same bytes."""
    rng = np.random.default_rng([seed, NAMES.index(wanted)])
    maker = _Wide(rng, wanted)
    if wanted in FIRST:
        maker.step(wanted)
    before, after = (int(n) for n in rng.integers(0, 3, 2))
    if wanted in BEFORE_OTHERS:
        before = 0
    for _ in range(before):
        maker.step(str(rng.choice(_INNER)))
    if wanted in _INNER:
        if wanted == "Expand" and maker.space:
            maker.to_vector()
            maker.dense_step("Gemm")
        if wanted == "Transpose" and not maker.space:
            maker.expand()
        maker.step(wanted)
    for _ in range(after):
        maker.step(str(rng.choice(_INNER)))
    _ending(maker, wanted)
    return maker.net.bytes(maker.x, ("N", maker.shape[1]) if wanted != "ArgMax" else None)


def _ending(maker: _Wide, wanted: str) -> None:
    """A dense layer, so that the network has weights and a flat output, and what may only come last."""
    maker.dense_step("Gemm")
    if maker.pick(True, False):
        maker.step(str(maker.rng.choice(["Relu", "Tanh", "LeakyRelu", "Clip", "Add"])))
    if wanted == "ArgMax":
        maker.x, maker.shape = maker.op("ArgMax", maker.x, axis=1), (1, 1)
    elif wanted in FINAL:
        if wanted == "LinearRegressor":
            maker.step(wanted)
        else:
            maker.x = maker.op("Softmax", maker.x, axis=1)
