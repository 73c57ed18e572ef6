"""Random networks over the operators of the importer: pictures, series and vectors, with branches that join again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.sitsedge.compiler.importer.models import Net

Shape = tuple[int, ...]
ACTIVATIONS = ("relu", "relu6", "leaky", "sigmoid", "tanh", "hard-sigmoid", "hard-swish", "silu", "swish-parts")


class Maker:
    """A network under construction; ``x`` is its last value, of ``shape`` with ``space`` spatial axes."""

    def __init__(self, rng: np.random.Generator, shape: Shape, *, opset: int = 18) -> None:
        self.rng = rng
        self.space = len(shape) - 2
        self.shape = shape
        self.net = Net("N", *shape[1:], opset=opset)
        self.x = "x"

    def draw(self, *shape: int, scale: float = 1.0) -> str:
        return self.net.const(self.rng.normal(size=shape) * scale)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.net.op(kind, *inputs, **attributes)

    def activation(self) -> None:
        x = self.x
        match self.pick(*ACTIVATIONS):
            case "relu":
                self.x = self.op("Relu", x)
            case "relu6":
                self.x = self.op("Clip", x, self.net.const(0.0), self.net.const(6.0))
            case "leaky":
                self.x = self.op("LeakyRelu", x, alpha=0.1)
            case "sigmoid":
                self.x = self.op("Sigmoid", x)
            case "tanh":
                self.x = self.op("Tanh", x)
            case "hard-sigmoid":
                self.x = self.op("HardSigmoid", x, alpha=0.2, beta=0.5)
            case "hard-swish":
                self.x = self.op("HardSwish", x)
            case "silu":
                self.x = self.op("Mul", x, self.op("Sigmoid", x))
            case "swish-parts":
                gate = self.op("Clip", self.op("Add", x, self.net.const(3.0)), self.net.const(0.0), self.net.const(6.0))
                self.x = self.op("Div", self.op("Mul", x, gate), self.net.const(6.0))

    def affine(self) -> None:
        per_channel = (self.shape[1], *(1,) * self.space)
        kind = self.pick("Add", "Sub", "Mul", "BatchNormalization")
        if kind == "BatchNormalization":
            c = self.shape[1]
            values = [self.rng.uniform(0.5, 2, c), self.rng.normal(size=c), self.rng.normal(size=c)]
            self.x = self.op(kind, self.x, *(self.net.const(v) for v in (*values, self.rng.uniform(0.5, 2, c))))
        else:
            self.x = self.op(kind, self.x, self.draw(*self.pick(per_channel, (), self.shape[-1:])))

    def conv(self) -> None:
        c = self.shape[1]
        groups = self.pick(1, c)
        out = c * int(self.rng.integers(1, 3)) if groups == c else int(self.rng.integers(1, 6))
        kernel = [int(self.rng.integers(1, min(4, size + 1))) for size in self.shape[2:]]
        strides = [int(self.rng.integers(1, 3)) for _ in kernel]
        pads = [int(self.rng.integers(0, 2)) for _ in range(2 * self.space)]
        weights = self.draw(out, c // groups, *kernel, scale=0.7)
        inputs = [self.x, weights] + ([self.draw(out)] if self.pick(True, False) else [])
        self.x = self.op("Conv", *inputs, group=groups, strides=strides, pads=pads)
        self.shape = (1, out, *(
            (size + pads[i] + pads[i + self.space] - kernel[i]) // strides[i] + 1
            for i, size in enumerate(self.shape[2:])
        ))  # fmt: skip

    def residual(self) -> None:
        before, shape = self.x, self.shape
        if self.space:
            c = shape[1]
            ones = [1] * (2 * self.space)
            self.x = self.op("Conv", self.x, self.draw(c, c, *[3] * self.space, scale=0.4), pads=ones)
        self.activation()
        self.x = self.op(self.pick("Add", "Sub"), self.x, before)

    def gate(self) -> None:
        """Squeeze and excitation over positions, a product with a bounded value, or a square of a bounded one."""
        x, c = self.x, self.shape[1]
        if self.space and self.pick(True, False):
            squeezed = self.op("Conv", self.op("GlobalAveragePool", x), self.draw(c, c, *[1] * self.space))
            self.x = self.op("Mul", x, self.op("HardSigmoid", squeezed))
        elif self.pick(True, False):
            self.x = self.op("Mul", self.op("Tanh", x), x)
        else:
            self.x = self.op("Pow", self.op("Clip", x, self.net.const(-2.0), self.net.const(2.0)), self.net.const(2.0))

    def join(self) -> None:
        before = self.x
        self.activation()
        self.x = self.op("Concat", self.x, before, axis=1)
        self.shape = (1, 2 * self.shape[1], *self.shape[2:])

    def pool(self) -> None:
        kernel = [min(2, size) for size in self.shape[2:]]
        self.x = self.op(self.pick("MaxPool", "AveragePool"), self.x, kernel_shape=kernel)
        self.shape = (*self.shape[:2], *(size - k + 1 for size, k in zip(self.shape[2:], kernel, strict=True)))

    def channels_last(self) -> None:
        """A map on the last axis between two transposes, as Keras exports have it."""
        rank = 2 + self.space
        x = self.op("Transpose", self.x, perm=[0, *range(2, rank), 1])
        x = self.op("Relu", self.op("Add", x, self.draw(self.shape[1])))
        self.x = self.op("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)])

    def dense(self) -> None:
        out = int(self.rng.integers(1, 7))
        weights = self.draw(self.shape[1], out)
        self.x = self.op("Gemm", self.x, weights, self.draw(out)) if self.pick(True, False) else self.op(
            "MatMul", self.x, weights)  # fmt: skip
        self.shape = (1, out)

    def cut(self) -> None:
        if self.shape[1] > 1:
            self.x = self.op("Slice", self.x, self.net.ints(1), self.net.ints(100), self.net.ints(1))
            self.shape = (1, self.shape[1] - 1, *self.shape[2:])

    def flatten(self) -> None:
        pooled = self.pick(True, False)
        self.x = self.op("Flatten", self.op("GlobalAveragePool", self.x) if pooled else self.x)
        self.shape, self.space = (1, self.shape[1] if pooled else int(np.prod(self.shape))), 0


def random_net(seed: int) -> bytes:
    """A network of up to a dozen steps; the same seed gives the same bytes."""
    rng = np.random.default_rng(seed)
    space = int(rng.integers(0, 3))
    sizes = [int(rng.integers(5, 9)) for _ in range(space)]
    maker = Maker(rng, (1, int(rng.integers(2, 5)), *sizes))
    if maker.space:
        steps = (maker.conv, maker.conv, maker.affine, maker.activation, maker.residual, maker.join, maker.pool,
                 maker.channels_last, maker.cut, maker.gate)  # fmt: skip
        for _ in range(int(maker.rng.integers(1, 7))):
            if min(maker.shape[2:]) > 1:
                maker.pick(*steps)()
        maker.flatten()
    maker.dense()
    for _ in range(int(maker.rng.integers(0, 5))):
        maker.pick(maker.dense, maker.affine, maker.activation, maker.residual, maker.join, maker.cut, maker.gate)()
    return maker.net.bytes(maker.x, ("N", maker.shape[1]))
