"""Properties of trained networks: what is proven survives samples and attacks, and boxes of real size are decided."""

from __future__ import annotations

import time
from argparse import Namespace

import numpy as np
import pytest

from benchmarks.plant_network import Plant, quantised, trained
from benchmarks.properties import WIDTHS, Box, monotone, ranges, robust
from sitsedge.compiler.bounds.attack import attack
from sitsedge.compiler.bounds.decide import decide
from sitsedge.compiler.reference import IntegerModel


@pytest.fixture(scope="module")
def small() -> tuple[IntegerModel, np.ndarray]:
    plant = Plant.made(3, inputs=20, outputs=2, rows=1500)
    layers = trained(plant, (20, 24, 16, 2), seed=3, epochs=60, decays=(0.4,))
    return quantised(layers, plant, rows=300)


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_every_proof_of_a_small_network_survives(small: tuple[IntegerModel, np.ndarray], share: float) -> None:
    model, counts = small
    box = Box.around(model, counts[-1], share)
    rng = np.random.default_rng(1)
    rows = rng.integers(box.low, box.high + 1, (20_000, box.low.size))
    rows[::2] = np.where(rng.integers(0, 2, rows[::2].shape) == 1, box.high, box.low)
    outputs = model.run(rows)
    verdicts = []
    for output in range(2):
        low, high = box.extremes(output, 1.0)
        for margin in (0.5, 0.1, -0.05):
            least, most = (round(end + side * margin * (high - low)) for end, side in ((low, -1), (high, 1)))
            for goal in box.goals(output, least, most):
                # Whatever comes of the hard one; the others have the time they may need on a busy machine.
                decision = decide(goal, time.monotonic() + (0.5 if margin == 0.1 else 60))
                verdicts.append((margin, decision.verdict))
                if decision.verdict == "proven":
                    sampled = outputs[:, output]
                    assert sampled.max() <= most if goal.sign > 0 else sampled.min() >= least
                    assert attack(goal, time.monotonic() + 5, seed=7)[1] <= 0
                else:
                    assert (decision.counterexample is None) == (decision.verdict == "undecided")
    # An attack's own finds refute what excludes them, and half a span is room enough to prove.
    assert {verdict for margin, verdict in verdicts if margin < 0} == {"refuted"}
    assert {verdict for margin, verdict in verdicts if margin == 0.5} == {"proven"}


@pytest.mark.slow
def test_boxes_of_real_size_on_64_128_64_8_are_decided_and_every_proof_survives_a_million_samples() -> None:
    """±5, ±10, ±20 % of the inputs' ranges with room of half and a fifth of the output's span; all of it with half."""
    plant = Plant.made(1, inputs=WIDTHS[0], outputs=WIDTHS[-1])
    model, counts = quantised(trained(plant, WIDTHS, seed=1), plant)
    brief = Namespace(margins="1", seconds=15.0, seed=1)
    for share, margins, outputs in ((0.05, "0.5,0.2", 2), (0.1, "0.5,0.2", 2), (0.2, "0.5,0.2", 2), (1.0, "0.5", 1)):
        box = Box.around(model, counts[-1], share)
        for line in ranges(box, Namespace(outputs=outputs, margins=margins, seconds=60.0, seed=1)):
            assert line["verdict"] == "proven", line
            assert line["survives"], line
        for line in monotone(box, brief):
            assert line["verdict"] != "refuted", line
            assert line.get("survives", True), line
    for line in robust(model, counts, Namespace(margins="0.5,0.2", seconds=60.0, seed=1)):
        assert line["verdict"] == "proven", line
        assert line["survives"], line
