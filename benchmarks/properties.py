"""Properties on a trained 64-128-64-8 network: verdict and time of each, and whether what is proven survives.

The network is fitted to a made-up plant (``plant_network``) and quantised as a module is; ``--untrained`` asks about
random weights instead, the hard case. Boxes are an operating point and the named share of every input's range on either
side of it, 1 the whole range. In each box an attack finds the smallest and the largest output; a property leaves a
margin, a share of that span:

    range     the output stays inside, the margin on both sides
    monotone  raising the input that matters most, alone, never moves the output back by more than an attack finds and
              the margin, here a share of how far it moves it forward
    robust    around eight rows, inputs within 1 % of their range move the output by at most what an attack finds and
              the margin

Whatever comes back proven is then attacked: a million random inputs and corners of the box, gradient and coordinate
steps from other starts. Exits with 1 when a proof does not survive. Seconds are the wall's and the process's own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.plant_network import RANGE, Plant, quantised, trained, untrained
from sitsedge.compiler.bounds.attack import attack, gradient
from sitsedge.compiler.bounds.decide import decide
from sitsedge.compiler.bounds.goal import Goal, at_least, at_most, run_layers
from sitsedge.compiler.bounds.monotone import Monotone, decide_monotone, worst_pair
from sitsedge.compiler.bounds.properties import FIRST_SHARE
from sitsedge.compiler.reference import IntegerModel, Ints

WIDTHS = (64, 128, 64, 8)
SAMPLES, CHUNK = 1_000_000, 20_000
NEVER = 1 << 40
"""A threshold no accumulator reaches: an attack then looks for the largest."""

PROOFS = {"crown", "exhaustive", "crown+splitting", "crown+branching", "crown+milp"}
"""Methods of ``decide`` that prove; what is undecided names a reason instead."""

ROBUST_ROWS, ROBUST_SHARE = 8, 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """Inputs in counts."""

    model: IntegerModel
    low: Ints
    high: Ints

    @classmethod
    def around(cls, model: IntegerModel, centre: Ints, share: float) -> Box:
        """Within ``share`` of the range of ``centre``, and inside the model's box; 1 is all of that."""
        radius = round(share * 2 * RANGE)
        return cls(model, np.maximum(centre - radius, model.box_low), np.minimum(centre + radius, model.box_high))

    def goals(self, output: int, least: int, most: int) -> list[Goal]:
        """``least ≤ y ≤ most`` in counts, as far as no clamp decides it."""
        made = (
            at_most(self.model, self.low, self.high, output, most),
            at_least(self.model, self.low, self.high, output, least),
        )
        return [goal for goal in made if isinstance(goal, Goal)]

    def extremes(self, output: int, seconds: float = 10.0) -> tuple[int, int]:
        """The smallest and the largest output an attack finds."""
        above, below = (replace(goal, threshold=NEVER) for goal in self.goals(output, 0, 0))
        rows = np.stack([attack(goal, time.monotonic() + seconds)[0] for goal in (below, above)])
        low, high = self.model.run(rows)[:, output]
        return int(low), int(high)

    def samples(self, seed: int) -> tuple[Ints, Ints]:
        """The smallest and the largest of every output over a million inputs, half of them corners."""
        rng = np.random.default_rng(seed)
        lows, highs = [], []
        for chunk in range(SAMPLES // CHUNK):
            shape = (CHUNK, self.low.size)
            if chunk % 2:
                rows = np.where(rng.integers(0, 2, shape, dtype=np.int8) == 1, self.high, self.low)
            else:
                rows = rng.integers(self.low, self.high + 1, shape)
            rows = run_layers(self.model.layers, rows)
            lows.append(rows.min(axis=0))
            highs.append(rows.max(axis=0))
        return np.min(lows, axis=0), np.max(highs, axis=0)


def decided(goals: list[Goal], seconds: float) -> dict[str, Any]:
    """The verdict of all goals together, time shared between those left."""
    wall, own = time.monotonic(), time.process_time()
    deadline = wall + seconds
    methods: dict[int, str] = {}
    # As ``check_properties`` does: all for a while, then what is open with all the rest.
    for share in (FIRST_SHARE, 1.0):
        open_ = [i for i in range(len(goals)) if methods.get(i, "time") not in PROOFS]
        for done, i in enumerate(open_):
            now = time.monotonic()
            decision = decide(goals[i], now + share * (deadline - now) / (len(open_) - done))
            methods[i] = decision.method
            if decision.verdict == "refuted":
                return _line("refuted", {decision.method}, wall, own)
    verdict = "proven" if PROOFS.issuperset(methods.values()) else "undecided"
    return _line(verdict, set(methods.values()), wall, own)


def _line(verdict: str, methods: set[str], wall: float, own: float) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "method": ", ".join(sorted(methods)),
        "seconds": round(time.monotonic() - wall, 2),
        "cpu_seconds": round(time.process_time() - own, 2),
    }


def survive(goals: list[Goal], seed: int) -> bool:
    """Whether an attack from other starts than those of ``decide`` breaks none of them."""
    return all(attack(goal, time.monotonic() + 60, starts=1000, seed=seed)[1] <= 0 for goal in goals)


def ranges(box: Box, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line for each output and margin."""
    sampled: tuple[Ints, Ints] | None = None
    for output in range(options.outputs):
        low, high = box.extremes(output)
        for margin in map(float, options.margins.split(",")):
            least, most = (round(end + side * margin * (high - low)) for end, side in ((low, -1), (high, 1)))
            goals = box.goals(output, least, most)
            line: dict[str, Any] = {"property": "range", "output": output, "margin": margin, "found": [low, high]}
            line |= decided(goals, options.seconds)
            if line["verdict"] == "proven":
                sampled = sampled or box.samples(options.seed)
                inside = least <= sampled[0][output] and sampled[1][output] <= most
                line["survives"] = bool(inside and survive(goals, options.seed + output + 1))
            yield line


def monotone(box: Box, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line a margin, for output 0 and the input with the largest slope in the middle of the box."""
    middle = gradient(box.goals(0, 0, 0)[0], (box.low + box.high)[None] // 2)[0]
    element = int(np.abs(middle).argmax())
    goal = Monotone(box.model, box.low, box.high, 0, element, 1 if middle[element] > 0 else -1, 0)
    falls = []
    for sign in (goal.sign, -goal.sign):
        pair = worst_pair(replace(goal, sign=sign, tolerance=NEVER), time.monotonic() + 10)
        falls.append(abs(int(goal.fall(pair[:1], pair[1:])[0])))
    found, rise = falls
    for margin in map(float, options.margins.split(",")):
        asked = replace(goal, tolerance=found + round(margin * rise))
        wall, own = time.monotonic(), time.process_time()
        decision = decide_monotone(asked, wall + options.seconds)
        line: dict[str, Any] = {"property": "monotone", "input": element, "margin": margin, "found": falls}
        line |= _line(decision.verdict, {decision.method}, wall, own)
        if decision.verdict == "proven":
            line["survives"] = _pairs_survive(asked, options.seed)
        yield line


def _pairs_survive(goal: Monotone, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    for _ in range(SAMPLES // CHUNK):
        first = rng.integers(goal.low, goal.high + 1, (CHUNK, goal.low.size))
        second = first.copy()
        second[:, goal.element] = rng.integers(first[:, goal.element], goal.high[goal.element] + 1)
        if goal.fall(first, second).max() > goal.tolerance:
            return False
    return True


def robust(model: IntegerModel, counts: Ints, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One line a margin: all rows together."""
    rows = counts[np.linspace(0, len(counts) - 1, ROBUST_ROWS).astype(np.int64)]
    boxes = [Box.around(model, row, ROBUST_SHARE) for row in rows]
    ends = [box.extremes(0, 5.0) for box in boxes]
    change = max(max(high - y, y - low) for (low, high), y in zip(ends, model.run(rows)[:, 0], strict=True))
    span = max(high - low for low, high in ends)
    for margin in map(float, options.margins.split(",")):
        allowed = int(change + round(margin * span))
        goals = [
            g
            for box, y in zip(boxes, model.run(rows)[:, 0], strict=True)
            for g in box.goals(0, int(y) - allowed, int(y) + allowed)
        ]
        line: dict[str, Any] = {"property": "robust", "margin": margin, "found": int(change)}
        line |= decided(goals, options.seconds)
        if line["verdict"] == "proven":
            line["survives"] = survive(goals, options.seed + 1)
        yield line


def main() -> int:
    """Print one JSON line a property; 1 when a proof does not survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", default="0.05,0.1,0.2,1", help="half-widths of the box as parts of the range")
    parser.add_argument("--margins", default="0.5,0.2,0.05", help="margins as parts of the output's span in the box")
    parser.add_argument("--outputs", type=int, default=2, help="outputs asked about for each box")
    parser.add_argument("--kinds", default="range,monotone,robust", help="kinds of properties")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a property")
    parser.add_argument("--untrained", action="store_true", help="random weights")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    plant = Plant.made(options.seed, inputs=WIDTHS[0], outputs=WIDTHS[-1])
    layers = untrained(options.seed, WIDTHS) if options.untrained else trained(plant, WIDTHS, seed=options.seed)
    model, counts = quantised(layers, plant)
    sound = True
    for line in _lines(model, counts, options):
        print(json.dumps(line), flush=True)
        sound = sound and line.get("survives", True)
    return 0 if sound else 1


def _lines(model: IntegerModel, counts: Ints, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    kinds = options.kinds.split(",")
    for share in map(float, options.shares.split(",")):
        box = Box.around(model, counts[-1], share)
        for kind, make in (("range", ranges), ("monotone", monotone)):
            if kind in kinds:
                yield from ({"box": share, **line} for line in make(box, options))
    if "robust" in kinds:
        yield from ({"box": ROBUST_SHARE, **line} for line in robust(model, counts, options))


if __name__ == "__main__":
    sys.exit(main())
