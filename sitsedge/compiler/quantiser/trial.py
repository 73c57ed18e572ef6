"""One trial of the search: formats for every value → graph, with its errors and its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.graph.float_graph import FloatGraph, Floats
from sitsedge.compiler.graph.integer_graph import IntegerGraph
from sitsedge.compiler.graph.integer_weighted import Conv, Dense
from sitsedge.compiler.graph.intervals import ValueBounds
from sitsedge.compiler.graph.model import GraphModel
from sitsedge.compiler.graph.seven_bits import serves
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.quantise import Goal, Quantised
from sitsedge.compiler.quantiser.build import build
from sitsedge.compiler.quantiser.cost import circuit_rows
from sitsedge.compiler.quantiser.formats import TABLE_BITS_MAX, Format
from sitsedge.compiler.quantiser.problem import Problem
from sitsedge.compiler.quantiser.reasons import FIXED, TABLE_ARGUMENT
from sitsedge.compiler.quantiser.scales import chooses
from sitsedge.compiler.quantiser.weighted import Fits
from sitsedge.compiler.reference import IntegerModel


@dataclass(frozen=True, slots=True, eq=False)
class QuantisedGraph:
    """The graph, the format of every value that chose one, and how good it is on the rows it was fitted to.

    ``rms`` and ``peak`` are relative to each output's span; for a class output both are the share of rows with
    another class. ``layers`` gives each value's root-mean-square error relative to its own spread. ``real`` are
    physical units per count of the values that stand for one of ``source``, the float network the formats were chosen
    for; ``reasons`` say why a value has its format.
    """

    graph: IntegerGraph
    formats: Mapping[str, Format]
    rms: float
    peak: float
    rows: int
    meets_goal: bool
    layers: Mapping[str, float]
    real: Mapping[str, Floats]
    source: FloatGraph | FloatNetwork
    reasons: Mapping[str, str]
    wide: int
    """Number of layers with weights that the relaxed dot product cannot compute, by the bounds proven."""
    chain: Quantised | None = None
    """What ``compiler.quantise`` chose, where the graph is a chain of dense layers."""

    @property
    def model(self) -> IntegerModel | GraphModel:
        """What runs: the chain's own form where there is one."""
        return GraphModel(self.graph) if self.chain is None else self.chain.model


def choosing(problem: Problem) -> list[str]:
    """Values whose format is chosen: all but the input, the output and what only hands on."""
    return [node.name for node in problem.graph.nodes if chooses(node)]


def trial(problem: Problem, formats: Mapping[str, Format], goal: Goal, fits: Fits) -> QuantisedGraph:
    """One graph with these formats; raises ``QuantiseError`` where they do not hold."""
    fitting = {name: _suited(problem, name, format_) for name, format_ in formats.items()}
    graph, made = build(problem, fitting, fits)
    got = made.values[graph.output].counts.reshape(len(problem.counts), -1) * problem.scales
    rms, peak = output_errors(problem, got)
    layers = {}
    for name, value in made.values.items():
        if name in problem.values and name != problem.source.name:
            wanted = problem.values[name]
            spread = float(wanted.std())
            shown = (value.counts * value.real).reshape(wanted.shape)
            missed = float(np.sqrt(((shown - wanted) ** 2).mean()))
            layers[name] = missed / spread if spread > 0 else missed
    bounds = {name: value.bounds for name, value in made.values.items()}
    return QuantisedGraph(
        graph=graph,
        formats=fitting,
        rms=rms,
        peak=peak,
        rows=circuit_rows(graph),
        meets_goal=rms <= goal.rms and peak <= goal.peak,
        layers=layers,
        real={name: value.real for name, value in made.values.items() if name in problem.values},
        source=problem.graph,
        reasons=_bound_reasons(problem, formats, fitting),
        wide=wide_layers(graph, bounds),
    )


def output_errors(problem: Problem, got: Floats) -> tuple[float, float]:
    """Root-mean-square and largest error of outputs (rows, outputs) on the calibration rows, relative to the spans."""
    if problem.is_class:
        share = float((got != problem.outputs).mean())
        return share, share
    error = (got - problem.outputs) / problem.span
    unseen = np.delete(error, problem.fitted, axis=0)
    rms = max(float(np.sqrt((part**2).mean(axis=0)).max()) for part in (error, unseen) if len(part))
    return rms, float(np.abs(error).max())


def _suited(problem: Problem, name: str, format_: Format) -> Format:
    """A table's argument saturates, at no more bits than a table has entries for; an output's counts do not."""
    if name in problem.freedom.fixed:
        return replace(format_, saturate=False)
    if name in problem.table_fed:
        return replace(format_, bits=min(format_.bits, TABLE_BITS_MAX), saturate=True)
    return format_


def _bound_reasons(problem: Problem, asked: Mapping[str, Format], made: Mapping[str, Format]) -> dict[str, str]:
    """Values whose place in the network leaves no choice."""
    reasons = {}
    for name, format_ in made.items():
        if name in problem.freedom.fixed:
            reasons[name] = FIXED
        elif format_.bits < asked[name].bits:
            reasons[name] = TABLE_ARGUMENT
    return reasons


def wide_layers(graph: IntegerGraph, bounds: Mapping[str, ValueBounds]) -> int:
    """Layers with weights that the relaxed dot product cannot compute."""
    return sum(1 for node in graph.nodes if isinstance(node, Dense | Conv) and not serves(node, bounds[node.source]))
