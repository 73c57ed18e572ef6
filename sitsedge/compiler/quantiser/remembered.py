"""Scales of a model that was quantised before: tried first, and taken where they lose no more than the model itself.

A quantiser gives a value v a scale s and a zero point z: v = s·(q - z), low ≤ q ≤ high. Our counts are q - z. A layer
with weights takes any s exactly, because its gain is free; values that are added lie on one grid of powers of two, so
of their scales one is taken exactly and the others are brought to the next power of two above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.graph.float_graph import FloatGraph, Floats, Remembered
from sitsedge.compiler.graph.float_run import run_node
from sitsedge.compiler.quantiser.formats import Format
from sitsedge.compiler.quantiser.scales import roots

OTHERS = Format(12, saturate=True)
"""For values the model says nothing about."""

EXACT = 1e-6
"""A count's physical value that is relatively as near as this to a scale is the scale; float32 keeps 10^-7."""


@dataclass(frozen=True, slots=True)
class Honoured:
    """A remembered scale beside what a count stands for now: ``off`` is the largest ratio of the two, less 1."""

    remembered: Remembered
    least: float
    largest: float
    off: float

    @property
    def exact(self) -> bool:
        """Whether every element has the quantiser's own scale."""
        return self.off <= EXACT


def remembered_formats(graph: FloatGraph, names: list[str]) -> Iterator[dict[str, Format]]:
    """Formats with the model's own scales for the values ``names`` that choose one, eight-bit weights first."""
    by_name = dict(graph.by_name())
    known: dict[str, Remembered] = {}
    for entry in graph.remembered:
        # What hands counts on keeps their scale, so it is up to the nodes that made them.
        for root in roots(entry.value, by_name) if entry.value in by_name else ():
            known.setdefault(root, entry)
    if not known.keys() & set(names):
        return
    for fine in (False, True):
        yield {name: _format(known.get(name), fine=fine) for name in names}


def _format(entry: Remembered | None, *, fine: bool) -> Format:
    if entry is None:
        return Format(OTHERS.bits, saturate=OTHERS.saturate, fine=fine)
    largest = max(entry.high - entry.zero_point, entry.zero_point - entry.low, 1)
    return Format(int(largest).bit_length(), saturate=True, rule="remembered", fine=fine, scale=entry.scale)


def own_outputs(graph: FloatGraph, rows: Floats) -> Floats:
    """Outputs (rows, outputs) with every value rounded as the model's own quantiser rounds it."""
    known = {entry.value: entry for entry in graph.remembered}
    left = graph.uses()
    values: dict[str, Floats] = {}
    for node in graph.nodes:
        value = rows if node is graph.input else run_node(node, [values[name] for name in node.inputs])
        entry = known.get(node.name)
        if entry is not None:
            counts = np.clip(np.rint(value / entry.scale) + entry.zero_point, entry.low, entry.high)
            value = (counts - entry.zero_point) * entry.scale
        values[node.name] = value
        for name in node.inputs:
            left[name] -= 1
            if not left[name]:
                values.pop(name, None)
    return values[graph.output].reshape(len(rows), -1)


def honoured(graph: FloatGraph, real: Mapping[str, Floats]) -> dict[str, Honoured]:
    """Every remembered scale of a value that ``real`` has the physical values of a count of, by value.

    The output's counts are the limits file's, so it is left out.
    """
    found = {}
    for entry in graph.remembered:
        if entry.value in real and entry.value != graph.output:
            ratios = np.asarray(real[entry.value], np.float64) / entry.scale
            off = float(np.maximum(ratios, 1 / ratios).max()) - 1.0
            ends = (float(ratios.min()) * entry.scale, float(ratios.max()) * entry.scale)
            found[entry.value] = Honoured(entry, *ends, off)
    return found
