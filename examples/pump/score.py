"""F1, false and missed alarm rate on recordings the training never saw: float network and integer module.

    python -m examples.pump.score --data SKAB/data --model FOLDER --bundle BUNDLE --trust publisher.pub
    python -m examples.pump.score … --ledger STATE/ledger/device/ledger.db --journal STATE/run/replay-journal.csv

FOLDER is what ``train`` wrote. Without ``--ledger`` every even-numbered file is scored here; with it, the scores are
those that a deployment proved and recorded, for the files that its replay played. Run it from the root of the checkout.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attest.errors import AttestError
from examples.pump.dataset import GROUPS, Bools, Floats, Run, load_run, train_names, unseen_names
from examples.pump.rule import Figures, Rule, figures, read_rule
from examples.pump.scoring import (
    FloatScorer,
    IntegerScorer,
    ledger_scores,
    read_journal,
    scores_of_recording,
)
from sitsedge.errors import SitsError
from sitsedge.modules import PublisherTrust, read_bundle

Scorer = Callable[[Run], Floats]
LABEL_WIDTH = 15


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One way of scoring: alarms per run, and how many rows got no score."""

    figures: Figures
    groups: dict[str, Figures]
    files: dict[str, Figures]
    unscored: int
    alarms: list[Bools]
    scores: list[Floats]

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        groups = {name: one.as_data() for name, one in self.groups.items()}
        files = {name: one.as_data() for name, one in self.files.items()}
        return {**self.figures.as_data(), "unscored_rows": self.unscored, "groups": groups, "files": files}


def evaluate(runs: list[Run], rule: Rule, scorer: Scorer) -> Result:
    """Score every run, apply the rule within each, count over all rows."""
    scores = [scorer(run) for run in runs]
    alarms = [rule.alarms(values) for values in scores]
    pairs = list(zip(alarms, [run.faulty for run in runs], strict=True))
    groups = {}
    for group in GROUPS:
        chosen = [pair for pair, run in zip(pairs, runs, strict=True) if run.name.startswith(f"{group}/")]
        if chosen:
            groups[group] = figures(chosen)
    unscored = sum(int(np.isnan(values).sum()) for values in scores)
    files = {run.name: figures([pair]) for run, pair in zip(runs, pairs, strict=True)}
    return Result(figures(pairs), groups, files, unscored, alarms, scores)


def table(results: dict[str, Result]) -> str:
    """Columns side by side; one line per file and group, then all rows."""
    names = list(results)
    lines = [f"{'rows':<{LABEL_WIDTH}}" + "".join(f"{name:^30}" for name in names)]
    lines.append(" " * LABEL_WIDTH + f"{'F1':>8}{'FAR %':>10}{'MAR %':>10}  " * len(names))
    rows = [results[name].files | results[name].groups | {"all": results[name].figures} for name in names]
    for label in rows[0]:
        parts = [f"{one.f1:8.3f}{one.far:10.2f}{one.mar:10.2f}" for one in (row[label] for row in rows)]
        lines.append(f"{label:<{LABEL_WIDTH}}" + "  ".join(parts))
    lines.append(f"{'unscored':<{LABEL_WIDTH}}" + "  ".join(f"{results[name].unscored:>28}" for name in names))
    return "\n".join(lines)


def agreement(one: Result, other: Result) -> dict[str, float]:
    """How far two ways of scoring lie apart, over rows that both scored."""
    difference = np.concatenate([a - b for a, b in zip(one.scores, other.scores, strict=True)])
    difference = difference[~np.isnan(difference)]
    alarms = np.concatenate([a != b for a, b in zip(one.alarms, other.alarms, strict=True)])
    return {
        "rows_compared": len(difference),
        "score_difference_max": round(float(np.abs(difference).max(initial=0.0)), 4),
        "score_difference_rms": round(float(np.sqrt((difference**2).mean())) if len(difference) else 0.0, 4),
        "alarms_that_differ": int(alarms.sum()),
    }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything the arguments ask for; the result as data, the table under ``table``."""
    data: Path = arguments.data
    rule = read_rule(arguments.model / "rule.json")
    bundle = read_bundle(arguments.bundle, PublisherTrust.from_files(arguments.trust))
    network = FloatScorer(arguments.model / "model.onnx")
    module = IntegerScorer(bundle)
    results: dict[str, Result] = {}
    try:
        if arguments.ledger is None:
            runs = [load_run(data, name) for name in unseen_names(data)]
        else:
            played = read_journal(arguments.journal)
            scores = ledger_scores(arguments.ledger, scale=bundle.config.outputs[0].scale)
            names = list(dict.fromkeys(item.recording for item in played))
            runs = [load_run(data, name) for name in names]
            results["recorded (ledger)"] = evaluate(
                runs, rule, lambda one: scores_of_recording(played, one.name, len(one.x), scores)
            )
        results = {
            "float": evaluate(runs, rule, lambda one: network.score(one.x)),
            "integer (sandbox)": evaluate(runs, rule, lambda one: module.score(one.x)),
            **results,
        }
    finally:
        module.close()
    trained = set(train_names(data))
    return {
        "module": bundle.digest.hex(),
        "rule": {"window": rule.window, "threshold": rule.threshold},
        "files": [one.name for one in runs],
        "files_also_trained_on": [one.name for one in runs if one.name in trained],
        "rows": sum(len(one.x) for one in runs),
        "results": {name: result.as_data() for name, result in results.items()},
        "agreement": {
            f"{name} against float": agreement(results["float"], result)
            for name, result in results.items()
            if name != "float"
        },
        "table": table(results),
    }


def main(argv: list[str] | None = None) -> int:
    """Command line; 2 for wrong arguments or unusable files."""
    parser = argparse.ArgumentParser(prog="python -m examples.pump.score", description="alarms against labels")
    parser.add_argument("--data", type=Path, required=True, help="SKAB's folder 'data'")
    parser.add_argument("--model", type=Path, required=True, help="folder with model.onnx and rule.json")
    parser.add_argument("--bundle", type=Path, required=True, help="bundle folder")
    parser.add_argument("--trust", type=Path, action="append", required=True, help="publisher's public key (PEM)")
    parser.add_argument("--ledger", type=Path, help="device ledger of a deployment")
    parser.add_argument("--journal", type=Path, help="journal of its replay")
    parser.add_argument("--json", type=Path, help="write the result there as well")
    arguments = parser.parse_args(argv)
    if (arguments.ledger is None) != (arguments.journal is None):
        parser.error("--ledger and --journal together")
    try:
        result = run(arguments)
        if arguments.json is not None:
            body = {key: value for key, value in result.items() if key != "table"}
            arguments.json.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    except (SitsError, AttestError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(result['files'])} files, {result['rows']} rows, module {result['module'][:16]}…")
    if result["files_also_trained_on"]:
        print(f"attention: the training saw the first rows of {', '.join(result['files_also_trained_on'])}")
    print(result["table"])
    for name, figures_ in result["agreement"].items():
        print(f"{name}: {figures_}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
