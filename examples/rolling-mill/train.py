"""Trains the rolling-mill network and writes model.onnx, calibration.csv and limits.yaml beside this file.

The network (8-16-16-2, ReLU) imitates a teacher that sees the strip before any sensor does
(`sitsedge.plant.teacher`); DAgger (Ross, Gordon, Bagnell, AISTATS 2011) lets it meet the states its own
mistakes lead to: each round runs the plant under the network so far, asks the teacher what it would have
done, and trains on everything gathered. Runs differ in seed, command delay, lost commands and dither.

    python examples/rolling-mill/train.py          # about two minutes; the same files again on the same machine
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from threadpoolctl import threadpool_limits

from sitsedge.plant.signals import INPUTS, OUTPUTS, Signal
from sitsedge.plant.simulate import Controller, Loop, PlantCell, run, simulate
from sitsedge.plant.stand import Measured
from sitsedge.plant.teacher import Teacher

Floats = NDArray[np.float64]

HERE = Path(__file__).resolve().parent
SEED = 510_000  # and upwards: no example and no test runs on a strip of the training
ROUNDS = 6
RUN_S = 40.0
SKIP_ROWS = 100  # the first second of a run: lock-on
# Each round: (command delay s, share of lost commands, dither of gap mm and trim %)
RUNS = (
    (0.010, 0.00, (0.00, 0.0)),
    (0.010, 0.02, (0.02, 0.05)),
    (0.010, 0.00, (0.04, 0.1)),
    (0.006, 0.02, (0.00, 0.0)),
    (0.014, 0.05, (0.02, 0.05)),
    (0.020, 0.00, (0.04, 0.1)),
)
DITHER_KEEP = 0.95  # per sample of 10 ms: wanders within 0.2 s, slower than the gap, faster than the monitor
# One standard deviation of normal running; divides the inputs and multiplies the outputs.
INPUT_SIGMA = np.array([0.032, 0.02, 0.25, 0.1, 9.5, 0.02, 3.0, 0.1])
OUTPUT_SIGMA = np.array([0.1, 0.15])
CLIP = OUTPUTS[0].high
CHECK_SEEDS = (901, 902, 903)
CALIBRATION_ROWS = 1800


class Network:
    """The float network in NumPy; callable as a controller."""

    def __init__(self, weights: list[Floats], biases: list[Floats]) -> None:
        self.weights = [np.asarray(w, dtype=np.float32).astype(np.float64) for w in weights]
        self.biases = [np.asarray(b, dtype=np.float32).astype(np.float64) for b in biases]

    def forward(self, x: Floats) -> Floats:
        """Rows of physical inputs to rows of physical outputs."""
        a = x / INPUT_SIGMA
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            a = np.maximum(a @ w + b, 0.0)
        return np.clip((a @ self.weights[-1] + self.biases[-1]) * OUTPUT_SIGMA, -CLIP, CLIP)

    def __call__(self, measured: Measured) -> tuple[float, float]:
        gap, trim = self.forward(np.array(measured)).tolist()
        return gap, trim


def gather(student: Network | None, *, seed: int, loop: Loop, dither: tuple[float, float]) -> tuple[Floats, Floats]:
    """One run under the student (or, in the first round, the teacher) with the teacher's labels."""
    cell = PlantCell(seed)
    teacher = Teacher()
    rng = np.random.default_rng(seed)
    wander = np.zeros(2)
    inputs: list[Measured] = []
    labels: list[tuple[float, float]] = []

    def controller(measured: Measured) -> tuple[float, float]:
        nonlocal wander
        label = teacher(cell.stand)
        inputs.append(measured)
        labels.append(label)
        wander = DITHER_KEEP * wander + np.sqrt(1 - DITHER_KEEP**2) * rng.standard_normal(2) * dither
        gap, trim = label if student is None else student(measured)
        return gap + float(wander[0]), trim + float(wander[1])

    for _ in run(controller, cell, seconds=RUN_S, loop=loop, seed=seed):
        pass
    return np.array(inputs)[SKIP_ROWS:], np.array(labels)[SKIP_ROWS:]


def train() -> Network:
    """DAgger; prints a line per round."""
    xs: list[Floats] = []
    ys: list[Floats] = []
    student: Network | None = None
    for number in range(ROUNDS):
        for k, (delay_s, lost, dither) in enumerate(RUNS):
            seed = SEED + number * len(RUNS) + k
            x, y = gather(student, seed=seed, loop=Loop(delay_s=delay_s, drop_probability=lost), dither=dither)
            xs.append(x)
            ys.append(y)
        last = number == ROUNDS - 1
        regressor = MLPRegressor(
            hidden_layer_sizes=(16, 16), alpha=1e-4, batch_size=512, learning_rate_init=3e-3,
            max_iter=60 if last else 25, random_state=SEED,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            regressor.fit(np.concatenate(xs) / INPUT_SIGMA, np.concatenate(ys) / OUTPUT_SIGMA)
        student = Network(regressor.coefs_, regressor.intercepts_)
        figures = [simulate(student, 30.0, seed).thickness_std_um() for seed in CHECK_SEEDS]
        print(f"round {number + 1}: {len(xs)} runs, thickness std {np.mean(figures):.2f} µm")
    assert student is not None
    return student


def export(network: Network, path: Path) -> None:
    """ONNX, float32, batch shape [1, 8]: scale, three Gemm with ReLU between, scale, clip to the outputs' limits."""
    assert {(signal.low, signal.high) for signal in OUTPUTS} == {(-CLIP, CLIP)}
    constants = {"input_scale": 1.0 / INPUT_SIGMA, "output_scale": OUTPUT_SIGMA}
    constants |= {"low": np.array(-CLIP), "high": np.array(CLIP)}
    nodes = [helper.make_node("Mul", ["x", "input_scale"], ["a0"], name="normalise")]
    current = "a0"
    for k, (w, b) in enumerate(zip(network.weights, network.biases, strict=True), start=1):
        constants |= {f"W{k}": w, f"b{k}": b}
        nodes.append(helper.make_node("Gemm", [current, f"W{k}", f"b{k}"], [f"z{k}"], name=f"dense_{k}"))
        current = f"z{k}"
        if k < len(network.weights):
            nodes.append(helper.make_node("Relu", [current], [f"a{k}"], name=f"relu_{k}"))
            current = f"a{k}"
    nodes.append(helper.make_node("Mul", [current, "output_scale"], ["raw"], name="denormalise"))
    nodes.append(helper.make_node("Clip", ["raw", "low", "high"], ["y"], name="limit"))
    graph = helper.make_graph(
        nodes,
        "rolling-mill",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, len(INPUTS)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, len(OUTPUTS)])],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in constants.items()],
    )
    model = helper.make_model(
        graph, producer_name="sitsedge-rolling-mill", opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def write_calibration(network: Network, path: Path) -> None:
    """Rows of normal running under the network, its first seconds, and running without it."""
    parts: list[Floats] = []
    plans: list[tuple[Controller | None, int]] = [(network, 0), (network, 1), (network, 2), (None, 3)]
    for controller, offset in plans:
        rows = simulate(controller, 45.0, SEED + 1000 + offset).measured
        parts.append(rows[:: len(rows) * len(plans) // CALIBRATION_ROWS])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([signal.name for signal in INPUTS])
        for row in np.concatenate(parts)[:CALIBRATION_ROWS]:
            writer.writerow([f"{value:.6g}" for value in row])


def write_limits(path: Path) -> None:
    """The limits file of the module: what `sitsedge.plant.signals` says, as YAML."""

    def line(signal: Signal, key: str) -> str:
        return (
            f'  - {{name: {signal.name}, unit: "{signal.unit}", scale: {signal.scale:g}, '
            f"{key}: [{signal.low:g}, {signal.high:g}], max_rate: {signal.max_rate:g}}}"
        )

    lines = [
        "# Written by train.py from sitsedge/plant/signals.py.",
        "# scale: physical value of one count; max_rate: physical units per second between two accepted commands.",
        "version: 1",
        "inputs:",
        *(line(signal, "range") for signal in INPUTS),
        "outputs:",
        *(line(signal, "limits") for signal in OUTPUTS),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    out: Path = parser.parse_args().out
    with threadpool_limits(limits=1):  # the order of floating-point sums must not depend on the machine's cores
        network = train()
        export(network, out / "model.onnx")
        write_calibration(network, out / "calibration.csv")
    write_limits(out / "limits.yaml")


if __name__ == "__main__":
    main()
