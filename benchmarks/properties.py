"""Properties on a trained 64-128-64-8 network: verdict and time of each, and whether what is proven survives.

Every property bounds one output over a box around an operating point. Its bound lies the named share of the way from
the largest output an attack finds to the bound that CROWN gives, so 1 is easy and 0 is as hard as can be. Whatever
comes back proven is then attacked: a million random inputs, corners, gradient and coordinate steps. Exits with 1 when a
proof does not survive. Needs the extras ``examples`` and ``exact``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.neural_network import MLPRegressor

from sitsedge.compiler.bounds.attack import attack
from sitsedge.compiler.bounds.crown import crown
from sitsedge.compiler.bounds.decide import decide
from sitsedge.compiler.bounds.goal import Goal as Question
from sitsedge.compiler.bounds.goal import at_most
from sitsedge.compiler.network import FloatLayer, FloatNetwork
from sitsedge.compiler.quantise import Goal, Scales, quantise
from sitsedge.compiler.reference import IntegerModel

INPUTS, HIDDEN, OUTPUTS = 64, (128, 64), 8
RANGE = 1000
"""Counts on either side of zero for every input."""

FIT_ROWS = 2000
SAMPLES, CHUNK = 1_000_000, 50_000


def trained(seed: int) -> tuple[IntegerModel, np.ndarray]:
    """A network fitted to a smooth plant with correlated sensors, quantised; and its rows in counts."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(6000, 6))
    sensors = np.clip(state @ rng.normal(size=(6, INPUTS)) / 6 + rng.normal(0, 0.05, (6000, INPUTS)), -1, 1)
    wanted = np.tanh(state @ rng.normal(size=(6, OUTPUTS)) / 2)
    untrained = MLPRegressor(hidden_layer_sizes=HIDDEN, alpha=1e-3, max_iter=60, early_stopping=True, random_state=seed)
    fitted = untrained.fit(sensors, wanted)
    layers = tuple(
        FloatLayer(weights.T, bias, low=0.0 if i < len(HIDDEN) else -np.inf)
        for i, (weights, bias) in enumerate(zip(fitted.coefs_, fitted.intercepts_, strict=True))
    )
    counts = np.rint(sensors * RANGE).astype(np.int64)
    scales = Scales(
        inputs=np.full(INPUTS, 1 / RANGE),
        outputs=np.full(OUTPUTS, 1e-3),
        box_low=np.full(INPUTS, -RANGE),
        box_high=np.full(INPUTS, RANGE),
    )
    quantised = quantise(FloatNetwork(layers), scales, counts[:FIT_ROWS], sensors[:FIT_ROWS], goal=Goal())
    return quantised.model, counts


def survives(goal: Question, seed: int) -> bool:
    """Whether neither samples nor an attack from other starts break what was proven."""
    rng = np.random.default_rng(seed)
    for _ in range(SAMPLES // CHUNK):
        rows = rng.integers(goal.low, goal.high + 1, (CHUNK, goal.low.size))
        if goal.excess(rows).max() > 0:
            return False
    return attack(goal, time.monotonic() + 60, starts=2000, seed=seed + 1)[1] <= 0


def question(model: IntegerModel, centre: np.ndarray, share: float, output: int, where: float) -> Question:
    """Output ``output`` at most a bound, for inputs within ``share`` of the range around ``centre``."""
    radius = round(share * 2 * RANGE)
    low, high = np.maximum(centre - radius, -RANGE), np.minimum(centre + radius, RANGE)
    whole = at_most(model, low, high, output, 0)
    assert isinstance(whole, Question)
    row, _ = attack(replace(whole, threshold=1 << 40), time.monotonic() + 5)
    found, proven = int(model.run(row)[output]), int(crown(model, low, high).ranges[-1].out_high[output])
    goal = at_most(model, low, high, output, found + round(where * (proven - found)))
    assert isinstance(goal, Question)
    return goal


def main() -> int:
    """Print one JSON line a property; 1 when a proof does not survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", default="0.01,0.02,0.05", help="half-widths of the box as parts of the range")
    parser.add_argument("--where", default="1,0.5,0.25", help="places of the bound between attack (0) and CROWN (1)")
    parser.add_argument("--outputs", type=int, default=1, help="outputs asked about for each box")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a property")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    model, counts = trained(options.seed)
    sound = True
    for share in map(float, options.shares.split(",")):
        for where in map(float, options.where.split(",")):
            for output in range(options.outputs):
                goal = question(model, counts[-1], share, output, where)
                started = time.monotonic()
                decision = decide(goal, started + options.seconds)
                seconds = time.monotonic() - started
                line: dict[str, Any] = {"box": share, "bound_at": where, "output": output}
                line |= {"verdict": decision.verdict, "method": decision.method, "seconds": round(seconds, 3)}
                if decision.verdict == "proven":
                    line["survives"] = survives(goal, options.seed)
                    sound = sound and line["survives"]
                print(json.dumps(line), flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
