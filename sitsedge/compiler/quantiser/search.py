"""Float graph and calibration → integer graph: tries formats and keeps the cheapest graph that meets the goal.

The scales of a model that was quantised before are tried first, and taken where they lose no more than it does.
A chain of dense layers goes through ``compiler.quantise``, whose search is finer; where eight-bit weights miss the
goal there, it is searched like any other graph. Every other graph is tried with one
format for all values first; then, from the best of the fast ones (7-bit unsigned activations), values are widened one
by one, each time the one whose widening lowers the error most, until the goal is met. Where eight-bit weights do not
meet it, layers with twelve-bit weights are tried, and taken back one by one where eight bits do. Where few circuit rows
are wanted, the best of all is narrowed again, value by value, while the goal is still met. What is returned is the
cheapest of all that meet the goal, by circuit rows or by speed, else the most accurate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph.chain import graph_of
from sitsedge.compiler.graph.float_graph import Affine as FloatAffine
from sitsedge.compiler.graph.float_graph import Conv as FloatConv
from sitsedge.compiler.graph.float_graph import Dense as FloatDense
from sitsedge.compiler.graph.float_graph import FloatGraph, Floats
from sitsedge.compiler.graph.intervals import graph_bounds
from sitsedge.compiler.network import FloatNetwork
from sitsedge.compiler.quantise import NEARLY_BEST, Goal, Scales, quantise
from sitsedge.compiler.quantiser.candidates import fast, uniform
from sitsedge.compiler.quantiser.chains import layer_errors, network_of
from sitsedge.compiler.quantiser.formats import FAST_BITS, Format
from sitsedge.compiler.quantiser.problem import Problem, pose
from sitsedge.compiler.quantiser.ranges import RULES
from sitsedge.compiler.quantiser.reasons import (
    BESIDE_REMEMBERED,
    EIGHT_BITS_DO,
    FINE_WEIGHTS,
    REMEMBERED,
    narrowed_reason,
    uniform_reasons,
    widened_reason,
)
from sitsedge.compiler.quantiser.remembered import own_outputs, remembered_formats
from sitsedge.compiler.quantiser.sizes import require_moderate_values, require_moderate_weights
from sitsedge.compiler.quantiser.trial import QuantisedGraph, choosing, output_errors, trial, wide_layers
from sitsedge.compiler.quantiser.weighted import Fits
from sitsedge.compiler.reference import Ints

Prefer = Literal["rows", "speed"]

FINE = (
    Format(9, saturate=False, fine=True),
    Format(10, saturate=False, fine=True),
    Format(12, saturate=False, fine=True),
    Format(10, saturate=True, fine=True),
    Format(12, saturate=True, fine=True),
)
"""Tried where eight-bit weights do not meet the goal."""

WIDE = Format(12, saturate=False)
"""What a value is widened to: int16 with room for what the calibration rows did not show."""

LARGE_WORK = 1 << 28
"""Multiplications times rows above which only a few formats are tried: each trial then takes seconds."""

WIDENINGS_MAX = 12
"""Rounds of widening; each tries every value still narrow."""

TRIALS_MAX = 64
"""Of widening and of narrowing; a small network has half a dozen values."""

NARROWEST_BITS = 4

RESERVE = 0.8
"""Share of the goal that taking bits away may use up: every step looks at the same rows, and new rows err more."""


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
        return _chain_or_finer(network, graph, scales, counts, raw, goal)
    return _search(graph, scales, counts, raw, goal=goal, prefer=prefer, class_output=class_output)


def _chain_or_finer(
    network: FloatNetwork, graph: FloatGraph, scales: Scales, counts: Ints, raw: Floats, goal: Goal
) -> QuantisedGraph:
    """A chain by its own search, which has weights of eight bits at most; where they miss the goal, as any graph.

    What the general search finds is taken only if it meets the goal: properties of a chain are decided more sharply.
    """
    chain = _chain(network, scales, counts, raw, goal)
    if chain.meets_goal or len(network.layers) == 1:
        return chain
    try:
        finer = _search(graph, scales, counts, raw, goal=goal, prefer="rows", class_output=False)
    except QuantiseError:
        # The chain is there already.
        return chain
    return finer if finer.meets_goal else chain


def _search(
    graph: FloatGraph,
    scales: Scales,
    counts: Ints,
    raw: Floats,
    *,
    goal: Goal,
    prefer: Prefer,
    class_output: bool,
) -> QuantisedGraph:
    """The general search, for any graph."""
    problem = pose(graph, scales, counts, raw, class_output=class_output)
    require_moderate_values(problem.values)
    fits: Fits = {}
    if (own := _remembered(problem, goal)) is not None:
        return own
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
        if not any(q.meets_goal for q in found):
            found += _refined(problem, goal, prefer, fits)
        if prefer == "rows":
            found += _narrowed(problem, select(found, prefer), goal, fits)
    return select(found, prefer)


def _remembered(problem: Problem, goal: Goal) -> QuantisedGraph | None:
    """With the scales of the model's own quantiser, where there are some and they meet the goal.

    Or where they take the outputs no further from the network without rounding than the model's own rounding does.
    """
    allowed: Goal | None = None
    for formats in remembered_formats(problem.graph, choosing(problem)):
        if allowed is None:
            rows = problem.values[problem.graph.input.name]
            rms, peak = output_errors(problem, own_outputs(problem.graph, rows))
            allowed = Goal(max(goal.rms, NEARLY_BEST * rms), max(goal.peak, NEARLY_BEST * peak))
        try:
            made = trial(problem, formats, goal, {})
        except QuantiseError:
            # Scales we cannot reach with our weights: the search finds others.
            continue
        if made.rms <= allowed.rms and made.peak <= allowed.peak:
            reasons = {
                name: REMEMBERED if format_.scale is not None else BESIDE_REMEMBERED
                for name, format_ in formats.items()
            }
            return replace(made, reasons={**reasons, **made.reasons})
    return None


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
        wide=wide_layers(graph, graph_bounds(graph)),
        chain=found,
    )


def select(found: list[QuantisedGraph], prefer: Prefer) -> QuantisedGraph:
    """The cheapest of those that meet the goal, else of those nearly as accurate as the best, its reasons complete."""
    good = [q for q in found if q.meets_goal]
    if not good:
        best = min(q.rms for q in found)
        good = [q for q in found if q.rms <= NEARLY_BEST * best]
    best_of = min(good, key=lambda q: (q.rows, q.rms) if prefer == "rows" else (q.wide, _fine(q), q.rms))
    general = uniform_reasons(best_of.formats, prefer, meets_goal=best_of.meets_goal)
    return replace(best_of, reasons={**general, **best_of.reasons})


def _with_reserve(made: QuantisedGraph, goal: Goal) -> bool:
    return made.rms <= RESERVE * goal.rms and made.peak <= RESERVE * goal.peak


def _fine(found: QuantisedGraph) -> int:
    """Layers that multiply twice."""
    return sum(format_.fine for format_ in found.formats.values())


def _multiplications(graph: FloatGraph) -> int:
    """Of one inference."""
    weighted = (node for node in graph.nodes if isinstance(node, FloatDense | FloatConv))
    return sum(node.weights.size * (node.size // len(node.weights)) for node in weighted)


def _widened(
    problem: Problem, found: list[QuantisedGraph], goal: Goal, fits: Fits, prefer: Prefer
) -> list[QuantisedGraph]:
    """From the best fast graphs on: the most accurate and, for speed, the one with most layers on the fast kernel."""
    free = [name for name in choosing(problem) if name not in problem.freedom.fixed]
    chosen = free if prefer == "rows" else [name for name in free if name not in problem.table_fed]
    narrowest = [q for q in found if all(q.formats[n].bits <= FAST_BITS and q.formats[n].saturate for n in chosen)]
    if not narrowest:
        return []
    starts = [min(narrowest, key=lambda q: q.rms)]
    if prefer == "speed" and (fastest := min(narrowest, key=lambda q: (q.wide, q.rms))) is not starts[0]:
        starts.append(fastest)
    return [made for start in starts for made in _widened_from(problem, start, chosen, goal, fits)]


def _widened_from(
    problem: Problem, current: QuantisedGraph, chosen: list[str], goal: Goal, fits: Fits
) -> list[QuantisedGraph]:
    """Widen the value that helps most until the goal is met."""
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


def _refined(problem: Problem, goal: Goal, prefer: Prefer, fits: Fits) -> list[QuantisedGraph]:
    """Twelve-bit weights in every layer, then eight bits again wherever the goal is still met."""
    found = []
    for format_ in FINE:
        try:
            found.append(trial(problem, dict.fromkeys(choosing(problem), format_), goal, fits))
        except QuantiseError:
            # Longer sums may leave int32 or the exponents' range; a coarser format may still fit.
            continue
    if not found:
        return []
    current = select(found, prefer)
    weighted = [node.name for node in problem.graph.nodes if isinstance(node, FloatDense | FloatConv | FloatAffine)]
    reasons = {**current.reasons, **dict.fromkeys(weighted, FINE_WEIGHTS)}
    current = replace(current, reasons=reasons)
    for name in weighted if current.meets_goal else ():
        plain = replace(current.formats[name], fine=False)
        try:
            made = trial(problem, {**current.formats, name: plain}, goal, fits)
        except QuantiseError:
            continue
        if _with_reserve(made, goal):
            current = replace(made, reasons={**current.reasons, name: EIGHT_BITS_DO})
    return [*found, current]


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
            if not _with_reserve(made, goal) or made.rows >= current.rows:
                break
            reasons = {**current.reasons, name: narrowed_reason(current.rows, made.rows)}
            current = replace(made, reasons=reasons)
    return [current]
