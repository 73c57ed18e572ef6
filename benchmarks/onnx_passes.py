"""Node counts of ResNet-18 and MobileNetV2 before and after every pass, and the result beside ONNX Runtime.

    python -m benchmarks.onnx_passes [--size 224] [--onnxscript-python PYTHON] [--output json]

To be run from the repository's root. Both networks are built here with random weights (He et al., 2016, table 1;
Sandler et al., 2018, table 2), batch norm not folded, as a framework exports them for evaluation without constant
folding. With an environment that has onnxscript its optimiser runs over the same files; it is a yardstick, never a
dependency:

    python -m venv /tmp/peers/onnx && /tmp/peers/onnx/bin/pip install onnxscript
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sitsedge.compiler.graph.float_run import run
from sitsedge.compiler.importer import import_graph_bytes
from sitsedge.compiler.passes import multiplications, simplify
from tests.sitsedge.compiler.importer.models import mobilenet_v2, onnx_outputs, resnet18

NETWORKS: dict[str, Callable[[int], bytes]] = {"ResNet-18": resnet18, "MobileNetV2": mobilenet_v2}

_PEER = """
import sys, onnx, onnxscript.optimizer
print(len(onnxscript.optimizer.optimize(onnx.load(sys.argv[1])).graph.node))
"""


def measure(name: str, size: int, peer: str | None) -> dict[str, Any]:
    """Counts, times in seconds and the largest difference from ONNX Runtime relative to the largest output."""
    data = NETWORKS[name](size)
    started = time.perf_counter()
    imported = import_graph_bytes(data)
    read = time.perf_counter()
    graph, counts = simplify(imported.graph)
    done = time.perf_counter()
    x = np.random.default_rng(1).normal(size=(1, *graph.input.shape)).astype(np.float32).astype(np.float64)
    expected = onnx_outputs(data, x)
    return {
        "network": name,
        "size": size,
        "file": dict(imported.counts)["file"],
        "passes": [{"pass": c.name, "nodes": c.after} for c in counts],
        "kinds": dict(graph.counts()),
        "multiplications": multiplications(graph),
        "import_s": read - started,
        "passes_s": done - read,
        "difference": float(np.abs(run(graph, x) - expected).max() / np.abs(expected).max()),
        "onnxscript": _onnxscript(data, peer),
    }


def _onnxscript(data: bytes, python: str | None) -> int | None:
    if python is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        made = subprocess.run([python, "-c", _PEER, str(path)], capture_output=True, text=True, check=True)
    return int(made.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=224, help="height and width of the input")
    parser.add_argument("--onnxscript-python", help="interpreter of an environment with onnxscript")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    options = parser.parse_args()
    rows = [measure(name, options.size, options.onnxscript_python) for name in NETWORKS]
    if options.output == "json":
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        steps = " → ".join([str(row["file"]), *(f"{p['nodes']} ({p['pass']})" for p in row["passes"])])
        peer = "not given" if row["onnxscript"] is None else row["onnxscript"]
        print(f"{row['network']}, {row['size']} × {row['size']}: {steps}")
        print(f"  left: {', '.join(f'{kind} {count}' for kind, count in row['kinds'].items())}")
        print(f"  onnxscript's optimiser: {peer}; import {row['import_s']:.2f} s, passes {row['passes_s']:.2f} s")
        print(f"  largest difference from ONNX Runtime: {row['difference']:.1e} of the largest output")
    return 0


if __name__ == "__main__":
    sys.exit(main())
