"""Float graph and calibration → integer graph: tries formats and keeps the cheapest graph that meets the goal.

A chain of dense layers goes through ``compiler.quantise``, whose search is finer. Every other graph is tried with one
format for all values first; then, from the best of the fast ones (7-bit unsigned activations), values are widened one
by one, each time the one whose widening lowers the error most, until the goal is met. Where few circuit rows are
wanted, the best of all is narrowed again, value by value, while the goal is still met. What is returned is the cheapest
of all that meet the goal, by circuit rows or by speed, else the most accurate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.graph.float_graph import Conv as FloatConv
from sitsedge.compiler.graph.float_graph import Dense as FloatDense
from sitsedge.compiler.graph.float_graph import FloatGraph, Floats
from sitsedge.compiler.graph.integer_graph import Conv, Dense, IntegerGraph
from sitsedge.compiler.graph.intervals import ValueBounds, graph_bounds
from sitsedge.compiler.graph.model import GraphModel
from sitsedge.compiler.graph.seven_bits import serves
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.quantise import NEARLY_BEST, Goal, Quantised, Scales, quantise
from sitsedge.compiler.quantiser.build import build
from sitsedge.compiler.quantiser.candidates import choosing, fast, uniform
from sitsedge.compiler.quantiser.chains import layer_errors, network_of
from sitsedge.compiler.quantiser.cost import circuit_rows
from sitsedge.compiler.quantiser.formats import FAST_BITS, TABLE_BITS_MAX, Format
from sitsedge.compiler.quantiser.problem import Problem, pose
from sitsedge.compiler.quantiser.ranges import RULES
from sitsedge.compiler.quantiser.reasons import (
    FIXED,
    TABLE_ARGUMENT,
    narrowed_reason,
    uniform_reasons,
    widened_reason,
)
from sitsedge.compiler.quantiser.sizes import require_moderate_values, require_moderate_weights
from sitsedge.compiler.quantiser.weighted import Fits
from sitsedge.compiler.reference import IntegerModel, Ints

Prefer = Literal["rows", "speed"]

WIDE = Format(12, saturate=False)
"""What a value is widened to: int16 with room for what the calibration rows did not show."""

LARGE_WORK = 1 << 28
"""Multiplications times rows above which only a few formats are tried: each trial then takes seconds."""

WIDENINGS_MAX = 12
"""Rounds of widening; each tries every value still narrow."""

TRIALS_MAX = 64
"""Of widening and of narrowing; a small network has half a dozen values."""

NARROWEST_BITS = 4


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


def quantise_graph(
    graph: FloatGraph,
    scales: Scales,
    counts: Ints,
    raw: Floats,
    *,
    goal: Goal,
    prefer: Prefer = "rows",
    class_output: bool = False,
) -> QuantisedGraph:
    """Choose the integer graph; ``counts`` (rows, n) are the quantised and ``raw`` the physical inputs, both flat.

    ``scales`` as for ``compiler.quantise``; a class output has the scale 1. Raises ``QuantiseError`` when no format
    keeps every number inside its range, or for a node that has no integer form.
    """
    require_moderate_weights(graph)
    if prefer == "rows" and (network := network_of(graph)) is not None:
        return _chain(network, scales, counts, raw, goal)
    problem = pose(graph, scales, counts, raw, class_output=class_output)
    require_moderate_values(problem.values)
    fits: Fits = {}
    found: list[QuantisedGraph] = []
    failure: QuantiseError | None = None
    large = _multiplications(problem.graph) * len(problem.counts) > LARGE_WORK
    asked = [dict.fromkeys(choosing(problem), format_) for format_ in uniform(large=large)]
    if prefer == "speed":
        asked += [fast(problem, rule) for rule in RULES]
    for formats in asked:
        try:
            found.append(trial(problem, formats, goal, fits))
        except QuantiseError as error:
            failure = error
    if not found:
        assert failure is not None, "at least one format was tried"
        raise failure
    if not large:
        found += _widened(problem, found, goal, fits, prefer)
        if prefer == "rows":
            found += _narrowed(problem, select(found, prefer), goal, fits)
    return select(found, prefer)


def _chain(network: FloatNetwork, scales: Scales, counts: Ints, raw: Floats, goal: Goal) -> QuantisedGraph:
    """A chain of dense layers by its own search."""
    # Folding multiplies weights that were moderate one by one.
    require_moderate_values({f"weights of layer {i}": layer.weights for i, layer in enumerate(network.layers)})
    require_moderate_values({f"layer {i}": sums for i, sums in enumerate(network.activations(raw))})
    found = quantise(network, scales, counts, raw, goal=goal)
    graph = graph_of(found.model)
    hidden = Format(found.choice.activation_bits, saturate=False)
    formats = {node.name: hidden for node in graph.nodes[:-1]}
    return QuantisedGraph(
        graph=graph,
        formats=formats,
        rms=found.rms,
        peak=found.peak,
        rows=found.constraints,
        meets_goal=found.meets_goal,
        layers=layer_errors(network, found, counts, raw),
        real={node.name: real for node, real in zip(graph.nodes, found.reals, strict=True)},
        source=network,
        reasons=uniform_reasons(formats, "rows", meets_goal=found.meets_goal),
        wide=_wide(graph, graph_bounds(graph)),
        chain=found,
    )


def select(found: list[QuantisedGraph], prefer: Prefer) -> QuantisedGraph:
    """The cheapest of those that meet the goal, else of those nearly as accurate as the best, its reasons complete."""
    good = [q for q in found if q.meets_goal]
    if not good:
        best = min(q.rms for q in found)
        good = [q for q in found if q.rms <= NEARLY_BEST * best]
    best_of = min(good, key=lambda q: (q.rows, q.rms) if prefer == "rows" else (q.wide, q.rms))
    general = uniform_reasons(best_of.formats, prefer, meets_goal=best_of.meets_goal)
    return replace(best_of, reasons={**general, **best_of.reasons})


def _multiplications(graph: FloatGraph) -> int:
    """Of one inference."""
    weighted = (node for node in graph.nodes if isinstance(node, FloatDense | FloatConv))
    return sum(node.weights.size * (node.size // len(node.weights)) for node in weighted)


def _widened(
    problem: Problem, found: list[QuantisedGraph], goal: Goal, fits: Fits, prefer: Prefer
) -> list[QuantisedGraph]:
    """From the best fast graph on, widen the value that helps most until the goal is met."""
    free = [name for name in choosing(problem) if name not in problem.freedom.fixed]
    chosen = free if prefer == "rows" else [name for name in free if name not in problem.table_fed]
    narrowest = [q for q in found if all(q.formats[n].bits <= FAST_BITS and q.formats[n].saturate for n in chosen)]
    if not narrowest:
        return []
    current = min(narrowest, key=lambda q: (q.wide if prefer == "speed" else 0, q.rms))
    made, tried = list[QuantisedGraph](), 0
    for _ in range(WIDENINGS_MAX):
        narrow = [name for name in chosen if current.formats[name].bits <= FAST_BITS]
        if current.meets_goal or not narrow or tried + len(narrow) > TRIALS_MAX:
            break
        tried += len(narrow)
        steps = []
        for name in narrow:
            try:
                steps.append(trial(problem, {**current.formats, name: WIDE}, goal, fits))
            except QuantiseError:
                # This value cannot be widened in its place; others may.
                continue
        if not steps:
            break
        best = min(steps, key=lambda q: q.rms)
        name = next(name for name in narrow if best.formats[name].bits > FAST_BITS)
        current = replace(best, reasons={**current.reasons, name: widened_reason(current.rms, best.rms)})
        made.append(current)
    return made


def _narrowed(problem: Problem, start: QuantisedGraph, goal: Goal, fits: Fits) -> list[QuantisedGraph]:
    """From a graph that meets the goal on, take bits from one value after another while it still does."""
    if not start.meets_goal:
        return []
    current, tried = start, 0
    for name in choosing(problem):
        while tried < TRIALS_MAX and current.formats[name].bits > NARROWEST_BITS:
            tried += 1
            narrower = replace(current.formats[name], bits=current.formats[name].bits - 1)
            try:
                made = trial(problem, {**current.formats, name: narrower}, goal, fits)
            except QuantiseError:
                break
            if not made.meets_goal or made.rows >= current.rows:
                break
            reasons = {**current.reasons, name: narrowed_reason(current.rows, made.rows)}
            current = replace(made, reasons=reasons)
    return [current]


def trial(problem: Problem, formats: Mapping[str, Format], goal: Goal, fits: Fits) -> QuantisedGraph:
    """One graph with these formats; raises ``QuantiseError`` where they do not hold."""
    fitting = {name: _suited(problem, name, format_) for name, format_ in formats.items()}
    graph, made = build(problem, fitting, fits)
    got = made.values[graph.output].counts.reshape(len(problem.counts), -1) * problem.scales
    if problem.is_class:
        rms = peak = float((got != problem.outputs).mean())
    else:
        error = (got - problem.outputs) / problem.span
        unseen = np.delete(error, problem.fitted, axis=0)
        rms = max(float(np.sqrt((part**2).mean(axis=0)).max()) for part in (error, unseen) if len(part))
        peak = float(np.abs(error).max())
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
        wide=_wide(graph, bounds),
    )


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


def _wide(graph: IntegerGraph, bounds: Mapping[str, ValueBounds]) -> int:
    return sum(1 for node in graph.nodes if isinstance(node, Dense | Conv) and not serves(node, bounds[node.source]))
