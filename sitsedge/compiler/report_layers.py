"""The report's layers: what became of every value of the float network, and how far its counts are from it.

A value's counts times the physical value of a count are compared with the float network's, element by element, the
errors of all layers before included. Errors are in units of the value's range: the least to the largest element on the
calibration rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitsedge.compiler.calibration import Calibration
from sitsedge.compiler.graph.float_graph import FloatGraph
from sitsedge.compiler.graph.float_run import run_all
from sitsedge.compiler.graph.integer_graph import Node
from sitsedge.compiler.graph.integer_nodes import ArgMax
from sitsedge.compiler.graph.integer_values import elements
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds, graph_bounds
from sitsedge.compiler.graph.reference import values
from sitsedge.compiler.graph.seven_bits import serves
from sitsedge.compiler.network import FloatNetwork, Floats
from sitsedge.compiler.quantiser.remembered import Honoured, honoured
from sitsedge.compiler.quantiser.trial import QuantisedGraph
from sitsedge.compiler.reference import Ints
from sitsedge.compiler.report_figures import error_entry

ELEMENT_ROWS_MAX = 1 << 23
"""Elements times rows of all values together held at once; of more rows an even sample is measured."""

ROWS_LEAST = 4

STEP = 2.0**-15
"""Reach of a histogram of errors that are all 0: one count of an int16."""


def describe_layers(
    quantised: QuantisedGraph, calibration: Calibration, rows_of: dict[str, int]
) -> list[dict[str, Any]]:
    """One entry for each value that stands for one of the float network, in order of computation.

    ``rows_of`` are the circuit's constraints of each node by name.
    """
    bounds = graph_bounds(quantised.graph)
    spans: dict[str, tuple[float, float]] = {}
    parts = {
        part: _errors(quantised, counts, raw, spans)
        for part, counts, raw in (
            ("calibration", calibration.fit_counts, calibration.fit_raw),
            ("held_out", calibration.held_counts, calibration.held_raw),
        )
    }
    origins = _origins(quantised.source)
    scales = honoured(quantised.source, quantised.real) if isinstance(quantised.source, FloatGraph) else {}
    return [
        {
            "name": node.name,
            "kind": type(node).__name__,
            "from": origins.get(node.name, ""),
            "shape": list(quantised.graph.shapes[node.name]),
            "counts": [int(bounds[node.name].low.min()), int(bounds[node.name].high.max())],
            "range": list(spans[node.name]),
            "operands": _operands(node, bounds),
            "constraints": rows_of.get(node.name, 0),
            **_format(quantised, node.name),
            "remembered": _remembered(scales.get(node.name)),
            "error": {part: found[node.name] for part, found in parts.items()},
        }
        for node in quantised.graph.nodes
        if node.name in quantised.real and not isinstance(node, ArgMax)
    ]


def _origins(source: FloatGraph | FloatNetwork) -> dict[str, str]:
    """ONNX nodes a value comes from; a chain's layers are several of them folded."""
    return {node.name: node.origin for node in source.nodes} if isinstance(source, FloatGraph) else {}


def _format(quantised: QuantisedGraph, name: str) -> dict[str, Any]:
    """Bits, rule and reason of a value that chose; None and the reason why not for any other."""
    chosen = quantised.formats.get(name)
    if chosen is not None:
        why = quantised.reasons[name]
        return {
            "bits": chosen.bits,
            "weight_bits": chosen.weight_bits,
            "saturates": chosen.saturate,
            "range_rule": chosen.rule,
            "why": why,
        }
    last = name == quantised.graph.output
    why = "the output: counts of the limits file" if last else "hands on the counts of the value before it"
    return {"bits": None, "weight_bits": None, "saturates": None, "range_rule": None, "why": why}


def _remembered(scale: Honoured | None) -> dict[str, Any] | None:
    """Scale of the model's own quantiser and what a count stands for now, physical units."""
    if scale is None:
        return None
    return {
        "scale": scale.remembered.scale,
        "zero_point": scale.remembered.zero_point,
        "count": [scale.least, scale.largest],
        "off": scale.off,
        "exact": scale.exact,
    }


def _operands(node: Node, bounds: dict[str, ValueBounds]) -> str | None:
    """What a layer with weights multiplies: operands that a constant moves to 0 … 127 take the relaxed dot product."""
    if not isinstance(node, Dense | Conv):
        return None
    return "uint7" if serves(node, bounds[node.source]) else "int16"


def _errors(
    quantised: QuantisedGraph, counts: Ints, raw: Floats, spans: dict[str, tuple[float, float]]
) -> dict[str, dict[str, Any]]:
    """Error of every value on these rows; the first call, with the calibration rows, sets ``spans``."""
    total = sum(elements(shape) for shape in quantised.graph.shapes.values())
    most = max(ROWS_LEAST, ELEMENT_ROWS_MAX // total)
    keep = np.linspace(0, len(raw) - 1, min(len(raw), most)).astype(np.int64)
    wanted = _float_values(quantised.source, raw[keep]) if len(keep) else {}
    got = values(quantised.graph, counts[keep]) if len(keep) else {}
    found = {}
    for name, real in quantised.real.items():
        if name not in got:
            found[name] = {"rows": 0, "rms": 0.0, "max": 0.0, "figure": error_entry(np.zeros(0), least=STEP)}
            continue
        floats = wanted[name]
        low, high = spans.setdefault(name, (float(floats.min()), float(floats.max())))
        span = high - low or abs(high) or 1.0
        error = ((got[name] * real).reshape(floats.shape) - floats) / span
        found[name] = {
            "rows": len(keep),
            "rms": float(np.sqrt((error**2).mean())),
            "max": float(np.abs(error).max()),
            "figure": error_entry(error.reshape(-1), least=STEP),
        }
    return found


def _float_values(source: FloatGraph | FloatNetwork, raw: Floats) -> dict[str, Floats]:
    """Values by the names they have in the integer graph (a chain's: ``graph.chain``), limits applied."""
    if isinstance(source, FloatGraph):
        return run_all(source, raw)
    return {
        f"l{i}": np.clip(sums, layer.low, layer.high)
        for i, (layer, sums) in enumerate(zip(source.layers, source.activations(raw), strict=True))
    }
