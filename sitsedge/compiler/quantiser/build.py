"""One trial: formats for every value → integer graph, node by node, on counts that carry the errors made so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph import integer_graph as ig
from sitsedge.compiler.graph import integer_nodes as nd
from sitsedge.compiler.graph import integer_values as iv
from sitsedge.compiler.graph.float_graph import (
    Affine,
    ArgMax,
    Clamp,
    Concat,
    Conv,
    Dense,
    Floats,
    Function,
    Leaky,
    MaxPool,
    Node,
    Product,
    Select,
    Sum,
)
from sitsedge.compiler.graph.float_run import apply_function
from sitsedge.compiler.graph.intervals import ValueBounds, node_bounds, prove
from sitsedge.compiler.graph.reference import compute
from sitsedge.compiler.quantiser.factors import shared_factors
from sitsedge.compiler.quantiser.fine import twice
from sitsedge.compiler.quantiser.formats import Format, Value, powers_of_two
from sitsedge.compiler.quantiser.problem import Problem
from sitsedge.compiler.quantiser.ranges import reach
from sitsedge.compiler.quantiser.weighted import Fits, least_factor, make_weighted
from sitsedge.compiler.reference import INT16_MAX, INT32_MAX, INT32_MIN, SHIFT_MAX, Ints

SLOPE_ERROR = 2.0**-9
"""Relative error of a slope that is good enough: half a step of an eight-bit weight."""


@dataclass(slots=True)
class Trial:
    """The graph so far and the values of its nodes on the calibration rows."""

    problem: Problem
    formats: Mapping[str, Format]
    factors: dict[str, float]
    fits: Fits
    nodes: list[ig.Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    shapes: dict[str, iv.Shape] = field(default_factory=dict)

    def add(self, node: ig.Node, real: Floats) -> Value:
        """Append ``node``, whose counts stand for ``real`` physical units each."""
        before = [self.values[name] for name in node.sources]
        shape = node.shape_of(*(self.shapes[name] for name in node.sources))
        value = Value(
            compute(node, *(source.counts for source in before)),
            node_bounds(node, *(source.bounds for source in before)),
            np.broadcast_to(real, shape),
        )
        self.nodes.append(node)
        self.values[node.name], self.shapes[node.name] = value, shape
        return value


def build(problem: Problem, formats: Mapping[str, Format], fits: Fits) -> tuple[ig.IntegerGraph, Trial]:
    """The proven graph and its values; raises ``QuantiseError`` where these formats do not hold."""
    source = problem.source
    trial = Trial(problem, formats, shared_factors(problem, formats), fits)
    rows = problem.counts.reshape(-1, *source.shape)
    trial.values[source.name] = Value(rows, ValueBounds(source.box_low, source.box_high), problem.real)
    trial.shapes[source.name] = source.shape
    for node in problem.graph.nodes[1:]:
        _make(trial, node)
    graph = ig.IntegerGraph.make(source, tuple(trial.nodes))
    prove(graph)
    return graph, trial


def _make(trial: Trial, node: Node) -> None:
    before = [trial.values[name] for name in node.inputs]
    name, first = node.name, node.inputs[0]
    real = before[0].real
    match node:
        case Dense() | Conv() | Affine():
            _weighted(trial, node)
        case Sum() | Clamp():
            _sum(trial, node, before)
        case Product():
            _product(trial, node, before)
        case MaxPool():
            kernel, strides, pads = _window(node)
            made = nd.MaxPool.make(name, first, kernel=kernel, strides=strides, pads=pads)
            channels = real.reshape(real.shape[0], -1)[:, 0]
            trial.add(made, channels.reshape(-1, *(1,) * (real.ndim - 1)))
        case Leaky():
            multiplier, shift = slope(node.slope)
            trial.add(nd.Leaky.make(name, first, multiplier=multiplier, shift=shift), real)
        case Function():
            _table(trial, node, before[0])
        case Select():
            indices = node.indices.reshape(-1)
            made_select = nd.Select.make(name, first, indices=indices, shape=node.shape)
            trial.add(made_select, real.reshape(-1)[indices].reshape(node.shape))
        case Concat():
            joined = np.concatenate([value.real for value in before], axis=node.axis)
            trial.add(nd.Concat.make(name, node.inputs, axis=node.axis), joined)
        case ArgMax():
            trial.add(nd.ArgMax(name, first), np.ones(1))
        case _:
            raise AssertionError(f"{node.kind} is lowered before")


def _window(node: MaxPool) -> tuple[iv.Pair, iv.Pair, iv.Pads]:
    kernel, strides, pads = node.kernel, node.strides, node.pads
    if len(kernel) == 1:
        return (1, kernel[0]), (1, strides[0]), (0, pads[0], 0, pads[1])
    return (kernel[0], kernel[1]), (strides[0], strides[1]), (pads[0], pads[1], pads[2], pads[3])


def slope(value: float) -> tuple[int, int]:
    """Multiplier and shift of a slope: the fewest bits within ``SLOPE_ERROR``, else as near as the format allows."""
    for shift in range(iv.LEAKY_SHIFT_MAX + 1):
        multiplier = round(value * (1 << shift))
        if multiplier > iv.MULTIPLIER_MAX:
            break
        if abs(multiplier / (1 << shift) - value) <= SLOPE_ERROR * value:
            return multiplier, shift
    nearest = [s for s in range(iv.LEAKY_SHIFT_MAX + 1) if round(value * (1 << s)) <= iv.MULTIPLIER_MAX]
    if not nearest:
        raise QuantiseError("unsupported", found=f"a slope of {value:g}", expected=f"at most {iv.MULTIPLIER_MAX}")
    return round(value * (1 << nearest[-1])), nearest[-1]


def _weighted(trial: Trial, node: Dense | Conv | Affine) -> None:
    """The node itself, or, for an Affine of a flat value, the same over a value of one position per channel."""
    problem = trial.problem
    source = node.inputs[0]
    last = node.name == problem.graph.output
    factors = problem.freedom.fixed.get(node.name)
    if factors is not None:
        factors = factors.reshape(factors.shape[0], -1)[:, 0]
    elif node.name in trial.factors:
        _coarsen(trial, node, least_factor(node, trial.values[source]))
        factors = np.full(node.shape[0], trial.factors[node.name])
    elif (wanted := trial.formats[node.name].scale) is not None:
        factors = np.full(node.shape[0], wanted)
    flat = isinstance(node, Affine) and len(node.shape) == 1
    if flat:
        size = node.shape[0]
        columns = nd.Select.make(f"{node.name}.columns", source, indices=np.arange(size), shape=(size, 1))
        source = columns.name
        trial.add(columns, trial.values[node.inputs[0]].real[:, None])
    made, real = make_weighted(
        node,
        f"{node.name}.each" if flat and not last else node.name,
        _twice(trial, node, source) if trial.formats[node.name].fine else source,
        replace(trial.values[source], counts=trial.values[source].counts[problem.fitted]),
        format_=trial.formats[node.name],
        factors=factors,
        sums=problem.sums[node.name][problem.fitted],
        first=source == problem.source.name,
        last=last,
        fits=trial.fits,
        fitted=problem.fits_weights,
    )
    wide = (-1, *(1,) * (len(trial.shapes[source]) - 1)) if not isinstance(node, Dense) else (-1,)
    trial.add(made, real.reshape(wide))
    if flat and not last:
        back = nd.Select.make(node.name, made.name, indices=np.arange(size), shape=(size,))
        trial.add(back, real)


def _twice(trial: Trial, node: Dense | Conv | Affine, source: str) -> str:
    """The source with its channels twice, for weights of twelve bits."""
    before = trial.values[source]
    channels, *space = trial.shapes[source]
    groups = node.groups if isinstance(node, Conv) else channels if isinstance(node, Affine) else 1
    order = twice(channels, groups)
    indices = np.arange(before.real.size).reshape(channels, -1)[order].reshape(-1)
    made = nd.Select.make(f"{node.name}.twice", source, indices=indices, shape=(2 * channels, *space))
    trial.add(made, before.real[order])
    return made.name


def _coarsen(trial: Trial, node: Node, least: float) -> None:
    """Doubles the factors of a node's grid until weights can reach them, while no value has been made with them."""
    bound = trial.problem.freedom
    grid = bound.grid[bound.lock[node.name]]
    members = [name for name, lock in bound.lock.items() if bound.grid[lock] == grid and name in trial.factors]
    if trial.factors[node.name] >= least or any(name in trial.values or name in bound.fixed for name in members):
        return
    doublings = int(np.ceil(np.log2(least / trial.factors[node.name])))
    for name in members:
        trial.factors[name] *= 2.0**doublings


def saturation(format_: Format, bounds: ValueBounds, *, last: bool) -> int:
    """Largest magnitude the clamp of a value lets through: its format's, int16's where it is read, else no bound."""
    if last:
        return INT32_MAX
    if format_.saturate:
        return format_.largest
    outside = max(-int(bounds.low.min()), int(bounds.high.max())) > INT16_MAX
    return INT16_MAX if outside else INT32_MAX


def _sum(trial: Trial, node: Sum | Clamp, before: list[Value]) -> None:
    factor = trial.factors[node.name]
    reals = [float(value.real.flat[0]) for value in before]
    finest = min(*reals, factor)
    ups = tuple(powers_of_two(real / finest) for real in reals)
    shift = powers_of_two(factor / finest)
    if max(ups) > iv.UP_SHIFT_MAX:
        raise QuantiseError(
            "sum-range",
            found=f"{node.origin or node.name} adds values whose counts differ by 2^{max(ups)}",
            expected=f"at most 2^{iv.UP_SHIFT_MAX}",
            hint="choose a coarser output scale in the limits file",
        )
    low = max(INT32_MIN, int(np.clip(np.rint(node.low / factor), INT32_MIN, INT32_MAX)))
    high = int(np.clip(np.rint(node.high / factor), INT32_MIN, INT32_MAX))

    def made(largest: int) -> nd.Sum:
        lowest = max(low, -largest) if largest < INT32_MAX else low
        return nd.Sum.make(
            node.name, node.inputs, up_shifts=ups, shift=shift, low=min(lowest, high), high=min(high, largest)
        )

    bounds = node_bounds(made(INT32_MAX), *(value.bounds for value in before))
    last = node.name == trial.problem.graph.output
    trial.add(made(saturation(trial.formats[node.name], bounds, last=last)), np.array(factor))


def _product(trial: Trial, node: Product, before: list[Value]) -> None:
    """The shift that brings the product's reach to its format, and further where int16 is not proven."""
    format_, problem = trial.formats[node.name], trial.problem
    real = np.broadcast_to(before[0].real * before[1].real, node.shape)
    values = (problem.values[node.name][problem.fitted] / real).reshape(-1, 1)
    top = float(reach(values, rule=format_.rule, largest_count=format_.largest, saturates=format_.saturate)[0])
    shift = int(np.clip(np.ceil(np.log2(max(top, 1.0) / format_.largest) - 1e-9), 0, SHIFT_MAX))

    def made(largest: int) -> nd.Product:
        low = INT32_MIN if largest == INT32_MAX else -largest
        return nd.Product.make(node.name, *node.inputs, shift=shift, low=low, high=largest)

    def bounds() -> ValueBounds:
        return node_bounds(made(INT32_MAX), *(value.bounds for value in before))

    while not format_.saturate and saturation(format_, bounds(), last=False) < INT32_MAX:
        # Two int16 multiply to 2^30, so this ends: the proven bound, not the data, decides what an int16 must hold.
        shift += 1
    trial.add(made(saturation(format_, bounds(), last=False)), real * 2.0**shift)


def _table(trial: Trial, node: Function, before: Value) -> None:
    low, high = int(before.bounds.low.min()), int(before.bounds.high.max())
    factor = trial.factors[node.name]
    if high - low >= iv.TABLE_MAX:
        raise QuantiseError(
            "table-range",
            found=f"{node.origin or node.name} of {high - low + 1} different counts",
            expected=f"at most {iv.TABLE_MAX}",
        )
    arguments: Floats = np.arange(low, high + 1, dtype=np.float64) * float(before.real.flat[0])
    entries = np.rint(apply_function(node.function, node.parameters, arguments) / factor)
    table: Ints = np.clip(entries, -INT16_MAX, INT16_MAX).astype(np.int64)
    trial.add(nd.Table.make(node.name, node.inputs[0], values=table, first=low), np.array(factor))
