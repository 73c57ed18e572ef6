"""Our prover beside its peers on the same network, in one run: CPU and wall time, and the ratios.

    python benchmarks/proof_peers.py [--network 8-16-16-2] [--count 20] [--output json]
        [--node-modules DIR] [--groth16py-python PYTHON] [--ezkl-python PYTHON] [--rapidsnark PROGRAM]

Peers are found where the options say, else in the usual places; one that is missing is named with the reason. They are
other processes from other environments, never dependencies (snarkjs, rapidsnark and groth16py are GPL-3.0):

    npm install --prefix /tmp/peers snarkjs          # then --node-modules /tmp/peers/node_modules
    python -m venv /tmp/peers/py && /tmp/peers/py/bin/pip install groth16py ezkl

snarkjs, rapidsnark and groth16py prove the very constraint system of our circuit file, exported as .r1cs and .wtns;
ezkl compiles the float form of the same network. Our prover makes the witness as well, the others read one. Ours is
measured with every kernel before and after the peers, and both series count; CPU time is that of the whole process with
all its threads (of the child process for rapidsnark, which reads its key each time), so the number of cores does not
matter much. Times are medians; ratios are peer / ours of CPU time, with the fastest and with the scalar kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from attest.proof import Curve, Groth16Prover, NativeVerifier, development_setup, key_hash
from attest.proof.circuit import decode
from attest.proof.prover import kernels
from attest.proof.r1cs import write_r1cs, write_wtns
from attest.proof.signals import to_signals
from sitsedge.bench.networks import NETWORKS, bench_inputs, bench_model
from sitsedge.compiler.backends.circuit.emit import emit_circuit
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.reference import IntegerModel

PEERS = Path(__file__).resolve().parent / "peers"
OURS = "sits"
WARM_UP = 3
OWN_ROUNDS = 10
"""Our proofs are short: so many for each of a peer's."""
PEER_S_MAX = 1800


@dataclass(frozen=True, slots=True)
class Result:
    """Median and least times in milliseconds of one program."""

    name: str
    cpu_ms_median: float
    cpu_ms_min: float
    wall_ms_median: float
    note: str = ""

    @classmethod
    def of(cls, name: str, cpu: list[float], wall: list[float], note: str = "") -> Result:
        return cls(name, statistics.median(cpu), min(cpu), statistics.median(wall), note)


class Missing(Exception):
    """A peer that cannot be measured; the text says why."""


class Ours:
    """Our prover with each kernel; times add up over the calls of :meth:`run`."""

    def __init__(self, model: IntegerModel, circuit: bytes) -> None:
        proving, verification = development_setup(circuit)
        self.model = model
        self.verifier = NativeVerifier(verification, vk_sha256=key_hash(verification))
        names = kernels(Curve.BN254.text)
        self.provers = {name: Groth16Prover(circuit, proving, kernel=name, threads=1) for name in names}
        self.times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}

    def run(self, count: int) -> None:
        for name, prover in self.provers.items():
            cpu, wall = self.times[name]
            for number, row in enumerate(bench_inputs(self.model, WARM_UP + count)):
                ctx = number.to_bytes(31, "big")
                started, before = time.perf_counter_ns(), time.process_time_ns()
                proven = prover.prove(row, ctx)
                used, ended = time.process_time_ns() - before, time.perf_counter_ns()
                self.verifier.verify(row, proven.outputs, ctx, proven.proof)
                if number >= WARM_UP:
                    cpu.append(used / 1e6)
                    wall.append((ended - started) / 1e6)

    def results(self) -> list[Result]:
        return [Result.of(f"{OURS} ({name})", *times, note="1 thread") for name, times in self.times.items()]


def write_system(model: IntegerModel, circuit: bytes, folder: Path) -> None:
    """circuit.r1cs, circuit.wtns and public.json of one input, for the provers of the same constraint system."""
    decoded, row, ctx = decode(circuit), bench_inputs(model, 1)[0], bytes(31)
    outputs = [int(value) for value in model.run(np.array(row))]
    proving, _ = development_setup(circuit)
    wires = Groth16Prover(circuit, proving).witness(row, ctx)
    signals = to_signals(row, outputs, ctx, n_public=len(row) + len(outputs) + 1, curve=decoded.curve)
    (folder / "circuit.r1cs").write_bytes(write_r1cs(decoded))
    (folder / "circuit.wtns").write_bytes(write_wtns(decoded, wires))
    (folder / "public.json").write_text(json.dumps([str(signal) for signal in signals]))


def write_network(model: IntegerModel, folder: Path) -> None:
    """network.onnx and input.json: the integer model in floats, counts divided by what an int8 scale stands for."""
    nodes, constants, current = [], [], "x"
    for i, layer in enumerate(model.layers):
        scale = 1 << int(layer.shift.max())
        names = [f"w{i}", f"b{i}"]
        values = (layer.columns().T / scale, layer.bias / (scale * 128))
        constants += [numpy_helper.from_array(v.astype(np.float32), n) for v, n in zip(values, names, strict=True)]
        nodes.append(helper.make_node("Gemm", [current, *names], [current := f"g{i}"]))
        if layer.activation == "relu":
            nodes.append(helper.make_node("Relu", [current], [current := f"r{i}"]))
    value = helper.make_tensor_value_info
    ends = (value("x", TensorProto.FLOAT, [1, model.n_inputs]), value(current, TensorProto.FLOAT, [1, model.n_outputs]))
    graph = helper.make_graph(nodes, "network", [ends[0]], [ends[1]], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "network.onnx"
    )
    row = [value / 128 for value in bench_inputs(model, 1)[0]]
    (folder / "input.json").write_text(json.dumps({"input_data": [row]}))


def run_script(name: str, command: list[str]) -> Result:
    """Runs a peer's script, which prints its times as the last line."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PEER_S_MAX, check=False)
    if done.returncode != 0:
        raise Missing(f"it failed: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1][:200]}")
    report = json.loads(done.stdout.strip().splitlines()[-1])
    size = f", proof {report['proof_bytes']} bytes" if "proof_bytes" in report else ""
    note = f"{report['version']}{size}{', ' + report['note'] if 'note' in report else ''}"
    return Result.of(name, report["cpu_ms"], report["wall_ms"], note)


def snarkjs(options: argparse.Namespace, folder: Path) -> Result:
    node = shutil.which("node")
    if node is None:
        raise Missing("Node.js is not installed")
    for modules in filter(None, (options.node_modules, os.environ.get("NODE_PATH"), "node_modules")):
        if (Path(modules) / "snarkjs" / "package.json").exists():
            script = str(PEERS / "snarkjs_peer.cjs")
            return run_script("snarkjs", [node, script, str(modules), str(folder), str(options.count)])
    raise Missing("no snarkjs in --node-modules, NODE_PATH or ./node_modules")


def rapidsnark(options: argparse.Namespace, folder: Path) -> Result:
    program = options.rapidsnark or shutil.which("rapidsnark")
    if program is None or shutil.which(program) is None:
        raise Missing("no program rapidsnark (--rapidsnark); no package registry carries it, it is built from source")
    if not (folder / "circuit.zkey").exists():
        raise Missing("it needs the proving key that snarkjs makes, and snarkjs is missing")
    files = [str(folder / name) for name in ("circuit.zkey", "circuit.wtns", "proof.json", "public-out.json")]
    cpu, wall = [], []
    for _ in range(WARM_UP + options.count):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([program, *files], check=True, capture_output=True, timeout=PEER_S_MAX)
        wall.append((time.perf_counter() - started) * 1e3)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)
    return Result.of("rapidsnark", cpu[WARM_UP:], wall[WARM_UP:], "with process start and reading of the key")


def python_peer(package: str, chosen: str | None, options: argparse.Namespace, folder: Path) -> Result:
    python = chosen or sys.executable
    probe = subprocess.run([python, "-c", f"import {package}"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise Missing(f"{python} cannot import {package} (--{package}-python)")
    return run_script(package, [python, str(PEERS / f"{package}_peer.py"), str(folder), str(options.count)])


def groth16py(options: argparse.Namespace, folder: Path) -> Result:
    return python_peer("groth16py", options.groth16py_python, options, folder)


def ezkl(options: argparse.Namespace, folder: Path) -> Result:
    return python_peer("ezkl", options.ezkl_python, options, folder)


def measure(options: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    model = bench_model(options.network)
    circuit = emit_circuit(graph_of(model)).data
    write_system(model, circuit, folder)
    write_network(model, folder)
    ours = Ours(model, circuit)
    ours.run(options.count * OWN_ROUNDS)
    found: list[Result] = []
    missing: dict[str, str] = {}
    for peer in (snarkjs, rapidsnark, groth16py, ezkl):
        say(f"{peer.__name__} …")
        try:
            found.append(peer(options, folder))
        except (Missing, OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
            missing[peer.__name__] = str(error)
    ours.run(options.count * OWN_ROUNDS)
    own = ours.results()
    fastest, scalar = own[0], next(result for result in own if "scalar" in result.name)
    ratios = {
        peer.name: {result.name: round(peer.cpu_ms_median / result.cpu_ms_median, 1) for result in (fastest, scalar)}
        for peer in found
    }
    constraints = len(decode(circuit).constraints)
    results = [asdict(result) for result in (*own, *found)]
    return {
        "network": options.network,
        "constraints": constraints,
        "results": results,
        "cpu_ratios": ratios,
        "missing": missing,
    }


def show(data: dict[str, Any]) -> None:
    print(f"{data['network']}, {data['constraints']} constraints, BN254; medians in milliseconds")
    print(f"{'':18}{'CPU':>10}{'least':>10}{'wall':>10}")
    for result in data["results"]:
        times = (result["cpu_ms_median"], result["cpu_ms_min"], result["wall_ms_median"])
        print(f"{result['name']:18}{''.join(f'{value:10.2f}' for value in times)}  {result['note']}")
    for peer, ratios in data["cpu_ratios"].items():
        print(f"{peer:18}" + ", ".join(f"{ratio:.1f} times {name}" for name, ratio in ratios.items()))
    for peer, reason in data["missing"].items():
        print(f"{peer:18}not measured: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default=NETWORKS[0], help="layer widths")
    parser.add_argument("--count", type=int, default=20, help="proofs of each peer")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    parser.add_argument("--node-modules", help="node_modules folder with snarkjs")
    parser.add_argument("--groth16py-python", help="interpreter of an environment with groth16py")
    parser.add_argument("--ezkl-python", help="interpreter of an environment with ezkl")
    parser.add_argument("--rapidsnark", help="rapidsnark's prover")
    options = parser.parse_args()
    if options.count < 1:
        parser.error("--count must be at least 1")
    with tempfile.TemporaryDirectory(prefix="proof-peers-") as folder:
        data = measure(options, Path(folder), lambda text: print(text, file=sys.stderr))
    if options.output == "json":
        print(json.dumps(data, indent=1))
    else:
        show(data)


if __name__ == "__main__":
    main()
