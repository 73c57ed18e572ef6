"""Trains the pump's anomaly network and writes model.onnx, calibration.csv, limits.yaml and rule.json.

    python -m examples.pump.train --data SKAB/data --out FOLDER       # from the root of the checkout; about 10 s

Reads anomaly-free.csv and the odd-numbered files; weights and threshold come from healthy rows only (all of
anomaly-free.csv, the first 400 of each odd-numbered file). ``--cross-validate`` scores every training file by a
network that has not seen it and prints the figures; the options in detector.py and here were chosen with it.
FOLDER must lie outside the repository: what is computed from SKAB (GPL-3.0) is not part of this project.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from pathlib import Path
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from examples.pump.dataset import FREE, Floats, Run, healthy, load_run, train_names
from examples.pump.detector import SEED, STEPS, Network, displaced, export, moved_healthy, train
from examples.pump.rule import Figures, Rule, figures, moving_average, write_rule
from examples.pump.signals import SIGNALS, limits_yaml
from sitsedge.errors import SitsError

FREE_EVERY: Final = 6
"""One in six rows of anomaly-free.csv trains: as many as four files, so that its one pump speed does not dominate."""

WINDOW: Final = 30
"""Half a minute of samples: a valve takes longer to close."""

HEALTHY_QUANTILE: Final = 0.98
"""The threshold is this quantile of the averaged scores of the training's own healthy rows."""

CALIBRATION_ROWS: Final = 2000
ROOT: Final = Path(__file__).resolve().parent.parent.parent


def healthy_runs(free: Run, runs: list[Run]) -> list[Floats]:
    """Healthy rows by recording, thinned as they train."""
    return [healthy_free(free)[::FREE_EVERY], *(healthy(run) for run in runs)]


def healthy_free(free: Run) -> Floats:
    """All rows of the recording without faults that have a number in each column."""
    return free.x[~np.isnan(free.x).any(axis=1)]


def threshold(network: Network, free: Run, runs: list[Run]) -> float:
    """The quantile over every healthy row, averaged within its own recording."""
    parts = [healthy_free(free), *(healthy(run) for run in runs)]
    return float(
        np.quantile(np.concatenate([moving_average(network.score(x), WINDOW) for x in parts]), HEALTHY_QUANTILE)
    )


def fit(free: Run, runs: list[Run], *, seed: int = SEED, steps: int = STEPS) -> tuple[Network, Rule]:
    """Network and rule from the healthy rows of these recordings."""
    network = train(np.concatenate(healthy_runs(free, runs)), seed=seed, steps=steps)
    return network, Rule(WINDOW, threshold(network, free, runs))


def cross_validate(free: Run, runs: list[Run], *, steps: int = STEPS) -> Figures:
    """All rows of each run, alarmed by a detector trained without that run."""
    pairs = []
    for held in runs:
        network, rule = fit(free, [run for run in runs if run is not held], steps=steps)
        pairs.append((rule.alarms(network.score(held.x)), held.faulty))
        one = figures(pairs[-1:])
        print(f"  {held.name:<14} F1 {one.f1:.2f}  FAR {one.far:5.1f} %  MAR {one.mar:5.1f} %", flush=True)
    return figures(pairs)


def write_calibration(rows: Floats, path: Path) -> None:
    """Half healthy, half displaced rows, drawn as in training (inside the sensors' ranges)."""
    rng = np.random.default_rng(SEED + 1)
    half = CALIBRATION_ROWS // 2
    drawn = np.empty((CALIBRATION_ROWS, len(SIGNALS)))
    drawn[0::2] = moved_healthy(rows, rng, half)[0]
    drawn[1::2] = displaced(rows, rng, half)
    drawn = np.clip(drawn, [s.low for s in SIGNALS], [s.high for s in SIGNALS])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([signal.tag for signal in SIGNALS])
        writer.writerows([f"{value:.6g}" for value in row] for row in drawn)


def write_all(data: Path, out: Path, *, steps: int = STEPS) -> Rule:
    """Train and write the four files. Raises RecordingError for unusable data, OSError for an unusable ``out``."""
    names = train_names(data)
    free = load_run(data, FREE, labelled=False)
    runs = [load_run(data, name) for name in names]
    network, rule = fit(free, runs, steps=steps)
    out.mkdir(parents=True, exist_ok=True)
    export(network, out / "model.onnx")
    write_calibration(np.concatenate(healthy_runs(free, runs)), out / "calibration.csv")
    (out / "limits.yaml").write_text(limits_yaml(), encoding="utf-8")
    write_rule(
        rule,
        out / "rule.json",
        quantile=HEALTHY_QUANTILE,
        seed=SEED,
        steps=steps,
        trained_on=[FREE, *(run.name for run in runs)],
        model_sha256=hashlib.sha256((out / "model.onnx").read_bytes()).hexdigest(),
    )
    return rule


def main(argv: list[str] | None = None) -> int:
    """Command line; 2 for wrong arguments or unusable data."""
    parser = argparse.ArgumentParser(prog="python -m examples.pump.train", description="train the pump's detector")
    parser.add_argument("--data", type=Path, required=True, help="SKAB's folder 'data'")
    parser.add_argument("--out", type=Path, help="folder for model.onnx, calibration.csv, limits.yaml, rule.json")
    parser.add_argument("--cross-validate", action="store_true", help="print figures on held-out training files")
    arguments = parser.parse_args(argv)
    if arguments.out is None and not arguments.cross_validate:
        parser.error("--out FOLDER, or --cross-validate")
    if arguments.out is not None and arguments.out.resolve().is_relative_to(ROOT):
        parser.error(f"--out {arguments.out}: a folder outside the repository, because SKAB's licence is another one")
    try:
        with threadpool_limits(limits=1):  # the order of floating-point sums must not depend on the machine's cores
            if arguments.cross_validate:
                runs = [load_run(arguments.data, name) for name in train_names(arguments.data)]
                total = cross_validate(load_run(arguments.data, FREE, labelled=False), runs)
                print(f"held-out training files: F1 {total.f1:.3f}  FAR {total.far:.1f} %  MAR {total.mar:.1f} %")
            if arguments.out is not None:
                rule = write_all(arguments.data, arguments.out)
                print(f"wrote {arguments.out}; alarm above {rule.threshold:.3f} over {rule.window} samples")
    except (SitsError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
