"""What all trials of one quantisation share: the lowered graph, the freedom of its scales, float values on the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sitsedge.compiler.graph.float_graph import Clamped, Conv, Dense, FloatGraph, Floats, Function
from sitsedge.compiler.graph.float_run import run_all, run_node
from sitsedge.compiler.graph.integer_graph import Input
from sitsedge.compiler.quantise import Scales
from sitsedge.compiler.quantiser.lower import lower
from sitsedge.compiler.quantiser.scales import Freedom, adapt_input, free_products, freedom, give_back, roots
from sitsedge.compiler.reference import Ints

ELEMENT_ROWS_MAX = 1 << 25
"""Elements times rows of all values together kept in memory; more rows are thinned out evenly."""

ROWS_LEAST = 4

FIT_WORK_MAX = 1 << 28
"""Multiplications times rows above which weights are rounded one by one: fitting them would take minutes a trial."""

JUDGED_EVERY = 4
"""Every fourth row takes no part in ranges and weights: values that saturate must be judged on rows not seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What does not depend on the formats: lowered graph, freedom of its scales, calibration rows through it.

    ``values`` are the float values of every node, ``sums`` those of weighted nodes and sums before their limits, each
    (rows, *shape). ``fitted`` are the rows that ranges and weights come from; trials are judged on all of them.
    ``counts`` (rows, inputs) and ``real`` (input's shape) describe the input; ``outputs`` and ``span`` (outputs,) the
    float result, ``scales`` its physical units per count.
    """

    graph: FloatGraph
    freedom: Freedom
    source: Input
    counts: Ints
    fitted: Ints
    real: Floats
    values: dict[str, Floats]
    sums: dict[str, Floats]
    outputs: Floats
    span: Floats
    scales: Floats
    table_fed: frozenset[str]
    is_class: bool
    fits_weights: bool
    """Whether weights are rounded against their output, as far as ``weights`` does that for a layer."""


def pose(graph: FloatGraph, scales: Scales, counts: Ints, raw: Floats, *, class_output: bool) -> Problem:
    """Everything the trials share; raises ``QuantiseError``."""
    lowered = free_products(lower(graph, class_output=class_output))
    shape = lowered.input.shape
    real = scales.inputs.reshape(shape)
    lowered = adapt_input(lowered, real)
    is_class = lowered.by_name()[lowered.output].kind == "ArgMax"
    keep = _thinned(len(raw), sum(node.size for node in lowered.nodes))
    rows = raw[keep].reshape(-1, *shape)
    values = run_all(lowered, rows)
    largest = {name: np.abs(value).max(axis=0) for name, value in values.items()}
    finished, fixed = give_back(lowered, scales.outputs, largest)
    if finished is not lowered:
        values = run_all(finished, rows)
    bound = freedom(finished, fixed)
    unlimited = {
        node.name: run_node(replace(node, low=-np.inf, high=np.inf), [values[name] for name in node.inputs])
        for node in finished.nodes
        if isinstance(node, Clamped)
    }
    outputs = values[finished.output].reshape(len(rows), -1)
    spread = outputs.max(axis=0) - outputs.min(axis=0)
    by_name = dict(finished.by_name())
    fed = {root for node in finished.nodes if isinstance(node, Function) for root in roots(node.inputs[0], by_name)}
    source = Input.make(
        lowered.input.name, shape, box_low=scales.box_low.reshape(shape), box_high=scales.box_high.reshape(shape)
    )
    return Problem(
        graph=finished,
        freedom=bound,
        source=source,
        counts=counts[keep],
        fitted=np.flatnonzero(np.arange(len(keep)) % JUDGED_EVERY != JUDGED_EVERY - 1),
        real=real,
        values=values,
        sums=unlimited,
        outputs=outputs,
        span=np.maximum(spread, scales.outputs),
        scales=np.ones(1) if is_class else scales.outputs,
        table_fed=frozenset(fed),
        is_class=is_class,
        fits_weights=_multiplications(finished) * len(keep) <= FIT_WORK_MAX,
    )


def _multiplications(graph: FloatGraph) -> int:
    """Of one inference."""
    weighted = (node for node in graph.nodes if isinstance(node, Dense | Conv))
    return sum(node.weights.size * (node.size // len(node.weights)) for node in weighted)


def _thinned(rows: int, size: int) -> Ints:
    most = max(ROWS_LEAST, ELEMENT_ROWS_MAX // size)
    return np.linspace(0, rows - 1, min(rows, most)).astype(np.int64)
