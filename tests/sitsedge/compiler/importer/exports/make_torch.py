"""Makes the PyTorch exports beside this file (``torch-*.onnx``), with torch 1.13 of Debian 12 (python3-torch).

Small models with random weights, in the ways networks are usually written: view and flatten, dropout, batch norm left
unfolded, adaptive pooling, channel shuffle, activations as modules and as functions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.randn(6))
        self.register_buffer("deviation", torch.rand(6) + 0.5)
        self.layers = nn.Sequential(
            nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(12, 8), nn.Hardtanh(-1.0, 1.0), nn.Linear(8, 2),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.layers((x - self.mean) / self.deviation)


class Cnn1d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv1d(3, 8, 5, padding=2)
        self.b = nn.Conv1d(8, 8, 3, stride=2, dilation=2, groups=4)
        self.norm = nn.BatchNorm1d(8)
        self.out = nn.Linear(8 * 7, 3)

    def forward(self, x: Any) -> Any:
        x = F.avg_pool1d(F.leaky_relu(self.norm(self.a(x)), 0.1), 2, padding=1)
        x = torch.tanh(self.b(x))
        return self.out(x.view(x.size(0), -1))


class Block(nn.Module):
    """Inverted residual with hard-swish."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.Hardswish(),
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


class Cnn2d(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.blocks = nn.Sequential(Block(8, 16), Block(8, 16))
        self.out = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = self.blocks(self.stem(x))
        b, c, h, w = x.shape
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).reshape(b, c, h, w)
        x = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
        return F.softmax(self.out(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)), dim=1)


class Split(nn.Module):
    """Two branches by slices that join again, with tables."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(13, 2)

    def forward(self, x: Any) -> Any:
        left, right = x.chunk(2, dim=1)
        mean = x.mean(dim=1, keepdim=True)
        joined = torch.cat([torch.sigmoid(self.a(left)), F.elu(self.b(right)), mean], dim=1)
        return self.out(joined).clamp(min=-2.0, max=2.0) * 100.0


def save(name: str, model: nn.Module, *shape: int, dynamic: bool = True, **options: Any) -> None:
    path = Path(__file__).with_name(f"torch-{name}.onnx")
    axes = {"x": {0: "batch"}, "y": {0: "batch"}} if dynamic else None
    torch.onnx.export(
        model.eval(), torch.randn(1, *shape), str(path), input_names=["x"], output_names=["y"], dynamic_axes=axes,
        opset_version=options.pop("opset", 17), **options,
    )  # fmt: skip


unfolded = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
save("mlp", Mlp(), 6)
save("mlp-unfolded", Mlp(), 6, **unfolded)
save("cnn-1d", Cnn1d(), 3, 32)
save("cnn-1d-unfolded", Cnn1d(), 3, 32, **unfolded)
save("cnn-2d", Cnn2d(), 3, 16, 16)
save("cnn-2d-fixed-batch", Cnn2d(), 3, 16, 16, dynamic=False)
save("cnn-2d-unfolded", Cnn2d(), 3, 16, 16, opset=11, **unfolded)
save("split", Split(), 8)
