"""SKAB by its leaderboard's protocol: F1, false and missed alarm rate, float and integer, every file.

    python -m examples.pump.leaderboard --data SKAB/data --out FOLDER          # from the root of the checkout

The protocol (github.com/waico/SKAB, ``core/utils.py`` and ``core/metrics.py``): the first 400 rows of a file fit and
calibrate, all its other rows are scored against column ``anomaly``; true and false alarms are summed over all rows of
all files before F1, FAR and MAR are formed. Labels of the first 400 rows are not looked at (in ``other/2`` most of them
are anomalous). Here a window may reach back into those 400 rows, and never forward.

Three tables: one model per file; one model for all files from ``anomaly-free.csv`` alone; and that one model with each
file's own healthy mean subtracted from its readings. Every integer figure comes from the module that the product's
compiler emitted, run in its sandbox. FOLDER takes the models and must lie outside the repository.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort

from attest.errors import AttestError
from examples.pump.dataset import FREE, HEALTHY_ROWS, Floats, Run, load_run, numbered
from examples.pump.filter_bank import COLUMNS, MARGIN, WINDOW, FilterBank, fit, windows, write_model
from examples.pump.rule import Rule, figures
from examples.pump.score import Result, agreement, evaluate, table
from examples.pump.train import ROOT, healthy_free
from sitsedge.compiler import Compiled, compile_model
from sitsedge.errors import SitsError
from sitsedge.modules.limits import Limits
from sitsedge.replay.errors import RecordingError
from sitsedge.sandbox import Sandbox

ALARM: Final = Rule(1, 1.0)
"""The score is in units of its threshold, and each decides alone."""

MARGIN_ONE_MODEL: Final = 1.0
"""The margin of the one model for all files: its reach is a median over many stretches and not one stretch's own."""

CHOSEN_ON: Final = frozenset(
    f"{group}/{number}.csv"
    for group, numbers in (("valve1", range(10)), ("valve2", range(3)), ("other", range(1, 10)))
    for number in numbers
)
"""The files whose labels were looked at while windows, directions and margins were chosen."""

LOOKED_AT, HELD_OUT = "chosen on", "held out"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """One compiled detector: its float network, and how to run its module."""

    onnx: Path
    compiled: Compiled

    @property
    def limits(self) -> Limits:
        """The limits file it was compiled with."""
        return self.compiled.limits

    def float_scores(self, of_windows: Floats) -> Floats:
        """Scores (n,) of windows (n, sensors, 30) by ``model.onnx`` on ONNX Runtime."""
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(str(self.onnx), options, providers=["CPUExecutionProvider"])
        [scores] = session.run(None, {"x": np.ascontiguousarray(of_windows, dtype=np.float32)})
        return np.asarray(scores[:, 0], dtype=np.float64)

    def integer_scores(self, of_windows: Floats) -> Floats:
        """The same by the module in the sandbox; NaN where a reading is outside the ranges."""
        counts = np.rint(of_windows.reshape(len(of_windows), -1) / [signal.scale for signal in self.limits.inputs])
        low, high = self.limits.box
        inside = ((low <= counts) & (counts <= high)).all(axis=1)
        scores = np.full(len(of_windows), np.nan)
        sandbox = Sandbox.of(self.compiled)
        try:
            for k in np.flatnonzero(inside):
                [score] = sandbox.infer(counts[k].astype(np.int64).tolist())
                scores[k] = score * self.limits.outputs[0].scale
        finally:
            sandbox.close()
        return scores


def make(bank: FilterBank, healthy: Floats, folder: Path) -> Model:
    """Write the model's files to ``folder`` and compile them. Raises CompileError, OSError."""
    write_model(bank, healthy, folder)
    return Model(
        folder / "model.onnx",
        compile_model(folder / "model.onnx", folder / "calibration.csv", folder / "limits.yaml"),
    )


def first_rows(run: Run) -> Floats:
    """The first 400 rows, whatever their labels. Raises RecordingError where the watched sensors have none."""
    bad = np.flatnonzero(np.isnan(run.x[:HEALTHY_ROWS, COLUMNS]).any(axis=1))
    if bad.size or len(run.x) <= HEALTHY_ROWS:
        raise RecordingError(
            "training-row",
            file=str(run.path),
            line=(int(bad[0]) if bad.size else len(run.x)) + 2,
            found="a cell that is no number" if bad.size else "the end of the file",
            expected=f"{HEALTHY_ROWS} rows to fit, with a number for every watched sensor, and rows to score",
        )
    return run.x[:HEALTHY_ROWS]


def scored_part(run: Run) -> Run:
    """What the protocol scores: all rows after the first 400."""
    return Run(run.name, run.path, run.x[HEALTHY_ROWS:], run.faulty[HEALTHY_ROWS:])


def scored_windows(run: Run, *, shift: Floats | None = None) -> Floats:
    """The windows (n, sensors, 30) that end on the n scored rows; ``shift`` (sensors,) is added to the readings."""
    found = windows(run.x[HEALTHY_ROWS - WINDOW + 1 :])
    return found if shift is None else found + shift[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Float and integer over the same rows; ``constraints`` of each circuit."""

    title: str
    results: dict[str, Result]
    constraints: tuple[int, ...]

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "results": {name: result.as_data() for name, result in self.results.items()},
            "agreement": agreement(*self.results.values()),
            "constraints": [min(self.constraints), max(self.constraints)],
        }


Chosen = Callable[[Run], tuple[Model, Floats | None]]
"""Which model scores a file, and by how much its readings are shifted."""


def tabulate(title: str, runs: Sequence[Run], models: Chosen) -> Table:
    """Score all ``runs`` with float network and module, and count."""
    found = {run.name: (run, *models(run)) for run in runs}
    ways: dict[str, Callable[[Run], Floats]] = {
        "float": lambda part: _scores(*found[part.name], Model.float_scores),
        "integer (sandbox)": lambda part: _scores(*found[part.name], Model.integer_scores),
    }
    parts = [scored_part(run) for run in runs]
    results = {name: _with_halves(evaluate(parts, ALARM, way), parts) for name, way in ways.items()}
    return Table(title, results, tuple(model.compiled.artefacts.constraints for _, model, _ in found.values()))


def _scores(run: Run, model: Model, shift: Floats | None, way: Callable[[Model, Floats], Floats]) -> Floats:
    return way(model, scored_windows(run, shift=shift))


def _with_halves(result: Result, parts: Sequence[Run]) -> Result:
    """Two more groups: files whose labels were looked at, and files whose labels were not."""
    groups = dict(result.groups)
    for label, wanted in ((LOOKED_AT, True), (HELD_OUT, False)):
        pairs = [
            (alarms, part.faulty)
            for alarms, part in zip(result.alarms, parts, strict=True)
            if (part.name in CHOSEN_ON) is wanted
        ]
        if pairs:
            groups[label] = figures(pairs)
    return replace(result, groups=groups)


def per_file(runs: Sequence[Run], out: Path) -> Table:
    """The leaderboard's protocol: each file's own first 400 rows fit and calibrate its model."""
    return tabulate(
        f"one model per file, from its first {HEALTHY_ROWS} rows (margin {MARGIN:g})",
        runs,
        lambda run: (make(fit(first_rows(run)), first_rows(run), out / run.name.removesuffix(".csv")), None),
    )


def one_model(free: Run, runs: Sequence[Run], out: Path) -> tuple[Table, Table]:
    """One model from ``anomaly-free.csv``: as it is, and with each file's own mean in the place of that recording's."""
    healthy = healthy_free(free)
    bank = fit(healthy, margin=MARGIN_ONE_MODEL)
    model = make(bank, healthy, out / "anomaly-free")
    name = f"one model for all files, from {FREE} (margin {MARGIN_ONE_MODEL:g})"
    return (
        tabulate(name, runs, lambda run: (model, None)),
        tabulate(
            f"{name}, readings shifted by each file's own mean of its first {HEALTHY_ROWS} rows",
            runs,
            lambda run: (model, bank.centre - first_rows(run)[:, COLUMNS].mean(axis=0)),
        ),
    )


def always(runs: Sequence[Run]) -> float:
    """F1 of an alarm at every scored row: what any detector has to be compared with."""
    parts = [scored_part(run) for run in runs]
    return figures([(np.ones(len(part.faulty), dtype=np.bool_), part.faulty) for part in parts]).f1


def main(argv: list[str] | None = None) -> int:
    """Command line; 2 for wrong arguments or unusable files."""
    parser = argparse.ArgumentParser(prog="python -m examples.pump.leaderboard", description="SKAB's leaderboard")
    parser.add_argument("--data", type=Path, required=True, help="SKAB's folder 'data'")
    parser.add_argument("--out", type=Path, required=True, help="folder for the models, outside the repository")
    parser.add_argument("--json", type=Path, help="write the tables there as well")
    arguments = parser.parse_args(argv)
    for path in (arguments.out, arguments.json):
        if path is not None and path.resolve().is_relative_to(ROOT):
            parser.error(f"{path}: a path outside the repository, because SKAB's licence is another one")
    try:
        runs = [load_run(arguments.data, name) for name in numbered(arguments.data)]
        free = load_run(arguments.data, FREE, labelled=False)
        tables = [per_file(runs, arguments.out), *one_model(free, runs, arguments.out)]
        if arguments.json is not None:
            body = {"always_f1": round(always(runs), 4), "tables": [one.as_data() for one in tables]}
            arguments.json.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    except (SitsError, AttestError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(runs)} of the leaderboard's 34 files; an alarm at every scored row has F1 {always(runs):.3f}")
    for one in tables:
        data = one.as_data()
        print(f"\n{one.title}\n{table(one.results)}\ninteger against float: {data['agreement']}")
        print(f"constraints of a circuit: {' to '.join(map(str, data['constraints']))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
