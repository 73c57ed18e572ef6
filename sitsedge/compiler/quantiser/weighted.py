"""Makes one Dense, Conv or Affine integer: gain, shifts, weights, clamp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sitsedge.compiler.errors import QuantiseError
from sitsedge.compiler.graph import integer_weighted as iw
from sitsedge.compiler.graph.float_graph import Affine, Conv, Dense, Floats
from sitsedge.compiler.graph.intervals import ValueBounds, node_bounds
from sitsedge.compiler.quantiser.fine import FINE_IN_SHIFT_MAX, FINE_WEIGHT_MAX, doubled_bounds, split
from sitsedge.compiler.quantiser.formats import Format, Value
from sitsedge.compiler.quantiser.ranges import reach
from sitsedge.compiler.quantiser.weights import Layer, as_layer, integer_weights, patches
from sitsedge.compiler.reference import (
    IN_SHIFT_MAX,
    INT16_MAX,
    INT32_MAX,
    INT32_MIN,
    SHIFT_MAX,
    WEIGHT_MAX,
    Ints,
)

BIAS_MAX = float(1 << 29)
"""A gain is kept so small that no bias or sum passes it; the rest of int32 is for the partial sums."""

SUM_LEAST = 1e-200
"""Smaller sums count as this: a channel that is always 0 has no scale of its own."""

HALVINGS_MAX = 6
"""Weights are halved at most this often to bring a wide sum into int32; one bit of weight is left then."""

Fits = dict[tuple[str, int], tuple[Ints, Ints]]
"""Weights and bias of nodes that read the input and have a free gain, by name and largest weight: the same in every
trial."""


@dataclass(frozen=True, slots=True, eq=False)
class _Scaled:
    """Weights per count of the source, exponents of the source's channels, and of every output: gain and shift."""

    wanted: Floats
    in_shift: Ints
    gain: Floats
    shift: Ints


def make_weighted(
    node: Dense | Conv | Affine,
    name: str,
    source: str,
    value: Value,
    *,
    format_: Format,
    factors: Floats | None,
    sums: Floats,
    first: bool,
    last: bool,
    fits: Fits,
    fitted: bool = True,
) -> tuple[iw.Dense | iw.Conv, Floats]:
    """The integer node and the physical value of one count of each of its channels (out,).

    ``factors`` are given where they are not free. With ``format_.fine`` the node reads ``source`` with the channels of
    ``value`` twice, as ``fine.twice`` orders them. Raises ``QuantiseError`` (``output-scale``, ``accumulator-width``).
    """
    shape = tuple(value.counts.shape[1:])
    layer = as_layer(node, shape[:1] if isinstance(node, Affine) and len(node.shape) == 1 else shape)
    bounds = doubled_bounds(layer, value.bounds) if format_.fine else value.bounds
    for halvings in range(HALVINGS_MAX + 1):
        weight_max = (FINE_WEIGHT_MAX if format_.fine else WEIGHT_MAX) >> halvings
        scaled = _scale(layer, value, format_=format_, factors=factors, sums=sums, first=first, weight_max=weight_max)
        key = (name, weight_max)
        if first and factors is None and key in fits:
            weights, bias = fits[key]
        else:
            weights, bias = _fit(layer, scaled, value, sums=sums, first=first, weight_max=weight_max, fitted=fitted)
        if first and factors is None:
            fits[key] = (weights, bias)
        made = _node(node, name, source, layer, weights, bias, scaled, fine=format_.fine)
        acc = node_bounds(made, bounds).accumulator
        assert acc is not None, "weighted nodes accumulate"
        if acc.partial_low.min() >= INT32_MIN and acc.partial_high.max() <= INT32_MAX:
            break
    shift = scaled.shift
    if not last and not format_.saturate and factors is None:
        # The proven bound, not the data, decides what an int16 must hold.
        shift = _roomy(layer, made, bounds, scaled)
    real = np.exp2(shift) / scaled.gain
    low, high = _limits(layer, made, bounds, format_, real, shift, last=last)
    limits = {"shift": shift, "low": low, "high": high}
    return _node(node, name, source, layer, weights, bias, scaled, fine=format_.fine, **limits), real


def least_factor(node: Dense | Conv | Affine, value: Value) -> float:
    """Finest physical value of a count that weights can reach behind ``value``, all sources shifted up."""
    shape = tuple(value.counts.shape[1:])
    layer = as_layer(node, shape[:1] if isinstance(node, Affine) and len(node.shape) == 1 else shape)
    largest = float(np.abs(_per_count(layer, value, np.zeros(layer.source[0], np.int64))).max())
    return largest / (WEIGHT_MAX * 2.0 ** (IN_SHIFT_MAX - 1))


def _scale(
    layer: Layer,
    value: Value,
    *,
    format_: Format,
    factors: Floats | None,
    sums: Floats,
    first: bool,
    weight_max: int,
) -> _Scaled:
    shift_max = FINE_IN_SHIFT_MAX if format_.fine else IN_SHIFT_MAX
    in_shift = _column_shifts(layer, value, shift_max) if first else np.zeros(layer.source[0], np.int64)
    wanted = _per_count(layer, value, in_shift)
    largest = np.abs(wanted).reshape(len(wanted), -1).max(axis=1)
    outputs = sums.reshape(len(sums), layer.result[0], -1).transpose(0, 2, 1).reshape(-1, layer.result[0])
    seen = np.maximum(np.abs(outputs).max(axis=0), np.abs(layer.bias))
    cap = BIAS_MAX / np.maximum(seen, SUM_LEAST)
    if factors is None:
        tops = reach(
            np.clip(outputs, layer.low, layer.high),
            rule=format_.rule,
            largest_count=format_.largest,
            saturates=format_.saturate,
        )
        tops = np.where(tops > 0, tops, np.where(seen > 0, seen, 1.0))
        # Where no weight is left, a count is a step of the constant.
        gain = np.minimum(np.where(largest > 0, weight_max / np.where(largest > 0, largest, 1.0), 1 / tops), cap)
        gain = np.where(largest > 0, gain, np.minimum(format_.largest / tops, cap))
        over = np.ceil(np.log2(np.maximum(tops * gain, 1.0) / format_.largest) - 1e-9)
        return _Scaled(wanted, in_shift, gain, np.clip(over, 0, SHIFT_MAX).astype(np.int64))
    most = np.where(largest > 0, weight_max * factors / np.where(largest > 0, largest, 1.0), 2.0**SHIFT_MAX)
    room = np.floor(np.log2(most))
    room = np.minimum(room, np.floor(np.log2(np.maximum(cap * factors, 0.5))))
    lacking = int(-min(room.min(), 0.0))
    if lacking:
        # Counts finer than one weight step: multiply the source up, exactly, by a power of two.
        in_shift = in_shift + lacking
        if in_shift.max() > shift_max:
            raise QuantiseError(
                "output-scale",
                found=f"a count of {factors[int(np.argmin(room))]:g} behind weights up to {largest.max():g}",
                expected=f"at most 2^{shift_max} counts per step of the layer before",
                hint="choose a coarser scale for this output in the limits file",
            )
        wanted, room = wanted * 2.0**-lacking, room + lacking
    shift = np.clip(room, 0, SHIFT_MAX).astype(np.int64)
    return _Scaled(wanted, in_shift, np.exp2(shift) / factors, shift)


def _per_count(layer: Layer, value: Value, in_shift: Ints) -> Floats:
    """Weights for shifted counts of the source; none where a channel is proven to be 0."""
    channels = layer.source[0]
    real = value.real.reshape(channels, -1)[:, 0] * np.exp2(-in_shift)
    dead = ~(np.any(value.bounds.low, axis=_rest(value)) | np.any(value.bounds.high, axis=_rest(value)))
    per_group = np.where(dead, 0.0, real).reshape(layer.groups, -1)
    each = np.repeat(per_group, layer.result[0] // layer.groups, axis=0)
    return np.asarray(layer.weights * each[:, :, None, None])


def _rest(value: Value) -> tuple[int, ...]:
    return tuple(range(1, value.bounds.low.ndim))


def _column_shifts(layer: Layer, value: Value, shift_max: int) -> Ints:
    """Exponents that bring narrow inputs nearer to the widest, so that one int8 row serves all of them."""
    spread = value.counts.reshape(len(value.counts), layer.source[0], -1).std(axis=(0, 2))
    width = np.maximum(spread, 1.0)
    if layer.groups == layer.source[0]:
        return np.zeros(width.size, np.int64)
    shifts: Ints = np.clip(np.floor(np.log2(width.max() / width)), 0, shift_max).astype(np.int64)
    return shifts


def _fit(
    layer: Layer, scaled: _Scaled, value: Value, *, sums: Floats, first: bool, weight_max: int, fitted: bool
) -> tuple[Ints, Ints]:
    shaped = scaled.in_shift.reshape(-1, *(1,) * (value.counts.ndim - 2))
    seen = patches(layer, value.counts << shaped, sums)
    box = None
    if first:
        low, high = (
            np.broadcast_to(end.reshape(layer.source[0], -1).mean(axis=1) * np.exp2(scaled.in_shift), layer.source[0])
            for end in (value.bounds.low, value.bounds.high)
        )
        columns = layer.weights.shape[2] * layer.weights.shape[3]
        mean = np.repeat(((low + high) / 2).reshape(layer.groups, -1), columns, axis=1)
        variance = np.repeat(np.maximum((high - low) ** 2 / 12, 1.0).reshape(layer.groups, -1), columns, axis=1)
        box = (mean, variance)
    return integer_weights(
        layer, scaled.wanted * _column(scaled.gain), scaled.gain, seen, box=box, weight_max=weight_max, fit=fitted
    )


def _column(values: Floats) -> Floats:
    return values[:, None, None, None]


def _node(
    node: Dense | Conv | Affine,
    name: str,
    source: str,
    layer: Layer,
    weights: Ints,
    bias: Ints,
    scaled: _Scaled,
    *,
    fine: bool,
    shift: Ints | None = None,
    low: object = INT32_MIN,
    high: object = INT32_MAX,
) -> iw.Dense | iw.Conv:
    shifts = scaled.shift if shift is None else shift
    in_shift = scaled.in_shift
    if fine:
        weights, in_shift = split(layer, weights, in_shift)
    if isinstance(node, Dense):
        return iw.Dense.make(
            name, source, weights=weights[:, :, 0, 0], bias=bias, shift=shifts, in_shift=in_shift, low=low, high=high
        )
    return iw.Conv.make(
        name, source, weights=weights, bias=bias, shift=shifts, in_shift=in_shift, low=low, high=high,
        strides=layer.strides, pads=layer.pads, dilations=layer.dilations, groups=layer.groups,
    )  # fmt: skip


def _roomy(layer: Layer, made: iw.Dense | iw.Conv, bounds: ValueBounds, scaled: _Scaled) -> Ints:
    """Shifts under which every value inside its limits is proven to fit int16."""
    real = np.exp2(scaled.shift) / scaled.gain
    top = np.minimum(layer.high / real, _channel_most(node_bounds(made, bounds).high))
    bottom = np.maximum(layer.low / real, -_channel_most(-node_bounds(made, bounds).low))
    # Rounding may add one half to what the limits let through.
    excess = (np.maximum(np.abs(top), np.abs(bottom)) + 1.0) / INT16_MAX
    more = np.ceil(np.log2(np.maximum(excess, 1.0))).astype(np.int64)
    return np.asarray(np.minimum(scaled.shift + more, SHIFT_MAX))


def _channel_most(values: Ints) -> Ints:
    return np.asarray(values.reshape(len(values), -1).max(axis=1))


def _limits(
    layer: Layer,
    made: iw.Dense | iw.Conv,
    bounds: ValueBounds,
    format_: Format,
    real: Floats,
    shift: Ints,
    *,
    last: bool,
) -> tuple[Ints, Ints]:
    """Clamp of every channel in counts: the activation's limits, and the format's where the value saturates."""
    low = np.clip(np.rint(layer.low / real), INT32_MIN, INT32_MAX)
    high = np.clip(np.rint(layer.high / real), INT32_MIN, INT32_MAX)
    if not last:
        largest = format_.largest
        if not format_.saturate:
            free = node_bounds(made, bounds).accumulator
            assert free is not None, "weighted nodes accumulate"
            out_low = np.maximum(_channel_least(free.acc_low) / np.exp2(shift), low)
            out_high = np.minimum(_channel_most(free.acc_high) / np.exp2(shift), high)
            inside = np.all(out_low >= -INT16_MAX) and np.all(out_high <= INT16_MAX - 1)
            largest = INT32_MAX if inside else INT16_MAX
        if largest < INT32_MAX:
            low, high = np.clip(low, -largest, largest), np.clip(high, -largest, largest)
    return low.astype(np.int64), high.astype(np.int64)


def _channel_least(values: Ints) -> Ints:
    return np.asarray(values.reshape(len(values), -1).min(axis=1))
