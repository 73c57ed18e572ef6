"""The properties of a limits file, decided on an integer model: proven, refuted or undecided.

A chain of dense layers (``IntegerModel``) has branch and bound and MILP; any other graph has linear bounds, a search
and halving of the box.

Physical bounds become counts exactly (``numbers.exact_ratio``), and inwards: an output of a whole number of counts lies
in [a, b] just when it is at least the next whole count above a and at most the next below b.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
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

FIRST_SHARE = 0.25
"""Of the time left, for both sides of a range together, before what stays open is begun again with all the rest."""

ROW_SECONDS_MIN = 0.05
"""A robustness question gets at least this, so that one slow row does not leave the rest unlooked at."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What became of one property. ``rows`` (1 or 2, inputs) in counts break it; only where refuted.

    ``reached`` are the bounds in counts that were proven where a range property stayed undecided.
    """

    item: Property
    verdict: Verdict
    method: str
    seconds: float
    rows: Ints | None = None
    reached: tuple[int, int] | None = None


def check_properties(model: IntegerModel | GraphModel, limits: Limits, rows: Ints) -> tuple[Finding, ...]:
    """Decide every property of ``limits``; ``rows`` (rows, inputs) are the calibration rows in counts."""
    findings = []
    for item in limits.properties:
        started = time.monotonic()
        answer = _check(item, model, limits, rows, started + item.seconds)
        seconds = time.monotonic() - started
        reached = answer.reached if answer.verdict == "undecided" and isinstance(item, RangeProperty) else None
        findings.append(Finding(item, answer.verdict, answer.method, seconds, answer.rows, reached))
    return tuple(findings)


INPUTS_SHOWN = 16
"""Of a counter-example in a message."""


def require_none_refuted(findings: tuple[Finding, ...], limits: Limits, model: Executable) -> None:
    """Raises ``PropertyError`` naming the first property that an input breaks."""
    for finding in findings:
        if finding.verdict == "refuted":
            shown = describe(finding, limits, model)["counterexample"]
            rows = " and ".join(map(_row, shown["inputs"]))
            raise PropertyError(
                "property-refuted",
                found=f"{finding.item} is broken: {_numbers(shown['output'])} for {rows}",
                expected="every property of the limits file to hold",
                hint="correct the model or the property, or build with --allow-refuted, which the report will say",
            )


def _numbers(values: list[float]) -> str:
    return " and ".join(f"{value:.6g}" for value in values)


def _row(inputs: dict[str, float]) -> str:
    """One input of a counter-example; of a wide network its first values, the report has all of them."""
    shown = [f"{name} = {value:.6g}" for name, value in list(inputs.items())[:INPUTS_SHOWN]]
    return f"({', '.join(shown)}{', …' if len(inputs) > INPUTS_SHOWN else ''})"


def describe(finding: Finding, limits: Limits, model: Executable) -> dict[str, Any]:
    """JSON-ready entry of the report. A counter-example holds all it takes to run it again."""
    entry: dict[str, Any] = {
        "property": str(finding.item),
        "verdict": finding.verdict,
        "method": finding.method,
        "seconds": round(finding.seconds, 3),
    }
    k = [signal.name for signal in limits.outputs].index(finding.item.output)
    if finding.reached is not None:
        entry["proven_inside"] = [
            float(Fraction(bound) * exact_ratio(limits.outputs[k].scale, 1.0)) for bound in finding.reached
        ]
    if finding.rows is not None:
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


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Verdict, method and what breaks the property, as in ``Finding``; ``reached`` whatever the verdict."""

    verdict: Verdict
    method: str
    rows: Ints | None = None
    reached: tuple[int, int] | None = None


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
            return Answer(decision.verdict, decision.method, decision.pair)
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
        decision = decide_between(Between(model, low, high, k, least, most), deadline)
        excess = decision.excess or 0
        return _answer(decision, (least - excess, most + excess))
    sides = ((at_most, most), (at_least, least))
    answers: list[Answer | None] = [None, None]
    # One side is often far easier than the other: both are tried for a while, then what is open has all the rest.
    for share in (FIRST_SHARE, 1.0):
        open_ = [side for side in (0, 1) if (found := answers[side]) is None or found.verdict == "undecided"]
        for done, side in enumerate(open_):
            make, bound = sides[side]
            goal = make(model, low, high, k, min(max(bound, INT32_MIN - 1), INT32_MAX + 1))
            now = time.monotonic()
            answer = _one_side(goal, low, bound, now + share * (deadline - now) / (len(open_) - done))
            if answer.verdict == "refuted":
                return answer
            answers[side] = answer
    above, below = answers
    assert above is not None
    assert below is not None
    high_reached, low_reached = (
        (answer.reached or (bound, bound))[0] for answer, (_, bound) in zip((above, below), sides, strict=True)
    )
    return replace(_joined([above, below]), reached=(low_reached, high_reached))


def _one_side(goal: Goal | bool, low: Ints, bound: int, deadline: float) -> Answer:
    """``bound`` is the goal's in counts; what was reached stands on both sides."""
    if isinstance(goal, Goal):
        decision = decide(goal, deadline)
        reached = bound if decision.excess is None else goal.output_bound(decision.excess)
        return _answer(decision, (reached, reached))
    # The clamp decides: it holds everywhere, or nowhere and any input shows it.
    return Answer("proven", "clamp", None, (bound, bound)) if goal else Answer("refuted", "clamp", low[None])


def _answer(decision: Decision, reached: tuple[int, int]) -> Answer:
    row = decision.counterexample
    return Answer(decision.verdict, decision.method, None if row is None else row[None], reached)


def _joined(answers: list[Answer]) -> Answer:
    """Proven if all are; the reasons of those that are not, else the methods, each once."""
    open_ = [answer for answer in answers if answer.verdict != "proven"]
    names = sorted({name for answer in (open_ or answers) for name in answer.method.split(", ")})
    return Answer("undecided" if open_ else "proven", ", ".join(names))


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
        if answer.rows is not None:
            return Answer("refuted", answer.method, np.concatenate([row[None], answer.rows]))
        answers.append(answer)
    return _joined(answers)
