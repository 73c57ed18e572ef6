"""The properties of a limits file, decided on an integer model: proven, refuted or undecided.

A chain of dense layers (``IntegerModel``) has linear bounds, splitting and MILP; any other graph has intervals and a
search.

Physical bounds become counts exactly (``numbers.exact_ratio``), and inwards: an output of a whole number of counts lies
in [a, b] just when it is at least the next whole count above a and at most the next below b.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, assert_never

import numpy as np

from sitsedge.compiler.bounds.decide import Decision, Verdict, decide
from sitsedge.compiler.bounds.goal import Goal, at_least, at_most
from sitsedge.compiler.bounds.graphs import Between, decide_between
from sitsedge.compiler.bounds.monotone import Monotone, decide_monotone
from sitsedge.compiler.errors import PropertyError
from sitsedge.compiler.graph.model import Executable, GraphModel
from sitsedge.compiler.reference import INT32_MAX, INT32_MIN, IntegerModel, Ints
from sitsedge.modules.limits import Limits
from sitsedge.modules.numbers import exact_ratio, to_counts
from sitsedge.modules.properties import MonotoneProperty, Property, RangeProperty, RobustProperty

ROW_SECONDS_MIN = 0.05
"""A robustness question gets at least this, so that one slow row does not leave the rest unlooked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What became of one property. ``rows`` (1 or 2, inputs) in counts break it; only where refuted."""

    item: Property
    verdict: Verdict
    method: str
    seconds: float
    rows: Ints | None = None


def check_properties(model: IntegerModel | GraphModel, limits: Limits, rows: Ints) -> tuple[Finding, ...]:
    """Decide every property of ``limits``; ``rows`` (rows, inputs) are the calibration rows in counts."""
    findings = []
    for item in limits.properties:
        started = time.monotonic()
        verdict, method, broken = _check(item, model, limits, rows, started + item.seconds)
        findings.append(Finding(item, verdict, method, time.monotonic() - started, broken))
    return tuple(findings)


def require_none_refuted(findings: tuple[Finding, ...], limits: Limits, model: Executable) -> None:
    """Raises ``PropertyError`` naming the first property that an input breaks."""
    for finding in findings:
        if finding.verdict == "refuted":
            shown = describe(finding, limits, model)["counterexample"]
            raise PropertyError(
                "property-refuted",
                found=f"{finding.item} is broken: {shown['output']} for inputs in counts {shown['counts']}",
                expected="every property of the limits file to hold",
                hint="correct the model or the property, or build with --allow-refuted, which the report will say",
            )


def describe(finding: Finding, limits: Limits, model: Executable) -> dict[str, Any]:
    """JSON-ready entry of the report. A counter-example holds all it takes to run it again."""
    entry: dict[str, Any] = {
        "property": str(finding.item),
        "verdict": finding.verdict,
        "method": finding.method,
        "seconds": round(finding.seconds, 3),
    }
    if finding.rows is not None:
        k = [signal.name for signal in limits.outputs].index(finding.item.output)
        outputs = model.run(finding.rows).reshape(len(finding.rows), -1)[:, k]
        entry["counterexample"] = {
            "counts": finding.rows.tolist(),
            "inputs": [
                {
                    s.name: float(Fraction(int(x)) * exact_ratio(s.scale, 1.0))
                    for s, x in zip(limits.inputs, row, strict=True)
                }
                for row in finding.rows
            ],
            "output_counts": outputs.tolist(),
            "output": [float(Fraction(int(y)) * exact_ratio(limits.outputs[k].scale, 1.0)) for y in outputs],
        }
    return entry


Answer = tuple[Verdict, str, Ints | None]


def _check(item: Property, model: IntegerModel | GraphModel, limits: Limits, rows: Ints, deadline: float) -> Answer:
    k = [signal.name for signal in limits.outputs].index(item.output)
    scale = limits.outputs[k].scale
    match item:
        case RangeProperty():
            low, high = _box(item.where, limits)
            least, most = ceil(exact_ratio(item.inside[0], scale)), floor(exact_ratio(item.inside[1], scale))
            return _between(model, low, high, k, least, most, deadline)
        case MonotoneProperty():
            low, high = _box(item.where, limits)
            j = [signal.name for signal in limits.inputs].index(item.input)
            sign = 1 if item.direction == "increasing" else -1
            tolerance = floor(exact_ratio(item.tolerance, scale))
            decision = decide_monotone(Monotone(model, low, high, k, j, sign, tolerance), deadline)
            return decision.verdict, decision.method, decision.pair
        case RobustProperty():
            return _robust(item, model, limits, rows, k, deadline)
        case _:
            assert_never(item)


def _box(where: Mapping[str, tuple[float, float]], limits: Limits) -> tuple[Ints, Ints]:
    """Counts that values in the part become."""
    low, high = (ends.copy() for ends in limits.box)
    for j, signal in enumerate(limits.inputs):
        if signal.name in where:
            low[j], high[j] = (to_counts(end, signal.scale) for end in where[signal.name])
    return low, high


def _between(
    model: IntegerModel | GraphModel, low: Ints, high: Ints, k: int, least: int, most: int, deadline: float
) -> Answer:
    """Output ``k`` in ``least … most`` counts over a box: in a chain one side after the other, time shared."""
    if isinstance(model, GraphModel):
        return _of(decide_between(Between(model, low, high, k, least, most), deadline))
    answers = []
    for side, (make, bound) in enumerate(((at_most, most), (at_least, least))):
        goal = make(model, low, high, k, min(max(bound, INT32_MIN - 1), INT32_MAX + 1))
        now = time.monotonic()
        answer = _answer(goal, low, now + (deadline - now) / (2 - side))
        if answer[0] == "refuted":
            return answer
        answers.append(answer)
    return _joined(answers)


def _answer(goal: Goal | bool, low: Ints, deadline: float) -> Answer:
    if isinstance(goal, Goal):
        return _of(decide(goal, deadline))
    # The clamp decides: it holds everywhere, or nowhere and any input shows it.
    return ("proven", "clamp", None) if goal else ("refuted", "clamp", low[None])


def _of(decision: Decision) -> Answer:
    row = decision.counterexample
    return decision.verdict, decision.method, None if row is None else row[None]


def _joined(answers: list[Answer]) -> Answer:
    """Proven if all are; the reasons of those that are not, else the methods, each once."""
    open_ = [answer for answer in answers if answer[0] != "proven"]
    names = sorted({name for _, method, _ in (open_ or answers) for name in method.split(", ")})
    return ("undecided" if open_ else "proven"), ", ".join(names), None


def _robust(
    item: RobustProperty, model: IntegerModel | GraphModel, limits: Limits, rows: Ints, k: int, deadline: float
) -> Answer:
    """Around every chosen row its output stays; a counter-example is the row and the input beside it."""
    change = floor(exact_ratio(item.change, limits.outputs[k].scale))
    # Values within e of a count's become counts within e / scale, rounded, of it.
    radius = np.array(
        [
            floor(exact_ratio(item.inputs[s.name], s.scale) + Fraction(1, 2)) if s.name in item.inputs else 0
            for s in limits.inputs
        ],
        dtype=np.int64,
    )
    chosen = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), item.rows)).astype(np.int64))]
    answers = []
    for index, row in enumerate(chosen):
        low, high = np.maximum(row - radius, model.box_low), np.minimum(row + radius, model.box_high)
        output = int(model.run(row).reshape(-1)[k])
        now = time.monotonic()
        share = max((deadline - now) / (len(chosen) - index), ROW_SECONDS_MIN)
        answer = _between(model, low, high, k, output - change, output + change, now + share)
        if answer[2] is not None:
            return "refuted", answer[1], np.concatenate([row[None], answer[2]])
        answers.append(answer)
    return _joined(answers)
