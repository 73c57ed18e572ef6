"""From scores to alarms, and how good the alarms are. This part runs outside the proof, and says so.

The proven network scores one sample. The rule is a moving average over the last ``window`` scores of the same
recording and a threshold; anyone who has the proven scores can compute it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from examples.pump.dataset import Bools, Floats


@dataclass(frozen=True, slots=True)
class Rule:
    """Alarm where the mean of the last ``window`` scores is above ``threshold`` (log-odds)."""

    window: int
    threshold: float

    def alarms(self, scores: Floats) -> Bools:
        """Alarms (rows,) for the scores of one recording in order.

        NaN: the sample got no score (refused, lost). It is left out of the mean, and the alarm stays what it was.
        """
        alarms = np.zeros(len(scores), dtype=np.bool_)
        for row in range(len(scores)):
            if np.isnan(scores[row]):
                alarms[row] = alarms[row - 1] if row else False
            else:
                recent = scores[max(0, row + 1 - self.window) : row + 1]
                alarms[row] = float(np.nanmean(recent)) > self.threshold
        return alarms


def moving_average(scores: Floats, window: int) -> Floats:
    """Means (rows,) over the last ``window`` scores, fewer at the start; no NaN allowed."""
    total = np.concatenate([[0.0], np.cumsum(scores)])
    end = np.arange(1, len(scores) + 1)
    start = np.maximum(end - window, 0)
    means: Floats = (total[end] - total[start]) / (end - start)
    return means


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts over rows, and what SKAB reports: F1, false and missed alarm rate."""

    true_alarms: int
    false_alarms: int
    missed: int
    quiet: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 where there is no true alarm."""
        return 2 * self.true_alarms / max(1, 2 * self.true_alarms + self.false_alarms + self.missed)

    @property
    def far(self) -> float:
        """Share of healthy rows with an alarm, percent."""
        return 100 * self.false_alarms / max(1, self.false_alarms + self.quiet)

    @property
    def mar(self) -> float:
        """Share of faulty rows without an alarm, percent."""
        return 100 * self.missed / max(1, self.missed + self.true_alarms)

    def as_data(self) -> dict[str, float]:
        """For JSON."""
        return {
            **asdict(self),
            "f1": round(self.f1, 4),
            "far_percent": round(self.far, 2),
            "mar_percent": round(self.mar, 2),
        }


def figures(pairs: Sequence[tuple[Bools, Bools]]) -> Figures:
    """Point-wise over all rows of all (alarms, labels) pairs."""
    alarms = np.concatenate([alarm for alarm, _ in pairs])
    faulty = np.concatenate([label for _, label in pairs])
    return Figures(
        int((alarms & faulty).sum()),
        int((alarms & ~faulty).sum()),
        int((~alarms & faulty).sum()),
        int((~alarms & ~faulty).sum()),
    )


def write_rule(rule: Rule, path: Path, **about: object) -> None:
    """The rule as JSON, with whatever says where it comes from."""
    path.write_text(json.dumps({**asdict(rule), **about}, indent=2) + "\n", encoding="utf-8")


def read_rule(path: Path) -> Rule:
    """The rule in a file of ``write_rule``. Raises OSError, ValueError."""
    body = json.loads(path.read_text(encoding="utf-8"))
    window, threshold = body.get("window"), body.get("threshold")
    if not isinstance(window, int) or isinstance(window, bool) or window < 1 or not isinstance(threshold, float):
        raise ValueError(f"{path}: no whole 'window' and decimal 'threshold'")
    return Rule(window, threshold)
