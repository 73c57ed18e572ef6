"""Histograms of a build report: as numbers for the JSON, as inline SVG for the page (no script, nothing loaded).

Inputs over their declared ranges show how much of the box the data fill; outputs show float and integer model on top of
each other; errors are integer less float.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from sitsedge.compiler.network import Floats
from sitsedge.modules.limits import Limits

BINS = 32
SHOWN_MAX = 48
"""Pictures of each kind on the page; the JSON has all."""

_BAR_LEAST = 1e-5
"""Bottom of the bars: a third of a count of an int16."""

_BAR_WIDTH = 960
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
        errors[signal.name] = error_entry(got[:, k] - wanted[:, k], least=signal.scale, unit=signal.unit)
    return {"rows": len(raw), "inputs": inputs, "outputs": outputs, "errors": errors}


def error_entry(error: Floats, *, least: float, unit: str = "") -> dict[str, Any]:
    """Histogram of ``error`` (rows,) around 0; ``least`` is its reach where all errors are 0."""
    reach = float(np.abs(error).max(initial=0.0)) or least
    return _entry(unit, -reach, reach, error=_bins(error, -reach, reach))


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


def layer_pictures(layers: Sequence[dict[str, Any]]) -> str:
    """Bars of the error of every layer of ``report_layers.describe_layers``, and a histogram of each."""
    drawn = [
        _figure(
            layer["name"], layer["error"]["held_out"]["figure"], layer["error"]["held_out"]["figure"]["error"], None
        )
        for layer in layers[:SHOWN_MAX]
    ]
    left = len(layers) - len(drawn)
    more = f"<p>{left} more in the JSON report.</p>" if left > 0 else ""
    return f'{_bars(layers)}<div class="figures">{"".join(drawn)}</div>{more}'


def _bars(layers: Sequence[dict[str, Any]]) -> str:
    """Error of every layer from input to output, from ``_BAR_LEAST`` of its range to all of it, by powers of ten."""
    if not layers:
        return ""
    height, width = _BASE - _TOP, _BAR_WIDTH / len(layers)
    decades = -math.log10(_BAR_LEAST)
    parts = []
    for i in range(int(decades) + 1):
        y = round(_TOP + height * i / decades, 1)
        parts.append(f'<path d="M0 {y}H{_BAR_WIDTH}" stroke="{_AXIS}" stroke-dasharray="1 5"/>')
        parts.append(f'<text x="{_BAR_WIDTH}" y="{y - 1}" font-size="8" fill="{_AXIS}" text-anchor="end">1e-{i}</text>')
    for i, layer in enumerate(layers):
        share = 1 + math.log10(min(max(layer["error"]["held_out"]["rms"], _BAR_LEAST), 1.0)) / decades
        top = round(_BASE - height * share, 1)
        left, right = round(i * width, 1), round((i + 0.8) * width, 1)
        title = f"<title>{escape(layer['name'])}: {layer['error']['held_out']['rms']:.2g}</title>"
        parts.append(f'<path d="M{left} {_BASE}V{top}H{right}V{_BASE}" fill="{_FILL}">{title}</path>')
    return (
        f'<figure><svg viewBox="0 0 {_BAR_WIDTH} {_HEIGHT}" role="img"><title>error of every layer</title>'
        f"{''.join(parts)}</svg><figcaption>rms error of every layer of its range, held-out rows, input to output"
        "</figcaption></figure>"
    )


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
