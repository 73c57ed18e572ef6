"""What a person should read before the figures of a build report: where the figures say less than they seem to."""

from __future__ import annotations

import numpy as np

from sitsedge.compiler.calibration import Calibration
from sitsedge.compiler.imported import ImportedNetwork
from sitsedge.compiler.network import Floats
from sitsedge.compiler.quantise import Goal
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.modules.limits import Limits, OutputLimits

COVERED_LEAST = 0.02
"""Below this share of its declared range, the calibration rows say nothing about the rest of an input."""

COUNTS_LEAST = 50
"""An output that spans fewer counts loses at least a percent of its span by rounding alone."""


def warnings(
    network: ImportedNetwork, limits: Limits, calibration: Calibration, quantised: QuantisedGraph, goal: Goal
) -> list[str]:
    """One sentence each, empty where there is nothing to say."""
    raw = np.concatenate([calibration.fit_raw, calibration.held_raw])
    found = [*_goal(quantised, goal, class_output=network.is_class), *_inputs(limits, raw)]
    if not network.is_class:
        found += _outputs(limits, network.run(raw).reshape(len(raw), -1))
    return found


def _goal(quantised: QuantisedGraph, goal: Goal, *, class_output: bool) -> list[str]:
    if quantised.meets_goal:
        return []
    if class_output:
        return [
            f"the accuracy goal is missed: another class than the float network's in {quantised.rms:.2%} of the "
            f"calibration rows; the goal is {goal.rms:.2%}"
        ]
    return [
        f"the accuracy goal is missed: on the calibration rows the worst output has an rms error of "
        f"{quantised.rms:.2%} of its span and a largest of {quantised.peak:.2%}; the goal is {goal.rms:.2%} and "
        f"{goal.peak:.2%}"
    ]


def _inputs(limits: Limits, raw: Floats) -> list[str]:
    found = []
    for signal, low, high in zip(limits.inputs, raw.min(axis=0), raw.max(axis=0), strict=True):
        share = (high - low) / (signal.range[1] - signal.range[0])
        if low == high:
            found.append(f"{signal.name} is {low:g} in every calibration row: nothing is known about other values")
        elif share < COVERED_LEAST:
            found.append(f"{signal.name} covers {share:.1%} of its declared range in the calibration rows")
    return found


def _outputs(limits: Limits, wanted: Floats) -> list[str]:
    found = []
    for signal, values in zip(limits.outputs, wanted.T, strict=True):
        span = float(np.ptp(values)) / signal.scale
        if span < COUNTS_LEAST:
            found.append(
                f"{signal.name} spans {span:.3g} counts on the calibration rows: its scale of {signal.scale:g} is "
                f"coarse for it, or it does not depend on the inputs"
            )
        found += _outside(signal, values)
    return found


def _outside(signal: OutputLimits, values: Floats) -> list[str]:
    low, high = signal.limits
    beyond = int(((values < low - signal.scale) | (values > high + signal.scale)).sum())
    if not beyond:
        return []
    return [
        f"{signal.name} leaves its limits {low:g} … {high:g} in {beyond} of {len(values)} calibration rows: "
        f"such a command is refused"
    ]
