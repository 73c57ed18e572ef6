"""Exports of the PyTorch on this machine, by both of its exporters; skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import import_graph
from sitsedge.compiler.passes import simplify

torch: Any = pytest.importorskip("torch", reason="PyTorch is no dependency; these tests try its exporters where it is")
if int(torch.__version__.split(".")[0]) < 2:
    pytest.skip("the dynamo exporter needs PyTorch 2", allow_module_level=True)
nn = torch.nn


def mlp() -> Any:
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 2)
    )  # fmt: skip


class Residual(torch.nn.Module):  # type: ignore[misc]
    """Convolutions with batch norm, squeeze and excitation, a residual sum, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 1), nn.Hardsigmoid()
        )  # fmt: skip
        self.last = nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 4 * 4, 5))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        y = self.second(x)
        return self.last(torch.relu(x + y * self.gate(y)))


NETWORKS = {"mlp": (mlp, (1, 6)), "residual": (Residual, (1, 3, 8, 8))}


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "legacy"])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_export_computes_what_pytorch_does(name: str, dynamo: bool, tmp_path: Path) -> None:
    if dynamo:
        pytest.importorskip("onnxscript", reason="the dynamo exporter writes ONNX with it")
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    model = make()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.3)
            module.running_var.uniform_(0.5, 2.0)
    model.eval()
    x = torch.randn(*shape)
    path = tmp_path / "export.onnx"
    torch.onnx.export(model, (x,), str(path), dynamo=dynamo, **({} if dynamo else {"opset_version": 17}))
    graph, _ = simplify(import_graph(path).graph)
    with torch.no_grad():
        wanted = model(x).numpy().reshape(1, -1)
    found = run(graph, x.numpy().astype(np.float64)).reshape(1, -1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * (1 + np.abs(wanted).max()))
