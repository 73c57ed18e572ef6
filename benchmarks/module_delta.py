"""Bytes of whole bundles and of deltas, by what changed and by where the keys come from.

    python -m benchmarks.module_delta [--networks mill,64-128-64-8] [--keys ceremony,development]

Every network is built once and then again with: a rate in the limits file changed (same network, same circuit), the
biases of the last layer moved, the last layer's weights moved (each by about 5 %, as training on does), every weight
moved. With ``ceremony`` the keys of every circuit come from the same phase 1, as a publisher who keeps theirs has
them; with ``development`` every build draws keys of its own. What is printed was imported from the delta and has the
whole bundle's digest.
"""

from __future__ import annotations

import argparse
import itertools
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from onnx import helper, numpy_helper

from attest.proof import ceremony
from attest.proof.ceremony_folder import CeremonyFolder
from attest.proof.circuit import Curve
from sitsedge.compiler import build, compile_model
from sitsedge.modules import ModuleStore, PublisherTrust, make_delta

MILL = Path(__file__).resolve().parent.parent / "examples" / "rolling-mill"
ROWS = 600
MOVE = 0.05


@dataclass(frozen=True, slots=True)
class Sources:
    """What a module is built from."""

    onnx: Path
    calibration: Path
    limits: Path


def mill(folder: Path) -> Sources:
    """The rolling-mill example."""
    return Sources(MILL / "model.onnx", MILL / "calibration.csv", MILL / "limits.yaml")


def chain(sizes: tuple[int, ...], folder: Path) -> Sources:
    """A random ReLU network with inputs in [-1, 1] and rows to calibrate it on."""
    rng = np.random.default_rng(1)
    nodes, weights, source = [], [], "x"
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        weights += [
            numpy_helper.from_array((rng.normal(size=(inputs, outputs)) / inputs**0.5).astype(np.float32), f"W{i}"),
            numpy_helper.from_array(rng.normal(0, 0.1, outputs).astype(np.float32), f"b{i}"),
        ]
        last = i == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [source, f"W{i}", f"b{i}"], ["y" if last else f"z{i}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"z{i}"], [f"a{i}"]))
        source = f"a{i}"
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", sizes[0]])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", sizes[-1]])
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = Sources(folder / "model.onnx", folder / "rows.csv", folder / "limits.yaml")
    onnx.save(model, found.onnx)
    rows = rng.uniform(-1, 1, (ROWS, sizes[0]))
    names = [f"x{i}" for i in range(sizes[0])]
    found.calibration.write_text(
        "\n".join([",".join(names), *(",".join(f"{value:.3f}" for value in row) for row in rows)]) + "\n"
    )
    lines = ["version: 1", "inputs:"]
    lines += [f"  - {{name: {name}, unit: mm, scale: 0.001, range: [-1, 1], max_rate: 6}}" for name in names]
    lines += ["outputs:"]
    lines += [f"  - {{name: y{i}, unit: mm, scale: 0.001, limits: [-8, 8], max_rate: 6}}" for i in range(sizes[-1])]
    found.limits.write_text("\n".join(lines) + "\n")
    return found


def moved(kind: str, source: Sources, folder: Path) -> Sources:
    """The sources with what ``kind`` says changed."""
    rng = np.random.default_rng(2)
    if kind == "limits":
        limits = folder / "limits.yaml"
        limits.write_text(source.limits.read_text().replace("max_rate: 6}", "max_rate: 7}", 1))
        return Sources(source.onnx, source.calibration, limits)
    model = onnx.load(source.onnx)
    layers = [node for node in model.graph.node if node.op_type == "Gemm"]
    names = set(layers[-1].input[1:] if kind == "last" else layers[-1].input[2:])
    if kind == "all":
        names = {name for node in layers for name in node.input[1:]}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            value = numpy_helper.to_array(tensor)
            change = (1 + MOVE * rng.normal(size=value.shape)).astype(value.dtype)
            tensor.CopyFrom(numpy_helper.from_array(value * change, tensor.name))
    onnx.save(model, folder / "model.onnx")
    return Sources(folder / "model.onnx", source.calibration, source.limits)


class Keys:
    """Ceremonies of one phase 1, one for each circuit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._phase1: dict[int, Path] = {}
        self._made: dict[bytes, CeremonyFolder] = {}

    def of(self, source: Sources) -> CeremonyFolder:
        circuit = compile_model(source.onnx, source.calibration, source.limits).circuit
        if circuit not in self._made:
            power = ceremony.power_for(circuit)
            if power not in self._phase1:
                self._phase1[power] = self._folder / f"pot{power}"
                ceremony.new_phase1(self._phase1[power], curve=Curve.BN254, power=power)
                ceremony.contribute(self._phase1[power], name="publisher")
            made = CeremonyFolder.create(
                self._folder / f"c{len(self._made)}", circuit=circuit, phase1=self._phase1[power]
            )
            ceremony.contribute(made.transcript, name="publisher")
            self._made[circuit] = made
        return self._made[circuit]


def measure(name: str, keys: str, folder: Path) -> Iterator[str]:
    """Lines of a table."""
    signer = Ed25519PrivateKey.generate()
    trust = PublisherTrust((signer.public_key(),))
    source = mill(folder) if name == "mill" else chain(tuple(map(int, name.split("-"))), folder)
    ceremonies = Keys(folder) if keys == "ceremony" else None

    def make(sources: Sources, out: Path) -> None:
        made = None if ceremonies is None else ceremonies.of(sources)
        build(*(sources.onnx, sources.calibration, sources.limits), out, signer=signer, name="bench", ceremony=made)

    make(source, folder / "base")
    for kind in ("limits", "biases", "last", "all"):
        work = folder / kind
        work.mkdir()
        make(moved(kind, source, work), work / "new")
        begin = time.process_time()
        made = make_delta(work / "delta", base=folder / "base", new=work / "new", trust=trust)
        taken = time.process_time() - begin
        store = ModuleStore(work / "store", trust)
        store.import_bundle(folder / "base")
        begin = time.process_time()
        assert store.import_bundle(work / "delta") == made.module
        imported = time.process_time() - begin
        layers = ", ".join(f"{layer} {size:,}" for layer, (size, _) in made.patched.items())
        sizes = f"{made.whole:,} | {made.bytes:,}"
        yield f"| {name} | {keys} | {kind} | {sizes} | {layers} | {taken:.2f} | {imported:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="mill,64-128-64-8", help="mill, or sizes such as 64-128-64-8")
    parser.add_argument("--keys", default="ceremony,development", help="where keys come from")
    arguments = parser.parse_args()
    for name in arguments.networks.split(","):
        if name != "mill" and not re.fullmatch(r"\d{1,4}(-\d{1,4}){2,}", name):
            parser.error(f"--networks {name}: mill, or sizes such as 64-128-64-8")
    print("| network | keys | changed | whole | delta | patches | make, CPU s | import, CPU s |")
    for name in arguments.networks.split(","):
        for keys in arguments.keys.split(","):
            with tempfile.TemporaryDirectory() as scratch:
                for line in measure(name, keys, Path(scratch)):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
