"""Histograms of a build report: as numbers for the JSON, as inline SVG for the page (no script, nothing loaded).

Inputs over their declared ranges show how much of the box the data fill; outputs show float and integer model on top of
each other; errors are integer less float.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from sitsedge.compiler.network import Floats
from sitsedge.modules.limits import Limits

BINS = 32
SHOWN_MAX = 48
"""Pictures of each kind on the page; the JSON has all."""

_WIDTH, _HEIGHT, _TOP, _BASE = 320, 96, 6, 78
_FILL, _OUTLINE, _AXIS = "#7fa6cc", "#b3470f", "#5b6b79"


def figures(limits: Limits, raw: Floats, wanted: Floats, got: Floats) -> dict[str, Any]:
    """Bin counts for rows ``raw`` (rows, inputs) and outputs of float and integer model (rows, outputs), physical."""
    inputs = {
        signal.name: _entry(signal.unit, *signal.range, data=_bins(raw[:, j], *signal.range))
        for j, signal in enumerate(limits.inputs)
    }
    outputs, errors = {}, {}
    for k, signal in enumerate(limits.outputs):
        ends = _ends(wanted[:, k], got[:, k])
        outputs[signal.name] = _entry(
            signal.unit, *ends, float_model=_bins(wanted[:, k], *ends), integer_model=_bins(got[:, k], *ends)
        )
        error = got[:, k] - wanted[:, k]
        reach = float(np.abs(error).max(initial=0.0)) or signal.scale
        errors[signal.name] = _entry(signal.unit, -reach, reach, error=_bins(error, -reach, reach))
    return {"rows": len(raw), "inputs": inputs, "outputs": outputs, "errors": errors}


def _entry(unit: str, low: float, high: float, **bins: list[int]) -> dict[str, Any]:
    return {"unit": unit, "low": low, "high": high, **bins}


def _ends(*columns: Floats) -> tuple[float, float]:
    """Least and largest value, apart from each other."""
    values = np.concatenate(columns)
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _bins(values: Floats, low: float, high: float) -> list[int]:
    counts, _ = np.histogram(np.clip(values, low, high), BINS, range=(low, high))
    return [int(count) for count in counts]


def pictures(shown: dict[str, Any]) -> str:
    """HTML of the figures made by ``figures``."""
    parts = []
    for kind, title, filled, outlined in (
        ("errors", "Error of the integer model, held-out rows", "error", None),
        ("outputs", "Outputs, held-out rows: float filled, integer outlined", "float_model", "integer_model"),
        ("inputs", "Inputs over their declared ranges, held-out rows", "data", None),
    ):
        drawn = [
            _figure(name, entry, entry[filled], entry[outlined] if outlined else None)
            for name, entry in list(shown[kind].items())[:SHOWN_MAX]
        ]
        left = len(shown[kind]) - len(drawn)
        more = f"<p>{left} more in the JSON report.</p>" if left > 0 else ""
        parts.append(f'<h2>{escape(title)}</h2><div class="figures">{"".join(drawn)}</div>{more}')
    return "".join(parts)


def _figure(name: str, entry: dict[str, Any], filled: Sequence[int], outlined: Sequence[int] | None) -> str:
    top = max(1, *filled, *(outlined or ()))
    low, high = entry["low"], entry["high"]
    drawn = f'<path d="{_steps(filled, top)}" fill="{_FILL}"/>'
    if outlined is not None:
        drawn += f'<path d="{_steps(outlined, top)}" fill="none" stroke="{_OUTLINE}"/>'
    if low < 0 < high:
        zero = round(-low / (high - low) * _WIDTH, 1)
        drawn += f'<path d="M{zero} {_TOP}V{_BASE}" stroke="{_AXIS}" stroke-dasharray="2 3"/>'
    drawn += f'<path d="M0 {_BASE}H{_WIDTH}" stroke="{_AXIS}"/>'
    drawn += _label(0, "start", f"{low:.4g}") + _label(_WIDTH, "end", f"{high:.4g} {entry['unit']}")
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><title>histogram of {escape(name)}</title>'
        f"{drawn}</svg><figcaption>{escape(name)}</figcaption></figure>"
    )


def _steps(counts: Iterable[int], top: int) -> str:
    """Outline of the bars, from the axis and back to it."""
    width = _WIDTH / BINS
    path = f"M0 {_BASE}"
    for i, count in enumerate(counts):
        path += f"V{round(_BASE - (_BASE - _TOP) * count / top, 1)}H{round((i + 1) * width, 1)}"
    return path + f"V{_BASE}"


def _label(x: int, anchor: str, text: str) -> str:
    return f'<text x="{x}" y="{_BASE + 13}" font-size="11" fill="{_AXIS}" text-anchor="{anchor}">{escape(text)}</text>'
